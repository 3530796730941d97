//! Families of programs with a best parallelisation that is known or can be found by trying everything.

use super::program::{Code, Pass, Pick, Proc, Program, input, output};

/// One goal of a [`chain`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stage {
    /// Cost before its inputs are needed.
    pub lead: i64,
    /// Cost from then until its output is available. Nothing costs anything after that.
    pub work: i64,
    /// Stages (by index, earlier ones) whose outputs it needs.
    pub needs: Vec<usize>,
}

/// The variable that goal `index` of a body binds. Made-up bodies have few goals.
fn bound_by(index: usize) -> u32 {
    10 + u32::try_from(index).expect("a body with few goals")
}

/// A `main` that calls a procedure `times` times. The procedure's body is one conjunction of stages, and each stage is
/// a call of its own procedure. Stage i binds variable 10 + i; variable 1 is the input of stages without needs.
///
/// Per call a stage costs `lead + work + 3`: calls cost 1, and so do the two calls that spend the rest. It first needs
/// its inputs at `lead + 2` (one for its own call, one for that of the spender). Its output is available at its end.
pub fn chain(stages: &[Stage], times: u32) -> Program {
    let mut program = Program::new("./chain");
    let main = program.add(Proc::pred("m", "main", Vec::new(), Code::conj(Vec::new())));
    let body = program.add(Proc::pred("m", "body", Vec::new(), Code::conj(Vec::new())));
    let mut goals = Vec::new();
    for (i, stage) in stages.iter().enumerate() {
        let proc = add_stage(&mut program, &format!("stage{i}"), stage.lead, stage.work, stage.needs.len());
        let mut args: Vec<u32> = stage.needs.iter().map(|&n| bound_by(n)).collect();
        if args.is_empty() {
            args.push(1);
        }
        let out = bound_by(i);
        args.push(out);
        goals.push(Code::call(proc, &args, &[out]));
    }
    let last = bound_by(stages.len().saturating_sub(1));
    program.procs[body] = Proc {
        names: (0..stages.len()).rev().map(|i| (bound_by(i), format!("S{i}"))).collect(),
        ..Proc::pred("m", "body", vec![input(1), output(last)], Code::conj(goals))
    };
    let calls = (0..times).map(|i| Code::call(body, &[1, 100 + i], &[100 + i]));
    let goals = std::iter::once(Code::construct(1, &[])).chain(calls).collect();
    program.procs[main] = Proc::pred("m", "main", Vec::new(), Code::conj(goals));
    program
}

/// A procedure that spends `lead`, needs its inputs, spends `work` and produces its output.
fn add_stage(program: &mut Program, name: &str, lead: i64, work: i64, needs: usize) -> usize {
    let inputs: Vec<u32> = (1..).take(needs.max(1)).collect();
    let lead = program.add(Proc::builtin("lib", &format!("{name}_lead"), Vec::new(), lead + 1));
    let work = program.add(Proc::builtin("lib", &format!("{name}_work"), Vec::new(), work + 1));
    let head = inputs.iter().map(|&v| input(v)).chain([output(50)]).collect();
    let body = Code::conj(vec![
        Code::call(lead, &[], &[]),
        Code::construct(51, &inputs),
        Code::call(work, &[], &[]),
        Code::construct(50, &[51]),
    ]);
    program.add(Proc::pred("m", name, head, body))
}

/// `map([X | Xs], [Y | Ys]) :- f(X, Y), map(Xs, Ys)` over a list of `elements` elements, with an `f` of cost `cost`:
/// the call of `f` and the recursive one are independent.
pub fn map_like(elements: i64, cost: i64) -> Program {
    let mut program = Program::new("./map");
    let main = program.add(Proc::pred("m", "main", Vec::new(), Code::conj(Vec::new())));
    let f = add_stage(&mut program, "f", 0, cost, 1);
    let map = program.procs.len();
    let step = Code::conj(vec![
        Code::deconstruct(1, &[3, 4]),
        Code::call(f, &[3, 5], &[5]),
        Code::call(map, &[4, 6], &[6]).pass(Pass::Less),
        Code::construct(2, &[5, 6]),
    ]);
    let base = Code::construct(2, &[]);
    let body = Code::switch(1, false, Pick::AtMost, vec![base, step]);
    program.add(Proc {
        names: vec![(6, "Ys".into()), (5, "Y".into()), (4, "Xs".into()), (3, "X".into())],
        ..Proc::pred("m", "map", vec![input(1), output(2)], body)
    });
    let goals = vec![Code::construct(1, &[]), Code::call(map, &[1, 2], &[2]).pass(Pass::Number(elements))];
    program.procs[main] = Proc::pred("m", "main", Vec::new(), Code::conj(goals));
    program
}

/// A program of at least `procs` procedures with bodies: a tree of calls whose leaves do the work, with switches,
/// tests, recursion and conjunctions with and without dependences. The same seed gives the same program.
pub fn forest(procs: usize, seed: u64) -> Program {
    let mut random = Random(seed);
    let mut program = Program::new("./forest");
    program.add(Proc::pred("m0", "main", Vec::new(), Code::conj(Vec::new())));
    // Each procedure is called from one site; those of a level are the callees of the next.
    let mut level: Vec<usize> = Vec::new();
    let leaves = procs.div_ceil(2);
    for i in 0..leaves {
        let cost = 500 + random.below(20_000);
        let lib = program.add(Proc::builtin("lib", &format!("spin{i}"), Vec::new(), cost));
        let goals = vec![Code::call(lib, &[], &[]), Code::construct(3, &[1]), Code::construct(2, &[3])];
        let module = format!("m{}", i % 20);
        let head = vec![input(1), output(2)];
        level.push(program.add(Proc::pred(&module, &format!("leaf{i}"), head, Code::conj(goals))));
    }
    let mut made = leaves;
    let mut number = 0;
    while level.len() > 1 {
        let mut above = Vec::new();
        let mut below = level.as_slice();
        while !below.is_empty() {
            // A tree with this many leaves, twos and threes has the wanted number of procedures.
            let take = (2 + usize::from(made >= procs)).min(below.len());
            let (callees, rest) = below.split_at(take);
            below = rest;
            let module = format!("m{}", number % 20);
            let name = format!("node{number}");
            let body = node(callees, &mut random);
            let names = vec![(12, "C".to_owned()), (11, "B".to_owned()), (10, "A".to_owned())];
            let head = vec![input(1), output(2)];
            above.push(program.add(Proc { names, ..Proc::pred(&module, &name, head, body) }));
            number += 1;
            made += 1;
        }
        level = above;
    }
    let mut goals = vec![Code::construct(1, &[])];
    goals.extend(level.first().map(|&top| Code::call(top, &[1, 2], &[2]).pass(Pass::Number(6))));
    program.procs[0] = Proc::pred("m0", "main", Vec::new(), Code::conj(goals));
    program
}

/// A program of few procedures with about `contexts` call contexts: each calls the next from six sites, and most call
/// themselves, once, twice or through another. Nearly every context is a clique of its own, and every type of recursion
/// occurs.
pub fn bushy(contexts: usize) -> Program {
    const SITES: usize = 6;
    let mut program = Program::new("./bushy");
    program.add(Proc::pred("m0", "main", Vec::new(), Code::conj(Vec::new())));
    // The contexts made by a call of the last procedure.
    let (mut below, mut size) = (None, 1);
    for layer in 0.. {
        let me = program.procs.len();
        let again = |out: u32, to: usize| Code::call(to, &[1, out], &[out]).pass(Pass::Less);
        let mut goals = vec![Code::deconstruct(1, &[3, 4])];
        if let Some(callee) = below {
            let call = |i: usize| Code::call(callee, &[3, bound_by(i)], &[bound_by(i)]).pass(Pass::Number(1));
            goals.extend((0..SITES).map(call));
        }
        match layer % 4 {
            0 => goals.push(again(6, me)),
            1 => goals.extend([again(6, me), again(7, me)]),
            2 => {}
            // The other procedure calls back.
            _ => goals.push(Code::call(me + 1, &[4, 6], &[6])),
        }
        goals.push(Code::construct(2, &[3]));
        let body =
            |step| Code::switch(1, false, Pick::AtMost, vec![Code::construct(2, &[]), Code::conj(step)]);
        let (module, head) = (format!("m{}", layer % 3), vec![input(1), output(2)]);
        program.add(Proc::pred(&module, &format!("layer{layer}"), head.clone(), body(goals)));
        if layer % 4 == 3 {
            let back = vec![again(6, me), Code::construct(2, &[6])];
            program.add(Proc::pred(&module, &format!("back{layer}"), head, body(back)));
        }
        if below.is_some() {
            size *= SITES;
        }
        below = Some(me);
        if size >= contexts / SITES {
            break;
        }
    }
    let calls = (0..(contexts / size).max(1))
        .map(bound_by)
        .filter_map(|out| Some(Code::call(below?, &[1, out], &[out]).pass(Pass::Number(1))));
    let goals = std::iter::once(Code::construct(1, &[])).chain(calls).collect();
    program.procs[0] = Proc::pred("m0", "main", Vec::new(), Code::conj(goals));
    program
}

/// A body that calls each of some procedures once on each path. Input is variable 1, output variable 2.
fn node(callees: &[usize], random: &mut Random) -> Code {
    let mut goals = Vec::new();
    let (mut from, mut all) = (1, Vec::new());
    let dependent = random.below(2) == 0;
    for (i, &callee) in callees.iter().enumerate() {
        let out = bound_by(i);
        let call = Code::call(callee, &[from, out], &[out]);
        goals.push(match random.below(4) {
            0 => Code::switch(1, false, Pick::Modulo, vec![call.clone(), call]),
            1 => {
                let other = Code::construct(out, &[from]);
                Code::if_then_else(Code::test(1, super::Outcome::Positive), call, other)
            }
            2 => Code::scope(false, Code::conj(vec![Code::construct(30 + out, &[from]), call])),
            _ => call,
        });
        all.push(out);
        if dependent {
            from = out;
        }
    }
    goals.push(Code::construct(2, &all));
    Code::conj(goals)
}

/// SplitMix64.
struct Random(u64);

impl Random {
    fn below(&mut self, n: i64) -> i64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 33).cast_signed() % n.max(1)
    }
}
