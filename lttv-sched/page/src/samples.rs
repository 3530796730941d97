//! The samples of a thread, in a few bytes each.
//!
//! A recording of ten million samples would take 240 MB as plain numbers. Most samples come a period after the one
//! before, with the same weight, so a sample is kept as the time since the one before, its stack, and its weight where
//! that is another one: as LEB128, five to eight bytes. Reading begins at a mark; there is one every
//! [`BETWEEN_MARKS`] samples.

use lttv_modules::leb;
use lttv_modules::timeline::items::CellCounts;
use std::collections::VecDeque;

/// A sample.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Sample {
    /// When, ns since 1970.
    pub time_ns: i64,
    /// CPU time that it stands for.
    pub weight_ns: u64,
    /// Its stack, by its place in [`Recording::stacks`](crate::Recording::stacks).
    pub stack: u32,
}

/// Samples from one mark to the next: what a reader may have to skip.
const BETWEEN_MARKS: usize = 64;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Mark {
    /// The sample before it.
    before: Sample,
    /// Time of the sample.
    time_ns: i64,
    /// Where it is written.
    at: usize,
}

/// A sample that stands for a span of time: a thread was looked at, and had been doing the same since the last look.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SampleSpan {
    /// Begin of the span, ns since 1970.
    pub from_ns: i64,
    /// Its end.
    pub to_ns: i64,
    /// The sample.
    pub sample: Sample,
}

/// Most samples of one look.
const MOST_AT_ONCE: usize = 4;
/// Samples of one look come within their time divided by this.
const APART: i64 = 16;

/// Whether two samples, the one after the other, are of one look: part of the time since the look before the thread
/// ran, and part of it waited for a CPU.
fn is_one_look(one: &Sample, next: &Sample) -> bool {
    let weight = i64::try_from(one.weight_ns).unwrap_or(i64::MAX);
    next.time_ns.saturating_sub(one.time_ns) < weight / APART
}

/// The spans for which the samples of a look stand, which share the time since the look before it (`before`) by their
/// weights. Looks come at random times, each in a period of its own, so up to twice their weight may have passed.
fn spans_of_look(before: Option<i64>, look: &[Sample]) -> impl Iterator<Item = SampleSpan> + '_ {
    let weight = look.iter().fold(0_u64, |sum, sample| sum.saturating_add(sample.weight_ns));
    let end = look.last().map_or(0, |sample| sample.time_ns);
    let length = i64::try_from(weight).unwrap_or(i64::MAX);
    let begin = match before {
        Some(before) if end.saturating_sub(before) <= length.saturating_mul(2) => before,
        _ => end.saturating_sub(length),
    };
    let at = move |sum: u64| {
        let part = i128::from(end.saturating_sub(begin)) * i128::from(sum) / i128::from(weight.max(1));
        begin.saturating_add(i64::try_from(part).unwrap_or(i64::MAX))
    };
    look.iter().scan(0_u64, move |sum, sample| {
        let from_ns = at(*sum);
        *sum = sum.saturating_add(sample.weight_ns);
        Some(SampleSpan { from_ns, to_ns: at(*sum), sample: *sample })
    })
}

/// Samples in order of time.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Samples {
    bytes: Vec<u8>,
    marks: Vec<Mark>,
    count: usize,
    last: Sample,
    is_unordered: bool,
    cells: CellCounts,
}

/// Where a reader is: the sample that comes next.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SamplePosition {
    /// Number of the sample.
    pub index: usize,
    at: usize,
    before: Sample,
}

impl Samples {
    /// Adds a sample behind the others.
    pub fn push(&mut self, sample: Sample) {
        if self.count.is_multiple_of(BETWEEN_MARKS) {
            self.marks.push(Mark { before: self.last, time_ns: sample.time_ns, at: self.bytes.len() });
        }
        // A vector that doubles would waste half of what is saved here.
        if self.bytes.capacity() - self.bytes.len() < LONGEST {
            self.bytes.reserve_exact((self.bytes.len() / 8).max(LONGEST * 4));
        }
        self.cells.add((self.count > 0).then_some(self.last.time_ns), sample.time_ns);
        self.is_unordered |= self.count > 0 && sample.time_ns < self.last.time_ns;
        leb::write(&mut self.bytes, leb::zigzag(sample.time_ns.wrapping_sub(self.last.time_ns)));
        let is_new_weight = sample.weight_ns != self.last.weight_ns;
        leb::write(&mut self.bytes, u64::from(sample.stack) << 1 | u64::from(is_new_weight));
        if is_new_weight {
            leb::write(&mut self.bytes, sample.weight_ns);
        }
        (self.last, self.count) = (sample, self.count + 1);
    }

    /// The same in order of time.
    #[must_use]
    pub fn ordered(mut self) -> Samples {
        if self.is_unordered {
            let mut all: Vec<Sample> = self.iter().collect();
            all.sort_by_key(|sample| sample.time_ns);
            self = all.into_iter().collect();
        }
        self.bytes.shrink_to_fit();
        self.marks.shrink_to_fit();
        self
    }

    /// None of them is earlier than the one before.
    pub fn is_ordered(&self) -> bool {
        !self.is_unordered
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there is no sample.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// In how many buckets of each level they lie.
    pub fn cell_counts(&self) -> &CellCounts {
        &self.cells
    }

    /// Times of the first and the last one.
    pub fn span(&self) -> Option<(i64, i64)> {
        Some((self.marks.first()?.time_ns, self.last.time_ns))
    }

    /// All of them.
    pub fn iter(&self) -> Iter<'_> {
        Iter { samples: self, place: SamplePosition::default() }
    }

    /// Those from the first one on that is not before a time.
    pub fn from_time(&self, time_ns: i64) -> Iter<'_> {
        Iter { samples: self, place: self.place_of_time(time_ns) }
    }

    /// Those from one time to another, both included.
    pub fn inside(&self, first_ns: i64, last_ns: i64) -> impl Iterator<Item = Sample> + '_ {
        self.from_time(first_ns).take_while(move |sample| sample.time_ns <= last_ns)
    }

    /// Those whose spans reach into the time from `first_ns` to `last_ns`, both included.
    pub fn spans(&self, first_ns: i64, last_ns: i64) -> impl Iterator<Item = SampleSpan> + '_ {
        // A look may have begun some samples before, and where its spans begin is known by the look before it.
        let index = self.count_before(first_ns).saturating_sub(2 * MOST_AT_ONCE);
        let mut samples = Iter { samples: self, place: self.place(index) }.peekable();
        let mut before = None;
        let mut ready = VecDeque::with_capacity(MOST_AT_ONCE);
        let mut look = Vec::with_capacity(MOST_AT_ONCE);
        let spans = std::iter::from_fn(move || {
            if ready.is_empty() {
                look.clear();
                let first = samples.next()?;
                look.push(first);
                while let Some(next) = samples.next_if(|next| is_one_look(&first, next)) {
                    look.push(next);
                    if look.len() == MOST_AT_ONCE {
                        break;
                    }
                }
                ready.extend(spans_of_look(before, &look));
                before = look.last().map(|sample| sample.time_ns);
            }
            ready.pop_front()
        });
        let reaching = spans.skip_while(move |span| span.to_ns < first_ns);
        reaching.take_while(move |span| span.from_ns <= last_ns)
    }

    /// How many there are before a time.
    pub fn count_before(&self, time_ns: i64) -> usize {
        self.place_of_time(time_ns).index
    }

    /// How many there are up to a time, and at that time.
    pub fn count_to(&self, time_ns: i64) -> usize {
        time_ns.checked_add(1).map_or(self.count, |next| self.count_before(next))
    }

    /// The position of the sample with this number, or the end if the number is too large.
    pub fn place(&self, index: usize) -> SamplePosition {
        let index = index.min(self.count);
        let mut place = self.place_of_mark(index / BETWEEN_MARKS);
        while place.index < index && self.next(&mut place).is_some() {}
        place
    }

    /// The place of the first sample that is not before a time.
    pub fn place_of_time(&self, time_ns: i64) -> SamplePosition {
        // The first one at this time may stand before a mark of the same time.
        let mark = self.marks.partition_point(|mark| mark.time_ns < time_ns).saturating_sub(1);
        let mut place = self.place_of_mark(mark);
        loop {
            let here = place;
            match self.next(&mut place) {
                Some(sample) if sample.time_ns < time_ns => {}
                _ => return here,
            }
        }
    }

    fn place_of_mark(&self, number: usize) -> SamplePosition {
        match self.marks.get(number) {
            Some(mark) => SamplePosition { index: number * BETWEEN_MARKS, at: mark.at, before: mark.before },
            None => SamplePosition { index: self.count, at: self.bytes.len(), before: self.last },
        }
    }

    /// The sample at a place, which moves on to the one behind it; none at the end.
    pub fn next(&self, place: &mut SamplePosition) -> Option<Sample> {
        let all = self.bytes.get(place.at..)?;
        let mut rest = all;
        let later = leb::unzigzag(leb::read(&mut rest)?);
        let stack = leb::read(&mut rest)?;
        let weight_ns = if stack & 1 == 1 { leb::read(&mut rest)? } else { place.before.weight_ns };
        let time_ns = place.before.time_ns.wrapping_add(later);
        let sample = Sample { time_ns, weight_ns, stack: u32::try_from(stack >> 1).ok()? };
        *place =
            SamplePosition { index: place.index + 1, at: place.at + all.len() - rest.len(), before: sample };
        Some(sample)
    }
}

/// Most bytes of a sample.
const LONGEST: usize = 10 + 5 + 10;

impl FromIterator<Sample> for Samples {
    fn from_iter<I: IntoIterator<Item = Sample>>(all: I) -> Samples {
        let mut samples = Samples::default();
        all.into_iter().for_each(|sample| samples.push(sample));
        samples
    }
}

/// Samples from a place on.
#[derive(Clone, Debug)]
pub struct Iter<'s> {
    samples: &'s Samples,
    place: SamplePosition,
}

impl Iterator for Iter<'_> {
    type Item = Sample;

    fn next(&mut self) -> Option<Sample> {
        self.samples.next(&mut self.place)
    }
}

impl<'s> IntoIterator for &'s Samples {
    type Item = Sample;
    type IntoIter = Iter<'s>;

    fn into_iter(self) -> Iter<'s> {
        self.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn some(n: u64, dice: &mut pct_kit::Dice) -> Vec<Sample> {
        let mut time_ns = -1_000_000;
        (0..n)
            .map(|_| {
                time_ns += i64::try_from(dice.below(3) * dice.below(2_000_000)).expect("small");
                let weight_ns = if dice.below(5) == 0 { dice.below(u64::MAX) } else { 1_003_009 };
                Sample { time_ns, weight_ns, stack: u32::try_from(dice.below(5000)).expect("small") }
            })
            .collect()
    }

    #[test]
    fn samples_are_read_from_any_number_and_any_time_as_they_were_put() {
        let mut dice = pct_kit::Dice::new(1);
        for n in [0, 1, 63, 64, 65, 1000] {
            let plain = some(n, &mut dice);
            let packed: Samples = plain.iter().copied().collect();
            assert_eq!(packed.iter().collect::<Vec<_>>(), plain);
            let ends = plain.first().zip(plain.last()).map(|(a, b)| (a.time_ns, b.time_ns));
            assert_eq!((packed.len(), packed.span()), (plain.len(), ends));
            for _ in 0..300 {
                let index = dice.index(plain.len() + 2);
                let place = packed.place(index);
                assert_eq!(place.index, index.min(plain.len()));
                assert_eq!(packed.next(&mut place.clone()), plain.get(index).copied());
                // Times of samples, where several may be equal, and times between them.
                let near = plain.get(index).map_or(0, |sample| sample.time_ns);
                for time_ns in [near - 1, near, near + 1, i64::MIN, i64::MAX] {
                    let before = plain.partition_point(|sample| sample.time_ns < time_ns);
                    assert_eq!(packed.count_before(time_ns), before);
                    assert_eq!(packed.from_time(time_ns).next(), plain.get(before).copied());
                }
            }
        }
    }

    #[test]
    fn a_sample_by_the_clock_stands_for_the_time_since_the_one_before() {
        let sample = |time_ns, weight_ns| Sample { time_ns, weight_ns, stack: 0 };
        // One in each period of 100; a look with two samples, of which the second has three parts of four; then none
        // for a while.
        let looks = [(130, 100), (290, 100), (310, 100), (530, 50), (532, 150), (900, 100), (1120, 200)];
        let samples: Samples = looks.into_iter().map(|(at, weight)| sample(at, weight)).collect();
        let spans = |first, last| {
            let spans = samples.spans(first, last);
            spans.map(|span| (span.from_ns, span.to_ns)).collect::<Vec<_>>()
        };
        let all = [(30, 130), (130, 290), (290, 310), (310, 365), (365, 532), (800, 900), (900, 1120)];
        assert_eq!(spans(i64::MIN, i64::MAX), all);
        // Those that reach into a time, wherever it begins and ends.
        for first in (0..1200).step_by(5) {
            for last in (first..1200).step_by(5) {
                let reaching = all.iter().filter(|span| span.1 >= first && span.0 <= last);
                assert_eq!(spans(first, last), reaching.copied().collect::<Vec<_>>(), "{first} to {last}");
            }
        }
    }

    #[test]
    fn what_comes_out_of_order_is_put_in_order() {
        let mut plain = some(500, &mut pct_kit::Dice::new(2));
        plain.reverse();
        let packed = plain.iter().copied().collect::<Samples>().ordered();
        plain.sort_by_key(|sample| sample.time_ns);
        assert_eq!(packed.iter().collect::<Vec<_>>(), plain);
    }

    #[test]
    fn a_sample_takes_few_bytes() {
        let sample =
            |i: u32| Sample { time_ns: i64::from(i) * 1_003_009, weight_ns: 1_003_009, stack: i % 4000 };
        let packed = (0..64_000).map(sample).collect::<Samples>().ordered();
        let size = packed.bytes.capacity() + packed.marks.capacity() * size_of::<Mark>();
        assert!(size < 64_000 * 7, "{size}");
    }
}
