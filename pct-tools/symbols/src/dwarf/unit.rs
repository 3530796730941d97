//! One compilation unit: its functions that hold wanted addresses, the calls inlined into them, and all names.

use std::cell::OnceCell;
use std::sync::Arc;

use gimli::constants as dw;
use gimli::{AttributeValue, DebugInfoOffset, Section, UnitHeader, UnitOffset};

use super::lines::{Files, Place, path, places};
use super::skim::{Kind, Skimmer};
use super::units::Index;
use std::sync::atomic::{AtomicBool, Ordering};

use super::question::{Dwarf, Question, Rest, Slice};
use crate::answers::{Answers, LocalFrame, LocalPlace, NO_TEXT};
use crate::demangle::demangle;
use crate::quickhash::QuickMap;
use crate::symtab::Source;

mod scope;
mod scoped_names;

use scope::{Scopes, is_cpp};

/// How a walk ended.
pub(super) enum Walked {
    /// All that could be found is found.
    Whole,
    /// The unit is a skeleton: its contents are in a `.dwo` or `.dwp` file. Every address is in the rest.
    Split,
}

/// An inlined call around an address.
#[derive(Debug, Clone, Copy)]
struct Call {
    /// Its entry.
    offset: usize,
    file: Option<u64>,
    line: u32,
    column: u32,
}

/// What is found out about one wanted address.
#[derive(Debug, Clone, Default)]
struct Probe {
    /// The function's entry and the size of the range that held the address.
    function: Option<(usize, u64)>,
    /// Where the function begins.
    start: u64,
    /// From the outermost to the innermost.
    calls: Vec<Call>,
}

/// Range-list entries that one unit may make us read: more is an attack, not a program.
const RANGE_BUDGET: usize = 1 << 24;

/// Finds the frames of `wanted` (indices of addresses, ascending) in a unit.
pub(super) fn walk(
    dwarf: &Dwarf<'_>,
    index: &Index,
    number: usize,
    q: &Question<'_>,
    wanted: &[usize],
    answers: &mut Answers,
    rest: &mut Vec<Rest>,
) -> Walked {
    let unit = dwarf.unit_header(index.offset(number)).and_then(|h| dwarf.unit(h));
    let Ok(unit) = unit else {
        rest.extend(wanted.iter().map(|i| Rest::nothing(*i)));
        return Walked::Whole;
    };
    if unit.dwo_id.is_some() && unit.dwo_name().is_ok_and(|n| n.is_some()) {
        rest.extend(wanted.iter().map(|i| Rest::nothing(*i)));
        return Walked::Split;
    }
    let addresses: Vec<u64> = wanted.iter().map(|i| q.addresses[*i]).collect();
    let mut walk = Walk {
        dwarf,
        index,
        unit: &unit,
        data: unit_bytes(dwarf, index, number),
        budget: RANGE_BUDGET,
        missed: &q.missed,
        others: QuickMap::default(),
        known: QuickMap::default(),
        paths: QuickMap::default(),
        texts: QuickMap::default(),
        is_cpp: is_cpp(&unit),
        scopes: QuickMap::default(),
        scoped: QuickMap::default(),
        physical: QuickMap::default(),
    };
    let mut probes = vec![Probe::default(); addresses.len()];
    walk.functions(&addresses, &mut probes);
    let entries: Vec<Option<u64>> =
        probes.iter().zip(&addresses).map(|(p, a)| walk.undeclared(p, *a, q)).collect();
    let mut sought: Vec<u64> = addresses.iter().chain(entries.iter().flatten()).copied().collect();
    sought.sort_unstable();
    sought.dedup();
    let found = places(&unit, &sought);
    let place_of = |address: u64| found[sought.binary_search(&address).ok()?];
    let mut files = Files::new(dwarf, &unit);
    let file_of = |p: &Place, files: &mut Files<'_, '_>, answers: &mut Answers| files.text(p.file, answers);
    for (i, probe) in probes.iter().enumerate() {
        let place = place_of(addresses[i]);
        let entry = entries[i].and_then(place_of).filter(|p| p.line != 0);
        let entry = entry.map_or(LocalPlace::NONE, |p| match file_of(&p, &mut files, answers) {
            NO_TEXT => LocalPlace::NONE,
            file => LocalPlace { file, line: p.line },
        });
        let function = match probe.function {
            Some((offset, _)) => walk.physical_name(offset, addresses[i], q, answers),
            None => NO_TEXT,
        };
        let (file, line, column) = match place {
            Some(p) => (file_of(&p, &mut files, answers), p.line, p.column),
            None => (NO_TEXT, 0, 0),
        };
        if function == NO_TEXT {
            rest.push(Rest { index: wanted[i], file, line, column, declared: entry });
            continue;
        }
        let first = answers.frames.len();
        let mut here = (file, line, column);
        for call in probe.calls.iter().rev() {
            let name = walk.inlined_name(call.offset, answers);
            let (file, line, column) = here;
            if name != NO_TEXT {
                let declared = walk.declaration(call.offset, &mut files, answers);
                answers.frames.push(LocalFrame {
                    function: name,
                    file,
                    line,
                    column,
                    inlined: true,
                    source: Source::Debug,
                    declared,
                });
            }
            let file = call.file.map_or(NO_TEXT, |f| files.text(f, answers));
            here = (file, call.line, call.column);
        }
        let (file, line, column) = here;
        let declared = match probe.function {
            Some((offset, _)) if entries[i].is_none() => walk.declaration(offset, &mut files, answers),
            _ => entry,
        };
        answers.frames.push(LocalFrame {
            function,
            file,
            line,
            column,
            inlined: false,
            source: Source::Debug,
            declared,
        });
        answers.close(q.asked[wanted[i]], first, addresses[i].checked_sub(probe.start));
    }
    Walked::Whole
}

/// The unit's bytes, from its header on.
fn unit_bytes<'a>(dwarf: &Dwarf<'a>, index: &Index, number: usize) -> &'a [u8] {
    let section = dwarf.debug_info.reader().slice();
    let start = index.offset(number).0;
    let end = start.saturating_add(index.length(number)).min(section.len());
    section.get(start..end).unwrap_or(&[])
}

/// A file of debug information: the main one or dwz's supplementary one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum File {
    Main,
    Sup,
}

/// Another unit, opened only as far as names need it.
struct Other<'a> {
    header: UnitHeader<Slice<'a>>,
    abbreviations: Arc<gimli::Abbreviations>,
    str_offsets_base: gimli::DebugStrOffsetsBase,
    dir: Option<Slice<'a>>,
    lines: Option<gimli::DebugLineOffset>,
    /// Its files; read when a declaration names one.
    files: OnceCell<Option<gimli::LineProgramHeader<Slice<'a>>>>,
}

/// What entries say of a function, themselves or through their origins.
#[derive(Debug, Clone, Copy, Default)]
struct Known<'a> {
    /// The linker name, else the plain one.
    name: Option<Slice<'a>>,
    /// It is the linker name: it says where the function belongs.
    is_linker_name: bool,
    /// The last entry of the chain of origins, which lies where the function was declared.
    root: Option<(File, usize)>,
    /// Column of the declaration; 0: not known.
    column: u32,
    /// Line of the declaration; 0: not known.
    line: u32,
    /// Its file: a number of the unit that begins there.
    file: Option<(File, usize, u64)>,
}

struct Walk<'a, 'u> {
    dwarf: &'u Dwarf<'a>,
    index: &'u Index,
    unit: &'u gimli::Unit<Slice<'a>>,
    data: &'a [u8],
    budget: usize,
    /// Units that names led to, by file and offset of the unit.
    others: QuickMap<(File, usize), Option<Other<'a>>>,
    /// By file and offset in `.debug_info`.
    known: QuickMap<(File, usize), Known<'a>>,
    /// Files of other units, as numbers of the answers' texts.
    paths: QuickMap<(File, usize, u64), u32>,
    /// Readable names by where the linker name lies in memory.
    texts: QuickMap<(usize, usize), u32>,
    /// The unit's language is C++: plain names need the scopes around them.
    is_cpp: bool,
    /// By file and offset of the unit.
    scopes: QuickMap<(File, usize), Scopes>,
    /// Names with their scopes, by file and offset in `.debug_info`.
    scoped: QuickMap<(File, usize), Option<String>>,
    /// Names of functions with code, by their entries in this unit, as numbers of the answers' texts.
    physical: QuickMap<usize, u32>,
    /// Set when a name is in the supplementary file and that is not there.
    missed: &'u AtomicBool,
}

impl<'a> Walk<'a, '_> {
    /// Finds the function of each address and the calls inlined around it.
    fn functions(&mut self, addresses: &[u64], probes: &mut [Probe]) {
        let (unit, data) = (self.unit, self.data);
        let mut skimmer = Skimmer::new(data, &unit.header, &unit.abbreviations);
        let mut missing = addresses.len();
        let root = unit.header.root_offset().0;
        skimmer.run(root, false, |entry| {
            if entry.kind == Kind::Function {
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

    /// Finds the inlined calls of one function around its addresses (`mine`: indices, ascending).
    fn inlined_calls(
        &mut self,
        skimmer: &mut Skimmer<'_>,
        function: usize,
        mine: &[usize],
        addresses: &[u64],
        probes: &mut [Probe],
    ) {
        // A function inside this one (a local function) has calls of its own: they are none of ours.
        let mut foreign: Option<u32> = None;
        skimmer.run(function, true, |entry| {
            if foreign.is_some_and(|depth| entry.depth <= depth) {
                foreign = None;
            }
            match entry.kind {
                _ if foreign.is_some() || entry.offset == function => {}
                Kind::Function => foreign = Some(entry.depth),
                Kind::Inlined => {
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
                Kind::Scope | Kind::Other => {}
            }
            true
        });
    }

    /// Calls `with` for each range of addresses of an entry: begin, end, and the begin of the first range.
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

    /// Where an inlined call was made.
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

    /// The readable name of an entry in this unit, without scopes, as a number of the answers' texts.
    fn name(&mut self, offset: usize, answers: &mut Answers) -> u32 {
        let Some(raw) = self.known_of_own(offset).name else { return NO_TEXT };
        let place = (raw.slice().as_ptr() as usize, raw.slice().len());
        *self.texts.entry(place).or_insert_with(|| match raw.to_string_lossy() {
            name if name.is_empty() => NO_TEXT,
            name => answers.text(&demangle(&name)),
        })
    }

    /// The address at which to ask line tables for the beginning of an address's function, where its entries do not tell where
    /// it is declared.
    fn undeclared(&mut self, probe: &Probe, address: u64, q: &Question<'_>) -> Option<u64> {
        match probe.function {
            Some((offset, _)) => {
                let known = self.known_of_own(offset);
                (known.line == 0 || known.file.is_none()).then_some(probe.start)
            }
            None => (q.symbol)(address).map(|s| s.start),
        }
    }

    /// Where the function of an entry in this unit is declared.
    fn declaration(&mut self, offset: usize, files: &mut Files<'_, '_>, answers: &mut Answers) -> LocalPlace {
        let Known { line: line @ 1.., file: Some((file, unit, number)), .. } = self.known_of_own(offset)
        else {
            return LocalPlace::NONE;
        };
        let own = self.unit.header.debug_info_offset().is_some_and(|o| (File::Main, o.0) == (file, unit));
        let file = match self.paths.get(&(file, unit, number)) {
            _ if own => files.text(number, answers),
            Some(text) => *text,
            None => {
                let path = self.path_of_other(file, unit, number);
                let text = path.map_or(NO_TEXT, |p| answers.text(&p));
                self.paths.insert((file, unit, number), text);
                text
            }
        };
        match file {
            NO_TEXT => LocalPlace::NONE,
            file => LocalPlace { file, line },
        }
    }

    /// A file of another unit that names led to.
    fn path_of_other(&self, file: File, unit: usize, number: u64) -> Option<String> {
        let dwarf: &Dwarf<'a> = match file {
            File::Main => self.dwarf,
            File::Sup => self.dwarf.sup()?,
        };
        let other = self.others.get(&(file, unit))?.as_ref()?;
        let header = other.files.get_or_init(|| {
            let size = other.header.address_size();
            let program = dwarf.debug_line.program(other.lines?, size, other.dir, None).ok()?;
            Some(program.header().clone())
        });
        path(header.as_ref()?, other.dir, |text| other.string(dwarf, text), number)
    }

    /// What is known of an entry of this unit.
    fn known_of_own(&mut self, offset: usize) -> Known<'a> {
        match self.unit.header.debug_info_offset() {
            Some(start) => self.known_of(File::Main, start.0.saturating_add(offset), 16),
            None => Known::default(),
        }
    }

    /// What is known of an entry, through its origins; `hops` bounds their chain.
    fn known_of(&mut self, file: File, offset: usize, hops: u32) -> Known<'a> {
        if let Some(known) = self.known.get(&(file, offset)) {
            return *known;
        }
        let found = self.find_out(file, offset, hops).unwrap_or_default();
        self.known.insert((file, offset), found);
        found
    }

    /// A text of the own unit.
    fn text(&self, value: AttributeValue<Slice<'a>>) -> Option<Slice<'a>> {
        if let AttributeValue::DebugStrRefSup(_) = value
            && self.dwarf.sup().is_none()
        {
            return self.miss();
        }
        self.dwarf.attr_string(self.unit, value).ok()
    }

    /// Something is in the supplementary file, which is not there.
    fn miss<T>(&self) -> Option<T> {
        // Relaxed: read after all threads have ended.
        self.missed.store(true, Ordering::Relaxed);
        None
    }

    fn find_out(&mut self, file: File, offset: usize, hops: u32) -> Option<Known<'a>> {
        let hops = hops.checked_sub(1)?;
        let dwarf: &Dwarf<'a> = match file {
            File::Main => self.dwarf,
            File::Sup => self.dwarf.sup().or_else(|| self.miss())?,
        };
        let (mut linker, mut plain, mut origin) = (None, None, None);
        let (mut line, mut column, mut declared_in) = (0, 0, None);
        let own = self.unit.header.debug_info_offset()?.0;
        let mut unit_start = own;
        let mine = file == File::Main && offset >= own && offset - own < self.data.len();
        if mine {
            let mut entries = self.unit.entries_raw(Some(UnitOffset(offset - own))).ok()?;
            let abbreviation = entries.read_abbreviation().ok()??;
            for spec in abbreviation.attributes() {
                match spec.name() {
                    dw::DW_AT_linkage_name | dw::DW_AT_MIPS_linkage_name => {
                        let value = entries.read_attribute(*spec).ok()?.value();
                        linker = self.text(value);
                    }
                    dw::DW_AT_name => {
                        let value = entries.read_attribute(*spec).ok()?.value();
                        plain = self.text(value);
                    }
                    dw::DW_AT_abstract_origin | dw::DW_AT_specification => {
                        let value = entries.read_attribute(*spec).ok()?.value();
                        origin = target(value, file, own);
                    }
                    dw::DW_AT_decl_line => line = number(entries.read_attribute(*spec).ok()?.value()),
                    dw::DW_AT_decl_column => column = number(entries.read_attribute(*spec).ok()?.value()),
                    dw::DW_AT_decl_file => {
                        let value = entries.read_attribute(*spec).ok()?.value();
                        declared_in = file_number(value, self.unit.header.version());
                    }
                    _ => entries.skip_attributes(std::slice::from_ref(spec)).ok()?,
                }
            }
        } else {
            unit_start = match file {
                File::Main => self.index.offset(self.index.unit_holding(offset)?).0,
                File::Sup => sup_unit(dwarf, offset)?,
            };
            let other =
                self.others.entry((file, unit_start)).or_insert_with(|| open_other(dwarf, unit_start));
            let other = other.as_ref()?;
            let at = UnitOffset(offset - unit_start);
            let mut entries = other.header.entries_raw(&other.abbreviations, Some(at)).ok()?;
            let abbreviation = entries.read_abbreviation().ok()??;
            for spec in abbreviation.attributes() {
                let attribute = entries.read_attribute(*spec).ok()?;
                match attribute.name() {
                    dw::DW_AT_linkage_name | dw::DW_AT_MIPS_linkage_name => {
                        linker = other.string(dwarf, attribute.value());
                    }
                    dw::DW_AT_name => plain = other.string(dwarf, attribute.value()),
                    dw::DW_AT_abstract_origin | dw::DW_AT_specification => {
                        origin = target(attribute.value(), file, unit_start);
                    }
                    dw::DW_AT_decl_line => line = number(attribute.value()),
                    dw::DW_AT_decl_column => column = number(attribute.value()),
                    dw::DW_AT_decl_file => {
                        declared_in = file_number(attribute.value(), other.header.version());
                    }
                    _ => {}
                }
            }
        }
        let mut known = Known {
            name: linker.or(plain),
            is_linker_name: linker.is_some(),
            root: Some((file, offset)),
            line,
            column,
            file: declared_in.map(|n| (file, unit_start, n)),
        };
        // What an entry does not say itself its origin says: file and line each, too.
        if let Some((file, offset)) =
            origin.filter(|_| linker.is_none() || line == 0 || declared_in.is_none())
        {
            let behind = self.known_of(file, offset, hops);
            known.root = behind.root.or(known.root);
            if linker.is_none() {
                // A plain name may have a linker name behind it (a definition of a declared method).
                known.name = behind.name.filter(|n| plain.is_none() || is_mangled(n)).or(plain);
                known.is_linker_name = behind.is_linker_name;
            }
            if line == 0 {
                (known.line, known.column) = (behind.line, behind.column);
            }
            known.file = known.file.or(behind.file);
        }
        Some(known)
    }
}

/// A number from a file, 0 for one that is none.
fn number(value: AttributeValue<Slice<'_>>) -> u32 {
    value.udata_value().and_then(|n| u32::try_from(n).ok()).unwrap_or(0)
}

/// The number of a source file; before DWARF 5, 0 is "no file".
fn file_number(value: AttributeValue<Slice<'_>>, version: u16) -> Option<u64> {
    let number = match value {
        AttributeValue::FileIndex(n) => Some(n),
        other => other.udata_value(),
    };
    number.filter(|n| *n != 0 || version >= 5)
}

fn is_mangled(name: &Slice<'_>) -> bool {
    matches!(name.slice(), [b'_', b'Z' | b'R', ..])
}

/// Where a reference leads: file and offset in its `.debug_info`.
fn target(value: AttributeValue<Slice<'_>>, file: File, unit_start: usize) -> Option<(File, usize)> {
    match value {
        AttributeValue::UnitRef(at) => Some((file, unit_start.checked_add(at.0)?)),
        AttributeValue::DebugInfoRef(at) => Some((file, at.0)),
        AttributeValue::DebugInfoRefSup(at) => Some((File::Sup, at.0)),
        _ => None,
    }
}

/// Start of the supplementary file's unit that holds an offset.
fn sup_unit(dwarf: &Dwarf<'_>, offset: usize) -> Option<usize> {
    let mut units = dwarf.units();
    while let Ok(Some(header)) = units.next() {
        let start = header.debug_info_offset()?.0;
        if offset >= start && offset - start < header.length_including_self() {
            return Some(start);
        }
    }
    None
}

fn open_other<'a>(dwarf: &Dwarf<'a>, start: usize) -> Option<Other<'a>> {
    let header = dwarf.unit_header(DebugInfoOffset(start)).ok()?;
    let abbreviations = dwarf.abbreviations(&header).ok()?;
    let mut base =
        gimli::DebugStrOffsetsBase::default_for_encoding_and_file(header.encoding(), dwarf.file_type);
    let (mut dir, mut lines) = (None, None);
    let mut entries = header.entries_raw(&abbreviations, None).ok()?;
    if let Some(root) = entries.read_abbreviation().ok()? {
        for spec in root.attributes() {
            let attribute = entries.read_attribute(*spec).ok()?;
            match (attribute.name(), attribute.value()) {
                (_, AttributeValue::DebugStrOffsetsBase(at)) => base = at,
                (_, AttributeValue::DebugLineRef(at)) => lines = Some(at),
                (dw::DW_AT_comp_dir, value) => dir = Some(value),
                _ => {}
            }
        }
    }
    let files = OnceCell::new();
    let mut other = Other { header, abbreviations, str_offsets_base: base, dir: None, lines, files };
    other.dir = dir.and_then(|d| other.string(dwarf, d));
    Some(other)
}

impl<'a> Other<'a> {
    /// The text of a string attribute.
    fn string(&self, dwarf: &Dwarf<'a>, value: AttributeValue<Slice<'a>>) -> Option<Slice<'a>> {
        match value {
            AttributeValue::String(text) => Some(text),
            AttributeValue::DebugStrRef(at) => dwarf.string(at).ok(),
            AttributeValue::DebugLineStrRef(at) => dwarf.line_string(at).ok(),
            AttributeValue::DebugStrRefSup(at) => dwarf.sup_string(at).ok(),
            AttributeValue::DebugStrOffsetsIndex(index) => {
                let format = self.header.format();
                let at = dwarf.debug_str_offsets.get_str_offset(format, self.str_offsets_base, index).ok()?;
                dwarf.string(at).ok()
            }
            _ => None,
        }
    }
}
