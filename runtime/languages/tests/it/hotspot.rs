//! Java stacks over a made-up memory: what is proved is shown, and damaged memory is survived.

use std::collections::BTreeMap;

use pct_languages::hotspot::layout::{Layout, Refused};
use pct_languages::hotspot::tables::{Constant, Field, Published, Tables, Type};
use pct_languages::hotspot::walk::Way;
use pct_languages::hotspot::{JavaEnd, JavaFrame, JavaFrames, Jvm, Method, Registers, Spot, Walker};

use crate::pages::Pages;

/// The offsets that JDK 17 publishes. Static fields are at addresses from `STATICS` on.
const OFFSETS: &[(Field, u64)] = &[
    (Field::ListLength, 0),
    (Field::ListData, 8),
    (Field::HeapMemory, 8),
    (Field::HeapSegments, 120),
    (Field::HeapLogSegment, 256),
    (Field::SpaceLow, 16),
    (Field::SpaceHigh, 24),
    (Field::BlockUsed, 8),
    (Field::BlobName, 96),
    (Field::BlobFrameSize, 28),
    (Field::BlobFrameComplete, 20),
    (Field::BlobCodeBegin, 32),
    (Field::BlobCodeEnd, 40),
    (Field::CompiledMethod, 112),
    (Field::CompiledScopes, 120),
    (Field::CompiledDeopt, 128),
    (Field::CompiledDeoptHandle, 136),
    (Field::NmethodPcs, 268),
    (Field::NmethodDependencies, 272),
    (Field::NmethodMetadata, 260),
    (Field::NmethodOriginalPc, 300),
    (Field::MethodConst, 8),
    (Field::ConstPool, 8),
    (Field::ConstCodeSize, 32),
    (Field::ConstName, 34),
    (Field::ConstSignature, 36),
    (Field::ConstFlags, 28),
    (Field::PoolTags, 8),
    (Field::PoolHolder, 24),
    (Field::PoolLength, 60),
    (Field::PoolSource, 54),
    (Field::TagsData, 4),
    (Field::KlassName, 24),
    (Field::KlassPool, 232),
    (Field::SymbolLength, 4),
    (Field::SymbolBody, 6),
    (Field::ThreadSavedPc, 856),
    (Field::ThreadOs, 560),
    (Field::OsThreadId, 208),
    (Field::AnchorSp, 0),
    (Field::WrapperAnchor, 32),
    (Field::QueueBuffer, 8),
    (Field::QueueEnd, 28),
    (Field::CodeletSize, 8),
    (Field::CodeletDescription, 0),
];
const STATICS: u64 = 0x1_0000;
const STATIC: &[Field] = &[
    Field::Heaps,
    Field::LowBound,
    Field::HighBound,
    Field::CallStubReturn,
    Field::InterpreterCode,
    Field::Version,
    Field::ContinuationReturn,
];

fn tables() -> Tables {
    let mut tables = Tables::empty();
    for &(field, value) in OFFSETS {
        tables.set_field(field, Some(Published { value, is_static: false, is_short: false }));
    }
    for (i, &field) in (0..).zip(STATIC) {
        tables.set_field(field, Some(Published { value: STATICS + 8 * i, is_static: true, is_short: false }));
    }
    for (of, size) in [(Type::Block, 16), (Type::Pool, 72), (Type::Const, 48), (Type::Codelet, 16)] {
        tables.set_size(of, Some(size));
    }
    for (constant, value) in [(Constant::CallWrapper, -6), (Constant::SenderSp, -1), (Constant::Utf8, 1)] {
        tables.set_constant(constant, Some(value));
    }
    tables
}

const CODE: u64 = 0x70_0000_0000;
const SEGMENTS: u64 = 0x60_0000_0000;
const META: u64 = 0x50_0000_0000;
const STACK: u64 = 0x40_0000_0000;
const STACK_BYTES: u64 = 0x4000;
/// The interpreter: its first piece is for methods' entries, the second for returns.
const INTERPRETER: u64 = CODE;
const RETURNS: u64 = INTERPRETER + 0x100;
/// A stub and two compiled methods, each a block of 0x400 octets.
const STUB: u64 = CODE + 0x1000;
const CALLER: u64 = CODE + 0x2000;
const CALLEE: u64 = CODE + 0x3000;
/// What enters virtual threads.
const ENTER: u64 = CODE + 0x4000;
const CALL_STUB_RETURN: u64 = STUB + 0x210;
/// Offset of a block's code, and of the call in it, after which it goes on at `+ 5`.
const BODY: u64 = 0x200;
const CALL: u64 = BODY + 0x40;
const FRAME: u64 = 0x40;

/// A virtual machine with two methods: `p.C.caller` calls `p.C.callee`, into which `p.C.inner` is inlined.
fn machine() -> (Pages, Jvm) {
    let pages = Pages::default();
    for (at, octets) in [
        (STATICS, 0x1000),
        (CODE, 0x8000),
        (SEGMENTS, 0x1000),
        (META, 0x4000),
        (STACK, usize::try_from(STACK_BYTES).expect("small")),
    ] {
        pages.map(at, octets);
    }
    let (list, heap, queue) = (STATICS + 0x100, STATICS + 0x200, STATICS + 0x800);
    let statics = [list, CODE, CODE + 0x8000, CALL_STUB_RETURN, queue, 17, ENTER + BODY + 0x60];
    for (i, value) in (0..).zip(statics) {
        pages.word(STATICS + 8 * i, value);
    }
    pages.half(list, 1);
    pages.word(list + 8, list + 32);
    pages.word(list + 32, heap);
    pages.word(heap + 8 + 16, CODE);
    pages.word(heap + 8 + 24, CODE + 0x8000);
    pages.word(heap + 120 + 16, SEGMENTS);
    pages.half(heap + 256, 7);
    let texts = STATICS + 0xa00;
    for (i, text) in (0..).zip([
        &b"method entry point (kind = zerolocals)\0"[..],
        b"return entry points\0",
        b"nmethod\0",
        b"StubRoutines (1)\0",
        b"native nmethod\0",
    ]) {
        pages.write(texts + 64 * i, text);
    }
    pages.word(queue + 8, INTERPRETER);
    pages.half(queue + 28, 0x200);
    for (at, text) in [(INTERPRETER, 0), (RETURNS, 64)] {
        pages.word(at, texts + text);
        pages.half(at + 8, 0x100);
    }
    // All segments are free but those of blocks.
    pages.write(SEGMENTS, &[0xff; 0x100]);
    for (block, name) in [(STUB, 192), (CALLER, 128), (CALLEE, 128), (ENTER, 256)] {
        let first = (block - CODE) >> 7;
        for i in 0..8_u8 {
            pages.write(SEGMENTS + first + u64::from(i), &[i]);
        }
        pages.write(block + 8, &[1]);
        let blob = block + 16;
        pages.word(blob + 96, texts + name);
        pages.half(blob + 28, u32::try_from(FRAME / 8).expect("small"));
        pages.half(blob + 20, 12);
        pages.word(blob + 32, block + BODY);
        pages.word(blob + 40, block + 0x400);
        // push rbp; sub rsp, imm; ... call rel32
        pages.write(block + BODY, &[0x90; 0x100]);
        pages.write(block + BODY, &[0x55, 0x48, 0x81, 0xec, 0x30, 0, 0, 0]);
        pages.write(block + CALL, &[0xe8, 0, 0, 0, 0]);
        // Debugging data behind the blob's head: at 0x160 PcDescs, at 0x1a0 scopes, at 0x1c0 metadata.
        pages.half(blob + 268, 0x160);
        pages.half(blob + 272, 0x190);
        pages.half(blob + 260, 0x1c0);
        pages.word(blob + 120, blob + 0x1a0);
        for (i, (offset, scope)) in (0..).zip([(-1_i32, 0_i32), (0x45, 1), (0x7fff, 0)]) {
            pages.half(blob + 0x160 + 16 * i, offset.cast_unsigned());
            pages.half(blob + 0x164 + 16 * i, scope.cast_unsigned());
        }
    }
    for (block, own) in [(CALLER, method(0)), (CALLEE, method(1)), (ENTER, method(4))] {
        let blob = block + 16;
        pages.word(blob + 112, own);
        pages.word(blob + 0x1c0, own);
        pages.word(blob + 0x1c8, method(2));
        // sender, method (from 1), bytecode index + 1
        let scopes: &[u8] = if block == CALLER { &[0, 0, 1, 8] } else { &[0, 4, 2, 3, 0, 1, 8] };
        pages.write(blob + 0x1a0, scopes);
    }
    let (pool, holder, tags) = (META + 0x2000, META + 0x2400, META + 0x2800);
    pages.word(pool + 8, tags);
    pages.word(pool + 24, holder);
    pages.half(pool + 60, 10);
    pages.quarter(pool + 54, 5);
    pages.word(holder + 232, pool);
    pages.word(holder + 24, symbol(5));
    pages.write(tags + 4, &[1; 10]);
    for (i, text) in (0..).zip(["caller", "callee", "inner", "interpreted", "C.java", "p/C", "enterSpecial"])
    {
        pages.quarter(symbol(i) + 4, u16::try_from(text.len()).expect("short"));
        pages.write(symbol(i) + 6, text.as_bytes());
    }
    for (i, index) in (0..5).zip([1, 2, 3, 4, 6]) {
        let constant = method(i) + 0x80;
        pages.word(method(i) + 8, constant);
        pages.word(constant + 8, pool);
        pages.quarter(constant + 32, 20);
        pages.quarter(constant + 34, index);
        pages.quarter(constant + 28, 1);
        // Line 100 from bytecode 0 on, 101 from 5 on.
        pages.write(constant + 48 + 20, &[255, 0, 200, 0, 5 << 3 | 1, 0]);
        let name = if i == 4 { symbol(6) } else { symbol(i) };
        pages.word(pool + 72 + 8 * u64::from(index), name);
    }
    pages.word(pool + 72 + 8 * 5, symbol(4));
    let layout = Layout::new(&tables(), 17).expect("a whole layout");
    let jvm = Jvm::find(&pages, &layout).expect("a machine that is up");
    (pages, jvm)
}

fn method(i: u64) -> u64 {
    META + 0x100 * i + 0x100
}

fn symbol(i: u64) -> u64 {
    META + 0x3000 + 0x40 * i
}

/// The thread: native code has called `interpreted`, which called `caller`, which called `callee`, where it stands
/// behind the prologue.
fn thread(pages: &Pages) -> Registers {
    let sp = STACK + 0x1000;
    // callee's frame
    pages.word(sp + FRAME - 8, CALLER + CALL + 5);
    pages.word(sp + FRAME - 16, 0xdead_beef);
    let caller = sp + FRAME;
    let rbp = caller + 0x200;
    pages.word(caller + FRAME - 8, RETURNS + 0x40);
    pages.word(caller + FRAME - 16, rbp);
    // The interpreted frame: its method and bytecode, then whom it returns to.
    let stub_rbp = rbp + 0x400;
    pages.word(rbp - 24, method(3));
    pages.word(rbp - 64, method(3) + 0x80 + 48 + 6);
    pages.word(rbp - 8, rbp + 0x20);
    pages.word(rbp, stub_rbp);
    pages.word(rbp + 8, CALL_STUB_RETURN);
    // The call stub's.
    let wrapper = stub_rbp + 0x40;
    pages.word(stub_rbp - 48, wrapper);
    pages.word(wrapper + 32, 0);
    pages.word(stub_rbp, 0x77);
    pages.word(stub_rbp + 8, 0x1234_5678);
    Registers { pc: CALLEE + CALL + 2, sp, bp: 0x1111, tid: 1, ..Registers::default() }
}

/// Frames, and how many there were before one of which the callers are in the heap.
#[derive(Default)]
struct List(Vec<JavaFrame>, Option<usize>);

impl JavaFrames for List {
    fn push(&mut self, frame: JavaFrame) -> bool {
        self.0.push(frame);
        self.0.len() < 100
    }

    fn push_heap(&mut self) -> bool {
        assert!(self.1.replace(self.0.len()).is_none(), "once");
        true
    }
}

fn walked(pages: &Pages, jvm: &Jvm, registers: &Registers) -> (Vec<JavaFrame>, JavaEnd) {
    let mut list = List::default();
    let walker = Walker::new(pages, jvm, (registers.sp, STACK + STACK_BYTES));
    let end = walker.interrupted(registers, 50, &mut list);
    (list.0, end)
}

fn named(pages: &Pages, jvm: &Jvm, frames: &[JavaFrame]) -> Vec<(String, Option<u32>)> {
    let name = |frame: &JavaFrame| {
        let method = Method::at(pages, &jvm.layout, frame.method).expect("a method");
        assert!(method.is_method(pages, &jvm.layout));
        let (mut name, mut file) = ([0; 64], [0; 64]);
        let (length, cut) = method.write_name(pages, &jvm.layout, &mut name).expect("a name");
        let (file_length, _) = method.write_file(pages, &jvm.layout, &mut file).expect("a file");
        assert_eq!(&file[..file_length], b"p/C.java");
        assert!(!cut);
        (String::from_utf8_lossy(&name[..length]).into_owned(), frame.bci)
    };
    frames.iter().map(name).collect()
}

#[test]
fn compiled_inlined_and_interpreted_frames_lead_to_the_native_caller() {
    let (pages, jvm) = machine();
    let registers = thread(&pages);
    let (frames, end) = walked(&pages, &jvm, &registers);
    let names = named(&pages, &jvm, &frames);
    let expected = [("p.C.inner", 2), ("p.C.callee", 7), ("p.C.caller", 7), ("p.C.interpreted", 6)];
    assert_eq!(names, expected.map(|(name, bci)| (name.to_owned(), Some(bci))));
    let JavaEnd::Native(spot) = end else { panic!("{end:?}") };
    assert_eq!(spot.pc, 0x1234_5678);
}

/// `callee` is the outermost frame of a virtual thread that is on the stack. It returns to what has entered the
/// thread, or to a stub that fetches its callers from the heap.
#[test]
fn a_virtual_threads_frames_lead_to_its_carriers() {
    for (returns_to, in_heap) in [(ENTER + CALL + 5, None), (STUB + 0x220, Some(2))] {
        let (pages, jvm) = machine();
        let mut registers = thread(&pages);
        // Below `caller`'s frame come that of `enterSpecial` and `callee`'s.
        let callers = registers.sp + FRAME;
        registers.sp = callers - 2 * FRAME;
        pages.word(callers - 8, CALLER + CALL + 5);
        pages.word(callers - 16, 0xdead_beef);
        pages.word(callers - FRAME - 8, returns_to);
        pages.word(callers - FRAME - 16, 0xdead_beef);
        let mut list = List::default();
        let walker = Walker::new(&pages, &jvm, (registers.sp, STACK + STACK_BYTES));
        let end = walker.interrupted(&registers, 50, &mut list);
        let names: Vec<String> = named(&pages, &jvm, &list.0).into_iter().map(|(name, _)| name).collect();
        let expected = ["p.C.inner", "p.C.callee", "p.C.enterSpecial", "p.C.caller", "p.C.interpreted"];
        assert_eq!(names, expected, "{returns_to:x}");
        assert!(matches!(end, JavaEnd::Native(_)), "{end:?}");
        assert_eq!(list.1, in_heap);
        // Before the first virtual thread, and in code that is not known to enter one.
        for unknown in [0, CALLER + BODY] {
            pages.word(STATICS + 8 * 6, unknown);
            let (frames, end) = walked(&pages, &jvm, &registers);
            assert_eq!((frames.len(), end), (0, JavaEnd::Torn), "{returns_to:x} {unknown:x}");
        }
        pages.word(STATICS + 8 * 6, ENTER + BODY + 0x60);
        if in_heap.is_none() {
            pages.word(callers - FRAME - 8, ENTER + CALL + 4);
            assert_eq!(walked(&pages, &jvm, &registers).1, JavaEnd::Torn, "not behind a call");
        }
    }
}

#[test]
fn in_a_prologue_the_return_address_is_where_the_instructions_say() {
    let (pages, jvm) = machine();
    let mut registers = thread(&pages);
    let frame = registers.sp;
    // Before the push, and behind it.
    for (offset, sp) in [(0, frame + FRAME - 8), (1, frame + FRAME - 16)] {
        registers.pc = CALLEE + BODY + offset;
        registers.sp = sp;
        let (frames, end) = walked(&pages, &jvm, &registers);
        assert!(matches!(end, JavaEnd::Native(_)), "{offset}: {end:?}");
        assert_eq!(frames.len(), 4, "{offset}");
    }
    // Old return addresses lie around: none of them is taken.
    pages.word(frame, CALLER + CALL + 5);
    pages.word(frame + 8, CALLER + CALL + 5);
    registers.pc = CALLEE + CALL + 2;
    registers.sp = frame;
    pages.word(frame + FRAME - 8, CALLER + CALL + 4);
    assert_eq!(walked(&pages, &jvm, &registers), (vec![], JavaEnd::Torn), "not behind a call");
}

#[test]
fn a_link_that_is_not_proved_is_not_shown() {
    type Damage = fn(&Pages, &Registers);
    let damages: [(&str, Damage); 5] = [
        ("no call before it", |pages, _| pages.write(CALLER + CALL, &[0x90; 5])),
        ("no PcDesc for it", |pages, _| pages.half(CALLER + 16 + 0x170, 0x46)),
        ("not a piece to return to", |pages, r| pages.word(r.sp + 2 * FRAME - 8, INTERPRETER + 0x40)),
        ("a bytecode of another method", |pages, r| {
            pages.word(r.sp + FRAME + 0x200 - 64, method(2) + 0x80 + 48 + 3);
        }),
        ("an anchor below", |pages, r| pages.word(r.sp + FRAME + 0x600 + 0x40 + 32, r.sp)),
    ];
    for (what, damage) in damages {
        let (pages, jvm) = machine();
        let registers = thread(&pages);
        damage(&pages, &registers);
        let (frames, end) = walked(&pages, &jvm, &registers);
        assert_eq!(end, JavaEnd::Torn, "{what}");
        let whole = ["p.C.inner", "p.C.callee", "p.C.caller", "p.C.interpreted"];
        let names = named(&pages, &jvm, &frames);
        assert!(names.iter().zip(whole).all(|((name, _), whole)| name == whole), "{what}: {names:?}");
    }
}

#[test]
fn native_code_leads_into_java_only_behind_a_call() {
    let (pages, jvm) = machine();
    let registers = thread(&pages);
    let walker = Walker::new(&pages, &jvm, (registers.sp, STACK + STACK_BYTES));
    for (pc, count) in [(CALLER + CALL + 5, 2), (CALLER + CALL + 4, 0), (CALL_STUB_RETURN + 1, 0)] {
        let mut list = List::default();
        let spot = Spot { pc, sp: registers.sp + FRAME, bp: 0 };
        let end = walker.callers(spot, Way::Native, 50, &mut list);
        assert_eq!(list.0.len(), count, "{pc:#x}: {end:?}");
        assert_eq!(matches!(end, JavaEnd::Native(_)), count > 0);
    }
}

#[test]
fn what_is_not_published_is_named() {
    let optional = [Field::PoolSource, Field::Version, Field::ContinuationReturn];
    for &(field, _) in OFFSETS {
        let mut tables = tables();
        tables.set_field(field, None);
        let layout = Layout::new(&tables, 17);
        if optional.contains(&field) {
            assert!(layout.is_ok());
        } else {
            assert_eq!(layout, Err(Refused::Missing(field.name())));
        }
        tables.set_field(field, Some(Published { value: 1 << 20, is_static: false, is_short: false }));
        assert_eq!(Layout::new(&tables, 17), Err(Refused::Odd(field.name())));
    }
    for &field in STATIC.iter().filter(|field| !optional.contains(field)) {
        let mut tables = tables();
        tables.set_field(field, None);
        assert_eq!(Layout::new(&tables, 17), Err(Refused::Missing(field.name())));
    }
    assert_eq!(Field::BlobFrameSize.name(), "CodeBlob::_frame_size");
    for version in [0, 8, 10, 26] {
        assert_eq!(Layout::new(&tables(), version), Err(Refused::Version(version)));
    }
    let mut tables = tables();
    tables.set_constant(Constant::SenderSp, Some(-2));
    assert!(matches!(Layout::new(&tables, 17), Err(Refused::Odd(_))));
}

#[test]
fn a_machine_that_is_not_up_is_not_read() {
    let (pages, jvm) = machine();
    assert!(jvm.is_current(&pages));
    let queue = STATICS + 0x800;
    pages.half(queue + 28, 0x100);
    assert!(!jvm.is_current(&pages), "its pieces are made anew");
    let found = |pages: &Pages| Jvm::find(pages, &jvm.layout).map(|_| ());
    assert_eq!(found(&pages), Err(Refused::NotReady), "no piece to return to yet");
    pages.half(queue + 28, 0);
    assert_eq!(found(&pages), Err(Refused::NotReady));
    for i in [0, 1, 2, 3, 4] {
        let (pages, _) = machine();
        pages.word(STATICS + 8 * i, 0);
        assert_eq!(found(&pages), Err(Refused::NotReady), "{i}");
    }
    let (pages, _) = machine();
    pages.half(STATICS + 0x100, 1_000_000);
    assert!(matches!(found(&pages), Err(Refused::Odd(_))));
    let (pages, _) = machine();
    pages.half(INTERPRETER + 8, 0);
    assert!(matches!(found(&pages), Err(Refused::Odd(_))), "a piece without a size");
}

/// Numbers without a pattern.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 20
    }
}

#[test]
fn damaged_memory_ends_a_walk_and_nothing_else() {
    let rounds = std::env::var("PCT_HOSTILE_ROUNDS").ok().and_then(|n| n.parse().ok()).unwrap_or(3000);
    let mut random = Random(17);
    let mut ends = BTreeMap::<String, u32>::new();
    for _ in 0..rounds {
        let (pages, jvm) = machine();
        let mut registers = thread(&pages);
        for _ in 0..=random.next() % 6 {
            let (at, octets) = [(CODE, 0x3400), (SEGMENTS, 0x80), (META, 0x3200), (registers.sp, 0x700)]
                [usize::try_from(random.next() % 4).expect("small")];
            let at = at + ((random.next() % octets) & !7);
            let value = match random.next() % 4 {
                0 => 0,
                1 => u64::MAX,
                2 => registers.sp + random.next() % 0x800,
                _ => random.next() << 20 | random.next(),
            };
            pages.word(at, value);
        }
        registers.pc = match random.next() % 3 {
            0 => CODE + random.next() % 0x8000,
            1 => CALLEE + BODY + random.next() % 0x60,
            _ => registers.pc,
        };
        for register in [&mut registers.bp, &mut registers.rax, &mut registers.rbx, &mut registers.r13] {
            *register = match random.next() % 4 {
                0 => registers.sp + ((random.next() % 0x900) & !7),
                1 => method(random.next() % 4),
                2 => CODE + random.next() % 0x4000,
                _ => random.next(),
            };
        }
        let (frames, end) = walked(&pages, &jvm, &registers);
        assert!(frames.len() <= 100);
        for frame in frames {
            if let Some(method) = Method::at(&pages, &jvm.layout, frame.method) {
                let _ = method.is_method(&pages, &jvm.layout);
                let _ = method.write_name(&pages, &jvm.layout, &mut [0; 40]);
                let _ = method.write_file(&pages, &jvm.layout, &mut [0; 40]);
            }
        }
        *ends.entry(format!("{end:?}").chars().take(4).collect()).or_default() += 1;
    }
    // The damage has an effect, and not always.
    assert!(ends.len() >= 2, "{ends:?}");
}
