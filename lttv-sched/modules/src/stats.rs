//! Counts of events and CPU time: by event, CPU, process and mode.
//!
//! While a pass runs each CPU has a current branch: what runs on it, in which mode. Events are counted in the branch of their
//! CPU as it was before them; at each change of the state the time since the last change goes to the branch that ends.
//! Totals are formed once, when the pass is over; the attribute tree only when somebody asks for it ([`tree_of`]), as it is
//! many times larger than what it is made of.

mod branches;
mod collect;
mod tree;
mod window;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use lttv_engine::call::EndReason;
use lttv_engine::hooks::{
    Flow, Hook, HookKey, PRIORITY_DEFAULT, PRIORITY_STATS_AFTER, PRIORITY_STATS_BEFORE,
};
use lttv_engine::module::{Module, ModuleHooks};
use lttv_engine::source::{EventId, Source};
use lttv_engine::time::Time;

use crate::state::{self, Mode, SystemState, activity, kind_of};
use collect::Collector;

/// Name of the module and of its result, a [`Stats`].
pub const NAME: &str = "stats";

/// The statistics of a trace.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Stats {
    /// Names of events.
    pub names: Vec<Arc<str>>,
    /// What was counted, by branch, and the threads of the branches.
    pub branches: Branches,
    /// For each CPU and thread number, the time from each switch to it to the next switch on that CPU, in ns. Before the first
    /// switch and after the last nothing is counted.
    pub run_ns: BTreeMap<(u32, i64), i64>,
    /// Switches of each CPU.
    pub switches: BTreeMap<u32, u64>,
    /// Time of the first and last event.
    pub span: Option<(Time, Time)>,
    /// Events by channel, those without an event too.
    pub channels: BTreeMap<Arc<str>, u64>,
    /// For each CPU, the part of the CPU time above that was accounted while events of that CPU had been lost and no switch had
    /// been seen on it since, in ns: what ran there then is not sure.
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
        self.by(|branch| branch.mode)
    }

    /// Events and CPU time (ns) by what was done, in the words of [`crate::state::activity`].
    pub fn by_activity(&self) -> BTreeMap<&'static str, (u64, i64)> {
        let threads = self.branches.threads();
        self.by(|branch| {
            let tid = branch.thread.map_or(-1, |thread| threads[thread].key.tid);
            activity(branch.mode, branch.submode, tid)
        })
    }

    fn by<K: Ord>(&self, key: impl Fn(&Branch<'_>) -> K) -> BTreeMap<K, (u64, i64)> {
        let mut sums: BTreeMap<K, (u64, i64)> = BTreeMap::new();
        for branch in self.branches.iter() {
            let sum = sums.entry(key(&branch)).or_default();
            sum.0 += branch.total();
            sum.1 += branch.cpu_time + branch.unknown_time;
        }
        sums
    }

    /// Time on a CPU of each thread, whether its mode was known or not, in ns.
    pub fn cpu_time_by_thread(&self) -> impl Iterator<Item = (&ThreadInfo, i64)> {
        let mut times = vec![0; self.branches.threads().len()];
        for branch in self.branches.iter() {
            if let Some(thread) = branch.thread {
                times[thread] += branch.cpu_time + branch.unknown_time;
            }
        }
        self.branches.threads().iter().zip(times)
    }
}

/// Computes the statistics of a trace.
#[derive(Clone, Copy, Debug, Default)]
pub struct StatsModule;

const BEFORE: HookKey = HookKey { function: 0x7374_6174, data: 0 };
const AFTER: HookKey = HookKey { function: 0x7374_6174, data: 1 };
const DONE: HookKey = HookKey { function: 0x7374_6174, data: 2 };

impl Module for StatsModule {
    fn name(&self) -> &str {
        NAME
    }

    fn prerequisites(&self) -> &[&str] {
        &[state::NAME]
    }

    fn hooks(&self, source: &Arc<dyn Source>) -> ModuleHooks {
        let collector = Arc::new(Mutex::new(Collector::new(source.tracefiles())));
        let unknown = SystemState::default();
        let mut hooks = ModuleHooks::default();
        let to = collector.clone();
        let before = Hook::event(BEFORE, PRIORITY_STATS_BEFORE, move |call| {
            let state = call.state::<SystemState>().unwrap_or(&unknown);
            to.lock().unwrap_or_else(PoisonError::into_inner).before(&call.event, state);
            Flow::Go
        });
        let to = collector.clone();
        let after = Hook::event(AFTER, PRIORITY_STATS_AFTER, move |call| {
            if let Some(state) = call.state::<SystemState>() {
                to.lock().unwrap_or_else(PoisonError::into_inner).after(&call.event, state);
            }
            Flow::Go
        });
        let done = Hook::border(DONE, PRIORITY_DEFAULT, move |call| {
            if call.reason == Some(&EndReason::Completed) {
                let state = call.context.and_then(|context| context.state::<SystemState>(0));
                let stats = collector.lock().unwrap_or_else(PoisonError::into_inner).finish(state);
                let stats = Arc::new(stats);
                if let Some(own) = call.own.as_deref_mut() {
                    own.publish(NAME, stats);
                }
            }
            Flow::Go
        });
        let mut added = hooks.event.add(before).and(hooks.hook_remover.add(done));
        for info in source.tracefiles() {
            for (id, class) in (0u32..).zip(info.classes.iter()) {
                let list = hooks.event_by_id.find(&info.channel, EventId(id));
                if kind_of(&class.name).is_some() && !list.contains(AFTER) {
                    added = added.and(list.add(after.clone()));
                }
            }
        }
        debug_assert!(added.is_ok(), "each hook has one priority");
        hooks
    }
}

pub use branches::{Branch, Branches, ThreadInfo};
pub use tree::of as tree_of;
pub use window::WindowStats;
