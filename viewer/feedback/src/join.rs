//! What the walk brings together: pushes of several contexts, and calls with the candidates that they are executed in.

use std::collections::HashMap;

use pct_deep::{GoalPath, Step};

use crate::model::{Candidate, Push};

/// Joins pushes of several lists (section 4.4): those of a conjunction become one, with the bounds of the first; others of
/// other bounds are left out.
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

/// Candidates of one context, as the walk remembers them: enough to decide how parallel calls inside them are.
#[derive(Clone, Debug)]
pub(crate) struct Brief {
    path: GoalPath,
    before: i64,
    goals: i64,
    /// Processors kept busy.
    busy: f64,
}

impl Brief {
    pub(crate) fn of(c: &Candidate) -> Self {
        let len = |n: usize| i64::try_from(n).unwrap_or(i64::MAX);
        let cpu = c.metrics.seq_time + c.metrics.overheads();
        Self {
            path: c.path.clone(),
            before: len(c.before.len()),
            goals: len(c.conjuncts.iter().map(Vec::len).sum()),
            busy: cpu / (cpu + c.metrics.dead()),
        }
    }
    /// What a call at `path` adds to the parallelism that it is executed in (section 4.3): the range leaves out the first
    /// parallel goal and takes in one goal behind the last, as the original does.
    pub(crate) fn adds(&self, path: &GoalPath) -> f64 {
        let Some(rest) = path.0.strip_prefix(self.path.0.as_slice()) else { return 0.0 };
        let f = self.before + 1;
        match rest.first() {
            Some(Step::Conj(n)) if f < *n && *n <= f + self.goals => self.busy,
            _ => 0.0,
        }
    }
}
