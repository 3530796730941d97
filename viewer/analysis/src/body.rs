//! A procedure's body, laid out by goal numbers, with its call sites and coverage points joined by goal path.
//!
//! Goals are numbered in preorder; the body's root is 0. The layout depends only on the procedure, so it is made once
//! and used for each of the procedure's contexts.

use pct_deep::procrep::{AtomicGoal, Detism, Goal, GoalKind, Procedure, Var};
use pct_deep::{GoalPath, PointKind, Profile, PsId};
use std::collections::HashMap;

/// The kind of a goal, with its parts by number.
#[derive(Clone, Debug, PartialEq)]
pub enum NodeKind {
    /// A conjunction: its parts run one after the other.
    Conj(Vec<usize>),
    /// Alternatives.
    Disj(Vec<usize>),
    /// Alternatives, chosen by the functor of a variable.
    Switch {
        /// Whether functors without an arm fail.
        can_fail: bool,
        /// The variable.
        var: Var,
        /// The arms.
        arms: Vec<usize>,
    },
    /// Condition, then, else.
    IfThenElse {
        /// Condition.
        cond: usize,
        /// Then.
        then: usize,
        /// Else.
        other: usize,
    },
    /// Negation.
    Neg(usize),
    /// A scope.
    Scope {
        /// Whether it cuts.
        cut: bool,
        /// The goal inside.
        inner: usize,
    },
    /// A goal without goals inside.
    Atomic(AtomicGoal),
}

/// A goal of a body.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// Its kind.
    pub kind: NodeKind,
    /// How often it can succeed.
    pub detism: Detism,
    /// Its path in the body.
    pub path: GoalPath,
    /// The slot of its call site, if it is a call that has one.
    pub slot: Option<usize>,
    /// The coverage point after it.
    pub after: Option<usize>,
    /// The coverage point at its start as a branch arm.
    pub arm: Option<usize>,
}

/// A body.
#[derive(Clone, Debug)]
pub struct Body {
    /// The goals, by number.
    pub nodes: Vec<Node>,
    /// The procedure as it is in the file.
    pub procedure: Procedure,
}

impl Body {
    /// Lays out the body of procedure `ps`.
    #[must_use]
    pub fn new(profile: &Profile, ps: PsId, procedure: Procedure) -> Body {
        let slots: HashMap<GoalPath, usize> = profile
            .sites(ps)
            .iter()
            .enumerate()
            .map(|(i, &css)| (profile.path(profile.css(css).path), i))
            .collect();
        let points: HashMap<(GoalPath, PointKind), usize> =
            profile.points(ps).iter().enumerate().map(|(i, p)| ((profile.path(p.path), p.kind), i)).collect();
        let mut nodes = Vec::new();
        let point = |path: &GoalPath, kind| points.get(&(path.clone(), kind)).copied();
        lay(&procedure.body, GoalPath::ROOT, &mut nodes, &mut |path, goal| {
            let is_call = matches!(&goal.kind, GoalKind::Atomic(a) if a.kind.is_call());
            Joined {
                slot: slots.get(path).copied().filter(|_| is_call),
                after: point(path, PointKind::After),
                arm: point(path, PointKind::BranchArm),
            }
        });
        Body { nodes, procedure }
    }

    /// The parts of a goal, in order.
    #[must_use]
    pub fn children(&self, goal: usize) -> Vec<usize> {
        match &self.nodes[goal].kind {
            NodeKind::Conj(c) | NodeKind::Disj(c) | NodeKind::Switch { arms: c, .. } => c.clone(),
            NodeKind::IfThenElse { cond, then, other } => vec![*cond, *then, *other],
            NodeKind::Neg(inner) | NodeKind::Scope { inner, .. } => vec![*inner],
            NodeKind::Atomic(_) => Vec::new(),
        }
    }
}

struct Joined {
    slot: Option<usize>,
    after: Option<usize>,
    arm: Option<usize>,
}

fn lay(
    goal: &Goal,
    path: GoalPath,
    nodes: &mut Vec<Node>,
    join: &mut impl FnMut(&GoalPath, &Goal) -> Joined,
) -> usize {
    let id = nodes.len();
    let joined = join(&path, goal);
    nodes.push(Node {
        kind: NodeKind::Conj(Vec::new()),
        detism: goal.detism,
        path: path.clone(),
        slot: joined.slot,
        after: joined.after,
        arm: joined.arm,
    });
    let parts: Vec<usize> =
        goal.children().into_iter().map(|(step, inner)| lay(inner, path.with(step), nodes, join)).collect();
    nodes[id].kind = match (&goal.kind, parts.as_slice()) {
        (GoalKind::Conj(_), _) => NodeKind::Conj(parts),
        (GoalKind::Disj(_), _) => NodeKind::Disj(parts),
        (GoalKind::Switch { can_fail, var, .. }, _) => {
            NodeKind::Switch { can_fail: *can_fail, var: *var, arms: parts }
        }
        (GoalKind::IfThenElse(_), &[cond, then, other]) => NodeKind::IfThenElse { cond, then, other },
        (GoalKind::Neg(_), &[inner]) => NodeKind::Neg(inner),
        (GoalKind::Scope { cut, .. }, &[inner]) => NodeKind::Scope { cut: *cut, inner },
        (GoalKind::Atomic(a), _) => NodeKind::Atomic(a.clone()),
        // The kind determines the number of parts.
        (GoalKind::IfThenElse(_) | GoalKind::Neg(_) | GoalKind::Scope { .. }, _) => NodeKind::Conj(parts),
    };
    id
}
