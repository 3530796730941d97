//! The analysis of made-up programs, compared with an independent implementation and with trying everything.

use std::collections::BTreeSet;

use crate::common::{Goal, Metrics, Quiet, check_candidate, close, naive};
use pct_deep::ProcLabel;
use pct_feedback::model::{BestAlgorithm, DependentConjuncts};
use pct_feedback::synthetic::{Program, Stage, chain, map_like};
use pct_feedback::walk::{Outcome, analyse};
use pct_feedback::{Candidate, Params};
use proptest::prelude::*;

/// The results for procedures of one name: `main` and the stages of a chain may have candidates too.
fn found_in(name: &str, program: &Program, params: &Params) -> Outcome {
    let mut outcome = analyse(&program.input().unwrap(), params, 4, &mut Quiet::default()).unwrap();
    outcome.procs.retain(|p| matches!(&p.label, ProcLabel::Ordinary { name: n, .. } if n == name));
    outcome
}
fn found(program: &Program, params: &Params) -> Outcome {
    found_in("body", program, params)
}

fn goals(stages: &[Stage]) -> Vec<Goal> {
    stages
        .iter()
        .enumerate()
        .map(|(i, s)| Goal {
            cost: (s.lead + s.work + 3) as f64,
            needs: s.needs.iter().map(|&n| (10 + n as u32, (s.lead + 2) as f64)).collect(),
            gives: vec![(10 + i as u32, (s.lead + s.work + 3) as f64)],
        })
        .collect()
}

/// Section 10 again, independently.
struct Twin<'a> {
    all: &'a [Goal],
    f: usize,
    l: usize,
    p: &'a Params,
    tests: i64,
    best: Option<(f64, Vec<usize>)>,
}

impl Twin<'_> {
    fn of(&self, ends: &[usize]) -> Metrics {
        naive(self.all, self.f, self.l, ends, self.p)
    }
    fn allowed(&self, ends: &[usize]) -> bool {
        self.p.dependent != DependentConjuncts::No || self.of(ends).dependent.is_empty()
    }
    fn test(&mut self, ends: &[usize]) -> bool {
        self.tests += 1;
        let o = self.of(ends).objective();
        self.allowed(ends) && self.best.as_ref().is_none_or(|(b, _)| o <= *b)
    }
    fn visit(&mut self, ends: &[usize]) {
        let last = ends[ends.len() - 1];
        if last == self.l {
            let o = self.of(ends).objective();
            if ends.len() > 1 && self.best.as_ref().is_none_or(|(b, _)| o <= *b) {
                self.best = Some((o, ends.to_vec()));
            }
            return;
        }
        let mut joined = ends.to_vec();
        joined[ends.len() - 1] += 1;
        let mut opened = ends.to_vec();
        opened.push(last + 1);
        let (first, second) = match (self.allowed(&joined), self.allowed(&opened)) {
            (false, _) => (opened, None),
            (_, false) => (joined, None),
            _ if self.of(&opened).objective() > self.of(&joined).objective() => (joined, Some(opened)),
            _ => (opened, Some(joined)),
        };
        let before = self.tests;
        if self.test(&first) {
            self.visit(&first);
        }
        let Some(second) = second else { return };
        let follows = match self.p.best {
            BestAlgorithm::Complete => true,
            BestAlgorithm::CompleteBranches(n) => before < n,
            BestAlgorithm::CompleteSize(n) => n >= self.all.len() as i64,
            BestAlgorithm::Greedy => false,
        };
        if follows && self.test(&second) {
            self.visit(&second);
        }
    }
}

/// The cuts of a candidate in the independent implementation's form.
fn ends(c: &Candidate) -> Vec<usize> {
    let mut end = c.before.len();
    c.conjuncts
        .iter()
        .map(|goals| {
            end += goals.len();
            end - 1
        })
        .collect()
}

fn costly_range(goals: &[Goal], p: &Params) -> Option<(usize, usize)> {
    let costly = |g: &Goal| g.cost > p.call_site_threshold as f64;
    let (f, l) = (goals.iter().position(costly)?, goals.iter().rposition(costly)?);
    (f < l).then_some((f, l))
}

/// The independent implementation's result for a chain.
fn expected(stages: &[Stage], p: &Params) -> Option<(Vec<usize>, Metrics)> {
    let all = goals(stages);
    let (f, l) = costly_range(&all, p)?;
    let mut twin = Twin { all: &all, f, l, p, tests: 0, best: None };
    twin.visit(&[f]);
    let (_, ends) = twin.best?;
    let metrics = naive(&all, f, l, &ends, p);
    (metrics.seq / metrics.par > p.speedup_threshold).then_some((ends, metrics))
}

fn check(stages: &[Stage], p: &Params) -> Result<(), TestCaseError> {
    let outcome = found(&chain(stages, 1), p);
    let candidates: Vec<&Candidate> = outcome.procs.iter().flat_map(|o| &o.found.candidates).collect();
    let Some((wanted, metrics)) = expected(stages, p) else {
        prop_assert!(candidates.is_empty(), "{:?}", candidates);
        return Ok(());
    };
    prop_assert_eq!(candidates.len(), 1);
    let c = candidates[0];
    prop_assert_eq!(ends(c), wanted);
    let m = c.metrics;
    prop_assert_eq!(m.calls, 1);
    let pairs = [
        (m.seq_time, metrics.seq),
        (m.par_time, metrics.par),
        (m.overheads(), metrics.overheads),
        (m.signals, metrics.signals),
        (m.waits, metrics.waits),
        (m.first_dead, metrics.first_dead),
        (m.future_dead, metrics.future_dead),
    ];
    for (got, want) in pairs {
        prop_assert!(close(got, want), "{:?} {:?}", m, metrics);
    }
    let vars: Option<BTreeSet<u32>> = c.dependent.as_ref().map(|d| d.iter().map(|v| v.0).collect());
    prop_assert_eq!(vars.unwrap_or_default(), metrics.dependent);
    check_candidate(c, p, true).map_err(TestCaseError::fail)?;
    Ok(())
}

fn stages() -> impl Strategy<Value = Vec<Stage>> {
    let cost = || prop_oneof![Just(0_i64), 0..3000_i64, 0..40_000_i64];
    prop::collection::vec((cost(), cost(), any::<u8>(), 0..3_u8), 1..7).prop_map(|list| {
        list.iter()
            .enumerate()
            .map(|(i, &(lead, work, needs, sparse))| Stage {
                lead,
                work,
                // Some chains depend much, some little.
                needs: (0..i).filter(|n| needs & (1 << n) != 0 && (sparse == 0 || n % 3 == 0)).collect(),
            })
            .collect()
    })
}

fn algorithm() -> impl Strategy<Value = BestAlgorithm> {
    prop_oneof![
        Just(BestAlgorithm::Complete),
        Just(BestAlgorithm::Greedy),
        (0..20_i64).prop_map(BestAlgorithm::CompleteBranches),
        (0..8_i64).prop_map(BestAlgorithm::CompleteSize),
    ]
}

proptest! {
    #[test]
    fn chains_are_parallelised_as_the_second_reading_says(
        stages in stages(),
        best in algorithm(),
        dependent in prop::sample::select(vec![
            DependentConjuncts::ByOverlap,
            DependentConjuncts::ByOverlap,
            DependentConjuncts::Naively,
            DependentConjuncts::No,
        ]),
        costs in prop::collection::vec(0..3000_i64, 6),
    ) {
        let p = Params {
            best,
            dependent,
            sparking_cost: costs[0] / 10,
            sparking_delay: costs[1],
            barrier_cost: costs[2] / 10,
            signal_cost: costs[3] / 10,
            wait_cost: costs[4] / 10,
            wakeup_delay: costs[5],
            ..Params::default()
        };
        check(&stages, &p)?;
    }

    #[test]
    fn the_complete_search_of_independent_goals_finds_the_best_there_is(
        costs in prop::collection::vec(2001..30_000_i64, 2..7),
    ) {
        let p = Params { best: BestAlgorithm::Complete, speedup_threshold: 1.0, ..Params::default() };
        let stages: Vec<Stage> =
            costs.iter().map(|&c| Stage { lead: 0, work: c, needs: Vec::new() }).collect();
        // A conjunct starts after as many sparking delays as there are conjuncts before it. It ends later by its
        // length, plus the wake-up of the first if that is not the last to end. Overheads: a spark for all but one, and
        // a barrier for each, counted twice.
        let lengths: Vec<i64> = costs.iter().map(|c| c + 3).collect();
        let least = (1..1_u32 << (costs.len() - 1))
            .map(|mask| {
                let mut sums = vec![lengths[0]];
                for (i, length) in lengths.iter().enumerate().skip(1) {
                    if mask & (1 << (i - 1)) != 0 {
                        sums.push(0);
                    }
                    *sums.last_mut().unwrap() += length;
                }
                let ends = sums.iter().enumerate().map(|(i, s)| s + 1000 * i as i64);
                let last = ends.max().unwrap();
                let wake = if last > sums[0] { 1000 } else { 0 };
                last + wake + 2 * (100 * (sums.len() as i64 - 1) + 100 * sums.len() as i64)
            })
            .min()
            .unwrap();
        let outcome = found(&chain(&stages, 1), &p);
        if let Some(proc) = outcome.procs.first() {
            let m = proc.found.candidates[0].metrics;
            prop_assert_eq!(m.par_time + 2.0 * m.overheads(), least as f64);
            prop_assert_eq!(&proc.found.candidates[0].dependent, &None);
        } else {
            // Then the best is slower than sequential execution.
            prop_assert!(least >= lengths.iter().sum::<i64>());
        }
    }
}

#[test]
fn two_long_stages_overlap_as_far_as_their_variable_allows() {
    // The first produces its output at its end, 30,003; the second needs it at 20,002.
    let stage = |lead, work, needs: &[usize]| Stage { lead, work, needs: needs.to_vec() };
    let outcome = found(&chain(&[stage(0, 30_000, &[]), stage(20_000, 10_000, &[0])], 1), &Params::default());
    let [proc] = outcome.procs.as_slice() else { panic!("one procedure: {outcome:?}") };
    let [c] = proc.found.candidates.as_slice() else { panic!("one candidate") };
    assert_eq!(c.path.to_string(), "");
    assert_eq!(c.dependent.as_deref().map(|d| d.iter().map(|v| v.0).collect::<Vec<_>>()), Some(vec![10]));
    // First: starts at 100, runs 30,003, signals (100); its variable is there at 30,103 (the signal is not in
    // that time). Second: starts at 1000, needs it at 21,002, waits until 30,103, + 200 + 1000 to resume at
    // 31,303, then 10,001.
    let m = c.metrics;
    assert_eq!(m.seq_time, 30_003.0 + 30_003.0);
    assert_eq!(m.future_dead, 31_303.0 - 21_002.0);
    assert_eq!(m.first_dead, (20_002.0 + 10_001.0 + m.future_dead + 1000.0) - 30_103.0);
    assert_eq!(m.par_time, 20_002.0 + 10_001.0 + m.future_dead + 1000.0 + 1000.0);
    assert_eq!((m.spark, m.barrier, m.signals, m.waits), (100.0, 200.0, 100.0, 200.0));
    // Production and consumption times are shown. Nobody waits for the second one's output, so it is not shown.
    let (first, second) = (&c.conjuncts[0][0], &c.conjuncts[1][0]);
    assert_eq!(first.productions.iter().map(|p| (p.0.0, p.1)).collect::<Vec<_>>(), [(10, 30_003.0)]);
    assert_eq!(second.consumptions.iter().map(|p| (p.0.0, p.1)).collect::<Vec<_>>(), [(10, 20_002.0)]);
    assert!(first.consumptions.is_empty() && second.productions.is_empty());
    assert_eq!(proc.found.names.show(pct_deep::procrep::Var(10)), "S0");
}

#[test]
fn a_map_runs_its_elements_side_by_side() {
    let outcome = found_in("map", &map_like(200, 50_000), &Params::default());
    let [proc] = outcome.procs.as_slice() else { panic!("one procedure: {outcome:?}") };
    let [c] = proc.found.candidates.as_slice() else { panic!("one candidate") };
    assert_eq!(c.path.to_string(), "s2-na;");
    assert_eq!(c.dependent, None);
    assert_eq!((c.before.len(), c.conjuncts.len(), c.after.len()), (1, 2, 1));
    // f costs 50,003 for each of 200 elements. A recursive call: 201 calls for one from outside are a depth
    // of 201; by the 200 calls of the site that is level 1, f and a call.
    let (f, rec) = (50_003.0, 50_004.0);
    assert_eq!((c.conjuncts[0][0].cost, c.conjuncts[1][0].cost), (f, rec));
    let m = c.metrics;
    assert_eq!((m.calls, m.seq_time), (200, f + rec));
    assert_eq!(m.first_dead, rec + 1000.0 - f);
    assert_eq!(m.par_time, rec + 1000.0 + 1000.0);
    assert_eq!((m.spark, m.barrier, m.signals, m.waits, m.future_dead), (100.0, 200.0, 0.0, 0.0, 0.0));
}

#[test]
fn later_contexts_come_first() {
    let stage = || Stage { lead: 0, work: 9000, needs: Vec::new() };
    let outcome = found(&chain(&[stage(), stage()], 3), &Params::default());
    let [proc] = outcome.procs.as_slice() else { panic!("one procedure") };
    assert_eq!(proc.found.candidates.len(), 3);
    assert!(proc.contexts.windows(2).all(|w| w[0] > w[1]), "{:?}", proc.contexts);
}

#[test]
fn what_is_not_faster_by_the_threshold_is_no_candidate() {
    let stage = || Stage { lead: 0, work: 9000, needs: Vec::new() };
    let program = chain(&[stage(), stage()], 1);
    // 18,006 one after the other, 11,003 in parallel (one sparking delay, one wake-up).
    let speedup = 18_006.0 / 11_003.0;
    let with = |threshold| {
        let params = Params { speedup_threshold: threshold, ..Params::default() };
        found(&program, &params).procs.len()
    };
    assert_eq!((with(speedup - 1e-9), with(speedup)), (1, 0));
    let params = Params { call_site_threshold: 9003, ..Params::default() };
    assert!(found(&program, &params).procs.is_empty());
    let params = Params { call_site_threshold: 9002, ..Params::default() };
    assert_eq!(found(&program, &params).procs.len(), 1);
    let params = Params { clique_threshold: 18_008, ..Params::default() };
    assert!(found(&program, &params).procs.is_empty());
    let params = Params { clique_threshold: 18_007, ..Params::default() };
    assert_eq!(found(&program, &params).procs.len(), 1);
}
