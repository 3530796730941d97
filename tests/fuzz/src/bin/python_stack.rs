//! CPython's frames in the memory of a damaged process: an interpreter and a C library that are looked for in an image,
//! a thread's chain of frames, what code objects say of themselves, and both stacks made one.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pct_elf::{Image, Memory};
use pct_fuzz::{BASE, FuzzedMemory, USER_END, split_head};
use pct_languages::cpython::layout::{LAYOUTS, LineTable};
use pct_languages::cpython::{
    Interpreter, Layout, PythonFrame, Standing, ThreadData, code, greenlet_code, lines, walk,
};
use pct_languages::weave::{Interpreted, InterpreterCode, Native, Words, weave};
use pct_unwind::Placed;

/// Most frames of a walk here.
const FRAMES: usize = 64;
/// Most loads of a chain's frames, and of what a walk passes beside them: 4,096 boundaries, and 16,384 chunks of the
/// frame stack.
const LOADS_OF_CHAIN: u64 = (FRAMES as u64 + 2) * 16;
const LOADS_OF_WALK: u64 = 8 * 4096 + 3 * (1 << 14);

/// Every third code object is hidden.
struct Numbers;

impl Words for Numbers {
    fn frame(&mut self, frame: &PythonFrame) -> Option<u64> {
        (!frame.code.is_multiple_of(3)).then_some(frame.code)
    }
}

fn ask_code(memory: &FuzzedMemory<'_>, layout: &Layout, frame: &PythonFrame) {
    let _ = code::identity(memory, layout, frame.code);
    let mut out = [0; 40];
    for text in [code::name(memory, layout, frame.code), code::filename(memory, layout, frame.code)] {
        let Some(text) = text else { continue };
        let (copied, loads, _) = memory.count(|| code::utf8(memory, text, &mut out));
        // Each character has an octet at least, and 16 are read at once.
        assert!(loads <= 1 + out.len() as u64 / 16 + 1, "{loads} loads for a text");
        if let Some((used, _)) = copied {
            assert!(std::str::from_utf8(&out[..used]).is_ok());
        }
    }
    let first_line = code::first_line(memory, layout, frame.code).unwrap_or(u32::MAX);
    if let Some(octets) = code::line_table(memory, layout, frame.code) {
        let mut table = vec![0; octets.length.min(1000) as usize];
        if memory.copy(octets.at, &mut table) {
            look_up(&table, first_line, frame.offset.unwrap_or(0));
        }
    }
}

fn look_up(table: &[u8], first_line: u32, offset: u32) {
    for form in [LineTable::Lnotab, LineTable::Pairs, LineTable::Locations] {
        for whole in [false, true] {
            let _ = lines::look_up(form, table, whole, first_line, offset);
        }
    }
}

fuzz_target!(|input: &[u8]| {
    let Some((head, body)) = split_head(input) else { return };
    let [choices, state, sp, thread, pc, first, end, callers_at, registers @ .., code_type, runtime] = head;
    let [number, flags, most, room, callers, tid, ..] = choices.to_le_bytes();
    let memory = FuzzedMemory::new(body, flags & 1 != 0);
    look_up(&body[..body.len().min(200)], tid.into(), number.into());

    // What an image names is looked at before it is believed.
    let runtime = ((runtime % USER_END) & !7).max(BASE);
    let layout = &LAYOUTS[usize::from(number) % LAYOUTS.len()];
    let made = Interpreter { layout, version: 0, runtime, code_type, bytecode_loop: (first, end) };
    let (mut found, mut data, mut greenlets) = (None, None, (0, 0));
    if let Some(image) = Image::at_base(&memory, BASE)
        && let Some(symbols) = image.symbols(&memory)
    {
        let path = &body[body.len().saturating_sub(24)..];
        found = Interpreter::find(&memory, (&image, &symbols), path).and_then(Result::ok);
        data = ThreadData::find(&memory, &symbols);
        greenlets = greenlet_code(&memory, &image, &symbols).unwrap_or((0, 0));
    }
    let standing = Standing { stack_pointer: sp, registers: registers.iter().copied() };
    let chains = 3 + registers.len() as u64;
    let callers: Vec<Placed> = memory
        .pairs(callers_at, usize::from(callers % 40))
        .into_iter()
        .map(|[entry, cfa]| Placed { entry, cfa })
        .collect();
    let native = Native { pc, sp, callers: &callers, whole: flags & 2 != 0 };
    for interpreter in [Some(made), found].into_iter().flatten() {
        let (mut frames, mut frames_of_thread) =
            ([PythonFrame::default(); FRAMES], [PythonFrame::default(); FRAMES]);
        let most = usize::from(most) % (FRAMES + 1);
        let frames = &mut frames[..most];
        let walked = |state, frames: &mut [PythonFrame]| {
            let (chain, loads, _) =
                memory.count(|| walk(&memory, &interpreter, state, &standing, &mut *frames));
            assert!(loads <= chains * LOADS_OF_CHAIN + LOADS_OF_WALK, "{loads} loads for a chain");
            if let Ok(chain) = chain {
                assert!(chain.frames <= frames.len());
                assert!(!chain.cut || chain.frames == frames.len());
                frames[..chain.frames].iter().for_each(|frame| ask_code(&memory, interpreter.layout, frame));
            }
            chain
        };
        let mut interpreted = match walked(state, frames) {
            Ok(chain) => {
                let frames = &frames[..chain.frames];
                Some(Ok(Interpreted { frames, cut: chain.cut, others: flags & 4 != 0 }))
            }
            Err(_) => None,
        };
        if let Some(data) = &data {
            let (block, loads, _) = memory.count(|| interpreter.control_block(&memory, data, u32::from(tid)));
            assert!(loads <= 3 * (1 << 16) + 3 * 1024 + 3, "{loads} loads for a control block");
            let reader = (&interpreter, data);
            let thread = block.unwrap_or(thread);
            let frames = &mut frames_of_thread[..most];
            interpreted = Interpreted::of_cpython(&memory, reader, thread, &standing, frames).or(interpreted);
        }
        let Some(interpreted) = interpreted else { continue };
        let frames = interpreted.as_ref().map_or(0, |interpreted| interpreted.frames.len());
        let mut out = [0; 128];
        let out = &mut out[..usize::from(room) % 129];
        for greenlets in [greenlets, (sp, end)] {
            let code = InterpreterCode { bytecode_loop: interpreter.bytecode_loop, greenlets };
            let woven = weave(&native, interpreted, code, &mut Numbers, out);
            assert!(woven.words <= out.len() && woven.words <= callers.len() + frames + 2);
        }
    }
});
