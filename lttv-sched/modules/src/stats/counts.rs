//! What was counted over a trace, and its sums by one thing or another.

use std::collections::BTreeMap;
use std::sync::Arc;

use lttv_engine::time::Time;

use super::branches::{Branch, Branches, ThreadInfo};
use crate::state::{Mode, activity};

/// The statistics of a trace.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Stats {
    /// Names of events.
    pub names: Vec<Arc<str>>,
    /// What was counted, by branch, and the threads of the branches.
    pub branches: Branches,
    /// For each CPU and thread number, the time from each switch to it to the next switch on that CPU, in ns.
    /// Before the first switch and after the last nothing is counted.
    pub run_ns: BTreeMap<(u32, i64), i64>,
    /// Switches of each CPU.
    pub switches: BTreeMap<u32, u64>,
    /// Time of the first and last event.
    pub span: Option<(Time, Time)>,
    /// Events by channel, those without an event too.
    pub channels: BTreeMap<Arc<str>, u64>,
    /// For each CPU, the part of the CPU time above that was accounted while events of that CPU had been lost
    /// and no switch had been seen on it since, in ns: what ran there then is not sure.
    pub in_doubt: BTreeMap<u32, i64>,
}

impl Stats {
    /// Number of events.
    pub fn total(&self) -> u64 {
        self.branches.iter().map(|branch| branch.total()).sum()
    }

    /// Events by name.
    pub fn by_name(&self) -> BTreeMap<Arc<str>, u64> {
        let mut counts = vec![0; self.names.len()];
        for (name, count) in self.branches.iter().flat_map(|branch| branch.events()) {
            if let Some(sum) = counts.get_mut(name as usize) {
                *sum += count;
            }
        }
        let counts = self.names.iter().cloned().zip(counts);
        counts.filter(|(_, count)| *count > 0).collect()
    }

    /// Events by CPU; the key is absent for those whose CPU is not known.
    pub fn by_cpu(&self) -> BTreeMap<Option<u32>, u64> {
        let mut counts = BTreeMap::new();
        for branch in self.branches.iter() {
            *counts.entry(branch.cpu).or_default() += branch.total();
        }
        counts
    }

    /// Events and CPU time (ns) by mode.
    pub fn by_mode(&self) -> BTreeMap<Mode, (u64, i64)> {
        sums_by(self.branches.iter(), |branch| branch.mode)
    }

    /// Events and CPU time (ns) by what was done, in the words of [`crate::state::activity`].
    pub fn by_activity(&self) -> BTreeMap<&'static str, (u64, i64)> {
        self.by_activity_of(|_| true)
    }

    /// The same of some branches.
    pub fn by_activity_of(&self, wanted: impl Fn(&Branch<'_>) -> bool) -> BTreeMap<&'static str, (u64, i64)> {
        let threads = self.branches.threads();
        let key = |branch: &Branch<'_>| {
            let tid = branch.thread.map_or(-1, |thread| threads[thread].key.tid);
            activity(branch.mode, branch.submode, tid)
        };
        sums_by(self.branches.iter().filter(wanted), key)
    }

    /// Time on a CPU of each thread, whether its mode was known or not, in ns.
    pub fn cpu_time_by_thread(&self) -> impl Iterator<Item = (&ThreadInfo, i64)> {
        self.cpu_time_by_thread_of(|_| true)
    }

    /// The same of some branches.
    pub fn cpu_time_by_thread_of(
        &self,
        wanted: impl Fn(&Branch<'_>) -> bool,
    ) -> impl Iterator<Item = (&ThreadInfo, i64)> {
        let mut times = vec![0; self.branches.threads().len()];
        for branch in self.branches.iter().filter(wanted) {
            if let Some(thread) = branch.thread {
                times[thread] += branch.cpu_time + branch.unknown_time;
            }
        }
        self.branches.threads().iter().zip(times)
    }
}

/// Events and CPU time (ns) of branches by a key.
fn sums_by<'s, K: Ord>(
    branches: impl Iterator<Item = Branch<'s>>,
    key: impl Fn(&Branch<'s>) -> K,
) -> BTreeMap<K, (u64, i64)> {
    let mut sums: BTreeMap<K, (u64, i64)> = BTreeMap::new();
    for branch in branches {
        let sum = sums.entry(key(&branch)).or_default();
        sum.0 += branch.total();
        sum.1 += branch.cpu_time + branch.unknown_time;
    }
    sums
}
