//! Encodes bodies as a program representation, version 5. The layout is that of `pct_deep::procrep`.

use std::collections::HashMap;

use pct_deep::procrep::{AtomicGoal, AtomicKind, Var};
use pct_deep::{PredOrFunc, ProcLabel};

use super::program::{Code, CodeKind, Proc, Program};

/// The octets of the file.
pub(super) fn encode(program: &Program) -> Vec<u8> {
    let mut out = b"Mercury deep profiler procrep version 5\n".to_vec();
    let mut modules: Vec<&str> = Vec::new();
    for proc in program.procs.iter().filter(|p| p.body.is_some()) {
        if modules.last() != Some(&proc.label.def_module().as_str())
            && !modules.contains(&proc.label.def_module().as_str())
        {
            modules.push(proc.label.def_module());
        }
    }
    for module in modules {
        let mut strings = Table { octets: vec![0], known: HashMap::from([(String::new(), 0)]) };
        let mut procs = Vec::new();
        let own = program.procs.iter().filter(|p| p.label.def_module() == module);
        for (proc, body) in own.filter_map(|p| Some((p, p.body.as_ref()?))) {
            procs.push(1);
            procedure(program, proc, body, &mut strings, &mut procs);
        }
        procs.push(0);
        out.push(1);
        string(&mut out, module);
        num(&mut out, strings.octets.len() as u64);
        out.extend(strings.octets);
        out.extend(procs);
    }
    out.push(0);
    out
}

struct Table {
    octets: Vec<u8>,
    known: HashMap<String, u32>,
}

impl Table {
    fn code(&mut self, text: &str) -> u32 {
        if let Some(&at) = self.known.get(text) {
            return at * 2;
        }
        let at = u32::try_from(self.octets.len()).unwrap_or(0);
        self.octets.extend_from_slice(text.as_bytes());
        self.octets.push(0);
        self.known.insert(text.to_owned(), at);
        at * 2
    }
}

fn num(out: &mut Vec<u8>, value: u64) {
    let groups = (64 - value.leading_zeros()).div_ceil(7).max(1);
    for i in (0..groups).rev() {
        let more = if i > 0 { 0x80 } else { 0 };
        let [lowest, ..] = (value >> (7 * i)).to_le_bytes();
        out.push(lowest & 0x7f | more);
    }
}
fn string(out: &mut Vec<u8>, text: &str) {
    num(out, text.len() as u64);
    out.extend_from_slice(text.as_bytes());
}
fn int(out: &mut Vec<u8>, value: usize) {
    out.extend(i32::try_from(value).unwrap_or(i32::MAX).to_be_bytes());
}

fn procedure(program: &Program, proc: &Proc, body: &Code, strings: &mut Table, out: &mut Vec<u8>) {
    match &proc.label {
        ProcLabel::Ordinary { kind, decl_module, def_module, name, arity, mode } => {
            out.push(u8::from(*kind == PredOrFunc::Func));
            for text in [decl_module, def_module, name] {
                string(out, text);
            }
            num(out, u64::from(*arity));
            num(out, u64::from(*mode));
        }
        ProcLabel::Special { type_name, type_module, def_module, pred_name, arity, mode } => {
            out.push(2);
            for text in [type_name, type_module, def_module, pred_name] {
                string(out, text);
            }
            num(out, u64::from(*arity));
            num(out, u64::from(*mode));
        }
    }
    let mut w = Writer { program, strings, out: Vec::new() };
    w.strref("made_up.m");
    // Variables of four octets.
    w.out.push(2);
    w.count(proc.names.len());
    for (var, name) in &proc.names {
        w.var(Var(*var));
        w.strref(name);
    }
    w.count(proc.head.len());
    for head in &proc.head {
        w.var(head.var);
        w.out.extend([head.initial as u8, head.last as u8]);
    }
    w.goal(body);
    w.out.push(body.detism as u8);
    let body = w.out;
    int(out, body.len() + 4);
    out.extend(body);
}

struct Writer<'a> {
    program: &'a Program,
    strings: &'a mut Table,
    out: Vec<u8>,
}

impl Writer<'_> {
    fn strref(&mut self, text: &str) {
        let code = self.strings.code(text);
        self.out.extend(code.to_be_bytes());
    }
    fn count(&mut self, n: usize) {
        int(&mut self.out, n);
    }
    fn var(&mut self, var: Var) {
        self.out.extend(var.0.to_be_bytes());
    }
    fn vars(&mut self, vars: &[Var]) {
        self.count(vars.len());
        for &var in vars {
            self.var(var);
        }
    }
    fn maybe_vars(&mut self, vars: &[Option<Var>]) {
        self.count(vars.len());
        for var in vars {
            self.out.push(u8::from(var.is_some()));
            if let Some(var) = var {
                self.var(*var);
            }
        }
    }

    fn goal(&mut self, code: &Code) {
        match &code.kind {
            CodeKind::Conj(parts) => {
                self.out.push(1);
                self.count(parts.len());
            }
            CodeKind::Disj(parts) => {
                self.out.push(2);
                self.count(parts.len());
            }
            CodeKind::Switch { var, can_fail, arms, .. } => {
                self.out.extend([3, u8::from(!can_fail)]);
                self.var(Var(*var));
                self.count(arms.len());
                for (i, arm) in arms.iter().enumerate() {
                    self.strref(&format!("f{i}"));
                    self.out.extend([0, 0]);
                    self.count(0);
                    self.goal(arm);
                }
            }
            CodeKind::IfThenElse(_) => self.out.push(4),
            CodeKind::Neg(_) => self.out.push(5),
            CodeKind::Scope { cut, .. } => self.out.extend([6, u8::from(*cut)]),
            CodeKind::Plain { atom, .. } => self.atom(atom, None),
            CodeKind::Call { atom, callees, .. } => self.atom(atom, Some(callees[0])),
        }
        if !matches!(code.kind, CodeKind::Switch { .. }) {
            for part in code.parts() {
                self.goal(part);
            }
        }
        self.out.push(code.detism as u8);
    }

    fn atom(&mut self, atom: &AtomicGoal, callee: Option<usize>) {
        match &atom.kind {
            AtomicKind::Construct { var, cons, args } => self.unification(7, *var, cons, args),
            AtomicKind::Deconstruct { var, cons, args } => self.unification(8, *var, cons, args),
            AtomicKind::PartialConstruct { var, cons, args } => self.partial(9, *var, cons, args),
            AtomicKind::PartialDeconstruct { var, cons, args } => self.partial(10, *var, cons, args),
            AtomicKind::Assign { target, source } => self.two(11, *target, *source),
            AtomicKind::Cast { output, input } => self.two(12, *output, *input),
            AtomicKind::Test { first, second } => self.two(13, *first, *second),
            AtomicKind::Foreign { args } => {
                self.out.push(14);
                self.vars(args);
            }
            AtomicKind::HigherOrder { closure, args } => {
                self.out.push(15);
                self.var(*closure);
                self.vars(args);
            }
            AtomicKind::Method { typeclass_info, method, args } => {
                self.out.push(16);
                self.var(*typeclass_info);
                self.out.extend(method.to_be_bytes());
                self.vars(args);
            }
            AtomicKind::Call { module, name, args } => {
                let called = callee.map(|c| &self.program.procs[c].label);
                let (module, name) = match called {
                    Some(ProcLabel::Ordinary { decl_module, name, .. }) => (decl_module, name),
                    Some(ProcLabel::Special { type_module, pred_name, .. }) => (type_module, pred_name),
                    None => (module, name),
                };
                self.call(17, module, name, args);
            }
            AtomicKind::Builtin { module, name, args } => self.call(18, module, name, args),
            AtomicKind::Event { name, args } => {
                self.out.push(19);
                self.strref(name);
                self.vars(args);
            }
        }
        self.strref(&atom.file);
        self.out.extend(atom.line.to_be_bytes());
        self.vars(&atom.bound);
    }
    fn unification(&mut self, kind: u8, var: Var, cons: &str, args: &[Var]) {
        self.out.push(kind);
        self.var(var);
        self.strref(cons);
        self.vars(args);
    }
    fn partial(&mut self, kind: u8, var: Var, cons: &str, args: &[Option<Var>]) {
        self.out.push(kind);
        self.var(var);
        self.strref(cons);
        self.maybe_vars(args);
    }
    fn two(&mut self, kind: u8, first: Var, second: Var) {
        self.out.push(kind);
        self.var(first);
        self.var(second);
    }
    fn call(&mut self, kind: u8, module: &str, name: &str, args: &[Var]) {
        self.out.push(kind);
        self.strref(module);
        self.strref(name);
        self.vars(args);
    }
}
