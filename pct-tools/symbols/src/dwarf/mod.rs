//! Debug information: function, file, line and inlined calls of sorted addresses.
//!
//! Profiles ask for *some* addresses, all given at once, of a file that may be huge. So the addresses are first
//! assigned to compilation units ([`units`]), and each unit with addresses is walked once:
//!
//! 1. [`skim`] runs over the unit's entries and searches for subprograms that contain an address. It stops when all are
//!    found. It does not decode attributes: each abbreviation is compiled beforehand into "skip this many bytes".
//! 2. [`unit`] decodes only the subtrees of those functions: inlined calls, names through their origins.
//! 3. [`lines`] runs the line program and keeps only the rows of the wanted addresses.
//!
//! Units are independent, so threads get them from a queue. Answers are put together in the order of units.
//! Between calls only the file's pages are kept, no parsed unit and no line table.
//!
//! Split DWARF (`.dwo`, `.dwp`) goes through the `addr2line` crate's loader, which is also the oracle of the tests.
//!
//! If input is damaged, the walk of its unit ends. The answers before that count; symbol tables answer the rest.

mod lines;
mod question;
mod skim;
mod unit;
mod units;

pub(crate) use self::question::{Question, Rest};

use std::collections::HashMap;

use gimli::{EndianSlice, RunTimeEndian};
use object::Object;

use self::question::{Dwarf, Slice, name_by_symbol};
use crate::answers::{Answers, LocalFrame, LocalPlace, NO_TEXT};
use crate::demangle::demangle;
use crate::image::Image;
use crate::symtab::Source;

/// Looks up addresses. Those that debug information does not cover are added to `rest`.
///
/// # Errors
/// A text that says what is wrong, if the debug information as a whole cannot be read. All addresses are in `rest`.
pub(crate) fn lookup(q: &Question<'_>, answers: &mut Answers, rest: &mut Vec<Rest>) -> Result<(), String> {
    let all_unknown = |rest: &mut Vec<Rest>| rest.extend((0..q.addresses.len()).map(Rest::nothing));
    let dwarf = match sections(q.image, q.sup) {
        Ok(dwarf) => dwarf,
        Err(e) => {
            all_unknown(rest);
            return Err(e);
        }
    };
    let index = units::Index::read(&dwarf);
    // An address in the ranges of several units is asked of each unit until one has an answer.
    let mut pending: Vec<usize> = (0..q.addresses.len()).collect();
    let mut half_known: HashMap<usize, Rest> = HashMap::new();
    let mut split = Vec::new();
    let mut round = 0;
    while !pending.is_empty() {
        let mut work: std::collections::BTreeMap<usize, Vec<usize>> = std::collections::BTreeMap::new();
        for i in pending.drain(..) {
            match index.candidates(q.addresses[i]).nth(round) {
                Some(unit) => work.entry(unit).or_default().push(i),
                None => rest.push(half_known.remove(&i).unwrap_or(Rest::nothing(i))),
            }
        }
        for done in walk_units(q, &dwarf, &index, work) {
            if done.split {
                split.extend(done.rest.iter().map(|r| r.index));
                continue;
            }
            let texts = answers.absorb(done.answers);
            for mut left in done.rest {
                if left.file != NO_TEXT {
                    left.file = texts[left.file as usize];
                    if left.declared.file != NO_TEXT {
                        left.declared.file = texts[left.declared.file as usize];
                    }
                    half_known.entry(left.index).or_insert(left);
                }
                pending.push(left.index);
            }
        }
        pending.sort_unstable();
        round += 1;
    }
    if !split.is_empty() {
        split.sort_unstable();
        through_loader(q, &split, answers, rest);
    }
    rest.sort_unstable_by_key(|r| r.index);
    Ok(())
}

/// The result of one unit.
struct Done {
    unit: usize,
    answers: Answers,
    rest: Vec<Rest>,
    /// The unit is a skeleton. Its contents are in another file.
    split: bool,
}

/// Works through units, on several threads if there is enough work. The results are in the order of units.
fn walk_units(
    q: &Question<'_>,
    dwarf: &Dwarf<'_>,
    index: &units::Index,
    work: std::collections::BTreeMap<usize, Vec<usize>>,
) -> Vec<Done> {
    let one = |(unit, wanted): (usize, Vec<usize>)| -> Done {
        let mut done = Done { unit, answers: Answers::default(), rest: Vec::new(), split: false };
        let walked = unit::walk(dwarf, index, unit, q, &wanted, &mut done.answers, &mut done.rest);
        done.split = matches!(walked, unit::Walked::Split);
        done
    };
    let threads = q.threads.min(work.len());
    if threads <= 1 {
        return work.into_iter().map(one).collect();
    }
    let queue = crossbeam::queue::SegQueue::new();
    // The longest units first, so that no thread works alone on one at the end.
    let mut work: Vec<(usize, Vec<usize>)> = work.into_iter().collect();
    work.sort_by_key(|(unit, wanted)| std::cmp::Reverse((index.length(*unit), wanted.len())));
    work.into_iter().for_each(|w| queue.push(w));
    let finished = crossbeam::queue::SegQueue::new();
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(task) = queue.pop() {
                    finished.push(one(task));
                }
            });
        }
    });
    let mut done: Vec<Done> = finished.into_iter().collect();
    done.sort_by_key(|d| d.unit);
    done
}

/// The sections of an image in gimli's form.
fn sections<'a>(image: &'a Image, sup: Option<&'a Image>) -> Result<Dwarf<'a>, String> {
    let elf = image.elf().ok_or("the file has changed")?;
    let endian = if elf.is_little_endian() { RunTimeEndian::Little } else { RunTimeEndian::Big };
    let load = |image: &'a Image, id: gimli::SectionId| -> Result<Slice<'a>, gimli::Error> {
        Ok(EndianSlice::new(image.section(id.name()), endian))
    };
    let mut dwarf = gimli::Dwarf::load(|id| load(image, id)).map_err(|e| e.to_string())?;
    if dwarf.debug_info.units().next().is_err() {
        return Err(".debug_info: damaged at its beginning".into());
    }
    if let Some(sup) = sup {
        dwarf.load_sup(|id| load(sup, id)).map_err(|e| e.to_string())?;
    }
    Ok(dwarf)
}

/// Handles split DWARF with the loader of the `addr2line` crate, which finds `.dwo` and `.dwp` files.
fn through_loader(q: &Question<'_>, wanted: &[usize], answers: &mut Answers, rest: &mut Vec<Rest>) {
    let Ok(loader) = addr2line::Loader::new(q.image.path()) else {
        rest.extend(wanted.iter().map(|i| Rest::nothing(*i)));
        return;
    };
    for i in wanted {
        let first = answers.frames.len();
        if let Ok(mut frames) = loader.find_frames(q.addresses[*i]) {
            while let Ok(Some(frame)) = frames.next() {
                let function =
                    frame.function.as_ref().and_then(|f| Some(answers.text(&demangle(&f.raw_name().ok()?))));
                let file = frame.location.as_ref().and_then(|l| l.file).map_or(NO_TEXT, |f| answers.text(f));
                let place = frame.location.as_ref();
                answers.frames.push(LocalFrame {
                    function: function.unwrap_or(NO_TEXT),
                    file,
                    line: place.and_then(|l| l.line).unwrap_or(0),
                    column: place.and_then(|l| l.column).unwrap_or(0),
                    inlined: true,
                    source: Source::Debug,
                    declared: LocalPlace::NONE,
                });
            }
        }
        // The loader does not give declarations, so the line of the function's first instruction is used.
        let symbol = (q.symbol)(q.addresses[*i]);
        let entry = symbol.as_ref().and_then(|s| loader.find_location(s.start).ok().flatten()).map_or(
            LocalPlace::NONE,
            |l| match (l.file, l.line) {
                (Some(file), Some(line)) => LocalPlace { file: answers.text(file), line },
                _ => LocalPlace::NONE,
            },
        );
        let frames = &mut answers.frames[first..];
        match frames.last_mut() {
            Some(last) if frames_named(last) => {
                let plain = &answers.texts[last.function as usize];
                let by_symbol = symbol.as_ref().and_then(|s| name_by_symbol(plain, &s.name));
                last.inlined = false;
                last.declared = entry;
                if let Some(name) = by_symbol {
                    let function = answers.text(&name);
                    answers.frames.last_mut().expect("just looked at").function = function;
                }
                answers.drop_nameless(first);
                answers.close(q.asked[*i], first, None);
            }
            _ => {
                let place = answers.frames.get(first).copied();
                answers.frames.truncate(first);
                rest.push(place.map_or(Rest::nothing(*i), |f| Rest {
                    index: *i,
                    file: f.file,
                    line: f.line,
                    column: f.column,
                    declared: entry,
                }));
            }
        }
    }
}

fn frames_named(frame: &LocalFrame) -> bool {
    frame.function != NO_TEXT
}
