//! x86-64 instructions: how long they are ([`decode`]), and which general registers they may write
//! ([`Opcode::written`]).
//!
//! By the opcode maps of Intel's manual (volume 2, appendix A) and AMD's (volume 3, appendix A; XOP). The forms of APX
//! (REX2, map 4) are not known, and end a walk.
//!
//! Signal safety: no calls, no memory but the bytes given.

mod opcode;
mod written;

pub use opcode::{MemoryOperand, Opcode, Origin, Register};
pub use written::{ALL, RAX, RCX, RDX, bit};

/// An instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instruction {
    /// Its bytes.
    pub length: usize,
    /// The bytes before its opcode: legacy prefixes and REX.
    pub prefixes: usize,
    /// Its REX prefix, 0 = none.
    pub rex: u8,
}

/// What follows an opcode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tail {
    /// So many bytes.
    Bytes(usize),
    /// A word of the operand's size, at most four bytes.
    Word,
    /// A ModRM byte with its address, then so many bytes.
    Address(usize),
    /// A ModRM byte with its address, then a word.
    AddressAndWord,
}

/// The instruction at the beginning of `code`. `None`: `code` ends before the instruction does, or no instruction has
/// this form.
pub fn decode(code: &[u8]) -> Option<Instruction> {
    /// The processor takes no longer ones.
    const LONGEST: usize = 15;
    let mut at = 0;
    let (mut word, mut short_address) = (4, false);
    let opcode = loop {
        let byte = *code.get(at)?;
        match byte {
            0x66 => word = 2,
            0x67 => short_address = true,
            0x26 | 0x2e | 0x36 | 0x3e | 0x64 | 0x65 | 0xf0 | 0xf2 | 0xf3 => {}
            _ => break byte,
        }
        at += 1;
        if at >= LONGEST {
            return None;
        }
    };
    let rex = if opcode & 0xf0 == 0x40 { opcode } else { 0 };
    if rex != 0 {
        at += 1;
    }
    let prefixes = at;
    let opcode = *code.get(at)?;
    let (tail, behind) = match opcode {
        0x0f => two_bytes(code.get(at + 1..)?)?,
        0xc5 => (vector(1, *code.get(at + 2)?)?, 3),
        0xc4 => (vector(code.get(at + 1)? & 0x1f, *code.get(at + 3)?)?, 4),
        0x62 => (vector(code.get(at + 1)? & 7, *code.get(at + 4)?)?, 5),
        // XOP shares its byte with `pop`, whose ModRM has no such map.
        0x8f if code.get(at + 1)? & 0x1f >= 8 => (vector(code.get(at + 1)? & 0x1f, *code.get(at + 3)?)?, 4),
        0xf6 | 0xf7 => {
            let is_test = code.get(at + 1)? & 0x38 < 0x10;
            (
                if !is_test {
                    Tail::Address(0)
                } else if opcode == 0xf6 {
                    Tail::Address(1)
                } else {
                    Tail::AddressAndWord
                },
                1,
            )
        }
        0xa0..=0xa3 => (Tail::Bytes(if short_address { 4 } else { 8 }), 1),
        0xb8..=0xbf if rex & 8 != 0 => (Tail::Bytes(8), 1),
        _ => (one_byte(opcode)?, 1),
    };
    at += behind;
    let word = if rex & 8 != 0 { 4 } else { word };
    at += match tail {
        Tail::Bytes(bytes) => bytes,
        Tail::Word => word,
        Tail::Address(bytes) => address(code.get(at..)?)? + bytes,
        Tail::AddressAndWord => address(code.get(at..)?)? + word,
    };
    (at <= LONGEST.min(code.len())).then_some(Instruction { length: at, prefixes, rex })
}

/// The map of single bytes, but for those that [`decode`] knows.
const fn one_byte(opcode: u8) -> Option<Tail> {
    Some(match opcode {
        0x00..=0x3f => match opcode & 7 {
            0..=3 => Tail::Address(0),
            4 => Tail::Bytes(1),
            5 => Tail::Word,
            _ => return None,
        },
        0x68 | 0xa9 | 0xb8..=0xbf => Tail::Word,
        // In 64-bit mode these have four bytes, whatever the prefix.
        0xe8 | 0xe9 => Tail::Bytes(4),
        0x69 | 0x81 | 0xc7 => Tail::AddressAndWord,
        0x6b | 0x80 | 0x83 | 0xc0 | 0xc1 | 0xc6 => Tail::Address(1),
        0x63 | 0x84..=0x8f | 0xd0..=0xd3 | 0xd8..=0xdf | 0xfe | 0xff => Tail::Address(0),
        0x6a | 0x70..=0x7f | 0xa8 | 0xb0..=0xb7 | 0xcd | 0xe0..=0xe7 | 0xeb => Tail::Bytes(1),
        0xc2 | 0xca => Tail::Bytes(2),
        0xc8 => Tail::Bytes(3),
        0x60..=0x62 | 0x82 | 0x9a | 0xce | 0xd4..=0xd6 | 0xea => return None,
        _ => Tail::Bytes(0),
    })
}

/// The maps behind 0f: what follows the opcode, and the bytes up to there.
fn two_bytes(code: &[u8]) -> Option<(Tail, usize)> {
    let opcode = *code.first()?;
    Some(match opcode {
        0x38 => (Tail::Address(0), 3),
        0x3a => (Tail::Address(1), 3),
        0x04 | 0x0a | 0x0c | 0x24..=0x27 | 0x39 | 0x3b..=0x3f | 0xa6 | 0xa7 => return None,
        0x05..=0x0e if opcode != 0x0d => (Tail::Bytes(0), 2),
        0x30..=0x37 | 0x77 | 0xa0..=0xa2 | 0xa8..=0xaa | 0xc8..=0xcf => (Tail::Bytes(0), 2),
        0x80..=0x8f => (Tail::Bytes(4), 2),
        0x0f | 0xa4 | 0xac | 0xba => (Tail::Address(1), 2),
        _ => (Tail::Address(if has_byte_behind(opcode) { 1 } else { 0 }), 2),
    })
}

/// Whether an operation on vectors of the map 0f has a byte behind its address.
const fn has_byte_behind(opcode: u8) -> bool {
    matches!(opcode, 0x70..=0x73 | 0xc2 | 0xc4..=0xc6)
}

/// What follows an opcode behind a VEX, EVEX or XOP prefix that names this map.
const fn vector(map: u8, opcode: u8) -> Option<Tail> {
    Some(match map {
        // vzeroupper
        1 if opcode == 0x77 => Tail::Bytes(0),
        1 if has_byte_behind(opcode) => Tail::Address(1),
        1 | 2 | 5 | 6 | 9 => Tail::Address(0),
        3 | 8 => Tail::Address(1),
        10 => Tail::Address(4),
        _ => return None,
    })
}

/// Bytes of a ModRM byte with the address that it asks for.
fn address(code: &[u8]) -> Option<usize> {
    let modrm = *code.first()?;
    let (form, base) = (modrm >> 6, modrm & 7);
    if form == 3 {
        return Some(1);
    }
    let has_index = base == 4;
    let base = if has_index { code.get(1)? & 7 } else { base };
    let displacement = match form {
        0 if base == 5 => 4,
        0 => 0,
        1 => 1,
        _ => 4,
    };
    Some(1 + usize::from(has_index) + displacement)
}

/// Whether these bytes end with a call.
#[must_use]
pub fn is_behind_call(before: &[u8; 8]) -> bool {
    let [_, _, _, direct, ..] = before;
    *direct == 0xe8
        || [2, 3, 4, 6, 7].iter().any(|length| {
            let call = before.get(before.len() - length..).unwrap_or(&[]);
            call.first() == Some(&0xff)
                && call.get(1).is_some_and(|modrm| modrm & 0x38 == 0x10)
                && decode(call).is_some_and(|instruction| instruction.length == *length)
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn length(code: &[u8]) -> Option<usize> {
        let mut padded = code.to_vec();
        padded.extend([0x90; 16]);
        decode(&padded).map(|found| found.length)
    }

    #[test]
    fn instructions_of_each_form_have_their_lengths() {
        for whole in [
            &b"\xc3"[..],                                // ret
            b"\x0f\x05",                                 // syscall
            b"\xb8\x0d\x00\x00\x00",                     // mov eax, 13
            b"\x66\xb8\x0d\x00",                         // mov ax, 13
            b"\x48\xb8\x01\x02\x03\x04\x05\x06\x07\x08", // movabs rax
            b"\x48\xc7\xc0\x0d\x00\x00\x00",             // mov rax, 13
            b"\x48\x8d\x35\x1d\x0f\x05\x00",             // lea rsi, [rip + ..]
            b"\x0f\x84\x0f\x05\x00\x00",                 // je
            b"\xe8\xf8\x0f\x05\x00",                     // call
            b"\x8b\x44\x24\x08",                         // mov eax, [rsp + 8]
            b"\x8b\x04\x25\x0f\x05\x00\x00",             // mov eax, [.. without base]
            b"\x42\x8b\x44\xa5\x00",                     // mov eax, [rbp + r12 * 4 + 0]
            b"\xf6\xc1\x01",                             // test cl, 1
            b"\xf7\xd9",                                 // neg ecx
            b"\xf7\xc1\x0f\x05\x00\x00",                 // test ecx, ..
            b"\xf3\x0f\x1e\xfa",                         // endbr64
            b"\x66\x0f\x1f\x84\x00\x00\x00\x00\x00",     // nop
            b"\x66\x2e\x0f\x1f\x84\x00\x00\x00\x00\x00", // nop
            b"\x66\x0f\x3a\x0f\xc1\x08",                 // palignr
            b"\xc5\xf8\x77",                             // vzeroupper
            b"\xc5\xf9\x70\xc0\x4e",                     // vpshufd
            b"\xc4\xe2\x7d\x18\x05\x0f\x05\x00\x00",     // vbroadcastss
            b"\xc4\xe3\x7d\x39\xc1\x01",                 // vextracti128
            b"\x62\xf1\x7c\x48\x10\x00",                 // vmovups zmm
            b"\x62\xf3\xfd\x48\x3b\xc1\x01",             // vextracti64x4
            b"\x8f\xe8\x78\xc0\xc1\x05",                 // vprotb, of XOP
            b"\x8f\x00",                                 // pop [rax]
            b"\xc8\x10\x00\x00",                         // enter
            b"\xa1\x01\x02\x03\x04\x05\x06\x07\x08",     // mov eax, [absolute]
            b"\x6a\x0d",                                 // push 13
        ] {
            assert_eq!(length(whole), Some(whole.len()), "{whole:02x?}");
        }
        for none in [&b"\x06"[..], b"\xd5\x00\xc3", b"\x0f\x04", b"\x62\xf4\x7c\x48\x10\x00"] {
            assert_eq!(length(none), None, "{none:02x?}");
        }
        assert_eq!(decode(b"\xb8\x0d\x00"), None, "cut");
        assert_eq!(decode(&[0x66; 20]), None, "nothing but prefixes");
        assert_eq!(decode(b""), None);
    }

    #[test]
    fn calls_are_seen_from_behind() {
        for call in [
            &b"\xe8\x01\x02\x03\x04"[..],    // call function
            b"\xff\xd0",                     // call *%rax
            b"\x41\xff\xd4",                 // call *%r12
            b"\xff\x10",                     // call *(%rax)
            b"\xff\x50\x08",                 // call *8(%rax)
            b"\xff\x14\xc8",                 // call *(%rax,%rcx,8)
            b"\xff\x54\x24\x18",             // call *0x18(%rsp)
            b"\xff\x15\x01\x02\x03\x04",     // call *name(%rip)
            b"\xff\x90\x80\x05\x00\x00",     // call *0x580(%rax)
            b"\xff\x94\xc8\x01\x02\x03\x04", // call *0x4030201(%rax,%rcx,8)
        ] {
            let bytes: Vec<u8> = [&[0x90; 8], call].concat();
            assert!(is_behind_call(bytes.last_chunk().expect("eight")), "{call:02x?}");
        }
        // A jump, a push, the beginning of a longer call, nothing.
        for other in [&b"\xff\xe0"[..], b"\xff\x70\x08", b"\xff\x15\x01\x02\x03", b"\x90"] {
            let bytes: Vec<u8> = [&[0x90; 8], other].concat();
            assert!(!is_behind_call(bytes.last_chunk().expect("eight")), "{other:02x?}");
        }
    }

    #[test]
    fn any_bytes_have_a_length_or_none() {
        let mut state = 1u64;
        for _ in 0..200_000 {
            let bytes: [u8; 16] = core::array::from_fn(|_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (state >> 56) as u8
            });
            for end in [16, 3] {
                let code = &bytes[..end];
                assert!(
                    decode(code).is_none_or(|found| found.length <= end && found.length > found.prefixes)
                );
            }
        }
    }
}
