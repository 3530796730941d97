//! V8's functions in the memory of a damaged process: a layout that an image publishes, or one of an input's own
//! offsets; functions in the places of native frames, and what they say of themselves.
#![no_main]

#[path = "../../../../runtime/languages/tests/it/node_20.rs"]
mod node_20;

use std::cell::Cell;

use libfuzzer_sys::fuzz_target;
use node_20::NODE_20;
use pct_elf::Image;
use pct_fuzz::{BASE, FuzzedMemory, USER_END, split_head};
use pct_languages::v8::find::{MappedPart, copies, find, is_v8, part_with_frame_pointers};
use pct_languages::v8::text::{CountedLines, Text};
use pct_languages::v8::{Function, Layout, Weaver};
use pct_unwind::Placed;

/// Room for names.
const NAME: usize = 64;
/// Most octets that are read for one text: what follows references, and characters of two octets each, 512 octets at
/// once. A character that is written has an octet at least.
const OCTETS_OF_TEXT: u64 = 2 * NAME as u64 + 512 + 8 * 80;
/// Most octets of a source whose lines are counted, two for each character, and of all else that a function says.
const OCTETS_OF_SOURCE: u64 = ((2 * 32) << 20) + (64 << 10);

/// Changes offsets of the layout, within what a V8 may publish. Each change has the number of the field, and a value.
fn change(layout: &mut Layout, changes: &[u64]) {
    for [field, kind, low, high] in
        changes.iter().flat_map(|word| word.to_le_bytes().as_chunks::<4>().0.to_vec())
    {
        let value = u16::from_le_bytes([low, high]);
        let offset = u64::from(value % 1023 + 1);
        let reference = offset.next_multiple_of(8).min(1016);
        match field {
            1 => layout.map_type = offset,
            2 => layout.function_shared = reference,
            3 => layout.shared_name = reference,
            4 => layout.shared_script = reference,
            5 => layout.shared_counts = reference,
            6 => layout.shared_flags = reference,
            7 => layout.script_source = reference,
            8 => layout.script_name = reference,
            9 => layout.script_id = reference + 8,
            10 => layout.string_length = offset,
            11 => layout.octets = offset,
            12 => layout.wide = offset,
            13 => layout.cons.0 = reference,
            14 => layout.sliced = (reference, u64::from(kind) * 8),
            15 => layout.thin = reference,
            16 => layout.external = reference + 8,
            17 => layout.scope_head = 3 + u64::from(value % 6),
            18 => layout.functions = (value, value.saturating_add(u16::from(kind % 64))),
            19 => layout.shared_type = value,
            20 => layout.scope_type = value,
            21 => layout.script_type = value,
            _ => {}
        }
    }
}

fn ask(memory: &FuzzedMemory<'_>, layout: &Layout, function: &Function, counted: &mut CountedLines) {
    let _ = function.identity(memory, layout);
    let scope = function.scope(memory, layout);
    let name = scope.and_then(|scope| scope.name);
    for text in [name, function.file(memory, layout), function.source(memory, layout)].into_iter().flatten() {
        written(memory, layout, &text);
    }
    let (mut name, mut file) = ([0; NAME], [0; NAME]);
    let (facts, _, octets) = memory.count(|| function.facts(memory, layout, (&mut name, &mut file), counted));
    assert!(octets <= OCTETS_OF_SOURCE, "{octets} octets for a function");
    if let Some(facts) = facts {
        assert!(facts.name.len() <= NAME && facts.file.len() <= NAME);
        assert!(std::str::from_utf8(facts.name).is_ok() && std::str::from_utf8(facts.file).is_ok());
    }
}

fn written(memory: &FuzzedMemory<'_>, layout: &Layout, text: &Text) {
    let mut out = [0; NAME];
    let (written, _, octets) = memory.count(|| text.write(memory, layout, &mut out));
    assert!(octets <= OCTETS_OF_TEXT, "{octets} octets for a text");
    if let Some((used, _)) = written {
        assert!(std::str::from_utf8(&out[..used]).is_ok());
    }
}

fn mapped_parts(memory: &FuzzedMemory<'_>, at: u64) -> Vec<MappedPart> {
    let part = |[start, length]: [u64; 2], [offset, inode]: [u64; 2]| {
        // A kernel's list has no part that ends before it begins, or behind user space.
        let start = start % USER_END;
        let end = start + length % (USER_END - start);
        MappedPart { start, end, offset: offset >> 1, file: (0, inode) }
    };
    memory.pairs(at, 16).as_chunks::<2>().0.iter().map(|[one, other]| part(*one, *other)).collect()
}

fuzz_target!(|input: &[u8]| {
    let Some((head, body)) = split_head(input) else { return };
    let [choices, pc, sp, callers_at, low, high, parts_at, frame, changes @ ..] = head;
    let [flags, most, room, callers, ..] = choices.to_le_bytes();
    let memory = FuzzedMemory::new(body, flags & 1 != 0);

    let mut layout = NODE_20;
    change(&mut layout, &changes);
    let mut published = None;
    // Code lies in user space, and ends behind its beginning.
    let low = low % USER_END;
    let high = high.clamp(low, USER_END);
    let mut code = (low, high);
    if let Some(symbols) = Image::at_base(&memory, BASE).and_then(|image| image.symbols(&memory)) {
        let _ = is_v8(&memory, &symbols);
        if let Ok((found, (start, octets))) = find(&memory, BASE) {
            code = (start, start + octets);
            published = Some(found);
        }
    }
    let parts = mapped_parts(&memory, parts_at);
    for copy in copies(code, parts.iter().copied()).into_iter().flatten() {
        assert!(copy.0 < copy.1, "{copy:x?}");
        assert!(parts.iter().any(|part| part.start <= copy.0 && copy.1 <= part.end), "{copy:x?}");
    }
    if low < high {
        let part = part_with_frame_pointers((low, high), parts.iter().map(|part| (part.start, part.end)));
        assert!(low <= part.0 && part.0 <= part.1 && part.1 <= high);
    }

    let callers: Vec<Placed> = memory
        .pairs(callers_at, usize::from(callers % 40))
        .into_iter()
        .map(|[entry, cfa]| Placed { entry, cfa })
        .collect();
    let mut counted = CountedLines::NOTHING;
    for layout in [Some(layout), published].into_iter().flatten() {
        if let Some(function) = Function::of_frame(&memory, &layout, frame, flags & 2 != 0) {
            ask(&memory, &layout, &function, &mut counted);
        }
        if let Some(text) = Text::new(&memory, &layout, frame.wrapping_add(1)) {
            written(&memory, &layout, &text);
            let _ = counted.before(&memory, &layout, (1, &text), pc as u32);
        }
        let most = u32::from(most);
        let asked = Cell::new(0_u64);
        let is_of_v8 = |address: u64| {
            asked.set(asked.get() + 1);
            flags & 4 != 0 || address >= code.0 && address < code.1
        };
        let mut functions = Vec::new();
        let mut out = [0; 48];
        let out = &mut out[..usize::from(room) % 49];
        let weaver = Weaver { memory: &memory, layout: &layout, is_of_v8, most };
        let frame_word = |function: &Function| {
            functions.push(*function);
            functions.len() as u64
        };
        let ((used, is_whole), loads, _) = memory.count(|| weaver.weave((pc, sp), &callers, frame_word, out));
        // A frame is two words of the stack, and three objects of at most three loads each and a field.
        assert!(loads <= asked.get() * 16, "{loads} loads for {} frames", asked.get());
        assert!(used <= out.len() && used <= callers.len() + 1);
        assert!(is_whole || used == out.len());
        assert!(functions.len() <= (most as usize).min(used + 1));
        functions.iter().take(8).for_each(|function| ask(&memory, &layout, function, &mut counted));
    }
});
