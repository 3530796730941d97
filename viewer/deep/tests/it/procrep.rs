//! The program representation of the real sample, and small ones written by hand.

use std::collections::BTreeMap;

use crate::common::sample;
use pct_deep::procrep::{AtomicKind, GoalKind, Var};
use pct_deep::{Compensation, ErrorCode, GoalPath, ProcRep, SiteKind};

const COMPONENT_GRADIENT: &str = "\
det pred mandelbrot.component_gradient/4-0(Start::(ground >> ground), End::(ground >> ground), V::(ground >> ground), Result::(free >> ground)) :-
  % conjunction: root goal
  % conjunction: det

  % c1;
  % det
  float.float(Start, StartF)
  ,
  % c2;
  % det
  float.float(End, EndF)
  ,
  % c3;
  % det
  builtin float.-(EndF, StartF, V_9)
  ,
  % c4;
  % det
  builtin float.*(V, V_9, V_8)
  ,
  % c5;
  % det
  builtin float.+(StartF, V_8, V_7)
  ,
  % c6;
  % det
  float.round_to_int(V_7, Result)

";

#[test]
fn the_sample_decodes_whole() {
    let Some(file) = sample("Deep.procrep") else { return };
    let rep = ProcRep::open(&file).unwrap();
    assert_eq!((rep.version(), rep.modules().len(), rep.procs().len()), (5, 118, 8490));
    let in_file_order: Vec<String> = rep.modules().take(3).map(|m| rep.module_name(m).into_owned()).collect();
    assert_eq!(in_file_order, ["mandelbrot", "array", "array2d"]);
    let sizes: Vec<usize> = rep.modules().take(3).map(|m| rep.module_procs(m).len()).collect();
    assert_eq!(sizes, [28, 269, 16]);

    let mut kinds: BTreeMap<&str, usize> = BTreeMap::new();
    let mut named = 0;
    for proc in rep.procs() {
        let body = rep.procedure(proc).unwrap();
        named += body.vars.len();
        body.body.walk(&GoalPath::ROOT, &mut |_, goal| {
            let kind = match &goal.kind {
                GoalKind::Conj(_) => "conj",
                GoalKind::Disj(_) => "disj",
                GoalKind::Switch { .. } => "switch",
                GoalKind::IfThenElse(_) => "if-then-else",
                GoalKind::Neg(_) => "negation",
                GoalKind::Scope { .. } => "scope",
                GoalKind::Atomic(a) => match &a.kind {
                    AtomicKind::Construct { .. } | AtomicKind::PartialConstruct { .. } => "construct",
                    AtomicKind::Deconstruct { .. } | AtomicKind::PartialDeconstruct { .. } => "deconstruct",
                    AtomicKind::Assign { .. } => "assign",
                    AtomicKind::Cast { .. } => "cast",
                    AtomicKind::Test { .. } => "test",
                    AtomicKind::Foreign { .. } => "foreign",
                    AtomicKind::HigherOrder { .. } => "higher order",
                    AtomicKind::Method { .. } => "method",
                    AtomicKind::Call { .. } => "call",
                    AtomicKind::Builtin { .. } => "builtin",
                    AtomicKind::Event { .. } => "event",
                },
            };
            *kinds.entry(kind).or_default() += 1;
        });
    }
    let wanted = [
        ("conj", 18189),
        ("disj", 186),
        ("switch", 3985),
        ("if-then-else", 5220),
        ("negation", 463),
        ("scope", 196),
        ("construct", 26158),
        ("deconstruct", 10535),
        ("assign", 5803),
        ("cast", 1746),
        ("test", 1530),
        ("foreign", 3625),
        ("higher order", 2252),
        ("method", 687),
        ("call", 18925),
        ("builtin", 5284),
    ];
    assert_eq!(kinds, BTreeMap::from(wanted));
    assert_eq!(kinds.values().sum::<usize>(), 104_784);
    assert_eq!(named, 41078);
}

#[test]
fn the_first_procedures_of_the_sample_read_as_known() {
    let Some(file) = sample("Deep.procrep") else { return };
    let rep = ProcRep::open(&file).unwrap();
    let mandelbrot = rep.module("mandelbrot").unwrap();
    let text = rep.module_text(mandelbrot).unwrap();
    assert!(text.starts_with(&format!("Module mandelbrot\n{COMPONENT_GRADIENT}")), "{}", &text[..2000]);

    let main = rep.procedure(rep.procs().next().unwrap()).unwrap();
    assert_eq!((main.file.as_str(), main.vars.len(), main.head.len()), ("mandelbrot.m", 20, 2));
    assert_eq!(main.var_name(Var(53)), "DimY");
    assert_eq!(main.var_name(Var(1)), "Args");
    let GoalKind::Conj(goals) = &main.body.kind else { panic!("main is a conjunction") };
    assert_eq!(goals.len(), 9);
    let GoalKind::Atomic(call) = &goals[0].kind else { panic!("it begins with a call") };
    assert_eq!((call.line, call.bound.as_slice()), (25, [Var(1), Var(16)].as_slice()));
    let wanted = AtomicKind::Call {
        module: "io".into(),
        name: "command_line_arguments".into(),
        args: vec![Var(1), Var(14), Var(16)],
    };
    assert_eq!(call.kind, wanted);
}

#[test]
fn procedures_of_the_profile_are_found_by_their_labels() {
    let (Some(data), Some(rep)) = (sample("Deep.data"), sample("Deep.procrep")) else { return };
    let mut profile = pct_deep::open(&data, Compensation::Exact).unwrap();
    let rep = ProcRep::open(&rep).unwrap();
    let called = profile.pss().filter(|&ps| !profile.ps_pds(ps).is_empty());
    let (mut found, mut paths) = (0, 0);
    for ps in called {
        let Some(proc) = rep.find(&profile.label(ps)) else { continue };
        found += 1;
        // Every call site of the profile is a call in the body; callbacks are in foreign code.
        let mut calls = std::collections::BTreeSet::new();
        rep.procedure(proc).unwrap().body.walk(&GoalPath::ROOT, &mut |path, goal| {
            if matches!(&goal.kind, GoalKind::Atomic(a) if a.kind.is_call()) {
                calls.insert(path.clone());
            }
        });
        for &site in profile.sites(ps) {
            paths += 1;
            if profile.css(site).kind.kind() == SiteKind::Callback {
                continue;
            }
            let path = profile.path(profile.css(site).path);
            assert!(calls.contains(&path), "{} {path}", profile.qualified_name(ps));
        }
    }
    assert!(found > 80 && paths > 300, "{found} procedures, {paths} call sites");
    let before = profile.modules().len();
    let names: Vec<&[u8]> = rep.modules().map(|m| rep.module_name_octets(m)).collect();
    profile.add_modules(names).unwrap();
    assert_eq!((before, profile.modules().len()), (116, 119));
}

/// A version 6 file of one module with one procedure: tables, typed variables, every kind of goal.
fn version_6() -> Vec<u8> {
    let mut strings = vec![0_u8];
    let mut code = |text: &str| -> [u8; 4] {
        let at = strings.len() as u32;
        strings.extend_from_slice(text.as_bytes());
        strings.push(0);
        (at * 2).to_be_bytes()
    };
    let (file, x, list, f, m, p) =
        (code("m.m"), code("X"), code("list.list"), code("f"), code("m"), code("p"));
    let state = ((u32::from_be_bytes(x) / 2) << 16 | 3 << 6 | 1).to_be_bytes();
    let own = [0, 0, 0, 0];

    let string = |s: &str| [&[s.len() as u8], s.as_bytes()].concat();
    let label = [vec![0], string("m"), string("m"), string("p"), vec![3, 0]].concat();
    let count = |n: u32| n.to_be_bytes().to_vec();
    let info = |detism: u8| [own.to_vec(), count(12), count(0), vec![detism]].concat();
    let one_var = [count(1), vec![1]].concat();

    // A goal of each kind, in a conjunction.
    let atoms: Vec<Vec<u8>> = vec![
        [vec![7, 1], f.to_vec(), one_var.clone(), info(6)].concat(),
        [vec![8, 1], f.to_vec(), count(0), info(2)].concat(),
        [vec![9, 1], f.to_vec(), count(2), vec![1, 2, 0], info(6)].concat(),
        [vec![10, 1], f.to_vec(), count(1), vec![0], info(6)].concat(),
        [vec![11, 1, 2], info(6)].concat(),
        [vec![12, 1, 2], info(6)].concat(),
        [vec![13, 1, 2], info(2)].concat(),
        [vec![14], one_var.clone(), info(6)].concat(),
        [vec![15, 1], one_var.clone(), info(14)].concat(),
        [vec![16, 1, 0, 3], one_var.clone(), info(10)].concat(),
        [vec![17], m.to_vec(), p.to_vec(), count(0), info(4)].concat(),
        [vec![18], m.to_vec(), p.to_vec(), one_var.clone(), info(0)].concat(),
        [vec![19], p.to_vec(), one_var.clone(), info(7)].concat(),
    ];
    let atom = || atoms[4].clone();
    let disj = [vec![2], count(2), atom(), atom(), vec![3]].concat();
    let arm = [f.to_vec(), vec![0, 2], count(1), f.to_vec(), vec![0, 0], atom()].concat();
    let switch = [vec![3, 1, 1], count(1), arm, vec![6]].concat();
    let ite = [vec![4], atom(), atom(), atom(), vec![6]].concat();
    let neg = [vec![5], atom(), vec![2]].concat();
    let scope = [vec![6, 1], atom(), vec![6]].concat();
    let empty = [vec![1], count(0), vec![6]].concat();
    let goals: Vec<Vec<u8>> = atoms.into_iter().chain([disj, switch, ite, neg, scope, empty]).collect();
    let body = [vec![1], count(goals.len() as u32), goals.concat(), vec![6]].concat();

    let vars = [vec![3, 2, 1], x.to_vec(), vec![1, 2], state.to_vec(), vec![0]].concat();
    let head = [count(1), vec![1, 0, 1]].concat();
    let procedure = [file.to_vec(), vars, head, body, vec![6]].concat();
    let size = (procedure.len() as u32 + 4).to_be_bytes().to_vec();

    let oisu = [string("m.t"), vec![1], label.clone(), vec![0], vec![1], label.clone()].concat();
    let oisu = [(oisu.len() as u32 + 4).to_be_bytes().to_vec(), oisu].concat();
    let types = [vec![5, 1], list.to_vec(), vec![0, 12, 1, 1, 0, 10, 2, 0, 2, 13, 4]].concat();
    let types = [(types.len() as u32 + 4).to_be_bytes().to_vec(), types].concat();
    [
        b"Mercury deep profiler procrep version 6\n".to_vec(),
        vec![1],
        string("m"),
        vec![strings.len() as u8],
        strings,
        vec![1],
        oisu,
        vec![5],
        types,
        vec![1],
        label,
        size,
        procedure,
        vec![0],
        vec![0],
    ]
    .concat()
}

#[test]
fn version_6_has_tables_and_typed_variables() {
    let rep = ProcRep::new(version_6()).unwrap();
    let text = rep.module_text(rep.module("m").unwrap()).unwrap();
    for line in [
        "Type m.t:",
        "  pred m.p/3-0",
        "1: list.list(int)",
        "2: (func(list.list(int)) = int)",
        "3: {int, (func(list.list(int)) = int)}",
        "4: V_4",
        "% X: list.list(int)",
        "% STATE_VARIABLE_X_2: int",
        "det pred m.p/3-0(X::(free >> ground)) :-",
        "  X <= f(X)",
        "  X => f",
        "  X <= f(STATE_VARIABLE_X_2, _)",
        "  X => f(_)",
        "  X := STATE_VARIABLE_X_2",
        "  cast STATE_VARIABLE_X_2 to X",
        "  STATE_VARIABLE_X_2 == X",
        "  foreign_proc((X))",
        "  X((X))",
        "  method 3 of X((X))",
        "  m.p",
        "  builtin m.p(X)",
        "  event p(X)",
        "  switch_can_not_fail_rep switch on X",
        "      % case f/2",
        "      % case f/0",
        "      % c15;s1-na;",
        "  ->",
        "  not (",
        "  scope cut (",
        "    % c18;q!;",
        "  true",
    ] {
        assert!(text.lines().any(|l| l == line), "no line `{line}` in\n{text}");
    }
}

#[test]
fn truncation_at_any_octet_is_an_error() {
    let whole = version_6();
    for len in 0..whole.len() {
        assert!(ProcRep::new(whole[..len].to_vec()).is_err(), "{len}");
    }
}

#[test]
fn a_changed_octet_never_panics() {
    let whole = version_6();
    let (mut bad, mut good) = (0, 0);
    for at in 0..whole.len() {
        for value in [0, 1, 2, 3, 0x7f, 0x80, 0xff, whole[at] ^ 1, whole[at].wrapping_add(1)] {
            let mut changed = whole.clone();
            changed[at] = value;
            match ProcRep::new(changed) {
                Err(_) => bad += 1,
                Ok(rep) => {
                    for m in rep.modules() {
                        match rep.module_text(m) {
                            Ok(_) => good += 1,
                            Err(_) => bad += 1,
                        }
                    }
                }
            }
        }
    }
    assert!(bad > 500 && good > 500, "{bad} refused, {good} accepted");
}

fn changed(find: &[u8], replace: &[u8]) -> Result<(), ErrorCode> {
    let whole = version_6();
    let at = whole.windows(find.len()).position(|w| w == find).expect("the octets to change are there");
    let mut octets = whole[..at].to_vec();
    octets.extend_from_slice(replace);
    octets.extend_from_slice(&whole[at + find.len()..]);
    let rep = ProcRep::new(octets).map_err(|e| e.code)?;
    rep.modules().try_for_each(|m| rep.module_text(m).map(|_| ()).map_err(|e| e.code))
}

#[test]
fn each_fault_has_its_code() {
    assert_eq!(changed(b"version 6\n", b"version 7\n"), Err(ErrorCode::NotProcrepFile));
    assert_eq!(changed(b"version 6\n\x01", b"version 6\n\x02"), Err(ErrorCode::BadMore));
    // The head variable's insts.
    assert_eq!(changed(&[0, 0, 0, 1, 1, 0, 1], &[0, 0, 0, 1, 1, 0, 3]), Err(ErrorCode::BadInst));
    // The scope's cut.
    assert_eq!(changed(&[6, 1, 11, 1, 2], &[6, 2, 11, 1, 2]), Err(ErrorCode::BadCut));
    // The switch's can-fail octet.
    assert_eq!(changed(&[3, 1, 1, 0, 0, 0, 1], &[3, 2, 1, 0, 0, 0, 1]), Err(ErrorCode::BadSwitch));
    // The last goal, an empty conjunction, gets an unknown type, then an unknown determinism.
    let tail = [1, 0, 0, 0, 0, 6, 6, 6, 0, 0];
    assert_eq!(changed(&tail, &[99, 0, 0, 0, 0, 6, 6, 6, 0, 0]), Err(ErrorCode::BadGoalType));
    assert_eq!(changed(&tail, &[1, 0, 0, 0, 0, 1, 6, 6, 0, 0]), Err(ErrorCode::BadDeterminism));
    assert_eq!(changed(&tail, &[1, 0, 0, 0, 0, 6, 6, 6, 0, 0, 7]), Err(ErrorCode::TrailingData));
    // A type that refers to a later one.
    assert_eq!(changed(&[12, 1, 1, 0, 10], &[12, 1, 4, 0, 10]), Err(ErrorCode::BadTypeNumber));
    // Types without names.
    assert_eq!(changed(&[3, 2, 1], &[1, 2, 1]), Err(ErrorCode::BadVarFlag));
}

/// Writes the file of this test to `PCT_WRITE_SEED`, as a start for fuzzing.
#[test]
fn the_seed_for_fuzzing_is_this_file() {
    let file = version_6();
    if let Some(path) = std::env::var_os("PCT_WRITE_SEED") {
        std::fs::write(path, &file).unwrap();
    }
    let seed = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fuzz/corpus/deep_procrep/version_6");
    assert!(std::fs::read(seed).unwrap() == file, "write it anew with PCT_WRITE_SEED={seed}");
}
