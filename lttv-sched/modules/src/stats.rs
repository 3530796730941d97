//! Counts of events and CPU time: by event, CPU, process and mode.
//!
//! While a pass runs each CPU has a current branch: what runs on it, in which mode. Events are counted in the branch of their
//! CPU as it was before them; at each change of the state the time since the last change goes to the branch that ends.
//! Totals are formed once, when the pass is over.

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

use crate::state::{self, Mode, SystemState, ThreadKey, kind_of};
use collect::Collector;

/// Name of the module and of its result, a [`Stats`].
pub const NAME: &str = "stats";

/// Where events happened: what ran, on which CPU, in which mode.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct BranchKey {
    /// The thread and when it was made or first seen; absent when not known.
    pub thread: Option<(ThreadKey, Time)>,
    /// The CPU; absent when not known.
    pub cpu: Option<u32>,
    /// Address of the function, 0 when not known.
    pub function: u64,
    /// The mode.
    pub mode: Mode,
    /// Name of the system call or number of the interrupt; empty when there is none.
    pub submode: Arc<str>,
}

/// What is counted for a branch.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Branch {
    /// Events by index into [`Stats::names`].
    pub events: BTreeMap<u32, u64>,
    /// CPU time spent in it itself, in ns. 0 where the mode is not known.
    pub cpu_time: i64,
    /// Time in which its thread ran on a CPU in a mode that is not known, in ns.
    pub unknown_time: i64,
    /// CPU time spent in it and in what interrupted it, of the stays that ended, in ns.
    pub cumulative_cpu_time: i64,
    /// Time from entry to exit of the stays that ended, in ns.
    pub elapsed_time: i64,
}

/// What is known of a thread.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ThreadInfo {
    /// Its name, the last one known.
    pub name: Arc<str>,
    /// Its parent.
    pub parent: Option<i64>,
    /// When it exited.
    pub end: Option<Time>,
}

/// The statistics of a trace.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Stats {
    /// Names of events.
    pub names: Vec<Arc<str>>,
    /// What was counted, by branch.
    pub branches: BTreeMap<BranchKey, Branch>,
    /// The threads of the branches.
    pub threads: BTreeMap<(ThreadKey, Time), ThreadInfo>,
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
        self.branches.values().flat_map(|branch| branch.events.values()).sum()
    }

    /// Events by name.
    pub fn by_name(&self) -> BTreeMap<Arc<str>, u64> {
        let mut counts = BTreeMap::new();
        for (&name, &count) in self.branches.values().flat_map(|branch| &branch.events) {
            if let Some(name) = self.names.get(name as usize) {
                *counts.entry(name.clone()).or_default() += count;
            }
        }
        counts
    }

    /// Events by CPU; the key is absent for those whose CPU is not known.
    pub fn by_cpu(&self) -> BTreeMap<Option<u32>, u64> {
        let mut counts = BTreeMap::new();
        for (key, branch) in &self.branches {
            *counts.entry(key.cpu).or_default() += branch.events.values().sum::<u64>();
        }
        counts
    }

    /// Events and CPU time (ns) by mode. The idle threads count as [`Mode::Syscall`], see [`Stats::idle`].
    pub fn by_mode(&self) -> BTreeMap<Mode, (u64, i64)> {
        let mut sums: BTreeMap<Mode, (u64, i64)> = BTreeMap::new();
        for (key, branch) in &self.branches {
            let sum = sums.entry(key.mode).or_default();
            sum.0 += branch.events.values().sum::<u64>();
            sum.1 += branch.cpu_time + branch.unknown_time;
        }
        sums
    }

    /// Events and time (ns) of idle CPUs, interrupts apart: the part of [`Mode::Syscall`] that is nobody's work.
    pub fn idle(&self) -> (u64, i64) {
        let idle = |key: &BranchKey| {
            key.mode == Mode::Syscall && key.thread.is_some_and(|(thread, _)| thread.tid == 0)
        };
        self.branches.iter().filter(|(key, _)| idle(key)).fold((0, 0), |sum, (_, branch)| {
            (sum.0 + branch.events.values().sum::<u64>(), sum.1 + branch.cpu_time)
        })
    }

    /// Time on a CPU by thread, whether its mode was known or not, in ns.
    pub fn cpu_time_by_thread(&self) -> BTreeMap<(ThreadKey, Time), i64> {
        let mut times = BTreeMap::new();
        for (key, branch) in &self.branches {
            if let Some(thread) = key.thread {
                *times.entry(thread).or_default() += branch.cpu_time + branch.unknown_time;
            }
        }
        times
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
                    own.attributes_mut().set("statistics", tree::of(&stats).into());
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

    fn clear(&self, data: &mut lttv_engine::trace::TraceData) {
        data.attributes_mut().remove("statistics");
    }
}

pub use tree::of as tree_of;
pub use window::WindowStats;
