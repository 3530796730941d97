//! Many small lists in two arrays: the items of each key, ascending.

use std::marker::PhantomData;

use crate::id::Id;

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
        // Counting sort: starts[k] first counts, then points to where key k's next item goes.
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
            sorted[*place as usize] = i as u32;
            *place += 1;
        }
        // Each start has moved to the next key's: shift back.
        starts.rotate_right(1);
        starts[0] = 0;
        if let Some(last) = starts.last_mut() {
            *last = items as u32;
        }
        Self { starts, items: sorted.into_iter().map(|i| V::at(i as usize)).collect(), key: PhantomData }
    }
    /// The items of a key.
    pub(crate) fn of(&self, key: K) -> &[V] {
        let k = key.index();
        &self.items[self.starts[k] as usize..self.starts[k + 1] as usize]
    }
    /// How many keys there are.
    pub(crate) fn keys(&self) -> usize {
        self.starts.len() - 1
    }
    pub(crate) fn heap_bytes(&self) -> usize {
        (self.starts.capacity() + self.items.capacity()) * 4
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
            prop_assert_eq!(groups.keys(), 7);
            for k in 0..7 {
                let wanted: Vec<CsdId> = (0..keys.len()).filter(|&i| keys[i] == k).map(CsdId::at).collect();
                prop_assert_eq!(groups.of(PsId::at(k)), &wanted[..]);
            }
        }
    }
}
