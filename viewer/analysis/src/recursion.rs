//! Classifies how a clique recurses: how many recursive calls the paths through its body make, and what the rest costs.
//!
//! A goal's value is *dead* (never executed), or, for each number k of recursive calls that a path through it can make,
//! the cost of the other calls on such paths and the probability of such a path. Costs are call sequence numbers.

use crate::Bodies;
use crate::body::{Body, NodeKind};
use crate::coverage::{self, Coverage, Measured};
use pct_deep::procrep::Detism;
use pct_deep::{CliqueId, PdId, Profile};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// Paths with the same number of recursive calls.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Level {
    /// Recursive calls on the path.
    pub level: u32,
    /// How often such a path was taken, rounded.
    pub count: f64,
    /// Its probability.
    pub probability: f64,
    /// Cost of non-recursive calls, for one execution.
    pub non_recursive_cost: f64,
    /// Cost of recursive calls, without their callees.
    pub recursive_calls_cost: f64,
}

/// Recursion with one recursive call.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Single {
    /// Without recursive call.
    pub base: Level,
    /// With one.
    pub recursive: Level,
    /// Average maximal depth: calls of the procedure for each call from outside.
    pub depth: f64,
    /// Average cost of a recursive call.
    pub average_cost: f64,
}

impl Single {
    /// The cost of a call at a depth.
    #[must_use]
    pub fn cost_at(&self, depth: f64) -> f64 {
        self.base.non_recursive_cost + depth * (self.recursive.non_recursive_cost + 1.0)
    }
}

/// The type of a clique's recursion.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RecursionType {
    /// No recursion.
    NotRecursive,
    /// At most one recursive call on a path.
    Single(Single),
    /// No or two recursive calls on a path.
    DivideAndConquer {
        /// Without recursive calls.
        base: Level,
        /// With two.
        recursive: Level,
    },
    /// Through this many contexts.
    Mutual(usize),
    /// In another way.
    Other(Vec<Level>),
    /// Unknown, for these reasons.
    Errors(Vec<String>),
}

/// The type of a clique's recursion.
#[must_use]
pub fn classify(subject: &dyn Bodies, clique: CliqueId) -> RecursionType {
    let profile = subject.profile();
    let Some(entry) = profile.clique_entry(clique) else {
        return RecursionType::Errors(vec!["This clique does not have an entry procedure.".to_owned()]);
    };
    let members = profile.clique_members(clique);
    if members.len() > 1 {
        return RecursionType::Mutual(members.len());
    }
    let pd = profile.csd_callee(entry);
    // Without a call back into the clique, no path has a recursive call, whatever the body.
    if !profile.csds_of_pd(pd).any(|csd| profile.csd_child_clique(csd).is_none()) {
        return RecursionType::NotRecursive;
    }
    let body = match subject.body(profile.pd_ps(pd)) {
        Ok(body) => body,
        Err(failure) => return RecursionType::Errors(vec![failure.0]),
    };
    let Some(measured) = Measured::of_pd(profile, pd) else {
        return RecursionType::Errors(vec!["There is no coverage information.".to_owned()]);
    };
    let coverage = coverage::infer(&body, &measured);
    if let Some(problem) = coverage.words(&body, 1).into_iter().next() {
        return RecursionType::Errors(vec![problem]);
    }
    let value = Walk { body: &body, coverage: &coverage, calls: site_calls(profile, pd) }.value(0);
    let from_outside = profile.csd_own(entry).calls() as f64;
    let all = profile.pd_own(pd).calls() as f64;
    of_value(value, from_outside, all)
}

/// The calls of a context's call site.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SiteCalls {
    /// Whether a callee is in the caller's clique.
    pub recursive: bool,
    /// Calls.
    pub calls: f64,
    /// Own and descendants' call sequence numbers.
    pub total: f64,
}

/// The calls of a context's call sites, by slot.
#[must_use]
pub fn site_calls(profile: &Profile, pd: PdId) -> Vec<SiteCalls> {
    profile
        .slots(pd)
        .map(|slot| {
            let mut out = SiteCalls::default();
            for csd in slot.csds() {
                out.recursive |= profile.csd_child_clique(csd).is_none();
                out.calls += profile.csd_own(csd).calls() as f64;
                out.total += profile.csd_total(csd).callseqs as f64;
            }
            out
        })
        .collect()
}

fn of_value(value: Option<Value>, from_outside: f64, all: f64) -> RecursionType {
    let Some(value) = value else { return RecursionType::NotRecursive };
    if value.max == 0 {
        return RecursionType::NotRecursive;
    }
    if !value.errors.is_empty() {
        return RecursionType::Errors(
            value.errors.iter().map(|d| format!("{d} code is not handled")).collect(),
        );
    }
    let level = |k: u32, calls_cost: f64| {
        let (cost, prob) = value.paths.get(&k).copied().unwrap_or((0.0, 0.0));
        Level {
            level: k,
            count: (prob * all).round(),
            probability: prob,
            non_recursive_cost: cost,
            recursive_calls_cost: calls_cost,
        }
    };
    let prob = |k: u32| value.paths.get(&k).map_or(0.0, |p| p.1);
    match value.max {
        1 => {
            let (base, recursive) = (level(0, 0.0), level(1, 1.0));
            let depth = if from_outside == 0.0 { 0.0 } else { all / from_outside };
            let average_cost = base.non_recursive_cost
                + (recursive.non_recursive_cost * (depth * depth + depth) / 2.0) / (depth + 1.0);
            RecursionType::Single(Single { base, recursive, depth, average_cost })
        }
        2 if !value.paths.contains_key(&1) => {
            RecursionType::DivideAndConquer { base: level(0, 0.0), recursive: level(2, 2.0 * prob(2) * all) }
        }
        _ => RecursionType::Other(
            value
                .paths
                .keys()
                .map(|&k| level(k, if k == 0 { 0.0 } else { f64::from(k) * prob(k) * all }))
                .collect(),
        ),
    }
}

/// The paths through a goal; `None` stands for a goal that is dead.
#[derive(Clone, Debug, PartialEq)]
struct Value {
    /// Number of recursive calls to (cost, probability).
    paths: BTreeMap<u32, (f64, f64)>,
    max: u32,
    errors: BTreeSet<&'static str>,
}

fn unit(k: u32, cost: f64) -> Option<Value> {
    Some(Value { paths: BTreeMap::from([(k, (cost, 1.0))]), max: k, errors: BTreeSet::new() })
}

fn scaled(v: Option<Value>, prob: f64) -> Option<Value> {
    v.map(|mut v| {
        for path in v.paths.values_mut() {
            path.1 *= prob;
        }
        v
    })
}

/// Adds paths to those with the same number: costs are averaged by probability, probabilities of exclusive paths add
/// up.
fn merge(paths: &mut BTreeMap<u32, (f64, f64)>, k: u32, cost: f64, prob: f64) {
    let path = paths.entry(k).or_insert((0.0, 0.0));
    let sum = path.1 + prob;
    path.0 = if sum.abs() < f64::EPSILON { 0.0 } else { (path.0 * path.1 + cost * prob) / sum };
    path.1 = sum;
}

/// Combines alternatives.
fn branch(a: Option<Value>, b: Option<Value>) -> Option<Value> {
    let (mut a, b) = match (a, b) {
        (Some(a), Some(b)) => (a, b),
        (None, x) | (x, None) => return x,
    };
    for (k, (cost, prob)) in b.paths {
        merge(&mut a.paths, k, cost, prob);
    }
    a.max = a.max.max(b.max);
    a.errors.extend(b.errors);
    Some(a)
}

/// Combines goals that run one after the other.
fn seq(a: Option<Value>, b: Option<Value>) -> Option<Value> {
    let (a, b) = (a?, b?);
    let mut paths = BTreeMap::new();
    for (&ka, &(ca, pa)) in &a.paths {
        for (&kb, &(cb, pb)) in &b.paths {
            merge(&mut paths, ka + kb, ca + cb, pa * pb);
        }
    }
    Some(Value { paths, max: a.max + b.max, errors: a.errors.union(&b.errors).copied().collect() })
}

struct Walk<'a> {
    body: &'a Body,
    coverage: &'a Coverage,
    calls: Vec<SiteCalls>,
}

fn share(part: i64, whole: i64) -> f64 {
    if whole == 0 { 0.0 } else { (part as f64 / whole as f64).clamp(0.0, 1.0) }
}

impl Walk<'_> {
    fn success(&self, goal: usize) -> f64 {
        share(self.coverage.after(goal), self.coverage.before(goal))
    }

    fn value(&self, goal: usize) -> Option<Value> {
        let before = self.coverage.before(goal);
        if before == 0 {
            return None;
        }
        let node = &self.body.nodes[goal];
        let mut value = match &node.kind {
            NodeKind::Atomic(_) => match node.slot.and_then(|s| self.calls.get(s)) {
                Some(site) if site.recursive => unit(1, 0.0),
                Some(site) if site.calls > 0.0 => unit(0, site.total / site.calls),
                Some(_) | None => unit(0, 0.0),
            },
            NodeKind::Conj(parts) => {
                let mut rest = unit(0, 0.0);
                for &part in parts.iter().rev() {
                    let head = self.value(part);
                    let next = if self.body.nodes[part].detism.can_fail() {
                        let p = self.success(part);
                        branch(scaled(rest, p), scaled(unit(0, 0.0), 1.0 - p))
                    } else {
                        rest
                    };
                    rest = seq(head, next);
                }
                rest
            }
            NodeKind::Disj(parts) => {
                let mut rest = unit(0, 0.0);
                for &part in parts.iter().rev() {
                    let p = self.success(part);
                    let next = branch(scaled(unit(0, 0.0), p), scaled(rest, 1.0 - p));
                    rest = seq(self.value(part), next);
                }
                rest
            }
            NodeKind::Switch { arms, .. } => {
                let taken: i64 = arms.iter().map(|&a| self.coverage.before(a)).sum();
                let mut all = scaled(unit(0, 0.0), share(before.saturating_sub(taken), before));
                for &arm in arms.iter().rev() {
                    all = branch(scaled(self.value(arm), share(self.coverage.before(arm), before)), all);
                }
                all
            }
            NodeKind::IfThenElse { cond, then, other } => {
                let part = |g: usize| scaled(self.value(g), share(self.coverage.before(g), before));
                seq(self.value(*cond), branch(part(*then), part(*other)))
            }
            NodeKind::Neg(inner) | NodeKind::Scope { inner, .. } => self.value(*inner),
        };
        let unhandled = match node.detism {
            Detism::Nondet => Some("nondet"),
            Detism::Multi => Some("multi"),
            _ => None,
        };
        if let (Some(word), Some(v)) = (unhandled, &mut value) {
            v.errors.insert(word);
        }
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn mass(v: &Option<Value>) -> f64 {
        v.as_ref().map_or(0.0, |v| v.paths.values().map(|p| p.1).sum())
    }

    fn any_value() -> impl Strategy<Value = Option<Value>> {
        proptest::collection::vec((0u32..4, 0.0f64..100.0, 0.0f64..1.0), 1..4).prop_map(|parts| {
            let sum: f64 = parts.iter().map(|p| p.2).sum::<f64>().max(1e-9);
            let mut v = Value { paths: BTreeMap::new(), max: 0, errors: BTreeSet::new() };
            for (k, cost, p) in parts {
                merge(&mut v.paths, k, cost, p / sum);
                v.max = v.max.max(k);
            }
            Some(v)
        })
    }

    proptest! {
        #[test]
        fn no_probability_is_lost(a in any_value(), b in any_value(), p in 0.0f64..1.0) {
            let either = branch(scaled(a.clone(), p), scaled(b.clone(), 1.0 - p));
            prop_assert!((mass(&either) - 1.0).abs() < 1e-9);
            prop_assert!((mass(&seq(a, b)) - 1.0).abs() < 1e-9);
        }

        #[test]
        fn costs_of_a_sequence_add(a in 0.0f64..1e6, b in 0.0f64..1e6) {
            let v = seq(unit(1, a), unit(0, b)).expect("alive");
            prop_assert_eq!(v.paths.get(&1).copied(), Some((a + b, 1.0)));
        }
    }

    #[test]
    fn dead_is_neutral_in_branches_and_absorbs_in_sequences() {
        assert_eq!(branch(None, unit(1, 2.0)), unit(1, 2.0));
        assert_eq!(seq(None, unit(1, 2.0)), None);
    }

    #[test]
    fn types_follow_the_number_of_recursive_calls() {
        let paths = |p: &[(u32, f64, f64)]| {
            let mut v = Value { paths: BTreeMap::new(), max: 0, errors: BTreeSet::new() };
            for &(k, c, prob) in p {
                merge(&mut v.paths, k, c, prob);
                v.max = v.max.max(k);
            }
            Some(v)
        };
        assert_eq!(of_value(None, 1.0, 1.0), RecursionType::NotRecursive);
        assert_eq!(of_value(unit(0, 5.0), 1.0, 1.0), RecursionType::NotRecursive);
        let RecursionType::Single(s) = of_value(paths(&[(0, 2.0, 0.1), (1, 3.0, 0.9)]), 10.0, 100.0) else {
            panic!("single")
        };
        assert_eq!((s.depth, s.base.count, s.recursive.count), (10.0, 10.0, 90.0));
        assert_eq!(s.cost_at(0.0), 2.0);
        assert_eq!(s.cost_at(2.0), 2.0 + 2.0 * 4.0);
        assert_eq!(s.average_cost, 2.0 + (3.0 * 110.0 / 2.0) / 11.0);
        assert!(matches!(
            of_value(paths(&[(0, 1.0, 0.5), (2, 1.0, 0.5)]), 1.0, 9.0),
            RecursionType::DivideAndConquer { .. }
        ));
        assert!(matches!(
            of_value(paths(&[(0, 1.0, 0.4), (1, 1.0, 0.2), (2, 1.0, 0.4)]), 1.0, 9.0),
            RecursionType::Other(l) if l.len() == 3
        ));
    }
}
