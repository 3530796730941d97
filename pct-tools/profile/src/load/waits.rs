//! Waits of the files that were read, in terms of places of the trie, until those are resolved.

use super::chains::RawChain;
use super::tally::NodeIndex;
use crate::ids::{ProcessId, StackId, ThreadId};
use crate::waits::cut::Whose;
use crate::waits::{Holder, Object, ThreadTime, WaitClass, WaitFigures, WaitRow, Waits};
use pct_format::WaitKind;
use rustc_hash::FxHashMap;

/// Waits of all files so far, in terms of threads and places of the trie.
#[derive(Default)]
pub(super) struct RawWaits {
    pub(super) objects: Vec<RawObject>,
    pub(super) rows: FxHashMap<(usize, NodeIndex, usize), RawRow>,
    pub(super) threads: Vec<(usize, u64, Option<u64>)>,
    pub(super) chains: Vec<RawChain>,
    pub(super) recordings: u64,
    /// Recordings in which they were not, although that was asked for.
    pub(super) asked_in_vain: u64,
    /// Recordings in which waits for futexes were recorded.
    pub(super) with_futexes: u64,
    pub(super) lost: u64,
    pub(super) overwritten: u64,
    pub(super) damaged: u64,
}

pub(super) struct RawObject {
    pub(super) process: usize,
    pub(super) kind: WaitKind,
    pub(super) address: u64,
    pub(super) first: NodeIndex,
}

pub(super) struct RawRow {
    pub(super) kind: WaitKind,
    /// Without the parts.
    pub(super) figures: WaitFigures,
    pub(super) parts: Parts,
    /// Of a futex: the parts if it is a mutex of Rust's standard library.
    pub(super) as_mutex: Parts,
}

/// The parts of the waits of a row.
#[derive(Default)]
pub(super) struct Parts {
    pub(super) hand_over_ns: u64,
    pub(super) unknown_ns: u64,
    pub(super) holders: FxHashMap<(usize, NodeIndex), u64>,
}

impl Parts {
    pub(super) fn add(&mut self, whose: Whose<(usize, NodeIndex)>, ns: u64) {
        match whose {
            Whose::Of(who) => *self.holders.entry(who).or_default() += ns,
            Whose::HandOver => self.hand_over_ns += ns,
            Whose::Unknown => self.unknown_ns += ns,
        }
    }

    /// Nobody is known to have held it up to the hand-over.
    fn without_holders(self) -> Self {
        let held: u64 = self.holders.values().sum();
        Self { unknown_ns: self.unknown_ns + held, holders: FxHashMap::default(), ..self }
    }
}

impl RawWaits {
    /// Everything in terms of the profile. `waits_for` says what waits for a futex in this stack are for.
    pub(super) fn finish(
        mut self,
        (start, processes, threads): (u64, &[ProcessId], &[ThreadId]),
        stack_of: impl Fn(NodeIndex) -> StackId,
        waits_for: impl Fn(StackId) -> Option<WaitKind>,
    ) -> Waits {
        self.tell_futexes(|node| waits_for(stack_of(node)));
        let mut sums = vec![0_u64; self.objects.len()];
        let mut waited: FxHashMap<usize, (u64, u64, u64)> = FxHashMap::default();
        for ((thread, _, object), row) in &self.rows {
            sums[*object] = sums[*object].saturating_add(row.figures.ns);
            let (locks, work, futexes) = waited.entry(*thread).or_default();
            let sum = match WaitClass::of_kind(row.kind) {
                WaitClass::Lock => locks,
                WaitClass::Work => work,
                WaitClass::Futex => futexes,
            };
            *sum = sum.saturating_add(row.figures.ns);
        }
        let mut order: Vec<usize> = (0..self.objects.len()).collect();
        order.sort_by_key(|&object| std::cmp::Reverse(sums[object]));
        let mut place = vec![0; order.len()];
        for (new, &old) in order.iter().enumerate() {
            place[old] = new;
        }
        let object = |&old: &usize| {
            let RawObject { process, kind, address, first } = self.objects[old];
            Object {
                process: processes[process],
                kind,
                of_language: None,
                address,
                first_stack: stack_of(first),
            }
        };
        let objects = order.iter().map(object).collect();
        let mut rows: Vec<WaitRow> = self
            .rows
            .into_iter()
            .map(|((thread, node, object), row)| {
                let holder =
                    |((thread, node), ns)| Holder { thread: threads[thread], stack: stack_of(node), ns };
                let Parts { hand_over_ns, unknown_ns, holders } = row.parts;
                let mut holders: Vec<Holder> = holders.into_iter().map(holder).collect();
                holders.sort_by_key(|holder| (std::cmp::Reverse(holder.ns), holder.thread, holder.stack));
                let (thread, stack) = (threads[thread], stack_of(node));
                let figures = WaitFigures { hand_over_ns, unknown_ns, ..row.figures };
                WaitRow { thread, stack, object: place[object], kind: row.kind, figures, holders }
            })
            .collect();
        rows.sort_by_key(|row| (row.object, std::cmp::Reverse(row.figures.ns), row.thread, row.stack));
        let time = |(thread, wall_ns, cpu_ns)| {
            let (locks_ns, work_ns, futexes_ns) = waited.get(&thread).copied().unwrap_or_default();
            ThreadTime { thread: threads[thread], wall_ns, cpu_ns, locks_ns, work_ns, futexes_ns }
        };
        let chain = |chain: RawChain| chain.finish(start, (processes, threads), &place, &stack_of);
        Waits {
            objects,
            rows,
            threads: self.threads.into_iter().map(time).collect(),
            chains: self.chains.into_iter().map(chain).collect(),
            recordings: self.recordings,
            asked_in_vain: self.asked_in_vain,
            sees_futexes: self.recordings > 0 && self.with_futexes == self.recordings,
            lost: self.lost,
            overwritten: self.overwritten,
            damaged: self.damaged,
        }
    }

    /// Tells by the functions that wait what futexes are. A futex of which one wait tells what it is is the same for
    /// the other waits.
    fn tell_futexes(&mut self, waits_for: impl Fn(NodeIndex) -> Option<WaitKind>) {
        let mut keys: Vec<_> =
            self.rows.iter().filter(|(_, row)| row.kind == WaitKind::Futex).map(|(key, _)| *key).collect();
        keys.sort_unstable();
        let mut kinds: FxHashMap<usize, WaitKind> = FxHashMap::default();
        for (_, node, object) in &keys {
            if let Some(kind) = waits_for(*node) {
                kinds.entry(*object).or_insert(kind);
            }
        }
        for key @ (_, node, object) in keys {
            let Some(&of_object) = kinds.get(&object) else { continue };
            self.objects[object].kind = of_object;
            let Some(row) = self.rows.get_mut(&key) else { continue };
            row.kind = waits_for(node).unwrap_or(of_object);
            match of_object {
                WaitKind::Mutex => row.parts = std::mem::take(&mut row.as_mutex),
                // Readers hold it together, and who takes it first is not seen.
                WaitKind::ReadLock | WaitKind::WriteLock => {
                    row.parts = std::mem::take(&mut row.parts).without_holders();
                }
                _ => {}
            }
        }
    }
}
