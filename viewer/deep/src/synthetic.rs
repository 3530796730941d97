//! Synthetic profiles of any size and shape, for tests and benches.
//!
//! A program of random procedures is made up, and its calls are recorded as the Mercury run-time system would: the
//! first use of a call edge leads to the callee's active context if there is one that the recursion check sees, or else
//! to a new context. A call through a closure or a method hides its caller's context from that check while it lasts. So
//! the results have recursion, cliques, nested new occurrences and shared procedures like real ones, and ids are
//! assigned in the same order.
//!
//! The same parameters always give the same profile.

use crate::builder::{Builder, Counts, ProcStatic};
use crate::error::DeepError;
use crate::figures::Own;
use crate::id::{CsdId, CssId, Id, PdId, PsId};
use crate::label::{PredOrFunc, ProcLabel};
use crate::model::{Coverage, Css, CssKind, DeepData, Header, PathId, PointKind, SiteKind, Slot};
use crate::small::small;
use crate::strings::Strings;
use crate::write::Version;

/// The shape of the call tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Bushy, some ten to hundred calls deep, like real programs.
    Mixed,
    /// One path through closures, as long as the profile is large.
    Deep,
    /// Nearly all contexts directly below few others.
    Wide,
    /// Most calls go back to active contexts, which gives few large cliques.
    Recursive,
    /// Most calls go through closures: the same few procedures again and again, in new contexts.
    Closures,
}

impl Shape {
    /// All shapes.
    pub const ALL: [Self; 5] = [Self::Mixed, Self::Deep, Self::Wide, Self::Recursive, Self::Closures];
}

/// Parameters of a profile.
#[derive(Clone, Debug)]
pub struct Params {
    /// Different seeds give different profiles.
    pub seed: u64,
    /// Number of the run. Other numbers give other profiles of the same procedures and call sites.
    pub run: u64,
    /// The shape of the call tree.
    pub shape: Shape,
    /// Approximate number of contexts; at least 1. The root and similar ones are added.
    pub contexts: u32,
    /// How many procedures; at least 1.
    pub procs: u32,
    /// Which coverage counts.
    pub coverage: Coverage,
    /// The version in the header. In version 8 call sites name no files.
    pub version: Version,
}

impl Default for Params {
    fn default() -> Self {
        Self {
            seed: 1,
            run: 0,
            shape: Shape::Mixed,
            contexts: 1000,
            procs: 100,
            coverage: Coverage::Dynamic,
            version: Version::V9,
        }
    }
}

/// A small fast generator (SplitMix64), good enough for shapes and the same everywhere.
#[derive(Clone, Debug)]
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
    /// A number below `n`, which must not be 0.
    fn below(&mut self, n: u32) -> u32 {
        (((self.next() >> 32) * u64::from(n)) >> 32) as u32
    }
    fn chance(&mut self, percent: u32) -> bool {
        self.below(100) < percent
    }
}

struct Site {
    kind: SiteKind,
    /// For a normal site its callee. Other sites choose each time.
    callee: u32,
}

struct Proc {
    sites: Vec<Site>,
    points: u32,
}

struct Program {
    /// The first is the root's.
    procs: Vec<Proc>,
    css: u32,
}

fn make_program(params: &Params) -> Program {
    let mut random = Random(params.seed ^ 0x70c5);
    let count = params.procs.max(1);
    let mut procs = vec![Proc { sites: vec![Site { kind: SiteKind::Callback, callee: 1 }], points: 0 }];
    let closures = match params.shape {
        Shape::Deep | Shape::Closures => 60,
        _ => 8,
    };
    for _ in 0..count {
        let sites = match params.shape {
            Shape::Wide => 10 + random.below(30),
            _ => random.below(7),
        };
        let mut sites: Vec<Site> = (0..sites)
            .map(|_| {
                let kind = match random.below(100) {
                    n if n < closures => {
                        if n % 4 == 0 {
                            SiteKind::Method
                        } else {
                            SiteKind::HigherOrder
                        }
                    }
                    n if n < closures + 4 => SiteKind::Special,
                    n if n < closures + 5 => SiteKind::Callback,
                    _ => SiteKind::Normal,
                };
                Site { kind, callee: 1 + random.below(count) }
            })
            .collect();
        // The last call site can call any procedure, and gets what is left of the budget.
        let kind = match params.shape {
            Shape::Deep | Shape::Closures => SiteKind::HigherOrder,
            Shape::Recursive if random.chance(50) => SiteKind::HigherOrder,
            _ if random.chance(10) => SiteKind::HigherOrder,
            _ => SiteKind::Special,
        };
        sites.push(Site { kind, callee: 1 });
        procs.push(Proc { sites, points: random.below(4) });
    }
    let css = procs.iter().map(|p| small(p.sites.len())).sum();
    Program { procs, css }
}

/// Receives the dynamic part of a profile.
trait Sink {
    fn pd(&mut self, pd: PdId, ps: PsId, slots: &[Slot<'_>], counts: &[u64]) -> Result<(), DeepError>;
    fn csd(&mut self, csd: CsdId, callee: PdId, own: &Own) -> Result<(), DeepError>;
}

impl Sink for Builder {
    fn pd(&mut self, pd: PdId, ps: PsId, slots: &[Slot<'_>], counts: &[u64]) -> Result<(), DeepError> {
        Builder::pd(self, pd, ps, slots, counts)
    }
    fn csd(&mut self, csd: CsdId, callee: PdId, own: &Own) -> Result<(), DeepError> {
        Builder::csd(self, csd, callee, own)
    }
}

#[derive(Default)]
struct Counter {
    csds: u32,
    pds: u32,
    callseqs: u64,
    quanta: u64,
}

impl Sink for Counter {
    fn pd(&mut self, _: PdId, _: PsId, _: &[Slot<'_>], _: &[u64]) -> Result<(), DeepError> {
        self.pds += 1;
        Ok(())
    }
    fn csd(&mut self, _: CsdId, _: PdId, own: &Own) -> Result<(), DeepError> {
        self.csds += 1;
        self.callseqs += own.callseqs.unsigned_abs();
        self.quanta += own.quanta.unsigned_abs();
        Ok(())
    }
}

struct Call {
    csd: CsdId,
    callee: u32,
    hides: bool,
    /// Number of new contexts that may be made at and below the callee.
    budget: u32,
}

enum Task {
    /// Makes the call of a context.
    Call { caller: u32, caller_pd: PdId, call: Call },
    /// Restores a procedure's active context.
    Restore { proc: u32, active: Option<PdId> },
}

struct Player<'a, S> {
    params: &'a Params,
    program: &'a Program,
    random: Random,
    sink: &'a mut S,
    /// By procedure: its context that the recursion check sees.
    active: Vec<Option<PdId>>,
    last_pd: u32,
    last_csd: u32,
    tasks: Vec<Task>,
    calls: Vec<Call>,
}

fn play<S: Sink>(params: &Params, program: &Program, sink: &mut S) -> Result<(), DeepError> {
    let mut player = Player {
        params,
        program,
        random: Random(params.seed ^ params.run.wrapping_mul(0xd6e8_feb8_6659_fd93)),
        sink,
        active: vec![None; program.procs.len()],
        last_pd: 0,
        last_csd: 0,
        tasks: Vec::new(),
        calls: Vec::new(),
    };
    player.enter(0, params.contexts.max(1))?;
    while let Some(task) = player.tasks.pop() {
        match task {
            Task::Restore { proc, active } => player.active[proc as usize] = active,
            Task::Call { caller, caller_pd, call } => player.call(caller, caller_pd, &call)?,
        }
    }
    Ok(())
}

impl<S: Sink> Player<'_, S> {
    fn call(&mut self, caller: u32, caller_pd: PdId, call: &Call) -> Result<(), DeepError> {
        // It is active again from here on, also after a sibling's subtree.
        self.active[caller as usize] = if call.hides { None } else { Some(caller_pd) };
        let own = self.figures();
        match self.active[call.callee as usize] {
            Some(pd) => self.sink.csd(call.csd, pd, &own),
            None => {
                let pd = PdId::at(self.last_pd as usize);
                self.sink.csd(call.csd, pd, &own)?;
                let before = self.active[call.callee as usize];
                self.tasks.push(Task::Restore { proc: call.callee, active: before });
                self.enter(call.callee, call.budget).map(|_| ())
            }
        }
    }

    fn figures(&mut self) -> Own {
        let random = &mut self.random;
        let exits =
            1 + if random.chance(20) { i64::from(random.below(5000)) } else { i64::from(random.below(9)) };
        let fails = if random.chance(15) { i64::from(random.below(20)) } else { 0 };
        let redos = if random.chance(3) { i64::from(random.below(3)).min(exits) } else { 0 };
        let excps = i64::from(random.chance(1));
        let allocs = if random.chance(30) { i64::from(random.below(100)) } else { 0 };
        Own {
            exits,
            fails,
            redos,
            excps,
            quanta: i64::from(random.chance(4)),
            callseqs: exits + fails + excps - redos,
            allocs,
            words: allocs * i64::from(1 + random.below(4)),
        }
    }

    /// Makes a context of a procedure, and with its descendants at most `budget` contexts.
    fn enter(&mut self, proc: u32, budget: u32) -> Result<PdId, DeepError> {
        let pd = PdId::at(self.last_pd as usize);
        self.last_pd += 1;
        let program = self.program;
        let this = &program.procs[proc as usize];
        let mut left = budget.saturating_sub(1);

        // Decides which calls are made, and to which procedures.
        self.calls.clear();
        let mut slots: Vec<(SiteKind, Vec<CsdId>)> = Vec::with_capacity(this.sites.len());
        let last = this.sites.len().saturating_sub(1);
        for (i, site) in this.sites.iter().enumerate() {
            let mut csds = Vec::new();
            let share = self.share(left, i == last);
            let wanted = match site.kind {
                SiteKind::Normal => u32::from(self.random.chance(60) || share > 0),
                _ if self.params.shape == Shape::Deep => 1,
                _ if proc == 0 => 5.min(budget),
                _ => {
                    if share > 0 || self.random.chance(30) {
                        1 + self.random.below(3)
                    } else {
                        0
                    }
                }
            };
            let first = self.calls.len();
            for n in 0..wanted {
                let hides = site.kind.is_zeroing();
                let (callee, visible) = self.callee(proc, site);
                // A new context needs budget, and a callee occurs once in a slot.
                if self.calls[first..].iter().any(|c| c.callee == callee) || (!visible && left == 0) {
                    continue;
                }
                let budget = if visible {
                    0
                } else {
                    let b = if n + 1 == wanted { share.max(1) } else { (share / wanted).max(1) }.min(left);
                    left -= b;
                    b
                };
                let csd = CsdId::at(self.last_csd as usize);
                self.last_csd += 1;
                csds.push(csd);
                self.calls.push(Call { csd, callee, hides, budget });
            }
            // Files list the most recently created first, and number edges in the order of the file. Every other
            // profile numbers them as they were made, because ids may come in any order.
            if self.params.seed.is_multiple_of(2) {
                csds.reverse();
            }
            slots.push((site.kind, csds));
        }
        let counts: Vec<u64> = match self.params.coverage {
            Coverage::Dynamic => (0..this.points).map(|_| u64::from(self.random.below(300))).collect(),
            _ => Vec::new(),
        };
        let slots: Vec<Slot<'_>> = slots
            .iter()
            .map(|(kind, csds)| match kind {
                SiteKind::Normal => Slot::Normal(csds.first().copied()),
                &kind => Slot::Multi { kind, csds },
            })
            .collect();
        self.sink.pd(pd, PsId::at(proc as usize), &slots, &counts)?;

        self.active[proc as usize] = Some(pd);
        for call in self.calls.drain(..).rev() {
            self.tasks.push(Task::Call { caller: proc, caller_pd: pd, call });
        }
        Ok(pd)
    }

    /// The part of the budget for one call site.
    fn share(&mut self, left: u32, last: bool) -> u32 {
        match self.params.shape {
            _ if left == 0 => 0,
            _ if last => left,
            Shape::Deep => 0,
            Shape::Wide => (left / 16).clamp(1, 64),
            Shape::Mixed | Shape::Recursive | Shape::Closures => {
                self.random.below(left.saturating_mul(4) / 5 + 1)
            }
        }
    }

    /// The procedure that a call site of `proc` calls this time, and whether that has an active context that the
    /// recursion check sees. Sites that can call any procedure try to find one that it does not see.
    fn callee(&mut self, proc: u32, site: &Site) -> (u32, bool) {
        let count = small(self.program.procs.len()) - 1;
        let sees = |player: &Self, callee: u32| {
            if callee == proc { !site.kind.is_zeroing() } else { player.active[callee as usize].is_some() }
        };
        if site.kind == SiteKind::Normal {
            let callee = normal_callee(self.params, self.program, site);
            return (callee, sees(self, callee));
        }
        let mut callee = 1;
        for _ in 0..8 {
            callee = match self.params.shape {
                Shape::Deep => 1,
                Shape::Closures => 1 + self.random.below(count.min(5)),
                _ => 1 + self.random.below(count),
            };
            if !sees(self, callee) {
                return (callee, false);
            }
        }
        (callee, sees(self, callee))
    }
}

/// Makes a profile.
///
/// # Errors
/// `too_large`: more than the tables can hold.
pub fn generate(params: &Params) -> Result<DeepData, DeepError> {
    let program = make_program(params);
    let mut counter = Counter::default();
    play(params, &program, &mut counter)?;

    let mut strings = Strings::default();
    let name = strings.intern(b"./synthetic").unwrap_or(Strings::EMPTY);
    let header = Header {
        version: params.version.number(),
        program: name,
        bytes_per_word: 8,
        canonical: true,
        coverage: params.coverage,
        ticks_per_second: 100,
        instrument_quanta: counter.quanta / 2,
        user_quanta: counter.quanta,
        callseqs: counter.callseqs & 0xffff_ffff,
        root: PdId::at(0),
    };
    let counts =
        Counts { csd: counter.csds, css: program.css, pd: counter.pds, ps: small(program.procs.len()) };
    let mut builder = Builder::new(header, strings, counts)?;
    play(params, &program, &mut builder)?;
    statics(params, &program, &mut builder)?;
    builder.finish()
}

fn statics(params: &Params, program: &Program, builder: &mut Builder) -> Result<(), DeepError> {
    let mut random = Random(params.seed ^ 0x57a7);
    let mut css = 0;
    for (n, proc) in program.procs.iter().enumerate() {
        let ps = PsId::at(n);
        let module = format!("mod{}", n % 20);
        let (label, file) = if n == 0 {
            let name = builder.string(b"Mercury runtime")?;
            let label = ProcLabel::Ordinary {
                kind: PredOrFunc::Pred,
                decl_module: name,
                def_module: name,
                name,
                arity: 0,
                mode: 0,
            };
            (label, name)
        } else {
            let module_id = builder.string(module.as_bytes())?;
            let file = builder.string(format!("{module}.m").as_bytes())?;
            (proc_label(builder, n, module_id)?, file)
        };
        let mut sites = Vec::new();
        for (slot, site) in proc.sites.iter().enumerate() {
            let id = CssId::at(css);
            css += 1;
            let kind = match site.kind {
                SiteKind::Normal => CssKind::Normal {
                    callee: PsId::at(normal_callee(params, program, site) as usize),
                    type_subst: builder.string(if random.chance(10) { b"T = int" } else { b"" })?,
                },
                SiteKind::Special => CssKind::Special,
                SiteKind::HigherOrder => CssKind::HigherOrder,
                SiteKind::Method => CssKind::Method,
                SiteKind::Callback => CssKind::Callback,
            };
            let file = if params.version == Version::V9 && random.chance(5) {
                builder.string(b"included.m")?
            } else {
                Strings::EMPTY
            };
            let path = if n == 0 { String::new() } else { format!("c{};s1-2;", slot + 1) };
            let path = builder.path(path.as_bytes())?;
            builder.css(id, Css { kind, file, line: 10 + random.below(5000), path })?;
            sites.push(id);
        }
        let mut points: Vec<(PathId, PointKind)> = Vec::new();
        let mut counts = Vec::new();
        if params.coverage != Coverage::None {
            for point in 0..proc.points {
                let path = builder.path(format!("c{};", point + 1).as_bytes())?;
                points.push((path, if point % 2 == 0 { PointKind::After } else { PointKind::BranchArm }));
                counts.push(u64::from(random.below(1000)));
            }
        }
        let proc = ProcStatic { label, file, line: 1 + random.below(5000), in_interface: random.chance(30) };
        builder.ps(ps, proc, &sites, &points, &counts)?;
    }
    Ok(())
}

/// The callee of a normal site.
fn normal_callee(params: &Params, program: &Program, site: &Site) -> u32 {
    let count = small(program.procs.len()) - 1;
    if params.shape == Shape::Recursive { 1 + (site.callee - 1) % count.min(40) } else { site.callee }
}

fn proc_label(
    builder: &mut Builder,
    n: usize,
    module: crate::StrId,
) -> Result<ProcLabel<crate::StrId>, DeepError> {
    let mode = small(n) % 3;
    if n % 11 == 10 {
        return Ok(ProcLabel::Special {
            type_name: builder.string(format!("type{n}").as_bytes())?,
            type_module: module,
            def_module: module,
            pred_name: builder.string(if n.is_multiple_of(2) { b"__Unify__" } else { b"__Compare__" })?,
            arity: small(n) % 4,
            mode,
        });
    }
    let name = match n % 7 {
        5 => format!("IntroducedFrom__pred__proc{}__{n}__1", n - 1),
        6 => format!("TypeSpecOf__pred__proc{n}__[T = int]_0"),
        3 => format!("rec{}_get_field{n}", n % 5),
        _ => format!("proc{n}"),
    };
    Ok(ProcLabel::Ordinary {
        kind: if n % 4 == 3 { PredOrFunc::Func } else { PredOrFunc::Pred },
        decl_module: module,
        def_module: module,
        name: builder.string(name.as_bytes())?,
        arity: 1 + small(n) % 5,
        mode,
    })
}
