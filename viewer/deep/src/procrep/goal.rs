//! Procedure bodies: goals, determinisms, variables.

use std::borrow::Cow;
use std::fmt;

use crate::goal_path::{GoalPath, GoalStep};

/// A variable of a procedure, by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Var(pub u32);

/// How often a goal can succeed. The numbers are the file's: bit 3 first solution only, bit 2
/// cannot fail, bit 1 has solutions, bit 0 more than one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Detism {
    /// Never succeeds.
    Failure = 0,
    /// At most once.
    Semidet = 2,
    /// Any number of times.
    Nondet = 3,
    /// Neither succeeds nor fails: throws or does not end.
    Erroneous = 4,
    /// Exactly once.
    Det = 6,
    /// At least once.
    Multi = 7,
    /// Any number of times, but only one solution is used.
    CcNondet = 10,
    /// At least once, but only one solution is used.
    CcMulti = 14,
}

impl Detism {
    /// The determinism with this number in the file.
    pub fn from_number(n: u8) -> Option<Self> {
        Some(match n {
            0 => Self::Failure,
            2 => Self::Semidet,
            3 => Self::Nondet,
            4 => Self::Erroneous,
            6 => Self::Det,
            7 => Self::Multi,
            10 => Self::CcNondet,
            14 => Self::CcMulti,
            _ => return None,
        })
    }
    /// Whether it can have more than one solution: nondet, multi.
    pub fn has_many_solutions(self) -> bool {
        matches!(self, Self::Nondet | Self::Multi)
    }
    /// Whether it can fail: semidet, nondet, cc_nondet, failure.
    pub fn can_fail(self) -> bool {
        matches!(self, Self::Semidet | Self::Nondet | Self::CcNondet | Self::Failure)
    }
    /// Whether it never succeeds: failure, erroneous.
    pub fn never_succeeds(self) -> bool {
        matches!(self, Self::Failure | Self::Erroneous)
    }
}

impl fmt::Display for Detism {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Failure => "failure",
            Self::Semidet => "semidet",
            Self::Nondet => "nondet",
            Self::Erroneous => "erroneous",
            Self::Det => "det",
            Self::Multi => "multi",
            Self::CcNondet => "cc_nondet",
            Self::CcMulti => "cc_multi",
        })
    }
}

/// The state of a variable before or after a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Inst {
    /// No value.
    Free = 0,
    /// A value.
    Ground = 1,
    /// Anything else.
    Other = 2,
}

impl fmt::Display for Inst {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Free => "free",
            Self::Ground => "ground",
            Self::Other => "other",
        })
    }
}

/// An argument of a procedure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeadVar {
    /// The variable.
    pub var: Var,
    /// Before the call.
    pub initial: Inst,
    /// After success.
    pub last: Inst,
}

/// A variable that has a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedVar {
    /// The variable.
    pub var: Var,
    /// Its name. It may be empty, and is then shown as such.
    pub name: String,
    /// Its type, a number in the module's type table.
    pub type_number: Option<u32>,
}

/// The body of a procedure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Procedure {
    /// Source file.
    pub file: String,
    /// Variables with names, by ascending number.
    pub vars: Vec<NamedVar>,
    /// The numbers of the named variables in the order of the file.
    pub vars_in_file: Vec<Var>,
    /// The arguments.
    pub head: Vec<HeadVar>,
    /// The body.
    pub body: Goal,
    /// Determinism of the procedure.
    pub detism: Detism,
}

impl Procedure {
    /// The displayed name of a variable: its own, or `V_number`.
    pub fn var_name(&self, var: Var) -> Cow<'_, str> {
        match self.vars.binary_search_by_key(&var, |v| v.var) {
            Ok(i) => Cow::Borrowed(&self.vars[i].name),
            Err(_) => Cow::Owned(format!("V_{}", var.0)),
        }
    }
}

/// A goal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Goal {
    /// Its kind.
    pub kind: GoalKind,
    /// How often it can succeed.
    pub detism: Detism,
}

/// The kinds of goals.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GoalKind {
    /// One after the other.
    Conj(Vec<Goal>),
    /// Alternatives.
    Disj(Vec<Goal>),
    /// Alternatives by the functor of a variable.
    Switch {
        /// Whether it fails for functors that have no case.
        can_fail: bool,
        /// The variable.
        var: Var,
        /// The arms.
        cases: Vec<Case>,
    },
    /// Condition, then, else.
    IfThenElse(Box<[Goal; 3]>),
    /// Negation.
    Neg(Box<Goal>),
    /// A scope, with or without a cut.
    Scope {
        /// Whether solutions are cut away.
        cut: bool,
        /// The goal inside.
        goal: Box<Goal>,
    },
    /// A goal without goals inside.
    Atomic(AtomicGoal),
}

/// An arm of a switch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Case {
    /// The functors, with their arities, that select it; at least one.
    pub functors: Vec<(String, u16)>,
    /// The goal of the arm.
    pub goal: Goal,
}

/// A goal without goals inside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AtomicGoal {
    /// Its kind.
    pub kind: AtomicKind,
    /// Source file; empty: the procedure's.
    pub file: String,
    /// Line number.
    pub line: i32,
    /// Variables that it binds.
    pub bound: Vec<Var>,
}

/// The kinds of goals without goals inside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AtomicKind {
    /// `var <= cons(args)`
    Construct {
        /// Receives the term.
        var: Var,
        /// The functor.
        cons: String,
        /// Its arguments.
        args: Vec<Var>,
    },
    /// `var => cons(args)`
    Deconstruct {
        /// The term.
        var: Var,
        /// The functor.
        cons: String,
        /// Its arguments.
        args: Vec<Var>,
    },
    /// `var <= cons(args)` of some of the arguments.
    PartialConstruct {
        /// Receives the term.
        var: Var,
        /// The functor.
        cons: String,
        /// Its arguments; `None`: not set here.
        args: Vec<Option<Var>>,
    },
    /// `var => cons(args)` of some of the arguments.
    PartialDeconstruct {
        /// The term.
        var: Var,
        /// The functor.
        cons: String,
        /// Its arguments; `None`: not read here.
        args: Vec<Option<Var>>,
    },
    /// `target := source`
    Assign {
        /// Receives.
        target: Var,
        /// Gives.
        source: Var,
    },
    /// An unsafe cast.
    Cast {
        /// Receives.
        output: Var,
        /// Gives.
        input: Var,
    },
    /// `first == second`
    Test {
        /// The first one in the file.
        first: Var,
        /// The second one in the file; it is shown first.
        second: Var,
    },
    /// Foreign code.
    Foreign {
        /// Its arguments.
        args: Vec<Var>,
    },
    /// Call of a closure.
    HigherOrder {
        /// The closure.
        closure: Var,
        /// The arguments.
        args: Vec<Var>,
    },
    /// Call of a type class method.
    Method {
        /// The class's dictionary.
        typeclass_info: Var,
        /// Which method.
        method: u16,
        /// The arguments.
        args: Vec<Var>,
    },
    /// Call of a procedure.
    Call {
        /// Its module.
        module: String,
        /// Its name.
        name: String,
        /// The arguments.
        args: Vec<Var>,
    },
    /// Call of a procedure that is compiled inline.
    Builtin {
        /// Its module.
        module: String,
        /// Its name.
        name: String,
        /// The arguments.
        args: Vec<Var>,
    },
    /// An event.
    Event {
        /// Its name.
        name: String,
        /// The arguments.
        args: Vec<Var>,
    },
}

impl AtomicKind {
    /// Whether it is a call with a call site: a plain, higher order or method call.
    pub fn is_call(&self) -> bool {
        matches!(self, Self::Call { .. } | Self::HigherOrder { .. } | Self::Method { .. })
    }
    /// The variables in it, in order: the term or closure first, then the arguments.
    pub fn vars(&self) -> Vec<Var> {
        match self {
            Self::Construct { var, args, .. } | Self::Deconstruct { var, args, .. } => {
                std::iter::once(*var).chain(args.iter().copied()).collect()
            }
            Self::PartialConstruct { var, args, .. } | Self::PartialDeconstruct { var, args, .. } => {
                std::iter::once(*var).chain(args.iter().copied().flatten()).collect()
            }
            Self::Assign { target, source } => vec![*target, *source],
            Self::Cast { output, input } => vec![*output, *input],
            Self::Test { first, second } => vec![*first, *second],
            Self::HigherOrder { closure: var, args } | Self::Method { typeclass_info: var, args, .. } => {
                std::iter::once(*var).chain(args.iter().copied()).collect()
            }
            Self::Foreign { args }
            | Self::Call { args, .. }
            | Self::Builtin { args, .. }
            | Self::Event { args, .. } => args.clone(),
        }
    }
}

impl Goal {
    /// The goals directly inside, each with the step that leads to it.
    pub fn children(&self) -> Vec<(GoalStep, &Goal)> {
        let nth = |i: usize| i64::try_from(i + 1).unwrap_or(i64::MAX);
        match &self.kind {
            GoalKind::Conj(goals) => {
                goals.iter().enumerate().map(|(i, g)| (GoalStep::Conj(nth(i)), g)).collect()
            }
            GoalKind::Disj(goals) => {
                goals.iter().enumerate().map(|(i, g)| (GoalStep::Disj(nth(i)), g)).collect()
            }
            GoalKind::Switch { cases, .. } => cases
                .iter()
                .enumerate()
                .map(|(i, c)| (GoalStep::Switch { arm: nth(i), functors: None }, &c.goal))
                .collect(),
            GoalKind::IfThenElse(goals) => {
                [GoalStep::Cond, GoalStep::Then, GoalStep::Else].into_iter().zip(goals.iter()).collect()
            }
            GoalKind::Neg(goal) => vec![(GoalStep::Neg, goal)],
            GoalKind::Scope { cut, goal } => vec![(GoalStep::Scope { cut: *cut }, goal)],
            GoalKind::Atomic(_) => Vec::new(),
        }
    }
    /// Visits this goal and all inside in preorder, with their paths below `path`.
    pub fn walk<'a>(&'a self, path: &GoalPath, visit: &mut impl FnMut(&GoalPath, &'a Goal)) {
        visit(path, self);
        for (step, goal) in self.children() {
            goal.walk(&path.with(step), visit);
        }
    }
}
