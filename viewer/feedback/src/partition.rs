//! The best way to cut a conjunction into parallel conjuncts (sections 10 and 11).
//!
//! Goals keep their order: a partition cuts the goals from the first to the last costly one into consecutive conjuncts.
//! A conjunct waits (by futures) for variables that earlier ones produce. For each partition the parallel execution is
//! simulated: when conjuncts start, wait, signal and end. The search adds goal after goal, each to the last conjunct or
//! to a new one, the better choice first.

use std::collections::{BTreeMap, BTreeSet};

use pct_deep::procrep::Var;

use crate::cost::{Abort, Cost, sequence};
use crate::model::{BestAlgorithm, DependentConjuncts, Metrics, Params};

/// A goal of the conjunction.
#[derive(Clone, Debug)]
pub struct Item {
    /// Variables that it binds.
    pub bound: BTreeSet<Var>,
    /// Variables that it, or a goal inside it, needs.
    pub consumed: BTreeSet<Var>,
    /// Its cost.
    pub cost: Cost,
    /// How often it succeeds.
    pub after: i64,
}

/// When goals produce and first need variables, from their start.
pub trait UseTimes {
    /// When goal `goal` (an index) produces a variable that it binds.
    ///
    /// # Errors
    /// The profile contradicts itself.
    fn production(&mut self, goal: usize, var: Var) -> Result<f64, Abort>;
    /// When goal `goal` first needs a variable that it consumes.
    ///
    /// # Errors
    /// The profile contradicts itself.
    fn consumption(&mut self, goal: usize, var: Var) -> Result<f64, Abort>;
}

/// The conjunction: all its goals. Those from `first` to `last` are cut into conjuncts.
#[derive(Clone, Copy, Debug)]
pub struct Conjunction<'a> {
    /// All goals.
    pub items: &'a [Item],
    /// The first goal of the parallel conjuncts.
    pub first: usize,
    /// The last.
    pub last: usize,
    /// How often it is executed.
    pub calls: i64,
}

/// A partition and its effect.
#[derive(Clone, Debug, PartialEq)]
pub struct Partition {
    /// The index of each conjunct's first goal, ascending.
    pub starts: Vec<usize>,
    /// The effect of executing it in parallel.
    pub metrics: Metrics,
    /// Variables for which conjuncts wait.
    pub dependent: BTreeSet<Var>,
}

impl Partition {
    /// The value that the search minimises: parallel time plus twice the overheads (section 10).
    pub fn objective(&self) -> f64 {
        self.metrics.par_time + 2.0 * self.metrics.overheads()
    }
}

/// For the simulation of a conjunct: the intervals in which it runs.
type Intervals = Vec<(f64, f64)>;

#[derive(Clone, Copy)]
enum Event {
    Consume(Var),
    Produce,
}

/// Evaluates a partition of the goals up to and including `end` (an index): shared variables (section 11.1), starts
/// (11.2) and metrics (11.6).
///
/// # Errors
/// The numbers contradict each other.
pub fn evaluate(
    c: &Conjunction<'_>,
    starts: &[usize],
    end: usize,
    params: &Params,
    times: &mut dyn UseTimes,
) -> Result<Partition, Abort> {
    let range = |i: usize| starts[i]..starts.get(i + 1).copied().unwrap_or(end + 1);
    let union = |i: usize, f: fn(&Item) -> &BTreeSet<Var>| -> BTreeSet<Var> {
        c.items[range(i)].iter().flat_map(|g| f(g).iter().copied()).collect()
    };
    let costs = |range: std::ops::Range<usize>| -> Result<f64, Abort> {
        Ok(sequence(c.items[range].iter().map(|g| (g.cost, g.after)), c.calls)?.per_call())
    };

    // Variables that a conjunct produces and a later one consumes.
    let mut produced: Vec<BTreeSet<Var>> = (0..starts.len()).map(|i| union(i, |g| &g.bound)).collect();
    let mut consumed: Vec<BTreeSet<Var>> = (0..starts.len()).map(|i| union(i, |g| &g.consumed)).collect();
    let (mut earlier, mut shared) = (BTreeSet::new(), BTreeSet::new());
    for (p, q) in produced.iter().zip(&consumed) {
        shared.extend(q.intersection(&earlier).copied());
        earlier.extend(p.iter().copied());
    }
    for set in produced.iter_mut().chain(&mut consumed) {
        set.retain(|v| shared.contains(v));
    }

    let overlap = params.dependent == DependentConjuncts::ByOverlap;
    let delay = params.sparking_delay as f64;
    let mut ready: BTreeMap<Var, f64> = BTreeMap::new();
    let mut metrics = Metrics { calls: c.calls, ..Metrics::default() };
    let mut dependent = BTreeSet::new();
    let (mut inner, mut first_par, mut sequential) = (f64::NEG_INFINITY, 0.0, 0.0);
    for i in 0..starts.len() {
        let spark = if range(i).end == c.last + 1 { 0.0 } else { params.sparking_cost as f64 };
        let start = i as f64 * delay + spark;
        let own_time = costs(range(i))?;
        sequential += own_time;
        let waits: BTreeSet<Var> = consumed[i].iter().copied().filter(|v| ready.contains_key(v)).collect();
        let (intervals, par, dead) = if overlap {
            let events = events(c, range(i), &waits, &produced[i], times)?;
            let intervals = run(&events, start, own_time, &ready, params)?;
            let par = intervals.iter().map(|(a, b)| b - a).sum();
            let dead = intervals.windows(2).map(|w| w[1].0 - w[0].1).sum();
            metrics.signals += params.signal_cost as f64 * produced[i].len() as f64;
            if i > 0 {
                metrics.waits += params.wait_cost as f64 * waits.len() as f64;
                metrics.future_dead += dead;
            }
            (intervals, par, dead)
        } else {
            (vec![(start, start + own_time)], own_time + spark, 0.0)
        };
        if i == 0 {
            first_par = par;
            inner = par;
        } else {
            inner = inner.max(par + dead + delay * i as f64);
        }
        produce(c, range(i), start, &intervals, &produced[i], times, &mut ready)?;
        dependent.extend(waits);
    }
    let around = costs(0..c.first)? + costs(c.last + 1..c.items.len())?;
    metrics.first_dead = inner - first_par;
    let wakeup = if metrics.first_dead > 0.0 { params.wakeup_delay as f64 } else { 0.0 };
    metrics.par_time = inner + around + wakeup;
    metrics.seq_time = sequential + around;
    metrics.spark = (starts.len() - 1) as f64 * params.sparking_cost as f64;
    metrics.barrier = starts.len() as f64 * params.barrier_cost as f64;
    Ok(Partition { starts: starts.to_vec(), metrics, dependent })
}

/// The events of shared variables in a conjunct, by sequential time (section 11.3). Within one goal the order is that
/// of the original tools, which is not always the order in time.
fn events(
    c: &Conjunction<'_>,
    range: std::ops::Range<usize>,
    waits: &BTreeSet<Var>,
    produced: &BTreeSet<Var>,
    times: &mut dyn UseTimes,
) -> Result<Vec<(f64, Event)>, Abort> {
    let (mut waits, mut produced) = (waits.clone(), produced.clone());
    let (mut events, mut clock) = (Vec::new(), 0.0);
    for goal in range {
        let item = &c.items[goal];
        type Uses = Vec<(Var, f64)>;
        let mut take =
            |left: &mut BTreeSet<Var>, used: &BTreeSet<Var>, consuming: bool| -> Result<Uses, Abort> {
                let mut list = Uses::new();
                for &v in left.intersection(used) {
                    let time =
                        if consuming { times.consumption(goal, v)? } else { times.production(goal, v)? };
                    list.push((v, clock + time));
                }
                left.retain(|v| !used.contains(v));
                list.sort_by(|a, b| b.1.total_cmp(&a.1));
                Ok(list)
            };
        let consumptions = take(&mut waits, &item.consumed, true)?;
        let productions = take(&mut produced, &item.bound, false)?;
        let mut merged = Vec::with_capacity(consumptions.len() + productions.len());
        let (mut cs, mut ps) = (consumptions.iter().peekable(), productions.iter().peekable());
        loop {
            match (cs.peek(), ps.peek()) {
                (None, None) => break,
                (Some(&&(v, t)), None) => {
                    merged.push((t, Event::Consume(v)));
                    cs.next();
                }
                (Some(&&(v, t)), Some(&&(_, p))) if p >= t => {
                    merged.push((t, Event::Consume(v)));
                    cs.next();
                }
                (_, Some(&&(_, p))) => {
                    merged.push((p, Event::Produce));
                    ps.next();
                }
            }
        }
        events.extend(merged.into_iter().rev());
        clock += item.cost.per_call();
    }
    Ok(events)
}

/// Runs a conjunct from `start`: the intervals in which it is not blocked (section 11.4).
fn run(
    events: &[(f64, Event)],
    start: f64,
    own_time: f64,
    ready: &BTreeMap<Var, f64>,
    params: &Params,
) -> Result<Intervals, Abort> {
    let (mut sequential, mut parallel, mut resumed) = (0.0, start, start);
    let mut intervals = Vec::new();
    for &(at, event) in events {
        let now = parallel + (at - sequential);
        match event {
            Event::Consume(var) => {
                let produced = *ready.get(&var).ok_or_else(|| {
                    Abort::contradiction(format!("variable {} is waited for before it is produced", var.0))
                })?;
                parallel = produced.max(now) + params.wait_cost as f64;
                if produced > now {
                    parallel += params.wakeup_delay as f64;
                    intervals.push((resumed, now));
                    resumed = parallel;
                }
            }
            Event::Produce => parallel = now + params.signal_cost as f64,
        }
        sequential = at;
    }
    intervals.push((resumed, parallel + (own_time - sequential)));
    Ok(intervals)
}

/// Records when a conjunct produces variables for later ones (section 11.5).
fn produce(
    c: &Conjunction<'_>,
    range: std::ops::Range<usize>,
    start: f64,
    intervals: &Intervals,
    produced: &BTreeSet<Var>,
    times: &mut dyn UseTimes,
    ready: &mut BTreeMap<Var, f64>,
) -> Result<(), Abort> {
    const SLACK: f64 = 0.0001;
    let lost = || Abort::contradiction("a goal lies outside the time that its conjunct runs");
    let mut now = start;
    let mut rest = intervals.iter().copied().peekable();
    for goal in range {
        loop {
            let (from, to) = *rest.peek().ok_or_else(lost)?;
            if now <= to + SLACK {
                if now < from - SLACK {
                    return Err(lost());
                }
                break;
            }
            rest.next();
            let (next, _) = *rest.peek().ok_or_else(lost)?;
            now += next - to;
        }
        for &var in c.items[goal].bound.intersection(produced) {
            if ready.insert(var, now + times.production(goal, var)?).is_some() {
                return Err(Abort::contradiction(format!("variable {} is produced twice", var.0)));
            }
        }
        now += c.items[goal].cost.per_call();
    }
    Ok(())
}

/// The best partition into at least two conjuncts, if an allowed one exists (section 10).
///
/// # Errors
/// As [`evaluate`].
pub fn best(
    c: &Conjunction<'_>,
    params: &Params,
    times: &mut dyn UseTimes,
) -> Result<Option<Partition>, Abort> {
    let second = match params.best {
        BestAlgorithm::Greedy => Second::Never,
        BestAlgorithm::CompleteSize(n) if n < i64::try_from(c.items.len()).unwrap_or(i64::MAX) => {
            Second::Never
        }
        BestAlgorithm::Complete | BestAlgorithm::CompleteSize(_) => Second::Always,
        BestAlgorithm::CompleteBranches(n) => Second::Below(n),
    };
    let start = evaluate(c, &[c.first], c.first, params, times)?;
    let mut search = Search { c, params, times, second, tests: 0, best: None };
    search.explore(start, c.first)?;
    Ok(search.best)
}

/// Whether the less promising choice is explored too.
#[derive(Clone, Copy)]
enum Second {
    Never,
    Always,
    /// If fewer states than this were tested before this state's choices.
    Below(i64),
}

struct Search<'a, 'b> {
    c: &'a Conjunction<'a>,
    params: &'a Params,
    times: &'b mut dyn UseTimes,
    second: Second,
    tests: i64,
    best: Option<Partition>,
}

impl Search<'_, '_> {
    fn is_allowed(&self, state: &Partition) -> bool {
        self.params.dependent != DependentConjuncts::No || state.dependent.is_empty()
    }
    /// Counts a state. Returns whether it is worth extending.
    fn test(&mut self, state: &Partition) -> bool {
        self.tests += 1;
        self.is_allowed(state) && self.best.as_ref().is_none_or(|b| state.objective() <= b.objective())
    }
    /// Explores all worthwhile states, depth first, from a state with goals up to `end`. The open choices are in a
    /// list, not on the stack, because a conjunction may have any number of goals.
    fn explore(&mut self, state: Partition, end: usize) -> Result<(), Abort> {
        let mut open = vec![Open { state, end, unless_tests: None }];
        while let Some(Open { state, end, unless_tests }) = open.pop() {
            if let Some(before) = unless_tests {
                let follow = match self.second {
                    Second::Never => false,
                    Second::Always => true,
                    Second::Below(limit) => before < limit,
                };
                if !follow || !self.test(&state) {
                    continue;
                }
            }
            if end == self.c.last {
                self.offer(state);
                continue;
            }
            let next = end + 1;
            let (first, second) = self.choices(state, next)?;
            let before = self.tests;
            if let Some(second) = second {
                open.push(Open { state: second, end: next, unless_tests: Some(before) });
            }
            if self.test(&first) {
                open.push(Open { state: first, end: next, unless_tests: None });
            }
        }
        Ok(())
    }
    /// A state with all goals. Among equal ones the last is used.
    fn offer(&mut self, state: Partition) {
        if state.starts.len() > 1 && self.best.as_ref().is_none_or(|b| state.objective() <= b.objective()) {
            self.best = Some(state);
        }
    }
    /// The next goal joins the last conjunct or opens a new one. The better choice comes first; there is only one if
    /// the other is not allowed.
    fn choices(&mut self, state: Partition, next: usize) -> Result<(Partition, Option<Partition>), Abort> {
        let joined = evaluate(self.c, &state.starts, next, self.params, self.times)?;
        let mut starts = state.starts;
        starts.push(next);
        let opened = evaluate(self.c, &starts, next, self.params, self.times)?;
        Ok(if !self.is_allowed(&joined) {
            (opened, None)
        } else if !self.is_allowed(&opened) {
            (joined, None)
        } else if opened.objective() > joined.objective() {
            (joined, Some(opened))
        } else {
            (opened, Some(joined))
        })
    }
}

/// A state to extend.
struct Open {
    state: Partition,
    /// The last goal in it.
    end: usize,
    /// For a second choice, which is not tested yet: how many states were tested before its first choice.
    unless_tests: Option<i64>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Variables are produced at the end of their goal and needed at its start.
    struct Ends<'a>(&'a [Item]);

    impl UseTimes for Ends<'_> {
        fn production(&mut self, goal: usize, _: Var) -> Result<f64, Abort> {
            Ok(self.0[goal].cost.per_call())
        }
        fn consumption(&mut self, _: usize, _: Var) -> Result<f64, Abort> {
            Ok(0.0)
        }
    }

    fn item(cost: f64, consumed: &[u32], bound: &[u32]) -> Item {
        Item {
            bound: bound.iter().copied().map(Var).collect(),
            consumed: consumed.iter().copied().map(Var).collect(),
            cost: if cost == 0.0 { Cost::Trivial(10) } else { Cost::PerCall(10, cost) },
            after: 10,
        }
    }
    fn conjunction(items: &[Item]) -> Conjunction<'_> {
        let costly = |i: &Item| i.cost.per_call() > 2000.0;
        Conjunction {
            items,
            first: items.iter().position(costly).unwrap_or(0),
            last: items.iter().rposition(costly).unwrap_or(items.len() - 1),
            calls: 10,
        }
    }

    #[test]
    fn two_independent_goals_overlap() {
        let items = [
            item(0.0, &[], &[1]),
            item(10_000.0, &[1], &[2]),
            item(9000.0, &[1], &[3]),
            item(5.0, &[2, 3], &[]),
        ];
        let c = conjunction(&items);
        let found = best(&c, &Params::default(), &mut Ends(&items)).unwrap().unwrap();
        assert_eq!(found.starts, [1, 2]);
        assert!(found.dependent.is_empty());
        let m = found.metrics;
        // The first conjunct pays its spark and so starts at 100; it runs 10,000. The second starts after the sparking
        // delay of 1000 and needs 9000.
        assert_eq!((m.seq_time, m.par_time), (19_005.0, 10_005.0));
        assert_eq!((m.spark, m.barrier, m.signals, m.waits), (100.0, 200.0, 0.0, 0.0));
        assert_eq!((m.first_dead, m.future_dead), (0.0, 0.0));
    }

    #[test]
    fn a_consumer_waits_and_wakes_up() {
        // The second needs what the first has at its end, so there is no gain.
        let items = [item(5000.0, &[], &[1]), item(4000.0, &[1], &[2])];
        let c = conjunction(&items);
        let found = best(&c, &Params::default(), &mut Ends(&items)).unwrap().unwrap();
        assert_eq!(found.dependent, BTreeSet::from([Var(1)]));
        let m = found.metrics;
        // First: starts at 100, 5000 of work and a signal of 100; the variable is there at 5100. Second: starts at
        // 1000, blocked at once until 5100, then 200 to wait and 1000 to wake up: it runs from 6300 to 10,300.
        assert_eq!((m.signals, m.waits), (100.0, 200.0));
        assert_eq!(m.future_dead, 5300.0);
        assert_eq!(m.first_dead, (4000.0 + 5300.0 + 1000.0) - 5100.0);
        assert_eq!(m.par_time, 10_300.0 + 1000.0);
        assert_eq!(m.seq_time, 9000.0);
        assert!(m.speedup() < 1.0);

        let independent = Params { dependent: DependentConjuncts::No, ..Params::default() };
        assert_eq!(best(&c, &independent, &mut Ends(&items)), Ok(None));
    }

    fn items() -> impl Strategy<Value = Vec<Item>> {
        // Goal i may bind variable i and use those of earlier goals.
        prop::collection::vec((prop_oneof![Just(0.0), 1.0..20_000.0_f64], any::<u8>(), any::<bool>()), 2..8)
            .prop_map(|goals| {
                goals
                    .iter()
                    .enumerate()
                    .map(|(i, &(cost, uses, binds))| {
                        let used: Vec<u32> =
                            (0..i as u32).filter(|v| uses & (1 << v) != 0 && goals[*v as usize].2).collect();
                        item(
                            f64::round(cost),
                            &used,
                            if binds { std::slice::from_ref(&VARS[i]) } else { &[] },
                        )
                    })
                    .collect()
            })
    }
    const VARS: [u32; 8] = [0, 1, 2, 3, 4, 5, 6, 7];

    fn all_partitions(c: &Conjunction<'_>, params: &Params) -> Vec<Partition> {
        let cuts = c.last - c.first;
        (1..1_u32 << cuts)
            .map(|mask| {
                let starts: Vec<usize> = std::iter::once(c.first)
                    .chain((0..cuts).filter(|k| mask & (1 << k) != 0).map(|k| c.first + 1 + k))
                    .collect();
                evaluate(c, &starts, c.last, params, &mut Ends(c.items)).unwrap()
            })
            .collect()
    }

    proptest! {
        #[test]
        fn parallel_time_is_never_below_the_longest_conjunct_with_its_overheads(items in items()) {
            let c = Conjunction { items: &items, first: 0, last: items.len() - 1, calls: 10 };
            for p in all_partitions(&c, &Params::default()) {
                let m = p.metrics;
                let ends = p.starts[1..].iter().copied().chain([items.len()]);
                for (start, end) in p.starts.iter().zip(ends) {
                    let own: f64 = items[*start..end].iter().map(|g| g.cost.per_call()).sum();
                    // Including its own waits and signals.
                    let inside = &items[*start..end];
                    let used_in = |items: &[Item], v: &Var| items.iter().any(|g| g.consumed.contains(v));
                    let waits = p.dependent.iter().filter(|v| {
                        used_in(inside, v) && items[..*start].iter().any(|g| g.bound.contains(v))
                    });
                    let signals = inside.iter().flat_map(|g| &g.bound).filter(|v| used_in(&items[end..], v));
                    let overheads = 200.0 * waits.count() as f64 + 100.0 * signals.count() as f64;
                    prop_assert!(m.par_time >= own + overheads - 1e-6, "{} < {own} + {overheads}", m.par_time);
                }
                let k = p.starts.len() as f64;
                prop_assert_eq!((m.spark, m.barrier), ((k - 1.0) * 100.0, k * 100.0));
                prop_assert_eq!((m.signals % 100.0, m.waits % 200.0), (0.0, 0.0));
                prop_assert!(m.first_dead >= 0.0 && m.future_dead >= 0.0);
                prop_assert_eq!(p.dependent.is_empty(), m.waits == 0.0);
            }
        }

        #[test]
        fn the_search_finds_only_partitions_and_greedy_is_complete_with_no_branches(items in items()) {
            let c = Conjunction { items: &items, first: 0, last: items.len() - 1, calls: 10 };
            let with = |best_algorithm| {
                let params = Params { best: best_algorithm, ..Params::default() };
                best(&c, &params, &mut Ends(&items)).unwrap()
            };
            let all = all_partitions(&c, &Params::default());
            let least = all.iter().map(Partition::objective).fold(f64::INFINITY, f64::min);
            let complete = with(BestAlgorithm::Complete);
            if let Some(found) = &complete {
                prop_assert!(all.contains(found));
                prop_assert!(found.objective() >= least);
            }
            prop_assert_eq!(with(BestAlgorithm::Greedy), with(BestAlgorithm::CompleteBranches(0)));
            prop_assert_eq!(with(BestAlgorithm::CompleteBranches(i64::MAX)), complete.clone());
            prop_assert_eq!(with(BestAlgorithm::CompleteSize(100)), complete);
            prop_assert_eq!(with(BestAlgorithm::CompleteSize(1)), with(BestAlgorithm::Greedy));
        }
    }
}
