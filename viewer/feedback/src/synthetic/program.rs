//! The parts of a program, and how to write one in a test.

use pct_deep::procrep::{AtomicGoal, AtomicKind, Detism, HeadVar, Inst, Var};
use pct_deep::{PredOrFunc, ProcLabel};

/// A program. Its first procedure is called once, from outside.
#[derive(Clone, Debug, Default)]
pub struct Program {
    /// The program's name in the profile.
    pub name: String,
    /// Its procedures; the first is `main`.
    pub procs: Vec<Proc>,
}

/// A procedure.
#[derive(Clone, Debug)]
pub struct Proc {
    /// Its label.
    pub label: ProcLabel<String>,
    /// Its arguments.
    pub head: Vec<HeadVar>,
    /// Names of variables, in the order of the file.
    pub names: Vec<(u32, String)>,
    /// A call's own cost, in call sequence counts.
    pub cost: i64,
    /// Its body; `None`: it does nothing, and the program representation does not have it.
    pub body: Option<Code>,
}

/// A goal.
#[derive(Clone, Debug)]
pub struct Code {
    /// How often it can succeed.
    pub detism: Detism,
    /// Its kind.
    pub kind: CodeKind,
}

/// The kinds of goals.
#[derive(Clone, Debug)]
pub enum CodeKind {
    /// One after the other.
    Conj(Vec<Code>),
    /// Alternatives, up to the first that succeeds.
    Disj(Vec<Code>),
    /// Alternatives by a variable.
    Switch {
        /// The variable.
        var: u32,
        /// Whether it fails for values without an arm.
        can_fail: bool,
        /// The arms; each has a functor `fN/0`.
        arms: Vec<Code>,
        /// The choice of the arm.
        pick: Pick,
    },
    /// Condition, then, else.
    IfThenElse(Box<[Code; 3]>),
    /// Negation.
    Neg(Box<Code>),
    /// A scope.
    Scope {
        /// Whether it cuts.
        cut: bool,
        /// The goal inside.
        inner: Box<Code>,
    },
    /// A goal that costs nothing.
    Plain {
        /// Its kind.
        atom: AtomicGoal,
        /// Whether it succeeds.
        outcome: Outcome,
    },
    /// A call.
    Call {
        /// The goal.
        atom: AtomicGoal,
        /// The called procedure (an index), or several for a closure: chosen by the call's number.
        callees: Vec<usize>,
        /// The number that the callee gets.
        pass: Pass,
    },
}

/// Which arm of a switch is taken, depending on the number of the procedure's call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pick {
    /// The arm with this number; the last one for greater numbers.
    AtMost,
    /// In turn.
    Modulo,
    /// The arm with this number; none for greater numbers.
    Exact,
}

/// Whether a plain goal succeeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Yes.
    Yes,
    /// No.
    No,
    /// If the number is positive.
    Positive,
    /// If the number is divisible by this.
    Every(i64),
}

/// The number that a callee gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pass {
    /// The caller's.
    Same,
    /// One less.
    Less,
    /// Half.
    Half,
    /// This number.
    Number(i64),
}

impl Pass {
    pub(super) fn nth_value(self, n: i64) -> i64 {
        match self {
            Self::Same => n,
            Self::Less => n - 1,
            Self::Half => n / 2,
            Self::Number(n) => n,
        }
    }
}

impl Program {
    /// An empty program.
    pub fn new(name: &str) -> Self {
        Self { name: name.to_owned(), procs: Vec::new() }
    }
    /// Adds a procedure and returns its index.
    pub fn add(&mut self, proc: Proc) -> usize {
        self.procs.push(proc);
        self.procs.len() - 1
    }
    /// The index of a procedure by its name.
    pub fn find(&self, name: &str) -> Option<usize> {
        self.procs.iter().position(|p| matches!(&p.label, ProcLabel::Ordinary { name: n, .. } if n == name))
    }
}

impl Proc {
    /// A predicate `module.name/arity-0`.
    pub fn pred(module: &str, name: &str, head: Vec<HeadVar>, body: Code) -> Self {
        Self { body: Some(body), ..Self::builtin(module, name, head, 1) }
    }
    /// A predicate without body, whose calls have this cost.
    pub fn builtin(module: &str, name: &str, head: Vec<HeadVar>, cost: i64) -> Self {
        let label = ProcLabel::Ordinary {
            kind: PredOrFunc::Pred,
            decl_module: module.to_owned(),
            def_module: module.to_owned(),
            name: name.to_owned(),
            arity: u32::try_from(head.len()).unwrap_or(u32::MAX),
            mode: 0,
        };
        Self { label, head, names: Vec::new(), cost, body: None }
    }
}

/// An input argument.
pub fn input(var: u32) -> HeadVar {
    HeadVar { var: Var(var), initial: Inst::Ground, last: Inst::Ground }
}

/// An output argument.
pub fn output(var: u32) -> HeadVar {
    HeadVar { var: Var(var), initial: Inst::Free, last: Inst::Ground }
}

fn vars(list: &[u32]) -> Vec<Var> {
    list.iter().copied().map(Var).collect()
}

fn det_unless(fails: bool) -> Detism {
    if fails { Detism::Semidet } else { Detism::Det }
}

impl Code {
    /// Goals one after the other.
    pub fn conj(parts: Vec<Code>) -> Self {
        let detism = det_unless(parts.iter().any(|p| p.detism.can_fail()));
        Self { detism, kind: CodeKind::Conj(parts) }
    }
    /// Alternatives.
    pub fn disj(parts: Vec<Code>) -> Self {
        let detism = det_unless(parts.iter().all(|p| p.detism.can_fail()));
        Self { detism, kind: CodeKind::Disj(parts) }
    }
    /// A switch.
    pub fn switch(var: u32, can_fail: bool, pick: Pick, arms: Vec<Code>) -> Self {
        let detism = det_unless(can_fail || arms.iter().any(|p| p.detism.can_fail()));
        Self { detism, kind: CodeKind::Switch { var, can_fail, arms, pick } }
    }
    /// An if-then-else.
    pub fn if_then_else(cond: Code, then: Code, other: Code) -> Self {
        let detism = det_unless(then.detism.can_fail() || other.detism.can_fail());
        Self { detism, kind: CodeKind::IfThenElse(Box::new([cond, then, other])) }
    }
    /// A negation.
    pub fn negation(inner: Code) -> Self {
        Self { detism: Detism::Semidet, kind: CodeKind::Neg(Box::new(inner)) }
    }
    /// A scope.
    pub fn scope(cut: bool, inner: Code) -> Self {
        Self { detism: inner.detism, kind: CodeKind::Scope { cut, inner: Box::new(inner) } }
    }
    /// A call. It binds some of its arguments.
    pub fn call(callee: usize, args: &[u32], bound: &[u32]) -> Self {
        let kind = AtomicKind::Call { module: String::new(), name: String::new(), args: vars(args) };
        let atom = AtomicGoal { kind, file: String::new(), line: 1, bound: vars(bound) };
        Self { detism: Detism::Det, kind: CodeKind::Call { atom, callees: vec![callee], pass: Pass::Same } }
    }
    /// A call of one of several procedures, through a closure.
    pub fn closure(closure: u32, callees: Vec<usize>, args: &[u32], bound: &[u32]) -> Self {
        let kind = AtomicKind::HigherOrder { closure: Var(closure), args: vars(args) };
        let atom = AtomicGoal { kind, file: String::new(), line: 1, bound: vars(bound) };
        Self { detism: Detism::Det, kind: CodeKind::Call { atom, callees, pass: Pass::Same } }
    }
    /// The same call, but the callee gets another number.
    pub fn pass(mut self, to: Pass) -> Self {
        if let CodeKind::Call { pass, .. } = &mut self.kind {
            *pass = to;
        }
        self
    }
    /// `var <= f(args)`
    pub fn construct(var: u32, args: &[u32]) -> Self {
        let kind = AtomicKind::Construct { var: Var(var), cons: "f".to_owned(), args: vars(args) };
        Self::plain(kind, &[var], Detism::Det, Outcome::Yes)
    }
    /// `var => f(args)`
    pub fn deconstruct(var: u32, args: &[u32]) -> Self {
        let kind = AtomicKind::Deconstruct { var: Var(var), cons: "f".to_owned(), args: vars(args) };
        Self::plain(kind, args, Detism::Det, Outcome::Yes)
    }
    /// A test of a variable.
    pub fn test(var: u32, outcome: Outcome) -> Self {
        let kind = AtomicKind::Test { first: Var(var), second: Var(var) };
        Self::plain(kind, &[], Detism::Semidet, outcome)
    }
    /// Any goal that costs nothing.
    pub fn plain(kind: AtomicKind, bound: &[u32], detism: Detism, outcome: Outcome) -> Self {
        let atom = AtomicGoal { kind, file: String::new(), line: 1, bound: vars(bound) };
        Self { detism, kind: CodeKind::Plain { atom, outcome } }
    }
    /// The goals directly inside.
    pub(crate) fn parts(&self) -> &[Code] {
        match &self.kind {
            CodeKind::Conj(parts) | CodeKind::Disj(parts) | CodeKind::Switch { arms: parts, .. } => parts,
            CodeKind::IfThenElse(parts) => parts.as_slice(),
            CodeKind::Neg(inner) | CodeKind::Scope { inner, .. } => std::slice::from_ref(inner),
            CodeKind::Plain { .. } | CodeKind::Call { .. } => &[],
        }
    }
}
