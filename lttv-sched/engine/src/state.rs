//! Models of the traced system, and saved copies that make seeking cheap.
//!
//! A [`StateModel`] is updated event by event. While the module that owns it computes a trace in the background, a
//! copy and the position of each tracefile are saved at a fixed interval of events. A seek to a time restores the last
//! copy before it and replays the rest with the models only.
//!
//! Invariant: saved state k was copied before event number k x interval of its trace was applied, and its positions
//! name that event as next. that event as next.

use std::any::Any;
use std::sync::Arc;

use crate::event::Event;
use crate::position::Entry;
use crate::source::{EventClass, TracefileInfo};
use crate::time::Time;

/// A copy of a model's state. Restoring does not change it.
pub type Snapshot = Arc<dyn Any + Send + Sync>;

/// The state of the traced system at a point, for one trace.
pub trait StateModel: Send {
    /// The model's own code for a class of events that changes its state; none for other classes. Called once for each
    /// class, so that `apply` compares no names.
    fn classify(&mut self, tracefile: &TracefileInfo, class: &EventClass) -> Option<u32>;

    /// Updates the state from before the event to after it. `code` is what `classify` returned.
    fn apply(&mut self, code: u32, event: &Event<'_>);

    /// Resets to the state at the start of the trace.
    fn reset(&mut self);

    /// A copy of the state. What has not changed is shared with it.
    fn snapshot(&self) -> Snapshot;

    /// Restores the state from a copy made by a model of the same kind.
    fn restore(&mut self, saved: &Snapshot);

    /// The model itself, for callers that know its type.
    fn as_any(&self) -> &dyn Any;

    /// A copy as bytes for a cache file, if the model supports it.
    fn encode(&self, _saved: &Snapshot) -> Option<Vec<u8>> {
        None
    }

    /// A copy from the bytes of a cache file. None if `encode` did not make them.
    fn decode(&self, _bytes: &[u8]) -> Option<Snapshot> {
        None
    }
}

/// One saved state.
#[derive(Clone)]
pub struct SavedState {
    /// Number of the event that was about to be applied, counted from 0 over all tracefiles of the trace in
    /// merge order.
    pub event: u64,
    /// Its time.
    pub time: Time,
    pub(crate) entries: Box<[Option<Entry>]>,
    /// The state before it.
    pub snapshot: Snapshot,
}

/// The saved states of one model of one trace, oldest first.
#[derive(Clone)]
pub struct SavedStates {
    interval: u64,
    limit: usize,
    states: Vec<SavedState>,
    complete: bool,
}

impl SavedStates {
    /// An empty list. It will get a state every `interval` events (at least 1), at most `limit` (at least 2) of them.
    pub(crate) fn new(interval: u64, limit: usize) -> SavedStates {
        SavedStates { interval: interval.max(1), limit: limit.max(2), states: Vec::new(), complete: false }
    }

    /// Current number of events between two saved states.
    pub fn interval(&self) -> u64 {
        self.interval
    }

    /// The states kept.
    pub fn states(&self) -> &[SavedState] {
        &self.states
    }

    /// Whether the whole trace was covered.
    pub fn is_complete(&self) -> bool {
        self.complete
    }

    /// Time up to which they are complete; absent before the first. After a whole pass there is no limit.
    pub fn time(&self) -> Option<Time> {
        self.states.last().map(|state| state.time)
    }

    /// Number of events from `at` (the next event's number) to the next one before which a state is saved; 0 if that is
    /// `at` itself.
    pub(crate) fn due_in(&self, at: u64) -> u64 {
        let saved = self.states.last().map_or(0, |state| state.event);
        (saved / self.interval + 1).saturating_mul(self.interval).saturating_sub(at)
    }

    /// Adds a state. If there are more than the limit, every other one is dropped and the interval doubles.
    pub(crate) fn push(&mut self, state: SavedState) {
        self.states.push(state);
        if self.states.len() > self.limit {
            self.interval = self.interval.saturating_mul(2);
            let interval = self.interval;
            self.states.retain(|state| state.event.is_multiple_of(interval));
        }
    }

    pub(crate) fn finish(&mut self) {
        self.complete = true;
    }

    /// Whether the state before `t` (absent: the end of the trace) can be computed exactly from the saved ones.
    pub(crate) fn covers(&self, t: Option<Time>) -> bool {
        self.complete || matches!((t, self.time()), (Some(t), Some(saved)) if t < saved)
    }

    /// The last saved state strictly before `t`. Strictly, because several events may share a time and a state may
    /// have been saved in the middle of them.
    pub(crate) fn before(&self, t: Option<Time>) -> &[SavedState] {
        let end = t.map_or(self.states.len(), |t| self.states.partition_point(|state| state.time < t));
        &self.states[..end]
    }
}
