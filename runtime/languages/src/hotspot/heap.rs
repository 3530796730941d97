//! From an address in the code cache to the blob that it belongs to.
//!
//! A heap of code is cut into segments. Its map has an octet for each: 255 for a free one, 0 for the first one of a
//! block, else how many to go back. Maps and heads are read while other threads change them; a block that is on the
//! own stack does not change.

use pct_elf::Memory;

use super::find::Jvm;
use super::layout::{CodeRange, Deopt};

/// Most steps back in a map: a block of 16 MiB in segments of 64 octets takes about a thousand.
const HOPS: u32 = 2048;
/// A free segment.
const FREE: u8 = 0xff;
/// Most words of a frame.
const LARGEST_FRAME: u32 = 4096;

/// What code is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A compiled method.
    Compiled,
    /// What leads from Java to a native method.
    Native,
    /// Stubs without debugging data: copies of arrays, checksums, mathematics, calls into Java.
    Stubs,
    /// Between compiled and interpreted calls.
    Adapter,
    /// Virtual calls.
    Dispatch,
    /// The frame below was interrupted and not called: safepoints, exceptions, deoptimisation.
    Interrupting,
    /// A safepoint met at a poll.
    Safepoint,
    /// Calls from compiled code into the virtual machine.
    Runtime,
    /// Anything else.
    Other,
}

/// A block of the code cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Blob {
    /// Its address.
    pub at: u64,
    /// What it is.
    pub kind: Kind,
    /// Its code: first address, and behind the last.
    pub code: (u64, u64),
    /// Octets of its frame, return address included.
    pub frame: u64,
    /// Octets of code behind which the frame is complete.
    pub complete: u64,
}

impl Jvm {
    /// The blob that holds an address.
    #[must_use]
    pub fn blob<M: Memory>(&self, memory: &M, pc: u64) -> Option<Blob> {
        let layout = &self.layout;
        let heap = self.heap_of(pc)?;
        let high = memory.read_word(heap.high_at)?;
        if pc >= high || !self.contains(pc) {
            return None;
        }
        let mut segment = (pc - heap.low) >> heap.log_segment;
        let mut left = HOPS;
        loop {
            let [back] = memory.bytes(heap.segments.checked_add(segment)?)?;
            match back {
                FREE => return None,
                0 => break,
                back => segment = segment.checked_sub(u64::from(back))?,
            }
            left = left.checked_sub(1)?;
        }
        let head = heap.low + (segment << heap.log_segment);
        let [used] = memory.bytes(head + layout.block_used)?;
        if used != 1 {
            return None;
        }
        let at = head + layout.block_size;
        let code = match layout.code {
            CodeRange::Addresses(begin, end) => (memory.read_word(at + begin)?, memory.read_word(at + end)?),
            CodeRange::Offsets(begin, end) => {
                (at + u64::from(memory.half(at + begin)?), at + u64::from(memory.half(at + end)?))
            }
        };
        if code.0 < at || code.0 > code.1 || pc < code.0 || pc >= code.1 || code.1 > high {
            return None;
        }
        let words = memory.half(at + layout.blob_frame_size)?;
        let words = if words < LARGEST_FRAME { words } else { 0 };
        let complete = if layout.frame_complete_is_short {
            i64::from(memory.quarter(at + layout.blob_frame_complete)?.cast_signed())
        } else {
            i64::from(memory.half(at + layout.blob_frame_complete)?.cast_signed())
        };
        let kind = kind_of(memory, memory.read_word(at + layout.blob_name)?, words)?;
        let complete = u64::try_from(complete).unwrap_or(0);
        Some(Blob { at, kind, code, frame: 8 * u64::from(words), complete })
    }

    /// Whether a return address in a blob was replaced by one of its handlers of deoptimisation.
    #[must_use]
    pub fn is_deopt_handler<M: Memory>(&self, memory: &M, blob: &Blob, pc: u64) -> bool {
        match self.layout.deopt {
            Deopt::Addresses(one, other) => {
                [one, other].iter().any(|field| memory.read_word(blob.at + field) == Some(pc))
            }
            Deopt::Offsets(one, other) => [one, other].iter().any(|field| {
                memory.half(blob.at + field).map(|offset| blob.at.wrapping_add(u64::from(offset))) == Some(pc)
            }),
        }
    }
}

fn kind_of<M: Memory>(memory: &M, name: u64, words: u32) -> Option<Kind> {
    Some(match &memory.bytes::<8>(name)? {
        b"nmethod\0" => Kind::Compiled,
        b"native n" => Kind::Native,
        b"StubRout" => Kind::Stubs,
        b"I2C/C2I " | b"MethodHa" => Kind::Adapter,
        b"vtable c" => Kind::Dispatch,
        b"Safepoin" => Kind::Safepoint,
        // The last two are C1's, for exceptions: they return to what threw.
        b"Deoptimi" | b"Uncommon" | b"Exceptio" | b"handle_e" | b"unwind_e" => Kind::Interrupting,
        _ if words > 0 => Kind::Runtime,
        _ => Kind::Other,
    })
}
