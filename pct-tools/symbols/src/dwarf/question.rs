//! A question to an image's debug information, and what its walkers share.

use std::sync::atomic::AtomicBool;

use gimli::{EndianSlice, RunTimeEndian};

use crate::answers::{LocalPlace, NO_TEXT};
use crate::demangle::demangle;
use crate::image::Image;
use crate::symtab::FoundSymbol;

pub(crate) type Slice<'a> = EndianSlice<'a, RunTimeEndian>;
pub(crate) type Dwarf<'a> = gimli::Dwarf<Slice<'a>>;

/// An address for which debug information has no function, with file and line if it has at least these.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rest {
    /// Index of the address in the question.
    pub(crate) index: usize,
    /// Number of the file's text, or [`NO_TEXT`].
    pub(crate) file: u32,
    pub(crate) line: u32,
    pub(crate) column: u32,
    /// Source position of the first instruction of the symbol that contains the address.
    pub(crate) declared: LocalPlace,
}

impl Rest {
    pub(crate) fn nothing(index: usize) -> Rest {
        Rest { index, file: NO_TEXT, line: 0, column: 0, declared: LocalPlace::NONE }
    }
}

/// A question to an image's debug information.
pub(crate) struct Question<'a> {
    pub(crate) image: &'a Image,
    /// The supplementary file of dwz, if any.
    pub(crate) sup: Option<&'a Image>,
    /// Image addresses, ascending, distinct.
    pub(crate) addresses: &'a [u64],
    /// The name of each address in the answers.
    pub(crate) asked: &'a [u64],
    pub(crate) threads: usize,
    /// Set when a name is in a supplementary file that was not found.
    pub(crate) missed: AtomicBool,
    /// Finds the symbol that contains an address: for functions that only line tables cover, and for those whose
    /// entries have no linker name.
    pub(crate) symbol: &'a (dyn Fn(u64) -> Option<FoundSymbol> + Sync),
}

/// The readable name of a function whose entry has only a plain name, from the symbol of its code. None: the symbol
/// is not a mangled name, or it is another function's (linkers merge functions with equal code).
pub(super) fn name_by_symbol(plain: &str, symbol: &str) -> Option<String> {
    // Compilers append `.constprop.0`, `.isra.0` or `.cold` to the names of variants of a function.
    let mangled = symbol.split('.').next().filter(|s| s.starts_with("_Z") || s.starts_with("_R"))?;
    let readable = demangle(mangled);
    let base = match plain.strip_prefix("operator") {
        Some(_) => "operator",
        None => plain.split('<').next()?,
    };
    (readable != mangled && readable.contains(base)).then(|| readable.into_owned())
}
