//! Stacks from copies of the program's registers and stack (`perf record --call-graph dwarf`).
//!
//! Each frame is found with the object's own unwind data ([`pct_unwind`]) and read from the copy. The copy begins at
//! the stack pointer and has as many octets as were requested. A stack whose outermost frame was not reached is cut,
//! and has a cause.

use super::file::{Sample, words};
use super::space::{FrameOrigin, Spaces};
use pct_elf::{BytesAt, Memory as _};
use pct_symbols::unwind::UnwindData;
use pct_symbols::{CodeAddr, ObjectId, Symbolizer};
use pct_unwind::cfi::reg;
use pct_unwind::full::{Failed, Regs, StepOut};
use pct_unwind::stack::Memory;
use rustc_hash::FxHashMap;

/// DWARF's numbers for the kernel's registers of x86-64, in the kernel's order: ax, bx, cx, dx, si, di, bp, sp,
/// ip (16: the return address); then flags and segments, which no frame needs; then r8 to r15.
const DWARF: [Option<usize>; 24] = [
    Some(0),
    Some(3),
    Some(2),
    Some(1),
    Some(4),
    Some(5),
    Some(6),
    Some(7),
    Some(16),
    None,
    None,
    None,
    None,
    None,
    None,
    None,
    Some(8),
    Some(9),
    Some(10),
    Some(11),
    Some(12),
    Some(13),
    Some(14),
    Some(15),
];

/// Most frames of one stack.
const MOST_FRAMES: usize = 4096;

/// Unwind data of the objects that occurred.
#[derive(Default)]
pub(super) struct Unwinder {
    objects: FxHashMap<ObjectId, Option<UnwindData>>,
}

impl Unwinder {
    /// Adds the frames of a sample's stack, innermost first. Returns the cause if the outermost frame was not reached.
    pub(super) fn stack(
        &mut self,
        sample: &Sample<'_>,
        mask: u64,
        spaces: &Spaces,
        symbols: &Symbolizer,
        places: &mut Vec<FrameOrigin>,
    ) -> Option<&'static str> {
        let mut registers = registers(sample, mask);
        let (Some(pc), Some(sp)) = (registers.get(reg::RA), registers.get(reg::RSP)) else {
            return Some("no registers");
        };
        let mut copy = StackCopy(BytesAt { at: sp, bytes: sample.stack });
        let mut address = CodeAddr::Pc(pc);
        for _ in 0..MOST_FRAMES {
            let place = spaces.find(sample.pid, address);
            places.push(place);
            let FrameOrigin::Code(object, code) = place else { return Some("no unwind data") };
            let data = self.objects.entry(object).or_insert_with(|| symbols.unwind_data(object));
            let Some(data) = data else { return Some("no unwind data") };
            let Some(look_up) = data.address_of_offset(code.lookup()) else { return Some("no unwind data") };
            let next = |registers: &Regs| registers.get(reg::RA).unwrap_or(0);
            (registers, address) = match registers.step(data.table(), look_up, &mut copy) {
                Ok(StepOut::Caller(caller)) => (caller, CodeAddr::Return(next(&caller))),
                Ok(StepOut::Interrupted(caller)) => (caller, CodeAddr::Pc(next(&caller))),
                Ok(StepOut::Outermost) => return None,
                Err(Failed::NoData | Failed::Data) => return Some("no unwind data"),
                Err(Failed::Lost | Failed::Memory) => return Some("end of the copied stack"),
            };
        }
        Some("depth limit")
    }
}

/// The registers of a sample that are set in `mask`.
fn registers(sample: &Sample<'_>, mask: u64) -> Regs {
    let mut values = [None; reg::COLUMNS];
    let there = (0..64).filter(|bit| mask >> bit & 1 == 1);
    for (bit, word) in there.zip(words(sample.registers)) {
        let number = DWARF.get(bit).copied().flatten();
        if let Some(value) = number.and_then(|number| values.get_mut(number)) {
            *value = Some(word);
        }
    }
    Regs::from_columns(values)
}

/// The copied part of the stack. Nothing else can be read.
struct StackCopy<'a>(BytesAt<'a>);

impl Memory for StackCopy<'_> {
    fn peek(&self, addr: u64) -> Option<u64> {
        self.0.read_word(addr)
    }
}
