//! Memory of the files that were read, in terms of places of the trie, until those are resolved.

use super::tally::NodeIndex;
use crate::memory::{Block, Lifetimes, Memory, MemoryAmount, MemorySum, ProcessMemory};
use crate::model::{ProcessId, StackId};
use rustc_hash::FxHashMap;

/// Memory of all files so far, in terms of places of the trie.
#[derive(Default)]
pub(super) struct RawMemory {
    pub(super) sums: FxHashMap<(usize, NodeIndex), RawSum>,
    pub(super) blocks: Vec<RawBlock>,
    pub(super) processes: Vec<RawProcess>,
}

#[derive(Clone, Copy, Default)]
pub(super) struct RawSum {
    pub(super) allocated: MemoryAmount,
    pub(super) freed: (u64, f64, f64),
    pub(super) lifetimes: Lifetimes,
}

pub(super) struct RawBlock {
    pub(super) process: usize,
    pub(super) node: NodeIndex,
    pub(super) size: u64,
    pub(super) interval: u64,
    pub(super) allocated_realtime_ns: u64,
    pub(super) freed_realtime_ns: Option<u64>,
    pub(super) inherited: bool,
    pub(super) at_peak: bool,
    /// Address and raw time of the allocation.
    pub(super) identity: (u64, u64),
}

/// A process; times are nanoseconds since 1970 until [`RawMemory::finish`].
pub(super) struct RawProcess {
    pub(super) process: usize,
    pub(super) memory: ProcessMemory,
}

impl RawMemory {
    /// Adds what was read of a file.
    pub(super) fn add(&mut self, more: Self) {
        self.sums.extend(more.sums);
        self.blocks.extend(more.blocks);
        self.processes.extend(more.processes);
    }

    /// Everything in terms of the profile. `start` is the profile's, nanoseconds since 1970.
    pub(super) fn finish(
        self,
        start: u64,
        processes: &[ProcessId],
        stack_of: impl Fn(NodeIndex) -> StackId,
    ) -> Memory {
        let since = |realtime_ns: u64| realtime_ns.saturating_sub(start);
        let mut sums: Vec<MemorySum> = self
            .sums
            .into_iter()
            .map(|((process, node), sum)| MemorySum {
                process: processes[process],
                stack: stack_of(node),
                allocated: sum.allocated,
                freed: sum.freed,
                lifetimes: sum.lifetimes,
            })
            .collect();
        sums.sort_by_key(|sum| (sum.process, sum.stack));
        let mut coarsest: FxHashMap<usize, u64> = FxHashMap::default();
        for RawProcess { process, memory } in &self.processes {
            let most = coarsest.entry(*process).or_default();
            *most = memory.coarsest_interval().max(*most);
        }
        let blocks = self.blocks.into_iter().map(|block| Block {
            process: processes[block.process],
            stack: stack_of(block.node),
            size: block.size,
            interval: block.interval,
            coarsest_interval: coarsest
                .get(&block.process)
                .map_or(block.interval, |most| block.interval.max(*most)),
            allocated_ns: since(block.allocated_realtime_ns),
            freed_ns: block.freed_realtime_ns.map(since),
            inherited: block.inherited,
            at_peak: block.at_peak,
            identity: block.identity,
        });
        let about = self.processes.into_iter().map(|RawProcess { process, mut memory }| {
            memory.process = processes[process];
            memory.end_ns = since(memory.end_ns);
            memory.peak_ns = memory.peak_ns.map(since);
            memory.log_from_ns = memory.log_from_ns.map(since);
            for level in &mut memory.levels {
                level.time_ns = since(level.time_ns);
            }
            for mark in &mut memory.marks {
                mark.time_ns = since(mark.time_ns);
            }
            memory
        });
        Memory { sums, blocks: blocks.collect(), processes: about.collect() }
    }
}
