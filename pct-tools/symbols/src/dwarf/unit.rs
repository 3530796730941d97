//! One compilation unit: its functions that contain wanted addresses, the calls inlined into them, and all names.

use std::sync::atomic::AtomicBool;

use gimli::Section;

use super::lines::{Files, SourcePosition, places};
use super::units::Index;

use super::question::{Dwarf, Question, Rest, Slice};
use crate::answers::{Answers, LocalFrame, LocalPlace, NO_TEXT};
use crate::demangle::demangle;
use crate::quickhash::QuickMap;
use crate::symtab::Source;

mod entries;
mod facts;
mod ranges;
mod scope;
mod scoped_names;

use entries::{File, FunctionFacts, Other};
use scope::{Scopes, is_cpp};

/// How a walk ended.
pub(super) enum Walked {
    /// Everything that the unit has was found.
    Whole,
    /// The unit is a skeleton: its contents are in a `.dwo` or `.dwp` file. All addresses are in the rest.
    Split,
}

/// An inlined call around an address.
#[derive(Debug, Clone, Copy)]
struct Call {
    /// Offset of its entry.
    offset: usize,
    file: Option<u64>,
    line: u32,
    column: u32,
}

/// What was found for one wanted address.
#[derive(Debug, Clone, Default)]
struct Probe {
    /// The function's entry and the size of the range that contains the address.
    function: Option<(usize, u64)>,
    /// Address of the function's start.
    start: u64,
    /// Inlined calls, from the outermost to the innermost.
    calls: Vec<Call>,
}

/// Most range-list entries that are read for one unit. A unit with more is an attack, not a program.
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
    let file_of =
        |p: &SourcePosition, files: &mut Files<'_, '_>, answers: &mut Answers| files.text(p.file, answers);
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

/// The unit's bytes, beginning with its header.
fn unit_bytes<'a>(dwarf: &Dwarf<'a>, index: &Index, number: usize) -> &'a [u8] {
    let section = dwarf.debug_info.reader().slice();
    let start = index.offset(number).0;
    let end = start.saturating_add(index.length(number)).min(section.len());
    section.get(start..end).unwrap_or(&[])
}

struct Walk<'a, 'u> {
    dwarf: &'u Dwarf<'a>,
    index: &'u Index,
    unit: &'u gimli::Unit<Slice<'a>>,
    data: &'a [u8],
    budget: usize,
    /// Units that names refer to, by file and offset of the unit.
    others: QuickMap<(File, usize), Option<Other<'a>>>,
    /// Facts about functions, by file and offset in `.debug_info`.
    known: QuickMap<(File, usize), FunctionFacts<'a>>,
    /// Files of other units, as numbers of the answers' texts.
    paths: QuickMap<(File, usize, u64), u32>,
    /// Readable names, by the memory address and length of the linker name.
    texts: QuickMap<(usize, usize), u32>,
    /// The unit's language is C++, so plain names need the scopes around them.
    is_cpp: bool,
    /// Scopes, by file and offset of the unit.
    scopes: QuickMap<(File, usize), Scopes>,
    /// Names with their scopes, by file and offset in `.debug_info`.
    scoped: QuickMap<(File, usize), Option<String>>,
    /// Names of functions with code, by their entries in this unit, as numbers of the answers' texts.
    physical: QuickMap<usize, u32>,
    /// Set when a name is in a supplementary file that was not found.
    missed: &'u AtomicBool,
}

impl<'a> Walk<'a, '_> {
    /// The readable name of an entry in this unit, without scopes, as a number of the answers' texts.
    fn name(&mut self, offset: usize, answers: &mut Answers) -> u32 {
        let Some(raw) = self.known_of_own(offset).name else { return NO_TEXT };
        let place = (raw.slice().as_ptr() as usize, raw.slice().len());
        *self.texts.entry(place).or_insert_with(|| match raw.to_string_lossy() {
            name if name.is_empty() => NO_TEXT,
            name => answers.text(&demangle(&name)),
        })
    }

    /// If the entries do not say where the address's function is declared: the address of the function's start, for
    /// which line tables are asked instead.
    fn undeclared(&mut self, probe: &Probe, address: u64, q: &Question<'_>) -> Option<u64> {
        match probe.function {
            Some((offset, _)) => {
                let known = self.known_of_own(offset);
                (known.line == 0 || known.file.is_none()).then_some(probe.start)
            }
            None => (q.symbol)(address).map(|s| s.start),
        }
    }
}
