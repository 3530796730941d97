//! The executable regions of the process at one time, and their unwind data.

use super::cfi::Fde;
use super::reader::Section;
use super::rule::{Rule, RuleKind};
use super::table::Table;

/// An executable region.
#[derive(Clone, Copy, Debug)]
pub struct Entry<'a> {
    /// First address.
    pub start: u64,
    /// Address behind the last.
    pub end: u64,
    /// Unwind data of its object. `None`: the object has no unwind data, and frame pointers may serve.
    pub table: Option<&'a Table<'a>>,
    /// The object had none when it was looked at, perhaps because the loader was still mapping it. It is looked at once
    /// more when a walk needs them ([`Registry::look_once_more`](crate::Registry::look_once_more)).
    pub unsure: bool,
}

/// Regions sorted by address, without overlap.
#[derive(Clone, Copy, Debug)]
pub struct Set<'a> {
    /// The regions.
    pub entries: &'a [Entry<'a>],
    /// Number of the set. No two sets of a process share one. It is part of the cache's key.
    pub generation: u64,
}

impl<'a> Set<'a> {
    /// The region that contains `pc`.
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

    /// The rule for the instruction at `pc`, from the unwind data alone.
    pub fn rule(&self, pc: u64) -> Rule {
        match self.region(pc) {
            None => Rule::plain(RuleKind::Unknown),
            Some(entry) => entry.table.and_then(|t| t.rule(pc)).unwrap_or(Rule::plain(RuleKind::Fp)),
        }
    }

    /// The code around `pc` for which its object has no unwind data though it has some for others: from its first
    /// address to the one behind its last.
    pub fn gap(&self, pc: u64) -> Option<(u64, u64)> {
        let region = self.region(pc)?;
        let (from, to) = region.table?.gap(pc)?;
        Some((from.max(region.start), to.min(region.end)))
    }

    /// The FDE that covers `pc`, with its section.
    pub fn fde(&self, pc: u64) -> Option<(Section<'a>, Fde)> {
        let table = self.region(pc)?.table?;
        Some((*table.eh_frame(), table.find(pc)?))
    }
}
