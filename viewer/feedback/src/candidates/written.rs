//! Goals of candidates in the form of the file.

use pct_analysis::body::NodeKind;
use pct_deep::procrep::{self, Var};

use super::goal_facts::{GoalFacts, Piece};
use super::times::atom_time;
use crate::model::{Goal, GoalKind};
use crate::variables::Use;

/// Converts goals to the form of the file.
pub(super) struct Writer<'a, 'b> {
    facts: &'a GoalFacts<'b>,
    goals: Vec<&'a procrep::Goal>,
}

impl<'a, 'b> Writer<'a, 'b> {
    pub(super) fn new(facts: &'a GoalFacts<'b>) -> Self {
        let mut goals = Vec::with_capacity(facts.context.body.nodes.len());
        number(&facts.context.body.procedure.body, &mut goals);
        Writer { facts, goals }
    }

    pub(super) fn goal(&self, piece: Piece, dependent: &[Var]) -> Goal {
        let goal = piece.goal;
        let original = self.goals[goal];
        let context = self.facts.context;
        let mut parts =
            context.body.children(goal).into_iter().map(|g| self.goal(self.facts.piece(g), dependent));
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

    /// A use time that was computed (section 11.7).
    fn time(&self, goal: usize, var: Var, kind: Use) -> Option<f64> {
        let vars = &self.facts.vars.as_ref()?[goal];
        let uses = match kind {
            Use::Production => &vars.bound,
            Use::Consumption => &vars.consumed,
        };
        if !uses.contains(&var) {
            return None;
        }
        match &self.facts.context.body.nodes[goal].kind {
            NodeKind::Atomic(atom) if !atom.kind.is_call() => Some(atom_time(kind)),
            _ => self.facts.cells.borrow().get(&(goal, var, kind)).copied(),
        }
    }
}

/// Collects goals in preorder, which is the order of their numbers.
fn number<'a>(goal: &'a procrep::Goal, goals: &mut Vec<&'a procrep::Goal>) {
    goals.push(goal);
    for (_, inner) in goal.children() {
        number(inner, goals);
    }
}
