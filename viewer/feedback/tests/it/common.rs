//! An independent implementation of section 11, written without seeing the first, and small things that tests share.

use std::collections::{BTreeMap, BTreeSet};

use pct_feedback::message::Message;
use pct_feedback::model::DependentConjuncts;
use pct_feedback::walk::{Observer, Stopped};
use pct_feedback::{Candidate, Params};

/// Collects messages, and stops at contradictions.
#[derive(Default)]
pub(crate) struct Quiet(pub(crate) Vec<Message>);
impl Observer for Quiet {
    fn say(&mut self, message: Message) {
        self.0.push(message);
    }
}

/// Goes on without contexts whose figures contradict each other.
#[derive(Default)]
pub(crate) struct Tolerant(pub(crate) Vec<Stopped>);
impl Observer for Tolerant {
    fn say(&mut self, _: Message) {}
    fn goes_on_without(&mut self, stopped: &Stopped) -> bool {
        self.0.push(stopped.clone());
        true
    }
}

/// A goal in the independent implementation.
#[derive(Clone, Debug)]
pub(crate) struct Goal {
    pub(crate) cost: f64,
    /// Variables with the time at which they are first needed.
    pub(crate) needs: Vec<(u32, f64)>,
    /// Variables that it binds, with the times at which they are available.
    pub(crate) gives: Vec<(u32, f64)>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Metrics {
    pub(crate) seq: f64,
    pub(crate) par: f64,
    pub(crate) overheads: f64,
    pub(crate) signals: f64,
    pub(crate) waits: f64,
    pub(crate) first_dead: f64,
    pub(crate) future_dead: f64,
    pub(crate) dependent: BTreeSet<u32>,
}

impl Metrics {
    pub(crate) fn objective(&self) -> f64 {
        self.par + 2.0 * self.overheads
    }
}

/// Section 11 again: `ends` are the goals (from `f`) after which a conjunct ends, including the last one.
pub(crate) fn naive(all: &[Goal], f: usize, l: usize, ends: &[usize], p: &Params) -> Metrics {
    let overlap = p.dependent == DependentConjuncts::ByOverlap;
    let conjuncts: Vec<&[Goal]> =
        ends.iter().enumerate().map(|(i, &e)| &all[if i == 0 { f } else { ends[i - 1] + 1 }..=e]).collect();
    let m = conjuncts.len();
    let uses = |c: &[Goal]| -> BTreeSet<u32> { c.iter().flat_map(|g| g.needs.iter().map(|n| n.0)).collect() };
    let gives =
        |c: &[Goal]| -> BTreeSet<u32> { c.iter().flat_map(|g| g.gives.iter().map(|v| v.0)).collect() };
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
        // The events, goal by goal.
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
            let mut ps: Vec<(u32, f64)> = Vec::new();
            for &(v, t) in &g.gives {
                if sends.remove(&v) {
                    ps.push((v, x + t));
                }
            }
            ps.sort_by(|a, b| b.1.partial_cmp(&a.1).unwrap().then(a.0.cmp(&b.0)));
            let mut ps: Vec<f64> = ps.into_iter().map(|p| p.1).collect();
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
        // The times at which its variables are available.
        let (mut x, mut at) = (start, 0);
        for g in *conjunct {
            while x > intervals[at].1 + 0.0001 {
                x += intervals[at + 1].0 - intervals[at].1;
                at += 1;
            }
            for &(v, t) in g.gives.iter().filter(|g| shared.contains(&g.0)) {
                ready.insert(v, x + t);
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

pub(crate) fn close(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-6 * (1.0 + a.abs().max(b.abs()))
}

/// What must be true of every candidate (section 16), by its own figures. With `again`, its metrics are computed again
/// from its goals, which is valid if all its goals are called equally often.
pub(crate) fn check_candidate(c: &Candidate, p: &Params, again: bool) -> Result<(), String> {
    let m = &c.metrics;
    let claim = |holds: bool, what: &str| if holds { Ok(()) } else { Err(format!("{what}: {c:?}")) };
    let count = c.conjuncts.len() as f64;
    claim(count >= 2.0 && m.calls > 0, "two conjuncts or more")?;
    claim(m.spark == (count - 1.0) * p.sparking_cost as f64, "sparks")?;
    claim(m.barrier == count * p.barrier_cost as f64, "barriers")?;
    let multiple = |x: f64, of: i64| of == 0 && x == 0.0 || of != 0 && (x / of as f64).fract() == 0.0;
    claim(multiple(m.signals, p.signal_cost) && multiple(m.waits, p.wait_cost), "signals and waits")?;
    claim(m.first_dead >= 0.0 && m.future_dead >= 0.0, "dead times")?;
    claim(m.speedup() > p.speedup_threshold, "the threshold")?;
    claim(c.dependent.as_ref().is_none_or(|d| !d.is_empty()), "dependent on something")?;
    claim(c.conjuncts.iter().all(|g| !g.is_empty()), "no empty conjunct")?;
    let costly = |goals: &[pct_feedback::Goal]| goals.iter().any(|g| g.above);
    claim(c.conjuncts.first().is_some_and(|g| g[0].above), "the first goal is costly")?;
    claim(c.conjuncts.last().is_some_and(|g| g[g.len() - 1].above), "the last goal is costly")?;
    claim(!costly(&c.before) && !costly(&c.after), "costly goals are in conjuncts")?;
    if p.dependent == DependentConjuncts::No {
        claim(c.dependent.is_none(), "independence")?;
    }
    if !again {
        return Ok(());
    }
    let around = c.before_cost + c.after_cost;
    for conjunct in &c.conjuncts {
        let own: f64 = conjunct.iter().map(|g| g.cost).sum();
        claim(m.par_time >= own + around - 1e-6 * own.abs() - 1e-6, "no faster than a conjunct")?;
    }
    let mut goals = Vec::new();
    let mut ends = Vec::new();
    for conjunct in &c.conjuncts {
        goals.extend(conjunct.iter().map(|g| Goal {
            cost: g.cost,
            needs: g.consumptions.iter().map(|u| (u.0.0, u.1)).collect(),
            gives: g.productions.iter().map(|u| (u.0.0, u.1)).collect(),
        }));
        ends.push(goals.len() - 1);
    }
    let mut r = naive(&goals, 0, goals.len() - 1, &ends, p);
    r.par += around;
    r.seq += around;
    for (got, want, what) in [
        (m.seq_time, r.seq, "sequential time"),
        (m.par_time, r.par, "parallel time"),
        (m.signals, r.signals, "signals"),
        (m.waits, r.waits, "waits"),
        (m.first_dead, r.first_dead, "dead time of the first"),
        (m.future_dead, r.future_dead, "dead time of futures"),
    ] {
        claim(close(got, want), &format!("{what} is {got}, again {want}"))?;
    }
    Ok(())
}
