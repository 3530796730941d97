//! Debug information: function, file, line and inlined calls of sorted addresses.

use std::collections::HashMap;

use gimli::{EndianSlice, RunTimeEndian};
use object::Object;

use crate::answers::{Answers, LocalFrame, NO_TEXT};
use crate::demangle::demangle;
use crate::image::Image;
use crate::symtab::Source;

type Slice<'a> = EndianSlice<'a, RunTimeEndian>;

/// Looks up sorted image addresses; `asked[i]` is how address `i` is called in the answers. Addresses that the
/// debug information does not know are left in `rest` (as indices).
pub(crate) fn lookup(
    image: &Image,
    sup: Option<&Image>,
    addresses: &[u64],
    asked: &[u64],
    answers: &mut Answers,
    rest: &mut Vec<usize>,
) {
    let Some(context) = context(image, sup) else {
        rest.extend(0..addresses.len());
        return;
    };
    let mut names: HashMap<*const u8, u32> = HashMap::new();
    for (i, address) in addresses.iter().enumerate() {
        let first = answers.frames.len();
        let known = context.find_frames(*address).skip_all_loads().is_ok_and(|mut frames| {
            while let Ok(Some(frame)) = frames.next() {
                let function = match &frame.function {
                    Some(f) => *names
                        .entry(f.name.slice().as_ptr())
                        .or_insert_with(|| f.raw_name().map_or(NO_TEXT, |n| answers.text(&demangle(&n)))),
                    None => NO_TEXT,
                };
                let (file, line, column) = match &frame.location {
                    Some(l) => (
                        l.file.map_or(NO_TEXT, |f| answers.text(f)),
                        l.line.unwrap_or(0),
                        l.column.unwrap_or(0),
                    ),
                    None => (NO_TEXT, 0, 0),
                };
                answers.frames.push(LocalFrame {
                    function,
                    file,
                    line,
                    column,
                    inlined: true,
                    source: Source::Debug,
                });
            }
            true
        });
        let named = answers.frames[first..].iter().all(|f| f.function != NO_TEXT);
        if !known || !named || answers.frames.len() == first {
            answers.frames.truncate(first);
            rest.push(i);
            continue;
        }
        if let Some(last) = answers.frames.last_mut() {
            last.inlined = false;
        }
        answers.close(asked[i], first, None);
    }
}

fn context<'a>(image: &'a Image, sup: Option<&'a Image>) -> Option<addr2line::Context<Slice<'a>>> {
    let endian = if image.elf()?.is_little_endian() { RunTimeEndian::Little } else { RunTimeEndian::Big };
    let load = |image: &'a Image, id: gimli::SectionId| -> Result<Slice<'a>, gimli::Error> {
        Ok(EndianSlice::new(image.section(id.name()), endian))
    };
    let mut dwarf = gimli::Dwarf::load(|id| load(image, id)).ok()?;
    if let Some(sup) = sup {
        dwarf.load_sup(|id| load(sup, id)).ok()?;
    }
    addr2line::Context::from_dwarf(dwarf).ok()
}
