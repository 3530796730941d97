//! Finds which function contains an address, and which calls are inlined around it, by the address ranges of entries.

use gimli::constants as dw;
use gimli::{AttributeValue, UnitOffset};

use super::super::skim::{EntryKind, Skimmer};
use super::entries::{file_number, number};
use super::{Call, Probe, Walk};

impl Walk<'_, '_> {
    /// Finds the function of each address and the calls inlined around it.
    pub(super) fn functions(&mut self, addresses: &[u64], probes: &mut [Probe]) {
        let (unit, data) = (self.unit, self.data);
        let mut skimmer = Skimmer::new(data, &unit.header, &unit.abbreviations);
        let mut missing = addresses.len();
        let root = unit.header.root_offset().0;
        skimmer.run(root, false, |entry| {
            if entry.kind == EntryKind::Function {
                self.each_range(entry.offset, |begin, end, first_begin| {
                    let from = addresses.partition_point(|a| *a < begin);
                    for (address, probe) in addresses[from..].iter().zip(&mut probes[from..]) {
                        if *address >= end {
                            break;
                        }
                        let size = end - begin;
                        match probe.function {
                            Some((_, before)) if before <= size => continue,
                            Some(_) => {}
                            None => missing -= 1,
                        }
                        probe.function = Some((entry.offset, size));
                        probe.start = if first_begin <= *address { first_begin } else { begin };
                    }
                });
            }
            missing > 0
        });
        // The addresses of each function, ascending.
        let mut by_function: Vec<(usize, usize)> =
            probes.iter().enumerate().filter_map(|(i, p)| Some((p.function?.0, i))).collect();
        by_function.sort_unstable();
        for group in by_function.chunk_by(|a, b| a.0 == b.0) {
            let mine: Vec<usize> = group.iter().map(|(_, i)| *i).collect();
            self.inlined_calls(&mut skimmer, group[0].0, &mine, addresses, probes);
        }
    }

    /// Finds the calls that are inlined into one function around its addresses (`mine`: indices, ascending).
    fn inlined_calls(
        &mut self,
        skimmer: &mut Skimmer<'_>,
        function: usize,
        mine: &[usize],
        addresses: &[u64],
        probes: &mut [Probe],
    ) {
        // A function inside this one (a local function) has inlined calls of its own. They do not belong to this one.
        let mut foreign: Option<u32> = None;
        skimmer.run(function, true, |entry| {
            if foreign.is_some_and(|depth| entry.depth <= depth) {
                foreign = None;
            }
            match entry.kind {
                _ if foreign.is_some() || entry.offset == function => {}
                EntryKind::Function => foreign = Some(entry.depth),
                EntryKind::Inlined => {
                    let mut call = None;
                    self.each_range(entry.offset, |begin, end, _| {
                        let from = mine.partition_point(|i| addresses[*i] < begin);
                        for i in mine[from..].iter().take_while(|i| addresses[**i] < end) {
                            call = Some(*i);
                        }
                    });
                    if call.is_some() {
                        let call = self.call(entry.offset);
                        self.each_range(entry.offset, |begin, end, _| {
                            let from = mine.partition_point(|i| addresses[*i] < begin);
                            for i in mine[from..].iter().take_while(|i| addresses[**i] < end) {
                                let calls = &mut probes[*i].calls;
                                if calls.last().is_none_or(|c| c.offset != entry.offset) && calls.len() < 1000
                                {
                                    calls.push(call);
                                }
                            }
                        });
                    }
                }
                EntryKind::Scope | EntryKind::Other => {}
            }
            true
        });
    }

    /// Calls `with` for each address range of an entry, with begin, end, and the begin of the first range.
    fn each_range(&mut self, offset: usize, mut with: impl FnMut(u64, u64, u64)) -> Option<()> {
        let (mut low, mut high, mut size, mut ranges) = (None, None, None, None);
        let mut entries = self.unit.entries_raw(Some(UnitOffset(offset))).ok()?;
        let abbreviation = entries.read_abbreviation().ok()??;
        for spec in abbreviation.attributes() {
            match spec.name() {
                dw::DW_AT_low_pc => {
                    let value = entries.read_attribute(*spec).ok()?.value();
                    low = self.dwarf.attr_address(self.unit, value).ok()?;
                }
                dw::DW_AT_high_pc => match entries.read_attribute(*spec).ok()?.value() {
                    AttributeValue::Udata(n) => size = Some(n),
                    other => high = self.dwarf.attr_address(self.unit, other).ok()?,
                },
                dw::DW_AT_ranges => {
                    let value = entries.read_attribute(*spec).ok()?.value();
                    ranges = self.dwarf.attr_ranges_offset(self.unit, value).ok()?;
                }
                _ => entries.skip_attributes(std::slice::from_ref(spec)).ok()?,
            }
        }
        if let Some(ranges) = ranges {
            let mut list = self.dwarf.ranges(self.unit, ranges).ok()?;
            let mut first = None;
            while let Ok(Some(range)) = list.next() {
                self.budget = self.budget.checked_sub(1)?;
                if range.begin < range.end {
                    let first = *first.get_or_insert(low.filter(|l| *l != 0).unwrap_or(range.begin));
                    with(range.begin, range.end, first);
                }
            }
            return Some(());
        }
        let low = low?;
        let high = high.or_else(|| low.checked_add(size?))?;
        if low < high {
            with(low, high, low);
        }
        Some(())
    }

    /// The inlined call of an entry, with the position where it was made.
    fn call(&self, offset: usize) -> Call {
        let mut call = Call { offset, file: None, line: 0, column: 0 };
        let _ = (|| -> gimli::Result<()> {
            let mut entries = self.unit.entries_raw(Some(UnitOffset(offset)))?;
            let Some(abbreviation) = entries.read_abbreviation()? else { return Ok(()) };
            for spec in abbreviation.attributes() {
                let attribute = entries.read_attribute(*spec)?;
                match attribute.name() {
                    dw::DW_AT_call_file => {
                        call.file = file_number(attribute.value(), self.unit.header.version());
                    }
                    dw::DW_AT_call_line => call.line = number(attribute.value()),
                    dw::DW_AT_call_column => call.column = number(attribute.value()),
                    _ => {}
                }
            }
            Ok(())
        })();
        call
    }
}
