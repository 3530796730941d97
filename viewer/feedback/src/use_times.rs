//! When a goal produces or first consumes a variable, from its start, in call sequence counts
//! (docs/feedback.md, section 12).
//!
//! Calls are followed into their callees, and further, as far as modules allow. What cannot be followed gets the
//! pessimistic answer: consumed at once, produced at the very end. The viewer's page about a call's arguments asks the
//! same question (`pct_analysis::var_use`) but handles some cases better. Here the original tool's numbers are kept.

use std::cell::Cell;
use std::rc::Rc;

use pct_analysis::body::NodeKind;
use pct_deep::procrep::{AtomicGoal, AtomicKind, Inst, Var};
use pct_deep::{CliqueId, CsdId, PdId, StrId};

use crate::context::{Context, Missing};
use crate::cost::Abort;
use crate::recursion::{Recursion, SiteCosts, average, or, probability};
use crate::variables::Use;
use crate::world::World;

/// The answer for a goal that cannot be followed and costs `cost` (section 12).
pub fn pessimistic(kind: Use, cost: f64) -> f64 {
    match kind {
        Use::Production => cost,
        Use::Consumption => 0.0,
    }
}

/// Why there is no time.
#[derive(Clone, Debug, PartialEq)]
pub enum Stop {
    /// The time is unknown; the pessimistic answer is used.
    Cannot(String),
    /// The profile contradicts itself.
    Abort(Abort),
}

impl From<Abort> for Stop {
    fn from(abort: Abort) -> Self {
        Self::Abort(abort)
    }
}

fn contradiction<T>(text: impl Into<String>) -> Result<T, Stop> {
    Err(Stop::Abort(Abort::contradiction(text)))
}
fn cannot<T>(text: &str) -> Result<T, Stop> {
    Err(Stop::Cannot(text.to_owned()))
}

/// Most answers that are stored.
const MOST_USE_TIMES: usize = 1 << 20;

/// Most goals inside goals, over all calls that are followed. Deeper times are unknown.
const MAX_SCANNING: u32 = 60_000;

struct Depth<'a>(&'a Cell<u32>);

impl Drop for Depth<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

/// The context that makes a call.
#[derive(Clone, Copy)]
pub struct Caller<'a> {
    /// The type of its clique's recursion.
    pub recursion: &'a Recursion,
    /// Its depth in the recursion; `None`: unknown.
    pub depth: Option<f64>,
    /// Contexts of the clique that are being scanned.
    pub stack: &'a [PdId],
}

/// Finds one kind of use.
#[derive(Clone, Copy)]
pub struct Finder<'a> {
    /// The profile.
    pub world: &'a World<'a>,
    /// The module within which calls are followed; `None`: all calls are followed.
    pub follow: Option<StrId>,
    /// The kind of use.
    pub kind: Use,
}

impl<'a> Finder<'a> {
    fn follows(&self, pd: PdId) -> bool {
        let profile = self.world.profile;
        self.follow.is_none_or(|module| *profile.ps(profile.pd_ps(pd)).label.def_module() == module)
    }

    fn deeper(&self) -> Result<Depth<'a>, Stop> {
        let scanning = &self.world.scanning;
        if scanning.get() >= MAX_SCANNING {
            return cannot("calls are nested too deep");
        }
        scanning.set(scanning.get() + 1);
        Ok(Depth(scanning))
    }

    /// The time at which a call uses its argument `arg` (from 0); `cost` is the call's (section 12.4).
    ///
    /// # Errors
    /// The time is unknown.
    pub fn call(&self, csd: CsdId, arg: usize, caller: Caller<'_>, cost: f64) -> Result<f64, Stop> {
        let profile = self.world.profile;
        if let Some(clique) = profile.csd_child_clique(csd) {
            return self.enter(csd, arg, clique);
        }
        let callee = profile.csd_callee(csd);
        if !self.follows(callee) {
            return Ok(pessimistic(self.kind, cost));
        }
        if caller.stack.contains(&callee) {
            return Ok(1.0);
        }
        let Some(depth) = caller.depth else {
            return cannot("Cannot compute var use on a recursive call site for an unknown recursion depth");
        };
        if depth < 0.5 {
            return contradiction("a recursive call below the depth of the recursion");
        }
        if !matches!(caller.recursion, Recursion::Not | Recursion::Single { .. }) {
            return cannot("Cannot compute var use on a recursive call site for an unknown recursion type");
        }
        let stack = caller.stack.iter().copied().chain([callee]).collect();
        Ok(self.recursive(callee, arg, depth - 1.0, stack)? + 1.0)
    }

    /// The time at which a call that enters a clique uses an argument (section 12.5).
    fn enter(&self, csd: CsdId, arg: usize, clique: CliqueId) -> Result<f64, Stop> {
        let key = (csd, arg, self.kind, self.follow);
        if let Some(known) = self.world.use_times.borrow().get(&key) {
            return known.clone().map_err(Stop::Cannot);
        }
        let _depth = self.deeper()?;
        let found = match self.enter_new(csd, arg, clique) {
            Ok(time) => Ok(time),
            Err(Stop::Cannot(text)) => Err(text),
            Err(abort @ Stop::Abort(_)) => return Err(abort),
        };
        let mut uses = self.world.use_times.borrow_mut();
        if uses.len() >= MOST_USE_TIMES {
            uses.clear();
        }
        uses.insert(key, found.clone());
        found.map_err(Stop::Cannot)
    }

    fn enter_new(&self, csd: CsdId, arg: usize, clique: CliqueId) -> Result<f64, Stop> {
        let profile = self.world.profile;
        let first = profile.csd_callee(csd);
        // The cost of all calls together, not of one: displayed times may exceed the cost of the goal.
        let cost = profile.csd_desc(csd).callseqs as f64;
        if !self.follows(first) {
            return Ok(pessimistic(self.kind, cost));
        }
        match *self.world.recursion(clique)? {
            Recursion::Not => {
                let scan = Scan::of_procedure(*self, first, arg, 0.0, Vec::new())?;
                let (_, found) = scan.plain(0, 0.0, Some(scan.var))?;
                match (found, self.kind) {
                    (Some(time), _) => Ok(time + 1.0),
                    (None, Use::Consumption) => Ok(cost + 1.0),
                    (None, Use::Production) => contradiction("an output argument is produced nowhere"),
                }
            }
            Recursion::Single { depth, .. } => Ok(self.recursive(first, arg, depth, vec![first])? + 1.0),
            _ => Ok(pessimistic(self.kind, cost)),
        }
    }

    /// A recursive procedure at a depth: its base case once, its recursive case as often as its depth (section 12.7).
    fn recursive(&self, pd: PdId, arg: usize, depth: f64, stack: Vec<PdId>) -> Result<f64, Stop> {
        let _depth = self.deeper()?;
        let scan = Scan::of_procedure(*self, pd, arg, depth, stack)?;
        let recursion = recursion_probabilities(&scan.context, &scan.costs)?;
        let case = |recursive: bool| -> Result<f64, Stop> {
            let case = Case { scan: &scan, recursion: &recursion, recursive };
            let (total, found) = case.scan(0, 0.0, Some(scan.var))?;
            Ok(found.unwrap_or(match self.kind {
                Use::Consumption => 0.0,
                Use::Production => total,
            }))
        };
        Ok(case(false)? + depth * case(true)?)
    }

    /// The time at which a compound goal of a context uses a variable, by a plain scan (section 12.3). `None`: nowhere.
    ///
    /// # Errors
    /// The time is unknown.
    pub fn of_goal(
        &self,
        context: &Rc<Context>,
        costs: &SiteCosts,
        goal: usize,
        var: Var,
        depth: f64,
    ) -> Result<Option<f64>, Stop> {
        let scan = Scan {
            finder: *self,
            recursion: self.world.recursion(context.clique)?,
            context: Rc::clone(context),
            costs: costs.clone(),
            depth,
            stack: Vec::new(),
            var,
        };
        Ok(scan.plain(goal, 0.0, Some(var))?.1)
    }
}

/// The variables in argument positions of a call, without closures.
pub fn plain_arguments(kind: &AtomicKind) -> &[Var] {
    match kind {
        AtomicKind::Call { args, .. }
        | AtomicKind::HigherOrder { args, .. }
        | AtomicKind::Method { args, .. } => args,
        _ => &[],
    }
}

/// One of several times of the same variable: consumption uses the first, production must have only one.
///
/// # Errors
/// There are several different times of production.
pub fn one_of(kind: Use, times: &[f64]) -> Result<f64, Abort> {
    let least = times.iter().copied().fold(f64::INFINITY, f64::min);
    if kind == Use::Production && times.iter().any(|&t| t > least) {
        return Err(Abort::contradiction("a call produces a variable at several times"));
    }
    Ok(least)
}

/// Running time after a goal, and the time at which the goal uses the variable.
type GoalTimes = (f64, Option<f64>);

/// A body that is scanned for a variable.
struct Scan<'a> {
    finder: Finder<'a>,
    context: Rc<Context>,
    recursion: Rc<Recursion>,
    costs: SiteCosts,
    depth: f64,
    stack: Vec<PdId>,
    var: Var,
}

impl<'a> Scan<'a> {
    /// Enters a procedure, to find its argument `arg`.
    fn of_procedure(
        finder: Finder<'a>,
        pd: PdId,
        arg: usize,
        depth: f64,
        stack: Vec<PdId>,
    ) -> Result<Self, Stop> {
        let world = finder.world;
        let context = match world.context(pd)? {
            Ok(context) => context,
            Err(Missing::Representation) => return cannot("Cannot find procedure representation"),
            Err(Missing::Coverage) => return cannot("No coverage information available"),
        };
        let Some(head) = context.body.procedure.head.get(arg).copied() else {
            return cannot(&format!("proc_dynamic_var_use_info: ArgNum {arg} out of range for PD {pd}"));
        };
        let wanted = match finder.kind {
            Use::Consumption => (Inst::Ground, Inst::Ground),
            Use::Production => (Inst::Free, Inst::Ground),
        };
        if (head.initial, head.last) != wanted {
            return contradiction(format!(
                "argument {arg} of {} has mode {} >> {}, where {} >> {} is expected",
                world.profile.qualified_name(world.profile.pd_ps(pd)),
                head.initial,
                head.last,
                wanted.0,
                wanted.1
            ));
        }
        let recursion = world.recursion(context.clique)?;
        let costs = recursion.site_costs(&context, Some(depth))?.map_err(Stop::Cannot)?;
        Ok(Self { finder, context, recursion, costs, depth, stack, var: head.var })
    }

    fn before(&self, goal: usize) -> f64 {
        self.context.before(goal) as f64
    }

    fn produces(&self) -> bool {
        self.finder.kind == Use::Production
    }

    /// Whether the goal cannot contain the use.
    fn skips(&self, goal: usize) -> bool {
        self.context.before(goal) == 0
            || (self.produces()
                && (self.context.body.nodes[goal].detism.never_succeeds() || self.context.after(goal) == 0))
    }

    /// A goal without goals inside; the variable `var`, if given, is searched in it.
    fn atom(&self, goal: usize, atom: &AtomicGoal, time: f64, var: Option<Var>) -> Result<GoalTimes, Stop> {
        let mentions = |v: &Var| atom.kind.vars().contains(v);
        let is_bound = |v: &Var| atom.bound.contains(v);
        if !atom.kind.is_call() {
            let found = var.is_some_and(|v| mentions(&v) && (!self.produces() || is_bound(&v)));
            return Ok((time, found.then_some(time)));
        }
        let nothing = crate::context::Site::default();
        let site = self.context.site(goal).unwrap_or(&nothing);
        let cost = if site.calls == 0 {
            0.0
        } else if site.recursive {
            let slot = self.context.body.nodes[goal].slot;
            match slot.and_then(|s| self.costs.get(s).copied().flatten()) {
                Some(cost) => cost.each,
                None => return contradiction("a recursive call site has no cost"),
            }
        } else {
            site.per_call()
        };
        let after = time + cost;
        let Some(var) = var.filter(mentions) else { return Ok((after, None)) };
        if self.produces() != is_bound(&var) {
            return contradiction(format!(
                "goal {} {} variable {}, which is looked for as {}",
                self.context.body.nodes[goal].path,
                if is_bound(&var) { "binds" } else { "does not bind" },
                var.0,
                if self.produces() { "an output" } else { "an input" }
            ));
        }
        if !matches!(atom.kind, AtomicKind::Call { .. }) {
            return Ok((after, Some(time)));
        }
        let worst = pessimistic(self.finder.kind, cost);
        let &[csd] = site.csds.as_slice() else { return Ok((after, Some(time + worst))) };
        if site.higher_order {
            return Ok((after, Some(time + worst)));
        }
        let caller =
            Caller { recursion: &self.recursion, depth: Some(self.depth), stack: self.stack.as_slice() };
        let mut times = Vec::new();
        for (arg, _) in plain_arguments(&atom.kind).iter().enumerate().filter(|(_, a)| **a == var) {
            times.push(match self.finder.call(csd, arg, caller, cost) {
                Ok(time) => time,
                Err(Stop::Cannot(_)) => worst,
                Err(abort) => return Err(abort),
            });
        }
        Ok((after, Some(time + one_of(self.finder.kind, &times)?)))
    }

    /// The plain scan of a goal, starting at a running time (section 12.6). Without `var` only the time after it is
    /// needed.
    fn plain(&self, goal: usize, time: f64, var: Option<Var>) -> Result<GoalTimes, Stop> {
        let _depth = self.finder.deeper()?;
        if self.skips(goal) {
            return Ok((time, None));
        }
        match &self.context.body.nodes[goal].kind {
            NodeKind::Atomic(atom) => self.atom(goal, atom, time, var),
            NodeKind::Conj(parts) => {
                let mut now = time;
                for &part in parts {
                    let (after, found) = self.plain(part, now, var)?;
                    now = after;
                    if found.is_some() {
                        return Ok((now, found));
                    }
                }
                Ok((now, None))
            }
            NodeKind::Disj(parts) => self.plain_disjunction(goal, parts, time, var),
            NodeKind::Switch { var: on, arms, .. } => {
                let mut results = Vec::with_capacity(arms.len());
                for &arm in arms {
                    results.push((self.before(arm), self.plain(arm, time, var)?));
                }
                Ok(self.switch(*on, time, &results, var))
            }
            &NodeKind::IfThenElse { cond, then, other } => {
                let (after_cond, found) = self.plain(cond, time, var)?;
                let left = var.filter(|_| found.is_none());
                let results = [
                    (self.before(then), self.plain(then, after_cond, left)?),
                    (self.before(other), self.plain(other, after_cond, left)?),
                ];
                let after = after_all(&results);
                let default = if self.produces() { after } else { after_cond };
                Ok((after, found.or_else(|| any_arm(&results, default))))
            }
            NodeKind::Neg(inner) | NodeKind::Scope { inner, .. } => self.plain(*inner, time, var),
        }
    }

    fn plain_disjunction(
        &self,
        goal: usize,
        parts: &[usize],
        time: f64,
        var: Option<Var>,
    ) -> Result<GoalTimes, Stop> {
        let mut now = time;
        let mut results = Vec::with_capacity(parts.len());
        for &part in parts {
            let (after, found) = self.plain(part, now, var)?;
            now = after;
            results.push(found);
        }
        let mut value: Option<f64> = None;
        for (i, found) in results.into_iter().enumerate().rev() {
            value = match (found, value) {
                (None, rest) => rest,
                (Some(head), None) => Some(head),
                (Some(head), Some(_)) if !self.produces() => Some(head),
                (Some(head), Some(rest)) => {
                    let next = parts.get(i + 1).map_or(0.0, |&p| self.before(p));
                    Some(average(&[(self.before(parts[i]), head), (next, rest)]))
                }
            };
        }
        if self.context.body.nodes[goal].detism.has_many_solutions() && value.is_some() {
            value = Some(if self.produces() { now } else { time });
        }
        Ok((now, value))
    }

    /// A switch whose arms were scanned from `time` on. It is the same in both kinds of scan.
    fn switch(&self, on: Var, time: f64, results: &[(f64, GoalTimes)], var: Option<Var>) -> GoalTimes {
        let after = after_all(results);
        if var == Some(on) {
            return (after, Some(time));
        }
        (after, any_arm(results, if self.produces() { time } else { after }))
    }
}

/// The average time after arms with their weights.
fn after_all(results: &[(f64, GoalTimes)]) -> f64 {
    average(&results.iter().map(|(w, (after, _))| (*w, *after)).collect::<Vec<_>>())
}

/// The average over arms, if at least one uses the variable; `default` stands for arms that do not.
fn any_arm(results: &[(f64, GoalTimes)], default: f64) -> Option<f64> {
    results.iter().any(|(_, (_, found))| found.is_some()).then(|| {
        average(&results.iter().map(|(w, (_, found))| (*w, found.unwrap_or(default))).collect::<Vec<_>>())
    })
}

/// The probability of a recursive call in each goal (section 12.7).
fn recursion_probabilities(c: &Context, costs: &SiteCosts) -> Result<Vec<f64>, Abort> {
    let nodes = &c.body.nodes;
    let mut r = vec![0.0; nodes.len()];
    // Parts have larger numbers than the whole.
    for goal in (0..nodes.len()).rev() {
        if c.before(goal) == 0 {
            continue;
        }
        let chain = |parts: &[usize], goes_on: &dyn Fn(usize) -> f64| -> Result<f64, Abort> {
            parts.iter().rev().try_fold(0.0, |rest, &part| {
                if c.before(part) == 0 {
                    return Ok(0.0);
                }
                Ok(or(r[part], probability(goes_on(part))? * rest))
            })
        };
        let p = match &nodes[goal].kind {
            NodeKind::Atomic(_) => {
                let recursive = nodes[goal].slot.and_then(|s| costs.get(s)).is_some_and(Option::is_some);
                if recursive { 1.0 } else { 0.0 }
            }
            NodeKind::Conj(parts) => chain(parts, &|g| c.success(g))?,
            NodeKind::Disj(parts) => chain(parts, &|g| c.failure(g))?,
            NodeKind::Switch { arms, .. } => {
                let all = c.before(goal) as f64;
                average(&arms.iter().map(|&a| (c.before(a) as f64 / all, r[a])).collect::<Vec<_>>())
            }
            &NodeKind::IfThenElse { cond, then, other } => {
                let (passed, failed) = (probability(c.success(cond))?, probability(c.failure(cond))?);
                or(r[cond], or(passed * r[then], failed * r[other]))
            }
            NodeKind::Neg(inner) | NodeKind::Scope { inner, .. } => r[*inner],
        };
        r[goal] = probability(p)?;
    }
    Ok(r)
}

/// Scans for one case of a recursive body: branches are weighted by how likely they lead to it.
struct Case<'a> {
    scan: &'a Scan<'a>,
    recursion: &'a [f64],
    recursive: bool,
}

impl Case<'_> {
    fn weight(&self, goal: usize) -> f64 {
        let r = self.recursion[goal];
        self.scan.before(goal) * if self.recursive { r } else { 1.0 - r }
    }

    /// A goal, starting at a running time. Without `var` only the time after it is needed.
    fn scan(&self, goal: usize, time: f64, var: Option<Var>) -> Result<GoalTimes, Stop> {
        let _depth = self.scan.finder.deeper()?;
        let c = &self.scan.context;
        if self.scan.skips(goal) {
            return Ok((time, None));
        }
        match &c.body.nodes[goal].kind {
            NodeKind::Atomic(atom) => self.scan.atom(goal, atom, time, var),
            NodeKind::Conj(parts) => {
                let (mut now, mut first) = (time, None);
                for &part in parts {
                    let (after, found) = self.scan(part, now, var.filter(|_| first.is_none()))?;
                    now = after;
                    first = first.or(found);
                }
                Ok((now, first))
            }
            NodeKind::Disj(parts) => {
                let (after, found) = self.disjuncts(parts, time, var)?;
                Ok((after, found.then_some(if self.scan.produces() { after } else { time })))
            }
            NodeKind::Switch { var: on, arms, .. } => {
                let mut results = Vec::with_capacity(arms.len());
                for &arm in arms {
                    results.push((self.weight(arm), self.scan(arm, time, var)?));
                }
                Ok(self.scan.switch(*on, time, &results, var))
            }
            &NodeKind::IfThenElse { cond, then, other } => {
                let (after_cond, found) = self.scan(cond, time, var)?;
                let left = var.filter(|_| found.is_none());
                let results = [
                    (self.weight(then), self.scan(then, after_cond, left)?),
                    (self.weight(other), self.scan(other, after_cond, left)?),
                ];
                let after = after_all(&results);
                // The opposite of the plain scan's.
                let default = if self.scan.produces() { after_cond } else { after };
                Ok((after, found.or_else(|| any_arm(&results, default))))
            }
            NodeKind::Neg(inner) | NodeKind::Scope { inner, .. } => self.scan(*inner, time, var),
        }
    }

    /// Disjuncts, starting at a running time: the time after them, and whether one of them uses the variable.
    fn disjuncts(&self, parts: &[usize], time: f64, var: Option<Var>) -> Result<(f64, bool), Stop> {
        let c = &self.scan.context;
        // First each one's time, up to one that was never tried. Then, from the right, what follows is weighted by how
        // often it is reached.
        let (mut times, mut found) = (Vec::with_capacity(parts.len()), false);
        for (i, &part) in parts.iter().enumerate() {
            let from = if i == 0 { time } else { 0.0 };
            let (after, f) = self.scan(part, from, var.filter(|_| !found))?;
            found |= f.is_some();
            times.push((part, after));
            if c.before(part) == 0 {
                break;
            }
        }
        let empty = if parts.is_empty() { time } else { 0.0 };
        let after = times.into_iter().rev().fold(empty, |rest, (part, after)| {
            if c.before(part) == 0 { after } else { after + rest * c.failure(part) }
        });
        Ok((after, found))
    }
}
