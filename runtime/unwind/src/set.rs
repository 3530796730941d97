//! The executable regions of the process at one time, and their unwind data.

use super::cfi::Fde;
use super::paged_table::{PagedTable, Reading};
use super::reader::Lack;
use super::rule::{Rule, RuleKind};
use super::table::{Functions, Table};

/// The unwind data of an object. What is copied page by page asks `may_copy` for each page that is not there yet.
#[derive(Clone, Copy, Debug)]
pub enum AnyTable<'a> {
    /// All of it is there.
    Whole(&'a Table<'a>),
    /// Its pages are copied when they are read.
    Paged(&'a PagedTable),
}

impl<'a> AnyTable<'a> {
    /// The FDE that covers `pc`.
    ///
    /// # Errors
    /// [`Lack::Nothing`]: none does.
    pub fn find(self, pc: u64, may_copy: impl FnMut() -> bool) -> Result<Fde<'a>, Lack> {
        match self {
            AnyTable::Whole(mut table) => Functions::find(&mut table, pc),
            AnyTable::Paged(table) => Reading { table, may_copy }.find(pc),
        }
    }

    /// The code around `pc` that no FDE covers, as [`Table::gap`].
    ///
    /// # Errors
    /// [`Lack::Nothing`]: an FDE covers it.
    pub fn gap(self, pc: u64, may_copy: impl FnMut() -> bool) -> Result<(u64, u64), Lack> {
        match self {
            AnyTable::Whole(mut table) => Functions::gap(&mut table, pc),
            AnyTable::Paged(table) => Reading { table, may_copy }.gap(pc),
        }
    }
}

/// An executable region.
#[derive(Clone, Copy, Debug)]
pub struct Entry<'a> {
    /// First address.
    pub start: u64,
    /// Address behind the last.
    pub end: u64,
    /// Unwind data of its object. `None`: the object has no unwind data, and frame pointers may serve.
    pub table: Option<AnyTable<'a>>,
    /// None were found at the first look: perhaps the loader was still mapping the object, or they must be looked for
    /// by their shape. It is looked at once more when a walk needs them
    /// ([`Registry::look_once_more`](crate::Registry::look_once_more)).
    pub unsure: bool,
    /// It is mapped from a file. Otherwise its code was made at run time, or is the kernel's.
    pub of_file: bool,
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
    ///
    /// # Errors
    /// The data are there and cannot be read, or not now.
    pub fn rule(&self, pc: u64, may_copy: impl FnMut() -> bool) -> Result<Rule, Lack> {
        let Some(entry) = self.region(pc) else { return Ok(Rule::plain(RuleKind::Unknown)) };
        let Some(table) = entry.table else { return Ok(Rule::plain(RuleKind::Fp)) };
        match table.find(pc, may_copy) {
            Ok(fde) => Ok(Rule::compile(&fde, pc)),
            Err(Lack::Nothing) => Ok(Rule::plain(RuleKind::Fp)),
            Err(lack) => Err(lack),
        }
    }

    /// The code around `pc` for which its object has no unwind data though it has some for others: from its first
    /// address to the one behind its last.
    ///
    /// # Errors
    /// [`Lack::Nothing`]: its object has none at all, or has some for it.
    pub fn gap(&self, pc: u64, may_copy: impl FnMut() -> bool) -> Result<(u64, u64), Lack> {
        let region = self.region(pc).ok_or(Lack::Nothing)?;
        let (from, to) = region.table.ok_or(Lack::Nothing)?.gap(pc, may_copy)?;
        Ok((from.max(region.start), to.min(region.end)))
    }

    /// The FDE that covers `pc`.
    ///
    /// # Errors
    /// [`Lack::Nothing`]: none does.
    pub fn fde(&self, pc: u64, may_copy: impl FnMut() -> bool) -> Result<Fde<'a>, Lack> {
        self.region(pc).and_then(|region| region.table).ok_or(Lack::Nothing)?.find(pc, may_copy)
    }
}
