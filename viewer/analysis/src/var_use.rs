//! When a call first uses an argument: consumes it, or produces it.
//!
//! It approximates, and the page says so: it assumes that a variable is bound in one place; it guesses what
//! nondeterministic code does; it does not know argument positions of closures.
//!
//! Costs are call sequence numbers for one call. What cannot be followed gets the pessimistic answer: consumed at once,
//! produced at the very end.

use crate::body::{Body, NodeKind};
use crate::coverage::{self, Coverage, Measured};
use crate::recursion::{RecursionType, SiteCalls, classify, site_calls};
use crate::{Bodies, Failure};
use pct_deep::procrep::{AtomicKind, HeadVar, Inst, Var};
use pct_deep::{CsdId, PdId, Profile};
use serde::Serialize;
use std::sync::Arc;

/// What a call does with an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum UseType {
    /// Reads it.
    Consumption,
    /// Gives it a value.
    Production,
    /// Something else.
    Other,
}

impl UseType {
    /// The use according to the argument's mode.
    #[must_use]
    pub fn from_mode(head: &HeadVar) -> UseType {
        match (head.initial, head.last) {
            (Inst::Ground, Inst::Ground) => UseType::Consumption,
            (Inst::Free, Inst::Ground) => UseType::Production,
            _ => UseType::Other,
        }
    }

    /// The label for people.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            UseType::Consumption => "consumption",
            UseType::Production => "production",
            UseType::Other => "other",
        }
    }
}

/// The time of an argument's use.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Use {
    /// Cost until then.
    pub until: f64,
    /// Cost of the whole procedure.
    pub whole: f64,
}

/// The first use of argument `arg` (from 0) by the call `csd`.
///
/// # Errors
/// The use is unknown; the text says why.
pub fn first_use(subject: &dyn Bodies, csd: CsdId, arg: usize, kind: UseType) -> Result<Use, Failure> {
    let profile = subject.profile();
    let caller_clique = profile.pd_clique(profile.csd_caller(csd));
    let recursion = classify(subject, caller_clique);
    let depth = match &recursion {
        RecursionType::NotRecursive => Some(0.0),
        RecursionType::Single(s) => Some(s.depth),
        _ => None,
    };
    let finder = Finder { subject, profile, kind };
    finder.of_call(csd, arg, &CliqueFacts { recursion: &recursion, depth }, &mut Vec::new())
}

/// The cost of one call.
///
/// # Errors
/// It is a recursive call of unknown depth.
pub fn call_cost(subject: &dyn Bodies, csd: CsdId) -> Result<f64, Failure> {
    let profile = subject.profile();
    let calls = profile.csd_own(csd).calls() as f64;
    if profile.csd_child_clique(csd).is_some() {
        let total = profile.csd_total(csd).callseqs as f64;
        return Ok(if calls == 0.0 { 0.0 } else { total / calls });
    }
    match classify(subject, profile.pd_clique(profile.csd_caller(csd))) {
        RecursionType::Single(s) => Ok(s.cost_at((s.depth.round() - 1.0).max(0.0))),
        RecursionType::Errors(texts) => Err(cannot(&texts.join("; and "))),
        RecursionType::NotRecursive
        | RecursionType::DivideAndConquer { .. }
        | RecursionType::Mutual(_)
        | RecursionType::Other(_) => {
            Err(cannot("a recursive call of this type of recursion has no known depth"))
        }
    }
}

fn cannot(why: &str) -> Failure {
    Failure(format!("The use of variables cannot be analysed: {why}."))
}

/// Facts about the clique of the analysed context.
struct CliqueFacts<'a> {
    recursion: &'a RecursionType,
    depth: Option<f64>,
}

struct Finder<'a> {
    subject: &'a dyn Bodies,
    profile: &'a Profile,
    kind: UseType,
}

/// Deepest chain of calls that is followed. Deeper calls get the pessimistic answer.
const MAX_CALLS: usize = 200;

impl Finder<'_> {
    fn pessimistic(&self, cost: f64) -> Use {
        Use { until: if self.kind == UseType::Consumption { 0.0 } else { cost }, whole: cost }
    }

    fn of_call(
        &self,
        csd: CsdId,
        arg: usize,
        known: &CliqueFacts<'_>,
        stack: &mut Vec<PdId>,
    ) -> Result<Use, Failure> {
        let profile = self.profile;
        let callee = profile.csd_callee(csd);
        if let Some(clique) = profile.csd_child_clique(csd) {
            let calls = profile.csd_own(csd).calls() as f64;
            let cost = if calls == 0.0 { 0.0 } else { profile.csd_desc(csd).callseqs as f64 / calls };
            if stack.len() >= MAX_CALLS {
                return Ok(self.pessimistic(cost + 1.0));
            }
            let recursion = classify(self.subject, clique);
            let mut found = match &recursion {
                RecursionType::NotRecursive => {
                    let inner = CliqueFacts { recursion: &recursion, depth: Some(0.0) };
                    let scan = Scan::new(self, callee, &inner, 0.0)?;
                    let var = scan.head_var(arg, self.kind)?;
                    let mut path = stack.clone();
                    path.push(callee);
                    let (_, at) = scan.plain(0, 0.0, var, &mut path)?;
                    let until = match (at, self.kind) {
                        (Some(at), _) => at,
                        // A call that never succeeded never produced anything.
                        (None, UseType::Production) if scan.coverage.after(0) > 0 => {
                            return Err(cannot("an argument that is produced is bound nowhere in the body"));
                        }
                        (None, _) => cost,
                    };
                    Use { until, whole: cost }
                }
                RecursionType::Single(s) => {
                    let inner = CliqueFacts { recursion: &recursion, depth: Some(s.depth) };
                    self.recursive(callee, arg, &inner, s.depth, &mut vec![callee])?
                }
                _ => return Ok(self.pessimistic(cost)),
            };
            // The call itself.
            found.until += 1.0;
            found.whole += 1.0;
            return Ok(found);
        }
        // A recursive call.
        if stack.contains(&callee) {
            return Ok(Use { until: 1.0, whole: 1.0 });
        }
        let Some(depth) = known.depth else {
            return Err(cannot("the depth of a recursive call is not known"));
        };
        match known.recursion {
            RecursionType::Single(_) => {
                stack.push(callee);
                let mut found = self.recursive(callee, arg, known, (depth - 1.0).max(0.0), stack)?;
                found.until += 1.0;
                found.whole += 1.0;
                Ok(found)
            }
            _ => Err(cannot("the type of a recursion is not known")),
        }
    }

    /// A recursive procedure: its base case once, its recursive case as often as its depth.
    fn recursive(
        &self,
        pd: PdId,
        arg: usize,
        known: &CliqueFacts<'_>,
        depth: f64,
        stack: &mut Vec<PdId>,
    ) -> Result<Use, Failure> {
        let mut scan = Scan::new(self, pd, known, depth)?;
        let var = scan.head_var(arg, self.kind)?;
        scan.probabilities();
        let case = |recursive: bool, stack: &mut Vec<PdId>| -> Result<(f64, f64), Failure> {
            let (total, at) = scan.weighted(0, 0.0, var, recursive, stack)?;
            let until = at.unwrap_or(if self.kind == UseType::Consumption { 0.0 } else { total });
            Ok((until, total))
        };
        let (base, base_total) = case(false, stack)?;
        let (rec, rec_total) = case(true, stack)?;
        let r = scan.recursion[0];
        Ok(Use { until: base + depth * rec, whole: rec_total * r + base_total * (1.0 - r) })
    }
}

/// A scan of one body.
struct Scan<'a> {
    finder: &'a Finder<'a>,
    known: &'a CliqueFacts<'a>,
    pd: PdId,
    body: Arc<Body>,
    coverage: Coverage,
    calls: Vec<SiteCalls>,
    /// Cost of a call of a recursive call site, by slot.
    recursive_cost: Vec<Option<f64>>,
    /// Probability of recursion in a goal; filled by [`Scan::probabilities`].
    recursion: Vec<f64>,
}

/// Running cost after a goal, and the cost at which it uses the variable.
type GoalCosts = (f64, Option<f64>);

fn average(parts: &[(f64, f64)]) -> f64 {
    let weight: f64 = parts.iter().map(|p| p.0).sum();
    if weight.abs() < f64::EPSILON { 0.0 } else { parts.iter().map(|p| p.0 * p.1).sum::<f64>() / weight }
}

fn or(a: f64, b: f64) -> f64 {
    1.0 - (1.0 - a) * (1.0 - b)
}

impl<'a> Scan<'a> {
    fn new(
        finder: &'a Finder<'a>,
        pd: PdId,
        known: &'a CliqueFacts<'a>,
        depth: f64,
    ) -> Result<Self, Failure> {
        let profile = finder.profile;
        let body = finder.subject.body(profile.pd_ps(pd))?;
        let measured = Measured::of_pd(profile, pd).ok_or_else(|| {
            Failure("There is no coverage information: no coverage data in the file.".to_owned())
        })?;
        let coverage = coverage::infer(&body, &measured);
        if let Some(problem) = coverage.words(&body, 1).into_iter().next() {
            return Err(cannot(&problem));
        }
        let calls = site_calls(profile, pd);
        let recursive_cost = calls
            .iter()
            .map(|site| match known.recursion {
                RecursionType::Single(s) if site.recursive && !(-0.5..0.5).contains(&depth) => {
                    let levels = if site.calls == 0.0 { 0.0 } else { (s.depth / site.calls).round() };
                    Some(s.cost_at(levels))
                }
                _ => None,
            })
            .collect();
        Ok(Scan { finder, known, pd, body, coverage, calls, recursive_cost, recursion: Vec::new() })
    }

    fn head_var(&self, arg: usize, kind: UseType) -> Result<Var, Failure> {
        let head = &self.body.procedure.head;
        let var = head
            .get(arg)
            .ok_or_else(|| cannot(&format!("argument {} of {} arguments", arg + 1, head.len())))?;
        if UseType::from_mode(var) != kind && kind != UseType::Other {
            return Err(cannot("the mode of an argument is not that of its use"));
        }
        Ok(var.var)
    }

    fn before(&self, goal: usize) -> f64 {
        self.coverage.before(goal) as f64
    }

    fn success(&self, goal: usize) -> f64 {
        let before = self.before(goal);
        if before == 0.0 { 0.0 } else { (self.coverage.after(goal) as f64 / before).clamp(0.0, 1.0) }
    }

    fn failure(&self, goal: usize) -> f64 {
        if self.before(goal) == 0.0 { 0.0 } else { 1.0 - self.success(goal) }
    }

    fn consumes(&self) -> bool {
        self.finder.kind == UseType::Consumption
    }

    /// Whether the goal cannot contain the use.
    fn skips(&self, goal: usize) -> bool {
        let produces = self.finder.kind == UseType::Production;
        self.coverage.before(goal) == 0
            || (produces && (self.body.nodes[goal].detism.never_succeeds() || self.coverage.after(goal) == 0))
    }

    fn atom(&self, goal: usize, at: f64, var: Var, stack: &mut Vec<PdId>) -> GoalCosts {
        let node = &self.body.nodes[goal];
        let NodeKind::Atomic(atom) = &node.kind else { return (at, None) };
        let mentions = atom.kind.vars().contains(&var);
        if !atom.kind.is_call() {
            let found = mentions && (self.consumes() || atom.bound.contains(&var));
            return (at, found.then_some(at));
        }
        let slot = node.slot;
        let site = slot.and_then(|s| self.calls.get(s)).copied().unwrap_or_default();
        let cost = match slot.and_then(|s| self.recursive_cost.get(s).copied().flatten()) {
            Some(cost) => cost,
            None if site.calls == 0.0 => 0.0,
            None => site.total / site.calls,
        };
        let after = at + cost;
        if !mentions {
            return (after, None);
        }
        let AtomicKind::Call { args, .. } = &atom.kind else { return (after, Some(at)) };
        let csds: Vec<CsdId> = match slot.and_then(|s| self.finder.profile.slot(self.pd, s)) {
            Some(slot) => slot.csds().collect(),
            None => Vec::new(),
        };
        let pessimistic = self.finder.pessimistic(cost).until;
        let mut first: Option<f64> = None;
        for (i, _) in args.iter().enumerate().filter(|(_, a)| **a == var) {
            let until = match csds.as_slice() {
                &[csd] => match self.finder.of_call(csd, i, self.known, stack) {
                    Ok(u) => u.until,
                    Err(_) => pessimistic,
                },
                _ => pessimistic,
            };
            first = Some(first.map_or(until, |f| f.min(until)));
        }
        (after, Some(at + first.unwrap_or(pessimistic)))
    }

    /// The plain scan of the whole body, starting at a running cost.
    fn plain(&self, goal: usize, at: f64, var: Var, stack: &mut Vec<PdId>) -> Result<GoalCosts, Failure> {
        if self.skips(goal) {
            return Ok((at, None));
        }
        match &self.body.nodes[goal].kind {
            NodeKind::Atomic(_) => Ok(self.atom(goal, at, var, stack)),
            NodeKind::Conj(parts) => {
                let mut now = at;
                for &part in parts {
                    let (after, found) = self.plain(part, now, var, stack)?;
                    now = after;
                    if found.is_some() {
                        return Ok((now, found));
                    }
                }
                Ok((now, None))
            }
            NodeKind::Disj(parts) => {
                let mut now = at;
                let mut results = Vec::with_capacity(parts.len());
                for &part in parts {
                    let (after, found) = self.plain(part, now, var, stack)?;
                    now = after;
                    results.push(found);
                }
                let mut value: Option<f64> = None;
                for (i, found) in results.iter().enumerate().rev() {
                    value = match (found, value) {
                        (None, v) => v,
                        (Some(h), None) => Some(*h),
                        (Some(h), Some(_)) if self.consumes() => Some(*h),
                        (Some(h), Some(r)) => {
                            let next = parts.get(i + 1).map_or(0.0, |&p| self.before(p));
                            Some(average(&[(self.before(parts[i]), *h), (next, r)]))
                        }
                    };
                }
                if self.body.nodes[goal].detism.has_many_solutions() && value.is_some() {
                    value = Some(if self.consumes() { at } else { now });
                }
                Ok((now, value))
            }
            NodeKind::Switch { var: on, arms, .. } => {
                let results: Vec<(f64, GoalCosts)> = arms
                    .iter()
                    .map(|&a| Ok((self.before(a), self.plain(a, at, var, stack)?)))
                    .collect::<Result<_, Failure>>()?;
                let now = average(&results.iter().map(|(w, (after, _))| (*w, *after)).collect::<Vec<_>>());
                if *on == var {
                    return Ok((now, Some(at)));
                }
                Ok((now, any_arm(&results, if self.consumes() { now } else { at })))
            }
            NodeKind::IfThenElse { cond, then, other } => {
                let (after_cond, found) = self.plain(*cond, at, var, stack)?;
                let results: Vec<(f64, GoalCosts)> = [*then, *other]
                    .into_iter()
                    .map(|g| Ok((self.before(g), self.plain(g, after_cond, var, stack)?)))
                    .collect::<Result<_, Failure>>()?;
                let now = average(&results.iter().map(|(w, (after, _))| (*w, *after)).collect::<Vec<_>>());
                if found.is_some() {
                    return Ok((now, found));
                }
                // If a branch does not use it, it counts as used at the end, in both kinds of scan.
                Ok((now, any_arm(&results, now)))
            }
            NodeKind::Neg(inner) | NodeKind::Scope { inner, .. } => self.plain(*inner, at, var, stack),
        }
    }

    /// Computes the probability of recursion for every goal.
    fn probabilities(&mut self) {
        let mut r = vec![0.0; self.body.nodes.len()];
        // Parts have larger numbers than the whole.
        for goal in (0..self.body.nodes.len()).rev() {
            if self.coverage.before(goal) == 0 {
                continue;
            }
            let node = &self.body.nodes[goal];
            r[goal] = match &node.kind {
                NodeKind::Atomic(_) => {
                    let recursive =
                        node.slot.and_then(|s| self.recursive_cost.get(s)).is_some_and(Option::is_some);
                    if recursive { 1.0 } else { 0.0 }
                }
                NodeKind::Conj(parts) => {
                    parts.iter().rev().fold(0.0, |rest, &p| or(r[p], self.success(p) * rest))
                }
                NodeKind::Disj(parts) => {
                    parts.iter().rev().fold(0.0, |rest, &p| or(r[p], self.failure(p) * rest))
                }
                NodeKind::Switch { arms, .. } => {
                    let before = self.before(goal);
                    arms.iter().map(|&a| r[a] * self.before(a) / before).sum::<f64>().min(1.0)
                }
                NodeKind::IfThenElse { cond, then, other } => {
                    or(r[*cond], or(self.success(*cond) * r[*then], self.failure(*cond) * r[*other]))
                }
                NodeKind::Neg(inner) | NodeKind::Scope { inner, .. } => r[*inner],
            };
        }
        self.recursion = r;
    }

    fn weight(&self, goal: usize, recursive: bool) -> f64 {
        let r = self.recursion[goal];
        self.before(goal) * if recursive { r } else { 1.0 - r }
    }

    /// Scans for one case of a recursive body: branches are weighted by how likely they lead to that case.
    fn weighted(
        &self,
        goal: usize,
        at: f64,
        var: Var,
        recursive: bool,
        stack: &mut Vec<PdId>,
    ) -> Result<GoalCosts, Failure> {
        if self.skips(goal) {
            return Ok((at, None));
        }
        match &self.body.nodes[goal].kind {
            NodeKind::Atomic(_) => Ok(self.atom(goal, at, var, stack)),
            NodeKind::Conj(parts) => {
                let (mut now, mut first) = (at, None);
                for &part in parts {
                    let (after, found) = self.weighted(part, now, var, recursive, stack)?;
                    now = after;
                    first = first.or(found);
                }
                Ok((now, first))
            }
            NodeKind::Disj(parts) => {
                let (mut now, mut found, mut reach) = (at, false, 1.0);
                for &part in parts {
                    let (after, f) = self.weighted(part, 0.0, var, recursive, stack)?;
                    now += after * reach;
                    found |= f.is_some();
                    if self.coverage.before(part) == 0 {
                        break;
                    }
                    reach *= self.failure(part);
                }
                Ok((now, found.then_some(if self.consumes() { at } else { now })))
            }
            NodeKind::Switch { var: on, arms, .. } => {
                let results: Vec<(f64, GoalCosts)> = arms
                    .iter()
                    .map(|&a| Ok((self.weight(a, recursive), self.weighted(a, at, var, recursive, stack)?)))
                    .collect::<Result<_, Failure>>()?;
                let now = average_or(at, &results);
                if *on == var {
                    return Ok((now, Some(at)));
                }
                Ok((now, any_arm(&results, if self.consumes() { now } else { at })))
            }
            NodeKind::IfThenElse { cond, then, other } => {
                let (after_cond, found) = self.weighted(*cond, at, var, recursive, stack)?;
                let results: Vec<(f64, GoalCosts)> = [*then, *other]
                    .into_iter()
                    .map(|g| {
                        Ok((self.weight(g, recursive), self.weighted(g, after_cond, var, recursive, stack)?))
                    })
                    .collect::<Result<_, Failure>>()?;
                let now = average_or(after_cond, &results);
                if found.is_some() {
                    return Ok((now, found));
                }
                Ok((now, any_arm(&results, now)))
            }
            NodeKind::Neg(inner) | NodeKind::Scope { inner, .. } => {
                self.weighted(*inner, at, var, recursive, stack)
            }
        }
    }
}

/// The average over arms, if at least one uses the variable; `default` stands for arms that do not.
fn any_arm(results: &[(f64, GoalCosts)], default: f64) -> Option<f64> {
    results
        .iter()
        .any(|(_, (_, f))| f.is_some())
        .then(|| average(&results.iter().map(|(w, (_, f))| (*w, f.unwrap_or(default))).collect::<Vec<_>>()))
}

/// The average cost after the arms. Arms that this case never takes add nothing.
fn average_or(at: f64, results: &[(f64, GoalCosts)]) -> f64 {
    let weight: f64 = results.iter().map(|r| r.0).sum();
    if weight.abs() < f64::EPSILON {
        at
    } else {
        average(&results.iter().map(|(w, (after, _))| (*w, *after)).collect::<Vec<_>>())
    }
}
