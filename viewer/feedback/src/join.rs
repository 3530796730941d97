//! Joins results of the walk: pushes of several contexts, and calls with the candidates in which they are executed.

use std::collections::HashMap;

use pct_deep::{GoalPath, GoalStep};

use crate::model::{Candidate, Push};

/// Joins pushes of several lists (section 4.4): those of a conjunction become one, with the bounds of the first. Others
/// with other bounds are left out.
pub fn merge_pushes(lists: &[&[Push]]) -> Vec<Push> {
    let mut merged: Vec<Push> = Vec::new();
    let mut place: HashMap<GoalPath, usize> = HashMap::new();
    for push in lists.iter().flat_map(|l| l.iter()) {
        match place.get(&push.path) {
            None => {
                place.insert(push.path.clone(), merged.len());
                merged.push(push.clone());
            }
            Some(&at) if (merged[at].lo, merged[at].hi) == (push.lo, push.hi) => {
                merged[at].targets.extend(push.targets.iter().cloned());
            }
            Some(_) => {}
        }
    }
    for push in &mut merged {
        push.targets.sort_by_cached_key(GoalPath::to_string);
        push.targets.dedup();
    }
    merged.sort_by_cached_key(|p| std::cmp::Reverse(p.path.to_string()));
    merged
}

/// The part of a context's candidates that the walk stores, to decide how parallel the calls inside them are.
#[derive(Clone, Debug)]
pub(crate) struct Brief {
    path: GoalPath,
    before: i64,
    goals: i64,
    /// Number of processors that it keeps busy.
    busy: f64,
}

impl Brief {
    pub(crate) fn from_candidate(c: &Candidate) -> Self {
        let len = |n: usize| i64::try_from(n).unwrap_or(i64::MAX);
        let cpu = c.metrics.seq_time + c.metrics.overheads();
        Self {
            path: c.path.clone(),
            before: len(c.before.len()),
            goals: len(c.conjuncts.iter().map(Vec::len).sum()),
            busy: cpu / (cpu + c.metrics.dead()),
        }
    }
    /// What a call at `path` adds to the parallelism in which it is executed (section 4.3). As in the original, the
    /// range excludes the first parallel goal and includes one goal after the last.
    pub(crate) fn adds(&self, path: &GoalPath) -> f64 {
        let Some(rest) = path.0.strip_prefix(self.path.0.as_slice()) else { return 0.0 };
        let f = self.before + 1;
        match rest.first() {
            Some(GoalStep::Conj(n)) if f < *n && *n <= f + self.goals => self.busy,
            _ => 0.0,
        }
    }
}
