//! Many small lists in few arrays: the items of each key, ascending. [`Groups`] is for keys with any number of items,
//! [`Mostly1`] for keys that nearly all have one item.

use crate::small::small;
use std::marker::PhantomData;

use crate::id::Id;

/// A part of an arena.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) start: u32,
    pub(crate) len: u32,
}

impl Span {
    pub(crate) fn slice_of<T>(self, arena: &[T]) -> &[T] {
        &arena[self.start as usize..][..self.len as usize]
    }
}

/// For each `K`, some `V`s in ascending order.
///
/// Invariant: `starts` has one entry more than there are keys, ascends and ends at `items.len()`.
#[derive(Clone, Debug)]
pub(crate) struct Groups<K, V> {
    starts: Vec<u32>,
    items: Vec<V>,
    key: PhantomData<fn(K)>,
}

impl<K: Id, V: Id> Groups<K, V> {
    /// Groups the ids 1 to `items` by their keys, of which there are `keys`.
    pub(crate) fn by(keys: usize, items: usize, key: impl Fn(V) -> K) -> Self {
        // Counting sort: starts[k] is first a count, then the index of key k's next item.
        let mut starts = vec![0_u32; keys + 1];
        for i in 0..items {
            starts[key(V::at(i)).index()] += 1;
        }
        let mut sum = 0;
        for start in &mut starts {
            sum += std::mem::replace(start, sum);
        }
        let mut sorted = vec![0_u32; items];
        for i in 0..items {
            let place = &mut starts[key(V::at(i)).index()];
            sorted[*place as usize] = small(i);
            *place += 1;
        }
        // Each start now has the next key's value, so shift them back.
        starts.rotate_right(1);
        starts[0] = 0;
        if let Some(last) = starts.last_mut() {
            *last = small(items);
        }
        Self { starts, items: sorted.into_iter().map(|i| V::at(i as usize)).collect(), key: PhantomData }
    }
    /// The items of a key.
    pub(crate) fn items_of(&self, key: K) -> &[V] {
        let k = key.index();
        &self.items[self.starts[k] as usize..self.starts[k + 1] as usize]
    }
    pub(crate) fn heap_bytes(&self) -> usize {
        (self.starts.capacity() + self.items.capacity()) * 4
    }
}

/// For each `K`, some `V`s in ascending order; nearly every key has one, which takes 4 octets.
///
/// Invariant: `place[k]` is `None` (no items), the only item, or `BIG` plus the number of the key's list among `lists`.
#[derive(Clone, Debug)]
pub(crate) struct Mostly1<K, V> {
    place: Vec<Option<V>>,
    lists: Vec<Span>,
    items: Vec<V>,
    key: PhantomData<fn(K)>,
}

/// What is stored for a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Few<V> {
    /// No items.
    None,
    /// One.
    One(V),
    /// The list with this number. Lists are numbered from 0.
    List(usize),
}

/// The largest item number that [`Mostly1`] can hold.
pub(crate) const MOSTLY1_MAX: u32 = BIG - 1;
const BIG: u32 = 1 << 31;

impl<K: Id, V: Id> Mostly1<K, V> {
    /// Groups the ids 1 to `items` by their keys, of which there are `keys`.
    pub(crate) fn by(keys: usize, items: usize, key: impl Fn(V) -> K) -> Self {
        debug_assert!(items <= MOSTLY1_MAX as usize);
        let list = |n: usize| V::at((BIG as usize | n) - 1);
        let mut place: Vec<Option<V>> = vec![None; keys];
        let mut lists: Vec<Span> = Vec::new();
        // Further items of a key, with the number of its list.
        let mut more: Vec<(u32, V)> = Vec::new();
        let mut firsts: Vec<V> = Vec::new();
        for i in 0..items {
            let item = V::at(i);
            let at = &mut place[key(item).index()];
            match *at {
                None => *at = Some(item),
                Some(v) if v.number() & BIG != 0 => {
                    let n = v.number() & !BIG;
                    lists[n as usize].len += 1;
                    more.push((n, item));
                }
                Some(first) => {
                    // Each list has at least two items, so there are fewer than 2^30 lists.
                    *at = Some(list(lists.len()));
                    more.push((small(lists.len()), item));
                    lists.push(Span { start: 0, len: 2 });
                    firsts.push(first);
                }
            }
        }
        let mut start = 0;
        for list in &mut lists {
            list.start = start;
            start += std::mem::replace(&mut list.len, 1);
        }
        let mut sorted: Vec<V> = vec![V::at(0); start as usize];
        for (list, &first) in lists.iter().zip(&firsts) {
            sorted[list.start as usize] = first;
        }
        for &(n, item) in &more {
            let list = &mut lists[n as usize];
            sorted[(list.start + list.len) as usize] = item;
            list.len += 1;
        }
        Self { place, lists, items: sorted, key: PhantomData }
    }
    /// The items of a key.
    #[inline]
    pub(crate) fn items_of(&self, key: K) -> &[V] {
        match self.few(key) {
            Few::List(n) => self.list(n),
            Few::None | Few::One(_) => self.place[key.index()].as_slice(),
        }
    }
    /// What is stored for a key.
    #[inline]
    pub(crate) fn few(&self, key: K) -> Few<V> {
        match self.place[key.index()] {
            None => Few::None,
            Some(v) if v.number() & BIG != 0 => Few::List((v.number() & !BIG) as usize),
            Some(v) => Few::One(v),
        }
    }
    /// How many keys there are.
    pub(crate) fn keys(&self) -> usize {
        self.place.len()
    }
    /// How many keys have a list.
    pub(crate) fn lists(&self) -> usize {
        self.lists.len()
    }
    /// The items of a list.
    pub(crate) fn list(&self, n: usize) -> &[V] {
        self.lists[n].slice_of(&self.items)
    }
    pub(crate) fn heap_bytes(&self) -> usize {
        (self.place.capacity() + self.items.capacity()) * 4 + self.lists.capacity() * 8
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::{CsdId, PsId};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn groups_hold_each_item_under_its_key(keys in prop::collection::vec(0..7_usize, 0..50)) {
            let groups: Groups<PsId, CsdId> =
                Groups::by(7, keys.len(), |c: CsdId| PsId::at(keys[c.index()]));
            for k in 0..7 {
                let wanted: Vec<CsdId> = (0..keys.len()).filter(|&i| keys[i] == k).map(CsdId::at).collect();
                prop_assert_eq!(groups.items_of(PsId::at(k)), &wanted[..]);
            }
        }

        #[test]
        fn lists_of_mostly_one_hold_the_same(keys in prop::collection::vec(0..30_usize, 0..60)) {
            let many: Groups<PsId, CsdId> = Groups::by(30, keys.len(), |c: CsdId| PsId::at(keys[c.index()]));
            let few: Mostly1<PsId, CsdId> = Mostly1::by(30, keys.len(), |c: CsdId| PsId::at(keys[c.index()]));
            prop_assert_eq!(few.keys(), 30);
            let mut lists = 0;
            for k in (0..30).map(PsId::at) {
                prop_assert_eq!(few.items_of(k), many.items_of(k));
                match few.few(k) {
                    Few::None => prop_assert!(many.items_of(k).is_empty()),
                    Few::One(v) => prop_assert_eq!(many.items_of(k), &[v][..]),
                    Few::List(n) => {
                        prop_assert_eq!(few.list(n), many.items_of(k));
                        lists += 1;
                    }
                }
            }
            prop_assert_eq!(few.lists(), lists);
        }
    }
}
