//! The finished cells of one lane at one level, in a few bytes each.
//!
//! A pass keeps millions of cells, and most of them say little: one item, one key, a bucket that one state fills. So a
//! cell is a byte of flags and those numbers that the flags do not tell, as LEB128. Cells are read from a mark on;
//! there is a mark every [`BETWEEN_MARKS`] cells.
//!
//! Invariant: reading gives what was pushed, in the same order.

use super::cell::Cell;
use super::lanes::runs;
use crate::leb;

/// Cells from one mark to the next: what a reader may have to skip.
const BETWEEN_MARKS: usize = 64;

/// The cell begins where the one before it ends. Else its distance follows.
const ADJACENT: u8 = 1;
/// The length in buckets follows. Else it is 1.
const LONG: u8 = 1 << 1;
/// How items are told: see [`Items`].
const ITEMS: u8 = 0b11 << 2;
/// How weight is told: see [`Items`].
const WEIGHT: u8 = 0b11 << 4;
/// All of the weight is the heaviest key's. Else its part follows.
const ONE_KEY: u8 = 1 << 6;
/// What ran is not what the heaviest key tells: it follows the key, as the distance of its ns from those of
/// [`expected_ns`], and its states in one number. All of it takes two bytes where there are two states.
const RAN: u8 = 1 << 7;

/// What most likely ran in a cell of several states, in ns: all of the heaviest state, or all but that.
fn expected_ns(cell: &Cell) -> u64 {
    if runs(cell.top()) { cell.tw } else { cell.w.wrapping_sub(cell.tw) }
}

/// Values of the two bits that tell items or weight.
#[derive(Clone, Copy)]
struct Items;

impl Items {
    const FOLLOWS: u8 = 0;
    const NONE: u8 = 1;
    /// One item; as a weight: as much as there are items.
    const ONE: u8 = 2;
    /// As a weight: the width of the bucket.
    const WIDTH: u8 = 3;
}

/// A place from which cells can be read.
#[derive(Clone, Copy, Debug)]
struct Mark {
    /// First bucket of the cell.
    bucket: i64,
    /// End of the cell before it.
    end_before: i64,
    /// Where the cell is written.
    at: usize,
}

/// Cells in order of time.
#[derive(Clone, Debug, Default)]
pub(super) struct PackedCells {
    bytes: Vec<u8>,
    marks: Vec<Mark>,
    count: usize,
    /// End of the last cell.
    end: i64,
}

impl PackedCells {
    /// Adds a cell after all others. `width` is that of a bucket in ns. Gives the bytes that it takes.
    pub(super) fn push(&mut self, cell: &Cell, width: u64) -> usize {
        let begin = self.bytes.len();
        let mut taken = 0;
        if self.count.is_multiple_of(BETWEEN_MARKS) {
            self.marks.push(Mark { bucket: cell.bucket, end_before: self.end, at: begin });
            taken += size_of::<Mark>();
        }
        // A vector that doubles would waste half of the budget.
        if self.bytes.capacity() - begin < LONGEST {
            self.bytes.reserve_exact((begin / 4).max(LONGEST));
        }
        let items = match cell.n {
            0 => Items::NONE,
            1 => Items::ONE,
            _ => Items::FOLLOWS,
        };
        let weight = match cell.w {
            0 => Items::NONE,
            w if w == cell.n => Items::ONE,
            w if w == width => Items::WIDTH,
            _ => Items::FOLLOWS,
        };
        let mut flags = items << ITEMS.trailing_zeros() | weight << WEIGHT.trailing_zeros();
        flags |= if cell.bucket == self.end { ADJACENT } else { 0 };
        flags |= if cell.len == 1 { 0 } else { LONG };
        flags |= if cell.tw == cell.w { ONE_KEY } else { 0 };
        let ran = cell.ran();
        flags |= if ran.is_some() { RAN } else { 0 };
        self.bytes.push(flags);
        if flags & ADJACENT == 0 {
            leb::write(&mut self.bytes, leb::zigzag(cell.bucket.wrapping_sub(self.end)));
        }
        if flags & LONG != 0 {
            leb::write(&mut self.bytes, cell.len.into());
        }
        if items == Items::FOLLOWS {
            leb::write(&mut self.bytes, cell.n);
        }
        if weight == Items::FOLLOWS {
            leb::write(&mut self.bytes, cell.w);
        }
        if flags & ONE_KEY == 0 {
            leb::write(&mut self.bytes, cell.tw);
        }
        // Bit 31 says that the key is not sure and bit 30 that it is a function: both go to the low end.
        leb::write(&mut self.bytes, cell.raw_key().rotate_left(2).into());
        if let Some((ns, states)) = ran {
            let distance = ns.wrapping_sub(expected_ns(cell)).cast_signed();
            leb::write(&mut self.bytes, leb::zigzag(distance));
            leb::write(&mut self.bytes, states.into());
        }
        self.count += 1;
        self.end = cell.bucket.wrapping_add(cell.len.into());
        taken + self.bytes.len() - begin
    }

    /// The cells that reach into buckets from `first` on, up to the last.
    pub(super) fn from(&self, first: i64, width: u64) -> impl Iterator<Item = Cell> {
        let mark = self.marks.partition_point(|mark| mark.bucket <= first).saturating_sub(1);
        let mark = self.marks.get(mark).copied();
        let (at, end) = mark.map_or((self.bytes.len(), 0), |mark| (mark.at, mark.end_before));
        let mut reader = Reader { rest: self.bytes.get(at..).unwrap_or_default(), end, width };
        std::iter::from_fn(move || reader.cell()).skip_while(move |cell| cell.end() <= first)
    }

    /// From bytes with so many cells; none when they are something else.
    pub(super) fn from_bytes(bytes: Vec<u8>, count: usize, width: u64) -> Option<PackedCells> {
        let mut marks = Vec::new();
        let mut reader = Reader { rest: &bytes, end: 0, width };
        // A cell takes at least two bytes, so the count cannot be too large for long.
        for number in 0..count {
            let (at, end_before) = (bytes.len() - reader.rest.len(), reader.end);
            let cell = reader.cell()?;
            if number > 0 && cell.bucket < end_before || cell.end() < cell.bucket {
                return None;
            }
            if number.is_multiple_of(BETWEEN_MARKS) {
                marks.push(Mark { bucket: cell.bucket, end_before, at });
            }
        }
        let (is_all, end) = (reader.rest.is_empty(), reader.end);
        is_all.then_some(PackedCells { bytes, marks, count, end })
    }

    /// The cells as bytes.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// How many cells there are.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// The memory that they take, in bytes.
    pub(super) fn size(&self) -> usize {
        self.bytes.len() + self.marks.len() * size_of::<Mark>()
    }

    /// Gives back memory that was reserved for more cells.
    pub(super) fn shrink(&mut self) {
        self.bytes.shrink_to_fit();
        self.marks.shrink_to_fit();
    }
}

/// Most bytes of a cell: flags, six numbers of 64 bits, two of 32.
const LONGEST: usize = 1 + 6 * 10 + 2 * 5;

struct Reader<'b> {
    rest: &'b [u8],
    /// End of the cell that was read last.
    end: i64,
    width: u64,
}

impl Reader<'_> {
    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(*first)
    }

    #[inline]
    fn number(&mut self) -> Option<u64> {
        leb::read(&mut self.rest)
    }

    /// The next cell; none at the end, and where the bytes make no sense.
    #[inline]
    fn cell(&mut self) -> Option<Cell> {
        let flags = self.byte()?;
        let gap = if flags & ADJACENT == 0 { leb::unzigzag(self.number()?) } else { 0 };
        let len = if flags & LONG == 0 { 1 } else { u32::try_from(self.number()?).ok()? };
        let n = match (flags & ITEMS) >> ITEMS.trailing_zeros() {
            Items::NONE => 0,
            Items::ONE => 1,
            _ => self.number()?,
        };
        let w = match (flags & WEIGHT) >> WEIGHT.trailing_zeros() {
            Items::NONE => 0,
            Items::ONE => n,
            Items::WIDTH => self.width,
            _ => self.number()?,
        };
        let tw = if flags & ONE_KEY == 0 { self.number()? } else { w };
        let key = u32::try_from(self.number()?).ok()?.rotate_right(2);
        let bucket = self.end.wrapping_add(gap);
        self.end = bucket.wrapping_add(len.into());
        let cell = Cell::from_raw(bucket, len, (n, w), (key, tw));
        if flags & RAN == 0 {
            return Some(cell);
        }
        let distance = leb::unzigzag(self.number()?);
        let ns = expected_ns(&cell).wrapping_add(distance.cast_unsigned());
        Some(cell.with_ran((ns, u16::try_from(self.number()?).ok().filter(|states| *states > 0)?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::timeline::cell::Running;
    use proptest::prelude::*;

    fn cells() -> impl Strategy<Value = Vec<Cell>> {
        let number = || prop_oneof![Just(0u64), Just(1), Just(1024), 0..300u64, any::<u64>()];
        let key = prop_oneof![0..12u32, (0..3000u32).prop_map(|f| f + (1 << 30)), any::<u32>()];
        let len = prop_oneof![4 => Just(1u32), 1 => 1..10_000u32];
        let running = prop_oneof![3 => Just(None), 1 => (number(), 0..11u32, proptest::option::of(0..11u32)).prop_map(Some)];
        let cell =
            (prop_oneof![Just(0i64), 0..500i64], len, number(), number(), key, any::<bool>(), number());
        let cell = (cell, running).prop_map(|((gap, len, n, w, key, is_one, tw), running)| {
            let cell = Cell::from_raw(0, len, (n, w), (key, if is_one { w } else { tw }));
            (gap, running.map_or(cell, |(ns, top, rest)| cell.with_running(Running { ns, top, rest })))
        });
        (-1_000_000i64..1_000_000, proptest::collection::vec(cell, 0..300)).prop_map(|(mut at, rows)| {
            let cell = |(gap, cell): (i64, Cell)| {
                at += gap;
                let cell = cell.moved(at, cell.len);
                at = cell.end();
                cell
            };
            rows.into_iter().map(cell).collect()
        })
    }

    proptest! {
        #[test]
        fn what_was_packed_is_read_from_any_bucket_on(cells in cells(), first in -1_000_000i64..1_500_000) {
            let mut packed = PackedCells::default();
            let taken: usize = cells.iter().map(|cell| packed.push(cell, 1024)).sum();
            prop_assert_eq!((packed.count(), packed.size()), (cells.len(), taken));
            let all: Vec<Cell> = packed.from(i64::MIN, 1024).collect();
            prop_assert_eq!(&all, &cells);
            let later: Vec<Cell> = cells.iter().copied().filter(|cell| cell.end() > first).collect();
            prop_assert_eq!(packed.from(first, 1024).collect::<Vec<_>>(), later);
        }
    }

    #[test]
    fn usual_cells_take_few_bytes() {
        let mut packed = PackedCells::default();
        let mut at = 0;
        let taken: usize = (0..6400)
            .map(|i| {
                // A function's samples, of which some have neighbours, and states that fill a bucket.
                let sample = Cell::from_raw(at, 1, (1, 1_003_009), ((1 << 30) + i % 4000, 1_003_009));
                let state = Cell::from_raw(at, 7, (0, 1 << 20), (3, 1 << 20));
                at += 5;
                packed.push(if i % 2 == 0 { &sample } else { &state }, 1 << 20)
            })
            .sum();
        assert!(taken <= 6400 * 7, "{taken}");
    }
}
