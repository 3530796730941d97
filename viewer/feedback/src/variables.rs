//! Finds which variables goals consume and bind, and whether one is bound twice (docs/feedback.md, section 7).

use std::collections::{BTreeMap, BTreeSet};

use pct_analysis::Body;
use pct_analysis::body::NodeKind;
use pct_deep::procrep::{Inst, Var};

/// The use of a variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Use {
    /// It gets its value.
    Production,
    /// Its value is needed for the first time.
    Consumption,
}

/// The variables of a goal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GoalVars {
    /// Variables that it, or a goal inside it, needs (including those that it binds itself before).
    pub consumed: BTreeSet<Var>,
    /// Variables that it binds in all cases.
    pub bound: BTreeSet<Var>,
}

/// The variables of each goal, by number (section 7).
pub fn of_body(body: &Body) -> Vec<GoalVars> {
    let mut all: Vec<GoalVars> = vec![GoalVars::default(); body.nodes.len()];
    // Parts have larger numbers than the whole.
    for goal in (0..body.nodes.len()).rev() {
        let vars = match &body.nodes[goal].kind {
            NodeKind::Atomic(atom) => {
                let bound: BTreeSet<Var> = atom.bound.iter().copied().collect();
                let consumed = atom.kind.vars().into_iter().filter(|v| !bound.contains(v)).collect();
                GoalVars { consumed, bound }
            }
            NodeKind::Conj(parts) => GoalVars {
                consumed: consumed(&all, parts),
                bound: parts.iter().flat_map(|&p| all[p].bound.iter().copied()).collect(),
            },
            NodeKind::Disj(parts) => GoalVars { consumed: consumed(&all, parts), bound: common(&all, parts) },
            NodeKind::Switch { var, arms, .. } => {
                let mut consumed = consumed(&all, arms);
                consumed.insert(*var);
                GoalVars { consumed, bound: common(&all, arms) }
            }
            NodeKind::IfThenElse { cond, then, other } => GoalVars {
                consumed: consumed(&all, &[*cond, *then, *other]),
                bound: common(&all, &[*then, *other]),
            },
            NodeKind::Neg(inner) => {
                GoalVars { consumed: all[*inner].consumed.clone(), bound: BTreeSet::new() }
            }
            NodeKind::Scope { inner, .. } => all[*inner].clone(),
        };
        all[goal] = vars;
    }
    all
}

fn consumed(all: &[GoalVars], parts: &[usize]) -> BTreeSet<Var> {
    parts.iter().flat_map(|&p| all[p].consumed.iter().copied()).collect()
}

fn common(all: &[GoalVars], parts: &[usize]) -> BTreeSet<Var> {
    let mut parts = parts.iter();
    let mut bound = parts.next().map(|&p| all[p].bound.clone()).unwrap_or_default();
    for &part in parts {
        bound.retain(|v| all[part].bound.contains(v));
    }
    bound
}

type Insts = BTreeMap<Var, Inst>;

/// Whether a body binds a variable that is already bound (section 7).
pub fn binds_twice(body: &Body) -> bool {
    let mut insts: Insts = Insts::new();
    for head in &body.procedure.head {
        insts.insert(head.var, head.initial);
    }
    let mut twice = false;
    thread(body, 0, insts, &mut twice);
    twice
}

/// The state of variables after a goal.
fn thread(body: &Body, goal: usize, mut insts: Insts, twice: &mut bool) -> Insts {
    match &body.nodes[goal].kind {
        NodeKind::Atomic(atom) => {
            for &var in &atom.bound {
                let inst = insts.entry(var).or_insert(Inst::Free);
                if *inst == Inst::Free {
                    *inst = Inst::Ground;
                } else {
                    *inst = Inst::Other;
                    *twice = true;
                }
            }
            insts
        }
        NodeKind::Conj(parts) => parts.iter().fold(insts, |insts, &part| thread(body, part, insts, twice)),
        NodeKind::Disj(parts) | NodeKind::Switch { arms: parts, .. } => {
            let afters: Vec<Insts> = parts.iter().map(|&p| thread(body, p, insts.clone(), twice)).collect();
            // After the last branch comes the map from before.
            parts.iter().zip(afters).rev().fold(insts, |rest, (&part, after)| {
                if body.nodes[part].detism.never_succeeds() { rest } else { merge(after, rest) }
            })
        }
        NodeKind::IfThenElse { cond, then, other } => {
            let insts = thread(body, *cond, insts, twice);
            let (a, b) = (thread(body, *then, insts.clone(), twice), thread(body, *other, insts, twice));
            if body.nodes[*then].detism.never_succeeds() {
                b
            } else if body.nodes[*other].detism.never_succeeds() {
                a
            } else {
                merge(a, b)
            }
        }
        NodeKind::Neg(inner) => {
            thread(body, *inner, insts.clone(), twice);
            insts
        }
        NodeKind::Scope { inner, .. } => thread(body, *inner, insts, twice),
    }
}

fn merge(mut a: Insts, b: Insts) -> Insts {
    for (var, inst) in b {
        a.entry(var).and_modify(|i| *i = if *i == inst { inst } else { Inst::Other }).or_insert(inst);
    }
    a
}
