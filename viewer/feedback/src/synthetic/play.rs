//! Executes a program and records it: the first use of a call edge leads to the callee's active context if there is
//! one, and otherwise to a new one.

use std::collections::HashMap;

use pct_deep::procrep::AtomicKind;
use pct_deep::strings::Strings;
use pct_deep::{
    Builder, Counts, Coverage, CsdId, Css, CssId, CssKind, DeepData, DeepError, GoalPath, GoalStep, Header,
    Id, Own, PdId, PointKind, PredOrFunc, ProcLabel, ProcStatic, PsId, Slot, StrId,
};

use super::program::{Code, CodeKind, Outcome, Pick, Program};

/// The call sites and coverage points of a procedure, by goal number in preorder.
#[derive(Default)]
struct Layout {
    size: Vec<usize>,
    slot: Vec<Option<usize>>,
    after: Vec<Option<usize>>,
    arm: Vec<Option<usize>>,
    /// Path, whether the call is through a closure, and the (first) callee.
    sites: Vec<(GoalPath, bool, usize)>,
    points: Vec<(GoalPath, PointKind)>,
}

impl Layout {
    fn lay(&mut self, code: &Code, path: &GoalPath, is_arm: bool) {
        let id = self.size.len();
        self.size.push(0);
        let arm = is_arm.then(|| self.point(path, PointKind::BranchArm));
        self.arm.push(arm);
        let slot = match &code.kind {
            CodeKind::Call { atom, callees, .. } => {
                let closure = !matches!(atom.kind, AtomicKind::Call { .. });
                self.sites.push((path.clone(), closure, callees[0]));
                Some(self.sites.len() - 1)
            }
            _ => None,
        };
        self.slot.push(slot);
        // What does not follow from other counts.
        let unknown = match &code.kind {
            CodeKind::Plain { .. } => code.detism.can_fail(),
            CodeKind::Neg(_) => true,
            CodeKind::Scope { cut, .. } => *cut,
            _ => false,
        };
        let after = unknown.then(|| self.point(path, PointKind::After));
        self.after.push(after);
        for (i, part) in code.parts().iter().enumerate() {
            let n = i64::try_from(i + 1).unwrap_or(i64::MAX);
            let (step, is_arm) = match &code.kind {
                CodeKind::Disj(_) => (GoalStep::Disj(n), true),
                CodeKind::Switch { .. } => (GoalStep::Switch { arm: n, functors: None }, true),
                CodeKind::IfThenElse(_) => ([GoalStep::Cond, GoalStep::Then, GoalStep::Else][i], i > 0),
                CodeKind::Neg(_) => (GoalStep::Neg, false),
                CodeKind::Scope { cut, .. } => (GoalStep::Scope { cut: *cut }, false),
                _ => (GoalStep::Conj(n), false),
            };
            self.lay(part, &path.with(step), is_arm);
        }
        self.size[id] = self.size.len() - id;
    }
    fn point(&mut self, path: &GoalPath, kind: PointKind) -> usize {
        self.points.push((path.clone(), kind));
        self.points.len() - 1
    }
}

struct Pd {
    /// Index of the procedure; `None`: the caller of `main`.
    proc: Option<usize>,
    slots: Vec<Vec<usize>>,
    counts: Vec<u64>,
}

struct Csd {
    callee: usize,
    own: Own,
}

struct Player<'a> {
    program: &'a Program,
    layouts: Vec<Layout>,
    pds: Vec<Pd>,
    csds: Vec<Csd>,
    edges: HashMap<(usize, usize, usize), usize>,
    active: Vec<Option<usize>>,
}

impl Player<'_> {
    fn new_pd(&mut self, proc: Option<usize>) -> usize {
        let (slots, points) = match proc {
            Some(p) => (self.layouts[p].sites.len(), self.layouts[p].points.len()),
            None => (1, 0),
        };
        self.pds.push(Pd { proc, slots: vec![Vec::new(); slots], counts: vec![0; points] });
        self.pds.len() - 1
    }

    /// Calls a procedure from a slot of a context. Returns whether it succeeds.
    fn call(&mut self, caller: usize, slot: usize, callee: usize, n: i64) -> bool {
        let csd = match self.edges.get(&(caller, slot, callee)) {
            Some(&csd) => csd,
            None => {
                let pd = match self.active[callee] {
                    Some(pd) => pd,
                    None => self.new_pd(Some(callee)),
                };
                self.csds.push(Csd { callee: pd, own: Own::default() });
                let csd = self.csds.len() - 1;
                self.pds[caller].slots[slot].push(csd);
                self.edges.insert((caller, slot, callee), csd);
                csd
            }
        };
        let pd = self.csds[csd].callee;
        let before = self.active[callee].replace(pd);
        let program = self.program;
        let proc = &program.procs[callee];
        let succeeds = match &proc.body {
            Some(code) => self.exec(callee, pd, 0, code, n),
            None => true,
        };
        self.active[callee] = before;
        let own = &mut self.csds[csd].own;
        own.callseqs += proc.cost;
        if succeeds {
            own.exits += 1;
        } else {
            own.fails += 1;
        }
        succeeds
    }

    fn count(&mut self, pd: usize, point: Option<usize>) {
        if let Some(point) = point {
            self.pds[pd].counts[point] += 1;
        }
    }

    fn exec(&mut self, proc: usize, pd: usize, id: usize, code: &Code, n: i64) -> bool {
        self.count(pd, self.layouts[proc].arm[id]);
        let mut inside = id + 1;
        let mut ids: Vec<usize> = Vec::with_capacity(code.parts().len());
        for _ in code.parts() {
            ids.push(inside);
            inside += self.layouts[proc].size[inside];
        }
        let mut run = |part: usize, code: &Code| self.exec(proc, pd, ids[part], code, n);
        let succeeds = match &code.kind {
            CodeKind::Conj(parts) => parts.iter().enumerate().all(|(i, p)| run(i, p)),
            CodeKind::Disj(parts) => parts.iter().enumerate().any(|(i, p)| run(i, p)),
            CodeKind::Switch { arms, pick, .. } => {
                let number = usize::try_from(n.max(0)).unwrap_or(0);
                let arm = match pick {
                    Pick::AtMost => number.min(arms.len() - 1),
                    Pick::Modulo => number % arms.len(),
                    Pick::Exact => number,
                };
                arms.get(arm).is_some_and(|a| run(arm, a))
            }
            CodeKind::IfThenElse(parts) => {
                if run(0, &parts[0]) {
                    run(1, &parts[1])
                } else {
                    run(2, &parts[2])
                }
            }
            CodeKind::Neg(inner) => !run(0, inner),
            CodeKind::Scope { inner, .. } => run(0, inner),
            CodeKind::Plain { outcome, .. } => match outcome {
                Outcome::Yes => true,
                Outcome::No => false,
                Outcome::Positive => n > 0,
                Outcome::Every(by) => n.checked_rem(*by) == Some(0),
            },
            CodeKind::Call { callees, pass, .. } => {
                let slot = self.layouts[proc].slot[id].expect("a call has a slot");
                let callee = callees[usize::try_from(n.max(0)).unwrap_or(0) % callees.len()];
                self.call(pd, slot, callee, pass.nth_value(n))
            }
        };
        if succeeds {
            self.count(pd, self.layouts[proc].after[id]);
        }
        succeeds
    }
}

/// Executes a program.
pub(super) fn play(program: &Program) -> Result<DeepData, DeepError> {
    let layouts: Vec<Layout> = program
        .procs
        .iter()
        .map(|proc| {
            let mut layout = Layout::default();
            if let Some(body) = &proc.body {
                layout.lay(body, &GoalPath::ROOT, false);
            }
            layout
        })
        .collect();
    let mut player = Player {
        program,
        layouts,
        pds: Vec::new(),
        csds: Vec::new(),
        edges: HashMap::new(),
        active: vec![None; program.procs.len()],
    };
    player.new_pd(None);
    player.call(0, 0, 0, 0);
    record(program, &player)
}

/// The procedure's number. The caller of `main` is the first.
fn ps(proc: usize) -> PsId {
    PsId::at(proc + 1)
}

fn record(program: &Program, player: &Player<'_>) -> Result<DeepData, DeepError> {
    let mut strings = Strings::default();
    let name = strings.intern(program.name.as_bytes()).unwrap_or(Strings::EMPTY);
    let callseqs: i64 = player.csds.iter().map(|c| c.own.callseqs).sum();
    let header = Header {
        version: 9,
        program: name,
        bytes_per_word: 8,
        canonical: true,
        coverage: Coverage::Dynamic,
        ticks_per_second: 100,
        instrument_quanta: 0,
        user_quanta: 0,
        callseqs: callseqs.unsigned_abs() & 0xffff_ffff,
        root: PdId::at(0),
    };
    let number = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    let counts = Counts {
        csd: number(player.csds.len()),
        css: number(1 + player.layouts.iter().map(|l| l.sites.len()).sum::<usize>()),
        pd: number(player.pds.len()),
        ps: number(1 + program.procs.len()),
    };
    let mut b = Builder::new(header, strings, counts)?;
    for (i, csd) in player.csds.iter().enumerate() {
        b.csd(CsdId::at(i), PdId::at(csd.callee), &csd.own)?;
    }
    for (i, pd) in player.pds.iter().enumerate() {
        let csds: Vec<Vec<CsdId>> =
            pd.slots.iter().map(|s| s.iter().rev().map(|&c| CsdId::at(c)).collect()).collect();
        let slots: Vec<Slot<'_>> = csds
            .iter()
            .enumerate()
            .map(|(slot, csds)| match pd.proc.map(|p| player.layouts[p].sites[slot].1) {
                Some(false) => Slot::Normal(csds.first().copied()),
                Some(true) => Slot::Multi { kind: pct_deep::SiteKind::HigherOrder, csds },
                None => Slot::Multi { kind: pct_deep::SiteKind::Callback, csds },
            })
            .collect();
        b.pd(PdId::at(i), pd.proc.map_or(PsId::at(0), ps), &slots, &pd.counts)?;
    }
    statics(program, player, &mut b)?;
    b.finish()
}

fn statics(program: &Program, player: &Player<'_>, b: &mut Builder) -> Result<(), DeepError> {
    let runtime = b.string(b"Mercury runtime")?;
    let path = b.path(b"")?;
    b.css(CssId::at(0), Css { kind: CssKind::Callback, file: Strings::EMPTY, line: 0, path })?;
    let root = ProcLabel::Ordinary {
        kind: PredOrFunc::Pred,
        decl_module: runtime,
        def_module: runtime,
        name: runtime,
        arity: 0,
        mode: 0,
    };
    let proc = ProcStatic { label: root, file: runtime, line: 0, in_interface: false };
    b.ps(PsId::at(0), proc, &[CssId::at(0)], &[], &[])?;
    let mut css = 1;
    for (i, (proc, layout)) in program.procs.iter().zip(&player.layouts).enumerate() {
        let mut sites = Vec::new();
        for (path, closure, callee) in &layout.sites {
            let kind = if *closure {
                CssKind::HigherOrder
            } else {
                CssKind::Normal { callee: ps(*callee), type_subst: Strings::EMPTY }
            };
            let path = b.path(path.to_string().as_bytes())?;
            b.css(CssId::at(css), Css { kind, file: Strings::EMPTY, line: 1, path })?;
            sites.push(CssId::at(css));
            css += 1;
        }
        let mut points = Vec::new();
        for (path, kind) in &layout.points {
            points.push((b.path(path.to_string().as_bytes())?, *kind));
        }
        let label = label(b, &proc.label)?;
        let file = b.string(b"made_up.m")?;
        let proc = ProcStatic { label, file, line: 1, in_interface: true };
        b.ps(ps(i), proc, &sites, &points, &[])?;
    }
    Ok(())
}

fn label(b: &mut Builder, label: &ProcLabel<String>) -> Result<ProcLabel<StrId>, DeepError> {
    let mut string = |text: &String| b.string(text.as_bytes());
    Ok(match label {
        ProcLabel::Ordinary { kind, decl_module, def_module, name, arity, mode } => ProcLabel::Ordinary {
            kind: *kind,
            decl_module: string(decl_module)?,
            def_module: string(def_module)?,
            name: string(name)?,
            arity: *arity,
            mode: *mode,
        },
        ProcLabel::Special { type_name, type_module, def_module, pred_name, arity, mode } => {
            ProcLabel::Special {
                type_name: string(type_name)?,
                type_module: string(type_module)?,
                def_module: string(def_module)?,
                pred_name: string(pred_name)?,
                arity: *arity,
                mode: *mode,
            }
        }
    })
}
