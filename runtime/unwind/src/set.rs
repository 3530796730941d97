//! The executable regions of the process at one time, and what is known to unwind them.

use super::cfi::Fde;
use super::reader::Section;
use super::rule::{Kind, Rule};
use super::table::Table;

/// An executable region.
#[derive(Clone, Copy, Debug)]
pub struct Entry<'a> {
    /// First address.
    pub start: u64,
    /// Address behind the last.
    pub end: u64,
    /// Unwind data of the object that it belongs to; `None`: there is none, frame pointers may do.
    pub table: Option<&'a Table<'a>>,
}

/// Regions sorted by address, without overlap.
#[derive(Clone, Copy, Debug)]
pub struct Set<'a> {
    /// The regions.
    pub entries: &'a [Entry<'a>],
    /// Number of the set: no two sets of a process share one. Part of the cache's key.
    pub generation: u64,
}

impl<'a> Set<'a> {
    /// The region that holds `pc`.
    pub fn region(&self, pc: u64) -> Option<&'a Entry<'a>> {
        let mut at = 0;
        let mut left = self.entries.len();
        while left > 0 {
            let half = left / 2;
            if self.entries.get(at + half)?.end <= pc {
                at += half + 1;
                left -= half + 1;
            } else {
                left = half;
            }
        }
        self.entries.get(at).filter(|e| e.start <= pc)
    }

    /// The rule for the instruction at `pc`, by the unwind data alone.
    pub fn rule(&self, pc: u64) -> Rule {
        match self.region(pc) {
            None => Rule::plain(Kind::Unknown),
            Some(entry) => entry.table.and_then(|t| t.rule(pc)).unwrap_or(Rule::plain(Kind::Fp)),
        }
    }

    /// The FDE that covers `pc`, with the section that it stands in.
    pub fn fde(&self, pc: u64) -> Option<(Section<'a>, Fde)> {
        let table = self.region(pc)?.table?;
        Some((*table.eh_frame(), table.find(pc)?))
    }
}
