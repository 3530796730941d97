//! Costs of all goals of a body in one context, and which of them are worth a conjunct (docs/feedback.md, section 8).

use pct_analysis::body::NodeKind;
use pct_deep::procrep::Detism;

use crate::context::Context;
use crate::cost::{Abort, Cost, sequence};
use crate::recursion::SiteCosts;

/// The costs of a body's goals.
#[derive(Clone, Debug, PartialEq)]
pub struct Costs {
    /// By goal: the cost in the profile.
    pub first: Vec<Cost>,
    /// By goal: that cost, less the savings of parallel execution inside.
    pub now: Vec<Cost>,
    /// By goal: whether it is worth its own conjunct. Decided once, from the first cost.
    pub costly: Vec<bool>,
}

/// The costs of a context's goals (section 8.2), and which are costly (8.5).
///
/// # Errors
/// The counts contradict each other, or the costs of branches are unknown.
pub fn of_body(context: &Context, recursive: &SiteCosts, threshold: i64) -> Result<Costs, Abort> {
    let count = context.body.nodes.len();
    let mut costs = Costs { first: Vec::new(), now: vec![Cost::Dead; count], costly: vec![false; count] };
    // Parts have larger numbers than the whole.
    for goal in (0..count).rev() {
        let cost = match &context.body.nodes[goal].kind {
            NodeKind::Atomic(atom) if atom.kind.is_call() => call(context, recursive, goal),
            NodeKind::Atomic(_) => Cost::Trivial(context.before(goal)),
            NodeKind::Conj(parts) => costs.conjunction(context, parts, context.before(goal))?,
            _ => costs.compound(context, goal)?,
        };
        costs.now[goal] = cost;
        let detism = context.body.nodes[goal].detism;
        costs.costly[goal] = matches!(detism, Detism::Det | Detism::CcMulti) && is_above(cost, threshold);
    }
    costs.first.clone_from(&costs.now);
    Ok(costs)
}

/// Whether a goal is executed and each execution costs more than the threshold (section 8.5).
pub fn is_above(cost: Cost, threshold: i64) -> bool {
    cost.calls() > 0 && cost.per_call() > threshold as f64
}

fn call(context: &Context, recursive: &SiteCosts, goal: usize) -> Cost {
    let Some(site) = context.site(goal) else { return Cost::Total(0, 0.0) };
    let slot = context.body.nodes[goal].slot;
    match slot.and_then(|s| recursive.get(s).copied().flatten()) {
        Some(cost) if site.recursive => Cost::PerCall(cost.calls, cost.each),
        _ => Cost::Total(site.calls, site.total),
    }
}

impl Costs {
    /// The current cost of goals executed one after the other; `calls`: the number of executions if there are none.
    ///
    /// # Errors
    /// As [`sequence`].
    pub fn conjunction(&self, context: &Context, goals: &[usize], calls: i64) -> Result<Cost, Abort> {
        sequence(goals.iter().map(|&g| (self.now[g], context.after(g))), calls)
    }

    /// The cost of a compound goal (except a conjunction), from its parts' current costs (sections 8.2, 8.4).
    ///
    /// # Errors
    /// The counts of its branches do not add up.
    pub fn compound(&self, context: &Context, goal: usize) -> Result<Cost, Abort> {
        let node = &context.body.nodes[goal];
        let before = |g: usize| context.before(g);
        Ok(match &node.kind {
            NodeKind::Conj(_) | NodeKind::Atomic(_) => self.now[goal],
            NodeKind::Disj(parts) if node.detism.has_many_solutions() => {
                let mut rest = Cost::none(before(goal));
                for &part in parts.iter().rev() {
                    rest = if before(part) == 0 { Cost::Dead } else { self.now[part].then(rest)? };
                }
                rest
            }
            NodeKind::Disj(parts) => {
                let last = parts.last().map_or(before(goal), |&g| before(g) - context.after(g));
                let mut rest = Cost::none(last);
                for &part in parts.iter().rev() {
                    rest = if before(part) == 0 {
                        Cost::Dead
                    } else {
                        let done = Cost::Trivial(context.after(part));
                        self.now[part].then(Cost::branch(before(part), rest, done)?)?
                    };
                }
                rest
            }
            NodeKind::Switch { arms, .. } => {
                // How often no arm before this one was taken, and how often none at all.
                let mut left = vec![before(goal)];
                for &arm in arms {
                    left.push(left[left.len() - 1].saturating_sub(before(arm)));
                }
                let mut rest = Cost::none(left[arms.len()]);
                for (i, &arm) in arms.iter().enumerate().rev() {
                    rest =
                        if left[i] == 0 { Cost::Dead } else { Cost::branch(left[i], self.now[arm], rest)? };
                }
                rest
            }
            &NodeKind::IfThenElse { cond, then, other } => {
                let branches = Cost::branch(before(cond), self.now[then], self.now[other])?;
                self.now[cond].then(branches)?
            }
            NodeKind::Neg(inner) | NodeKind::Scope { inner, .. } => self.now[*inner],
        })
    }
}
