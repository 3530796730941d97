//! Samples of one file, counted by what makes them the same.
//!
//! With many stacks the table is larger than the processor's caches, and a sample would wait for its place in
//! it: that wait is what reading a large recording takes its time for. So samples come in batches: first all
//! their places are touched, which the processor does side by side, then they are counted. A place is half a
//! cache line and holds all that a sample adds to.

use pct_format::CutCause;
use std::hash::{BuildHasher as _, RandomState};

/// Place of a node in the trie of addresses.
pub(super) type NodeIndex = u32;

/// All that makes two samples of a file the same.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(super) struct Key {
    /// Address.
    pub(super) pc: u64,
    /// Id of the stack in the file, 0 = none.
    pub(super) stack: u32,
    /// Twice the place of (thread, epoch) in a list, and one more for a system sample.
    when: u32,
}

impl Key {
    /// `place`: of (thread, epoch) in a list.
    pub(super) fn new(pc: u64, stack: u32, place: u32, system: bool) -> Self {
        Key { pc, stack, when: place << 1 | u32::from(system) }
    }

    /// Place of (thread, epoch) in a list.
    pub(super) fn when(&self) -> usize {
        (self.when >> 1) as usize
    }

    /// It is a system sample.
    pub(super) fn system(&self) -> bool {
        self.when & 1 != 0
    }
}

/// What a key stands for.
#[derive(Clone, Copy, Debug)]
pub(super) struct StackKey {
    /// The node of the trie.
    pub(super) node: NodeIndex,
    /// Why its stack is cut, if it is.
    pub(super) cut: Option<CutCause>,
}

/// A sample that is to be counted.
#[derive(Clone, Copy, Debug)]
pub(super) struct DueSample {
    pub(super) key: Key,
    /// On the file's time scale.
    pub(super) time: u64,
    /// What it stands for.
    pub(super) ns: u64,
    /// Whose it is; not a part of the key where threads are summed.
    pub(super) thread: u32,
}

/// Samples of one key.
#[derive(Clone, Copy, Debug)]
pub(super) struct Counted {
    pub(super) key: Key,
    pub(super) meaning: StackKey,
    pub(super) samples: u64,
    pub(super) ns: u64,
}

#[derive(Clone, Copy, Default)]
#[repr(C, align(32))]
struct TallySlot {
    key: Key,
    ns: u64,
    /// 0: the place is free.
    samples: u32,
    /// In [`Tally::meanings`].
    meaning: u32,
}

/// The counts.
pub(super) struct Tally {
    /// Open addressing, a power of two, three quarters full at most.
    places: Vec<TallySlot>,
    /// In order of the first sample.
    meanings: Vec<StackKey>,
    /// Nobody can make a file whose keys all meet in one place.
    seeds: [u64; 2],
}

/// Samples of a batch: more than a processor can wait for at a time.
pub(super) const BATCH: usize = 64;
const LEAST: usize = 1024;

impl Tally {
    pub(super) fn new() -> Self {
        let random = RandomState::new();
        Tally {
            places: vec![TallySlot::default(); LEAST],
            meanings: Vec::new(),
            seeds: [random.hash_one(1), random.hash_one(2)],
        }
    }

    /// The first place to look at.
    #[inline(always)]
    #[expect(clippy::cast_possible_truncation, reason = "a hash is mixed from both halves of the product")]
    fn first(&self, key: Key) -> usize {
        let other = u64::from(key.stack) << 32 | u64::from(key.when);
        let product = u128::from(key.pc ^ self.seeds[0]) * u128::from(other ^ self.seeds[1]);
        ((product >> 64) as usize ^ product as usize) & (self.places.len() - 1)
    }

    /// The place of a key, or the free one where it belongs.
    #[inline(always)]
    fn find(&self, key: Key, mut at: usize) -> usize {
        loop {
            let place = &self.places[at];
            if place.key == key || place.samples == 0 {
                return at;
            }
            at = (at + 1) & (self.places.len() - 1);
        }
    }

    /// Counts a batch, in order. `means` says what a key stands for, at its first sample; `each` hears what
    /// every sample means.
    pub(super) fn count(
        &mut self,
        batch: &[DueSample],
        mut means: impl FnMut(&DueSample) -> StackKey,
        mut each: impl FnMut(&DueSample, StackKey),
    ) {
        for batch in batch.chunks(BATCH) {
            if (self.meanings.len() + batch.len()) * 4 > self.places.len() * 3 {
                self.grow();
            }
            let mut first = [0; BATCH];
            let mut touched = 0;
            for (at, one) in first.iter_mut().zip(batch) {
                *at = self.first(one.key);
                touched |= self.places[*at].samples;
            }
            std::hint::black_box(touched);
            for (one, at) in batch.iter().zip(first) {
                let at = self.find(one.key, at);
                if self.places[at].samples == 0 {
                    let meaning = u32::try_from(self.meanings.len()).unwrap_or(u32::MAX);
                    self.meanings.push(means(one));
                    self.places[at] = TallySlot { key: one.key, ns: 0, samples: 0, meaning };
                }
                let place = &mut self.places[at];
                place.samples = place.samples.saturating_add(1);
                place.ns = place.ns.saturating_add(one.ns);
                each(one, self.meanings[place.meaning as usize]);
            }
        }
    }

    fn grow(&mut self) {
        let twice = vec![TallySlot::default(); self.places.len() * 2];
        for place in std::mem::replace(&mut self.places, twice) {
            if place.samples != 0 {
                let at = self.find(place.key, self.first(place.key));
                self.places[at] = place;
            }
        }
    }

    /// All counts, in order of the first sample of each key.
    pub(super) fn counted(self) -> Vec<Counted> {
        let mut order = vec![0; self.meanings.len()];
        for (at, place) in self.places.iter().enumerate() {
            if place.samples != 0 {
                order[place.meaning as usize] = at;
            }
        }
        let counted = |(at, meaning): (usize, StackKey)| {
            let TallySlot { key, ns, samples, .. } = self.places[at];
            Counted { key, meaning, samples: u64::from(samples), ns }
        };
        order.into_iter().zip(self.meanings.iter().copied()).map(counted).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    proptest! {
        #[test]
        fn it_counts_as_a_map_does(
            ones in proptest::collection::vec((0u64..60, 0u32..40, 0u32..3, 1u64..9, any::<bool>()), 0..6000),
            batch in 1usize..200,
        ) {
            let mut tally = Tally::new();
            let mut truth: HashMap<Key, (u64, u64, u32)> = HashMap::new();
            let ones: Vec<DueSample> = ones
                .into_iter()
                .map(|(pc, stack, when, ns, system)| {
                    DueSample { key: Key::new(pc * 0x1000, stack, when, system), time: 0, ns, thread: 0 }
                })
                .collect();
            let mut heard = Vec::new();
            for batch in ones.chunks(batch) {
                let mut fresh = truth.len() as u32;
                let mut named = Vec::new();
                tally.count(
                    batch,
                    |one| {
                        named.push(one.key);
                        fresh += 1;
                        StackKey { node: fresh - 1, cut: None }
                    },
                    |one, meaning| heard.push((one.key, meaning.node)),
                );
                for one in batch {
                    let next = truth.len() as u32;
                    let entry = truth.entry(one.key).or_insert((0, 0, next));
                    entry.0 += 1;
                    entry.1 += one.ns;
                }
                // asked once for each key, at its first sample
                prop_assert!(named.iter().all(|key| truth.contains_key(key)));
                prop_assert_eq!(fresh as usize, truth.len());
            }
            prop_assert_eq!(heard.len(), ones.len());
            prop_assert!(heard.iter().all(|(key, node)| truth[key].2 == *node));
            let counted = tally.counted();
            prop_assert_eq!(counted.len(), truth.len());
            for (order, c) in counted.iter().enumerate() {
                prop_assert_eq!((c.samples, c.ns, c.meaning.node), truth[&c.key]);
                prop_assert_eq!(c.meaning.node as usize, order);
            }
        }
    }
}
