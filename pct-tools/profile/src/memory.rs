//! Memory: what was allocated in each stack, what of it is live, what was live at the peak, and what is not known.
//!
//! A recording has sums by stack since the start, and the sampled blocks that are live or were at the peak. Both become
//! [`Figures`] of a stack, which add: so trees and tables of memory are made by the same walks as those of CPU time
//! ([`crate::tree::Amount`]). Every figure is an estimate with an interval; `pct_num` has the mathematics.
//!
//! Invariant: a row names only processes and stacks of its profile.

mod figures;
pub mod process;

pub use crate::memory_views::cells::{MemoryCell, Selection, When};
pub use crate::memory_views::growth::{self, GrowthRow, MemoryDiff};
pub use crate::memory_views::rates::{self, RateRow, Rates};
pub use figures::{Figures, Lifetimes, Measure, MemoryAmount};
pub use process::{Level, MemoryLosses, MemoryMark, ProcessMemory, Server};

use crate::ids::{ProcessId, StackId};
use pct_num::{Estimate, float};

/// Everything that a recording says of memory.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    /// Sums since the start by process and stack. Folding ([`crate::fold`]) may leave several rows of one stack.
    pub sums: Vec<MemorySum>,
    /// Sampled blocks: those that are live, those that were live at the peak, and others that the log still has.
    pub blocks: Vec<Block>,
    /// What is known of each process whose allocations were sampled.
    pub processes: Vec<ProcessMemory>,
}

/// What one stack of a process allocated since the start.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct MemorySum {
    /// Which process.
    pub process: ProcessId,
    /// Where; the innermost frame is the caller of the allocator, or inside it.
    pub stack: StackId,
    /// Allocated.
    pub allocated: MemoryAmount,
    /// Samples, octets and blocks of it that were freed.
    pub freed: (u64, f64, f64),
    /// How long freed samples had lived.
    pub lifetimes: Lifetimes,
}

/// A sampled block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Block {
    /// Which process.
    pub process: ProcessId,
    /// Where it was asked for.
    pub stack: StackId,
    /// Octets asked for.
    pub size: u64,
    /// Average interval of sampling that it was taken at.
    pub interval: u64,
    /// The largest average interval of its process, at which others of its site may have been missed.
    pub coarsest_interval: u64,
    /// When, in nanoseconds since the profile's start.
    pub allocated_ns: u64,
    /// When it was freed; `None` = it is live.
    pub freed_ns: Option<u64>,
    /// The parent allocated it, before the fork.
    pub inherited: bool,
    /// It was live at its process's peak.
    pub at_peak: bool,
    /// Its address, and when it was allocated as the recording counts time: the same in each look at a recording that
    /// grows.
    pub identity: (u64, u64),
}

impl Block {
    /// Whether it was live at this instant, nanoseconds since the profile's start.
    #[must_use]
    pub fn is_live_at(&self, time_ns: u64) -> bool {
        self.allocated_ns <= time_ns && self.freed_ns.is_none_or(|freed| time_ns < freed)
    }
    /// What it stands for.
    #[must_use]
    pub fn held(&self) -> MemoryAmount {
        MemoryAmount {
            bytes: Estimate::of_bytes(self.size, self.interval).or_unseen(float(self.coarsest_interval)),
            blocks: Estimate::of_blocks(self.size, self.interval)
                .or_unseen(Estimate::of_blocks(self.size, self.coarsest_interval).unseen),
        }
    }
}

impl Memory {
    /// No process's allocations were sampled.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.processes.is_empty()
    }
    /// The coarsest interval in use: it decides what is too small to be seen.
    #[must_use]
    pub fn interval(&self) -> u64 {
        self.processes.iter().map(ProcessMemory::coarsest_interval).max().unwrap_or(0)
    }
    /// The coarsest interval that was asked for.
    #[must_use]
    pub fn interval_asked(&self) -> u64 {
        self.processes.iter().map(|process| process.interval).max().unwrap_or(0)
    }
    /// The stacks that its rows name, to be replaced by others.
    pub fn stacks_mut(&mut self) -> impl Iterator<Item = &mut StackId> {
        let sums = self.sums.iter_mut().map(|sum| &mut sum.stack);
        sums.chain(self.blocks.iter_mut().map(|block| &mut block.stack))
    }
    /// The stacks that its rows name.
    pub fn stacks(&self) -> impl Iterator<Item = StackId> {
        self.sums.iter().map(|sum| sum.stack).chain(self.blocks.iter().map(|block| block.stack))
    }
}
