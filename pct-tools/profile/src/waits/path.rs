//! The critical path of a process: which thread's work kept the end from coming sooner.
//!
//! ```text
//! main    ====|........ waits for B's end .............|====      path: main, hand-over, B, hand-over, A, ...
//! B              |.. waits ..|~~|=====================|
//! A        ==================|  ^ woken by A, and did not run yet
//! ```
//!
//! From the end backwards: a thread's time up to its last wait is on the path. That wait was ended by another thread;
//! the path goes on there. If nobody is known to have ended it (a timer, a disk, another process), it is *outside* and
//! on the path itself. At a thread's start the path goes on in the thread that made it.
//!
//! Invariant: the pieces abut, so their sum is the time from the process's start to its end.

use crate::ids::{ProcessId, StackId, ThreadId};

/// What the path of one process is found in. Times are nanoseconds from the recording's start.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Chain {
    /// Whose it is.
    pub process: ProcessId,
    /// When it began.
    pub begin: u64,
    /// When it ended, or the recording did.
    pub end: u64,
    /// Its threads; waits name them by their places here.
    pub threads: Vec<Life>,
}

/// A thread and its waits.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Life {
    /// The thread.
    pub thread: ThreadId,
    /// When it began.
    pub begin: u64,
    /// When it ended, or the recording did.
    pub end: u64,
    /// Who made it, and when; `None`: not known.
    pub maker: Option<(usize, u64)>,
    /// Its waits, in order of their ends.
    pub waits: Vec<PathWait>,
}

/// A wait, and who ended it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PathWait {
    /// When it began.
    pub begin: u64,
    /// When it ended.
    pub end: u64,
    /// Where the thread waited.
    pub stack: StackId,
    /// For what: its place in [`super::Waits::objects`].
    pub object: usize,
    /// Who ended it; `None`: nobody that the recording knows.
    pub ended_by: Option<Waker>,
}

/// Who ended a wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Waker {
    /// The thread: its place in [`Chain::threads`].
    pub thread: usize,
    /// When.
    pub time: u64,
    /// Where; `None`: it ended.
    pub stack: Option<StackId>,
}

/// What a piece of the path is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum What {
    /// The thread goes on: it runs, or does not run for a reason that is not recorded.
    GoesOn,
    /// It was woken, and did not run yet. Of the thread: the number of its wait.
    HandOver(usize),
    /// It was made, and had not begun yet.
    Begins,
    /// It waits for something from outside. Of the thread: the number of its wait.
    Outside(usize),
    /// Before it began; who made it is not known.
    Unknown,
}

/// The critical path of a process.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Path {
    /// Its pieces, in order of time.
    pub pieces: Vec<Piece>,
    /// The waits at which it goes from one thread to another: the thread's place in [`Chain::threads`], and the number
    /// of its wait.
    pub changes: Vec<(usize, usize)>,
}

/// A piece of the path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Piece {
    /// The thread: its place in [`Chain::threads`].
    pub thread: usize,
    /// From when to when.
    pub from: u64,
    /// To when.
    pub to: u64,
    /// What it is.
    pub what: What,
}

impl Piece {
    /// Nanoseconds.
    #[must_use]
    pub fn ns(&self) -> u64 {
        self.to - self.from
    }
}

impl Chain {
    pub(super) fn stacks_mut(&mut self) -> impl Iterator<Item = &mut StackId> {
        self.threads.iter_mut().flat_map(|life| &mut life.waits).flat_map(|wait| {
            let waker = wait.ended_by.as_mut().and_then(|waker| waker.stack.as_mut());
            std::iter::once(&mut wait.stack).chain(waker)
        })
    }

    pub(super) fn stacks(&self) -> impl Iterator<Item = StackId> {
        self.threads.iter().flat_map(|life| &life.waits).flat_map(|wait| {
            let waker = wait.ended_by.and_then(|waker| waker.stack);
            std::iter::once(wait.stack).chain(waker)
        })
    }

    /// Nanoseconds from the process's begin to its end.
    #[must_use]
    pub fn ns(&self) -> u64 {
        self.end.saturating_sub(self.begin)
    }

    /// The path, from the begin to the end. Empty if there is no thread.
    #[must_use]
    pub fn path(&self) -> Path {
        let (mut pieces, mut changes) = (Vec::new(), Vec::new());
        // Of threads that end together the first one: a process ends by its first thread.
        let last = (0..self.threads.len()).min_by_key(|&thread| std::cmp::Reverse(self.threads[thread].end));
        let Some(mut thread) = last else { return Path::default() };
        let mut at = self.end.max(self.begin);
        // How many of each thread's waits are before the place that was reached there. A wait is on the path once,
        // whatever a damaged recording says.
        let mut left: Vec<usize> = self.threads.iter().map(|life| life.waits.len()).collect();
        let mut has_begun = vec![false; self.threads.len()];
        loop {
            let life = &self.threads[thread];
            left[thread] = left[thread].min(life.waits.partition_point(|wait| wait.end <= at));
            let mut piece = |thread, from: u64, what| {
                let from = from.clamp(self.begin, at);
                if from < at {
                    pieces.push(Piece { thread, from, to: at, what });
                }
                at = from;
            };
            let Some(number) = left[thread].checked_sub(1) else {
                piece(thread, life.begin, What::GoesOn);
                let maker = life.maker.filter(|_| !std::mem::replace(&mut has_begun[thread], true));
                let Some((maker, time)) = maker else {
                    piece(thread, self.begin, What::Unknown);
                    break;
                };
                piece(thread, time, What::Begins);
                thread = maker;
                continue;
            };
            left[thread] = number;
            let wait = life.waits[number];
            piece(thread, wait.end, What::GoesOn);
            match wait.ended_by.filter(|waker| (wait.begin..=wait.end).contains(&waker.time)) {
                Some(waker) => {
                    piece(thread, waker.time, What::HandOver(number));
                    changes.push((thread, number));
                    thread = waker.thread;
                }
                None => piece(thread, wait.begin, What::Outside(number)),
            }
        }
        pieces.reverse();
        changes.reverse();
        Path { pieces, changes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::Id as _;
    use proptest::prelude::*;
    use std::collections::HashSet;

    fn wait(begin: u64, end: u64, ended_by: Option<(usize, u64)>) -> PathWait {
        let ended_by =
            ended_by.map(|(thread, time)| Waker { thread, time, stack: Some(StackId::from_index(0)) });
        PathWait { begin, end, stack: StackId::from_index(0), object: 0, ended_by }
    }

    /// A thread: its begin and end, who made it and when, its waits.
    type Thread = (u64, u64, Option<(usize, u64)>, Vec<PathWait>);

    fn chain(end: u64, threads: Vec<Thread>) -> Chain {
        let life = |(number, (begin, end, maker, mut waits)): (usize, (_, _, _, Vec<PathWait>))| {
            waits.sort_by_key(|wait| (wait.end, wait.begin));
            Life { thread: ThreadId::from_index(number), begin, end, maker, waits }
        };
        let threads = threads.into_iter().enumerate().map(life).collect();
        Chain { process: ProcessId::from_index(0), begin: 0, end, threads }
    }

    fn words(chain: &Chain) -> Vec<(usize, u64, u64, What)> {
        chain.path().pieces.iter().map(|piece| (piece.thread, piece.from, piece.to, piece.what)).collect()
    }

    #[test]
    fn the_path_goes_on_in_the_thread_that_ended_the_wait() {
        // The first thread makes the second one and waits for its end. The second one waits for a timer.
        let first = (0, 100, None, vec![wait(20, 91, Some((1, 90)))]);
        let second = (12, 90, Some((0, 10)), vec![wait(40, 60, None)]);
        assert_eq!(
            words(&chain(100, vec![first, second])),
            [
                (0, 0, 10, What::GoesOn),
                (1, 10, 12, What::Begins),
                (1, 12, 40, What::GoesOn),
                (1, 40, 60, What::Outside(0)),
                (1, 60, 90, What::GoesOn),
                (0, 90, 91, What::HandOver(0)),
                (0, 91, 100, What::GoesOn),
            ]
        );
    }

    #[test]
    fn a_thread_that_nobody_is_known_to_have_made_begins_the_path() {
        let first = (0, 50, None, vec![wait(20, 40, Some((1, 40)))]);
        assert_eq!(
            words(&chain(50, vec![first, (5, 40, None, vec![])])),
            [(1, 0, 5, What::Unknown), (1, 5, 40, What::GoesOn), (0, 40, 50, What::GoesOn)]
        );
    }

    /// The same by walking back nanosecond by nanosecond, and looking through all waits at each.
    fn walked_back(chain: &Chain) -> Vec<(usize, What)> {
        let mut of_ns = Vec::new();
        let (mut used, mut begun): (HashSet<(usize, usize)>, HashSet<usize>) = Default::default();
        let ends: Vec<u64> = chain.threads.iter().map(|life| life.end).collect();
        let mut thread = ends.iter().position(|end| Some(end) == ends.iter().max()).expect("a thread");
        let mut at = chain.end;
        // The piece that the place is in: until when, what it is, and the thread after it.
        let mut inside: Option<(u64, What, usize)> = None;
        loop {
            match inside {
                Some((until, what, _)) if at > until.max(chain.begin) => {
                    of_ns.push((thread, what));
                    at -= 1;
                    continue;
                }
                Some((_, _, next)) => {
                    thread = next;
                    inside = None;
                }
                None => {}
            }
            let life = &chain.threads[thread];
            // A wait is behind the place once the path has passed another one before it.
            let first_used = used.iter().filter(|(of, _)| *of == thread).map(|(_, number)| *number).min();
            let before = |number: &usize| first_used.is_none_or(|first| *number < first);
            let last = (0..life.waits.len()).filter(before).filter(|n| life.waits[*n].end <= at).max();
            match last {
                Some(number) if life.waits[number].end == at || at == chain.begin => {
                    used.insert((thread, number));
                    let PathWait { begin, end, ended_by, .. } = life.waits[number];
                    inside = Some(match ended_by.filter(|waker| begin <= waker.time && waker.time <= end) {
                        Some(waker) => (waker.time, What::HandOver(number), waker.thread),
                        None => (begin, What::Outside(number), thread),
                    });
                }
                None if at <= life.begin || at == chain.begin => match life.maker {
                    Some((maker, time)) if begun.insert(thread) => {
                        inside = Some((time, What::Begins, maker));
                    }
                    _ if at == chain.begin => break,
                    _ => inside = Some((chain.begin, What::Unknown, thread)),
                },
                _ => {
                    of_ns.push((thread, What::GoesOn));
                    at -= 1;
                }
            }
            if at == chain.begin && inside.is_none() && of_ns.len() as u64 == chain.ns() {
                break;
            }
        }
        of_ns.reverse();
        of_ns
    }

    fn any_wait(threads: usize) -> impl Strategy<Value = PathWait> {
        let waker = proptest::option::weighted(0.8, (0..threads, 0u64..12));
        (0u64..60, 0u64..12, waker).prop_map(|(begin, length, waker)| {
            wait(begin, begin + length, waker.map(|(thread, after)| (thread, begin + after)))
        })
    }

    fn any_chain() -> impl Strategy<Value = Chain> {
        (1usize..5).prop_flat_map(|threads| {
            let waits = proptest::collection::vec(any_wait(threads), 0..6);
            let maker = proptest::option::of((0..threads, 0u64..30));
            let life = (0u64..30, 30u64..70, maker, waits);
            proptest::collection::vec(life, threads).prop_map(|lives| chain(70, lives))
        })
    }

    /// Tasks on threads, each after the one before it on its thread and after one other. (thread, length, the other)
    fn any_tasks() -> impl Strategy<Value = Vec<(usize, u64, Option<usize>)>> {
        let task = (0usize..4, 1u64..20, proptest::option::weighted(0.6, any::<proptest::sample::Index>()));
        proptest::collection::vec(task, 1..30).prop_map(|tasks| {
            let other =
                |number: usize, index: proptest::sample::Index| (number > 0).then(|| index.index(number));
            let tasks = tasks.into_iter().enumerate();
            tasks.map(|(at, (thread, ns, index))| (thread, ns, index.and_then(|i| other(at, i)))).collect()
        })
    }

    proptest! {
        #[test]
        fn the_pieces_abut_and_are_what_a_slow_walk_finds(chain in any_chain()) {
            let pieces = chain.path().pieces;
            let mut at = chain.begin;
            let mut of_ns = Vec::new();
            for piece in &pieces {
                prop_assert!(piece.from == at && piece.to > at, "{:?}", pieces);
                at = piece.to;
                of_ns.extend((0..piece.ns()).map(|_| (piece.thread, piece.what)));
            }
            prop_assert_eq!(at, chain.end);
            prop_assert_eq!(of_ns, walked_back(&chain));
        }

        /// The longest chain of tasks that wait for each other is the path: its work is all of the time.
        #[test]
        fn the_longest_chain_of_a_task_graph_is_the_path(tasks in any_tasks()) {
            let mut ends: Vec<u64> = Vec::new();
            let mut free = [0u64; 4];
            let mut waits: [Vec<PathWait>; 4] = Default::default();
            // The longest sum of lengths over all chains of tasks that end with each task.
            let mut longest: Vec<u64> = Vec::new();
            let mut last_of: [Option<usize>; 4] = [None; 4];
            for (number, &(thread, ns, other)) in tasks.iter().enumerate() {
                let from = other.map_or(free[thread], |other| free[thread].max(ends[other]));
                if let Some(other) = other.filter(|_| from > free[thread]) {
                    waits[thread].push(wait(free[thread], from, Some((tasks[other].0, from))));
                }
                free[thread] = from + ns;
                ends.push(from + ns);
                let before = [last_of[thread], other].into_iter().flatten().map(|task| longest[task]).max();
                longest.push(ns + before.unwrap_or(0));
                last_of[thread] = Some(number);
            }
            let end = *ends.iter().max().expect("a task");
            let lives = waits.into_iter().zip(free).map(|(waits, end)| (0, end, None, waits)).collect();
            let path = chain(end, lives).path();
            let goes_on: u64 =
                path.pieces.iter().filter(|piece| piece.what == What::GoesOn).map(Piece::ns).sum();
            prop_assert_eq!(goes_on, end);
            prop_assert_eq!(longest.into_iter().max(), Some(end));
        }
    }
}
