//! A thread that stands still, as the readers of interpreters see it, and an object that may be an interpreter.

use pct_elf::{Image, Symbols};
use pct_format::record::CutCause;
use pct_unwind::Placed;

/// Octets of a function's name, and of its file's, that are kept.
pub(super) const NAME_OCTETS: usize = 1024;

/// An object: its first address, its device and its inode.
pub(super) type Object = (u64, i32, i32, u64);

/// An object that was mapped since the last look.
pub(super) struct NewObject<'a> {
    pub(super) object: Object,
    /// Empty if it has none.
    pub(super) path: &'a [u8],
    pub(super) image: &'a Image,
    pub(super) symbols: &'a Symbols,
}

/// A thread that stands still.
pub(super) struct Still<'a> {
    /// Where it stands.
    pub(super) pc: u64,
    /// Its stack pointer.
    pub(super) sp: u64,
    /// Its callers, innermost first.
    pub(super) callers: &'a [Placed],
    /// Why there are no more of them.
    pub(super) cut: Option<CutCause>,
    /// Who it is.
    pub(super) thread: Who,
    /// What its registers hold, as far as it is known.
    pub(super) registers: &'a [u64],
}

/// Which thread it is.
pub(super) enum Who {
    /// Its control block is here.
    ControlBlock(u64),
    /// Its number, as its process sees it.
    Number(u32),
}
