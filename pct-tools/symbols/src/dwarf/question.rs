//! What is asked of an image's debug information, and what its walkers share.

use std::sync::atomic::AtomicBool;

use gimli::{EndianSlice, RunTimeEndian};

use crate::answers::{LocalPlace, NO_TEXT};
use crate::demangle::demangle;
use crate::image::Image;
use crate::symtab::Found;

pub(crate) type Slice<'a> = EndianSlice<'a, RunTimeEndian>;
pub(crate) type Dwarf<'a> = gimli::Dwarf<Slice<'a>>;

/// An address that debug information knows no function for; file and line if it knows at least these.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rest {
    /// Index into the addresses that were asked.
    pub(crate) index: usize,
    /// Number of the file's text, or [`NO_TEXT`].
    pub(crate) file: u32,
    pub(crate) line: u32,
    pub(crate) column: u32,
    /// Of the first instruction of the symbol that the address lies in.
    pub(crate) declared: LocalPlace,
}

impl Rest {
    pub(crate) fn nothing(index: usize) -> Rest {
        Rest { index, file: NO_TEXT, line: 0, column: 0, declared: LocalPlace::NONE }
    }
}

/// What is asked of an image.
pub(crate) struct Question<'a> {
    pub(crate) image: &'a Image,
    /// The supplementary file of dwz, if there is one.
    pub(crate) sup: Option<&'a Image>,
    /// Image addresses, ascending, distinct.
    pub(crate) addresses: &'a [u64],
    /// How each address is called in the answers.
    pub(crate) asked: &'a [u64],
    pub(crate) threads: usize,
    /// Set when a name is in the supplementary file and that is not there.
    pub(crate) missed: AtomicBool,
    /// The symbol that holds an address: for functions that only line tables know, and for those whose entries tell
    /// no linker name.
    pub(crate) symbol: &'a (dyn Fn(u64) -> Option<Found> + Sync),
}

/// The readable name of a function whose entry tells only a plain one, by the symbol at its code. None if the symbol
/// is no mangled name, or one of another function (linkers put functions with equal code together).
pub(super) fn name_by_symbol(plain: &str, symbol: &str) -> Option<String> {
    // Compilers hang `.constprop.0`, `.isra.0` or `.cold` on the names of what they made of a function.
    let mangled = symbol.split('.').next().filter(|s| s.starts_with("_Z") || s.starts_with("_R"))?;
    let readable = demangle(mangled);
    let base = match plain.strip_prefix("operator") {
        Some(_) => "operator",
        None => plain.split('<').next()?,
    };
    (readable != mangled && readable.contains(base)).then(|| readable.into_owned())
}
