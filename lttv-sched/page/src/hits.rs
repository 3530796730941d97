//! What a search has found: times, by lane too.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::view::LaneRef;

/// Most hits that are listed; the others are counted.
pub(crate) const MOST: usize = 200_000;
/// Searches whose hits are kept.
const KEPT: usize = 4;

/// What was found.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Hits {
    /// How many in all.
    pub total: u64,
    /// Times of those that are listed, in order.
    pub times: Vec<i64>,
    /// The same by lane.
    pub lanes: HashMap<LaneRef, Vec<i64>>,
    /// Why something may be missing.
    pub problems: Vec<String>,
}

/// The last searches, the latest at the end.
#[derive(Default)]
pub(crate) struct Searches(Mutex<Vec<(String, Arc<Hits>)>>);

impl Searches {
    pub(crate) fn find(&self, text: &str) -> Option<Arc<Hits>> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.iter().find(|(known, _)| known == text).map(|(_, hits)| hits.clone())
    }

    pub(crate) fn keep(&self, text: &str, hits: &Arc<Hits>) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() >= KEPT {
            kept.remove(0);
        }
        kept.push((text.to_owned(), hits.clone()));
    }
}

impl Hits {
    pub(crate) fn add(&mut self, time: i64, lanes: impl Iterator<Item = LaneRef>) {
        self.total += 1;
        if self.times.len() >= MOST {
            return;
        }
        self.times.push(time);
        for lane in lanes {
            self.lanes.entry(lane).or_default().push(time);
        }
    }

    /// The first hit after a time, and the last one before it.
    pub fn beside(&self, time: i64) -> (Option<i64>, Option<i64>) {
        let after = self.times.partition_point(|hit| *hit <= time);
        let before = self.times.partition_point(|hit| *hit < time);
        (self.times.get(after).copied(), before.checked_sub(1).and_then(|at| self.times.get(at).copied()))
    }

    /// Hits in [from, to).
    pub fn count(&self, from: i64, to: i64) -> usize {
        let place = |time: i64| self.times.partition_point(|hit| *hit < time);
        place(to).saturating_sub(place(from))
    }
}
