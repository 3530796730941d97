//! What is summed over stacks.

use pct_num::{Estimate, float, rounded};
use std::ops::{Add, AddAssign};

/// An amount of memory: octets, and the blocks that they are in.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct MemoryAmount {
    /// Octets.
    pub bytes: Estimate,
    /// Blocks.
    pub blocks: Estimate,
}

impl MemoryAmount {
    /// Number of samples.
    #[must_use]
    pub fn samples(&self) -> u64 {
        self.bytes.samples
    }
    /// Mean size of a block in octets; `None` without a block.
    #[must_use]
    pub fn mean_size(&self) -> Option<f64> {
        (self.blocks.amount > 0.0).then(|| self.bytes.amount / self.blocks.amount)
    }
}

impl AddAssign for MemoryAmount {
    fn add_assign(&mut self, other: Self) {
        self.bytes += other.bytes;
        self.blocks += other.blocks;
    }
}

impl Add for MemoryAmount {
    type Output = Self;
    fn add(mut self, other: Self) -> Self {
        self += other;
        self
    }
}

/// By what rows of memory are ranked.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Measure {
    /// Octets that are live.
    #[default]
    Live,
    /// Octets that were live when most was.
    Peak,
    /// Octets allocated since the start.
    Bytes,
    /// Blocks allocated since the start.
    Blocks,
    /// Live octets times their age: what is large and old comes first.
    Age,
    /// Mean size of the blocks allocated.
    Size,
}

impl Measure {
    /// What people type.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Live => "live",
            Self::Peak => "peak",
            Self::Bytes => "bytes",
            Self::Blocks => "blocks",
            Self::Age => "age",
            Self::Size => "size",
        }
    }
    /// All of them.
    pub const ALL: [Self; 6] = [Self::Live, Self::Peak, Self::Bytes, Self::Blocks, Self::Age, Self::Size];
}

/// How long freed samples had lived: counts by powers of four.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Lifetimes {
    /// Count k has those that lived from [`Lifetimes::limit_ns`]`(k)` to below that of k + 1.
    pub counts: [u32; 20],
}

impl Lifetimes {
    /// Where count `k` begins, in nanoseconds: powers of four from 256 ns on; the first one begins at 0.
    #[must_use]
    pub fn limit_ns(k: usize) -> f64 {
        if k == 0 { 0.0 } else { 256.0 * 4f64.powf(float(k as u64)) }
    }
    /// Number of samples.
    #[must_use]
    pub fn samples(&self) -> u64 {
        self.counts.iter().map(|&count| u64::from(count)).sum()
    }
    /// The share of them that lived shorter than `ns`: between two limits in proportion to the logarithm.
    #[must_use]
    pub fn share_below(&self, ns: f64) -> Option<f64> {
        let all = self.samples();
        let below: f64 =
            self.counts.iter().enumerate().map(|(k, &count)| f64::from(count) * part_below(k, ns)).sum();
        (all > 0).then(|| below / float(all))
    }
    /// Half of them lived shorter, in nanoseconds; `None` if no block was freed.
    #[must_use]
    pub fn median_ns(&self) -> Option<f64> {
        let half = float(self.samples()) / 2.0;
        let mut below = 0.0;
        for (k, &count) in self.counts.iter().enumerate().filter(|(_, count)| **count > 0) {
            let count = f64::from(count);
            if below + count >= half {
                let from = Self::limit_ns(k).max(1.0);
                return Some(from * (Self::limit_ns(k + 1) / from).powf((half - below) / count));
            }
            below += count;
        }
        None
    }
    /// The same samples, counted at first in units of `ns_a_unit` nanoseconds.
    #[must_use]
    pub fn from_units(counts: [u32; 20], ns_a_unit: f64) -> Self {
        // One unit is some fraction of a nanosecond (a tick of the processor's counter): a shift by a part of a count.
        let shift = if ns_a_unit.is_finite() && ns_a_unit > 0.0 { ns_a_unit.log(4.0) } else { 0.0 };
        let mut scaled = Self::default();
        for (k, &count) in counts.iter().enumerate() {
            let at = (float(k as u64) + shift).clamp(0.0, 19.0);
            let (low, part) = (at.floor(), at.fract());
            let upper = u32::try_from(rounded(f64::from(count) * part)).unwrap_or(count).min(count);
            let low = usize::try_from(rounded(low)).unwrap_or(0).min(19);
            let next = (low + 1).min(19);
            scaled.counts[low] = scaled.counts[low].saturating_add(count - upper);
            scaled.counts[next] = scaled.counts[next].saturating_add(upper);
        }
        scaled
    }
}

/// How much of count `k` lies below `ns`.
fn part_below(k: usize, ns: f64) -> f64 {
    let (from, to) = (Lifetimes::limit_ns(k).max(1.0), Lifetimes::limit_ns(k + 1));
    if ns >= to {
        1.0
    } else if ns <= from {
        0.0
    } else {
        (ns / from).ln() / (to / from).ln()
    }
}

impl AddAssign for Lifetimes {
    fn add_assign(&mut self, other: Self) {
        for (count, more) in self.counts.iter_mut().zip(other.counts) {
            *count = count.saturating_add(more);
        }
    }
}

/// All that is known of one stack, or of a sum of stacks.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Figures {
    /// What it is ranked by.
    pub by: Measure,
    /// Live.
    pub live: MemoryAmount,
    /// Live when most was.
    pub peak: MemoryAmount,
    /// Allocated since the start.
    pub allocated: MemoryAmount,
    /// Freed since the start: samples, octets, blocks.
    pub freed: (u64, f64, f64),
    /// How long what was freed had lived.
    pub lifetimes: Lifetimes,
    /// Live octets times their age: sum in octet seconds.
    pub byte_seconds: f64,
}

impl Figures {
    /// Nothing was measured.
    #[must_use]
    pub fn is_nothing(&self) -> bool {
        self.live.bytes.is_empty() && self.peak.bytes.is_empty() && self.allocated.bytes.is_empty()
    }
    /// What a measure is about.
    #[must_use]
    pub fn held(&self, measure: Measure) -> &MemoryAmount {
        match measure {
            Measure::Live | Measure::Age => &self.live,
            Measure::Peak => &self.peak,
            Measure::Bytes | Measure::Blocks | Measure::Size => &self.allocated,
        }
    }
    /// The estimate that a measure is about: octets, but for blocks.
    #[must_use]
    pub fn estimate(&self, measure: Measure) -> &Estimate {
        let held = self.held(measure);
        if measure == Measure::Blocks { &held.blocks } else { &held.bytes }
    }
    /// Mean age of the live octets, in seconds.
    #[must_use]
    pub fn mean_age(&self) -> Option<f64> {
        (self.live.bytes.amount > 0.0).then(|| self.byte_seconds / self.live.bytes.amount)
    }
    /// The number that rows are ranked by.
    #[must_use]
    pub fn rank(&self) -> f64 {
        match self.by {
            Measure::Age => self.byte_seconds,
            Measure::Size => self.allocated.mean_size().unwrap_or(0.0),
            measure => self.estimate(measure).amount,
        }
    }
}

impl AddAssign for Figures {
    fn add_assign(&mut self, other: Self) {
        if self.is_nothing() {
            self.by = other.by;
        }
        self.live += other.live;
        self.peak += other.peak;
        self.allocated += other.allocated;
        self.freed.0 = self.freed.0.saturating_add(other.freed.0);
        self.freed.1 += other.freed.1;
        self.freed.2 += other.freed.2;
        self.lifetimes += other.lifetimes;
        self.byte_seconds += other.byte_seconds;
    }
}

impl std::iter::Sum for Figures {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), |mut sum, more| {
            sum += more;
            sum
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lifetimes_have_a_median_and_a_share_of_short_ones() {
        let mut counts = [0; 20];
        counts[3] = 10;
        let lifetimes = Lifetimes { counts };
        let (from, to) = (Lifetimes::limit_ns(3), Lifetimes::limit_ns(4));
        let median = lifetimes.median_ns().expect("there are some");
        assert!((median - (from * to).sqrt()).abs() < 1.0, "{median}");
        assert_eq!(lifetimes.share_below(from), Some(0.0));
        assert_eq!(lifetimes.share_below(to), Some(1.0));
        assert!((lifetimes.share_below(median).expect("some") - 0.5).abs() < 1e-9);
        assert_eq!(Lifetimes::default().median_ns(), None);
        assert_eq!(Lifetimes::default().share_below(1e6), None);
    }

    #[test]
    fn counts_of_other_units_keep_their_number_and_their_median() {
        let mut counts = [0; 20];
        counts[8] = 1000;
        let same = Lifetimes::from_units(counts, 1.0);
        assert_eq!(same.counts, counts);
        let quarter = Lifetimes::from_units(counts, 0.25);
        assert_eq!(quarter.counts[7], 1000);
        let odd = Lifetimes::from_units(counts, 0.385);
        assert_eq!(odd.samples(), 1000);
        let ratio = odd.median_ns().expect("some") / same.median_ns().expect("some");
        assert!((0.25..0.6).contains(&ratio), "{ratio}");
        for bad in [0.0, f64::NAN, f64::INFINITY, -1.0] {
            assert_eq!(Lifetimes::from_units(counts, bad).samples(), 1000);
        }
    }
}
