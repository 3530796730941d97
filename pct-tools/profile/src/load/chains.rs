//! What the critical path of a process is found in, in terms of threads and places of the trie.

use super::tally::NodeIndex;
use crate::ids::{ProcessId, StackId, ThreadId};
use crate::waits::path::{Chain, Life, PathWait, Waker};

/// Of one file. Times are CLOCK_REALTIME nanoseconds, as those of samples.
pub(super) struct RawChain {
    pub(super) process: usize,
    pub(super) begin: u64,
    pub(super) end: u64,
    /// Number of its first thread.
    pub(super) first_thread: usize,
    pub(super) threads: Vec<RawLife>,
}

pub(super) struct RawLife {
    pub(super) tid: u32,
    pub(super) begin: u64,
    pub(super) end: u64,
    /// Who made it, and when.
    pub(super) maker: Option<(usize, u64)>,
    pub(super) waits: Vec<RawPathWait>,
}

pub(super) struct RawPathWait {
    pub(super) begin: u64,
    pub(super) end: u64,
    pub(super) node: NodeIndex,
    pub(super) object: usize,
    /// Who ended it, when, and where; no place: by its own end.
    pub(super) ended_by: Option<(usize, u64, Option<NodeIndex>)>,
}

impl RawChain {
    /// The thread of this kernel's id that ended before a wait for its end was over, and when.
    pub(super) fn ended_thread(&self, tid: u64, begin: u64, end: u64) -> Option<(usize, u64)> {
        let lives = self.threads.iter().enumerate().rev();
        let mut of_this_id = lives.filter(|(_, life)| u64::from(life.tid) == tid && life.begin <= end);
        // Its end is found some time after it. It had ended when the wait was over.
        of_this_id.next().map(|(thread, life)| (thread, life.end.clamp(begin, end)))
    }

    /// In terms of the profile, whose times count from `start`. `place`: where objects are now.
    pub(super) fn finish(
        self,
        start: u64,
        (processes, threads): (&[ProcessId], &[ThreadId]),
        place: &[usize],
        stack_of: impl Fn(NodeIndex) -> StackId,
    ) -> Chain {
        let first = self.first_thread;
        let time = |at: u64| at.saturating_sub(start);
        let wait = |wait: RawPathWait| {
            let ended_by = wait.ended_by.map(|(thread, at, node)| Waker {
                thread: thread - first,
                time: time(at),
                stack: node.map(&stack_of),
            });
            PathWait {
                begin: time(wait.begin),
                end: time(wait.end),
                stack: stack_of(wait.node),
                object: place[wait.object],
                ended_by,
            }
        };
        let life = |(number, life): (usize, RawLife)| {
            let mut waits: Vec<PathWait> = life.waits.into_iter().map(wait).collect();
            waits.sort_by_key(|wait| (wait.end, wait.begin));
            Life {
                thread: threads[first + number],
                begin: time(life.begin),
                end: time(life.end),
                maker: life.maker.map(|(thread, at)| (thread - first, time(at))),
                waits,
            }
        };
        Chain {
            process: processes[self.process],
            begin: time(self.begin),
            end: time(self.end),
            threads: self.threads.into_iter().enumerate().map(life).collect(),
        }
    }
}
