//! The table of branches: what was counted, by thread, CPU, mode and submode.
//!
//! A trace of many short processes has ten branches a process, so a branch is kept small: threads and
//! submodes are numbers into tables of their own, and the counts of events of all branches share one vector,
//! in which each branch has a chain. The order of branches is that in which the trace first needed them, so
//! equal traces give equal tables.

use std::sync::Arc;

use lttv_engine::time::Time;
use rustc_hash::FxHashMap;

use crate::state::{Mode, Thread, ThreadKey};

/// What is known of a thread.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ThreadInfo {
    /// Its number.
    pub key: ThreadKey,
    /// When it was made, or first seen.
    pub start: Time,
    /// Its name, the last one known.
    pub name: Arc<str>,
    /// Its parent.
    pub parent: Option<i64>,
    /// When it exited.
    pub end: Option<Time>,
}

/// Number that stands for "not known" or "none" in the table.
const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Key {
    thread: u32,
    cpu: u32,
    submode: u32,
    mode: Mode,
}

/// What is counted for a branch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Counted {
    /// Time on a CPU, in ns: CPU time of a known mode, else time in an unknown one.
    pub(super) on_cpu: i64,
    pub(super) cumulative: i64,
    pub(super) elapsed: i64,
    first: u32,
}

/// A link of the chain of a branch: how many events of a name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct EventCount {
    name: u32,
    next: u32,
    count: u64,
}

/// All branches of a trace or window. See the module's documentation.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Branches {
    threads: Vec<ThreadInfo>,
    submodes: Vec<Arc<str>>,
    keys: Vec<Key>,
    counted: Vec<Counted>,
    events: Vec<EventCount>,
    /// Only while something is being counted.
    thread_index: FxHashMap<(ThreadKey, Time), u32>,
    submode_index: FxHashMap<Arc<str>, u32>,
    index: FxHashMap<Key, u32>,
}

/// Where events happened, and what was counted there.
#[derive(Clone, Copy, Debug)]
pub struct Branch<'s> {
    /// Index of the thread in [`Branches::threads`]; absent when not known.
    pub thread: Option<usize>,
    /// The CPU; absent when not known.
    pub cpu: Option<u32>,
    /// The mode.
    pub mode: Mode,
    /// Name of the system call or number of the interrupt; empty outside of both.
    pub submode: &'s Arc<str>,
    /// CPU time spent in it itself, in ns. 0 where the mode is not known.
    pub cpu_time: i64,
    /// Time in which its thread ran on a CPU in a mode that is not known, in ns.
    pub unknown_time: i64,
    /// CPU time spent in it and in what interrupted it, of the stays that ended, in ns.
    pub cumulative_cpu_time: i64,
    /// Time from entry to exit of the stays that ended, in ns.
    pub elapsed_time: i64,
    chain: &'s [EventCount],
    first: u32,
}

impl<'s> Branch<'s> {
    /// Events by index into [`super::Stats::names`].
    pub fn events(&self) -> impl Iterator<Item = (u32, u64)> + use<'s> {
        let chain = self.chain;
        let link = |at: u32| chain.get(usize::try_from(at).ok()?);
        let links = std::iter::successors(link(self.first), move |event| link(event.next));
        links.map(|event| (event.name, event.count))
    }

    /// Number of events.
    pub fn total(&self) -> u64 {
        self.events().map(|(_, count)| count).sum()
    }
}

/// The number of the next row of a table.
fn next_row<T>(table: &[T]) -> u32 {
    u32::try_from(table.len()).ok().filter(|row| *row != NONE).expect("a trace has fewer than 2^32 branches")
}

impl Branches {
    /// The threads that ran.
    pub fn threads(&self) -> &[ThreadInfo] {
        &self.threads
    }

    /// All branches.
    pub fn iter(&self) -> impl Iterator<Item = Branch<'_>> {
        self.keys.iter().zip(&self.counted).map(|(key, counted)| {
            let known = key.mode != Mode::Unknown;
            Branch {
                thread: usize::try_from(key.thread).ok().filter(|_| key.thread != NONE),
                cpu: Some(key.cpu).filter(|cpu| *cpu != NONE),
                mode: key.mode,
                submode: &self.submodes[key.submode as usize],
                cpu_time: if known { counted.on_cpu } else { 0 },
                unknown_time: if known { 0 } else { counted.on_cpu },
                cumulative_cpu_time: counted.cumulative,
                elapsed_time: counted.elapsed,
                chain: &self.events,
                first: counted.first,
            }
        })
    }

    /// The row of a thread, with what is known of it now.
    pub(super) fn note_thread(&mut self, thread: &Thread) -> u32 {
        let start = thread.created.unwrap_or(thread.inserted);
        let threads = &mut self.threads;
        let row = *self.thread_index.entry((thread.key, start)).or_insert_with(|| {
            let row = next_row(threads);
            let name = thread.name.clone();
            threads.push(ThreadInfo { key: thread.key, start, name, parent: None, end: None });
            row
        });
        let info = &mut self.threads[row as usize];
        if !Arc::ptr_eq(&info.name, &thread.name) {
            info.name = thread.name.clone();
        }
        info.parent = thread.ppid;
        row
    }

    pub(super) fn thread_mut(&mut self, row: u32) -> &mut ThreadInfo {
        &mut self.threads[row as usize]
    }

    /// The row of a branch; makes it when it is new.
    pub(super) fn branch(
        &mut self,
        thread: Option<u32>,
        cpu: Option<u32>,
        mode: Mode,
        submode: &Arc<str>,
    ) -> usize {
        let submode = match self.submode_index.get(submode) {
            Some(row) => *row,
            None => {
                let row = next_row(&self.submodes);
                self.submodes.push(submode.clone());
                self.submode_index.insert(submode.clone(), row);
                row
            }
        };
        let key = Key { thread: thread.unwrap_or(NONE), cpu: cpu.unwrap_or(NONE), submode, mode };
        let (keys, counted) = (&mut self.keys, &mut self.counted);
        let row = *self.index.entry(key).or_insert_with(|| {
            let row = next_row(keys);
            keys.push(key);
            counted.push(Counted { on_cpu: 0, cumulative: 0, elapsed: 0, first: NONE });
            row
        });
        row as usize
    }

    pub(super) fn counted_mut(&mut self, branch: usize) -> &mut Counted {
        &mut self.counted[branch]
    }

    /// Counts an event of a name.
    pub(super) fn count(&mut self, branch: usize, name: u32) {
        let mut at = self.counted[branch].first;
        while let Some(event) = self.events.get_mut(at as usize) {
            if event.name == name {
                event.count += 1;
                return;
            }
            at = event.next;
        }
        let new = next_row(&self.events);
        self.events.push(EventCount { name, next: self.counted[branch].first, count: 1 });
        self.counted[branch].first = new;
    }

    /// Nothing is counted any more: what only counting needs goes.
    pub(super) fn finished(mut self) -> Branches {
        self.index = FxHashMap::default();
        self.thread_index = FxHashMap::default();
        self.submode_index = FxHashMap::default();
        self.keys.shrink_to_fit();
        self.counted.shrink_to_fit();
        self.events.shrink_to_fit();
        self
    }
}
