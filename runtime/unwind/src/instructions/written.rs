//! Which general registers an instruction may write.
//!
//! Never too few: what is not in the tables writes all. Too many only where telling would need a second look at the
//! prefixes.

use super::opcode::{Opcode, Register};

/// rax.
pub const RAX: u16 = 1;
/// rcx.
pub const RCX: u16 = 1 << 1;
/// rdx.
pub const RDX: u16 = 1 << 2;
const RBX: u16 = 1 << 3;
const RBP: u16 = 1 << 5;
const RSI: u16 = 1 << 6;
const RDI: u16 = 1 << 7;
const R11: u16 = 1 << 11;
/// All.
pub const ALL: u16 = u16::MAX;

/// The bit of a register.
#[must_use]
pub const fn bit(register: Register) -> u16 {
    1 << (register & 15)
}

impl Opcode<'_> {
    /// The general registers that it may write, a bit for each. What pushing, popping, calling and returning do to rsp
    /// is not among them, nor what a called function does.
    #[must_use]
    pub fn written(&self) -> u16 {
        match self.byte(0) {
            0x0f => self.written_by_two_bytes(),
            0xc5 => self.written_by_vector(1, 2, self.byte(1)),
            0xc4 => self.written_by_vector(self.byte(1) & 0x1f, 3, self.byte(2)),
            0x62 => self.written_by_vector(self.byte(1) & 7, 4, self.byte(2)),
            0x8f if self.byte(1) & 0x1f >= 8 => self.written_by_vector(self.byte(1) & 0x1f, 3, self.byte(2)),
            _ => self.written_by_one_byte(),
        }
    }

    fn target_bit(&self, at: usize) -> u16 {
        self.target(at).map_or(0, bit)
    }

    /// As a register of one byte: without REX, 4 to 7 are the second bytes of the first four.
    fn byte_bit(&self, register: Register) -> u16 {
        bit(if self.rex == 0 && register >= 4 { register - 4 } else { register })
    }

    fn byte_target_bit(&self, at: usize) -> u16 {
        self.target(at).map_or(0, |register| self.byte_bit(register))
    }

    fn written_by_one_byte(&self) -> u16 {
        let opcode = self.byte(0);
        match opcode {
            // Compare, test; push; jump, call, return; x87; flags; what does nothing.
            0x38..=0x3d
            | 0x50..=0x57
            | 0x68
            | 0x6a
            | 0x70..=0x7f
            | 0x84
            | 0x85
            | 0x9b..=0x9e
            | 0xa2
            | 0xa3
            | 0xa8
            | 0xa9
            | 0xc2
            | 0xc3
            | 0xcc
            | 0xd8..=0xde
            | 0xe3
            | 0xe6..=0xe9
            | 0xeb
            | 0xee
            | 0xef
            | 0xf4
            | 0xf5
            | 0xf8..=0xfd => 0,
            0x00..=0x37 => match opcode & 7 {
                0 => self.byte_target_bit(1),
                1 => self.target_bit(1),
                2 => self.byte_bit(self.other(1)),
                3 => bit(self.other(1)),
                4 | 5 => RAX,
                _ => ALL,
            },
            0x58..=0x5f => bit(self.own_register()),
            0x63 | 0x69 | 0x6b | 0x8b | 0x8d => bit(self.other(1)),
            0x8a => self.byte_bit(self.other(1)),
            0x80 | 0x81 | 0x83 if self.extension(1) == 7 => 0,
            0x80 | 0x88 | 0xc0 | 0xc6 | 0xd0 | 0xd2 | 0xfe => self.byte_target_bit(1),
            0x81 | 0x83 | 0x89 | 0x8c | 0x8f | 0xc1 | 0xc7 | 0xd1 | 0xd3 => self.target_bit(1),
            0x86 => self.byte_target_bit(1) | self.byte_bit(self.other(1)),
            0x87 => self.target_bit(1) | bit(self.other(1)),
            0x90 if self.rex & 1 == 0 => 0,
            0x90..=0x97 => RAX | bit(self.own_register()),
            0x98 | 0x9f | 0xa0 | 0xa1 | 0xd7 | 0xdf | 0xe4 | 0xe5 | 0xec | 0xed => RAX,
            0x99 => RDX,
            // Strings.
            0x6c..=0x6f | 0xa4..=0xa7 | 0xaa..=0xaf => RAX | RCX | RSI | RDI,
            0xb0..=0xb7 => self.byte_bit(self.own_register()),
            0xb8..=0xbf => bit(self.own_register()),
            0xc9 => RBP,
            0xe0..=0xe2 => RCX,
            0xf6 | 0xf7 => match self.extension(1) {
                0 | 1 => 0,
                2 | 3 if opcode == 0xf6 => self.byte_target_bit(1),
                2 | 3 => self.target_bit(1),
                _ => RAX | RDX,
            },
            0xff => match self.extension(1) {
                0 | 1 => self.target_bit(1),
                2..=6 => 0,
                _ => ALL,
            },
            _ => ALL,
        }
    }

    /// Of the maps behind 0f.
    fn written_by_two_bytes(&self) -> u16 {
        match self.byte(1) {
            // Vectors; jumps; fences; bt; what does nothing.
            0x0b
            | 0x0d
            | 0x0e
            | 0x10..=0x1f
            | 0x28..=0x2b
            | 0x2e
            | 0x2f
            | 0x51..=0x77
            | 0x7c
            | 0x7d
            | 0x7f..=0x8f
            | 0xa0
            | 0xa1
            | 0xa3
            | 0xa8
            | 0xa9
            | 0xc2..=0xc4
            | 0xc6
            | 0xd0..=0xd6
            | 0xd8..=0xfe => 0,
            0x01 => RAX | RCX | RDX | self.target_bit(2),
            0x02 | 0x03 | 0x2c | 0x2d | 0x40..=0x50 | 0xaf | 0xb6..=0xb8 | 0xbc..=0xbf | 0xc5 | 0xd7 => {
                bit(self.other(2))
            }
            0x05 => RAX | RCX | R11,
            0x31..=0x33 => RAX | RDX,
            0x38 => match self.byte(2) {
                0x00..=0xef => 0,
                _ => bit(self.other(3)),
            },
            0x3a => match self.byte(2) {
                0x14..=0x17 => self.target_bit(3),
                // pcmpestri, pcmpistri
                0x61 | 0x63 => RCX,
                _ => 0,
            },
            0x7e | 0xa4 | 0xa5 | 0xab | 0xac | 0xad | 0xae | 0xb3 | 0xba | 0xbb => self.target_bit(2),
            0x90..=0x9f => self.byte_target_bit(2),
            0xa2 => RAX | RBX | RCX | RDX,
            0xb0 => RAX | self.byte_target_bit(2),
            0xb1 => RAX | self.target_bit(2),
            0xc0 => self.byte_target_bit(2) | self.byte_bit(self.other(2)),
            0xc1 => self.target_bit(2) | bit(self.other(2)),
            0xc7 => RAX | RDX | self.target_bit(2),
            0xc8..=0xcf => bit(self.byte(1) & 7 | (self.rex & 1) << 3),
            _ => ALL,
        }
    }

    /// Behind a VEX, EVEX or XOP prefix that names this map. `at`: of the opcode; `payload`: the prefix's byte with the
    /// third operand and the kind of the vectors.
    fn written_by_vector(&self, map: u8, at: usize, payload: u8) -> u16 {
        // Stored inverted: bit 7 of the first byte extends the other register, bit 5 the target (not in the short
        // form).
        let extensions = !self.byte(1);
        let other = bit(self.extension(at + 1) | (extensions >> 7) << 3);
        let modrm = self.byte(at + 1);
        let high = if at == 2 { 0 } else { extensions >> 5 & 1 };
        let target = if modrm >= 0xc0 { bit(modrm & 7 | high << 3) } else { 0 };
        let third = bit(!payload >> 3 & 15);
        let is_between_vectors = payload & 3 == 2;
        match (map, self.byte(at)) {
            (1 | 5, 0x7e) if is_between_vectors => 0,
            (1 | 5, 0x7e) | (3, 0x14..=0x17) => target,
            // Conversions, masks; pextrw.
            (1 | 5, 0x2c | 0x2d | 0x50 | 0x78 | 0x79 | 0x93 | 0xc5 | 0xd7) | (3, 0xf0) => other,
            (2, 0xe0..=0xef | 0xf2 | 0xf5 | 0xf7) => other,
            (2, 0xf3) => third,
            (2, 0xf6) => other | third,
            (3, 0x61 | 0x63) => RCX,
            (1..=3 | 5 | 6, _) => 0,
            (8..=10, _) => other | third | target,
            _ => ALL,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::decode;
    use super::*;

    #[test]
    fn registers_that_are_written_are_told() {
        let numbered = |numbers: &[u8]| numbers.iter().fold(0, |set, number| set | bit(*number));
        for (code, want) in [
            (&b"\x48\x01\xd8"[..], &[0][..]),       // add rax, rbx
            (b"\x48\x03\x18", &[3]),                // add rbx, [rax]
            (b"\x00\xdc", &[0]),                    // add ah, bl
            (b"\x40\x00\xdc", &[4]),                // add spl, bl
            (b"\x48\x39\xd8", &[]),                 // cmp
            (b"\x4c\x8b\x7c\x24\x08", &[15]),       // mov r15, [rsp + 8]
            (b"\x4c\x89\x7c\x24\x08", &[]),         // mov [rsp + 8], r15
            (b"\x41\xb4\x01", &[12]),               // mov r12b, 1
            (b"\xb4\x01", &[0]),                    // mov ah, 1
            (b"\x49\x87\xdc", &[3, 12]),            // xchg r12, rbx
            (b"\xf7\xf7", &[0, 2]),                 // div edi
            (b"\x48\x83\xf8\x01", &[]),             // cmp rax, 1
            (b"\x48\x83\xc4\x08", &[4]),            // add rsp, 8
            (b"\x0f\x94\xc3", &[3]),                // sete bl
            (b"\x0f\x94\xc7", &[3]),                // sete bh
            (b"\x0f\xb6\xdb", &[3]),                // movzx ebx, bl
            (b"\x66\x0f\xef\xdb", &[]),             // pxor xmm3, xmm3
            (b"\x0f\xa2", &[0, 1, 2, 3]),           // cpuid
            (b"\x66\x0f\xd7\xdb", &[3]),            // pmovmskb ebx, xmm3
            (b"\xc5\xfd\xd7\xdb", &[3]),            // vpmovmskb ebx, ymm3
            (b"\xc5\xfc\x10\x1c\x24", &[]),         // vmovups ymm3, [rsp]
            (b"\xc5\xf9\x7e\xc3", &[3]),            // vmovd ebx, xmm0
            (b"\xc5\xfa\x7e\xdc", &[]),             // vmovq xmm3, xmm4
            (b"\xc4\xe2\xe3\xf7\xc0", &[0]),        // shrx rax, rax, rbx
            (b"\xc4\xe2\xe0\xf3\xd8", &[3]),        // blsi rbx, rax
            (b"\xc4\xc1\xf9\x7e\xc4", &[12]),       // vmovq r12, xmm0
            (b"\x62\xf1\x7c\x48\x10\x1c\x24", &[]), // vmovups zmm3, [rsp]
            (b"\xf3\x48\xab", &[0, 1, 6, 7]),       // rep stosq: some too many
            (b"\xc9", &[5]),                        // leave
            (b"\xd9\xeb", &[]),                     // fldpi
        ] {
            let instruction = decode(code).expect("an instruction");
            assert_eq!(Opcode::new(code, instruction).written(), numbered(want), "{code:02x?}");
        }
    }
}
