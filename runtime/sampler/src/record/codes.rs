//! Table of the functions of interpreted languages that samples have met: key -> id, and what writing one needs.
//! [`crate::code::sample_codes`] fills it.
//!
//! Signal safety: loads; stores under try-locks; no waiting.

use core::sync::atomic::{AtomicU32, AtomicU64};

use pct_languages::v8::text::CountedLines;

use crate::record::table::Table;
use crate::sys::lock::Lock;

/// Places of the table to begin with.
const CODES: usize = 1 << 12;
/// Octets of a name that are kept.
const NAME_OCTETS: usize = 1024;
/// Octets of a line table in one record.
pub(crate) const PART_OCTETS: usize = 3500;

/// The table. All zeros is empty.
#[derive(Debug)]
#[repr(C)]
pub struct Codes {
    pub(crate) table: Table<CODES, 16>,
    /// Id of the newest.
    pub(crate) newest: AtomicU32,
    /// Words that they take in the file.
    pub(crate) words: AtomicU64,
    pub(crate) writer: Lock<Writer>,
}

/// What writing a function needs.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Writer {
    pub(crate) name: [u8; NAME_OCTETS],
    pub(crate) file: [u8; NAME_OCTETS],
    pub(crate) part: [u8; PART_OCTETS],
    /// Of a script of JavaScript.
    pub(crate) lines: CountedLines,
    pub(crate) record: [u64; 640],
}

impl Codes {
    /// Unmaps what it has beside itself. Nobody is in the session any more.
    pub fn unmap(&self) {
        self.table.unmap();
    }
}
