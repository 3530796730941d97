//! Coverage inference: how often each goal of a body was entered and left.
//!
//! Few goals are counted: call sites, and the coverage points that the compiler needs. The rest follows: what leaves
//! one conjunct enters the next, and what enters a switch enters one of its arms. Each goal gets a count before and one
//! after, each possibly unknown (0 is known). Contradictions are reported with their goal path.

use crate::body::{Body, NodeKind};
use pct_deep::procrep::Detism;
use pct_deep::{PdId, Profile, PsId};

/// Counts of one goal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// How often it was entered.
    pub before: Option<i64>,
    /// How often it was left with success.
    pub after: Option<i64>,
}

/// What was measured.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Measured {
    /// Calls of the procedure.
    pub calls: i64,
    /// Exits of the procedure.
    pub exits: i64,
    /// Calls and exits of each call site, by slot.
    pub sites: Vec<(i64, i64)>,
    /// Counts of the coverage points, in the procedure's order.
    pub points: Vec<i64>,
}

impl Measured {
    /// The counts of all contexts of a procedure. `None`: there are none (no coverage data, or it was never called).
    #[must_use]
    pub fn of_ps(profile: &Profile, ps: PsId) -> Option<Measured> {
        let points = profile.ps_coverage(ps)?.to_vec();
        let own = profile.ps_own(ps);
        let sites = profile
            .sites(ps)
            .iter()
            .map(|&css| {
                let own = profile.css_own(css);
                (own.calls(), own.exits)
            })
            .collect();
        Some(Measured { calls: own.calls(), exits: own.exits, sites, points })
    }

    /// The counts of one context. `None`: the file has no counts of contexts.
    #[must_use]
    pub fn of_pd(profile: &Profile, pd: PdId) -> Option<Measured> {
        if profile.header().coverage != pct_deep::Coverage::Dynamic {
            return None;
        }
        let own = profile.pd_own(pd);
        let sites = profile
            .slots(pd)
            .map(|slot| {
                slot.csds().fold((0i64, 0i64), |(calls, exits), csd| {
                    let own = profile.csd_own(csd);
                    (calls.saturating_add(own.calls()), exits.saturating_add(own.exits))
                })
            })
            .collect();
        let points = profile.pd_coverage(pd).map(|n| i64::try_from(n).unwrap_or(i64::MAX)).collect();
        Some(Measured { calls: own.calls(), exits: own.exits, sites, points })
    }
}

/// A contradiction between counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The goal, by number.
    pub goal: usize,
    /// What is wrong with it.
    pub text: String,
}

/// Counts of every goal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Coverage {
    /// Counts by goal number.
    pub counts: Vec<Count>,
    /// Contradictions between counts.
    pub problems: Vec<Problem>,
}

impl Coverage {
    /// The problems in words, with goal paths; at most `max` of them.
    #[must_use]
    pub fn words(&self, body: &Body, max: usize) -> Vec<String> {
        let mut out: Vec<String> = self
            .problems
            .iter()
            .take(max)
            .map(|p| {
                let path = body.nodes[p.goal].path.to_string();
                let place = if path.is_empty() { "the body".to_owned() } else { format!("goal {path}") };
                format!("Counts do not add up at {place}: {}", p.text)
            })
            .collect();
        if self.problems.len() > max {
            out.push(format!("and {} more places where counts do not add up", self.problems.len() - max));
        }
        out
    }

    /// The count before a goal, 0 if unknown.
    #[must_use]
    pub fn before(&self, goal: usize) -> i64 {
        self.counts[goal].before.unwrap_or(0)
    }

    /// The count after a goal, 0 if unknown.
    #[must_use]
    pub fn after(&self, goal: usize) -> i64 {
        self.counts[goal].after.unwrap_or(0)
    }
}

/// Infers the counts of all goals.
#[must_use]
pub fn infer(body: &Body, measured: &Measured) -> Coverage {
    let mut run = Run {
        body,
        measured,
        out: Coverage { counts: vec![Count::default(); body.nodes.len()], problems: Vec::new() },
    };
    let after = run.cover(0, Some(measured.calls));
    if after.is_some_and(|a| a != measured.exits) {
        run.problem(
            0,
            format!("{} after it, but the procedure has {} exits", after.unwrap_or(0), measured.exits),
        );
    }
    run.check();
    run.out
}

struct Run<'a> {
    body: &'a Body,
    measured: &'a Measured,
    out: Coverage,
}

fn sum(counts: impl IntoIterator<Item = Option<i64>>) -> Option<i64> {
    counts.into_iter().try_fold(0i64, |s, c| c.map(|c| s.saturating_add(c)))
}

impl Run<'_> {
    fn problem(&mut self, goal: usize, text: String) {
        self.out.problems.push(Problem { goal, text });
    }

    fn point(&self, index: Option<usize>) -> Option<i64> {
        index.and_then(|i| self.measured.points.get(i).copied())
    }

    fn arm(&self, goal: usize) -> Option<i64> {
        self.point(self.body.nodes[goal].arm)
    }

    fn cover(&mut self, goal: usize, before: Option<i64>) -> Option<i64> {
        let body = self.body;
        let node = &body.nodes[goal];
        let mut before = before;
        let after = match &node.kind {
            NodeKind::Conj(parts) => {
                let mut flow = before;
                for &part in parts {
                    flow = self.cover(part, flow);
                }
                flow
            }
            NodeKind::Disj(parts) => {
                let mut afters = Vec::with_capacity(parts.len());
                for (i, &part) in parts.iter().enumerate() {
                    let arm = self.arm(part);
                    let enters = if i == 0 { before.or(arm) } else { arm };
                    afters.push(self.cover(part, enters));
                }
                sum(afters)
            }
            NodeKind::Switch { can_fail, arms, .. } => {
                let mut afters = Vec::with_capacity(arms.len());
                let mut earlier = Some(0i64);
                for (i, &arm) in arms.iter().enumerate() {
                    let enters = match (before, earlier) {
                        (Some(all), Some(so_far)) if !can_fail && i + 1 == arms.len() => {
                            Some(all.saturating_sub(so_far))
                        }
                        _ => self.arm(arm),
                    };
                    earlier = sum([earlier, enters]);
                    afters.push(self.cover(arm, enters));
                }
                if let (false, Some(all), Some(arms_sum)) = (*can_fail, before, earlier)
                    && all != arms_sum
                {
                    self.problem(goal, format!("{all} before the switch, {arms_sum} before its arms"));
                }
                sum(afters)
            }
            NodeKind::IfThenElse { cond, then, other } => {
                let (cond, then, other) = (*cond, *then, *other);
                let passed = self.cover(cond, before);
                let enters_then = passed.or_else(|| self.arm(then));
                let enters_else = if body.nodes[cond].detism.has_many_solutions() {
                    self.arm(other)
                } else {
                    match (before, enters_then) {
                        (Some(all), Some(then)) => Some(all.saturating_sub(then)),
                        _ => self.arm(other),
                    }
                };
                let a = self.cover(then, enters_then);
                let b = self.cover(other, enters_else);
                sum([a, b])
            }
            NodeKind::Neg(inner) => {
                self.cover(*inner, before);
                None
            }
            NodeKind::Scope { cut, inner } => {
                let after = self.cover(*inner, before);
                if *cut { None } else { after }
            }
            NodeKind::Atomic(atom) if atom.kind.is_call() => match node.slot {
                Some(slot) => {
                    let (calls, exits) = self.measured.sites.get(slot).copied().unwrap_or((0, 0));
                    match before {
                        Some(b) if b != calls => {
                            self.problem(
                                goal,
                                format!("{b} before the call, but its call site has {calls} calls"),
                            );
                        }
                        _ => before = Some(calls),
                    }
                    Some(exits)
                }
                None => {
                    // A goal that was not executed needs no call site.
                    if before != Some(0) {
                        self.problem(goal, "the profile has no call site for this call".to_owned());
                    }
                    None
                }
            },
            NodeKind::Atomic(_) => match node.detism {
                Detism::Det | Detism::CcMulti => before,
                Detism::Erroneous | Detism::Failure => Some(0),
                Detism::Semidet | Detism::Nondet | Detism::Multi | Detism::CcNondet => None,
            },
        };
        let counted = self.point(node.after);
        let after = match (counted, after) {
            (Some(c), Some(a)) if c != a => {
                self.problem(goal, format!("{a} after it, but its coverage point counted {c}"));
                Some(c)
            }
            (Some(c), _) => Some(c),
            // A goal that was never entered was never left.
            (None, None) if before == Some(0) => Some(0),
            (None, a) => a,
        };
        self.out.counts[goal] = Count { before, after };
        after
    }

    /// Checks what must be true for every goal.
    fn check(&mut self) {
        for goal in 0..self.body.nodes.len() {
            let Count { before, after } = self.out.counts[goal];
            let (Some(b), Some(a)) = (before, after) else {
                self.problem(goal, "a count is unknown".to_owned());
                continue;
            };
            let detism = self.body.nodes[goal].detism;
            if b < 0 || a < 0 {
                self.problem(goal, format!("a count is negative ({b} before, {a} after)"));
            } else if detism.never_succeeds() && a != 0 {
                self.problem(goal, format!("it is {detism}, but was left {a} times with success"));
            } else if !detism.has_many_solutions() && a > b {
                self.problem(goal, format!("it is {detism}, but was left {a} times and entered {b} times"));
            }
        }
    }
}

#[cfg(test)]
mod tests;
