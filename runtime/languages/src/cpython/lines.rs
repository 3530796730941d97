//! Line tables: from an offset in the bytecode to a line of source.
//!
//! Formats: `Objects/lnotab_notes.txt` of CPython 3.8 to 3.10, `Objects/locations.md` of 3.11 and later. Everything read is
//! hostile: a table may end anywhere.

use super::layout::LineTable;

/// The line of the instruction at `offset` (bytes) of a code object that begins at `first_line`. An instruction without a line
/// has the first one.
#[must_use]
pub fn line(form: LineTable, table: &[u8], first_line: u32, offset: u32) -> u32 {
    let found = match form {
        LineTable::Lnotab => lnotab(table, first_line, offset),
        LineTable::Pairs => pairs(table, first_line, offset),
        LineTable::Locations => locations(table, first_line, offset),
    };
    found.and_then(|line| u32::try_from(line).ok()).filter(|line| *line > 0).unwrap_or(first_line)
}

/// Pairs (bytes, signed lines): the line changes behind so many bytes.
fn lnotab(table: &[u8], first_line: u32, offset: u32) -> Option<i64> {
    let (mut line, mut at) = (i64::from(first_line), 0_u32);
    for [bytes, lines] in table.as_chunks::<2>().0 {
        at = at.saturating_add(u32::from(*bytes));
        if at > offset {
            break;
        }
        line += i64::from(lines.cast_signed());
    }
    Some(line)
}

/// Pairs (bytes, signed lines): the line of so many bytes; -128 says that they have none.
fn pairs(table: &[u8], first_line: u32, offset: u32) -> Option<i64> {
    let (mut line, mut end) = (i64::from(first_line), 0_u32);
    for [bytes, lines] in table.as_chunks::<2>().0 {
        end = end.saturating_add(u32::from(*bytes));
        let lines = lines.cast_signed();
        if lines != i8::MIN {
            line += i64::from(lines);
        }
        if end > offset {
            return (lines != i8::MIN).then_some(line);
        }
    }
    None
}

/// Entries of a first octet (1, kind: 4 bits, two-byte units less one: 3 bits) and what the kind asks for.
fn locations(table: &[u8], first_line: u32, offset: u32) -> Option<i64> {
    let mut octets = table.iter().copied();
    let (mut line, mut end) = (i64::from(first_line), 0_u32);
    while let Some(first) = octets.next() {
        let kind = first >> 3 & 15;
        end = end.saturating_add(2 * (u32::from(first & 7) + 1));
        let mut has_line = true;
        match kind {
            0..=9 => _ = octets.next()?,
            10..=12 => {
                line += i64::from(kind - 10);
                octets.next()?;
                octets.next()?;
            }
            13 => line += signed(&mut octets)?,
            14 => {
                line += signed(&mut octets)?;
                for _ in 0..3 {
                    unsigned(&mut octets)?;
                }
            }
            _ => has_line = false,
        }
        if end > offset {
            return has_line.then_some(line);
        }
    }
    None
}

/// Six bits an octet, the lowest first; bit 6 says that more follow.
fn unsigned(octets: &mut impl Iterator<Item = u8>) -> Option<u64> {
    let mut value = 0;
    for shift in (0..60).step_by(6) {
        let octet = octets.next()?;
        value |= u64::from(octet & 63) << shift;
        if octet & 64 == 0 {
            return Some(value);
        }
    }
    None
}

/// The sign is the lowest bit.
fn signed(octets: &mut impl Iterator<Item = u8>) -> Option<i64> {
    let value = unsigned(octets)?;
    let size = i64::try_from(value >> 1).ok()?;
    Some(if value & 1 == 0 { size } else { -size })
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
