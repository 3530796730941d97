//! Finding a table's row by its contents, without a copy of them: [`RowIndex`] is a hash table that holds
//! numbers of rows, [`Children`] finds a node of a tree below its parent.
//!
//! What is equal is the owner's affair. In a [`RowIndex`] a place is eight octets: the row and 32 bits of its
//! hash. The upper bits of the hash say where a row is looked for first, so a table that doubles is filled in
//! order, from front to back. [`Children`] has a list for each parent: the path of the sample before is in
//! the processor's cache, a hash table's places are not. Only parents of many children are hashed.

/// Stands for a free place: tables hold fewer rows.
const FREE: u32 = u32::MAX;

/// See the module's text.
#[derive(Clone, Debug, Default)]
pub struct RowIndex {
    /// Hash and row. Empty, or a power of two of them.
    places: Vec<(u32, u32)>,
    rows: usize,
}

/// A hash of two numbers, good in all of its bits.
#[inline]
#[must_use]
pub fn mix(a: u64, b: u64) -> u32 {
    const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut x = a.wrapping_mul(ODD) ^ b.wrapping_mul(0xc2b2_ae3d_27d4_eb4f).rotate_left(29);
    x = (x ^ (x >> 32)).wrapping_mul(ODD);
    (x >> 32) as u32
}

impl RowIndex {
    /// The row of this hash that is `same`, if there is one.
    #[inline]
    pub fn find(&self, hash: u32, same: impl Fn(u32) -> bool) -> Option<u32> {
        if self.places.is_empty() {
            return None;
        }
        let mask = self.places.len() - 1;
        let mut at = self.first(hash);
        loop {
            let (tag, row) = self.places[at];
            if row == FREE {
                return None;
            }
            if tag == hash && same(row) {
                return Some(row);
            }
            at = (at + 1) & mask;
        }
    }

    /// Adds a row that [`Self::find`] did not find. Rows are below 2^32 - 1.
    #[inline]
    pub fn insert(&mut self, hash: u32, row: u32) {
        // three quarters full at most: the search ends
        if self.rows >= self.places.len() / 4 * 3 {
            self.grow();
        }
        self.rows += 1;
        self.insert_row(hash, row);
    }

    fn first(&self, hash: u32) -> usize {
        // the length is 2^n, 4 <= n <= 32
        ((u64::from(hash) * self.places.len() as u64) >> 32) as usize
    }

    fn insert_row(&mut self, hash: u32, row: u32) {
        let mask = self.places.len() - 1;
        let mut at = self.first(hash);
        while self.places[at].1 != FREE {
            at = (at + 1) & mask;
        }
        self.places[at] = (hash, row);
    }

    #[cold]
    fn grow(&mut self) {
        let more = vec![(0, FREE); (self.places.len() * 2).max(16)];
        for (hash, row) in std::mem::replace(&mut self.places, more) {
            if row != FREE {
                self.insert_row(hash, row);
            }
        }
    }
}

/// Finds children of nodes. Parents and children are rows, of the same table or of two.
#[derive(Clone, Debug, Default)]
pub struct Children {
    /// By parent: the child that came last, and how many there are.
    last: Vec<(u32, u32)>,
    /// By child: the one that came before.
    before: Vec<u32>,
    /// The children of parents of many.
    index: RowIndex,
}

impl Children {
    /// More children than this are hashed.
    const FEW: u32 = 8;

    /// The child that is `same`; `hash` is that of parent and contents.
    #[inline]
    pub fn find(&self, parent: usize, hash: impl FnOnce() -> u32, same: impl Fn(u32) -> bool) -> Option<u32> {
        let &(last, count) = self.last.get(parent)?;
        if count > Self::FEW {
            return self.index.find(hash(), same);
        }
        let mut at = last;
        for _ in 0..count {
            if same(at) {
                return Some(at);
            }
            at = self.before[at as usize];
        }
        None
    }

    /// Adds a child that [`Self::find`] did not find: children come as 0, 1, 2... `hash_of` gives the hash of
    /// any child of this parent.
    #[inline]
    pub fn insert(&mut self, parent: usize, child: u32, hash_of: impl Fn(u32) -> u32) {
        if self.last.len() <= parent {
            self.last.resize(parent + 1, (FREE, 0));
        }
        let (last, count) = &mut self.last[parent];
        self.before.resize(child as usize + 1, FREE);
        self.before[child as usize] = std::mem::replace(last, child);
        *count += 1;
        match *count {
            n if n <= Self::FEW => {}
            n if n == Self::FEW + 1 => {
                let mut at = child;
                while at != FREE {
                    self.index.insert(hash_of(at), at);
                    at = self.before[at as usize];
                }
            }
            _ => self.index.insert(hash_of(child), child),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn rows_are_found_as_a_map_would(keys in proptest::collection::vec((0u64..50, 0u64..50), 0..2000), bits in 0u32..33) {
            // hashes of few bits: many rows share one
            let hash = |k: (u64, u64)| ((u64::from(mix(k.0, k.1)) >> bits) << bits) as u32;
            let (mut rows, mut index) = (Vec::new(), RowIndex::default());
            let mut twin = std::collections::HashMap::new();
            for key in keys {
                let found = index.find(hash(key), |row| rows[row as usize] == key);
                prop_assert_eq!(found, twin.get(&key).copied());
                if found.is_none() {
                    index.insert(hash(key), rows.len() as u32);
                    twin.insert(key, rows.len() as u32);
                    rows.push(key);
                }
            }
        }
    }

    proptest! {
        #[test]
        fn children_are_found_as_a_map_would(keys in proptest::collection::vec((0usize..9, 0u64..30), 0..500)) {
            let (mut rows, mut children) = (Vec::new(), Children::default());
            let hash = |k: (usize, u64)| mix(k.0 as u64, k.1);
            let mut twin = std::collections::HashMap::new();
            for key in keys {
                // a child is asked for below its own parent only
                let found = children.find(key.0, || hash(key), |row| rows[row as usize] == key);
                prop_assert_eq!(found, twin.get(&key).copied());
                if found.is_none() {
                    let child = rows.len() as u32;
                    rows.push(key);
                    children.insert(key.0, child, |row| hash(rows[row as usize]));
                    twin.insert(key, child);
                }
            }
        }
    }

    #[test]
    fn small_numbers_are_spread() {
        let mut seen = std::collections::HashSet::new();
        for a in 0..300 {
            for b in 0..300 {
                seen.insert(mix(a, b) >> 8);
            }
        }
        // of 90,000 numbers drawn from 2^24, some 240 meet
        assert!(seen.len() > 89_000, "{}", seen.len());
    }
}
