//! When the goals of a conjunction produce and consume variables (docs/feedback.md, section 12).

use std::rc::Rc;

use pct_analysis::body::NodeKind;
use pct_deep::StrId;
use pct_deep::procrep::{AtomicKind, Var};

use super::goal_facts::{GoalFacts, Piece, Task};
use crate::cost::Abort;
use crate::message::{Level, Message, MessageSubject};
use crate::partition::UseTimes;
use crate::use_times::{Caller, Finder, Stop, one_of, pessimistic, plain_arguments};
use crate::variables::{GoalVars, Use};

/// Use times for the goals of a list.
pub(super) struct Times<'a, 'b> {
    pub(super) facts: &'a GoalFacts<'b>,
    pub(super) pieces: &'a [Piece],
    pub(super) vars: &'a [GoalVars],
    pub(super) say: &'a mut dyn FnMut(Message),
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
        if let Some(&time) = self.facts.cells.borrow().get(&key) {
            return Ok(time);
        }
        let time = match &self.facts.context.body.nodes[goal].kind {
            NodeKind::Atomic(atom) if atom.kind.is_call() => self.of_call(goal, &atom.kind, var, kind)?,
            NodeKind::Atomic(_) => atom_time(kind),
            _ => self.of_compound(goal, var, kind)?,
        };
        self.facts.cells.borrow_mut().insert(key, time);
        Ok(time)
    }

    fn finder(&self, kind: Use) -> Finder<'_> {
        let task = self.facts.task;
        Finder { world: task.world, follow: follow(task), kind }
    }

    fn warn(&mut self, place: MessageSubject, why: &str) {
        (self.say)(Message {
            level: Level::Warning,
            place,
            text: format!("Cannot compute the production or consumption time of a variable: {why}"),
        });
    }

    /// The time at which a call uses a variable (section 12.2).
    fn of_call(&mut self, goal: usize, atom: &AtomicKind, var: Var, kind: Use) -> Result<f64, Abort> {
        let context = self.facts.context;
        let Some(site) = context.site(goal) else { return Ok(0.0) };
        let slot = context.body.nodes[goal].slot;
        let known = slot.and_then(|s| self.facts.task.recursive.get(s).copied().flatten());
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
                Use::Production => {
                    Err(Abort::contradiction("a call produces what is not among its arguments"))
                }
            };
        }
        if site.higher_order {
            return Ok(pessimistic(kind, cost));
        }
        let &[csd] = site.csds.as_slice() else {
            return Err(Abort::contradiction(format!("a first order call has {} callees", site.csds.len())));
        };
        let recursion = Rc::clone(&self.facts.task.recursion);
        let caller = Caller { recursion: &recursion, depth: recursion.interesting_depth(), stack: &[] };
        let mut times = Vec::with_capacity(positions.len());
        for arg in positions {
            let found = self.finder(kind).call(csd, arg, caller, cost);
            times.push(match found {
                Ok(time) => time,
                Err(Stop::Cannot(why)) => {
                    self.warn(MessageSubject::Csd(csd), &why);
                    pessimistic(kind, cost)
                }
                Err(Stop::Abort(abort)) => return Err(abort),
            });
        }
        one_of(kind, &times)
    }

    /// The time at which a compound goal uses a variable (section 12.3).
    fn of_compound(&mut self, goal: usize, var: Var, kind: Use) -> Result<f64, Abort> {
        let task = self.facts.task;
        let cost = self.facts.costs.first[goal].per_call();
        let clique = self.facts.context.clique;
        let Some(depth) = task.recursion.interesting_depth() else {
            self.warn(MessageSubject::Clique(clique), "Recursion type unknown for var_first_use/12");
            return Ok(pessimistic(kind, cost));
        };
        match self.finder(kind).of_goal(&task.context, &task.recursive, goal, var, depth) {
            Ok(Some(time)) => Ok(time),
            Ok(None) if kind == Use::Consumption => Ok(cost),
            Ok(None) => {
                Err(Abort::contradiction(format!("variable {} is produced nowhere in a goal", var.0)))
            }
            Err(Stop::Cannot(why)) => {
                self.warn(MessageSubject::Clique(clique), &why);
                Ok(pessimistic(kind, cost))
            }
            Err(Stop::Abort(abort)) => Err(abort),
        }
    }
}

/// Assumed times of goals that are neither calls nor compound: they need their inputs at once, and produce their
/// outputs at a cost of 1 (though they cost nothing).
pub(super) fn atom_time(kind: Use) -> f64 {
    match kind {
        Use::Production => 1.0,
        Use::Consumption => 0.0,
    }
}

/// The module within which calls are followed; `None`: they are followed everywhere.
fn follow(task: &Task<'_>) -> Option<StrId> {
    let profile = task.world.profile;
    let ps = profile.pd_ps(task.context.pd);
    (!task.params.intermodule).then(|| *profile.ps(ps).label.def_module())
}
