//! Stacks from copies of the program's registers and stack (`perf record --call-graph dwarf`).
//!
//! Frame after frame is found by the object's own call frame information ([`pct_symbols::callframes`]) and read from the copy,
//! which begins at the stack pointer and ends after so many octets as were asked for. A stack whose outermost frame was not
//! reached is cut, and has a cause.

use super::file::{Sample, words};
use super::space::{Place, Spaces};
use pct_symbols::callframes::{CallFrames, RETURN_ADDRESS, Registers, Step};
use pct_symbols::{CodeAddr, ObjectId, Symbolizer};
use rustc_hash::FxHashMap;

/// DWARF's numbers of the kernel's registers of x86-64, in the order of the kernel's: ax, bx, cx, dx, si, di, bp, sp, ip; then flags
/// and segments, which no frame needs; then r8 to r15.
const DWARF: [Option<usize>; 24] = [
    Some(0),
    Some(3),
    Some(2),
    Some(1),
    Some(4),
    Some(5),
    Some(6),
    Some(7),
    Some(RETURN_ADDRESS),
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

/// Frames of one stack.
const MOST_FRAMES: usize = 4096;

/// Call frame information of the objects that were met.
#[derive(Default)]
pub(super) struct Unwinder {
    objects: FxHashMap<ObjectId, Option<CallFrames>>,
}

impl Unwinder {
    /// Adds the frames of a sample's stack, innermost first. Gives the cause if the outermost frame was not reached.
    pub(super) fn stack(
        &mut self,
        sample: &Sample<'_>,
        mask: u64,
        spaces: &Spaces,
        symbols: &Symbolizer,
        places: &mut Vec<Place>,
    ) -> Option<&'static str> {
        let mut registers = Registers::default();
        let there = (0..64).filter(|bit| mask >> bit & 1 == 1);
        for (bit, word) in there.zip(words(sample.registers)) {
            if let Some(number) = DWARF.get(bit).copied().flatten() {
                registers.0[number] = Some(word);
            }
        }
        let (Some(pc), Some(sp)) = (registers.pc(), registers.sp()) else { return Some("no registers") };
        let read = |address: u64| {
            let at = usize::try_from(address.checked_sub(sp)?).ok()?;
            let word = sample.stack.get(at..at.checked_add(8)?)?;
            Some(u64::from_le_bytes(word.try_into().ok()?))
        };
        let mut address = CodeAddr::Pc(pc);
        for _ in 0..MOST_FRAMES {
            let place = spaces.find(sample.pid, address);
            places.push(place);
            let Place::Code(object, code) = place else { return Some("no unwind data") };
            let frames = self.objects.entry(object).or_insert_with(|| symbols.call_frames(object));
            let Some(frames) = frames else { return Some("no unwind data") };
            let step = frames.step(code.lookup(), &mut registers, &read);
            let next = registers.pc().unwrap_or(0);
            address = match step {
                Step::Caller => CodeAddr::Return(next),
                Step::Interrupted => CodeAddr::Pc(next),
                Step::Outermost => return None,
                Step::NoData => return Some("no unwind data"),
                Step::NoMemory => return Some("end of the copied stack"),
            };
        }
        Some("depth limit")
    }
}
