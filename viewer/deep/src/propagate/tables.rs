//! Compensation tables: from a procedure to the cost of its occurrences below a call site.

use crate::error::{DeepError, ErrorCode};
use crate::figures::Desc;
use crate::id::PsId;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

pub(crate) fn overflow(what: impl std::fmt::Display) -> DeepError {
    DeepError::new(ErrorCode::Overflow, format!("a sum of measurements exceeds 63 bits ({what})"))
}

pub(super) fn add(sum: &mut Desc, more: &Desc) -> Result<(), DeepError> {
    *sum = sum.checked_add(more).ok_or_else(|| overflow("descendants"))?;
    Ok(())
}

/// Ids are small and dense, so a multiplication spreads them well enough.
#[derive(Default)]
pub(super) struct IdHasher(u64);

impl Hasher for IdHasher {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, octets: &[u8]) {
        for &o in octets {
            self.write_u32(u32::from(o));
        }
    }
    fn write_u32(&mut self, n: u32) {
        self.0 = (self.0 ^ u64::from(n)).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(26);
    }
}

type Map = HashMap<PsId, Desc, BuildHasherDefault<IdHasher>>;

/// Empty lists with room for a few entries, for reuse.
#[derive(Default)]
pub(super) struct Pool(Vec<Vec<(PsId, Desc)>>);

impl Pool {
    /// Most lists that are kept. If very many tables wait at once, as many lists are empty in the end.
    const MOST: usize = 1000;

    fn give_back(&mut self, list: Vec<(PsId, Desc)>) {
        if self.0.len() < Self::MOST {
            self.0.push(list);
        }
    }
}

/// A compensation table. Many are empty, and nearly all others have few entries. No entry is zero, and neither `Few`
/// nor `Many` is empty.
#[derive(Default)]
pub(super) enum Table {
    #[default]
    Empty,
    Few(Vec<(PsId, Desc)>),
    Many(Box<Map>),
}

impl Table {
    /// Tables with more entries are hashed.
    const FEW: usize = 12;

    pub(super) fn is_empty(&self) -> bool {
        matches!(self, Self::Empty)
    }
    fn len(&self) -> usize {
        match self {
            Self::Empty => 0,
            Self::Few(list) => list.len(),
            Self::Many(map) => map.len(),
        }
    }
    #[inline]
    pub(super) fn get(&self, ps: PsId) -> Desc {
        match self {
            Self::Empty => None,
            Self::Few(list) => list.iter().find(|(p, _)| *p == ps).map(|(_, d)| *d),
            Self::Many(map) => map.get(&ps).copied(),
        }
        .unwrap_or_default()
    }
    pub(super) fn remove(&mut self, ps: PsId) {
        let now_empty = match self {
            Self::Empty => true,
            Self::Few(list) => {
                list.retain(|(p, _)| *p != ps);
                list.is_empty()
            }
            Self::Many(map) => {
                map.remove(&ps);
                map.is_empty()
            }
        };
        if now_empty {
            *self = Self::Empty;
        }
    }
    pub(super) fn add(&mut self, ps: PsId, desc: &Desc, pool: &mut Pool) -> Result<(), DeepError> {
        if desc.is_zero() {
            return Ok(());
        }
        match self {
            Self::Empty => {
                let mut list = pool.0.pop().unwrap_or_default();
                list.push((ps, *desc));
                *self = Self::Few(list);
                Ok(())
            }
            Self::Few(list) => {
                if let Some((_, sum)) = list.iter_mut().find(|(p, _)| *p == ps) {
                    return add(sum, desc);
                }
                if list.len() < Self::FEW {
                    list.push((ps, *desc));
                    return Ok(());
                }
                let mut map: Box<Map> = Box::new(list.drain(..).collect());
                map.insert(ps, *desc);
                pool.give_back(std::mem::take(list));
                *self = Self::Many(map);
                Ok(())
            }
            Self::Many(map) => add(map.entry(ps).or_default(), desc),
        }
    }
    /// Adds another table. The smaller one is walked.
    pub(super) fn merge(&mut self, mut other: Self, pool: &mut Pool) -> Result<(), DeepError> {
        if other.len() > self.len() {
            std::mem::swap(self, &mut other);
        }
        match other {
            Self::Empty => Ok(()),
            Self::Few(mut list) => {
                let done = list.drain(..).try_for_each(|(ps, d)| self.add(ps, &d, pool));
                pool.give_back(list);
                done
            }
            Self::Many(map) => map.into_iter().try_for_each(|(ps, d)| self.add(ps, &d, pool)),
        }
    }
    /// Calls `f` for the entries of some procedures, given in ascending order.
    pub(super) fn note(&self, keys: &[PsId], mut f: impl FnMut(PsId, Desc)) {
        if keys.len() <= self.len() {
            for &ps in keys {
                let desc = self.get(ps);
                if !desc.is_zero() {
                    f(ps, desc);
                }
            }
            return;
        }
        let mut each = |ps: PsId, d: Desc| {
            if keys.binary_search(&ps).is_ok() {
                f(ps, d);
            }
        };
        match self {
            Self::Empty => {}
            Self::Few(list) => list.iter().for_each(|&(ps, d)| each(ps, d)),
            Self::Many(map) => map.iter().for_each(|(&ps, &d)| each(ps, d)),
        }
    }
}
