//! Sums by key of an open bucket.

use smallvec::SmallVec;

use super::cell::{Cell, Running};
use super::lanes::{is_state, runs};

/// Most keys that an open bucket tells apart. Beyond it the lightest half becomes one sum without names.
pub const MOST_KEYS: usize = 4096;

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct KeySum {
    pub(super) key: u32,
    pub(super) w: u64,
}

/// Sums in order of their keys. Most buckets have one key, and each item passes through the open buckets of several
/// levels: an allocation for each would be half of the time of a pass.
type Sums = SmallVec<[KeySum; 1]>;

/// Sums of a bucket and of its keys. Most buckets have few keys; those of the upper levels, which have many, are made
/// of two halves in one walk.
#[derive(Clone, Debug, Default)]
pub(super) struct Tally {
    keys: Sums,
    /// Items.
    n: u64,
    /// Weight of all keys.
    w: u64,
    /// Part of it of keys that are not told apart.
    other: u64,
}

impl Tally {
    pub(super) fn add(&mut self, key: u32, n: u64, w: u64) {
        self.n = self.n.saturating_add(n);
        self.w = self.w.saturating_add(w);
        self.add_key(key, w);
    }

    /// Of a bucket with these sums, in order of their keys, and so many items and so much weight in all. All keys are
    /// told apart, however many there are.
    pub(super) fn from_sums(sums: Vec<KeySum>, (n, w): (u64, u64)) -> Tally {
        Tally { keys: Sums::from_vec(sums), n, w, other: 0 }
    }

    fn add_key(&mut self, key: u32, w: u64) {
        match self.keys.binary_search_by_key(&key, |sum| sum.key) {
            Ok(at) => self.keys[at].w = self.keys[at].w.saturating_add(w),
            Err(at) => {
                self.keys.insert(at, KeySum { key, w });
                self.keep_to_most();
            }
        }
    }

    /// Moves all of another bucket here. What it had allocated stays with one of the two.
    pub(super) fn take_all(&mut self, from: &mut Tally, room: &mut MergeRoom) {
        self.n = self.n.saturating_add(std::mem::take(&mut from.n));
        self.w = self.w.saturating_add(std::mem::take(&mut from.w));
        self.other = self.other.saturating_add(std::mem::take(&mut from.other));
        match (self.keys.as_slice(), from.keys.as_slice()) {
            (_, []) => {}
            ([], _) => std::mem::swap(&mut self.keys, &mut from.keys),
            (_, [one]) => self.add_key(one.key, one.w),
            (mine, theirs) => {
                room.merge(mine, theirs);
                std::mem::swap(&mut self.keys, &mut room.0);
                self.keep_to_most();
            }
        }
        from.keys.clear();
    }

    fn keep_to_most(&mut self) {
        if self.keys.len() <= MOST_KEYS {
            return;
        }
        let mut by_weight: Vec<(u64, u32)> = self.keys.iter().map(|sum| (sum.w, sum.key)).collect();
        by_weight.sort_unstable_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(&b.1)));
        let (weight, key) = by_weight[MOST_KEYS / 2 - 1];
        let other = &mut self.other;
        self.keys.retain(|sum| {
            let stays = sum.w > weight || (sum.w == weight && sum.key <= key);
            if !stays {
                *other = other.saturating_add(sum.w);
            }
            stays
        });
    }

    /// The cell of the bucket.
    pub(super) fn cell(&self, bucket: i64) -> Cell {
        // Weight and key of the heaviest, of several the one with the least key; weight of the second.
        let mut keys = self.keys.iter();
        let first = keys.next().map_or((0, u32::MAX >> 1), |sum| (sum.w, sum.key));
        let (mut top, mut second) = (first, 0);
        for sum in keys {
            if sum.w > top.0 {
                second = top.0;
                top = (sum.w, sum.key);
            } else {
                second = second.max(sum.w);
            }
        }
        // A key that was forgotten may have all of the other weight, also on top of what it was counted later.
        let is_sure = self.other == 0 || top.0 >= second.saturating_add(self.other);
        let cell = Cell::new(bucket, (self.n, self.w), top, is_sure);
        // Keys of states are below all others, so only lanes of states look further than at the first. One key tells by
        // itself what ran.
        match self.keys.as_slice() {
            [least, _, ..] if is_state(least.key) => cell.with_running(self.running()),
            _ => cell,
        }
    }

    /// What ran, by the sums of the states.
    fn running(&self) -> Running {
        let mut running = Running::default();
        // Weight of the heaviest state in which a thread has a CPU, and of the heaviest other one.
        let mut most = [0; 2];
        for sum in self.keys.iter().filter(|sum| sum.w > 0 && is_state(sum.key)) {
            let runs = runs(sum.key);
            if runs {
                running.ns = running.ns.saturating_add(sum.w);
            }
            let most = &mut most[usize::from(runs)];
            if sum.w > *most {
                *most = sum.w;
                if runs { running.top = sum.key } else { running.rest = Some(sum.key) }
            }
        }
        running
    }
}

/// Room in which two lists of sums are made one. It is kept from bucket to bucket.
#[derive(Clone, Debug, Default)]
pub(super) struct MergeRoom(Sums);

impl MergeRoom {
    /// Two lists in order of keys as one.
    fn merge(&mut self, mine: &[KeySum], theirs: &[KeySum]) {
        let out = &mut self.0;
        out.clear();
        out.resize(mine.len() + theirs.len(), KeySum::default());
        let (mut a, mut b, mut len) = (0, 0, 0);
        // Which list has the lesser key is as good as random, so this has no branch on it.
        while let (Some(x), Some(y), Some(to)) = (mine.get(a), theirs.get(b), out.get_mut(len)) {
            let (takes_x, takes_y) = (x.key <= y.key, y.key <= x.key);
            let of = |takes: bool, w: u64| if takes { w } else { 0 };
            *to = KeySum { key: x.key.min(y.key), w: of(takes_x, x.w).saturating_add(of(takes_y, y.w)) };
            (a, b, len) = (a + usize::from(takes_x), b + usize::from(takes_y), len + 1);
        }
        out.truncate(len);
        out.extend_from_slice(&mine[a..]);
        out.extend_from_slice(&theirs[b..]);
    }
}
