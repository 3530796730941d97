//! Line tables: from an offset in the bytecode to a line of source.
//!
//! Formats: `Objects/lnotab_notes.txt` of CPython 3.8 to 3.10, `Objects/locations.md` of 3.11 and later.
//! Everything read is hostile: a table may end anywhere.

use super::layout::LineTable;

/// What a table says of an offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The line.
    Line(u32),
    /// The instruction has no line.
    NoLine,
    /// The table ends before the offset.
    Ended,
    /// No interpreter writes such a table.
    Damaged,
}

/// The line of the instruction at `offset` (bytes) of a code object that begins at `first_line`. An
/// instruction without a line has the first one.
#[must_use]
pub fn line(form: LineTable, table: &[u8], first_line: u32, offset: u32) -> u32 {
    match look_up(form, table, true, first_line, offset) {
        Answer::Line(line) => line,
        Answer::NoLine | Answer::Ended | Answer::Damaged => first_line,
    }
}

/// What a table says of an offset. `whole`: it is there to its end; of a part only what it covers is known.
#[must_use]
pub fn look_up(form: LineTable, table: &[u8], whole: bool, first_line: u32, offset: u32) -> Answer {
    let found = match form {
        LineTable::Lnotab => lnotab(table, whole, first_line, offset),
        LineTable::Pairs => pairs(table, first_line, offset),
        LineTable::Locations => locations(table, first_line, offset),
    };
    match found {
        Ok(Some(line)) => match u32::try_from(line) {
            // From 3.11 on a module's first instruction has line 0.
            Ok(0) => Answer::NoLine,
            Ok(line) => Answer::Line(line),
            Err(_) => Answer::Damaged,
        },
        Ok(None) => Answer::NoLine,
        Err(answer) => answer,
    }
}

/// A line, or none.
type LineResult = Result<Option<i64>, Answer>;

/// Pairs (bytes, signed lines): the line changes behind so many bytes.
fn lnotab(table: &[u8], whole: bool, first_line: u32, offset: u32) -> LineResult {
    let (mut line, mut at) = (i64::from(first_line), 0_u32);
    for [bytes, lines] in table.as_chunks::<2>().0 {
        at = at.saturating_add(u32::from(*bytes));
        if at > offset {
            return Ok(Some(line));
        }
        line += i64::from(lines.cast_signed());
    }
    // Behind the last change the line stays.
    if whole { Ok(Some(line)) } else { Err(Answer::Ended) }
}

/// Pairs (bytes, signed lines): the line of so many bytes; -128 says that they have none.
fn pairs(table: &[u8], first_line: u32, offset: u32) -> LineResult {
    let (mut line, mut end) = (i64::from(first_line), 0_u32);
    for [bytes, lines] in table.as_chunks::<2>().0 {
        end = end.saturating_add(u32::from(*bytes));
        let lines = lines.cast_signed();
        if lines != i8::MIN {
            line += i64::from(lines);
        }
        if end > offset {
            return Ok((lines != i8::MIN).then_some(line));
        }
    }
    Err(Answer::Ended)
}

/// Entries of a first octet (1, kind: 4 bits, two-byte units less one: 3 bits) and what the kind asks for.
fn locations(table: &[u8], first_line: u32, offset: u32) -> LineResult {
    let mut octets = table.iter().copied();
    let (mut line, mut end) = (i64::from(first_line), 0_u32);
    while let Some(first) = octets.next() {
        if first & 0x80 == 0 {
            return Err(Answer::Damaged);
        }
        let kind = first >> 3 & 15;
        end = end.saturating_add(2 * (u32::from(first & 7) + 1));
        let mut skip = |count: usize| octets.nth(count - 1).map(drop).ok_or(Answer::Ended);
        match kind {
            0..=9 => skip(1)?,
            10..=12 => {
                line += i64::from(kind - 10);
                skip(2)?;
            }
            13 => line += signed(&mut octets)?,
            14 => {
                line += signed(&mut octets)?;
                for _ in 0..3 {
                    unsigned(&mut octets)?;
                }
            }
            _ => {}
        }
        if end > offset {
            return Ok((kind != 15).then_some(line));
        }
    }
    Err(Answer::Ended)
}

/// Six bits an octet, the lowest first; bit 6 says that more follow.
fn unsigned(octets: &mut impl Iterator<Item = u8>) -> Result<u64, Answer> {
    let mut value = 0;
    for shift in (0..60).step_by(6) {
        let octet = octets.next().ok_or(Answer::Ended)?;
        value |= u64::from(octet & 63) << shift;
        if octet & 64 == 0 {
            return Ok(value);
        }
    }
    Err(Answer::Damaged)
}

/// The sign is the lowest bit. Lines are numbers of 32 bits.
fn signed(octets: &mut impl Iterator<Item = u8>) -> Result<i64, Answer> {
    let value = unsigned(octets)?;
    let size = i64::from(u32::try_from(value >> 1).map_err(|_| Answer::Damaged)?);
    Ok(if value & 1 == 0 { size } else { -size })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lnotab_goes_back_and_forth() {
        // 4 bytes of line 10, 6 of line 12, then line 9.
        let table = [4, 2, 6, 253];
        let at = |offset| line(LineTable::Lnotab, &table, 10, offset);
        assert_eq!([0, 3, 4, 9, 10, 100].map(at), [10, 10, 12, 12, 9, 9]);
    }

    #[test]
    fn pairs_may_have_no_line() {
        // 4 bytes of line 11, 2 without a line, 4 of line 12.
        let table = [4, 1, 2, 128, 4, 1];
        let at = |offset| line(LineTable::Pairs, &table, 10, offset);
        assert_eq!([0, 4, 6, 8].map(at), [11, 10, 12, 12]);
    }

    #[test]
    fn the_first_instruction_of_a_module_has_line_0_which_is_no_line() {
        // As CPython 3.12 writes it: one unit, one line back from line 1; then the first line.
        let table = [0x80 | 13 << 3, 3, 0x80 | 13 << 3, 2];
        assert_eq!(look_up(LineTable::Locations, &table, true, 1, 0), Answer::NoLine);
        assert_eq!(look_up(LineTable::Locations, &table, true, 1, 2), Answer::Line(1));
        let before_any_line = [0x80 | 13 << 3, 5];
        assert_eq!(look_up(LineTable::Locations, &before_any_line, true, 1, 0), Answer::Damaged);
    }

    #[test]
    fn locations_of_every_kind() {
        let table = [
            0x80 | 11 << 3,
            0,
            0, // one unit, next line: 11
            0x80 | 1,
            0, // two units, short form: 11
            0x80 | 13 << 3,
            5,              // one unit, -2 lines: 9
            0x80 | 15 << 3, // one unit without a line
            0x80 | 14 << 3,
            64 | 2,
            1,
            0,
            0,
            0, // one unit, + (2 | 1 << 6) / 2 = 33 lines: 42
        ];
        let at = |offset| line(LineTable::Locations, &table, 10, offset);
        assert_eq!([0, 2, 4, 6, 8, 10].map(at), [11, 11, 11, 9, 10, 42]);
    }

    #[test]
    fn a_part_of_a_table_answers_for_what_it_covers() {
        let at = |form, table: &[u8], offset| look_up(form, table, false, 10, offset);
        assert_eq!(at(LineTable::Lnotab, &[4, 2, 6, 253], 4), Answer::Line(12));
        assert_eq!(at(LineTable::Lnotab, &[4, 2, 6, 253], 10), Answer::Ended);
        assert_eq!(at(LineTable::Pairs, &[4, 1, 2, 128], 4), Answer::NoLine);
        assert_eq!(at(LineTable::Pairs, &[4, 1, 2, 128], 6), Answer::Ended);
        let locations = [0x80 | 11 << 3, 0, 0, 0x80 | 13 << 3, 64 | 5];
        assert_eq!(at(LineTable::Locations, &locations, 0), Answer::Line(11));
        assert_eq!(at(LineTable::Locations, &locations, 2), Answer::Ended);
        assert_eq!(at(LineTable::Locations, b"no table", 0), Answer::Damaged);
        assert_eq!(at(LineTable::Locations, &[0x80 | 13 << 3, 63], 0), Answer::Damaged);
    }

    #[test]
    fn a_table_may_end_anywhere() {
        let table = [0x80 | 14 << 3, 64 | 63, 64 | 63, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64];
        for end in 0..=table.len() {
            for form in [LineTable::Lnotab, LineTable::Pairs, LineTable::Locations] {
                for offset in [0, 1, 7, u32::MAX] {
                    let _ = line(form, &table[..end], u32::MAX, offset);
                }
            }
        }
    }
}
