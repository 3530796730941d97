//! Program representations as text: `mdprof_procrep` prints it, and the viewer shows it with an additional comment for
//! each goal.
//!
//! ```text
//! det pred m.p/2-0(X::(ground >> ground), Y::(free >> ground)) :-
//!   % conjunction: root goal
//!   % conjunction: det
//!
//!   % c1;
//!   % det
//!   m.q(X, Z)
//!   ,
//! ```
//! Each level is indented by two blanks; a procedure ends with an empty line.

use crate::small::small;
use std::borrow::Cow;
use std::fmt::Write;

use super::goal::{AtomicKind, Goal, GoalKind, Procedure, Var};
use super::{OisuType, ProcRep, Type};
use crate::error::DeepError;
use crate::goal_path::GoalPath;
use crate::id::{RepModuleId, RepProcId};
use crate::label::{PredOrFunc, ProcLabel};

/// Longest text of one type, because a short table can describe a type of any length.
const TYPE_TEXT_MAX: usize = 400;

impl ProcRep {
    /// The text of a module: header, tables, procedures in label order.
    ///
    /// # Errors
    /// The first procedure whose body cannot be decoded.
    pub fn module_text(&self, module: RepModuleId) -> Result<String, DeepError> {
        let mut out = self.module_head_text(module);
        for &proc in self.module_procs(module) {
            out.push_str(&self.procedure_text(proc)?);
        }
        Ok(out)
    }

    /// The text of a module before its procedures: header, state update types, type table.
    pub fn module_head_text(&self, module: RepModuleId) -> String {
        let mut out = format!("Module {}\n", self.module_name(module));
        let types = self.types(module);
        for oisu in self.oisu_types(module) {
            oisu_text(&mut out, oisu);
        }
        if !types.is_empty() {
            out.push_str("\nType table:\n");
            for n in 0..small(types.len()) {
                let _ = writeln!(out, "{n}: {}", type_text(types, n));
            }
        }
        out
    }

    /// The text of one procedure, with the empty line after it.
    ///
    /// # Errors
    /// Its body cannot be decoded.
    pub fn procedure_text(&self, proc: RepProcId) -> Result<String, DeepError> {
        let body = self.procedure(proc)?;
        Ok(self.annotated_text(proc, &body, &mut |_, _, _| Vec::new()))
    }

    /// The text of one procedure with comments for each goal, which `comments` makes from the
    /// goal's number (preorder from 1) and path.
    pub fn annotated_text(
        &self,
        proc: RepProcId,
        body: &Procedure,
        comments: &mut dyn FnMut(usize, &GoalPath, &Goal) -> Vec<String>,
    ) -> String {
        let mut out = String::new();
        let types = self.types(self.module_of(proc));
        for var in &body.vars {
            if let Some(n) = var.type_number {
                let _ = writeln!(out, "% {}: {}", var.name, type_text(types, n));
            }
        }
        let _ = write!(out, "{} {}", body.detism, head_name(&self.label(proc)));
        let args: Vec<String> = body
            .head
            .iter()
            .map(|h| format!("{}::({} >> {})", body.var_name(h.var), h.initial, h.last))
            .collect();
        if !args.is_empty() {
            let _ = write!(out, "({})", args.join(", "));
        }
        out.push_str(" :-\n");
        let mut printer = Printer { out, body, comments, goals: 0 };
        printer.goal(&body.body, &GoalPath::ROOT, 1);
        let mut out = printer.out;
        out.push('\n');
        out
    }
}

fn text<S: AsRef<[u8]>>(s: &S) -> Cow<'_, str> {
    String::from_utf8_lossy(s.as_ref())
}

/// `pred m.p/2-0`, `func m.f/2-0`, `__Unify__ for m.t/1-0`.
fn head_name<S: AsRef<[u8]>>(label: &ProcLabel<S>) -> String {
    match label {
        ProcLabel::Ordinary { kind, decl_module, name, arity, mode, .. } => {
            let kind = match kind {
                PredOrFunc::Pred => "pred",
                PredOrFunc::Func => "func",
            };
            format!("{kind} {}.{}/{arity}-{mode}", text(decl_module), text(name))
        }
        ProcLabel::Special { type_name, type_module, pred_name, arity, mode, .. } => {
            format!("{} for {}.{}/{arity}-{mode}", text(pred_name), text(type_module), text(type_name))
        }
    }
}

fn oisu_text(out: &mut String, oisu: &OisuType) {
    let _ = writeln!(out, "\nType {}:", oisu.name);
    for (what, labels) in
        [("creators", &oisu.creators), ("mutators", &oisu.mutators), ("destructors", &oisu.destructors)]
    {
        let _ = writeln!(out, "{what}:");
        for label in labels {
            let _ = writeln!(out, "  {}", head_name(label));
        }
    }
}

/// The text of a type of a table, cut with `...` if it is very long.
pub(super) fn type_text(types: &[Type], n: u32) -> String {
    let mut out = String::new();
    put_type(&mut out, types, n);
    if out.len() > TYPE_TEXT_MAX {
        let cut = (0..=TYPE_TEXT_MAX).rev().find(|&i| out.is_char_boundary(i)).unwrap_or(0);
        out.truncate(cut);
        out.push_str("...");
    }
    out
}

// Recursion is at most as deep as the table is long: numbers refer to earlier entries, and each level prints something,
// so the length bounds it.
fn put_type(out: &mut String, types: &[Type], n: u32) {
    if out.len() > TYPE_TEXT_MAX {
        return;
    }
    let list = |out: &mut String, args: &[u32]| {
        for (i, &arg) in args.iter().enumerate() {
            if i > 0 {
                out.push_str(", ");
            }
            put_type(out, types, arg);
        }
    };
    match types.get(n as usize) {
        None => {
            let _ = write!(out, "<type {n}>");
        }
        Some(Type::Defined { name, args }) => {
            // An empty name becomes a blank, so that every level prints something.
            out.push_str(if name.is_empty() { " " } else { name });
            if !args.is_empty() {
                out.push('(');
                list(out, args);
                out.push(')');
            }
        }
        Some(Type::Builtin(name)) => out.push_str(name),
        Some(Type::Tuple(args)) => {
            out.push('{');
            list(out, args);
            out.push('}');
        }
        Some(Type::Pred(args)) => {
            out.push_str("pred(");
            list(out, args);
            out.push(')');
        }
        Some(Type::Func { args, result }) => {
            out.push_str("(func(");
            list(out, args);
            out.push_str(") = ");
            put_type(out, types, *result);
            out.push(')');
        }
        Some(Type::Var(v)) => {
            let _ = write!(out, "V_{v}");
        }
    }
}

struct Printer<'a> {
    out: String,
    body: &'a Procedure,
    comments: &'a mut dyn FnMut(usize, &GoalPath, &Goal) -> Vec<String>,
    goals: usize,
}

impl Printer<'_> {
    fn line(&mut self, indent: usize, text: &str) {
        let _ = writeln!(self.out, "{:width$}{text}", "", width = indent * 2);
    }

    fn goal(&mut self, goal: &Goal, path: &GoalPath, indent: usize) {
        self.goals += 1;
        let is_conj = matches!(goal.kind, GoalKind::Conj(_));
        let prefix = if is_conj { "% conjunction: " } else { "% " };
        let place = if path.0.is_empty() { "root goal".to_owned() } else { path.to_string() };
        self.line(indent, &format!("{prefix}{place}"));
        self.line(indent, &format!("{prefix}{}", goal.detism));
        for comment in (self.comments)(self.goals, path, goal) {
            self.line(indent, &format!("{prefix}{comment}"));
        }
        if is_conj {
            self.out.push('\n');
        }
        let mut inside = goal.children().into_iter().map(|(step, goal)| (path.with(step), goal));
        match &goal.kind {
            GoalKind::Conj(goals) if goals.is_empty() => self.line(indent, "true"),
            GoalKind::Conj(_) => {
                for (i, (path, goal)) in inside.enumerate() {
                    if i > 0 {
                        self.line(indent, ",");
                    }
                    self.goal(goal, &path, indent);
                }
            }
            GoalKind::Disj(_) => {
                self.line(indent, "(");
                for (i, (path, goal)) in inside.enumerate() {
                    if i > 0 {
                        self.line(indent, ";");
                    }
                    self.goal(goal, &path, indent + 1);
                }
                self.line(indent, ")");
            }
            GoalKind::Switch { can_fail, var, cases } => {
                let kind = if *can_fail { "switch_can_fail_rep" } else { "switch_can_not_fail_rep" };
                let var = self.body.var_name(*var).into_owned();
                self.line(indent, &format!("{kind} switch on {var}"));
                self.line(indent, "(");
                for (i, (case, (path, goal))) in cases.iter().zip(inside).enumerate() {
                    if i > 0 {
                        self.line(indent + 1, ";");
                    }
                    for (functor, arity) in &case.functors {
                        self.line(indent + 2, &format!("% case {functor}/{arity}"));
                    }
                    self.goal(goal, &path, indent + 2);
                }
                self.line(indent, ")");
            }
            GoalKind::IfThenElse(_) => {
                for (open, (path, goal)) in ["(", "->", ";"].into_iter().zip(inside) {
                    self.line(indent, open);
                    self.goal(goal, &path, indent + 1);
                }
                self.line(indent, ")");
            }
            GoalKind::Neg(_) | GoalKind::Scope { .. } => {
                let open = match goal.kind {
                    GoalKind::Neg(_) => "not (",
                    GoalKind::Scope { cut: true, .. } => "scope cut (",
                    _ => "scope (",
                };
                self.line(indent, open);
                if let Some((path, goal)) = inside.next() {
                    self.goal(goal, &path, indent + 1);
                }
                self.line(indent, ")");
            }
            GoalKind::Atomic(atomic) => {
                let text = atomic.kind.text(|v| self.body.var_name(v).into_owned());
                self.line(indent, &text);
            }
        }
    }
}

impl AtomicKind {
    /// The goal on one line, as procedure bodies and feedback reports show it. `name` returns the names of variables.
    pub fn text(&self, name: impl Fn(Var) -> String) -> String {
        // `(A, B)`, or nothing if there are none.
        let maybe_args = |args: &mut dyn Iterator<Item = Option<Var>>| {
            let names: Vec<String> = args.map(|v| v.map_or_else(|| "_".to_owned(), &name)).collect();
            if names.is_empty() { String::new() } else { format!("({})", names.join(", ")) }
        };
        let args = |args: &[Var]| maybe_args(&mut args.iter().copied().map(Some));
        match self {
            Self::Construct { var, cons, args: a } => format!("{} <= {cons}{}", name(*var), args(a)),
            Self::Deconstruct { var, cons, args: a } => format!("{} => {cons}{}", name(*var), args(a)),
            Self::PartialConstruct { var, cons, args } => {
                format!("{} <= {cons}{}", name(*var), maybe_args(&mut args.iter().copied()))
            }
            Self::PartialDeconstruct { var, cons, args } => {
                format!("{} => {cons}{}", name(*var), maybe_args(&mut args.iter().copied()))
            }
            Self::Assign { target, source } => format!("{} := {}", name(*target), name(*source)),
            Self::Cast { output, input } => format!("cast {} to {}", name(*input), name(*output)),
            Self::Test { first, second } => format!("{} == {}", name(*second), name(*first)),
            Self::Foreign { args: a } => format!("foreign_proc({})", args(a)),
            Self::HigherOrder { closure, args: a } => format!("{}({})", name(*closure), args(a)),
            Self::Method { typeclass_info, method, args: a } => {
                format!("method {method} of {}({})", name(*typeclass_info), args(a))
            }
            Self::Call { module, name: n, args: a } => format!("{module}.{n}{}", args(a)),
            Self::Builtin { module, name: n, args: a } => format!("builtin {module}.{n}{}", args(a)),
            Self::Event { name: n, args: a } => format!("event {n}{}", args(a)),
        }
    }
}
