//! Searches a body for conjunctions that are worth executing in parallel (docs/feedback.md, section 9).
//!
//! The body is walked bottom up. A conjunction with two or more costly conjuncts is tried as it is. One with a single
//! costly conjunct may gain by *pushing*: the costly conjunct is moved next to another costly goal deep inside an
//! earlier conjunct, and the conjunction that results there is tried. costly goal is, and the conjunction that is made
//! there is tried.

mod goal_facts;
mod times;
mod written;

use std::collections::BTreeSet;

use pct_analysis::body::NodeKind;
use pct_deep::procrep::{Detism, Var};
use pct_deep::{GoalPath, GoalStep};

use crate::cost::{Abort, Cost, sequence};
use crate::costs;
use crate::join::merge_pushes;
use crate::message::{Level, Message, MessageSubject};
use crate::model::{Candidate, DependentConjuncts, Goal, Metrics, ProcCandidates, Push, VarNames};
use crate::partition::{self, Conjunction, Item};
use crate::variables;
pub use goal_facts::Task;
use goal_facts::{GoalFacts, Piece};
use times::Times;
use written::Writer;

/// The results for a context.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ContextFindings {
    /// The candidates with their names and pushes; `None`: there are none.
    pub proc: Option<ProcCandidates>,
    /// Messages about the search.
    pub messages: Vec<Message>,
}

/// Searches a context. Messages about use times are passed to `say` at once.
///
/// # Errors
/// The profile contradicts itself.
pub fn search(task: &Task<'_>, say: &mut dyn FnMut(Message)) -> Result<ContextFindings, Abort> {
    let mut search = Search::new(task);
    let walked = match costs::of_body(&task.context, &task.recursive, task.params.call_site_threshold) {
        Ok(costs) => {
            search.facts.costs = costs;
            search.goal(0, say).map(drop)
        }
        Err(abort) => Err(abort),
    };
    match walked {
        Err(Abort::Unsuited(text)) => {
            search.say(Level::Warning, None, format!("Not searched for parallelism: {text}"));
            return Ok(ContextFindings { proc: None, messages: search.messages });
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
    Ok(ContextFindings { proc, messages: search.messages })
}

/// A candidate before its goals are written out: their production and consumption times are only known at the end.
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
    facts: GoalFacts<'a>,
    drafts: Vec<Draft>,
    pushes: Vec<Push>,
    messages: Vec<Message>,
}

/// A costly goal deep inside, next to which later goals may be pushed, by its number.
type Single = usize;

impl<'a> Search<'a> {
    fn new(task: &'a Task<'a>) -> Self {
        Search { facts: GoalFacts::new(task), drafts: Vec::new(), pushes: Vec::new(), messages: Vec::new() }
    }

    fn say(&mut self, level: Level, path: Option<&GoalPath>, text: impl Into<String>) {
        let label = self.facts.task.label.clone();
        let place = match path {
            Some(path) => MessageSubject::Goal(label, path.clone()),
            None => MessageSubject::Proc(label),
        };
        self.messages.push(Message { level, place, text: text.into() });
    }

    /// Visits a goal (section 9.1). Returns its singles, and collects candidates and pushes.
    fn goal(&mut self, goal: usize, say: &mut dyn FnMut(Message)) -> Result<Vec<Single>, Abort> {
        let context = self.facts.context;
        let singles = match &context.body.nodes[goal].kind {
            NodeKind::Atomic(_) => {
                return Ok(if self.facts.costs.costly[goal] { vec![goal] } else { Vec::new() });
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
        self.facts.costs.now[goal] = self.facts.costs.compound(context, goal)?;
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
            if self.facts.costs.costly[part] {
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
        let path = &self.facts.context.body.nodes[goal].path;
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
                let pieces: Vec<Piece> = parts.iter().map(|&p| self.facts.piece(p)).collect();
                let Some(draft) = self.draft(&pieces, path, None, path, say)? else { return Ok(singles) };
                self.facts.costs.now[goal] = Cost::PerCall(draft.metrics.calls, draft.metrics.par_time);
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

    /// Whether a goal would be costly if it were executed as often as a single.
    fn is_costly_for(&self, goal: usize, single: Single) -> bool {
        self.facts.recounted(goal, self.facts.costs.now[single].calls()).is_ok_and(|p| p.costly)
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
        let context = self.facts.context;
        let relative = &context.body.nodes[single].path.0[path.0.len()..];
        let Some(GoalStep::Conj(from)) = relative.first() else {
            return Err(Abort::contradiction("a goal to push to is not in a conjunct"));
        };
        let first = usize::try_from(*from).ok().filter(|&k| (1..=last).contains(&k));
        let first =
            first.ok_or_else(|| Abort::contradiction("a goal to push to is not in an earlier conjunct"))?;
        // Inside the conjunct: a goal that becomes a conjunction, or a conjunction that gets longer.
        let mut here = parts[first - 1];
        let mut steps = relative[1..].iter();
        let goals: Vec<usize> = loop {
            let Some(step) = steps.next() else { break vec![here] };
            let inside = context.body.children(here);
            match step {
                GoalStep::Conj(n) => {
                    let at = usize::try_from(*n - 1).unwrap_or(usize::MAX);
                    if steps.len() == 0 || at.saturating_add(1) < inside.len() {
                        break inside;
                    }
                }
                GoalStep::Cond | GoalStep::Neg => {
                    return Err(Abort::contradiction("a goal to push to is in a condition or negation"));
                }
                _ => {}
            }
            let full = here;
            here = inside
                .into_iter()
                .find(|&g| context.body.nodes[g].path.0.last() == Some(step))
                .ok_or_else(|| Abort::contradiction(format!("goal {full} has no part {step}")))?;
        };
        let calls = self.facts.costs.now[here].calls();
        let mut pieces: Vec<Piece> = goals.iter().map(|&g| self.facts.piece(g)).collect();
        for &part in &parts[first..=last] {
            match self.facts.recounted(part, calls) {
                Ok(piece) => pieces.push(piece),
                Err(Abort::Unsuited(_)) => return Ok(None),
                Err(abort) => return Err(abort),
            }
        }
        self.say(Level::Info, Some(path), "Found pushed conjuncts above callsite threshold");
        let target = match relative.split_last() {
            Some((GoalStep::Conj(_), rest)) => rest,
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
        let detisms = pieces[first..=last].iter().map(|p| self.facts.context.body.nodes[p.goal].detism);
        if let Some(combined) = not_det(detisms) {
            let text =
                format!("There are {combined} goals amongst goals above the parallelisation overhead.");
            self.say(Level::Notice, Some(place), text);
            return Ok(None);
        }
        let params = self.facts.task.params;
        let vars = self.facts.vars();
        let items: Vec<Item> = pieces
            .iter()
            .map(|p| Item {
                bound: vars[p.goal].bound.clone(),
                consumed: vars[p.goal].consumed.clone(),
                cost: p.cost,
                after: self.facts.context.after(p.goal),
            })
            .collect();
        let mut bound: BTreeSet<Var> = BTreeSet::new();
        if let Some(var) = items.iter().flat_map(|i| &i.bound).find(|v| !bound.insert(**v)) {
            return Err(Abort::contradiction(format!(
                "variable {} is bound by two goals of a conjunction",
                var.0
            )));
        }
        let calls = pieces[first].cost.calls();
        let conjunction = Conjunction { items: &items, first, last, calls };
        let mut times = Times { facts: &self.facts, pieces, vars: &vars, say };
        let Some(best) = partition::best(&conjunction, params, &mut times)? else { return Ok(None) };
        let m = best.metrics;
        let allowed = params.dependent != DependentConjuncts::No || best.dependent.is_empty();
        let worth = m.par_time != 0.0 && m.speedup() > params.speedup_threshold;
        if !allowed || !worth {
            return Ok(None);
        }
        let cost = |pieces: &[Piece]| -> Result<f64, Abort> {
            let goals = pieces.iter().map(|p| (p.cost, self.facts.context.after(p.goal)));
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

    /// Writes out the results.
    fn finished(&mut self) -> ProcCandidates {
        let procedure = &self.facts.context.body.procedure;
        let mut names = VarNames::default();
        for var in &procedure.vars_in_file {
            if let Ok(i) = procedure.vars.binary_search_by_key(var, |v| v.var) {
                names.insert(*var, &procedure.vars[i].name);
            }
        }
        let writer = Writer::new(&self.facts);
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

/// The combined determinism of goals, as the messages name it; `None`: det, which conjuncts must be.
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
