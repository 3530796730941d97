//! Cases computed by hand for each step of the analysis: costs, variables, recursion, use times, pushes, the walk.

use std::collections::BTreeSet;
use std::rc::Rc;

use crate::common::Quiet;
use pct_analysis::Bodies;
use pct_deep::procrep::{Detism, HeadVar, Inst, Var};
use pct_deep::{CsdId, GoalPath, Id, PdId, ProcLabel, Profile};
use pct_feedback::context::Context;
use pct_feedback::cost::Cost;
use pct_feedback::input::Input;
use pct_feedback::join::merge_pushes;
use pct_feedback::message::{Level, Message, MessageSubject};
use pct_feedback::recursion::{Recursion, SiteCost};
use pct_feedback::synthetic::{
    Code, Outcome, Pass, Pick, Proc, Program, Stage, chain, input, map_like, output,
};
use pct_feedback::use_times::{Caller, Finder, Stop};
use pct_feedback::variables::Use;
use pct_feedback::walk::{self, Stopped, analyse};
use pct_feedback::world::World;
use pct_feedback::{Params, Push, costs, variables};

fn name_of(profile: &Profile, pd: PdId) -> String {
    let ProcLabel::Ordinary { name, .. } = profile.label(profile.pd_ps(pd)) else { return String::new() };
    String::from_utf8_lossy(name).into_owned()
}
/// The first context of a procedure.
fn pd(profile: &Profile, name: &str) -> PdId {
    profile.pds().find(|&pd| name_of(profile, pd) == name).unwrap()
}
/// The call from one procedure to another; from outside its clique if there are several.
fn csd(profile: &Profile, from: &str, to: &str) -> CsdId {
    profile
        .csds()
        .find(|&c| {
            name_of(profile, profile.csd_caller(c)) == from && name_of(profile, profile.csd_callee(c)) == to
        })
        .unwrap()
}
fn context(world: &World<'_>, name: &str) -> Rc<Context> {
    world.context(pd(world.profile, name)).unwrap().unwrap()
}
/// The number of the goal at a path.
fn goal(c: &Context, path: &str) -> usize {
    let path: GoalPath = path.parse().unwrap();
    c.body.nodes.iter().position(|n| n.path == path).unwrap()
}

/// A program whose `body` is called `times` times in one context, with the numbers from `times` down to 1. `works` has
/// the costs of calls of `work0`, `work1` and so on.
fn driven(
    times: i64,
    works: &[i64],
    head: Vec<HeadVar>,
    body: impl Fn(&dyn Fn(usize) -> Code) -> Code,
) -> Program {
    let mut program = Program::new("./driven");
    let main = program.add(Proc::pred("m", "main", Vec::new(), Code::conj(Vec::new())));
    let again = program.add(Proc::pred("m", "again", Vec::new(), Code::conj(Vec::new())));
    let first = program.procs.len();
    for (i, &cost) in works.iter().enumerate() {
        program.add(Proc::builtin("lib", &format!("work{i}"), Vec::new(), cost));
    }
    let code = body(&|i| Code::call(first + i, &[], &[]));
    let args: Vec<u32> = head.iter().map(|h| h.var.0).collect();
    let bound: Vec<u32> = head.iter().filter(|h| h.initial == Inst::Free).map(|h| h.var.0).collect();
    let body = program.add(Proc::pred("m", "body", head, code));
    let step =
        Code::conj(vec![Code::call(body, &args, &bound), Code::call(again, &[], &[]).pass(Pass::Less)]);
    program.procs[again].body =
        Some(Code::switch(99, false, Pick::AtMost, vec![Code::construct(98, &[]), step]));
    program.procs[main].body = Some(Code::call(again, &[], &[]).pass(Pass::Number(times)));
    program
}

#[test]
fn costs_of_each_kind_of_goal() {
    // 20 calls, numbers 20 to 1.
    let program = driven(20, &[100, 10, 40, 20], vec![input(1)], |work| {
        Code::conj(vec![
            // 5 times 100: numbers that 4 divides.
            Code::if_then_else(Code::test(1, Outcome::Every(4)), work(0), Code::construct(2, &[1])),
            // 10 times 10.
            Code::switch(1, false, Pick::Modulo, vec![work(1), Code::construct(3, &[1])]),
            // 4 times 40, else 20.
            Code::disj(vec![Code::conj(vec![Code::test(1, Outcome::Every(5)), work(2)]), work(3)]),
            // Never.
            Code::if_then_else(Code::test(1, Outcome::No), work(0), Code::construct(4, &[1])),
            Code::if_then_else(
                Code::negation(Code::conj(vec![work(1), Code::test(1, Outcome::Positive)])),
                Code::construct(5, &[1]),
                Code::scope(true, work(3)),
            ),
        ])
    });
    let input = program.input().unwrap();
    let world = World::new(&input);
    let c = context(&world, "body");
    let costs = costs::of_body(&c, &vec![None; c.sites.len()], 24).unwrap();
    for (path, cost, counts) in [
        ("c1;?;", Cost::Trivial(20), (20, 5)),
        ("c1;t;", Cost::Total(5, 500.0), (5, 5)),
        ("c1;e;", Cost::Trivial(15), (15, 15)),
        ("c1;", Cost::Total(20, 500.0), (20, 20)),
        ("c2;", Cost::Total(20, 100.0), (20, 20)),
        ("c3;d1;", Cost::Total(20, 160.0), (20, 4)),
        ("c3;d2;", Cost::Total(16, 320.0), (16, 16)),
        ("c3;", Cost::Total(20, 480.0), (20, 20)),
        ("c4;t;", Cost::Total(0, 0.0), (0, 0)),
        ("c4;", Cost::Total(20, 0.0), (20, 20)),
        // The negation's inside costs 20 times 10 and always succeeds.
        ("c5;?;~;", Cost::Total(20, 200.0), (20, 20)),
        ("c5;?;", Cost::Total(20, 200.0), (20, 0)),
        ("c5;e;", Cost::Total(20, 400.0), (20, 20)),
        ("c5;", Cost::Total(20, 600.0), (20, 20)),
        ("", Cost::Total(20, 1680.0), (20, 20)),
    ] {
        let g = goal(&c, path);
        assert_eq!((c.before(g), c.after(g)), counts, "{path}");
        assert_eq!(costs.now[g], cost, "{path}");
    }
    // Above 24 per call and det: c1 costs 25, c3 24, c5 30; in c3;d1;, which is semidet, the call costs 40.
    let costly: Vec<String> = (0..c.body.nodes.len())
        .filter(|&g| costs.costly[g])
        .map(|g| c.body.nodes[g].path.to_string())
        .collect();
    assert_eq!(costly, ["", "c1;", "c1;t;", "c3;d1;c2;", "c5;"]);
    assert_eq!(c.body.nodes[goal(&c, "c3;d1;")].detism, Detism::Semidet);
}

#[test]
fn variables_of_each_kind_of_goal() {
    let program = driven(2, &[], vec![input(1), output(2)], |_| {
        Code::conj(vec![
            Code::construct(3, &[1]),
            Code::if_then_else(
                Code::test(4, Outcome::Positive),
                Code::construct(2, &[3]),
                Code::conj(vec![Code::construct(5, &[1]), Code::construct(2, &[5])]),
            ),
            Code::switch(
                6,
                false,
                Pick::Modulo,
                vec![
                    Code::conj(vec![Code::construct(7, &[]), Code::construct(8, &[7])]),
                    Code::construct(8, &[9]),
                ],
            ),
            Code::negation(Code::negation(Code::construct(10, &[11]))),
            Code::scope(false, Code::construct(12, &[13])),
            Code::disj(vec![Code::test(14, Outcome::No), Code::construct(15, &[])]),
        ])
    });
    let input = program.input().unwrap();
    let world = World::new(&input);
    let c = context(&world, "body");
    let vars = variables::of_body(&c.body);
    let set = |list: &[u32]| list.iter().copied().map(Var).collect::<BTreeSet<Var>>();
    for (path, consumed, bound) in [
        ("c1;", &[1][..], &[3][..]),
        ("c2;", &[1, 3, 4, 5], &[2]),
        ("c2;e;", &[1, 5], &[2, 5]),
        ("c3;", &[6, 7, 9], &[8]),
        ("c4;", &[11], &[]),
        ("c5;", &[13], &[12]),
        ("c6;", &[14], &[]),
        ("", &[1, 3, 4, 5, 6, 7, 9, 11, 13, 14], &[2, 3, 8, 12]),
    ] {
        let v = &vars[goal(&c, path)];
        assert_eq!((&v.consumed, &v.bound), (&set(consumed), &set(bound)), "{path}");
    }
    assert!(!variables::binds_twice(&c.body));
}

#[test]
fn binding_twice_is_seen_only_on_one_path() {
    let twice = |code: Code| {
        let program = driven(1, &[], vec![input(1), output(2)], |_| code.clone());
        let input = program.input().unwrap();
        let world = World::new(&input);
        variables::binds_twice(&context(&world, "body").body)
    };
    let two = || Code::construct(2, &[1]);
    assert!(!twice(two()));
    assert!(twice(Code::conj(vec![two(), two()])));
    assert!(twice(Code::construct(1, &[])), "an input is ground already");
    let test = || Code::test(1, Outcome::Positive);
    assert!(!twice(Code::if_then_else(test(), two(), two())));
    assert!(twice(Code::conj(vec![Code::if_then_else(test(), two(), Code::construct(3, &[])), two()])));
    assert!(!twice(Code::conj(vec![Code::negation(Code::negation(two())), two()])));
    assert!(twice(Code::negation(Code::negation(Code::conj(vec![two(), two()])))));
    assert!(!twice(Code::switch(1, false, Pick::Modulo, vec![two(), two()])));
    // An arm that never succeeds does not count.
    let mut throws = two();
    throws.detism = Detism::Erroneous;
    assert!(!twice(Code::conj(vec![
        Code::switch(1, false, Pick::Modulo, vec![Code::construct(4, &[]), Code::negation(throws)]),
        two()
    ])));
}

/// A procedure `self` that recurses according to `arms`, called once with 6.
fn recursive(arms: impl Fn(&dyn Fn() -> Code) -> Vec<Code>) -> Program {
    let mut program = Program::new("./recursive");
    let rec = || Code::call(1, &[], &[]).pass(Pass::Less);
    let body = Code::switch(9, false, Pick::AtMost, arms(&rec));
    program.add(Proc::pred("m", "main", Vec::new(), Code::call(1, &[], &[]).pass(Pass::Number(6))));
    program.add(Proc::pred("m", "self", Vec::new(), body));
    program.add(Proc::builtin("lib", "work", Vec::new(), 10));
    program
}

#[test]
fn types_of_recursion_and_costs_of_their_calls() {
    let nothing = || Code::construct(8, &[]);
    let work = || Code::call(2, &[], &[]);
    let of = |program: &Program, name: &str| {
        let input = program.input().unwrap();
        let world = World::new(&input);
        let c = context(&world, name);
        let recursion = world.recursion(c.clique).unwrap();
        let costs = recursion.site_costs(&c, recursion.interesting_depth()).unwrap();
        (Recursion::clone(&recursion), costs)
    };
    let (kind, costs) = of(&recursive(|_| vec![nothing()]), "self");
    assert_eq!((kind, costs), (Recursion::Not, Ok(vec![])));
    // 7 calls for one from outside: the base case costs nothing, the others 20 each.
    let single = recursive(|rec| vec![nothing(), Code::conj(vec![work(), rec(), work()])]);
    let (kind, costs) = of(&single, "self");
    assert_eq!(kind, Recursion::Single { base: 0.0, recursive: 20.0, depth: 7.0 });
    // 7 by 6 calls of the site is level 1: 20 and the call.
    assert_eq!(costs, Ok(vec![None, Some(SiteCost { calls: 6, each: 21.0 }), None]));
    let (kind, costs) = of(&recursive(|rec| vec![nothing(), Code::conj(vec![rec(), rec()])]), "self");
    assert_eq!(kind, Recursion::DivideAndConquer);
    assert_eq!(costs, Err("No average recursion depth for this recursion type".to_owned()));
    let other = recursive(|rec| vec![nothing(), rec(), Code::conj(vec![rec(), rec()])]);
    let (kind, costs) = of(&other, "self");
    assert_eq!(kind, Recursion::Other);
    assert_eq!(costs, Err("Could not detect recursion type".to_owned()));

    let mut mutual = recursive(|_| vec![nothing()]);
    let to = |n| Code::call(n, &[], &[]).pass(Pass::Less);
    mutual.procs[1].body = Some(Code::switch(9, false, Pick::AtMost, vec![nothing(), to(3)]));
    mutual.add(Proc::pred(
        "m",
        "other",
        Vec::new(),
        Code::switch(9, false, Pick::AtMost, vec![nothing(), to(1)]),
    ));
    let (kind, costs) = of(&mutual, "self");
    assert_eq!(kind, Recursion::Mutual(2));
    assert_eq!(costs, Err("No average recursion depth for this recursion type".to_owned()));
    let depth = Recursion::Single { base: 5.0, recursive: 2.0, depth: 9.0 }.interesting_depth();
    assert_eq!(
        (depth, Recursion::Not.interesting_depth(), kind.interesting_depth()),
        (Some(2.0), Some(0.0), None)
    );

    // The root's clique has no entry; a builtin no body.
    let input = single.input().unwrap();
    let world = World::new(&input);
    let root = world.recursion(world.profile.root_clique()).unwrap();
    assert_eq!(
        *root,
        Recursion::Errors(vec!["This clique doesn't appear to have an entry procedure".to_owned()])
    );
    let builtin = world.recursion(world.profile.pd_clique(pd(world.profile, "work"))).unwrap();
    assert_eq!(*builtin, Recursion::Errors(vec!["Cannot find procedure representation".to_owned()]));
}

/// The time at which the call of `to` by `from` uses an argument.
fn use_time(
    program: &Program,
    from: &str,
    to: &str,
    arg: usize,
    kind: Use,
    modules: bool,
) -> Result<f64, Stop> {
    let input = program.input().unwrap();
    let world = World::new(&input);
    let profile = input.profile();
    let csd = csd(profile, from, to);
    let clique = profile.pd_clique(profile.csd_caller(csd));
    let recursion = world.recursion(clique).unwrap();
    let ps = profile.pd_ps(profile.csd_caller(csd));
    let follow = (!modules).then(|| *profile.ps(ps).label.def_module());
    let caller = Caller { recursion: &recursion, depth: recursion.interesting_depth(), stack: &[] };
    let total = profile.csd_total(csd).callseqs as f64;
    Finder { world: &world, follow, kind }.call(csd, arg, caller, total / profile.csd_own(csd).calls() as f64)
}

#[test]
fn use_times_in_switches_and_conditions() {
    // 20 calls; 100 first, then by number: 50 and a use, or 30 and none.
    let program = driven(20, &[100, 50, 30], vec![input(1), output(2)], |work| {
        Code::conj(vec![
            work(0),
            Code::switch(
                7,
                false,
                Pick::Modulo,
                vec![Code::conj(vec![work(1), Code::construct(5, &[1])]), work(2)],
            ),
            Code::construct(2, &[]),
        ])
    });
    let at = |program: &Program, arg, kind| use_time(program, "again", "body", arg, kind, false);
    // Found at 150, or by default after the switch: (150 + 130) / 2 = 140. The average of 150 and 140, and 1
    // for the call.
    assert_eq!(at(&program, 0, Use::Consumption), Ok(146.0));
    // The output is there at 140.
    assert_eq!(at(&program, 1, Use::Production), Ok(141.0));

    let program = driven(20, &[50, 30], vec![input(1), output(2)], |work| {
        Code::if_then_else(
            Code::test(7, Outcome::Every(4)),
            Code::conj(vec![work(0), Code::construct(5, &[1]), Code::construct(2, &[])]),
            Code::conj(vec![work(1), Code::construct(2, &[])]),
        )
    });
    // 5 times at 50, 15 times by default right after the condition, at 0: 12.5.
    assert_eq!(at(&program, 0, Use::Consumption), Ok(13.5));
    // 5 times at 50, 15 times at 30.
    assert_eq!(at(&program, 1, Use::Production), Ok(36.0));

    // The condition itself uses it. A variable that is never used counts as used at the end of all calls.
    let program = driven(20, &[50], vec![input(1), input(3)], |work| {
        Code::if_then_else(
            Code::conj(vec![Code::test(1, Outcome::Yes), Code::test(1, Outcome::Positive)]),
            work(0),
            Code::construct(5, &[1]),
        )
    });
    assert_eq!(at(&program, 0, Use::Consumption), Ok(1.0));
    assert_eq!(at(&program, 1, Use::Consumption), Ok(20.0 * 50.0 + 1.0));
}

#[test]
fn use_times_in_disjunctions() {
    // 10 times the first disjunct fails after 40.
    let program = driven(10, &[40, 20], vec![input(1), input(3)], |work| {
        Code::disj(vec![
            Code::conj(vec![work(0), Code::test(3, Outcome::No)]),
            Code::conj(vec![work(1), Code::construct(5, &[1]), Code::construct(6, &[3])]),
        ])
    });
    // Time flows through: 40, then 20.
    assert_eq!(use_time(&program, "again", "body", 0, Use::Consumption, false), Ok(61.0));
    // In both: the first.
    assert_eq!(use_time(&program, "again", "body", 1, Use::Consumption, false), Ok(41.0));
}

#[test]
fn use_times_of_recursive_procedures() {
    let program = map_like(200, 50_000);
    let (f, rec) = (50_003.0, 50_004.0);
    // The list is switched on at once.
    assert_eq!(use_time(&program, "main", "map", 0, Use::Consumption, false), Ok(1.0));
    // The base case gives the output at once; each of 201 levels after f and a recursive call.
    assert_eq!(use_time(&program, "main", "map", 1, Use::Production, false), Ok(201.0 * (f + rec) + 1.0));
    // A recursive call is looked at one level below 2.
    assert_eq!(use_time(&program, "map", "map", 1, Use::Production, false), Ok(f + rec + 1.0));
    assert_eq!(use_time(&program, "map", "f", 1, Use::Production, false), Ok(f));
    assert_eq!(use_time(&program, "map", "f", 0, Use::Consumption, false), Ok(2.0));
    let Err(Stop::Cannot(why)) = use_time(&program, "map", "f", 7, Use::Consumption, false) else {
        panic!("there is no such argument")
    };
    assert!(why.starts_with("proc_dynamic_var_use_info: ArgNum 7 out of range for PD "), "{why}");
    assert!(matches!(
        use_time(&program, "map", "f", 0, Use::Production, false),
        Err(Stop::Abort(a)) if a.text().contains("has mode ground >> ground, where free >> ground is expected")
    ));
}

#[test]
fn calls_into_other_modules_are_followed_on_request_only() {
    let mut program = map_like(10, 5000);
    let f = program.find("f").unwrap();
    let label = Proc::builtin("elsewhere", "f", program.procs[f].head.clone(), 1).label;
    program.procs[f].label = label;
    // All ten calls together, without the calls themselves.
    let all = 10.0 * 5002.0;
    assert_eq!(use_time(&program, "map", "f", 1, Use::Production, false), Ok(all));
    assert_eq!(use_time(&program, "map", "f", 0, Use::Consumption, false), Ok(0.0));
    assert_eq!(use_time(&program, "map", "f", 1, Use::Production, true), Ok(5003.0));
    assert_eq!(use_time(&program, "map", "f", 0, Use::Consumption, true), Ok(2.0));
    // Builtins have no body: their clique's type is an error, and the answer is pessimistic.
    assert_eq!(use_time(&program, "f", "f_work", 0, Use::Consumption, true), Ok(0.0));
}

/// The analysis of a program, without its messages about `again`, which drives `body`.
fn analysed(program: &Program, params: &Params) -> walk::Outcome {
    let mut outcome = analyse(&program.input().unwrap(), params, 4, &mut Quiet::default()).unwrap();
    outcome.procs.retain(|p| !matches!(&p.label, ProcLabel::Ordinary { name, .. } if name == "again"));
    outcome
}

fn messages(program: &Program, params: &Params) -> (Vec<Message>, Vec<String>) {
    let outcome = analysed(program, params);
    let names = outcome.procs.iter().map(|p| match &p.label {
        ProcLabel::Ordinary { name, .. } => name.clone(),
        ProcLabel::Special { .. } => String::new(),
    });
    (outcome.messages, names.collect())
}
/// The texts of messages about `body` with their positions.
fn on_body(messages: &[Message]) -> Vec<(Level, String, String)> {
    let is_body = |l: &ProcLabel<String>| matches!(l, ProcLabel::Ordinary { name, .. } if name == "body");
    messages
        .iter()
        .filter_map(|m| match &m.place {
            MessageSubject::Goal(l, path) if is_body(l) => Some((m.level, path.to_string(), m.text.clone())),
            MessageSubject::Proc(l) if is_body(l) => Some((m.level, "proc".to_owned(), m.text.clone())),
            _ => None,
        })
        .collect()
}

/// Twice in 20 calls the first conjunct is expensive; the second always is.
fn pushable(then: impl Fn(Code) -> Code) -> Program {
    driven(20, &[10_000, 5000], vec![input(1)], |work| {
        Code::conj(vec![
            Code::construct(4, &[1]),
            Code::if_then_else(Code::test(1, Outcome::Every(10)), then(work(0)), Code::construct(3, &[])),
            Code::construct(5, &[4]),
            work(1),
            Code::construct(6, &[5]),
        ])
    })
}

#[test]
fn a_costly_goal_is_pushed_next_to_one_deep_inside() {
    type Wrap = fn(Code) -> Code;
    let cases: [(Wrap, &str, &str, usize); 5] = [
        // Next to a goal by itself, and at the end of a conjunction: there a goal before it counts as before.
        (|g| g, "c2;t;", "c2;t;", 0),
        (|g| Code::conj(vec![Code::construct(7, &[]), g]), "c2;t;", "c2;t;", 1),
        (
            |g| Code::scope(false, Code::switch(1, false, Pick::Modulo, vec![g])),
            "c2;t;q;s1-na;",
            "c2;t;q;s1-na;",
            0,
        ),
        // At the end of a conjunction it goes further in; else that conjunction gets longer.
        (
            |g| Code::conj(vec![Code::scope(false, Code::conj(vec![g, Code::construct(7, &[])]))]),
            "c2;t;c1;q;",
            "c2;t;c1;q;",
            0,
        ),
        (|g| Code::conj(vec![Code::scope(false, g), Code::construct(7, &[])]), "c2;t;", "c2;t;c1;q;", 0),
    ];
    for (then, path, target, goals_before) in cases {
        let program = pushable(then);
        let outcome = analysed(&program, &Params::default());
        let [proc] = outcome.procs.as_slice() else { panic!("{path}: {:?}", outcome.messages) };
        let [c] = proc.found.candidates.as_slice() else { panic!("{path}: one candidate") };
        assert_eq!(c.path.to_string(), path);
        assert_eq!(c.before.len(), goals_before, "{path}");
        // Conjuncts 3 and 4 move; both goals are executed twice here.
        let single = c.conjuncts[0][0].cost;
        assert_eq!(
            (c.metrics.calls, single, c.conjuncts.last().unwrap().last().unwrap().cost),
            (2, 10_000.0, 5000.0)
        );
        assert_eq!(c.metrics.seq_time, 15_000.0);
        let push = c.push.clone().unwrap();
        assert_eq!((push.path.to_string(), push.lo, push.hi), (String::new(), 3, 4));
        assert_eq!(push.targets, [target.parse().unwrap()]);
        assert_eq!(proc.found.pushes, [push]);
        assert_eq!(
            on_body(&outcome.messages),
            [
                (Level::Info, String::new(), "Found pushed conjuncts above callsite threshold".to_owned()),
                (
                    Level::Info,
                    String::new(),
                    "Found 1 conjunctions with a positive speedup due to parallelisation".to_owned()
                ),
            ]
        );
    }
}

#[test]
fn what_may_fail_is_not_pushed_and_the_reason_is_told() {
    // The second is not costly by itself, because it may fail, but it would be if it were executed as often as the
    // first's inside.
    let program = driven(20, &[10_000, 5000], vec![input(1)], |work| {
        let body = Code::conj(vec![
            Code::if_then_else(Code::test(1, Outcome::Every(10)), work(0), Code::construct(3, &[])),
            Code::conj(vec![work(1), Code::test(1, Outcome::Positive)]),
        ]);
        Code::if_then_else(body, Code::construct(8, &[]), Code::construct(8, &[]))
    });
    let (said, found) = messages(&program, &Params::default());
    assert!(found.is_empty());
    assert_eq!(
        on_body(&said),
        [
            (Level::Info, "?;".to_owned(), "Found pushed conjuncts above callsite threshold".to_owned()),
            (
                Level::Notice,
                "?;".to_owned(),
                "There are semidet_rep goals amongst goals above the parallelisation overhead.".to_owned()
            ),
        ]
    );
}

#[test]
fn candidates_of_bodies_that_bind_twice_are_dropped() {
    let program = driven(1, &[9000, 9000], vec![input(1)], |work| {
        let twice = Code::conj(vec![Code::construct(5, &[]), Code::construct(5, &[])]);
        let branch = Code::if_then_else(Code::test(1, Outcome::Yes), twice, Code::construct(6, &[]));
        Code::conj(vec![work(0), work(1), branch])
    });
    let (said, found) = messages(&program, &Params::default());
    assert!(found.is_empty());
    let last = on_body(&said).pop().unwrap();
    let text = "1 conjunctions not parallelised: Seen duplicate instantiations";
    assert_eq!(last, (Level::Notice, "proc".to_owned(), text.to_owned()));

    // In the conjunction that is tried itself it is a contradiction.
    let program = driven(1, &[9000, 9000], vec![input(1)], |work| {
        Code::conj(vec![work(0), Code::construct(5, &[]), work(1), Code::construct(5, &[])])
    });
    let stopped =
        analyse(&program.input().unwrap(), &Params::default(), 4, &mut Quiet::default()).unwrap_err();
    let Stopped { context: Some((_, name)), text } = stopped else { panic!("in a context") };
    assert_eq!(
        (name.as_str(), text.as_str()),
        ("m.body/1-0", "variable 5 is bound by two goals of a conjunction")
    );
}

#[test]
fn conditions_with_several_solutions_leave_a_body_without_candidates() {
    // The branches' calls do not add up to the condition's. That is reported, and everything else goes on.
    let mut program = driven(4, &[9000, 9000], vec![input(1)], |work| Code::conj(vec![work(0), work(1)]));
    let body = program.find("body").unwrap();
    let good = program.procs[body].body.clone().unwrap();
    let (_, found) = messages(&program, &Params::default());
    assert_eq!(found, ["body"]);
    // A disjunction that is said to have many solutions, without redos: its costs are summed.
    let mut many = Code::disj(vec![Code::construct(5, &[]), Code::construct(6, &[])]);
    many.detism = Detism::Nondet;
    program.procs[body].body = Some(Code::conj(vec![good, many]));
    let (said, found) = messages(&program, &Params::default());
    assert_eq!(found, ["body"]);
    assert!(said.iter().all(|m| m.text != "Cannot lookup coverage points"));
}

#[test]
fn a_conjunction_inside_counts_as_fast_as_it_becomes() {
    // Inside: 20,000 and 20,000 become 22,000 (one sparking delay, one wake-up). With 15,000 after it: the outer
    // conjunction runs 22,000 beside 15,000.
    let program = driven(1, &[20_000, 20_000, 15_000], vec![input(1)], |work| {
        Code::conj(vec![Code::scope(false, Code::conj(vec![work(0), work(1)])), work(2)])
    });
    let outcome = analysed(&program, &Params::default());
    let [proc] = outcome.procs.as_slice() else { panic!("one procedure") };
    let paths: Vec<String> = proc.found.candidates.iter().map(|c| c.path.to_string()).collect();
    // The outer one is found later, but comes first.
    assert_eq!(paths, ["", "c1;q;"]);
    let (outer, inner) = (&proc.found.candidates[0], &proc.found.candidates[1]);
    assert_eq!((inner.metrics.seq_time, inner.metrics.par_time), (40_000.0, 22_000.0));
    assert_eq!((outer.metrics.seq_time, outer.metrics.par_time), (37_000.0, 22_000.0));
    let scope = &outer.conjuncts[0][0];
    assert_eq!(scope.cost, 22_000.0);
}

#[test]
fn enough_parallelism_ends_the_walk() {
    // The body has one candidate of three goals; each stage has one of its own.
    let stage = || Stage { lead: 9000, work: 9000, needs: Vec::new() };
    let program = chain(&[stage(), stage(), stage()], 1);
    let with = |desired| messages(&program, &Params { desired, ..Params::default() }).1;
    assert_eq!(with(8.0), ["body", "stage0", "stage1", "stage2"]);
    // Calls of the second and third goal are executed about twice as parallel; the first is not counted.
    assert_eq!(with(1.5), ["body", "stage0"]);
}

#[test]
fn pushes_of_one_conjunction_become_one() {
    let push = |path: &str, lo, hi, targets: &[&str]| Push {
        path: path.parse().unwrap(),
        lo,
        hi,
        targets: targets.iter().map(|t| t.parse().unwrap()).collect(),
    };
    let merged = merge_pushes(&[
        &[push("c1;", 2, 3, &["c1;t;"]), push("c2;", 1, 2, &["c1;e;"])],
        &[push("c1;", 2, 3, &["c1;e;", "c1;t;"]), push("c2;", 1, 3, &["c1;t;"]), push("", 4, 4, &["c1;"])],
    ]);
    assert_eq!(
        merged,
        [
            // Pushes with other bounds than the first's are left out.
            push("c2;", 1, 2, &["c1;e;"]),
            push("c1;", 2, 3, &["c1;e;", "c1;t;"]),
            push("", 4, 4, &["c1;"]),
        ]
    );
    assert!(merge_pushes(&[]).is_empty());
}

#[test]
fn without_counts_of_contexts_it_is_said() {
    let program = map_like(5, 5000);
    let data = program.data().unwrap();
    // The same profile without coverage.
    let header = pct_deep::Header { coverage: pct_deep::Coverage::None, ..data.header().clone() };
    let mut b = pct_deep::Builder::new(
        header,
        data.strings().clone(),
        pct_deep::Counts {
            csd: data.csd_count() as u32,
            css: data.css_count() as u32,
            pd: data.pd_count() as u32,
            ps: data.ps_count() as u32,
        },
    )
    .unwrap();
    for csd in data.csds() {
        b.csd(csd, data.csd_callee(csd), &data.csd_own(csd)).unwrap();
    }
    for pd in data.pds() {
        let slots: Vec<_> = data.slots(pd).collect();
        b.pd(pd, data.pd_ps(pd), &slots, &[]).unwrap();
    }
    for css in data.csss() {
        b.css(css, data.css(css).clone()).unwrap();
    }
    for ps in data.pss() {
        let p = data.ps(ps);
        let proc = pct_deep::ProcStatic {
            label: p.label.clone(),
            file: p.file,
            line: p.line,
            in_interface: p.in_interface,
        };
        b.ps(ps, proc, data.sites(ps), &[], &[]).unwrap();
    }
    let profile = Profile::new(b.finish().unwrap(), pct_deep::Compensation::Exact).unwrap();
    let input = Input::new(profile, pct_deep::ProcRep::new(program.rep()).unwrap());
    let outcome = analyse(&input, &Params::default(), 1, &mut Quiet::default()).unwrap();
    assert!(outcome.procs.is_empty());
    assert!(!outcome.messages.is_empty());
    assert!(
        outcome
            .messages
            .iter()
            .all(|m| { (m.level, m.text.as_str()) == (Level::Error, "Cannot lookup coverage points") })
    );
    assert_eq!(CsdId::at(0).number(), 1);
}
