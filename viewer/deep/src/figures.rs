//! Measurements: the nine own figures and the four inherited ones, and compact tables of them.
//!
//! Figures are exact integers of 63 bits. The operators here saturate, so that no report can
//! panic; preprocessing uses the `checked_` forms and refuses a profile whose sums do not fit.

use std::ops::{Add, AddAssign, Neg, Sub, SubAssign};

use crate::cursor::put_num;

/// Own measurements of a call, a context, a procedure, a call site or a module.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Own {
    /// Times the callee returned with success.
    pub exits: i64,
    /// Times the callee failed.
    pub fails: i64,
    /// Times the callee was asked for another solution.
    pub redos: i64,
    /// Times the callee was left by an exception.
    pub excps: i64,
    /// Clock ticks; `Header::ticks_per_second` of them are a second.
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
        // The sign bit: both were of one sign and the sum is of the other.
        overflow |= (*sum ^ s) & (m ^ s);
        *sum = s;
    }
    overflow >= 0
}

/// Bits of a CSD's mask, in the order of [`Own::as_array`], which is the order of the values.
pub(crate) const MASK_BITS: [u64; 8] = [0x002, 0x004, 0x040, 0x080, 0x100, 0x008, 0x010, 0x020];

/// Own figures of many calls, packed as the file has them: a mask and the nonzero figures, as
/// nums. About a fifth of eight plain integers, and the reader only copies.
///
/// Invariant: `starts[i]` is 0 (no record: all zero) or one more than where a whole record begins,
/// whose mask has no other bits than [`MASK_BITS`] and whose nums are below 2^63.
#[derive(Clone, Debug, Default)]
pub(crate) struct PackedOwn {
    starts: Vec<u32>,
    octets: Vec<u8>,
}

impl PackedOwn {
    pub(crate) fn with_len(len: usize) -> Self {
        Self { starts: vec![0; len], octets: Vec::new() }
    }
    /// Sets the figures of item `index`, which must not have been set before. `false`: full.
    #[must_use]
    pub(crate) fn set(&mut self, index: usize, own: &[i64; 8]) -> bool {
        let mask: u64 = own.iter().zip(MASK_BITS).map(|(&v, bit)| if v == 0 { 0 } else { bit }).sum();
        let mut record = Vec::with_capacity(16);
        put_num(&mut record, mask);
        for &v in own.iter().filter(|&&v| v != 0) {
            debug_assert!(v > 0, "the builder refuses negative figures");
            put_num(&mut record, v.cast_unsigned());
        }
        self.set_record(index, &record)
    }
    /// The same with a record as it stands in a file; the caller has checked it.
    #[inline]
    #[must_use]
    pub(crate) fn set_record(&mut self, index: usize, record: &[u8]) -> bool {
        if record == [0] {
            return true;
        }
        match u32::try_from(self.octets.len() + record.len()) {
            Ok(end) if end < u32::MAX => self.starts[index] = end - record.len() as u32 + 1,
            _ => return false,
        }
        self.octets.extend_from_slice(record);
        true
    }
    pub(crate) fn get(&self, index: usize) -> [i64; 8] {
        let mut own = [0; 8];
        self.each(index, |i, value| own[i] = value);
        own
    }
    /// Calls `f` with the place (in [`Own::as_array`]) and the value of each nonzero figure.
    #[inline]
    pub(crate) fn each(&self, index: usize, mut f: impl FnMut(usize, i64)) {
        let start = self.starts[index] as usize;
        if start == 0 {
            return;
        }
        let mut rest = self.octets[start - 1..].iter();
        let mut num = || {
            let mut value = 0_u64;
            for &octet in rest.by_ref() {
                value = value << 7 | u64::from(octet & 0x7f);
                if octet & 0x80 == 0 {
                    break;
                }
            }
            value.cast_signed()
        };
        let mask = num().cast_unsigned();
        for (i, bit) in MASK_BITS.into_iter().enumerate() {
            if mask & bit != 0 {
                f(i, num());
            }
        }
    }
    pub(crate) fn shrink(&mut self) {
        self.octets.shrink_to_fit();
    }
    pub(crate) fn heap_bytes(&self) -> usize {
        self.starts.capacity() * 4 + self.octets.capacity()
    }
}

/// Inherited figures in 16 octets: nearly all fit in 32 bits. A row with one that does not says
/// where among `big` they are, and has `u32::MAX` in its last place.
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

/// A table of inherited figures. Each row may be set once.
#[derive(Clone, Debug)]
pub(crate) struct DescTable {
    rows: Vec<[u32; 4]>,
    big: Vec<Desc>,
}

impl DescTable {
    pub(crate) fn zeros(len: usize) -> Self {
        Self { rows: vec![[0; 4]; len], big: Vec::new() }
    }
    pub(crate) fn get(&self, index: usize) -> Desc {
        widen(self.rows[index], &self.big)
    }
    /// `false`: full.
    #[must_use]
    pub(crate) fn set(&mut self, index: usize, desc: &Desc) -> bool {
        let Some(row) = narrow(desc, &mut self.big) else { return false };
        self.rows[index] = row;
        true
    }
    pub(crate) fn heap_bytes(&self) -> usize {
        self.rows.capacity() * 16 + self.big.capacity() * 32
    }
}

/// Inherited figures of the few items that have any, by number.
///
/// Fill with `push`, then `sort` once.
#[derive(Clone, Debug, Default)]
pub(crate) struct SparseDesc {
    keys: Vec<u32>,
    rows: Vec<[u32; 4]>,
    big: Vec<Desc>,
}

impl SparseDesc {
    /// Adds an item. `false`: full.
    #[must_use]
    pub(crate) fn push(&mut self, key: u32, desc: &Desc) -> bool {
        let Some(row) = narrow(desc, &mut self.big) else { return false };
        self.keys.push(key);
        self.rows.push(row);
        true
    }
    pub(crate) fn sort(&mut self) {
        let mut order: Vec<u32> = (0..self.keys.len() as u32).collect();
        order.sort_unstable_by_key(|&i| self.keys[i as usize]);
        self.rows = order.iter().map(|&i| self.rows[i as usize]).collect();
        self.keys.sort_unstable();
        self.keys.shrink_to_fit();
        self.big.shrink_to_fit();
    }
    pub(crate) fn get(&self, key: u32) -> Desc {
        self.keys.binary_search(&key).map_or(Desc::default(), |at| widen(self.rows[at], &self.big))
    }
    pub(crate) fn heap_bytes(&self) -> usize {
        self.keys.capacity() * 4 + self.rows.capacity() * 16 + self.big.capacity() * 32
    }
}

#[cfg(test)]
mod tests {
    use super::*;
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
            for (i, row) in rows.iter().enumerate().rev() {
                prop_assert!(table.set(i, &Desc::from_array(*row)));
                prop_assert!(sparse.push(i as u32, &Desc::from_array(*row)));
            }
            sparse.sort();
            for (i, row) in rows.iter().enumerate() {
                prop_assert_eq!(table.get(i), Desc::from_array(*row));
                prop_assert_eq!(sparse.get(i as u32), Desc::from_array(*row));
            }
            prop_assert_eq!(sparse.get(rows.len() as u32), Desc::default());
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
