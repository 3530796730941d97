//! Cells as text in few characters: what the page's script asks for. A screen of samples has some hundred thousand
//! cells; as lists of numbers they would take megabytes, and writing and reading them most of the time of a zoom.
//!
//! A number is written five bits a character, the lowest first. A character stands for six bits: the lower five are
//! of the number, and the highest says that more follow. Characters are those from `#` on without the backslash,
//! which JSON would escape.
//!
//! A cell is these numbers:
//!
//! ```text
//! gap << 4 | flags     buckets after the end of the cell before it
//! length               if flags & 1; else 1
//! items                if flags & 2; else 1
//! weight, key's weight if flags & 4; else both are the weight of the cell before it
//! key                  key << 2 | is a function << 1 | is not sure
//! running, states      if flags & 8, as [`Cell::ran`]; else what the key tells: all of its weight if it is a state
//!                      in which a thread has a CPU
//! ```

use lttv_modules::timeline::cells::Cell;
use lttv_modules::timeline::lanes::FUNCTIONS;

const LONG: u64 = 1;
const ITEMS: u64 = 2;
const WEIGHT: u64 = 4;
const RAN: u64 = 8;

fn write(out: &mut String, mut number: u64) {
    loop {
        let more = u64::from(number > 31) << 5;
        let six = u8::try_from(number & 31 | more).unwrap_or(0);
        let character = six + b'#';
        out.push(char::from(character + u8::from(character >= b'\\')));
        number >>= 5;
        if more == 0 {
            return;
        }
    }
}

/// Adds cells, whose buckets are counted from `first`.
pub(crate) fn write_cells(out: &mut String, cells: &[Cell], first: i64) {
    let (mut end, mut weight) = (first, 0);
    for cell in cells {
        let gap = cell.bucket.abs_diff(end);
        let mut flags = if cell.len == 1 { 0 } else { LONG };
        flags |= if cell.n == 1 { 0 } else { ITEMS };
        flags |= if cell.w == weight && cell.tw == weight { 0 } else { WEIGHT };
        let ran = cell.ran();
        flags |= if ran.is_some() { RAN } else { 0 };
        write(out, gap << 4 | flags);
        if flags & LONG != 0 {
            write(out, cell.len.into());
        }
        if flags & ITEMS != 0 {
            write(out, cell.n);
        }
        if flags & WEIGHT != 0 {
            write(out, cell.w);
            write(out, cell.tw);
        }
        let function = cell.top().checked_sub(FUNCTIONS);
        let key = u64::from(function.unwrap_or(cell.top())) << 2;
        write(out, key | u64::from(function.is_some()) << 1 | u64::from(cell.is_approximate()));
        if let Some((ns, states)) = ran {
            write(out, ns);
            write(out, states.into());
        }
        (end, weight) = (cell.bucket + i64::from(cell.len), cell.w);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lttv_modules::timeline::cells::{LaneCells, Running};
    use lttv_modules::timeline::lanes::STATES;
    use lttv_modules::timeline::tile::TileId;

    fn read(text: &mut std::str::Bytes<'_>) -> Option<u64> {
        let (mut number, mut shift) = (0, 0);
        loop {
            let character = text.next()?;
            let six = u64::from(character - u8::from(character > b'\\') - b'#');
            number |= (six & 31) << shift;
            shift += 5;
            if six < 32 {
                return Some(number);
            }
        }
    }

    /// Bucket, length, items, weight, key, key's weight, is sure; what ran.
    type Numbers = (i64, u64, u64, u64, u64, u64, bool, Running);

    fn read_cells(text: &str) -> Vec<Numbers> {
        let mut text = text.bytes();
        let (mut end, mut weight, mut out) = (0, 0, Vec::new());
        while let Some(head) = read(&mut text) {
            let mut number = |is_there: u64, else_: u64| {
                if head & is_there == 0 { else_ } else { read(&mut text).expect("a number") }
            };
            let (len, n) = (number(LONG, 1), number(ITEMS, 1));
            let (w, tw) = (number(WEIGHT, weight), number(WEIGHT, weight));
            let key = read(&mut text).expect("a key");
            let bucket = end + i64::try_from(head >> 4).expect("small");
            let top = (key >> 2) + (key >> 1 & 1) * u64::from(FUNCTIONS);
            let small = |number: u64| u32::try_from(number).expect("small");
            let mut running = Running::of_key(small(top), tw);
            if head & RAN != 0 {
                let mut number = || read(&mut text).expect("a number");
                let (ns, states, codes) = (number(), number() - 1, STATES.len() as u64 + 1);
                let rest = (states % codes).checked_sub(1).map(small);
                running = Running { ns, top: small(states / codes), rest };
            }
            out.push((bucket, len, n, w, top, tw, key & 1 == 0, running));
            (end, weight) = (bucket + i64::try_from(len).expect("small"), w);
        }
        out
    }

    #[test]
    fn cells_are_read_as_they_were_written() {
        let mut dice = pct_kit::Dice::new(9);
        for level in [10, 14] {
            let mut cells = LaneCells::new(level, level);
            let mut at = 0;
            for _ in 0..2000 {
                at += i64::try_from(dice.below(3) * dice.below(3000)).expect("small");
                let key = u32::try_from(dice.below(5)).expect("small") * (FUNCTIONS / 2 - 7);
                let w = [1_003_009, 1_003_009, dice.below(1 << 53)][dice.index(3)];
                cells.point(at, key, 1, w);
            }
            cells.interval(at + 1, at + 300_000, 3, 1);
            // Shares of a bucket, of states with a CPU and without one.
            for (n, key) in (0..40_i64).zip([3, 9, 2, 8, 0, 1].into_iter().cycle()) {
                cells.interval(at + 300_000 + n * 700, at + 300_700 + n * 700, key, 1);
            }
            // So many keys in a bucket that it says that it is not sure.
            (0..5000).for_each(|key| {
                cells.point(at + 400_000, key, 1, 1);
            });
            let (mut seen_unsure, mut seen_shares) = (false, false);
            for index in 0..=(at + 400_000) >> (level + 8) {
                let tile = TileId::new(level, index).expect("a tile");
                let cells = cells.read(tile, None, 0);
                let mut text = String::new();
                write_cells(&mut text, &cells, tile.first_bucket());
                assert!(!text.contains(['"', '\\']) && text.bytes().all(|b| (b'#'..127).contains(&b)));
                let numbers = |cell: &Cell| {
                    let bucket = cell.bucket - tile.first_bucket();
                    let sure = !cell.is_approximate();
                    (
                        bucket,
                        cell.len.into(),
                        cell.n,
                        cell.w,
                        cell.top().into(),
                        cell.tw,
                        sure,
                        cell.running(),
                    )
                };
                let expected: Vec<Numbers> = cells.iter().map(numbers).collect();
                seen_unsure |= expected.iter().any(|cell| !cell.6);
                seen_shares |= expected.iter().any(|cell| cell.7.ns > 0 && cell.7.rest.is_some());
                assert_eq!(read_cells(&text), expected);
            }
            assert!(seen_unsure && seen_shares);
        }
    }
}
