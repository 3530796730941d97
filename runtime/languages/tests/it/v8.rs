//! JavaScript functions over a made-up heap: what is not of the right type is not shown, and damage is survived.

use pct_languages::v8::text::{CountedLines, Text};
use pct_languages::v8::{Function, Layout};
use proptest::prelude::*;

use crate::node_20::NODE_20;
use crate::pages::Pages;

/// What node 24 publishes: of that which these tests read, one offset is another.
const NODE_24: Layout = Layout { scope_head: 5, ..NODE_20 };

const HEAP: u64 = 0x1000_0000_0000;
const OCTETS: usize = 1 << 15;
const STACK: u64 = 0x7fff_0000_0000;
const FRAME: u64 = STACK + 0x800;
/// Type of a string of one-octet characters, of one of two-octet ones, and what makes others of them.
const ONE: u16 = 8;
const TWO: u16 = 0;
const CONS: u16 = 1;
const EXTERNAL: u16 = 2;
const SLICED: u16 = 3;
const THIN: u16 = 5;
/// Type of what is neither of these.
const ODDBALL: u16 = 131;

/// A heap that grows upwards.
struct Heap {
    memory: Pages,
    next: u64,
}

fn small(number: u32) -> u64 {
    u64::from(number) << 32
}

impl Heap {
    fn new() -> Heap {
        let memory = Pages::default();
        memory.map(HEAP, OCTETS);
        memory.map(STACK, 0x1000);
        Heap { memory, next: HEAP + 0x100 }
    }

    fn room(&mut self, octets: u64) -> u64 {
        let at = self.next;
        self.next += octets.next_multiple_of(8);
        at
    }

    /// An object of this type: a reference to it. `words` stand behind its first one.
    fn object(&mut self, kind: u16, words: &[u64]) -> u64 {
        let map = self.room(80);
        self.memory.quarter(map + 12, kind);
        let at = self.room(8 + 8 * words.len() as u64 + 64);
        self.memory.word(at, map + 1);
        for (i, word) in (1..).zip(words) {
            self.memory.word(at + 8 * i, *word);
        }
        at + 1
    }

    /// A string with this head and what stands behind it.
    fn string(&mut self, kind: u16, length: u32, rest: &[u8]) -> u64 {
        let words = vec![0; 1 + rest.len().div_ceil(8)];
        let string = self.object(kind, &words);
        self.memory.half(string - 1 + 12, length);
        self.memory.write(string - 1 + 16, rest);
        string
    }

    fn text(&mut self, text: &str) -> u64 {
        let octets: Vec<u8> = text.chars().map(|c| u8::try_from(u32::from(c)).expect("Latin-1")).collect();
        self.string(ONE, octets.len() as u32, &octets)
    }

    fn wide(&mut self, text: &str) -> u64 {
        let units: Vec<u16> = text.encode_utf16().collect();
        let octets: Vec<u8> = units.iter().flat_map(|unit| unit.to_le_bytes()).collect();
        self.string(TWO, units.len() as u32, &octets)
    }

    /// A function with this name, or what stands for it, in a script; a frame of it is on the stack.
    fn frame_of(&mut self, name: u64, script: u64) -> u64 {
        let shared = self.object(NODE_20.shared_type, &[0, name, 0, script, 0x1_0000, 7 << 32]);
        let function = self.object(2070, &[0, 0, shared]);
        let context = self.object(ODDBALL, &[0]);
        self.memory.word(FRAME - 8, context);
        self.memory.word(FRAME - 16, function);
        function
    }

    fn script(&mut self, source: u64, name: u64, id: u32) -> u64 {
        self.object(NODE_20.script_type, &[source, name, 0, 0, 0, 0, 0, small(id), 0, 0])
    }

    fn found(&self) -> Option<Function> {
        Function::of_frame(&self.memory, &NODE_20, FRAME, false)
    }

    fn written(&self, word: u64) -> Option<String> {
        let mut out = [0; 64];
        let (used, cut) = Text::new(&self.memory, &NODE_20, word)?.write(&self.memory, &NODE_20, &mut out)?;
        let text = String::from_utf8(out[..used].to_vec()).expect("UTF-8");
        Some(if cut { text + "…" } else { text })
    }
}

#[test]
fn a_function_has_its_name_its_file_and_its_place() {
    let mut heap = Heap::new();
    let (source, file) = (heap.text("\n\n  function hash(s) { }"), heap.text("/srv/app.js"));
    let script = heap.script(source, file, 77);
    let (hash, local, undefined) = (heap.text("hash"), heap.text("local"), heap.object(ODDBALL, &[0]));
    let outer = heap.object(NODE_20.scope_type, &[0; 8]);
    let empty = heap.text("");
    let by_use = heap.text("Map.hash");
    // Flags, parameters, one variable; its name and what is known of it.
    let (head, variable) = ([small(0x1ff), small(1), small(1)], [local, small(3)]);
    let place = [small(15), small(22)];
    let tails: [(&[u64], Option<&str>); 6] = [
        (&[hash, small(5)], Some("hash")),
        (&[hash, small(5), undefined], Some("hash")),
        (&[hash, small(5), by_use], Some("hash")),
        (&[by_use], Some("Map.hash")),
        (&[empty, small(0), by_use], Some("Map.hash")),
        (&[], None),
    ];
    for (tail, name) in tails {
        let old = [&head[..], &variable, tail, &place, &[outer]].concat();
        let new = [&head[..], &place, &variable, tail, &[outer]].concat();
        for (layout, words) in [(NODE_20, old), (NODE_24, new)] {
            let scope = heap.object(NODE_20.scope_type, &words);
            heap.frame_of(scope, script);
            let function = heap.found().expect("a function");
            let scope = function.scope(&heap.memory, &layout).expect("a scope");
            assert_eq!(scope.place, Some((15, 22)), "{tail:?} of {}", layout.scope_head);
            let mut out = [0; 64];
            let written = scope.name.map(|text| text.write(&heap.memory, &layout, &mut out).expect("a text"));
            assert_eq!(written.map(|(used, _)| std::str::from_utf8(&out[..used]).expect("UTF-8")), name);
            let source = function.source(&heap.memory, &layout).expect("a source");
            assert_eq!(lines_before(&heap, &source, 15), Some(2));
            let file = function.file(&heap.memory, &layout).expect("a file");
            assert_eq!(file.length, 11);
        }
    }
    // The names of many variables are in a table.
    let many =
        [&[small(0), small(0), small(80), outer][..], &[small(1); 80], &[hash, small(5)], &place, &[outer]];
    let scope = heap.object(NODE_20.scope_type, &many.concat());
    heap.frame_of(scope, script);
    let scope = heap.found().and_then(|f| f.scope(&heap.memory, &NODE_20)).expect("a scope");
    assert_eq!((scope.name.map(|name| name.length), scope.place), (Some(4), Some((15, 22))));
}

#[test]
fn only_frames_of_functions_with_a_script_are_functions() {
    let mut heap = Heap::new();
    let (source, file, name) = (heap.text("f"), heap.text("f.js"), heap.text("f"));
    let script = heap.script(source, file, 1);
    let function = heap.frame_of(name, script);
    let found = heap.found().expect("a function");
    assert!(found.identity(&heap.memory, &NODE_20).is_some());
    let word = |at: u64, value: u64| heap.memory.word(at, value);
    // A number says what kind of frame of V8's own it is.
    let context = heap.memory.read(FRAME - 8);
    word(FRAME - 8, 2 * 17);
    assert_eq!(heap.found(), None);
    word(FRAME - 8, context);
    for odd in [small(3), 0, 1, 0x7fff_ffff_ffff_ffff, script, name, function - 1] {
        word(FRAME - 16, odd);
        assert_eq!(heap.found(), None, "{odd:#x}");
    }
    word(FRAME - 16, function);
    let shared = heap.memory.read(function - 1 + 24);
    for odd in [script, name, function, small(0)] {
        word(function - 1 + 24, odd);
        assert_eq!(heap.found(), None, "{odd:#x}");
    }
    word(function - 1 + 24, shared);
    // V8's own functions have none.
    for odd in [small(0), name] {
        word(shared - 1 + 32, odd);
        assert_eq!(heap.found(), None, "{odd:#x}");
    }
    word(shared - 1 + 32, script);
    assert_eq!(heap.found(), Some(found));
}

#[test]
fn an_object_that_the_collector_has_moved_is_found_at_its_new_place() {
    let mut heap = Heap::new();
    let (source, file, name) = (heap.text("f"), heap.text("f.js"), heap.text("f"));
    let script = heap.script(source, file, 1);
    let function = heap.frame_of(name, script);
    let found = heap.found().expect("a function");
    let copy = heap.object(2070, &[0, 0, heap.memory.read(function - 1 + 24)]);
    heap.memory.word(function - 1, copy - 1);
    heap.memory.word(function - 1 + 24, 0xdead_beef);
    assert_eq!(heap.found(), Some(found));
    // It is followed once: a circle has no end.
    heap.memory.word(copy - 1, function - 1);
    assert_eq!(heap.found(), None);
}

#[test]
fn functions_differ_by_script_and_by_their_number_in_it() {
    let mut heap = Heap::new();
    let (source, file, name) = (heap.text("f"), heap.text("f.js"), heap.text("f"));
    let mut identities = std::collections::BTreeSet::new();
    let other = heap.text("f()");
    let scripts = [(1, source), (2, source), (1, other)].map(|(id, source)| heap.script(source, file, id));
    let function = heap.frame_of(name, scripts[0]);
    let shared = heap.memory.read(function - 1 + 24) - 1;
    for script in scripts {
        for number in [7_u64, 8] {
            heap.memory.word(shared + 32, script);
            heap.memory.word(shared + 48, number << 32);
            let identity = heap.found().and_then(|f| f.identity(&heap.memory, &NODE_20));
            assert!(identities.insert(identity.expect("an identity")), "one address, several functions");
        }
    }
}

#[test]
fn strings_of_each_form_are_written_as_utf8() {
    let mut heap = Heap::new();
    let plain = heap.text("große");
    assert_eq!(heap.written(plain).as_deref(), Some("große"));
    let wide = heap.wide("λ→🙂x");
    assert_eq!(heap.written(wide).as_deref(), Some("λ→🙂x"));
    let thin = heap.object(ONE | THIN, &[u64::from(5_u32) << 32, plain]);
    assert_eq!(heap.written(thin).as_deref(), Some("große"));
    let sliced = heap.object(ONE | SLICED, &[3 << 32, plain, small(2)]);
    assert_eq!(heap.written(sliced).as_deref(), Some("oße"));
    let beyond = heap.object(ONE | SLICED, &[3 << 32, plain, small(3)]);
    assert_eq!(heap.written(beyond), None, "it ends behind its parent");
    let empty = heap.text("");
    let flattened = heap.object(ONE | CONS, &[5 << 32, plain, empty]);
    assert_eq!(heap.written(flattened).as_deref(), Some("große"));
    let both = heap.object(CONS, &[9 << 32, plain, wide]);
    assert_eq!(heap.written(both).as_deref(), Some("große…"), "what lies together at its beginning");
    let outside = heap.room(16);
    heap.memory.write(outside, b"outside");
    let external = heap.object(ONE | EXTERNAL, &[7 << 32, 0, outside]);
    assert_eq!(heap.written(external).as_deref(), Some("outside"));
    let circle = heap.object(ONE | THIN, &[5 << 32, 0]);
    heap.memory.word(circle - 1 + 16, circle);
    assert_eq!(heap.written(circle), None);
    let long = heap.text(&"x".repeat(100));
    assert_eq!(heap.written(long), Some("x".repeat(64) + "…"));
    let halves = heap.string(TWO, 2, &[0x00, 0xd8, 0x41, 0x00]);
    assert_eq!(heap.written(halves).as_deref(), Some("A"), "half of a surrogate pair is no character");
    for odd in [small(3), 0, 2, u64::MAX, heap.object(ODDBALL, &[0])] {
        assert_eq!(heap.written(odd), None, "{odd:#x}");
    }
}

/// Halves of pairs alone take no room, so the room does not end the text.
#[test]
fn of_a_string_no_more_is_read_than_may_have_room() {
    let mut heap = Heap::new();
    let halves = heap.string(TWO, 6000, &[0x00, 0xd8].repeat(6000));
    // What lies behind the first piece is not there.
    heap.memory.half(halves - 1 + 12, 1 << 29);
    assert_eq!(heap.written(halves).as_deref(), Some("…"));
    let pairs = heap.wide(&"🙂".repeat(40));
    assert_eq!(heap.written(pairs), Some("🙂".repeat(16) + "…"));
    let exact = heap.text(&"x".repeat(64));
    assert_eq!(heap.written(exact), Some("x".repeat(64)));
}

fn lines_before(heap: &Heap, source: &Text, character: u32) -> Option<u32> {
    let mut counted = CountedLines::NOTHING;
    counted.before(&heap.memory, &NODE_20, (1, source), character)
}

#[test]
fn lines_end_as_the_language_says() {
    let mut heap = Heap::new();
    for (source, character, lines) in [
        ("", 0, Some(0)),
        ("a\nb", 2, Some(1)),
        ("a\r\nb\rc", 6, Some(2)),
        ("\n\n\n", 3, Some(3)),
        ("ab", 3, None),
    ] {
        let string = heap.text(source);
        let text = Text::new(&heap.memory, &NODE_20, string).expect("a string");
        assert_eq!(lines_before(&heap, &text, character), lines, "{source:?}");
    }
    let wide = heap.wide("→\u{2028}x\u{2029}y");
    let text = Text::new(&heap.memory, &NODE_20, wide).expect("a string");
    assert_eq!(lines_before(&heap, &text, 5), Some(2));
}

/// Whatever was asked before, and where a mark parts a return from its line feed.
#[test]
fn lines_of_a_long_source_are_counted_from_what_is_known() {
    let mut heap = Heap::new();
    let source: String = ["x\r\n", "\n", "yz\r", "\r\n"].iter().copied().cycle().take(9000).collect();
    let string = heap.text(&source);
    let text = Text::new(&heap.memory, &NODE_20, string).expect("a string");
    let other = heap.text("\n\n");
    let other = Text::new(&heap.memory, &NODE_20, other).expect("a string");
    let mut counted = CountedLines::NOTHING;
    let characters = [20_000, 3, 4095, 4096, 4097, 8191, 8192, 8193, 19_999, 0, 12_288, text.length];
    for (script, character) in characters.into_iter().enumerate().chain([(7, 20_000), (7, 4096)]) {
        let before = &source[..character as usize];
        let due = before.replace("\r\n", "\n").matches(['\n', '\r']).count() as u32;
        for script in [1, script as u32] {
            let lines = counted.before(&heap.memory, &NODE_20, (script, &text), character);
            assert_eq!(lines, Some(due), "{character} of {script}");
        }
        assert_eq!(counted.before(&heap.memory, &NODE_20, (9, &other), 2), Some(2));
    }
    assert_eq!(counted.before(&heap.memory, &NODE_20, (1, &text), text.length + 1), None);
}

proptest! {
    /// Whatever stands in the heap, each question ends, and what is outside of it is not read as if it were there.
    #[test]
    fn damage_is_survived(damage in prop::collection::vec((0..OCTETS / 8, any::<u64>(), any::<bool>()), 1..40)) {
        let mut heap = Heap::new();
        let (source, file, name) = (heap.text("function f() {}"), heap.text("f.js"), heap.text("f"));
        let script = heap.script(source, file, 1);
        let scope = [small(0), small(0), small(1), name, small(1), name, small(4), small(9), small(12)];
        let scope = heap.object(NODE_20.scope_type, &scope);
        heap.frame_of(scope, script);
        let used = (heap.next - HEAP) / 8;
        for (place, value, is_reference) in damage {
            let place = place as u64 % used;
            // References to other places of the heap lead further than numbers by chance.
            let value = if is_reference { HEAP + (value % used) * 8 + 1 } else { value };
            heap.memory.word(HEAP + place * 8, value);
        }
        if let Some(function) = heap.found() {
            let mut out = [0; 32];
            for layout in [NODE_20, NODE_24] {
                let _ = function.identity(&heap.memory, &layout);
                let scope = function.scope(&heap.memory, &layout);
                let texts = [scope.and_then(|s| s.name), function.source(&heap.memory, &layout),
                    function.file(&heap.memory, &layout)];
                for text in texts.into_iter().flatten() {
                    let _ = text.write(&heap.memory, &layout, &mut out);
                    let mut counted = CountedLines::NOTHING;
                    let _ = counted.before(&heap.memory, &layout, (1, &text), text.length.min(1 << 16));
                }
            }
        }
    }
}
