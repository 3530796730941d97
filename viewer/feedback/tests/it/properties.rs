//! Properties of every analysis: of made-up programs, of the real sample, of damaged files.

use std::path::PathBuf;
use std::sync::OnceLock;

use crate::common::{Quiet, Tolerant, check_candidate};
use pct_deep::{Compensation, ProcRep, Profile};
use pct_feedback::input::{self, Input};
use pct_feedback::model::{BestAlgorithm, DependentConjuncts};
use pct_feedback::synthetic::{Code, CodeKind, Program, forest, map_like};
use pct_feedback::walk::analyse;
use pct_feedback::{Feedback, Params, file, report};
use proptest::prelude::*;

/// This many cases, or as many as the environment sets.
fn cases(usual: u32) -> ProptestConfig {
    let asked = std::env::var("PROPTEST_CASES").ok().and_then(|n| n.parse().ok());
    ProptestConfig { cases: asked.unwrap_or(usual), ..ProptestConfig::default() }
}

fn params() -> impl Strategy<Value = Params> {
    let algorithm = prop_oneof![
        Just(BestAlgorithm::Greedy),
        (0..2000_i64).prop_map(BestAlgorithm::CompleteBranches),
        (0..6_i64).prop_map(BestAlgorithm::CompleteSize),
    ];
    let dependent = prop::sample::select(vec![
        DependentConjuncts::ByOverlap,
        DependentConjuncts::ByOverlap,
        DependentConjuncts::Naively,
        DependentConjuncts::No,
    ]);
    (algorithm, dependent, any::<bool>(), prop::collection::vec(0..2000_i64, 8), 1.0..2.0_f64).prop_map(
        |(best, dependent, intermodule, n, speedup_threshold)| Params {
            desired: 2.0 + n[7] as f64 / 100.0,
            intermodule,
            sparking_cost: n[0],
            sparking_delay: n[1],
            barrier_cost: n[2],
            signal_cost: n[3],
            wait_cost: n[4],
            wakeup_delay: n[5],
            clique_threshold: 2 * n[6],
            call_site_threshold: 4 * n[7],
            speedup_threshold,
            dependent,
            best,
        },
    )
}

fn feedback_of(input: &Input, params: &Params) -> (Feedback, String) {
    let outcome = analyse(input, params, 4, &mut Quiet::default()).unwrap();
    let said: String = outcome.messages.iter().map(ToString::to_string).collect();
    let program = pct_analysis::Bodies::profile(input).program().into_owned();
    (Feedback { program, candidates: Some(outcome.into_candidates(params.clone())) }, said)
}

/// The same program with its procedures in another order: `order[i]` is at index i.
fn reordered(program: &Program, order: &[usize]) -> Program {
    let mut place = vec![0; order.len()];
    for (i, &old) in order.iter().enumerate() {
        place[old] = i;
    }
    let mut procs: Vec<_> = order.iter().map(|&old| program.procs[old].clone()).collect();
    for body in procs.iter_mut().filter_map(|p| p.body.as_mut()) {
        move_callees(body, &place);
    }
    Program { name: program.name.clone(), procs }
}
fn move_callees(code: &mut Code, place: &[usize]) {
    match &mut code.kind {
        CodeKind::Conj(parts) | CodeKind::Disj(parts) | CodeKind::Switch { arms: parts, .. } => {
            parts.iter_mut().for_each(|p| move_callees(p, place));
        }
        CodeKind::IfThenElse(parts) => parts.iter_mut().for_each(|p| move_callees(p, place)),
        CodeKind::Neg(inner) | CodeKind::Scope { inner, .. } => move_callees(inner, place),
        CodeKind::Plain { .. } => {}
        CodeKind::Call { callees, .. } => callees.iter_mut().for_each(|c| *c = place[*c]),
    }
}

proptest! {
    #![proptest_config(cases(48))]

    #[test]
    fn every_candidate_holds_up_and_files_say_what_was_found(
        procs in 2..60_usize,
        seed in any::<u64>(),
        params in params(),
    ) {
        let (feedback, _) = feedback_of(&forest(procs, seed).input().unwrap(), &params);
        let candidates = feedback.candidates.as_ref().unwrap();
        prop_assert!(candidates.procs.windows(2).all(|w| w[0].0 < w[1].0), "ascending labels");
        for (_, proc) in &candidates.procs {
            prop_assert!(!proc.candidates.is_empty());
            for c in &proc.candidates {
                // All goals of a pushed conjunction are recounted. Goals of others are called equally often here.
                check_candidate(c, &params, true).map_err(TestCaseError::fail)?;
                let pushed = c.push.iter().all(|p| proc.pushes.iter().any(|m| m.path == p.path));
                prop_assert!(pushed, "a candidate's push is its procedure's");
            }
        }
        let text = file::to_text(&feedback);
        let read = file::parse(&text, Some("./forest")).unwrap();
        prop_assert_eq!(&read, &feedback);
        prop_assert_eq!(file::to_text(&read), text);
        prop_assert_eq!(report::report(&read), report::report(&feedback));
    }

    #[test]
    fn the_order_of_procedures_in_the_files_does_not_matter(
        procs in 2..40_usize,
        seed in any::<u64>(),
        params in params(),
        keys in prop::collection::vec(any::<u32>(), 200),
    ) {
        let program = forest(procs, seed);
        let mut order: Vec<usize> = (0..program.procs.len()).collect();
        // The first is called from outside.
        order[1..].sort_by_key(|&i| keys[i % keys.len()]);
        let other = reordered(&program, &order);
        prop_assert_eq!(
            feedback_of(&program.input().unwrap(), &params),
            feedback_of(&other.input().unwrap(), &params)
        );
    }

    #[test]
    fn profiles_that_were_written_and_read_say_the_same(seed in any::<u64>(), params in params()) {
        let program = forest(20, seed);
        let octets = pct_deep::to_octets(&program.data().unwrap(), pct_deep::Version::V9).unwrap();
        let profile = pct_deep::load(&octets, Compensation::Exact).unwrap();
        let read = Input::new(profile, ProcRep::new(program.rep()).unwrap());
        prop_assert_eq!(
            feedback_of(&read, &params).0,
            feedback_of(&program.input().unwrap(), &params).0
        );
    }

    #[test]
    fn greedy_is_complete_without_branches(seed in any::<u64>(), params in params()) {
        let input = forest(20, seed).input().unwrap();
        let with = |best| feedback_of(&input, &Params { best, ..params.clone() }).0.candidates.unwrap().procs;
        prop_assert_eq!(with(BestAlgorithm::Greedy), with(BestAlgorithm::CompleteBranches(0)));
    }
}

/// Small files to damage.
fn files() -> &'static (Vec<u8>, Vec<u8>) {
    static FILES: OnceLock<(Vec<u8>, Vec<u8>)> = OnceLock::new();
    FILES.get_or_init(|| {
        let mut program = forest(6, 3);
        let map = map_like(4, 9000);
        let base = program.procs.len();
        for mut proc in map.procs {
            if let Some(body) = &mut proc.body {
                move_callees(body, &(base..base + 10).collect::<Vec<_>>());
            }
            program.add(proc);
        }
        let call = Code::call(base, &[], &[]);
        if let Some(Code { kind: CodeKind::Conj(goals), .. }) = &mut program.procs[0].body {
            goals.push(call);
        }
        let octets = pct_deep::to_octets(&program.data().unwrap(), pct_deep::Version::V9).unwrap();
        (octets, program.rep())
    })
}

proptest! {
    #![proptest_config(cases(300))]

    #[test]
    fn damaged_files_are_refused_or_analysed(
        changes in prop::collection::vec((any::<bool>(), any::<prop::sample::Index>(), any::<u8>()), 1..4),
        thresholds in 0..3000_i64,
    ) {
        let (mut data, mut rep) = files().clone();
        for (in_rep, at, value) in changes {
            let octets = if in_rep { &mut rep } else { &mut data };
            let at = at.index(octets.len());
            octets[at] = value;
        }
        // Counts near 2^63 would take for ever. This test only searches for panics.
        let Ok(profile) = pct_deep::load(&data, Compensation::Exact) else { return Ok(()) };
        let Ok(rep) = ProcRep::new(rep) else { return Ok(()) };
        let params = Params {
            clique_threshold: thresholds,
            call_site_threshold: thresholds,
            intermodule: true,
            ..Params::default()
        };
        let input = Input::new(profile, rep);
        let mut tolerant = Tolerant::default();
        let all = analyse(&input, &params, 4, &mut tolerant);
        let strict = analyse(&input, &params, 4, &mut Quiet::default());
        // An analysis that stops at the first contradiction stops exactly if there is one.
        prop_assert!(all.is_ok());
        prop_assert_eq!(strict.is_err(), !tolerant.0.is_empty());
        if let Ok(outcome) = all {
            let feedback =
                Feedback { program: "p".to_owned(), candidates: Some(outcome.into_candidates(params)) };
            let _ = report::report(&feedback);
            let _ = file::parse(&file::to_text(&feedback), None);
        }
    }
}

/// A conjunction of many goals needs no stack for each; nested goals and deep calls neither end it.
#[test]
fn long_conjunctions_and_deep_nests_are_analysed() {
    use pct_feedback::synthetic::{Pass, Proc};
    let mut program = Program::new("./long");
    program.add(Proc::pred("m", "main", Vec::new(), Code::conj(Vec::new())));
    let work = program.add(Proc::builtin("lib", "work", Vec::new(), 5000));
    let goals =
        (0..400).map(|i| if i % 3 == 0 { Code::call(work, &[], &[]) } else { Code::construct(i, &[]) });
    program.procs[0].body = Some(Code::conj(goals.collect()));
    let params = Params { best: BestAlgorithm::Greedy, ..Params::default() };
    let (feedback, _) = feedback_of(&program.input().unwrap(), &params);
    assert_eq!(feedback.candidates.unwrap().procs.len(), 1);

    // Goals nested as deep as files may have them.
    let mut nest = Code::conj(vec![Code::call(work, &[], &[]), Code::call(work, &[], &[])]);
    for _ in 0..990 {
        nest = Code::scope(false, nest);
    }
    program.procs[0].body = Some(nest);
    let (feedback, _) = feedback_of(&program.input().unwrap(), &params);
    assert_eq!(feedback.candidates.unwrap().procs.len(), 1);

    // Procedures that hand a variable on, 3000 calls deep, each in its own clique.
    use pct_feedback::synthetic::{input as in_arg, output};
    let mut program = Program::new("./deep");
    program.add(Proc::pred("m", "main", Vec::new(), Code::conj(Vec::new())));
    let work = program.add(Proc::builtin("lib", "work", Vec::new(), 5000));
    let deep: u32 = 3000;
    let first = program.procs.len();
    for i in 0..deep as usize {
        let inner = if i + 1 == deep as usize {
            Code::construct(2, &[1])
        } else {
            Code::call(first + i + 1, &[1, 2], &[2])
        };
        let body = Code::conj(vec![inner, Code::call(work, &[], &[])]);
        program.add(Proc::pred("m", &format!("p{i}"), vec![in_arg(1), output(2)], body));
    }
    let goals = vec![
        Code::construct(1, &[]),
        Code::call(first, &[1, 2], &[2]).pass(Pass::Same),
        Code::call(work, &[], &[]),
        Code::call(first + 1, &[2, 3], &[3]),
    ];
    program.procs[0].body = Some(Code::conj(goals));
    let input = std::thread::Builder::new()
        .stack_size(64 << 20)
        .spawn(move || program.input().unwrap())
        .unwrap()
        .join()
        .unwrap();
    let mut tolerant = Tolerant::default();
    let outcome = analyse(&input, &Params { desired: 1e9, ..params }, 0, &mut tolerant).unwrap();
    assert_eq!(tolerant.0, []);
    assert!(outcome.progress.cliques > 6000, "{:?}", outcome.progress);
}

/// With all overheads and thresholds near zero, much more of the sample is analysed.
#[test]
fn candidates_of_the_sample_hold_up() {
    let Some(data) = pct_kit::real("deep/mandelbrot/Deep.data") else { return };
    let profile: Profile = input::open_profile(&data).unwrap();
    let rep = input::open_rep(&input::rep_path(&data).unwrap()).unwrap();
    let input = Input::new(profile, rep);
    for (cost, least) in [(0, 15), (1, 2)] {
        for intermodule in [false, true] {
            let params = Params {
                intermodule,
                sparking_cost: cost,
                sparking_delay: cost,
                barrier_cost: cost,
                signal_cost: cost,
                wait_cost: cost,
                wakeup_delay: cost,
                clique_threshold: cost,
                call_site_threshold: cost,
                ..Params::default()
            };
            let (feedback, said) = feedback_of(&input, &params);
            let mut count = 0;
            for (label, proc) in &feedback.candidates.as_ref().unwrap().procs {
                for c in &proc.candidates {
                    count += 1;
                    check_candidate(c, &params, c.push.is_none())
                        .unwrap_or_else(|e| panic!("{label:?}: {e}"));
                }
            }
            assert!(count >= least, "{count} candidates\n{said}");
            assert_eq!(file::parse(&file::to_text(&feedback), None).unwrap(), feedback);
        }
    }
}

/// Writes the starting points of the fuzz targets, if the environment names a folder for them.
#[test]
fn starting_points_of_the_fuzz_targets_are_written_on_request() {
    let Some(folder) = std::env::var_os("PCT_FUZZ_CORPUS").map(PathBuf::from) else { return };
    for (name, (data, rep)) in [
        ("mixed", files().clone()),
        ("map", {
            let program = map_like(4, 9000);
            let octets = pct_deep::to_octets(&program.data().unwrap(), pct_deep::Version::V9).unwrap();
            (octets, program.rep())
        }),
    ] {
        let mut octets = (data.len() as u32).to_be_bytes().to_vec();
        octets.extend(&data);
        octets.extend(&rep);
        std::fs::write(folder.join("feedback_create").join(name), octets).unwrap();
        let profile = pct_deep::load(&data, Compensation::Exact).unwrap();
        let params = Params { call_site_threshold: 100, clique_threshold: 100, ..Params::default() };
        let (feedback, _) = feedback_of(&Input::new(profile, ProcRep::new(rep).unwrap()), &params);
        std::fs::write(folder.join("feedback_file").join(name), file::to_text(&feedback)).unwrap();
    }
}
