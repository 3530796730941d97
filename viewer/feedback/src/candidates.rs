//! Looks for conjunctions of a body that are worth executing in parallel (docs/feedback.md, section 9).
//!
//! The body is walked bottom up. A conjunction with two or more costly conjuncts is tried as it is. One with a single
//! costly conjunct may gain by *pushing*: the costly conjunct is moved to where, deep inside an earlier one, another
//! costly goal is, and the conjunction that is made there is tried.

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};
use std::rc::Rc;

use pct_analysis::body::NodeKind;
use pct_deep::procrep::{self, AtomicKind, Detism, Var};
use pct_deep::{GoalPath, ProcLabel, Step, StrId};

use crate::context::Context;
use crate::cost::{Abort, Cost, sequence};
use crate::costs::{self, Costs, is_above};
use crate::join::merge_pushes;
use crate::message::{Level, Message, Place};
use crate::model::{
    Candidate, DependentConjuncts, Goal, GoalKind, Metrics, Params, ProcCandidates, Push, VarNames,
};
use crate::partition::{self, Conjunction, Item, UseTimes};
use crate::recursion::{Recursion, SiteCosts};
use crate::use_times::{Caller, Finder, Stop, one_of, pessimistic, plain_arguments};
use crate::variables::Use;
use crate::variables::{self, GoalVars};
use crate::world::World;

/// A context to look at.
pub struct Task<'a> {
    /// The profile.
    pub world: &'a World<'a>,
    /// What to look for.
    pub params: &'a Params,
    /// The context.
    pub context: Rc<Context>,
    /// How its clique recurses.
    pub recursion: Rc<Recursion>,
    /// What its recursive calls cost.
    pub recursive: SiteCosts,
    /// Its procedure.
    pub label: ProcLabel<String>,
}

/// What was found in a context.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Found {
    /// The candidates with all that belongs to them; `None`: there are none.
    pub proc: Option<ProcCandidates>,
    /// What there is to say.
    pub messages: Vec<Message>,
}

/// Looks through a context. Messages on use times go to `say` at once.
///
/// # Errors
/// The profile contradicts itself.
pub fn search(task: &Task<'_>, say: &mut dyn FnMut(Message)) -> Result<Found, Abort> {
    let mut search = Search::new(task);
    let walked = match costs::of_body(&task.context, &task.recursive, task.params.call_site_threshold) {
        Ok(costs) => {
            search.costs = costs;
            search.goal(0, say).map(drop)
        }
        Err(abort) => Err(abort),
    };
    match walked {
        Err(Abort::Unsuited(text)) => {
            search.say(Level::Warning, None, format!("Not searched for parallelism: {text}"));
            return Ok(Found { proc: None, messages: search.messages });
        }
        other => other?,
    }
    if !search.drafts.is_empty() && variables::binds_twice(&task.context.body) {
        let count = search.drafts.len();
        search.say(
            Level::Notice,
            None,
            format!("{count} conjunctions not parallelised: Seen duplicate instantiations"),
        );
        search.drafts.clear();
    }
    let proc = (!search.drafts.is_empty()).then(|| search.finished());
    Ok(Found { proc, messages: search.messages })
}

/// A goal in a list that a conjunction is made of, with the cost that it has there.
#[derive(Clone, Copy, Debug)]
struct Piece {
    goal: usize,
    cost: Cost,
    costly: bool,
}

/// A candidate before its goals are written out: when each produces and consumes is known at the end only.
struct Draft {
    path: GoalPath,
    push: Option<Push>,
    dependent: BTreeSet<Var>,
    before: Vec<Piece>,
    before_cost: f64,
    conjuncts: Vec<Vec<Piece>>,
    after: Vec<Piece>,
    after_cost: f64,
    metrics: Metrics,
}

struct Search<'a> {
    task: &'a Task<'a>,
    context: &'a Context,
    costs: Costs,
    vars: Option<Rc<Vec<GoalVars>>>,
    cells: RefCell<Cells>,
    drafts: Vec<Draft>,
    pushes: Vec<Push>,
    messages: Vec<Message>,
}

/// A costly goal deep inside, next to which later goals may be pushed; by number.
type Single = usize;

impl<'a> Search<'a> {
    fn new(task: &'a Task<'a>) -> Self {
        Search {
            task,
            context: &task.context,
            costs: Costs { first: Vec::new(), now: Vec::new(), costly: Vec::new() },
            vars: None,
            cells: RefCell::default(),
            drafts: Vec::new(),
            pushes: Vec::new(),
            messages: Vec::new(),
        }
    }

    fn say(&mut self, level: Level, path: Option<&GoalPath>, text: impl Into<String>) {
        let label = self.task.label.clone();
        let place = match path {
            Some(path) => Place::Goal(label, path.clone()),
            None => Place::Proc(label),
        };
        self.messages.push(Message { level, place, text: text.into() });
    }

    fn vars(&mut self) -> Rc<Vec<GoalVars>> {
        let body = &self.context.body;
        Rc::clone(self.vars.get_or_insert_with(|| Rc::new(variables::of_body(body))))
    }

    /// Visits a goal (section 9.1): its singles; candidates and pushes are collected.
    fn goal(&mut self, goal: usize, say: &mut dyn FnMut(Message)) -> Result<Vec<Single>, Abort> {
        let context = self.context;
        let singles = match &context.body.nodes[goal].kind {
            NodeKind::Atomic(_) => {
                return Ok(if self.costs.costly[goal] { vec![goal] } else { Vec::new() });
            }
            NodeKind::Conj(parts) => return self.conjunction(goal, parts, say),
            NodeKind::Disj(parts) | NodeKind::Switch { arms: parts, .. } => {
                let mut singles = Vec::new();
                for &part in parts {
                    singles.extend(self.goal(part, say)?);
                }
                singles
            }
            &NodeKind::IfThenElse { cond, then, other } => {
                self.goal(cond, say)?;
                let mut singles = self.goal(then, say)?;
                singles.extend(self.goal(other, say)?);
                singles
            }
            NodeKind::Scope { inner, .. } => self.goal(*inner, say)?,
            NodeKind::Neg(inner) => {
                self.goal(*inner, say)?;
                Vec::new()
            }
        };
        self.costs.now[goal] = self.costs.compound(context, goal)?;
        Ok(singles)
    }

    /// Visits a conjunction (section 9.2).
    fn conjunction(
        &mut self,
        goal: usize,
        parts: &[usize],
        say: &mut dyn FnMut(Message),
    ) -> Result<Vec<Single>, Abort> {
        let collected_from = self.drafts.len();
        let mut singles: Vec<Single> = Vec::new();
        let mut costly: Vec<(usize, Vec<Single>)> = Vec::new();
        for (i, &part) in parts.iter().enumerate() {
            let inside = self.goal(part, say)?;
            if self.costs.costly[part] {
                costly.push((i, std::mem::replace(&mut singles, inside)));
                continue;
            }
            let near: Vec<Single> =
                singles.iter().copied().filter(|&x| self.is_costly_for(part, x)).collect();
            if !near.is_empty() {
                costly.push((i, near));
            }
            if !inside.is_empty() {
                singles = inside;
            }
        }
        let path = &self.context.body.nodes[goal].path;
        match costly.as_slice() {
            [] => Ok(singles),
            [(i, near)] => {
                let found = self.pushed(path, parts, *i, near, say)?;
                Ok(if found { Vec::new() } else { singles })
            }
            _ => {
                self.say(
                    Level::Info,
                    Some(path),
                    format!("Found {} conjuncts above callsite threshold", costly.len()),
                );
                let pieces: Vec<Piece> = parts.iter().map(|&p| self.piece(p)).collect();
                let Some(draft) = self.draft(&pieces, path, None, path, say)? else { return Ok(singles) };
                self.costs.now[goal] = Cost::PerCall(draft.metrics.calls, draft.metrics.par_time);
                self.drafts.insert(collected_from, draft);
                self.say_positive(path);
                Ok(Vec::new())
            }
        }
    }

    fn say_positive(&mut self, path: &GoalPath) {
        let text = "Found 1 conjunctions with a positive speedup due to parallelisation";
        self.say(Level::Info, Some(path), text);
    }

    fn piece(&self, goal: usize) -> Piece {
        Piece { goal, cost: self.costs.now[goal], costly: self.costs.costly[goal] }
    }

    /// A goal executed as often as another one is.
    fn recounted(&self, goal: usize, calls: i64) -> Result<Piece, Abort> {
        let cost = self.costs.now[goal].recount(calls)?;
        Ok(Piece { goal, cost, costly: is_above(cost, self.task.params.call_site_threshold) })
    }

    /// Whether a goal would be costly if it was executed as often as a single is.
    fn is_costly_for(&self, goal: usize, single: Single) -> bool {
        self.recounted(goal, self.costs.now[single].calls()).is_ok_and(|p| p.costly)
    }

    /// Tries to push the conjuncts up to the only costly one, `last` (an index), next to each single (section 9.3).
    fn pushed(
        &mut self,
        path: &GoalPath,
        parts: &[usize],
        last: usize,
        singles: &[Single],
        say: &mut dyn FnMut(Message),
    ) -> Result<bool, Abort> {
        let mut pushes: Vec<Push> = Vec::new();
        for &single in singles {
            let Some((draft, push)) = self.pushed_to(path, parts, last, single, say)? else { continue };
            self.say_positive(path);
            self.drafts.push(draft);
            match pushes.iter_mut().find(|p| (p.lo, p.hi) == (push.lo, push.hi)) {
                Some(known) => known.targets.extend(push.targets),
                None => pushes.push(push),
            }
        }
        let found = !pushes.is_empty();
        self.pushes.extend(pushes);
        Ok(found)
    }

    fn pushed_to(
        &mut self,
        path: &GoalPath,
        parts: &[usize],
        last: usize,
        single: Single,
        say: &mut dyn FnMut(Message),
    ) -> Result<Option<(Draft, Push)>, Abort> {
        let context = self.context;
        let relative = &context.body.nodes[single].path.0[path.0.len()..];
        let Some(Step::Conj(from)) = relative.first() else {
            return Err(Abort::of("a goal to push to is not in a conjunct"));
        };
        let first = usize::try_from(*from).ok().filter(|&k| (1..=last).contains(&k));
        let first = first.ok_or_else(|| Abort::of("a goal to push to is not in an earlier conjunct"))?;
        // Where in the conjunct: a goal that gets company, or a conjunction that gets longer.
        let mut here = parts[first - 1];
        let mut steps = relative[1..].iter();
        let goals: Vec<usize> = loop {
            let Some(step) = steps.next() else { break vec![here] };
            let inside = context.body.children(here);
            match step {
                Step::Conj(n) => {
                    let at = usize::try_from(*n - 1).unwrap_or(usize::MAX);
                    if steps.len() == 0 || at.saturating_add(1) < inside.len() {
                        break inside;
                    }
                }
                Step::Cond | Step::Neg => {
                    return Err(Abort::of("a goal to push to is in a condition or negation"));
                }
                _ => {}
            }
            let full = here;
            here = inside
                .into_iter()
                .find(|&g| context.body.nodes[g].path.0.last() == Some(step))
                .ok_or_else(|| Abort::of(format!("goal {full} has no part {step}")))?;
        };
        let calls = self.costs.now[here].calls();
        let mut pieces: Vec<Piece> = goals.iter().map(|&g| self.piece(g)).collect();
        for &part in &parts[first..=last] {
            match self.recounted(part, calls) {
                Ok(piece) => pieces.push(piece),
                Err(Abort::Unsuited(_)) => return Ok(None),
                Err(abort) => return Err(abort),
            }
        }
        self.say(Level::Info, Some(path), "Found pushed conjuncts above callsite threshold");
        let target = match relative.split_last() {
            Some((Step::Conj(_), rest)) => rest,
            _ => relative,
        };
        let number = |i: usize| i64::try_from(i + 1).unwrap_or(i64::MAX);
        let push = Push {
            path: path.clone(),
            lo: number(first),
            hi: number(last),
            targets: vec![GoalPath(target.to_vec())],
        };
        let at = &context.body.nodes[here].path;
        let draft = self.draft(&pieces, at, Some(push.clone()), path, say)?;
        Ok(draft.map(|d| (d, push)))
    }

    /// Tries the conjunction of a list of goals (section 9.4). Messages are located at `place`.
    fn draft(
        &mut self,
        pieces: &[Piece],
        path: &GoalPath,
        push: Option<Push>,
        place: &GoalPath,
        say: &mut dyn FnMut(Message),
    ) -> Result<Option<Draft>, Abort> {
        let first = pieces.iter().position(|p| p.costly);
        let last = pieces.iter().rposition(|p| p.costly);
        let (Some(first), Some(last)) = (first, last) else { return Ok(None) };
        if first == last {
            return Ok(None);
        }
        let detisms = pieces[first..=last].iter().map(|p| self.context.body.nodes[p.goal].detism);
        if let Some(combined) = not_det(detisms) {
            let text =
                format!("There are {combined} goals amongst goals above the parallelisation overhead.");
            self.say(Level::Notice, Some(place), text);
            return Ok(None);
        }
        let params = self.task.params;
        let vars = self.vars();
        let items: Vec<Item> = pieces
            .iter()
            .map(|p| Item {
                bound: vars[p.goal].bound.clone(),
                consumed: vars[p.goal].consumed.clone(),
                cost: p.cost,
                after: self.context.after(p.goal),
            })
            .collect();
        let mut bound: BTreeSet<Var> = BTreeSet::new();
        if let Some(var) = items.iter().flat_map(|i| &i.bound).find(|v| !bound.insert(**v)) {
            return Err(Abort::of(format!("variable {} is bound by two goals of a conjunction", var.0)));
        }
        let calls = pieces[first].cost.calls();
        let conjunction = Conjunction { items: &items, first, last, calls };
        let mut times = Times { search: self, pieces, vars: &vars, say };
        let Some(best) = partition::best(&conjunction, params, &mut times)? else { return Ok(None) };
        let m = best.metrics;
        let allowed = params.dependent != DependentConjuncts::No || best.dependent.is_empty();
        let worth = m.par_time != 0.0 && m.speedup() > params.speedup_threshold;
        if !allowed || !worth {
            return Ok(None);
        }
        let cost = |pieces: &[Piece]| -> Result<f64, Abort> {
            let goals = pieces.iter().map(|p| (p.cost, self.context.after(p.goal)));
            Ok(sequence(goals, calls)?.per_call())
        };
        let (before, after) = (&pieces[..first], &pieces[last + 1..]);
        let ends = best.starts[1..].iter().copied().chain([last + 1]);
        Ok(Some(Draft {
            path: path.clone(),
            push,
            dependent: best.dependent,
            before: before.to_vec(),
            before_cost: cost(before)?,
            conjuncts: best.starts.iter().zip(ends).map(|(&s, e)| pieces[s..e].to_vec()).collect(),
            after: after.to_vec(),
            after_cost: cost(after)?,
            metrics: m,
        }))
    }

    /// Writes out what was found.
    fn finished(&mut self) -> ProcCandidates {
        let procedure = &self.context.body.procedure;
        let mut names = VarNames::default();
        for var in &procedure.vars_in_file {
            if let Ok(i) = procedure.vars.binary_search_by_key(var, |v| v.var) {
                names.insert(*var, &procedure.vars[i].name);
            }
        }
        let mut goals = Vec::with_capacity(self.context.body.nodes.len());
        number(&procedure.body, &mut goals);
        let writer = Writer { search: self, goals: &goals };
        let list = |dependent: &[Var], pieces: &[Piece]| -> Vec<Goal> {
            pieces.iter().map(|&p| writer.goal(p, dependent)).collect()
        };
        let candidates = self
            .drafts
            .iter()
            .map(|d| {
                let dependent: Vec<Var> = d.dependent.iter().copied().collect();
                Candidate {
                    path: d.path.clone(),
                    push: d.push.clone(),
                    before: list(&dependent, &d.before),
                    before_cost: d.before_cost,
                    conjuncts: d.conjuncts.iter().map(|c| list(&dependent, c)).collect(),
                    after: list(&dependent, &d.after),
                    after_cost: d.after_cost,
                    metrics: d.metrics,
                    dependent: (!dependent.is_empty()).then_some(dependent),
                }
            })
            .collect();
        ProcCandidates { names, pushes: merge_pushes(&[&self.pushes]), candidates }
    }
}

/// Goals in preorder: as they are numbered.
fn number<'a>(goal: &'a procrep::Goal, goals: &mut Vec<&'a procrep::Goal>) {
    goals.push(goal);
    for (_, inner) in goal.children() {
        number(inner, goals);
    }
}

/// The combined determinism of goals, as the messages name it; `None`: det, what conjuncts must be.
fn not_det(goals: impl Iterator<Item = Detism>) -> Option<&'static str> {
    let (mut fails, mut never, mut many) = (false, false, false);
    for detism in goals {
        fails |= detism.can_fail();
        never |= detism.never_succeeds();
        many |= detism.has_many_solutions() && !never;
    }
    match (fails, never, many) {
        (false, true, _) => Some("erroneous_rep"),
        (true, true, _) => Some("failure_rep"),
        (false, false, true) => Some("multidet_rep"),
        (true, false, true) => Some("nondet_rep"),
        (true, false, false) => Some("semidet_rep"),
        (false, false, false) => None,
    }
}

/// Known use times of the goals of a context.
type Cells = HashMap<(usize, Var, Use), f64>;

/// Use times for the goals of a list.
struct Times<'a, 'b> {
    search: &'a Search<'b>,
    pieces: &'a [Piece],
    vars: &'a [GoalVars],
    say: &'a mut dyn FnMut(Message),
}

impl UseTimes for Times<'_, '_> {
    fn production(&mut self, goal: usize, var: Var) -> Result<f64, Abort> {
        self.cell(goal, var, Use::Production)
    }
    fn consumption(&mut self, goal: usize, var: Var) -> Result<f64, Abort> {
        self.cell(goal, var, Use::Consumption)
    }
}

impl Times<'_, '_> {
    fn cell(&mut self, index: usize, var: Var, kind: Use) -> Result<f64, Abort> {
        let goal = self.pieces[index].goal;
        debug_assert!(match kind {
            Use::Production => self.vars[goal].bound.contains(&var),
            Use::Consumption => self.vars[goal].consumed.contains(&var),
        });
        let key = (goal, var, kind);
        if let Some(&time) = self.search.cells.borrow().get(&key) {
            return Ok(time);
        }
        let time = match &self.search.context.body.nodes[goal].kind {
            NodeKind::Atomic(atom) if atom.kind.is_call() => self.of_call(goal, &atom.kind, var, kind)?,
            NodeKind::Atomic(_) => atom_time(kind),
            _ => self.of_compound(goal, var, kind)?,
        };
        self.search.cells.borrow_mut().insert(key, time);
        Ok(time)
    }

    fn finder(&self, kind: Use) -> Finder<'_> {
        let task = self.search.task;
        Finder { world: task.world, follow: follow(task), kind }
    }

    fn warn(&mut self, place: Place, why: &str) {
        (self.say)(Message {
            level: Level::Warning,
            place,
            text: format!("Cannot compute the production or consumption time of a variable: {why}"),
        });
    }

    /// When a call uses a variable (section 12.2).
    fn of_call(&mut self, goal: usize, atom: &AtomicKind, var: Var, kind: Use) -> Result<f64, Abort> {
        let context = self.search.context;
        let Some(site) = context.site(goal) else { return Ok(0.0) };
        let slot = context.body.nodes[goal].slot;
        let known = slot.and_then(|s| self.search.task.recursive.get(s).copied().flatten());
        let (calls, cost) = match known {
            Some(known) if site.recursive => (known.calls, known.each),
            _ => (site.calls, site.per_call()),
        };
        if calls == 0 {
            return Ok(0.0);
        }
        let positions: Vec<usize> =
            plain_arguments(atom).iter().enumerate().filter(|(_, a)| **a == var).map(|(i, _)| i).collect();
        if positions.is_empty() {
            return match kind {
                Use::Consumption => Ok(0.0),
                Use::Production => Err(Abort::of("a call produces what is not among its arguments")),
            };
        }
        if site.higher_order {
            return Ok(pessimistic(kind, cost));
        }
        let &[csd] = site.csds.as_slice() else {
            return Err(Abort::of(format!("a first order call has {} callees", site.csds.len())));
        };
        let recursion = Rc::clone(&self.search.task.recursion);
        let caller = Caller { recursion: &recursion, depth: recursion.interesting_depth(), stack: &[] };
        let mut times = Vec::with_capacity(positions.len());
        for arg in positions {
            let found = self.finder(kind).call(csd, arg, caller, cost);
            times.push(match found {
                Ok(time) => time,
                Err(Stop::Cannot(why)) => {
                    self.warn(Place::Csd(csd), &why);
                    pessimistic(kind, cost)
                }
                Err(Stop::Abort(abort)) => return Err(abort),
            });
        }
        one_of(kind, &times)
    }

    /// When a compound goal uses a variable (section 12.3).
    fn of_compound(&mut self, goal: usize, var: Var, kind: Use) -> Result<f64, Abort> {
        let task = self.search.task;
        let cost = self.search.costs.first[goal].per_call();
        let clique = self.search.context.clique;
        let Some(depth) = task.recursion.interesting_depth() else {
            self.warn(Place::Clique(clique), "Recursion type unknown for var_first_use/12");
            return Ok(pessimistic(kind, cost));
        };
        match self.finder(kind).of_goal(&task.context, &task.recursive, goal, var, depth) {
            Ok(Some(time)) => Ok(time),
            Ok(None) if kind == Use::Consumption => Ok(cost),
            Ok(None) => Err(Abort::of(format!("variable {} is produced nowhere in a goal", var.0))),
            Err(Stop::Cannot(why)) => {
                self.warn(Place::Clique(clique), &why);
                Ok(pessimistic(kind, cost))
            }
            Err(Stop::Abort(abort)) => Err(abort),
        }
    }
}

/// What goals that are neither calls nor compound are taken to do: they need their inputs at once, and give their outputs
/// at a cost of 1 (though they have none).
fn atom_time(kind: Use) -> f64 {
    match kind {
        Use::Production => 1.0,
        Use::Consumption => 0.0,
    }
}

/// The module that calls may not be followed out of; `None`: they may be followed everywhere.
fn follow(task: &Task<'_>) -> Option<StrId> {
    let profile = task.world.profile;
    let ps = profile.pd_ps(task.context.pd);
    (!task.params.intermodule).then(|| *profile.ps(ps).label.def_module())
}

/// Writes goals as the file holds them.
struct Writer<'a, 'b> {
    search: &'a Search<'b>,
    goals: &'a [&'a procrep::Goal],
}

impl Writer<'_, '_> {
    fn goal(&self, piece: Piece, dependent: &[Var]) -> Goal {
        let goal = piece.goal;
        let original = self.goals[goal];
        let context = self.search.context;
        let mut parts =
            context.body.children(goal).into_iter().map(|g| self.goal(self.search.piece(g), dependent));
        let kind = match &original.kind {
            procrep::GoalKind::Conj(_) => GoalKind::Conj(parts.collect()),
            procrep::GoalKind::Disj(_) => GoalKind::Disj(parts.collect()),
            procrep::GoalKind::IfThenElse(_) => match (parts.next(), parts.next(), parts.next()) {
                (Some(cond), Some(then), Some(other)) => GoalKind::IfThenElse(Box::new([cond, then, other])),
                // It has three parts.
                _ => GoalKind::Conj(Vec::new()),
            },
            procrep::GoalKind::Neg(_) => match parts.next() {
                Some(inner) => GoalKind::Neg(Box::new(inner)),
                None => GoalKind::Conj(Vec::new()),
            },
            procrep::GoalKind::Scope { cut, .. } => match parts.next() {
                Some(inner) => GoalKind::Scope(Box::new(inner), *cut),
                None => GoalKind::Conj(Vec::new()),
            },
            procrep::GoalKind::Switch { can_fail, var, cases } => GoalKind::Switch {
                var: *var,
                can_fail: *can_fail,
                cases: cases
                    .iter()
                    .zip(parts)
                    .map(|(case, inner)| {
                        let functors = case.functors.iter().map(|(n, a)| (n.clone(), i64::from(*a)));
                        (functors.collect(), inner)
                    })
                    .collect(),
            },
            procrep::GoalKind::Atomic(atom) => GoalKind::Atomic(atom.clone()),
        };
        let shown = |kind: Use| -> Vec<(Var, f64)> {
            if context.before(goal) == 0 {
                return Vec::new();
            }
            dependent.iter().rev().filter_map(|&v| Some((v, self.time(goal, v, kind)?))).collect()
        };
        Goal {
            kind,
            detism: original.detism,
            cost: piece.cost.per_call(),
            above: piece.costly,
            productions: shown(Use::Production),
            consumptions: shown(Use::Consumption),
        }
    }

    /// A use time that became known (section 11.7).
    fn time(&self, goal: usize, var: Var, kind: Use) -> Option<f64> {
        let vars = &self.search.vars.as_ref()?[goal];
        let uses = match kind {
            Use::Production => &vars.bound,
            Use::Consumption => &vars.consumed,
        };
        if !uses.contains(&var) {
            return None;
        }
        match &self.search.context.body.nodes[goal].kind {
            NodeKind::Atomic(atom) if !atom.kind.is_call() => Some(atom_time(kind)),
            _ => self.search.cells.borrow().get(&(goal, var, kind)).copied(),
        }
    }
}
