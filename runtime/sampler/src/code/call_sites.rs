//! Where an object's code makes system calls that may change the action of a signal.
//!
//! The executable segments are searched for the bytes of the instruction. Of 2,370 objects of a Debian system 411 have
//! them somewhere, mostly within other instructions. So the function is walked from its start, by the list of functions
//! in `.eh_frame_hdr`: either an instruction begins there or not. If one does, the number of the call is followed as
//! far as it is a constant ([`super::call_number`]). What cannot be told counts as a call that changes actions. By this
//! rule 89 of those objects may make the call: Go programs, emulators, sanitizers, busybox. All figures are of
//! `cargo run --release -p pct-sampler --example own-calls -- FILE...`.
//!
//! Calls by `int 0x80` are not looked for.
//!
//! Signal safety: that of the memory that is given.

use core::ops::ControlFlow;

#[cfg(target_arch = "x86_64")]
use crate::code::call_number::{CONTEXT, Walk, may_begin_at, walk};
use crate::code::object_bytes::Bytes;
use pct_elf::{Image, Memory, Segment, segment_flag, segment_kind};
use pct_unwind::reader::Section;
use pct_unwind::table::Header;

/// The call that changes an action, rt_sigaction.
#[cfg(target_arch = "x86_64")]
const SETS_ACTION: u32 = 13;
/// The same.
#[cfg(target_arch = "aarch64")]
const SETS_ACTION: u32 = 134;

/// Whether a call that may change actions is found. `headers` has the object's program headers, `contents` the rest.
pub(super) fn has_call(headers: Bytes<'_>, contents: Bytes<'_>, image: &Image) -> bool {
    let object = Object { contents, functions: Functions::read_list(headers, contents, image) };
    code_of(&headers, image).any(|(start, bytes)| {
        object.find_calls(start, start.wrapping_add(bytes), |_| ControlFlow::Break(())).is_break()
    })
}

/// Calls `each` for the address of each instruction in an object's code that may change an action. Of code that cannot
/// be read the first address.
pub fn each_call_in(contents: Bytes<'_>, image: &Image, mut each: impl FnMut(u64)) {
    let object = Object { contents, functions: Functions::read_list(contents, contents, image) };
    for (start, bytes) in code_of(&contents, image) {
        let _ = object.find_calls(start, start.wrapping_add(bytes), |place| {
            each(place);
            ControlFlow::Continue(())
        });
    }
}

/// An object's segments of code: address and number of bytes.
pub(super) fn code_of<'m, M: Memory>(
    memory: &'m M,
    image: &Image,
) -> impl Iterator<Item = (u64, u64)> + use<'m, M> {
    let bias = image.bias;
    let is_code = |s: &Segment| s.kind == segment_kind::LOAD && s.flags & segment_flag::EXECUTE != 0;
    image.segments(memory).filter(is_code).map(move |s| (s.address.wrapping_add(bias), s.file_bytes))
}

/// An object's functions, by its list of unwind data.
#[derive(Clone, Copy, Debug)]
struct Functions {
    /// Address of `.eh_frame_hdr`.
    header: u64,
    /// Address of its list, and the number of entries.
    list: u64,
    count: u64,
}

impl Functions {
    fn read_list(headers: Bytes<'_>, contents: Bytes<'_>, image: &Image) -> Option<Functions> {
        let header = image.segment(&headers, segment_kind::UNWIND)?.address.wrapping_add(image.bias);
        let bytes: [u8; 12] = contents.bytes(header)?;
        let (offset, count) = Header::parse(&Section { bytes: &bytes, addr: header })?.list?;
        Some(Functions { header, list: header.checked_add(offset as u64)?, count: count as u64 })
    }

    /// An address that the list has, from its byte `at` on.
    fn address_at(&self, memory: Bytes<'_>, at: u64) -> Option<u64> {
        let offset = memory.half(self.list.checked_add(at)?)?;
        Some(self.header.wrapping_add_signed(i64::from(offset.cast_signed())))
    }

    /// The start of the function that holds `address`. `None`: no function in the list holds it, or its entry has a
    /// form that is not read here.
    fn start_of(&self, memory: Bytes<'_>, address: u64) -> Option<u64> {
        let (mut first, mut behind) = (0, self.count);
        while first < behind {
            let middle = first + (behind - first) / 2;
            if self.address_at(memory, 8 * middle)? <= address {
                first = middle + 1;
            } else {
                behind = middle;
            }
        }
        let number = first.checked_sub(1)?;
        let start = self.address_at(memory, 8 * number)?;
        // Behind the entry's length and the way to its CIE: the start, relative to this place, and the size.
        let entry = self.address_at(memory, 8 * number + 4)?.checked_add(8)?;
        let (begins, size) = (memory.half(entry)?, memory.half(entry.checked_add(4)?)?);
        let is_as_expected = entry.wrapping_add_signed(i64::from(begins.cast_signed())) == start;
        (is_as_expected && address - start < u64::from(size)).then_some(start)
    }
}

#[derive(Debug)]
struct Object<'m> {
    contents: Bytes<'m>,
    functions: Option<Functions>,
}

/// Bytes that are read at once: a program may switch sampling on from a thread with a small stack.
const PIECE: usize = 8 << 10;

impl Object<'_> {
    /// Calls `each` for the addresses from `start` to `end` of instructions that may change an action.
    fn find_calls(
        &self,
        start: u64,
        end: u64,
        mut each: impl FnMut(u64) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let mut buffer = [0u8; PIECE];
        let mut at = start;
        while at < end {
            let length = usize::try_from(end - at).unwrap_or(PIECE).min(PIECE);
            let Some(bytes) = buffer.get_mut(..length) else { return each(at) };
            if !self.contents.copy(at, bytes) {
                // Unreadable even for the kernel: what is there cannot be told.
                return each(at);
            }
            for offset in find(bytes) {
                let place = at + offset as u64;
                if self.may_set_action_at(place) {
                    each(place)?;
                }
            }
            if length < PIECE {
                break;
            }
            at += (PIECE - (INSTRUCTION.len() - 1)) as u64;
        }
        ControlFlow::Continue(())
    }
}

/// The instruction.
#[cfg(target_arch = "x86_64")]
const INSTRUCTION: [u8; 2] = [0x0f, 0x05];

/// Where the bytes of the instruction are.
#[cfg(target_arch = "x86_64")]
fn find(bytes: &[u8]) -> impl Iterator<Item = usize> {
    /// The compiler looks at so many at once.
    const BLOCK: usize = 64;
    let block_at = move |at: usize| bytes.get(at..).and_then(|rest| rest.first_chunk::<BLOCK>());
    let is_instruction = |(first, second): (&u8, &u8)| u8::from(*first == 0x0f) & u8::from(*second == 0x05);
    let may_hold = move |at: &usize| match (block_at(*at), block_at(at + 1)) {
        (Some(block), Some(behind)) => {
            block.iter().zip(behind).fold(0, |any, pair| any | is_instruction(pair)) != 0
        }
        // The last bytes.
        _ => true,
    };
    let blocks = (0..bytes.len()).step_by(BLOCK).filter(may_hold);
    blocks.flat_map(move |at| {
        let within = bytes.get(at..).unwrap_or(&[]).windows(2).take(BLOCK).zip(at..);
        within.filter(|(pair, _)| **pair == INSTRUCTION).map(|(_, at)| at)
    })
}

#[cfg(target_arch = "x86_64")]
impl Object<'_> {
    /// Whether the bytes at `address` are an instruction that may change an action.
    fn may_set_action_at(&self, address: u64) -> bool {
        let start = self.functions.and_then(|functions| functions.start_of(self.contents, address));
        match start.filter(|start| address - start < LONGEST_FUNCTION) {
            Some(start) if address - start >= CONTEXT as u64 && !may_begin_at(self.contents, address) => {
                false
            }
            Some(start) => match walk(self.contents, start, address) {
                Walk::WithinAnother => false,
                Walk::Call { number, others } => {
                    others.contains(SETS_ACTION) || number.is_none_or(|number| number == SETS_ACTION)
                }
                Walk::Lost => true,
            },
            None => self.has_number_before(address),
        }
    }

    /// Whether bytes without a function look like a call that may change an action. Tables of constants lie among such
    /// code. A call has its number put into eax shortly before.
    fn has_number_before(&self, address: u64) -> bool {
        const LOOKED_AT: usize = 48;
        let mut before = [0u8; LOOKED_AT];
        if !self.contents.copy(address.wrapping_sub(LOOKED_AT as u64), &mut before) {
            return true;
        }
        (0..LOOKED_AT).any(|at| match *before.get(at..).unwrap_or(&[]) {
            // mov eax, constant
            [0xb8, a, b, c, d, ..] => u32::from_le_bytes([a, b, c, d]) == SETS_ACTION,
            // mov rax, constant; push constant
            [0xc7, 0xc0, a, b, 0, ..] => u32::from_le_bytes([a, b, 0, 0]) == SETS_ACTION,
            [0x6a, number, 0x58, ..] => u32::from(number) == SETS_ACTION,
            // mov rax or eax, another register; mov from the stack
            [0x48 | 0x4c, 0x89, modrm, ..] => modrm & 0xc7 == 0xc0,
            [0x48, 0x8b, modrm, ..] => matches!(modrm, 0xc0..=0xc7 | 0x44 | 0x45),
            [0x89, modrm, ..] => modrm & 0xc7 == 0xc0,
            [0x8b, modrm, 0x24, ..] => modrm == 0x44,
            _ => false,
        })
    }
}

/// Longer functions are not walked through.
#[cfg(target_arch = "x86_64")]
const LONGEST_FUNCTION: u64 = 1 << 20;

/// The instruction, `svc #0`.
#[cfg(target_arch = "aarch64")]
const INSTRUCTION: [u8; 4] = [0x01, 0x00, 0x00, 0xd4];

/// Where it is: instructions are words.
#[cfg(target_arch = "aarch64")]
fn find(bytes: &[u8]) -> impl Iterator<Item = usize> {
    let words = bytes.windows(4).enumerate();
    words.filter(|(_, word)| **word == INSTRUCTION).map(|(offset, _)| offset)
}

#[cfg(target_arch = "aarch64")]
impl Object<'_> {
    /// Whether the instruction at `address` may change an action: the last one that puts a constant into w8 or x8 says
    /// its number.
    fn may_set_action_at(&self, address: u64) -> bool {
        const LOOKED_AT: u64 = 12;
        let number = (1..=LOOKED_AT).find_map(|back| {
            let word = self.contents.half(address.checked_sub(4 * back)?)?;
            (word & 0x7fe0_001f == 0x5280_0008).then_some(word >> 5 & 0xffff)
        });
        address % 4 == 0 && number.is_none_or(|number| number == SETS_ACTION)
    }
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;
    use crate::code::system_calls::OwnMemory;
    use pct_elf::BytesAt;

    fn own() -> Bytes<'static> {
        Bytes(&|at, into| OwnMemory.copy(at, into))
    }

    /// The object of this process whose path contains `name`.
    fn loaded(name: &str) -> Option<Image> {
        let maps = std::fs::read_to_string("/proc/self/maps").expect("readable");
        let line = maps.lines().find(|line| line.contains(name))?;
        let base = line.split('-').next().and_then(|start| u64::from_str_radix(start, 16).ok())?;
        Image::at_base(&OwnMemory, base)
    }

    #[test]
    fn a_walk_from_each_function_meets_the_next() {
        let Some(image) = loaded("/libc.so.6") else { return pct_kit::skip("no glibc here") };
        let functions = Functions::read_list(own(), own(), &image).expect("a list");
        let start = |number: u64| functions.address_at(own(), 8 * number).expect("readable");
        let near = (1..functions.count).map(|number| (start(number - 1), start(number)));
        let walked: Vec<_> = near.filter(|(from, to)| to - from < 2048).collect();
        assert!(walked.len() > 1000, "{}", walked.len());
        let met = |(from, to): &&(u64, u64)| matches!(walk(own(), *from, *to), Walk::Call { .. });
        let missed = walked.len() - walked.iter().filter(met).count();
        // Some have tables between them.
        assert!(missed * 200 < walked.len(), "{missed} of {}", walked.len());
    }

    #[test]
    fn the_c_library_sets_actions_and_its_mathematics_do_not() {
        let Some(image) = loaded("/libc.so.6") else { return pct_kit::skip("no glibc here") };
        let mut places = Vec::new();
        each_call_in(own(), &image, |place| places.push(place));
        assert!(!places.is_empty());
        let libm = std::fs::read("/lib/x86_64-linux-gnu/libm.so.6");
        let Ok(libm) = libm else { return pct_kit::skip("no libm here") };
        // (Its segments of code are in the file where they are in memory.)
        let file = BytesAt { at: 0, bytes: &libm };
        let image = Image::of_file(&file).expect("an object");
        each_call_in(Bytes(&|at, into| file.copy(at, into)), &image, |place| panic!("{place:#x}"));
    }

    #[test]
    fn the_instruction_is_found_wherever_it_lies() {
        for length in [2, 63, 64, 65, 66, 128, 200] {
            for at in 0..=length - 2 {
                let mut bytes = vec![0x90u8; length];
                bytes[at..at + 2].copy_from_slice(&INSTRUCTION);
                assert_eq!(find(&bytes).collect::<Vec<_>>(), [at], "{length}");
            }
        }
        assert_eq!(find(b"\x0f\x0f\x05\x05").collect::<Vec<_>>(), [1]);
        assert_eq!(find(b"\x0f").count() + find(b"").count(), 0);
    }

    #[test]
    fn without_a_list_of_functions_the_bytes_before_decide() {
        let nothing = [0x90u8; 60];
        for (before, found) in [
            (&b"\xb8\x0d\x00\x00\x00"[..], true),
            (b"\x48\xc7\xc0\x0d\x00\x00\x00", true),
            (b"\x48\x89\xf8\x48\x89\xf7", true),
            (b"\x44\x89\xe0", true),
            (b"\xb8\x27\x00\x00\x00", false),
            (b"\x12\x34\x56\x78", false),
        ] {
            let code = [&nothing, before, b"\x0f\x05"].concat();
            let memory = BytesAt { at: 0x1000, bytes: &code };
            let object = Object { contents: Bytes(&|at, into| memory.copy(at, into)), functions: None };
            assert_eq!(object.may_set_action_at(0x1000 + code.len() as u64 - 2), found, "{before:02x?}");
        }
    }
}
