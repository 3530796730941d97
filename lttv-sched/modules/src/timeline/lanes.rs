//! Lanes of a trace and names of what is in them. One table for the pass and for all windows of a trace, so that a
//! number means the same in every tile.

use std::sync::Arc;

use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

/// What a lane shows.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub enum LaneKind {
    /// Samples of a thread; a weight is ns of CPU time, a key a function or an object.
    Samples,
    /// Other events of a CPU, a thread or a tracefile; a weight is a number of events, a key the name of an event.
    Events,
    /// What a CPU was doing; a weight is ns, a key a state.
    Cpu,
    /// What a thread was doing, by the kernel's events; a weight is ns, a key a state.
    Thread,
    /// What a thread ran, by samples of which each stands for a span of time; a weight is ns, a key a function.
    Ran,
    /// What a thread waited for, by a recording: spans of time; a weight is ns, a key the name of what it waited for.
    Waits,
}

impl LaneKind {
    /// The kind in one word.
    pub fn name(self) -> &'static str {
        match self {
            LaneKind::Samples => "samples",
            LaneKind::Events => "events",
            LaneKind::Cpu => "cpu",
            LaneKind::Thread => "thread",
            LaneKind::Ran => "ran",
            LaneKind::Waits => "waits",
        }
    }

    /// Whether a lane has the samples of a thread.
    pub fn is_of_samples(self) -> bool {
        matches!(self, LaneKind::Samples | LaneKind::Ran)
    }
}

/// What tells a lane from the others of its kind.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub enum LaneOf {
    /// A tracefile, by its index in the trace.
    Tracefile(usize),
    /// A CPU.
    Cpu(u32),
    /// A thread, by its number.
    Thread(i64),
}

/// A lane.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Lane {
    /// What it shows.
    pub kind: LaneKind,
    /// Of what.
    pub of: LaneOf,
    /// Its name for people, as far as known by now.
    pub name: Arc<str>,
}

impl Lane {
    /// Number of its thread, where it is of one.
    pub fn tid(&self) -> Option<i64> {
        match self.of {
            LaneOf::Thread(tid) => Some(tid),
            _ => None,
        }
    }
}

/// States of CPUs and threads; a state's key is its place here.
pub const STATES: [&str; 11] = [
    "unknown",
    "idle",
    "running",
    "user",
    "system call",
    "kernel",
    "interrupt",
    "softirq",
    "trap",
    "waits for CPU",
    "blocked",
];

/// Key of the state that nothing is known of.
pub const UNKNOWN: u32 = 0;
/// Key of the state of a CPU with nothing to run.
pub const IDLE: u32 = 1;
/// Key of the state of a thread that could run and has no CPU.
pub const WAITS: u32 = 9;
/// Key of the state of a thread that waits for something else.
pub const BLOCKED: u32 = 10;

/// Key of the state of a thread that has a CPU, of which no event has told yet what it executes.
pub(super) const RUNNING: u32 = 2;
/// Keys of what a running thread, or its CPU, executes.
pub(super) const USER: u32 = 3;
pub(super) const SYSTEM_CALL: u32 = 4;
/// Work of the kernel that is no system call.
pub(super) const KERNEL: u32 = 5;
pub(super) const INTERRUPT: u32 = 6;
pub(super) const SOFTIRQ: u32 = 7;
pub(super) const TRAP: u32 = 8;

/// Whether a key is that of a state in which a thread has a CPU.
pub fn runs(key: u32) -> bool {
    (RUNNING..=TRAP).contains(&key)
}

/// Whether a key is that of a state.
pub(super) fn is_state(key: u32) -> bool {
    key < name_key(0)
}

/// Keys from here on are numbers of functions, as samples have them in their field `function`.
pub const FUNCTIONS: u32 = 1 << 30;

/// The key of the name with this place among the names of a
/// [`LaneItems`](super::items::LaneItems::names).
pub fn name_key(place: usize) -> u32 {
    u32::try_from(STATES.len().saturating_add(place)).unwrap_or(u32::MAX).min(FUNCTIONS - 1)
}

/// What a key stands for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Key {
    /// A state.
    State(&'static str),
    /// An event or an object, by name.
    Name(Arc<str>),
    /// A function, by the number that the source gave it.
    Function(u32),
}

/// Lanes and names.
#[derive(Debug, Default)]
pub(super) struct Tables {
    lanes: Vec<Lane>,
    lane_of: FxHashMap<(LaneKind, LaneOf), usize>,
    names: Vec<Arc<str>>,
    name_of: FxHashMap<Arc<str>, u32>,
}

impl Tables {
    /// With these lanes and names, each of them once; none if one is there twice.
    pub(super) fn new(lanes: Vec<Lane>, names: Vec<Arc<str>>) -> Option<Tables> {
        let mut tables = Tables::default();
        for lane in &lanes {
            tables.lane(lane.kind, lane.of, || lane.name.clone());
        }
        for name in &names {
            tables.key(name);
        }
        (tables.lanes == lanes && tables.names == names).then_some(tables)
    }

    /// The lane of this kind. If it does not exist, it is made with this name.
    pub(super) fn lane(&mut self, kind: LaneKind, of: LaneOf, name: impl FnOnce() -> Arc<str>) -> usize {
        if let Some(lane) = self.lane_of.get(&(kind, of)) {
            return *lane;
        }
        self.lanes.push(Lane { kind, of, name: name() });
        self.lane_of.insert((kind, of), self.lanes.len() - 1);
        self.lanes.len() - 1
    }

    /// Gives a lane another name.
    pub(super) fn rename(&mut self, lane: usize, name: Arc<str>) {
        if let Some(lane) = self.lanes.get_mut(lane) {
            lane.name = name;
        }
    }

    pub(super) fn lanes(&self) -> &[Lane] {
        &self.lanes
    }

    /// The names that have keys.
    pub(super) fn names(&self) -> &[Arc<str>] {
        &self.names
    }

    /// The key of a name.
    pub(super) fn key(&mut self, name: &Arc<str>) -> u32 {
        if let Some(key) = self.name_of.get(name) {
            return *key;
        }
        let number = name_key(self.names.len());
        self.names.push(name.clone());
        self.name_of.insert(name.clone(), number);
        number
    }

    /// What a key stands for; none for a number that is no key.
    pub(super) fn meaning(&self, key: u32) -> Option<Key> {
        if key >= FUNCTIONS {
            return Some(Key::Function(key - FUNCTIONS));
        }
        let index = key as usize;
        let state = STATES.get(index).map(|name| Key::State(name));
        state.or_else(|| Some(Key::Name(self.names.get(index - STATES.len())?.clone())))
    }
}
