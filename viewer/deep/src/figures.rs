//! Measurements: the nine own figures and the four inherited ones, and compact tables of them.
//!
//! Figures are exact integers of 63 bits. The operators here saturate, so that no report can
//! panic; preprocessing uses the `checked_` forms and refuses a profile whose sums do not fit.

use crate::small::small;
use std::ops::{Add, AddAssign, Neg, Sub, SubAssign};

use crate::cursor::{fast_num, put_num};
use crate::id::Id;

/// Own measurements of a call, a context, a procedure, a call site or a module.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Own {
    /// How often the callee returned with success.
    pub exits: i64,
    /// How often the callee failed.
    pub fails: i64,
    /// How often the callee was asked for another solution.
    pub redos: i64,
    /// How often the callee was left by an exception.
    pub excps: i64,
    /// Clock ticks; a second has `Header::ticks_per_second` of them.
    pub quanta: i64,
    /// Call events, the machine independent measure of time.
    pub callseqs: i64,
    /// Memory allocations.
    pub allocs: i64,
    /// Machine words allocated.
    pub words: i64,
}

/// Inherited measurements: what the descendants cost. Also used for totals (own + desc).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Desc {
    /// Clock ticks.
    pub quanta: i64,
    /// Call events.
    pub callseqs: i64,
    /// Memory allocations.
    pub allocs: i64,
    /// Machine words allocated.
    pub words: i64,
}

impl Own {
    /// How often it was called: exits + fails + excps - redos.
    pub fn calls(&self) -> i64 {
        self.exits.saturating_add(self.fails).saturating_add(self.excps).saturating_sub(self.redos)
    }
    /// Whether anything happened here: exits, fails, redos or excps nonzero.
    pub fn is_active(&self) -> bool {
        self.exits != 0 || self.fails != 0 || self.redos != 0 || self.excps != 0
    }
    /// The four figures that callers inherit.
    pub fn inherited(&self) -> Desc {
        Desc { quanta: self.quanta, callseqs: self.callseqs, allocs: self.allocs, words: self.words }
    }
    /// Own and descendants together.
    pub fn total(&self, desc: &Desc) -> Desc {
        self.inherited() + *desc
    }
    /// The eight stored figures in the order of the fields.
    pub fn as_array(&self) -> [i64; 8] {
        [self.exits, self.fails, self.redos, self.excps, self.quanta, self.callseqs, self.allocs, self.words]
    }
    /// The inverse of [`Own::as_array`].
    pub fn from_array(a: [i64; 8]) -> Self {
        let [exits, fails, redos, excps, quanta, callseqs, allocs, words] = a;
        Self { exits, fails, redos, excps, quanta, callseqs, allocs, words }
    }
    /// Sum; `None` if a figure does not fit in 63 bits.
    pub fn checked_add(&self, other: &Self) -> Option<Self> {
        let (a, b) = (self.as_array(), other.as_array());
        let mut sum = [0; 8];
        for i in 0..8 {
            sum[i] = a[i].checked_add(b[i])?;
        }
        Some(Self::from_array(sum))
    }
}

impl Desc {
    /// The figures in the order of the fields.
    pub fn as_array(&self) -> [i64; 4] {
        [self.quanta, self.callseqs, self.allocs, self.words]
    }
    /// The inverse of [`Desc::as_array`].
    pub fn from_array([quanta, callseqs, allocs, words]: [i64; 4]) -> Self {
        Self { quanta, callseqs, allocs, words }
    }
    /// Whether all four are zero.
    pub fn is_zero(&self) -> bool {
        *self == Self::default()
    }
    /// Sum; `None` if a figure does not fit in 63 bits.
    pub fn checked_add(&self, other: &Self) -> Option<Self> {
        Some(Self {
            quanta: self.quanta.checked_add(other.quanta)?,
            callseqs: self.callseqs.checked_add(other.callseqs)?,
            allocs: self.allocs.checked_add(other.allocs)?,
            words: self.words.checked_add(other.words)?,
        })
    }
    /// Difference; `None` if a figure does not fit in 63 bits.
    pub fn checked_sub(&self, other: &Self) -> Option<Self> {
        Some(Self {
            quanta: self.quanta.checked_sub(other.quanta)?,
            callseqs: self.callseqs.checked_sub(other.callseqs)?,
            allocs: self.allocs.checked_sub(other.allocs)?,
            words: self.words.checked_sub(other.words)?,
        })
    }
}

impl Add for Own {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        let (mut a, b) = (self.as_array(), other.as_array());
        for i in 0..8 {
            a[i] = a[i].saturating_add(b[i]);
        }
        Self::from_array(a)
    }
}

impl AddAssign for Own {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Add for Desc {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        let (mut a, b) = (self.as_array(), other.as_array());
        for i in 0..4 {
            a[i] = a[i].saturating_add(b[i]);
        }
        Self::from_array(a)
    }
}

impl Sub for Desc {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        let (mut a, b) = (self.as_array(), other.as_array());
        for i in 0..4 {
            a[i] = a[i].saturating_sub(b[i]);
        }
        Self::from_array(a)
    }
}

impl Neg for Desc {
    type Output = Self;
    fn neg(self) -> Self {
        Self::default() - self
    }
}

impl AddAssign for Desc {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl SubAssign for Desc {
    fn sub_assign(&mut self, other: Self) {
        *self = *self - other;
    }
}

impl std::iter::Sum for Own {
    fn sum<I: Iterator<Item = Self>>(items: I) -> Self {
        items.fold(Self::default(), Add::add)
    }
}

impl std::iter::Sum for Desc {
    fn sum<I: Iterator<Item = Self>>(items: I) -> Self {
        items.fold(Self::default(), Add::add)
    }
}

/// Adds in place; `false` if a sum does not fit.
#[inline]
#[must_use]
pub(crate) fn add_all<const N: usize>(sums: &mut [i64; N], more: &[i64; N]) -> bool {
    let mut overflow = 0;
    for (sum, &m) in sums.iter_mut().zip(more) {
        let s = sum.wrapping_add(m);
        // The sign bit is set if both had the same sign and the sum has the other.
        overflow |= (*sum ^ s) & (m ^ s);
        *sum = s;
    }
    overflow >= 0
}

/// Bits of a CSD's mask, in the order of [`Own::as_array`], which is the order of the values.
pub(crate) const MASK_BITS: [u64; 8] = [0x002, 0x004, 0x040, 0x080, 0x100, 0x008, 0x010, 0x020];

/// For each mask of the file, without its lowest bit, the figures that are present: bit `i` stands for index `i` of
/// [`Own::as_array`].
const PLACES: [u8; 256] = {
    let mut places = [0; 256];
    let mut mask = 0;
    while mask < 256 {
        let mut i = 0;
        while i < 8 {
            if (mask as u64) << 1 & MASK_BITS[i] != 0 {
                places[mask] |= 1 << i;
            }
            i += 1;
        }
        mask += 1;
    }
    places
};

/// Own figures of many calls: an octet that says which are not zero, followed by those, as nums. This takes about a
/// fifth of eight plain integers, and the reader only copies.
///
/// Invariant: `starts[i]` is 0 (no record: all zero) or one more than the start of a complete record, whose nums have
/// at most 9 octets.
#[derive(Clone, Debug, Default)]
pub(crate) struct PackedOwn {
    starts: Vec<u32>,
    octets: Vec<u8>,
}

impl PackedOwn {
    pub(crate) fn with_len(len: usize) -> Self {
        Self { starts: vec![0; len], octets: Vec::new() }
    }
    /// Sets the figures of item `index`, which must not have been set before. Returns `false` if the table is full.
    #[must_use]
    pub(crate) fn set(&mut self, index: usize, own: &[i64; 8]) -> bool {
        let mask: u64 = own.iter().zip(MASK_BITS).map(|(&v, bit)| if v == 0 { 0 } else { bit }).sum();
        let mut values = Vec::with_capacity(16);
        for &v in own.iter().filter(|&&v| v != 0) {
            debug_assert!(v > 0, "the builder refuses negative figures");
            put_num(&mut values, v.cast_unsigned());
        }
        self.set_record(index, mask, &values)
    }
    /// The same with a mask and values as in a file. The caller has checked them.
    #[inline]
    #[must_use]
    pub(crate) fn set_record(&mut self, index: usize, mask: u64, values: &[u8]) -> bool {
        if values.is_empty() {
            return true;
        }
        match u32::try_from(self.octets.len()) {
            Ok(start) if start < u32::MAX => self.starts[index] = start + 1,
            _ => return false,
        }
        self.octets.push(PLACES[(mask >> 1) as usize & 0xff]);
        self.octets.extend_from_slice(values);
        true
    }
    pub(crate) fn get(&self, index: usize) -> [i64; 8] {
        let mut own = [0; 8];
        self.each(index, |i, value| own[i] = value);
        own
    }
    /// Appends the figures of some items; see [`crate::calls`].
    pub(crate) fn get_all(&self, items: impl Iterator<Item = usize>, out: &mut Vec<Own>) {
        let starts: Vec<usize> = items.map(|i| self.starts[i] as usize).collect();
        let places: Vec<u8> =
            starts.iter().map(|s| s.checked_sub(1).map_or(0, |at| self.octets[at])).collect();
        for (&start, &places) in starts.iter().zip(&places) {
            let mut own = [0; 8];
            self.decode(places, start, |i, value| own[i] = value);
            out.push(Own::from_array(own));
        }
    }
    /// Calls `f` with the index (in [`Own::as_array`]) and the value of each nonzero figure.
    #[inline(always)]
    pub(crate) fn each(&self, index: usize, f: impl FnMut(usize, i64)) {
        let Some(start) = (self.starts[index] as usize).checked_sub(1) else { return };
        self.decode(self.octets[start], start + 1, f);
    }
    /// The figures in `places`, which begin at `at`.
    #[inline(always)]
    fn decode(&self, mut places: u8, mut at: usize, mut f: impl FnMut(usize, i64)) {
        while places != 0 {
            let place = places.trailing_zeros() as usize & 7;
            places &= places - 1;
            // Only complete records were added, so there is a number.
            let Some((value, len)) = fast_num(&self.octets[at..]) else { break };
            f(place, value.cast_signed());
            at += len;
        }
    }
    pub(crate) fn shrink(&mut self) {
        self.octets.shrink_to_fit();
    }
    pub(crate) fn heap_bytes(&self) -> usize {
        self.starts.capacity() * 4 + self.octets.capacity()
    }
}

/// Inherited figures in 16 octets: nearly all fit in 32 bits. If one does not, the row contains the index in `big` and
/// has `u32::MAX` in its last column.
fn narrow(desc: &Desc, big: &mut Vec<Desc>) -> Option<[u32; 4]> {
    match desc.as_array().map(|v| u32::try_from(v).ok()) {
        [Some(a), Some(b), Some(c), Some(d)] if d != u32::MAX => Some([a, b, c, d]),
        _ => {
            let at = u32::try_from(big.len()).ok()?;
            big.push(*desc);
            Some([at, 0, 0, u32::MAX])
        }
    }
}

fn widen(row: [u32; 4], big: &[Desc]) -> Desc {
    match row {
        [at, _, _, u32::MAX] => big[at as usize],
        row => Desc::from_array(row.map(i64::from)),
    }
}

/// A table of inherited figures. Each row may be set once. A row of zeros only takes its entry in `places`.
#[derive(Clone, Debug)]
pub(crate) struct DescTable {
    /// Number of the row, plus 1; 0: all zero.
    places: Vec<u32>,
    rows: Vec<[u32; 4]>,
    big: Vec<Desc>,
}

impl DescTable {
    pub(crate) fn zeros(len: usize) -> Self {
        Self { places: vec![0; len], rows: Vec::new(), big: Vec::new() }
    }
    #[inline]
    pub(crate) fn get(&self, index: usize) -> Desc {
        match self.places[index] {
            0 => Desc::default(),
            n => widen(self.rows[n as usize - 1], &self.big),
        }
    }
    /// Returns `false` if the table is full.
    #[must_use]
    pub(crate) fn set(&mut self, index: usize, desc: &Desc) -> bool {
        if desc.is_zero() {
            return true;
        }
        let Some(row) = narrow(desc, &mut self.big) else { return false };
        self.rows.push(row);
        let Ok(place) = u32::try_from(self.rows.len()) else { return false };
        self.places[index] = place;
        true
    }
    pub(crate) fn shrink(&mut self) {
        self.rows.shrink_to_fit();
        self.big.shrink_to_fit();
    }
    pub(crate) fn heap_bytes(&self) -> usize {
        self.places.capacity() * 4 + self.rows.capacity() * 16 + self.big.capacity() * 32
    }
}

/// Inherited figures of the few items that have any, by key.
///
/// Fill with `push`, then `sort` once.
#[derive(Clone, Debug)]
pub(crate) struct SparseDesc<K> {
    keys: Vec<K>,
    rows: Vec<[u32; 4]>,
    big: Vec<Desc>,
    /// Index in `keys` of the first key for each value of the upper bits, so that few keys must be compared.
    buckets: Vec<u32>,
}

/// A key of a [`SparseDesc`].
pub(crate) trait Key: Copy + Ord {
    /// A number that ascends with the key. Few keys share one.
    fn number(self) -> u32;
}

impl Key for u32 {
    fn number(self) -> u32 {
        self
    }
}

impl<A: Id, B: Id> Key for (A, B) {
    fn number(self) -> u32 {
        self.0.number()
    }
}

/// Number of keys that share a bucket, as a power of two.
const BUCKET_BITS: u32 = 5;

impl<K> Default for SparseDesc<K> {
    fn default() -> Self {
        Self { keys: Vec::new(), rows: Vec::new(), big: Vec::new(), buckets: Vec::new() }
    }
}

impl<K: Key> SparseDesc<K> {
    /// Adds an item. Returns `false` if the table is full.
    #[must_use]
    pub(crate) fn push(&mut self, key: K, desc: &Desc) -> bool {
        if self.keys.len() >= u32::MAX as usize {
            return false;
        }
        let Some(row) = narrow(desc, &mut self.big) else { return false };
        self.keys.push(key);
        self.rows.push(row);
        true
    }
    pub(crate) fn sort(&mut self) {
        // Rows are permuted in place, because a second list would be the peak of memory use.
        let mut order: Vec<(K, u32)> = self.keys.iter().copied().zip(0..).collect();
        order.sort_unstable();
        for (place, &(key, _)) in self.keys.iter_mut().zip(&order) {
            *place = key;
        }
        for start in 0..order.len() {
            // Each row moves to the previous position in its cycle. A finished position refers to itself.
            let first = self.rows[start];
            let mut at = start;
            loop {
                let from = std::mem::replace(&mut order[at].1, small(at)) as usize;
                if from == start || from == at {
                    break;
                }
                self.rows[at] = self.rows[from];
                at = from;
            }
            self.rows[at] = first;
        }
        self.keys.shrink_to_fit();
        self.big.shrink_to_fit();
        let buckets = self.keys.last().map_or(0, |k| (k.number() >> BUCKET_BITS) as usize + 1);
        self.buckets = vec![0; buckets + 1];
        for key in &self.keys {
            self.buckets[(key.number() >> BUCKET_BITS) as usize + 1] += 1;
        }
        let mut sum = 0;
        for start in &mut self.buckets {
            sum += *start;
            *start = sum;
        }
    }
    #[inline]
    pub(crate) fn get(&self, key: K) -> Desc {
        let bucket = (key.number() >> BUCKET_BITS) as usize;
        let Some(&[start, end]) = self.buckets.get(bucket..).and_then(<[u32]>::first_chunk) else {
            return Desc::default();
        };
        let start = start as usize;
        match self.keys[start..end as usize].binary_search(&key) {
            Ok(at) => widen(self.rows[start + at], &self.big),
            Err(_) => Desc::default(),
        }
    }
    pub(crate) fn heap_bytes(&self) -> usize {
        self.buckets.capacity() * 4
            + self.keys.capacity() * size_of::<K>()
            + self.rows.capacity() * 16
            + self.big.capacity() * 32
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::{PdId, PsId};
    use proptest::prelude::*;

    #[test]
    fn calls_count_exceptions_and_not_redos() {
        let own = Own { exits: 4, fails: 1, redos: 4, excps: 2, ..Own::default() };
        assert_eq!(own.calls(), 3);
    }

    proptest! {
        #[test]
        fn packed_figures_come_back(rows in prop::collection::vec(
            prop::array::uniform8(prop_oneof![Just(0_i64), 0..200_i64, 0..=i64::MAX]), 0..40)) {
            let mut packed = PackedOwn::with_len(rows.len());
            for (i, row) in rows.iter().enumerate().rev() {
                prop_assert!(packed.set(i, row));
            }
            for (i, row) in rows.iter().enumerate() {
                prop_assert_eq!(packed.get(i), *row);
            }
        }

        #[test]
        fn tables_come_back(rows in prop::collection::vec(
            prop::array::uniform4(prop_oneof![0..9_i64, any::<i64>(), Just(i64::from(u32::MAX))]), 0..60)) {
            let mut table = DescTable::zeros(rows.len());
            let mut sparse = SparseDesc::default();
            let mut by_two = SparseDesc::default();
            for (i, row) in rows.iter().enumerate().rev() {
                prop_assert!(table.set(i, &Desc::from_array(*row)));
                prop_assert!(sparse.push(i as u32, &Desc::from_array(*row)));
                prop_assert!(by_two.push((PdId::at(i / 3 * 40), PsId::at(i)), &Desc::from_array(*row)));
            }
            by_two.sort();
            sparse.sort();
            for (i, row) in rows.iter().enumerate() {
                prop_assert_eq!(table.get(i), Desc::from_array(*row));
                prop_assert_eq!(sparse.get(i as u32), Desc::from_array(*row));
                prop_assert_eq!(by_two.get((PdId::at(i / 3 * 40), PsId::at(i))), Desc::from_array(*row));
                prop_assert_eq!(by_two.get((PdId::at(i / 3 * 40 + 1), PsId::at(i))), Desc::default());
            }
            prop_assert_eq!(sparse.get(rows.len() as u32), Desc::default());
            prop_assert_eq!(sparse.get(u32::MAX), Desc::default());
        }

        #[test]
        fn adding_in_place_sees_overflow(a in any::<[i64; 4]>(), b in any::<[i64; 4]>()) {
            let mut sums = a;
            let fits = a.iter().zip(&b).all(|(x, y)| x.checked_add(*y).is_some());
            prop_assert_eq!(add_all(&mut sums, &b), fits);
            if fits {
                prop_assert_eq!(Some(Desc::from_array(sums)), Desc::from_array(a).checked_add(&Desc::from_array(b)));
            }
        }
    }
}
