//! Latency: what a second of CPU time costs the one who waits for the run.
//!
//! A second of one thread while three others run costs less than a second alone. So each sample's CPU time is
//! divided by the number of threads that ran at that time, over all processes of the recording (the
//! definition of `perf report --latency`). The sum is the time in which at least one thread ran.
//!
//! No switch records are needed. Between two samples of a thread, `c` seconds of CPU time in `t` seconds of
//! wall-clock time, it ran with the *density* `c / t`. The densities of all threads added up are the
//! parallelism at that time. Where threads take turns in bursts shorter than the time between two samples,
//! the sum says "together" or "in turns" alike: the truth then lies between [`Latency::least_ns`] and the
//! sum.

use crate::model::{Cell, Id as _, ObjectKind, Profile, StackId, ThreadId, Weight};
use pct_num::{float, rounded};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// CPU time divided by parallelism.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Latency {
    /// The cells that were given, in their order, with latency in the place of CPU time.
    pub cells: Vec<Cell>,
    /// Their latency, in nanoseconds, by the number of threads that ran at the same time.
    pub by_parallelism: BTreeMap<u32, u64>,
    /// Nanoseconds of CPU time of their stacks, by the number of threads that ran at the same time.
    pub cpu_by_parallelism: FxHashMap<StackId, BTreeMap<u32, u64>>,
    /// Time in which a thread of the recording ran, in nanoseconds: at most (if bursts overlapped as little
    /// as they can).
    pub most_ns: u64,
    /// The same: at least (if bursts overlapped as much as they can).
    pub least_ns: u64,
}

/// From one sample of a thread to the next, it ran with this density.
struct Stretch {
    begin_ns: u64,
    end_ns: u64,
    thread: ThreadId,
    stack: StackId,
    weight_ns: u64,
    /// CPU seconds for each second of wall-clock time, 0 to 1.
    density: f64,
}

impl Latency {
    /// Weighs the samples in [`Profile::timeline`] and gives each of `cells` its share. `None`: the samples
    /// have no times.
    #[must_use]
    pub fn weigh(profile: &Profile, cells: &[Cell]) -> Option<Self> {
        if profile.timeline.is_empty() {
            return None;
        }
        let stretches = stretches(profile);
        let swept = Swept::over(&stretches);
        let mut sums: FxHashMap<(ThreadId, StackId), Weight> =
            cells.iter().map(|cell| ((cell.thread, cell.stack), Weight::ZERO)).collect();
        let mut by_parallelism: BTreeMap<u32, f64> = BTreeMap::new();
        let mut cpu_by_parallelism: FxHashMap<StackId, BTreeMap<u32, u64>> = FxHashMap::default();
        for stretch in &stretches {
            let Some(sum) = sums.get_mut(&(stretch.thread, stretch.stack)) else { continue };
            let parallelism = swept.parallelism(stretch);
            let latency = float(stretch.weight_ns) / parallelism;
            *sum += weight(profile, stretch.stack, latency);
            let class = class(parallelism);
            *by_parallelism.entry(class).or_default() += latency;
            *cpu_by_parallelism.entry(stretch.stack).or_default().entry(class).or_default() +=
                stretch.weight_ns;
        }
        let cells = cells.iter().map(|cell| Cell { weight: sums[&(cell.thread, cell.stack)], ..*cell });
        Some(Self {
            cells: cells.collect(),
            by_parallelism: by_parallelism.into_iter().map(|(n, ns)| (n, nanoseconds(ns))).collect(),
            cpu_by_parallelism,
            most_ns: nanoseconds(swept.most),
            least_ns: nanoseconds(swept.least),
        })
    }
}

/// One sample's latency. Time in the kernel stays apart.
fn weight(profile: &Profile, stack: StackId, latency: f64) -> Weight {
    let object = profile.functions[profile.leaf(stack)].object;
    let ns = nanoseconds(latency);
    let (user_ns, system_ns) =
        if profile.objects[object].kind == ObjectKind::Kernel { (0, ns) } else { (ns, 0) };
    Weight { samples: 1, user_ns, system_ns }
}

fn nanoseconds(ns: f64) -> u64 {
    // Sums of the recording's own nanoseconds: never negative, never near the end of the range.
    rounded(ns.min(9e18))
}

fn class(parallelism: f64) -> u32 {
    u32::try_from(rounded(parallelism.clamp(1.0, 1e6))).unwrap_or(1)
}

/// The samples as stretches of their threads, in order of their ends. Samples of waiting threads (clock
/// `wall`) only end one.
fn stretches(profile: &Profile) -> Vec<Stretch> {
    let wall = profile.by_wall_clock();
    // By thread: the time of its last sample, and CPU time that did not fit before it.
    let mut last: Vec<Option<(u64, u64)>> = vec![None; profile.threads.len()];
    let mut stretches = Vec::with_capacity(profile.timeline.len());
    for sample in &profile.timeline {
        let before = &mut last[sample.thread.index()];
        let object = profile.functions[profile.leaf(sample.stack)].object;
        if wall && profile.objects[object].kind == ObjectKind::Kernel {
            *before = Some((sample.time_ns, 0));
            continue;
        }
        let (begin, carried) = before.unwrap_or((sample.time_ns.saturating_sub(sample.weight_ns), 0));
        let room = sample.time_ns.saturating_sub(begin);
        // A sample stands for the mean period, its own was longer or shorter. What is too much for one stretch ran in a
        // neighbour, so nothing but the last bit of a thread is lost to the cap.
        let cpu = sample.weight_ns.saturating_add(carried);
        let fits = cpu.min(room);
        *before = Some((sample.time_ns, (cpu - fits).min(sample.weight_ns)));
        stretches.push(Stretch {
            begin_ns: begin,
            end_ns: sample.time_ns,
            thread: sample.thread,
            stack: sample.stack,
            weight_ns: sample.weight_ns,
            density: if room == 0 { 0.0 } else { float(fits) / float(room) },
        });
    }
    stretches
}

/// The parallelism over time, as the integral of one over it.
struct Swept {
    /// Times at which a density changed, and the integral of 1 / max(1, parallelism) up to there.
    times: Vec<u64>,
    integral: Vec<f64>,
    most: f64,
    least: f64,
}

impl Swept {
    fn over(stretches: &[Stretch]) -> Self {
        // (time, change of the density): a stretch's end and the next one's begin are at the same time.
        let mut changes: Vec<(u64, f64)> = stretches
            .iter()
            .filter(|stretch| stretch.density > 0.0)
            .flat_map(|s| [(s.begin_ns, s.density), (s.end_ns, -s.density)])
            .collect();
        // At the same time begins come before ends.
        changes.sort_by(|a, b| a.0.cmp(&b.0).then(b.1.total_cmp(&a.1)));
        let mut swept = Self { times: Vec::new(), integral: Vec::new(), most: 0.0, least: 0.0 };
        // How many stretches have each density now. Densities are positive, so their bits have their order.
        let mut running: BTreeMap<u64, u32> = BTreeMap::new();
        let (mut parallelism, mut integral, mut now) = (0.0_f64, 0.0, changes.first().map_or(0, |c| c.0));
        for at_once in changes.chunk_by(|a, b| a.0 == b.0) {
            let time = at_once[0].0;
            let passed = float(time - now);
            integral += passed / parallelism.max(1.0);
            swept.most += passed * parallelism.clamp(0.0, 1.0);
            swept.least +=
                passed * running.last_key_value().map_or(0.0, |(bits, _)| f64::from_bits(*bits)).min(1.0);
            now = time;
            swept.times.push(time);
            swept.integral.push(integral);
            for &(_, change) in at_once {
                parallelism += change;
                let density = change.abs().to_bits();
                if change > 0.0 {
                    *running.entry(density).or_default() += 1;
                } else if let Some(count) = running.get_mut(&density).filter(|count| **count > 1) {
                    *count -= 1;
                } else {
                    running.remove(&density);
                }
            }
            if running.is_empty() {
                // Rounding does not gather.
                parallelism = 0.0;
            }
        }
        swept
    }

    /// How many threads ran during a stretch, on (harmonic) average; at least 1.
    fn parallelism(&self, stretch: &Stretch) -> f64 {
        let at = |time: u64| self.times.binary_search(&time).ok().map(|at| self.integral[at]);
        match (at(stretch.begin_ns), at(stretch.end_ns)) {
            (Some(begin), Some(end)) if end > begin => {
                (float(stretch.end_ns - stretch.begin_ns) / (end - begin)).max(1.0)
            }
            // A stretch without duration: nothing is known of it.
            _ => 1.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::tests::add_folded;
    use crate::model::{Builder, Process, TimedSample};
    use proptest::prelude::*;

    /// A recording of threads: for each, its function and the times of its samples in ms, each of 1 ms of CPU time.
    fn recording(threads: &[(&str, &[u64])]) -> Profile {
        let mut b = Builder::new(true);
        let process = b.process(Process::default());
        for (at, (function, times)) in (1_u32..).zip(threads) {
            let thread = b.thread(process, at, "");
            add_folded(&mut b, thread, &format!("{function} {}", times.len()));
            for ms in *times {
                let stack = StackId::from_index(at as usize - 1);
                b.add_timed(TimedSample { time_ns: ms * 1_000_000, weight_ns: 1_000_000, thread, stack });
            }
        }
        b.finish()
    }

    fn milliseconds(latency: &Latency) -> Vec<f64> {
        latency.cells.iter().map(|cell| (cell.weight.cpu_ns() as f64 / 1e5).round() / 10.0).collect()
    }

    #[test]
    fn alone_a_second_is_a_second_and_together_it_is_shared() {
        let (first, second): (Vec<u64>, Vec<u64>) = ((1..=20).collect(), (11..=20).collect());
        let p = recording(&[("alone_then_shared", &first), ("shared", &second)]);
        let latency = Latency::weigh(&p, &p.cells).unwrap();
        assert_eq!(milliseconds(&latency), [15.0, 5.0]);
        assert_eq!(latency.by_parallelism, BTreeMap::from([(1, 10_000_000), (2, 10_000_000)]));
        assert_eq!((latency.most_ns, latency.least_ns), (20_000_000, 20_000_000));
        let classes = |thread: usize| latency.cpu_by_parallelism[&StackId::from_index(thread)].clone();
        let ten = 10_000_000;
        assert_eq!(classes(0), BTreeMap::from([(1, ten), (2, ten)]));
        assert_eq!(classes(1), BTreeMap::from([(2, ten)]));
    }

    #[test]
    fn turns_shorter_than_the_time_between_samples_give_an_interval() {
        // Two threads, a sample each 2 ms of 1 ms: in turns or together, the samples are the same.
        let (even, odd): (Vec<u64>, Vec<u64>) =
            ((1..=50).map(|n| 2 * n).collect(), (1..=50).map(|n| 2 * n + 1).collect());
        let p = recording(&[("a", &even), ("b", &odd)]);
        let latency = Latency::weigh(&p, &p.cells).unwrap();
        assert!(latency.most_ns > 98_000_000 && latency.least_ns < 52_000_000, "{latency:?}");
    }

    #[test]
    fn a_thread_whose_periods_vary_is_never_two() {
        let times = [1, 2, 5, 5, 6, 7, 9, 9, 10, 11];
        let p = recording(&[("a", &times)]);
        let latency = Latency::weigh(&p, &p.cells).unwrap();
        assert_eq!(milliseconds(&latency), [10.0]);
        assert_eq!(latency.by_parallelism.keys().copied().collect::<Vec<_>>(), [1]);
    }

    #[test]
    fn cells_that_are_left_out_still_run_beside_the_others() {
        let times: Vec<u64> = (1..=10).collect();
        let p = recording(&[("a", &times), ("b", &times)]);
        let latency = Latency::weigh(&p, &p.cells[..1]).unwrap();
        assert_eq!(milliseconds(&latency), [5.0]);
    }

    #[test]
    fn without_times_there_is_no_latency() {
        let p = crate::model::tests::folded("main 3");
        assert_eq!(Latency::weigh(&p, &p.cells), None);
    }

    proptest! {
        /// Threads that run all the time: each sample weighs one over their number, whatever their phases.
        #[test]
        fn threads_that_always_run_share_equally(n in 1_usize..6, shift in proptest::collection::vec(0_u64..1_000_000, 6)) {
            let mut b = Builder::new(true);
            let process = b.process(Process::default());
            for (at, shift) in shift.iter().enumerate().take(n) {
                let thread = b.thread(process, at as u32 + 1, "");
                add_folded(&mut b, thread, &format!("f{at} 1000"));
                for k in 1..=1000_u64 {
                    let time_ns = 10_000_000 + k * 1_000_000 + shift;
                    b.add_timed(TimedSample { time_ns, weight_ns: 1_000_000, thread, stack: StackId::from_index(at) });
                }
            }
            let p = b.finish();
            let latency = Latency::weigh(&p, &p.cells).unwrap();
            let sum: u64 = latency.cells.iter().map(|cell| cell.weight.cpu_ns()).sum();
            prop_assert!((998e6..=1003e6).contains(&(sum as f64)), "{sum}");
            prop_assert!((latency.most_ns as f64 - sum as f64).abs() < 3e6);
        }
    }
}
