//! What is known of a process as a whole: how its allocations were sampled, what was not seen, what its memory is.

use super::MemoryAmount;
use crate::ids::ProcessId;
use pct_symbols::allocator::Inside;

/// Who serves malloc.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Server {
    /// In words: "the C library"; empty = not known.
    pub kind: String,
    /// The path of its object, where known.
    pub path: String,
    /// Its calls do not pass through us: what is shown is not the program's heap.
    pub unseen: bool,
    /// An allocator that the program carries inside, found in its file.
    pub inside: Option<Inside>,
}

/// What was not seen, or not kept.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct MemoryLosses {
    /// Samples that found no place among the live blocks, and the octets that they stand for.
    pub untracked: (u64, f64),
    /// Sampled blocks whose free was not seen: their address was given out again.
    pub missed_frees: u64,
    /// Samples without a stack.
    pub without_stack: u64,
    /// Samples that only the totals have.
    pub without_sum: u64,
    /// Samples dropped because they came while another was taken.
    pub nested: u64,
    /// Calls before the sampler was ready.
    pub early_calls: u64,
    /// Samples of countdowns that threads share.
    pub shared: u64,
    /// Entries of the file that are damaged and were left out.
    pub damaged: u64,
    /// Entries that were being written when the file was taken.
    pub half_written: u64,
}

impl MemoryLosses {
    /// What was lost here or there.
    #[must_use]
    pub fn and(&self, other: &Self) -> Self {
        Self {
            untracked: (
                self.untracked.0.saturating_add(other.untracked.0),
                self.untracked.1 + other.untracked.1,
            ),
            missed_frees: self.missed_frees.saturating_add(other.missed_frees),
            without_stack: self.without_stack.saturating_add(other.without_stack),
            without_sum: self.without_sum.saturating_add(other.without_sum),
            nested: self.nested.saturating_add(other.nested),
            early_calls: self.early_calls.saturating_add(other.early_calls),
            shared: self.shared.saturating_add(other.shared),
            damaged: self.damaged.saturating_add(other.damaged),
            half_written: self.half_written.saturating_add(other.half_written),
        }
    }
}

/// What the memory of a process was at an instant, in octets; `None` = not known.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Level {
    /// Nanoseconds since the profile's start.
    pub time_ns: u64,
    /// Estimate of what is live.
    pub live: u64,
    /// Estimate of what was allocated since the start.
    pub allocated: u64,
    /// Resident anonymous memory.
    pub resident_anonymous: Option<u64>,
    /// Resident pages of files: code, data, mapped files, our own recording.
    pub resident_files: Option<u64>,
    /// Resident shared memory.
    pub resident_shared: Option<u64>,
    /// Thread stacks.
    pub stacks: Option<u64>,
    /// What the allocator has from the kernel and has given to nobody.
    pub slack: Option<u64>,
}

impl Level {
    /// All resident memory, as far as it is known.
    #[must_use]
    pub fn resident(&self) -> Option<u64> {
        let parts = [self.resident_anonymous, self.resident_files, self.resident_shared];
        let known = parts.iter().any(Option::is_some);
        known.then(|| parts.iter().flatten().fold(0, |sum: u64, part| sum.saturating_add(*part)))
    }
}

/// An instant that the program named (`pct_heap_mark`).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MemoryMark {
    /// Nanoseconds since the profile's start.
    pub time_ns: u64,
    /// Estimate of what was live then.
    pub live: u64,
    /// Its name.
    pub name: String,
}

/// A process whose allocations were sampled.
#[derive(Clone, PartialEq, Debug)]
pub struct ProcessMemory {
    /// Which.
    pub process: ProcessId,
    /// Average interval that was asked for, in octets.
    pub interval: u64,
    /// How often the interval was doubled at most: for the rate of samples, or for lack of places.
    pub most_shift: u32,
    /// How often it was doubled because samples came too fast.
    pub rate_rises: u64,
    /// Samples of busy sites that were left out because samples came too fast: others stand for them.
    pub left_out: u64,
    /// How often it was doubled because the table of live blocks was full.
    pub thinnings: u64,
    /// Seed of the draws.
    pub seed: u64,
    /// Path of the program, as its process had it.
    pub program: String,
    /// Who serves malloc.
    pub server: Server,
    /// Everything that was allocated since the start.
    pub allocated: MemoryAmount,
    /// When most was live, nanoseconds since the profile's start, where known.
    pub peak_ns: Option<u64>,
    /// A fork made it. What its parent had allocated before is the parent's, and not in its figures.
    pub is_forked: bool,
    /// Samples that the parent had live at the fork, and the octets that they stand for.
    pub inherited: (u64, f64),
    /// Octets of our own tables in the process.
    pub own_bytes: u64,
    /// What was not seen.
    pub losses: MemoryLosses,
    /// Its memory over time, oldest first.
    pub levels: Vec<Level>,
    /// Instants that the program named, oldest first.
    pub marks: Vec<MemoryMark>,
    /// From when on the log of allocations is complete, nanoseconds since the profile's start; `None` = there
    /// is no log.
    pub log_from_ns: Option<u64>,
    /// When the recording was written last, nanoseconds since the profile's start.
    pub end_ns: u64,
}

impl ProcessMemory {
    /// The largest interval in use so far.
    #[must_use]
    pub fn coarsest_interval(&self) -> u64 {
        self.interval.saturating_mul(1 << self.most_shift.min(40))
    }
}
