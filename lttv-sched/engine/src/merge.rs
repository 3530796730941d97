//! The merge queue: which tracefile has the next event.
//!
//! A tournament over all tracefiles: each inner node keeps the key that lost there, and the winner is at the top.
//! When the winner's tracefile steps to its next event, only the matches between its leaf and the top are played again,
//! with one comparison per level and no branch that depends on the data. Runs of events from one tracefile change
//! no node on the way.
//!
//! Keys are (order time, slot) packed into one number, a half each. They are stored and loaded again at once,
//! and a load that spans the halves would have to wait for both stores. Invariant: a leaf has the key of its slot's
//! next event, or `NONE` if the tracefile is exhausted. So each slot has at most one entry.

use crate::time::Time;

/// Order time and slot of a tracefile's next event.
pub(crate) type Entry = (Time, u32);

/// Greater than every key, because slots have only 32 bits.
const NONE: u128 = u128::MAX;

const SIGN: u64 = 1 << 63;

#[inline]
fn pack((time, slot): Entry) -> u128 {
    let time = time.0.cast_unsigned() ^ SIGN;
    (u128::from(time) << 64) | u128::from(slot)
}

#[inline]
#[expect(clippy::cast_possible_truncation, reason = "the low half is the slot")]
fn unpack(key: u128) -> Entry {
    let time = ((key >> 64) as u64) ^ SIGN;
    (Time(time.cast_signed()), key as u32)
}

#[derive(Default, Debug)]
pub(crate) struct MergeQueue {
    /// The winner, then the losers of the inner nodes. The children of node n are 2n and 2n + 1; the leaves begin
    /// at the tree's length.
    tree: Vec<u128>,
    live: usize,
}

impl MergeQueue {
    /// Rebuilds the queue. Slots must be less than `slots`, each at most once.
    pub(crate) fn rebuild(&mut self, slots: usize, entries: impl Iterator<Item = Entry>) {
        let leaves = slots.max(1).next_power_of_two();
        let mut winners = vec![NONE; 2 * leaves];
        self.live = 0;
        for (time, slot) in entries {
            winners[leaves + slot as usize] = pack((time, slot));
            self.live += 1;
        }
        self.tree.clear();
        self.tree.resize(leaves, NONE);
        for node in (1..leaves).rev() {
            let (left, right) = (winners[2 * node], winners[2 * node + 1]);
            winners[node] = left.min(right);
            self.tree[node] = left.max(right);
        }
        self.tree[0] = winners[1];
    }

    /// Number of tracefiles that are not exhausted.
    pub(crate) fn len(&self) -> usize {
        self.live
    }

    /// The next event's entry.
    #[inline]
    pub(crate) fn least(&self) -> Option<Entry> {
        // `live` is checked instead of the key: a wide load of what `replay` has just stored in halves would wait for
        // it.
        if self.live == 0 { None } else { self.tree.first().map(|key| unpack(*key)) }
    }

    /// The entry that would be next without the least: one of those that lost to it on its way up.
    pub(crate) fn second(&self) -> Option<Entry> {
        let (_, slot) = self.least()?;
        let mut node = (self.tree.len() + slot as usize) / 2;
        let mut second = NONE;
        while node > 0 {
            second = second.min(self.tree[node]);
            node /= 2;
        }
        (second != NONE).then(|| unpack(second))
    }

    /// Sets a new time for the least entry.
    #[inline]
    pub(crate) fn requeue_least(&mut self, time: Time) {
        if let Some((_, slot)) = self.least() {
            self.replay(slot, pack((time, slot)));
        }
    }

    /// Removes the least entry.
    pub(crate) fn pop_least(&mut self) {
        if let Some((_, slot)) = self.least() {
            self.live -= 1;
            self.replay(slot, NONE);
        }
    }

    /// Sets a new key for the winner's slot and plays the matches from its leaf upwards.
    #[inline]
    fn replay(&mut self, slot: u32, key: u128) {
        let mut winner = key;
        let mut node = (self.tree.len() + slot as usize) / 2;
        while node > 0 {
            // Exchanges the two if the other is less, without a branch, because which one wins is as good as random.
            let other = self.tree[node];
            let exchanged = (other ^ winner) & u128::from(other < winner).wrapping_neg();
            self.tree[node] = other ^ exchanged;
            winner ^= exchanged;
            node /= 2;
        }
        self.tree[0] = winner;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn merging_gives_the_sorted_order(mut files in proptest::collection::vec(proptest::collection::vec(prop_oneof![-20i64..20, Just(i64::MIN), Just(i64::MAX)], 0..12), 0..9)) {
            files.iter_mut().for_each(|file| file.sort_unstable());
            let mut expected: Vec<Entry> = Vec::new();
            for (slot, file) in (0u32..).zip(&files) {
                expected.extend(file.iter().map(|&ts| (Time(ts), slot)));
            }
            expected.sort_unstable();
            let mut next = vec![0; files.len()];
            let mut queue = MergeQueue::default();
            prop_assert_eq!(queue.least(), None);
            queue.rebuild(files.len(), (0u32..).zip(&files).filter_map(|(slot, file)| Some((Time(*file.first()?), slot))));
            let mut seen = Vec::new();
            while let Some((time, slot)) = queue.least() {
                prop_assert_eq!(queue.len(), (0..files.len()).filter(|file| next[*file] < files[*file].len()).count());
                let left = (0u32..).zip(&files).flat_map(|(other, file)| {
                    file.get(next[other as usize]).map(|ts| (Time(*ts), other))
                });
                prop_assert_eq!(queue.second(), left.filter(|(_, other)| *other != slot).min());
                seen.push((time, slot));
                next[slot as usize] += 1;
                match files[slot as usize].get(next[slot as usize]) {
                    None => queue.pop_least(),
                    Some(&ts) => queue.requeue_least(Time(ts)),
                }
            }
            prop_assert_eq!(queue.len(), 0);
            prop_assert_eq!(seen, expected);
        }
    }
}
