//! Classifies how a clique recurses, and computes what its recursive calls cost (docs/feedback.md, section 5).
//!
//! The viewer's pages have their own classification (`pct_analysis::recursion`). This one gives the numbers of the
//! original tool to the bit. Where paths with the same number of recursive calls meet, their probabilities are joined
//! as if they were independent, which loses mass. So the order of joining matters and is preserved.

use std::collections::BTreeSet;

use pct_analysis::body::NodeKind;
use pct_deep::CliqueId;
use pct_deep::procrep::Detism;

use crate::context::{Context, Contexts, Missing};
use crate::cost::Abort;

/// The type of a clique's recursion.
#[derive(Clone, Debug, PartialEq)]
pub enum Recursion {
    /// No recursion.
    Not,
    /// At most one recursive call on a path.
    Single {
        /// Cost of the other calls on a path without a recursive call.
        base: f64,
        /// The same, on a path with one.
        recursive: f64,
        /// Calls for each call from outside.
        depth: f64,
    },
    /// No or two recursive calls.
    DivideAndConquer,
    /// Through this many contexts.
    Mutual(usize),
    /// In another way.
    Other,
    /// Unknown, for these reasons.
    Errors(Vec<String>),
}

/// Cost of a call at a recursive call site.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SiteCost {
    /// Calls.
    pub calls: i64,
    /// Cost of each.
    pub each: f64,
}

/// By slot; `None`: not a recursive call site.
pub type SiteCosts = Vec<Option<SiteCost>>;

impl Recursion {
    /// The depth at which a context of the clique is analysed (section 4.2); `None`: no depth is typical.
    pub fn interesting_depth(&self) -> Option<f64> {
        match self {
            Self::Not => Some(0.0),
            Self::Single { .. } => Some(2.0),
            _ => None,
        }
    }

    /// Why the costs of recursive calls are unknown for this type; `None`: they are known.
    pub fn unknown_costs(&self) -> Option<String> {
        match self {
            Self::Not | Self::Single { .. } => None,
            Self::DivideAndConquer | Self::Mutual(_) => {
                Some("No average recursion depth for this recursion type".to_owned())
            }
            Self::Other => Some("Could not detect recursion type".to_owned()),
            Self::Errors(texts) => Some(texts.join("; and ")),
        }
    }

    /// The cost of calls at recursive call sites, in a context that is analysed at a depth (section 5.3). The depth
    /// only decides whether there are any calls: the cost is that at the clique's average depth.
    ///
    /// # Errors
    /// A recursive call site was never called. The inner error, in words: this type of recursion has no such costs.
    pub fn site_costs(
        &self,
        context: &Context,
        depth: Option<f64>,
    ) -> Result<Result<SiteCosts, String>, Abort> {
        let none = vec![None; context.sites.len()];
        Ok(match self {
            Self::Not => Ok(none),
            Self::Single { .. } if depth.is_some_and(|d| (-0.5..0.5).contains(&d)) => Ok(none),
            &Self::Single { base, recursive, depth } => {
                let mut costs = none;
                for (cost, site) in costs.iter_mut().zip(&context.sites).filter(|(_, s)| s.recursive) {
                    if site.calls == 0 {
                        return Err(Abort::contradiction("a recursive call site was never called"));
                    }
                    let level = (depth / site.calls as f64 + 0.5).floor();
                    *cost = Some(SiteCost { calls: site.calls, each: base + level * (recursive + 1.0) });
                }
                Ok(costs)
            }
            _ => Err(self.unknown_costs().unwrap_or_default()),
        })
    }
}

/// The average of values by weights; 0 if there is no weight (section 12.1).
pub fn average(parts: &[(f64, f64)]) -> f64 {
    let (mut weights, mut sum) = (0.0, 0.0);
    for (weight, value) in parts {
        weights += weight;
        sum += weight * value;
    }
    if f64::abs(weights) < f64::EPSILON { 0.0 } else { sum / weights }
}

/// The probability of either of two independent events.
pub fn or(a: f64, b: f64) -> f64 {
    1.0 - (1.0 - a) * (1.0 - b)
}

/// Checks a probability.
///
/// # Errors
/// The number is no probability.
pub fn probability(p: f64) -> Result<f64, Abort> {
    if (0.0..=1.0).contains(&p) { Ok(p) } else { Err(Abort::contradiction(format!("a probability of {p}"))) }
}

/// The type of a clique's recursion (section 5.1).
///
/// # Errors
/// The profile contradicts itself.
pub fn classify(contexts: &Contexts<'_>, clique: CliqueId) -> Result<Recursion, Abort> {
    let profile = contexts.profile;
    let errors = |text: &str| Ok(Recursion::Errors(vec![text.to_owned()]));
    let Some(entry) = profile.clique_entry(clique) else {
        return errors("This clique doesn't appear to have an entry procedure");
    };
    let members = profile.clique_members(clique).len();
    if members > 1 {
        return Ok(Recursion::Mutual(members));
    }
    let pd = profile.csd_callee(entry);
    let context = match contexts.context(pd)? {
        Ok(context) => context,
        Err(Missing::Coverage) => return errors("No coverage information available"),
        Err(Missing::Representation) if profile.header().coverage != pct_deep::Coverage::Dynamic => {
            return errors("No coverage information available");
        }
        Err(Missing::Representation) => return errors("Cannot find procedure representation"),
    };
    let value = levels(&context, 0)?;
    let from_outside = profile.csd_own(entry).calls() as f64;
    of_levels(value, profile.pd_own(pd).calls() as f64, from_outside)
}

fn of_levels(value: Option<Levels>, all: f64, from_outside: f64) -> Result<Recursion, Abort> {
    let Some(value) = value else { return Ok(Recursion::Not) };
    if !value.errors.is_empty() {
        let text = |d: &Detism| match d {
            Detism::Nondet => "nondet_rep code is not handled".to_owned(),
            _ => "multidet_rep code is not handled".to_owned(),
        };
        return Ok(Recursion::Errors(value.errors.iter().map(text).collect()));
    }
    let at = |k: u32| value.paths.iter().find(|p| p.calls == k);
    Ok(match value.max {
        0 => Recursion::Not,
        1 => {
            if from_outside == 0.0 {
                return Err(Abort::contradiction("a clique is never entered"));
            }
            Recursion::Single {
                base: at(0).map_or(0.0, |p| p.cost),
                recursive: at(1).map_or(0.0, |p| p.cost),
                depth: all / from_outside,
            }
        }
        2 if at(1).is_none() => Recursion::DivideAndConquer,
        _ => Recursion::Other,
    })
}

/// Paths through a goal with the same number of recursive calls.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Path {
    calls: u32,
    cost: f64,
    probability: f64,
}

/// The paths through a goal (section 5.2); `None` stands for a goal that is dead.
#[derive(Clone, Debug, PartialEq)]
struct Levels {
    /// By ascending number of recursive calls, each number once.
    paths: Vec<Path>,
    max: u32,
    /// Live paths have goals of these determinisms, which are not handled.
    errors: BTreeSet<Detism>,
}

fn unit(calls: u32, cost: f64) -> Levels {
    Levels { paths: vec![Path { calls, cost, probability: 1.0 }], max: calls, errors: BTreeSet::new() }
}

fn times(p: f64, levels: Option<Levels>) -> Result<Option<Levels>, Abort> {
    probability(p)?;
    Ok(levels.map(|mut l| {
        l.paths.iter_mut().for_each(|path| path.probability *= p);
        l
    }))
}

/// Joins neighbours with the same number of recursive calls, from the left (section 5.2).
fn condense(paths: Vec<Path>) -> Vec<Path> {
    let mut out: Vec<Path> = Vec::with_capacity(paths.len());
    for path in paths {
        match out.last_mut() {
            Some(last) if last.calls == path.calls => {
                last.cost = average(&[(last.probability, last.cost), (path.probability, path.cost)]);
                last.probability = or(last.probability, path.probability);
            }
            _ => out.push(path),
        }
    }
    out
}

/// Combines goals that run one after the other (section 5.2).
fn seq(a: Option<Levels>, b: Option<Levels>) -> Option<Levels> {
    let (a, b) = (a?, b?);
    let mut paths: Vec<Path> = Vec::with_capacity(a.paths.len() * b.paths.len());
    for pa in &a.paths {
        paths.extend(b.paths.iter().map(|pb| Path {
            calls: pa.calls.saturating_add(pb.calls),
            cost: pa.cost + pb.cost,
            probability: pa.probability * pb.probability,
        }));
    }
    paths.sort_by(|a, b| {
        (a.calls.cmp(&b.calls)).then(a.cost.total_cmp(&b.cost)).then(a.probability.total_cmp(&b.probability))
    });
    let errors = a.errors.union(&b.errors).copied().collect();
    Some(Levels { paths: condense(paths), max: a.max.saturating_add(b.max), errors })
}

/// Combines alternatives (section 5.2).
fn alt(a: Option<Levels>, b: Option<Levels>) -> Option<Levels> {
    let (mut a, b) = match (a, b) {
        (Some(a), Some(b)) => (a, b),
        (None, x) | (x, None) => return x,
    };
    a.paths.extend(b.paths);
    a.paths.sort_by_key(|p| p.calls);
    a.errors.extend(b.errors);
    Some(Levels { paths: condense(a.paths), max: a.max.max(b.max), errors: a.errors })
}

fn levels(c: &Context, goal: usize) -> Result<Option<Levels>, Abort> {
    let before = c.before(goal);
    if before == 0 {
        return Ok(None);
    }
    let node = &c.body.nodes[goal];
    let success = |g: usize| if c.after(g) > c.before(g) { 1.0 } else { c.success(g) };
    let share = |g: usize| c.before(g) as f64 / before as f64;
    let mut value = match &node.kind {
        NodeKind::Atomic(_) => match c.site(goal) {
            Some(site) if site.recursive => Some(unit(1, 0.0)),
            Some(site) => Some(unit(0, site.per_call())),
            None => Some(unit(0, 0.0)),
        },
        NodeKind::Conj(parts) => {
            let mut rest = Some(unit(0, 0.0));
            for &part in parts.iter().rev() {
                let head = levels(c, part)?;
                if head.is_some() && c.body.nodes[part].detism.can_fail() {
                    let p = success(part);
                    rest = alt(times(p, rest)?, times(1.0 - p, Some(unit(0, 0.0)))?);
                }
                rest = seq(head, rest);
            }
            rest
        }
        NodeKind::Disj(parts) => {
            let mut rest = Some(unit(0, 0.0));
            for &part in parts.iter().rev() {
                let head = levels(c, part)?;
                if head.is_some() {
                    let p = success(part);
                    rest = alt(times(p, Some(unit(0, 0.0)))?, times(1.0 - p, rest)?);
                }
                rest = seq(head, rest);
            }
            rest
        }
        NodeKind::Switch { arms, .. } => {
            let taken = arms.iter().fold(0_i64, |sum, &a| sum.saturating_add(c.before(a)));
            let mut rest = times(before.saturating_sub(taken) as f64 / before as f64, Some(unit(0, 0.0)))?;
            for &arm in arms.iter().rev() {
                rest = alt(times(share(arm), levels(c, arm)?)?, rest);
            }
            rest
        }
        &NodeKind::IfThenElse { cond, then, other } => {
            let branches =
                alt(times(share(then), levels(c, then)?)?, times(share(other), levels(c, other)?)?);
            seq(levels(c, cond)?, branches)
        }
        NodeKind::Neg(inner) | NodeKind::Scope { inner, .. } => levels(c, *inner)?,
    };
    if let (Some(value), true) = (&mut value, node.detism.has_many_solutions()) {
        value.errors.insert(node.detism);
    }
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(list: &[(u32, f64, f64)]) -> Levels {
        let paths =
            list.iter().map(|&(calls, cost, probability)| Path { calls, cost, probability }).collect();
        Levels { paths, max: list.iter().map(|p| p.0).max().unwrap_or(0), errors: BTreeSet::new() }
    }

    #[test]
    fn ways_that_meet_are_joined_as_if_independent() {
        // 0.5 and 0.5: 1 - 0.25, not 1; the cost is the average.
        let joined = alt(times(0.5, Some(unit(0, 10.0))).unwrap(), times(0.5, Some(unit(0, 30.0))).unwrap());
        assert_eq!(joined, Some(paths(&[(0, 20.0, 0.75)])));
        // From the left: (0.5 or 0.5) or 0.5.
        let thrice = alt(joined, times(0.5, Some(unit(0, 20.0))).unwrap());
        assert_eq!(thrice, Some(paths(&[(0, 20.0, 0.875)])));
    }

    #[test]
    fn sequences_multiply_and_their_largest_numbers_add() {
        let a = alt(times(0.25, Some(unit(0, 1.0))).unwrap(), times(0.75, Some(unit(1, 2.0))).unwrap());
        let twice = seq(a.clone(), a).unwrap();
        assert_eq!(twice.max, 2);
        assert_eq!(
            twice.paths.iter().map(|p| (p.calls, p.cost)).collect::<Vec<_>>(),
            [(0, 2.0), (1, 3.0), (2, 4.0)]
        );
        assert_eq!(twice.paths[0].probability, 0.0625);
        assert_eq!(twice.paths[1].probability, 1.0 - (1.0 - 0.1875) * (1.0 - 0.1875));
        assert_eq!(seq(None, Some(unit(0, 0.0))), None);
        assert_eq!(alt(None, Some(unit(0, 0.0))), Some(unit(0, 0.0)));
    }

    #[test]
    fn types_are_told_in_the_order_of_the_table() {
        let of = |v: Levels| of_levels(Some(v), 100.0, 10.0).unwrap();
        assert_eq!(of_levels(None, 1.0, 1.0), Ok(Recursion::Not));
        assert_eq!(of(paths(&[(0, 5.0, 1.0)])), Recursion::Not);
        let mut nondet = paths(&[(0, 5.0, 1.0)]);
        nondet.errors.extend([Detism::Multi, Detism::Nondet]);
        assert_eq!(
            of(nondet),
            Recursion::Errors(vec![
                "nondet_rep code is not handled".into(),
                "multidet_rep code is not handled".into()
            ])
        );
        assert_eq!(
            of(paths(&[(0, 2.0, 0.1), (1, 3.0, 0.9)])),
            Recursion::Single { base: 2.0, recursive: 3.0, depth: 10.0 }
        );
        assert_eq!(of(paths(&[(1, 3.0, 1.0)])), Recursion::Single { base: 0.0, recursive: 3.0, depth: 10.0 });
        assert_eq!(of(paths(&[(0, 1.0, 0.5), (2, 1.0, 0.5)])), Recursion::DivideAndConquer);
        assert_eq!(of(paths(&[(0, 1.0, 0.4), (1, 1.0, 0.2), (2, 1.0, 0.4)])), Recursion::Other);
        assert!(of_levels(Some(paths(&[(1, 3.0, 1.0)])), 5.0, 0.0).is_err());
    }

    #[test]
    fn averages_without_weight_are_zero() {
        assert_eq!(average(&[]), 0.0);
        assert_eq!(average(&[(0.0, 7.0)]), 0.0);
        assert_eq!(average(&[(1.0, 7.0), (3.0, 3.0)]), 4.0);
    }
}
