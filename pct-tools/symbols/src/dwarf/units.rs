//! Finds the compilation unit of an address.
//!
//! `.debug_aranges` answers for the units that have an entry there: reading one short section replaces reading each
//! unit. The ranges of the other units come from their root entries, or from their line programs if the root names
//! none.

use gimli::{DebugInfoOffset, UnitType};

use super::question::{Dwarf, Slice};

/// The position of a unit in `.debug_info`.
#[derive(Debug, Clone, Copy)]
struct Unit {
    offset: usize,
    length: usize,
}

/// A range of addresses that a unit claims. Ranges of different units may overlap.
#[derive(Debug, Clone, Copy)]
struct Range {
    begin: u64,
    end: u64,
    /// The lowest begin of this range and all that end after it. A search may stop there.
    min_begin: u64,
    unit: usize,
}

/// All units of a file and their ranges.
#[derive(Debug, Default)]
pub(super) struct Index {
    units: Vec<Unit>,
    /// Sorted by end.
    ranges: Vec<Range>,
}

impl Index {
    /// Reads the headers of all units, `.debug_aranges`, and the root entries of units that are not in it.
    pub(super) fn read(dwarf: &Dwarf<'_>) -> Index {
        let mut index = Index::default();
        let mut headers = Vec::new();
        let mut all = dwarf.units();
        // A damaged header ends the list. The units before it stay valid.
        while let Ok(Some(header)) = all.next() {
            let Some(offset) = header.debug_info_offset() else { continue };
            index.units.push(Unit { offset: offset.0, length: header.length_including_self() });
            headers.push(header);
        }
        let mut claimed = vec![false; index.units.len()];
        let mut sets = dwarf.debug_aranges.headers();
        while let Ok(Some(set)) = sets.next() {
            let Some(unit) = index.unit_at(set.debug_info_offset().0) else { continue };
            let mut entries = set.entries();
            // The iterator ends after an error that it cannot skip.
            while let Some(entry) = entries.next().transpose() {
                let Ok(entry) = entry else { continue };
                if entry.length() != 0 {
                    let range = entry.range();
                    index.claim(range.begin, range.end, unit);
                    claimed[unit] = true;
                }
            }
        }
        for (unit, header) in headers.into_iter().enumerate() {
            let has_code = !matches!(
                header.type_(),
                UnitType::Type { .. } | UnitType::SplitType { .. } | UnitType::Partial
            );
            if claimed[unit] || !has_code {
                continue;
            }
            // A unit that cannot be read gives no answer; the others do.
            let Ok(full) = dwarf.unit(header) else { continue };
            index.claim_by_root(dwarf, &full, unit);
        }
        index.ranges.sort_unstable_by_key(|r| (r.end, r.unit, r.begin));
        let mut min = u64::MAX;
        for range in index.ranges.iter_mut().rev() {
            min = min.min(range.begin);
            range.min_begin = min;
        }
        index
    }

    fn claim(&mut self, begin: u64, end: u64, unit: usize) {
        if begin < end {
            self.ranges.push(Range { begin, end, min_begin: 0, unit });
        }
    }

    fn claim_by_root(&mut self, dwarf: &Dwarf<'_>, unit: &gimli::Unit<Slice<'_>>, number: usize) {
        let before = self.ranges.len();
        if let Ok(mut ranges) = dwarf.unit_ranges(unit) {
            while let Ok(Some(range)) = ranges.next() {
                self.claim(range.begin, range.end, number);
            }
        }
        if self.ranges.len() > before {
            return;
        }
        let Some(program) = unit.line_program.clone() else { return };
        let mut rows = program.rows();
        let mut begin = None;
        while let Ok(Some((_, row))) = rows.next_row() {
            let first = *begin.get_or_insert(row.address());
            if row.end_sequence() {
                self.claim(first, row.address(), number);
                begin = None;
            }
        }
    }

    /// Units whose ranges contain an address.
    pub(super) fn candidates(&self, address: u64) -> impl Iterator<Item = usize> + '_ {
        let first = self.ranges.partition_point(|r| r.end <= address);
        let mut seen: Vec<usize> = Vec::new();
        self.ranges[first..]
            .iter()
            .take_while(move |r| r.min_begin <= address)
            .filter(move |r| r.begin <= address)
            .map(|r| r.unit)
            .filter(move |unit| {
                let fresh = !seen.contains(unit);
                if fresh {
                    seen.push(*unit);
                }
                fresh
            })
    }

    /// Offset in `.debug_info` of a unit.
    pub(super) fn offset(&self, unit: usize) -> DebugInfoOffset {
        DebugInfoOffset(self.units[unit].offset)
    }

    /// Bytes of a unit, its header included.
    pub(super) fn length(&self, unit: usize) -> usize {
        self.units[unit].length
    }

    /// The unit that begins at an offset.
    fn unit_at(&self, offset: usize) -> Option<usize> {
        self.units.binary_search_by_key(&offset, |u| u.offset).ok()
    }

    /// The unit that contains an offset.
    pub(super) fn unit_holding(&self, offset: usize) -> Option<usize> {
        let next = self.units.partition_point(|u| u.offset <= offset);
        let unit = next.checked_sub(1)?;
        (offset - self.units[unit].offset < self.units[unit].length).then_some(unit)
    }
}
