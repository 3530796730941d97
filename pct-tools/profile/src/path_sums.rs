//! What the critical path of a process consists of: functions, threads, and where it goes from one thread to another.

use crate::ids::{StackId, ThreadId};
use crate::model::Profile;
use crate::waits::path::{Chain, Path, What};
use pct_num::{float, rounded};
use rustc_hash::FxHashMap;
use std::cmp::Reverse;

/// Sums over the pieces of a path. All of them together are its length.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PathSums {
    /// Nanoseconds on a CPU by the place of the samples, the longest first.
    pub on_cpu: Vec<(StackId, u64)>,
    /// Nanoseconds in which the path's thread neither had a CPU nor waited in a way that is recorded.
    pub off_cpu_ns: u64,
    /// Nanoseconds in which the path's thread was woken and did not run yet.
    pub hand_over_ns: u64,
    /// Nanoseconds in which the path's thread was made and had not begun yet.
    pub begins_ns: u64,
    /// Nanoseconds of waits that nobody in the recording ended, by the place of the wait, the longest first.
    pub outside: Vec<(StackId, u64)>,
    /// Nanoseconds before a thread began of which it is not known who made it.
    pub unknown_ns: u64,
    /// Nanoseconds and pieces of each thread, the longest first.
    pub threads: Vec<(ThreadId, u64, u64)>,
    /// Where it goes from one thread to another.
    pub changes: Vec<ThreadChange>,
}

/// Where the path goes from one thread to another, by where those threads were and by the object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ThreadChange {
    /// Where the thread waited.
    pub waiter: StackId,
    /// Where the other one ended the wait; `None`: by its own end.
    pub waker: Option<StackId>,
    /// What was waited for: its place in [`crate::waits::Waits::objects`].
    pub object: usize,
    /// How often.
    pub count: u64,
    /// Nanoseconds from the wake-up to the end of the wait.
    pub hand_over_ns: u64,
}

impl PathSums {
    /// Sums up a path of this profile, which was loaded with its timeline.
    #[must_use]
    pub fn sum_up(profile: &Profile, chain: &Chain, path: &Path) -> Self {
        let mut sums = Self::default();
        let mut threads: FxHashMap<ThreadId, (u64, u64)> = FxHashMap::default();
        let mut outside: FxHashMap<StackId, u64> = FxHashMap::default();
        let mut changes: FxHashMap<(usize, StackId, Option<StackId>), (u64, u64)> = FxHashMap::default();
        // The pieces in which each thread goes on, in order of time.
        let mut goes_on: FxHashMap<ThreadId, Vec<(u64, u64)>> = FxHashMap::default();
        let mut goes_on_ns = 0;
        for piece in &path.pieces {
            let life = &chain.threads[piece.thread];
            let (ns, count) = threads.entry(life.thread).or_default();
            (*ns, *count) = (*ns + piece.ns(), *count + 1);
            match piece.what {
                What::GoesOn => {
                    goes_on_ns += piece.ns();
                    goes_on.entry(life.thread).or_default().push((piece.from, piece.to));
                }
                What::HandOver(_) => sums.hand_over_ns += piece.ns(),
                What::Begins => sums.begins_ns += piece.ns(),
                What::Outside(number) => *outside.entry(life.waits[number].stack).or_default() += piece.ns(),
                What::Unknown => sums.unknown_ns += piece.ns(),
            }
        }
        for &(thread, number) in &path.changes {
            let wait = &chain.threads[thread].waits[number];
            let Some(waker) = wait.ended_by else { continue };
            let (count, ns) = changes.entry((wait.object, wait.stack, waker.stack)).or_default();
            (*count, *ns) = (*count + 1, *ns + wait.end.saturating_sub(waker.time));
        }
        let mut on_cpu: FxHashMap<StackId, u64> = FxHashMap::default();
        for sample in &profile.timeline {
            let Some(spans) = goes_on.get(&sample.thread) else { continue };
            let at = spans.partition_point(|(_, to)| *to < sample.time_ns);
            if spans.get(at).is_some_and(|(from, _)| *from < sample.time_ns) {
                *on_cpu.entry(sample.stack).or_default() += sample.weight_ns;
            }
        }
        // A sample stands for a period on average. On a short path the sum may be more than the time there was.
        let sampled: u64 = on_cpu.values().sum();
        sums.on_cpu = longest_first(on_cpu);
        if sampled > goes_on_ns {
            for (_, ns) in &mut sums.on_cpu {
                *ns = rounded(float(*ns) * float(goes_on_ns) / float(sampled));
            }
        }
        sums.off_cpu_ns = goes_on_ns.saturating_sub(sums.on_cpu.iter().map(|(_, ns)| ns).sum());
        sums.outside = longest_first(outside);
        sums.threads = threads.into_iter().map(|(thread, (ns, pieces))| (thread, ns, pieces)).collect();
        sums.threads.sort_by_key(|(thread, ns, _)| (Reverse(*ns), *thread));
        let change = |((object, waiter, waker), (count, hand_over_ns))| ThreadChange {
            waiter,
            waker,
            object,
            count,
            hand_over_ns,
        };
        sums.changes = changes.into_iter().map(change).collect();
        sums.changes.sort_by_key(|change| {
            (Reverse(change.count), Reverse(change.hand_over_ns), change.object, change.waiter, change.waker)
        });
        sums
    }
}

fn longest_first(sums: FxHashMap<StackId, u64>) -> Vec<(StackId, u64)> {
    let mut sums: Vec<_> = sums.into_iter().collect();
    sums.sort_by_key(|(stack, ns)| (Reverse(*ns), *stack));
    sums
}
