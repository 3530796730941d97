//! Positions between events of a traceset.
//!
//! A position names the *next* event to deliver exactly, ties included, together with the position of each
//! tracefile's cursor. Positions of one traceset have the order of their next events. The end is after all of them.

use std::cmp::Ordering;
use std::sync::Arc;

use crate::ids::TraceId;
use crate::source::CursorPos;
use crate::time::Time;

/// Order of events in a traceset: by time, then trace, then tracefile, then order within the tracefile. `slot`
/// numbers the tracefiles of all traces of the traceset in order, so it stands for trace and tracefile.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Key {
    pub(crate) time: Time,
    pub(crate) slot: u32,
    pub(crate) pos: CursorPos,
}

/// A tracefile's part of a position.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Entry {
    pub(crate) pos: CursorPos,
    /// Order time of the event there.
    pub(crate) key: Time,
}

/// The traces of a traceset and how many tracefiles each has.
pub(crate) type Fingerprint = Arc<[(TraceId, usize)]>;

#[derive(Debug)]
struct Inner {
    fingerprint: Fingerprint,
    next: Option<Key>,
    /// One entry per tracefile; none if it is exhausted.
    entries: Box<[Option<Entry>]>,
    /// All earlier events have times <= this; none when there is no earlier event.
    floor: Option<Time>,
}

/// A position between two events of a traceset. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Position(Arc<Inner>);

/// A position was used with another traceset than its own, or after its traces changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the position belongs to another traceset, or to an earlier list of its traces")]
pub struct WrongTraceset;

impl Position {
    pub(crate) fn new(
        fingerprint: Fingerprint,
        entries: Box<[Option<Entry>]>,
        floor: Option<Time>,
    ) -> Position {
        let next = (0u32..)
            .zip(&entries)
            .filter_map(|(slot, entry)| entry.map(|entry| Key { time: entry.key, slot, pos: entry.pos }))
            .min();
        Position(Arc::new(Inner { fingerprint, next, entries, floor }))
    }

    /// Time of the next event; absent at the end.
    pub fn time(&self) -> Option<Time> {
        self.0.next.map(|key| key.time)
    }

    /// Whether no event follows.
    pub fn is_end(&self) -> bool {
        self.0.next.is_none()
    }

    pub(crate) fn key(&self) -> Option<Key> {
        self.0.next
    }

    pub(crate) fn entries(&self) -> &[Option<Entry>] {
        &self.0.entries
    }

    pub(crate) fn floor(&self) -> Option<Time> {
        self.0.floor
    }

    pub(crate) fn check(&self, fingerprint: &Fingerprint) -> Result<(), WrongTraceset> {
        let same = Arc::ptr_eq(&self.0.fingerprint, fingerprint) || self.0.fingerprint[..] == fingerprint[..];
        same.then_some(()).ok_or(WrongTraceset)
    }

    /// Whether both belong to one traceset and may be compared.
    pub fn is_comparable(&self, other: &Position) -> bool {
        self.check(&other.0.fingerprint).is_ok()
    }

    /// The same position in the private context of one of the traces.
    ///
    /// # Errors
    /// The trace is not in the position's traceset.
    pub fn of_trace(&self, trace: TraceId) -> Result<Position, WrongTraceset> {
        let mut first = 0;
        for &(id, count) in self.0.fingerprint.iter() {
            if id == trace {
                let entries = self.0.entries[first..first + count].into();
                return Ok(Position::new([(id, count)].into(), entries, self.0.floor));
            }
            first += count;
        }
        Err(WrongTraceset)
    }
}

impl PartialEq for Position {
    fn eq(&self, other: &Position) -> bool {
        self.is_comparable(other) && self.0.next == other.0.next
    }
}

impl PartialOrd for Position {
    /// Order of the next events, the end last. None for positions of different tracesets.
    fn partial_cmp(&self, other: &Position) -> Option<Ordering> {
        self.is_comparable(other).then(|| cmp_next(self.0.next.as_ref(), other.0.next.as_ref()))
    }
}

/// Order of next events. None is the end and comes after all.
pub(crate) fn cmp_next(a: Option<&Key>, b: Option<&Key>) -> Ordering {
    match (a, b) {
        (Some(a), Some(b)) => a.cmp(b),
        (a, b) => b.is_some().cmp(&a.is_some()),
    }
}
