//! The facts about a context's goals while its body is searched: costs, variables, use times.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use pct_deep::ProcLabel;
use pct_deep::procrep::Var;

use crate::context::Context;
use crate::cost::{Abort, Cost};
use crate::costs::{Costs, is_above};
use crate::model::Params;
use crate::recursion::{Recursion, SiteCosts};
use crate::variables::{self, GoalVars, Use};
use crate::world::World;

/// A context to search.
pub struct Task<'a> {
    /// The profile.
    pub world: &'a World<'a>,
    /// The search parameters.
    pub params: &'a Params,
    /// The context.
    pub context: Rc<Context>,
    /// The type of its clique's recursion.
    pub recursion: Rc<Recursion>,
    /// The costs of its recursive calls.
    pub recursive: SiteCosts,
    /// Its procedure.
    pub label: ProcLabel<String>,
}

/// A goal in a list that becomes a conjunction, with its cost there.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece {
    pub(super) goal: usize,
    pub(super) cost: Cost,
    pub(super) costly: bool,
}

/// Use times of the goals of a context.
pub(super) type UseTimeCells = HashMap<(usize, Var, Use), f64>;

/// The facts about a context's goals.
pub(super) struct GoalFacts<'a> {
    pub(super) task: &'a Task<'a>,
    pub(super) context: &'a Context,
    pub(super) costs: Costs,
    /// Set at the first use.
    pub(super) vars: Option<Rc<Vec<GoalVars>>>,
    /// Times computed so far.
    pub(super) cells: RefCell<UseTimeCells>,
}

impl<'a> GoalFacts<'a> {
    pub(super) fn new(task: &'a Task<'a>) -> Self {
        GoalFacts {
            task,
            context: &task.context,
            costs: Costs { first: Vec::new(), now: Vec::new(), costly: Vec::new() },
            vars: None,
            cells: RefCell::default(),
        }
    }

    pub(super) fn vars(&mut self) -> Rc<Vec<GoalVars>> {
        let body = &self.context.body;
        Rc::clone(self.vars.get_or_insert_with(|| Rc::new(variables::of_body(body))))
    }

    pub(super) fn piece(&self, goal: usize) -> Piece {
        Piece { goal, cost: self.costs.now[goal], costly: self.costs.costly[goal] }
    }

    /// A goal that is executed as often as another one.
    pub(super) fn recounted(&self, goal: usize, calls: i64) -> Result<Piece, Abort> {
        let cost = self.costs.now[goal].recount(calls)?;
        Ok(Piece { goal, cost, costly: is_above(cost, self.task.params.call_site_threshold) })
    }
}
