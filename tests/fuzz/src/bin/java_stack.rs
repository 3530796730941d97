//! HotSpot's frames in the memory of a damaged process: a layout that an image publishes, or one of an input's own
//! offsets; a virtual machine that is up; the stack from a thread's registers, and what its methods say of themselves.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pct_elf::Memory;
use pct_fuzz::{BASE, FuzzedMemory, USER_END, split_head};
use pct_languages::hotspot::find::{CODELETS, HEAPS, published_layout};
use pct_languages::hotspot::layout::Layout;
use pct_languages::hotspot::tables::{Constant, Field, Published, Tables, Type};
use pct_languages::hotspot::walk::Way;
use pct_languages::hotspot::{
    JavaCodes, JavaFrame, JavaFrames, Jvm, Method, NativeWalks, Registers, Spot, StackWords, Walker, lines,
};
use pct_unwind::{Met, Start, WalkEnd, Walked};

/// What JDK 17 publishes, with the fields nearer to each other: bodies are small.
const OFFSETS: &[(Field, u64)] = &[
    (Field::ListLength, 0),
    (Field::ListData, 8),
    (Field::HeapMemory, 8),
    (Field::HeapSegments, 40),
    (Field::HeapLogSegment, 72),
    (Field::SpaceLow, 16),
    (Field::SpaceHigh, 24),
    (Field::BlockUsed, 8),
    (Field::BlobName, 0),
    (Field::BlobFrameSize, 8),
    (Field::BlobFrameComplete, 12),
    (Field::BlobCodeBegin, 16),
    (Field::BlobCodeEnd, 24),
    (Field::CompiledMethod, 32),
    (Field::CompiledScopes, 40),
    (Field::CompiledDeopt, 48),
    (Field::CompiledDeoptHandle, 56),
    (Field::NmethodPcs, 64),
    (Field::NmethodDependencies, 68),
    (Field::NmethodMetadata, 72),
    (Field::NmethodOriginalPc, 76),
    (Field::MethodConst, 8),
    (Field::ConstPool, 8),
    (Field::ConstCodeSize, 16),
    (Field::ConstName, 18),
    (Field::ConstSignature, 20),
    (Field::ConstFlags, 22),
    (Field::PoolTags, 8),
    (Field::PoolHolder, 16),
    (Field::PoolLength, 24),
    (Field::PoolSource, 28),
    (Field::TagsData, 4),
    (Field::KlassName, 8),
    (Field::KlassPool, 16),
    (Field::SymbolLength, 4),
    (Field::SymbolBody, 6),
    (Field::ThreadSavedPc, 8),
    (Field::ThreadOs, 0),
    (Field::OsThreadId, 0),
    (Field::AnchorSp, 0),
    (Field::WrapperAnchor, 8),
    (Field::QueueBuffer, 8),
    (Field::QueueEnd, 16),
    (Field::CodeletSize, 8),
    (Field::CodeletDescription, 0),
];
/// What a static field is at, one after the other from [`BASE`] on.
const STATIC: &[Field] = &[
    Field::Heaps,
    Field::LowBound,
    Field::HighBound,
    Field::CallStubReturn,
    Field::InterpreterCode,
    Field::ContinuationReturn,
];
/// What later versions publish instead of other fields.
const OFFSETS_OF_CODE: &[(Field, u64)] = &[(Field::BlobCodeOffset, 16), (Field::BlobDataOffset, 20)];
const OFFSETS_OF_DEBUG: &[(Field, u64)] = &[
    (Field::NmethodImmutable, 40),
    (Field::NmethodScopesOffset, 68),
    (Field::BlobMutableData, 80),
    (Field::BlobRelocationSize, 72),
];
const OFFSETS_OF_DEOPT: &[(Field, u64)] =
    &[(Field::NmethodDeoptOffset, 48), (Field::NmethodDeoptHandleOffset, 52)];

/// Most loads that list a virtual machine's heaps, and the pieces of its interpreter, each with its name.
const LOADS_OF_FIND: u64 = 16 + 8 * HEAPS as u64 + 12 * CODELETS as u64;
/// Most loads that find a blob: back through a map of segments, and its head.
const LOADS_OF_BLOB: u64 = 2048 + 16;
/// Most loads of one step: some blobs, the search for a PcDesc, and twice 256 scopes of three numbers and a method.
const LOADS_OF_STEP: u64 = 4 * LOADS_OF_BLOB + 2 * 256 * 16 + 64;
/// Most loads of the innermost frame: each of four return addresses may be asked about twice.
const LOADS_OF_FIRST: u64 = 8 * LOADS_OF_STEP;

fn set(tables: &mut Tables, fields: &[(Field, u64)]) {
    for &(field, value) in fields {
        tables.set_field(field, Some(Published { value, is_static: false, is_short: false }));
    }
}

/// What an input's virtual machine publishes: the usual, changed. Each change has the number of a field, how it is
/// published, and its offset.
fn tables(flags: u8, changes: &[u64]) -> Tables {
    let mut tables = Tables::empty();
    set(&mut tables, OFFSETS);
    for (i, field) in (0..).zip(STATIC) {
        tables.set_field(*field, Some(Published { value: BASE + 8 * i, is_static: true, is_short: false }));
    }
    let newer = [(2, OFFSETS_OF_CODE), (4, OFFSETS_OF_DEBUG), (8, OFFSETS_OF_DEOPT)];
    newer.iter().filter(|(bit, _)| flags & bit != 0).for_each(|(_, fields)| set(&mut tables, fields));
    if flags & 16 != 0 {
        tables.set_field(Field::PoolSource, None);
        set(&mut tables, &[(Field::OldSource, 24)]);
    }
    for (of, size) in [(Type::Block, 16), (Type::Pool, 32), (Type::Const, 32), (Type::Codelet, 16)] {
        tables.set_size(of, Some(size));
    }
    for (constant, value) in [(Constant::CallWrapper, -6), (Constant::SenderSp, -1), (Constant::Utf8, 1)] {
        tables.set_constant(constant, Some(value));
    }
    for octets in changes.iter().map(|word| word.to_le_bytes()) {
        for [number, how, low, high] in octets.as_chunks::<4>().0 {
            let Some(number) = usize::from(*number).checked_sub(1) else { continue };
            let value = u16::from_le_bytes([*low, *high]).into();
            if let Some((field, _)) = OFFSETS.get(number) {
                let published = Published { value, is_static: false, is_short: how & 1 != 0 };
                tables.set_field(*field, (how & 2 == 0).then_some(published));
            } else if let Some(field) = STATIC.get(number - OFFSETS.len()) {
                let published = Published { value: BASE + value, is_static: true, is_short: false };
                tables.set_field(*field, (how & 2 == 0).then_some(published));
            } else if let Some(of) = [Type::Block, Type::Pool, Type::Const, Type::Codelet].get(number % 4) {
                tables.set_size(*of, Some(value));
            }
        }
    }
    tables
}

/// Takes so many frames, and must not be given more.
struct Limited {
    frames: Vec<JavaFrame>,
    left: usize,
    refused: bool,
}

impl Limited {
    fn new(left: usize) -> Limited {
        Limited { frames: Vec::new(), left, refused: false }
    }

    fn accept(&mut self) -> bool {
        assert!(!self.refused, "a frame for who wants no more");
        self.refused = self.left == 0;
        self.left = self.left.saturating_sub(1);
        !self.refused
    }
}

impl JavaFrames for Limited {
    fn push(&mut self, frame: JavaFrame) -> bool {
        let accepted = self.accept();
        if accepted {
            self.frames.push(frame);
        }
        accepted
    }

    fn push_heap(&mut self) -> bool {
        self.accept()
    }
}

/// Every third method is not written down.
struct Numbers;

impl JavaCodes for Numbers {
    fn frame_word(&mut self, frame: JavaFrame) -> Option<u64> {
        (!frame.method.is_multiple_of(3)).then_some(frame.method)
    }
}

/// Native walks as the input has them: a walk ends at each pair of an address and a stack pointer.
struct NativePairs(std::vec::IntoIter<[u64; 2]>);

impl NativeWalks for NativePairs {
    fn walk_to(&mut self, start: Start<'_>, out: &mut [u64], foreign: (u64, u64)) -> (Walked, Option<Met>) {
        let end = |frames, end| Walked { frames, end, unknown: frames % 2 == 1, unsure: false };
        let Some([pc, sp]) = self.0.next() else { return (end(0, WalkEnd::NotReady), None) };
        let first = match start {
            Start::Interrupted(_) => pc,
            Start::Return { pc, .. } => pc,
        };
        let mut frames = 0;
        for (place, word) in out.iter_mut().zip([first, pc]) {
            *place = word;
            frames += 1;
        }
        let is_met = frames == 2 && pc >= foreign.0 && pc < foreign.1;
        let met = Met { pc, sp: sp & !7, bp: sp, is_exact: sp % 8 == 7 };
        if is_met { (end(2, WalkEnd::Foreign), Some(met)) } else { (end(frames, WalkEnd::Whole), None) }
    }
}

fn ask_method(memory: &FuzzedMemory<'_>, layout: &Layout, frame: &JavaFrame) {
    let Some(method) = Method::at(memory, layout, frame.method) else { return };
    let _ = method.identity();
    let (mut name, mut file) = ([0; 48], [0; 48]);
    let (facts, loads, _) = memory.count(|| method.facts(memory, layout, (&mut name, &mut file)));
    // At most 16,384 octets of a line table are read, one by one.
    assert!(loads <= (16 << 10) + 64, "{loads} loads for a method");
    let Some((facts, kept)) = facts else { return };
    assert!(facts.name.len() <= 48 && facts.file.len() <= 48 && kept.octets <= 16 << 10);
    let mut table = vec![0; kept.octets as usize];
    if memory.copy(kept.at, &mut table) {
        let _ = lines::look_up(&table, layout.biased, frame.bci.unwrap_or(0));
    }
}

fuzz_target!(|input: &[u8]| {
    let Some((head, body)) = split_head(input) else { return };
    let [choices, pc, sp, bp, rax, rbx, r13, r15, low, high, native_at, way_low, changes @ ..] = head;
    let [version, flags, most, room, way, natives, tid, ..] = choices.to_le_bytes();
    let memory = FuzzedMemory::new(body, flags & 1 != 0);
    let _ = lines::look_up(&body[..body.len().min(200)], flags & 2 != 0, tid.into());

    let layout = if flags & 32 != 0 {
        published_layout(&memory, BASE)
    } else {
        Layout::new(&tables(flags, &changes), version.into())
    };
    let Ok(layout) = layout else { return };
    let (jvm, loads, _) = memory.count(|| Jvm::find(&memory, &layout));
    assert!(loads <= LOADS_OF_FIND, "{loads} loads for a virtual machine");
    let Ok(jvm) = jvm else { return };
    let registers = Registers { pc, sp, bp, rax, rbx, r13, r15, tid: tid.into() };
    // A stack lies in user space.
    let walker = Walker::new(&memory, &jvm, (low, high.min(USER_END)));
    let (most, room) = (u32::from(most % 64), usize::from(room % 100));
    let steps = u64::from(most + 1);
    let check = |list: &Limited| {
        assert!(list.frames.len() <= room);
        list.frames.iter().take(20).for_each(|frame| ask_method(&memory, &layout, frame));
    };

    let mut list = Limited::new(room);
    let (_, loads, _) = memory.count(|| walker.interrupted(&registers, most, &mut list));
    assert!(loads <= LOADS_OF_FIRST + steps * LOADS_OF_STEP, "{loads} loads from registers");
    check(&list);

    let ways = [Way::Java, Way::Native, Way::Interruption, Way::Stub(way_low, pc)];
    let mut list = Limited::new(room);
    let spot = Spot { pc: rax, sp: r13, bp };
    let (_, loads, _) = memory.count(|| walker.callers(spot, ways[usize::from(way) % 4], most, &mut list));
    assert!(loads <= steps * LOADS_OF_STEP, "{loads} loads from a return address");
    check(&list);

    let mut out = [0; 100];
    let words = StackWords::new(Numbers, &mut out[..room]);
    let mut natives = NativePairs(memory.pairs(native_at, usize::from(natives)).into_iter());
    let start = Start::Return { pc, sp, bp };
    let (stack, loads, _) = memory.count(|| walker.mixed(&registers, start, &mut natives, most, words));
    assert!(loads <= LOADS_OF_FIRST + 65 * (1 + steps * LOADS_OF_STEP), "{loads} loads for both");
    assert!(stack.is_none_or(|(used, _)| used <= room));
});
