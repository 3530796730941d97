//! Measurements: the nine own figures and the four inherited ones, and compact tables of them.
//!
//! Figures are exact integers of 63 bits. The operators here saturate, so that no report can
//! panic; preprocessing uses the `checked_` forms and refuses a profile whose sums do not fit.

use std::collections::HashMap;
use std::ops::{Add, AddAssign, Neg, Sub, SubAssign};

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

/// Own figures of many calls, packed: most of the eight are zero, the others are small.
///
/// A record is a mask octet (bit i: figure i of [`Own::as_array`] is not zero) and the nonzero
/// figures, 7 bits an octet, least significant first. About a fifth of eight plain integers.
///
/// Invariant: `starts[i]` is 0 (no record: all zero) or one more than where a record begins.
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
        let mut mask = 0_u8;
        for (i, &v) in own.iter().enumerate() {
            mask |= u8::from(v != 0) << i;
        }
        if mask == 0 {
            return true;
        }
        let Some(start) = u32::try_from(self.octets.len()).ok().filter(|&s| s < u32::MAX - 128) else {
            return false;
        };
        self.starts[index] = start + 1;
        self.octets.push(mask);
        for &v in own {
            let mut v = v.cast_unsigned();
            if v == 0 {
                continue;
            }
            while v >= 0x80 {
                self.octets.push((v & 0x7f) as u8 | 0x80);
                v >>= 7;
            }
            self.octets.push(v as u8);
        }
        true
    }
    pub(crate) fn get(&self, index: usize) -> Own {
        let start = self.starts[index] as usize;
        if start == 0 {
            return Own::default();
        }
        let record = &self.octets[start - 1..];
        let mut mask = record[0];
        let mut at = 1;
        let mut own = [0_i64; 8];
        while mask != 0 {
            let i = mask.trailing_zeros() as usize;
            mask &= mask - 1;
            let mut octet = record[at];
            at += 1;
            let mut v = u64::from(octet & 0x7f);
            let mut shift = 7;
            while octet & 0x80 != 0 {
                octet = record[at];
                at += 1;
                v |= u64::from(octet & 0x7f) << shift;
                shift += 7;
            }
            own[i] = v.cast_signed();
        }
        Own::from_array(own)
    }
    pub(crate) fn shrink(&mut self) {
        self.octets.shrink_to_fit();
    }
    pub(crate) fn heap_bytes(&self) -> usize {
        self.starts.capacity() * 4 + self.octets.capacity()
    }
}

/// A column of figures, nearly all of which fit in 32 bits.
///
/// Values that do not fit (or are negative) are kept beside; when they become many, the column
/// turns into plain 64-bit integers.
#[derive(Clone, Debug)]
pub(crate) enum Column {
    Narrow { values: Vec<u32>, big: HashMap<u32, i64> },
    Wide(Vec<i64>),
}

impl Column {
    pub(crate) fn zeros(len: usize) -> Self {
        Self::Narrow { values: vec![0; len], big: HashMap::new() }
    }
    pub(crate) fn get(&self, index: usize) -> i64 {
        match self {
            Self::Narrow { values, big } => match values[index] {
                u32::MAX => big[&(index as u32)],
                v => i64::from(v),
            },
            Self::Wide(values) => values[index],
        }
    }
    pub(crate) fn set(&mut self, index: usize, value: i64) {
        match self {
            Self::Narrow { values, big } => {
                if let Some(v) = u32::try_from(value).ok().filter(|&v| v != u32::MAX) {
                    // Untouched pages of a zeroed table cost no memory.
                    if values[index] != v {
                        values[index] = v;
                    }
                    return;
                }
                values[index] = u32::MAX;
                big.insert(index as u32, value);
                if big.len() > 64 && big.len() > values.len() / 8 {
                    *self = Self::Wide((0..values.len()).map(|i| self.get(i)).collect());
                }
            }
            Self::Wide(values) => values[index] = value,
        }
    }
    pub(crate) fn heap_bytes(&self) -> usize {
        match self {
            Self::Narrow { values, big } => values.capacity() * 4 + big.capacity() * 18,
            Self::Wide(values) => values.capacity() * 8,
        }
    }
}

/// A table of inherited figures, one column each.
#[derive(Clone, Debug)]
pub(crate) struct DescColumns([Column; 4]);

impl DescColumns {
    pub(crate) fn zeros(len: usize) -> Self {
        Self(std::array::from_fn(|_| Column::zeros(len)))
    }
    pub(crate) fn get(&self, index: usize) -> Desc {
        Desc::from_array(std::array::from_fn(|i| self.0[i].get(index)))
    }
    pub(crate) fn set(&mut self, index: usize, desc: &Desc) {
        for (column, value) in self.0.iter_mut().zip(desc.as_array()) {
            column.set(index, value);
        }
    }
    pub(crate) fn heap_bytes(&self) -> usize {
        self.0.iter().map(Column::heap_bytes).sum()
    }
}

/// Inherited figures of the few items that have any, by number.
///
/// Fill with `push`, then `sort` once.
#[derive(Clone, Debug, Default)]
pub(crate) struct SparseDesc {
    keys: Vec<u32>,
    rows: Vec<[u32; 4]>,
    /// Rows with a figure of 32 bits or more: the row says where here, in its first figure, and
    /// `u32::MAX` in its last.
    big: Vec<Desc>,
}

impl SparseDesc {
    /// Adds an item. `false`: full.
    #[must_use]
    pub(crate) fn push(&mut self, key: u32, desc: &Desc) -> bool {
        let narrow = desc.as_array().map(|v| u32::try_from(v).ok());
        let row = match narrow {
            [Some(a), Some(b), Some(c), Some(d)] if d != u32::MAX => [a, b, c, d],
            _ => {
                let Ok(at) = u32::try_from(self.big.len()) else { return false };
                self.big.push(*desc);
                [at, 0, 0, u32::MAX]
            }
        };
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
        let Ok(at) = self.keys.binary_search(&key) else { return Desc::default() };
        match self.rows[at] {
            [at, _, _, u32::MAX] => self.big[at as usize],
            row => Desc::from_array(row.map(i64::from)),
        }
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
                prop_assert_eq!(packed.get(i), Own::from_array(*row));
            }
        }

        #[test]
        fn columns_come_back(values in prop::collection::vec(
            prop_oneof![0..9_i64, any::<i64>(), Just(i64::from(u32::MAX))], 0..300)) {
            let mut column = Column::zeros(values.len());
            for (i, &v) in values.iter().enumerate() {
                column.set(i, v);
            }
            for (i, &v) in values.iter().enumerate() {
                prop_assert_eq!(column.get(i), v);
            }
        }
    }
}
