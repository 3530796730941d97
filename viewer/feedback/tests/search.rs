//! The analysis of made-up programs, against a second reading of the description and against trying everything.

use std::collections::{BTreeMap, BTreeSet};

use pct_deep::ProcLabel;
use pct_feedback::model::{BestAlgorithm, DependentConjuncts};
use pct_feedback::synthetic::{Program, Stage, chain, map_like};
use pct_feedback::walk::{Observer, Outcome, analyse};
use pct_feedback::{Candidate, Params, message::Message};
use proptest::prelude::*;

#[derive(Default)]
struct Quiet(Vec<Message>);
impl Observer for Quiet {
    fn say(&mut self, message: Message) {
        self.0.push(message);
    }
}

/// What is found in procedures of one name: `main` and the stages of a chain may have candidates too.
fn found_in(name: &str, program: &Program, params: &Params) -> Outcome {
    let mut outcome = analyse(&program.input().unwrap(), params, 4, &mut Quiet::default()).unwrap();
    outcome.procs.retain(|p| matches!(&p.label, ProcLabel::Ordinary { name: n, .. } if n == name));
    outcome
}
fn found(program: &Program, params: &Params) -> Outcome {
    found_in("body", program, params)
}

/// A goal as the second reading knows it.
#[derive(Clone, Debug)]
struct Goal {
    cost: f64,
    /// Variables with the time at which they are first needed.
    needs: Vec<(u32, f64)>,
    /// The variable that it binds, at its end.
    gives: u32,
}

fn goals(stages: &[Stage]) -> Vec<Goal> {
    stages
        .iter()
        .enumerate()
        .map(|(i, s)| Goal {
            cost: (s.lead + s.work + 3) as f64,
            needs: s.needs.iter().map(|&n| (10 + n as u32, (s.lead + 2) as f64)).collect(),
            gives: 10 + i as u32,
        })
        .collect()
}

#[derive(Clone, Debug, PartialEq)]
struct Metrics {
    seq: f64,
    par: f64,
    overheads: f64,
    signals: f64,
    waits: f64,
    first_dead: f64,
    future_dead: f64,
    dependent: BTreeSet<u32>,
}

impl Metrics {
    fn objective(&self) -> f64 {
        self.par + 2.0 * self.overheads
    }
}

/// Section 11, read again: `ends` are the goals (from `f`) behind which a conjunct ends, the last one placed included.
fn naive(all: &[Goal], f: usize, l: usize, ends: &[usize], p: &Params) -> Metrics {
    let overlap = p.dependent == DependentConjuncts::ByOverlap;
    let conjuncts: Vec<&[Goal]> =
        ends.iter().enumerate().map(|(i, &e)| &all[if i == 0 { f } else { ends[i - 1] + 1 }..=e]).collect();
    let m = conjuncts.len();
    let uses = |c: &[Goal]| -> BTreeSet<u32> { c.iter().flat_map(|g| g.needs.iter().map(|n| n.0)).collect() };
    let gives = |c: &[Goal]| -> BTreeSet<u32> { c.iter().map(|g| g.gives).collect() };
    let mut shared = BTreeSet::new();
    for i in 0..m {
        for j in 0..i {
            shared.extend(gives(conjuncts[j]).intersection(&uses(conjuncts[i])).copied());
        }
    }
    let mut ready: BTreeMap<u32, f64> = BTreeMap::new();
    let mut r = Metrics {
        seq: 0.0,
        par: 0.0,
        overheads: 0.0,
        signals: 0.0,
        waits: 0.0,
        first_dead: 0.0,
        future_dead: 0.0,
        dependent: BTreeSet::new(),
    };
    let mut inner = Vec::new();
    for (i, conjunct) in conjuncts.iter().enumerate() {
        let spark = if ends[i] == l { 0.0 } else { p.sparking_cost as f64 };
        let start = i as f64 * p.sparking_delay as f64 + spark;
        let length: f64 = conjunct.iter().rev().map(|g| g.cost).fold(0.0, |sum, c| c + sum);
        r.seq += length;
        let mut waits: BTreeSet<u32> = uses(conjunct).into_iter().filter(|v| ready.contains_key(v)).collect();
        let mut sends: BTreeSet<u32> = gives(conjunct).intersection(&shared).copied().collect();
        r.dependent.extend(&waits);
        let (wait_count, send_count) = (waits.len() as f64, sends.len() as f64);
        // What happens, goal by goal.
        let mut events: Vec<(f64, Option<u32>)> = Vec::new();
        let mut x = 0.0;
        for g in *conjunct {
            let mut cs: Vec<(u32, f64)> = Vec::new();
            for &(v, t) in &g.needs {
                if waits.remove(&v) {
                    cs.push((v, x + t));
                }
            }
            cs.sort_by(|a, b| b.1.partial_cmp(&a.1).unwrap().then(a.0.cmp(&b.0)));
            let mut ps: Vec<f64> = if sends.remove(&g.gives) { vec![x + g.cost] } else { Vec::new() };
            let mut here = Vec::new();
            while !cs.is_empty() || !ps.is_empty() {
                if !ps.is_empty() && (cs.is_empty() || ps[0] < cs[0].1) {
                    here.push((ps.remove(0), None));
                } else {
                    let (v, t) = cs.remove(0);
                    here.push((t, Some(v)));
                }
            }
            here.reverse();
            events.extend(here);
            x += g.cost;
        }
        // The parallel run.
        let mut intervals: Vec<(f64, f64)> = Vec::new();
        let (mut par, mut dead) = (0.0, 0.0);
        if overlap {
            let (mut s, mut y, mut resumed) = (0.0, start, start);
            for (e, wait) in events {
                let u = y + (e - s);
                match wait {
                    Some(v) => {
                        let z = ready[&v];
                        y = if z > u { z } else { u } + p.wait_cost as f64;
                        if z > u {
                            y += p.wakeup_delay as f64;
                            intervals.push((resumed, u));
                            resumed = y;
                        }
                    }
                    None => y = u + p.signal_cost as f64,
                }
                s = e;
            }
            intervals.push((resumed, y + (length - s)));
            for (i, (a, b)) in intervals.iter().enumerate() {
                par += b - a;
                if i > 0 {
                    dead += a - intervals[i - 1].1;
                }
            }
            r.signals += p.signal_cost as f64 * send_count;
            r.waits += p.wait_cost as f64 * wait_count;
        } else {
            intervals.push((start, start + length));
            par = length + spark;
        }
        r.future_dead += dead;
        inner.push(if i == 0 { par } else { par + dead + p.sparking_delay as f64 * i as f64 });
        // When its variables are there.
        let (mut x, mut at) = (start, 0);
        for g in *conjunct {
            while x > intervals[at].1 + 0.0001 {
                x += intervals[at + 1].0 - intervals[at].1;
                at += 1;
            }
            if shared.contains(&g.gives) {
                ready.insert(g.gives, x + g.cost);
            }
            x += g.cost;
        }
    }
    let sum = |goals: &[Goal]| goals.iter().rev().map(|g| g.cost).fold(0.0, |sum, c| c + sum);
    let around = sum(&all[..f]) + sum(&all[l + 1..]);
    let most = inner.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    r.first_dead = most - inner[0];
    r.par = most + around + if r.first_dead > 0.0 { p.wakeup_delay as f64 } else { 0.0 };
    r.seq += around;
    let (spark, barrier) = ((m as f64 - 1.0) * p.sparking_cost as f64, m as f64 * p.barrier_cost as f64);
    r.overheads = spark + barrier + r.signals + r.waits;
    r
}

/// Section 10, read again.
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

/// The cuts of a candidate as the second reading has them.
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

fn close(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-6 * (1.0 + a.abs().max(b.abs()))
}

fn costly_range(goals: &[Goal], p: &Params) -> Option<(usize, usize)> {
    let costly = |g: &Goal| g.cost > p.call_site_threshold as f64;
    let (f, l) = (goals.iter().position(costly)?, goals.iter().rposition(costly)?);
    (f < l).then_some((f, l))
}

/// What the twin expects of a chain.
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
    // What holds of every candidate.
    prop_assert!(m.speedup() > p.speedup_threshold);
    for conjunct in &c.conjuncts {
        let own: f64 = conjunct.iter().map(|g| g.cost).sum();
        prop_assert!(m.par_time >= own + c.before_cost + c.after_cost - 1e-6);
    }
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
        // Start of a conjunct: after so many sparking delays. It ends by its length later; with the wake-up of the first
        // if that is not the last to end. Overheads: a spark for all but one, a barrier for each, counted twice.
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
            // Then the best is slower than one after the other.
            prop_assert!(least >= lengths.iter().sum::<i64>());
        }
    }
}

#[test]
fn two_long_stages_overlap_as_far_as_their_variable_allows() {
    // The first gives its output at its end, 30,003; the second needs it at 20,002.
    let stage = |lead, work, needs: &[usize]| Stage { lead, work, needs: needs.to_vec() };
    let outcome = found(&chain(&[stage(0, 30_000, &[]), stage(20_000, 10_000, &[0])], 1), &Params::default());
    let [proc] = outcome.procs.as_slice() else { panic!("one procedure: {outcome:?}") };
    let [c] = proc.found.candidates.as_slice() else { panic!("one candidate") };
    assert_eq!(c.path.to_string(), "");
    assert_eq!(c.dependent.as_deref().map(|d| d.iter().map(|v| v.0).collect::<Vec<_>>()), Some(vec![10]));
    // First: starts at 100, runs 30,003, signals (100); its variable is there at 30,103 (the signal is not in that time).
    // Second: starts at 1000, needs it at 21,002, waits until 30,103, + 200 + 1000 to resume at 31,303, then 10,001.
    let m = c.metrics;
    assert_eq!(m.seq_time, 30_003.0 + 30_003.0);
    assert_eq!(m.future_dead, 31_303.0 - 21_002.0);
    assert_eq!(m.first_dead, (20_002.0 + 10_001.0 + m.future_dead + 1000.0) - 30_103.0);
    assert_eq!(m.par_time, 20_002.0 + 10_001.0 + m.future_dead + 1000.0 + 1000.0);
    assert_eq!((m.spark, m.barrier, m.signals, m.waits), (100.0, 200.0, 100.0, 200.0));
    // When it produces and consumes is shown; also what the second gives nobody waits for, so nothing of that.
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
    // f costs 50,003 for each of 200 elements. A recursive call: 201 calls for one from outside are a depth of 201; by the
    // 200 calls of the site that is level 1, f and a call.
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
