//! The parts of an instruction behind its prefixes.

use super::Instruction;

/// Number of a general register in the instruction set: rax 0, rcx 1, rdx 2, rbx 3, rsp 4, rbp 5, rsi 6, rdi 7, r8 to
/// r15.
pub type Register = u8;

/// An instruction from its opcode on.
#[derive(Clone, Copy, Debug)]
pub struct Opcode<'c> {
    code: &'c [u8],
    /// Its REX prefix, 0 = none.
    pub rex: u8,
}

impl<'c> Opcode<'c> {
    /// That of the instruction at the beginning of `code`.
    #[must_use]
    pub fn new(code: &'c [u8], instruction: Instruction) -> Opcode<'c> {
        let code = code.get(instruction.prefixes..instruction.length).unwrap_or(&[]);
        Opcode { code, rex: instruction.rex }
    }

    /// Its bytes.
    #[must_use]
    pub const fn bytes(&self) -> &'c [u8] {
        self.code
    }

    /// A byte of it; 0 behind its end.
    #[must_use]
    pub fn byte(&self, at: usize) -> u8 {
        self.code.get(at).copied().unwrap_or(0)
    }

    /// The constant at its end, of four bytes.
    #[must_use]
    pub fn constant(&self) -> Option<u32> {
        self.code.last_chunk().map(|bytes| u32::from_le_bytes(*bytes))
    }

    /// The register in the opcode's own bits.
    #[must_use]
    pub fn own_register(&self) -> Register {
        self.byte(0) & 7 | (self.rex & 1) << 3
    }

    /// Of the ModRM byte at `at`: the register that it addresses. `None`: memory.
    #[must_use]
    pub fn target(&self, at: usize) -> Option<Register> {
        let modrm = self.byte(at);
        (modrm >= 0xc0).then_some(modrm & 7 | (self.rex & 1) << 3)
    }

    /// Of the ModRM byte at `at`: the other register.
    #[must_use]
    pub fn other(&self, at: usize) -> Register {
        self.extension(at) | (self.rex & 4) << 1
    }

    /// The same three bits where they are a part of the opcode.
    #[must_use]
    pub fn extension(&self, at: usize) -> u8 {
        self.byte(at) >> 3 & 7
    }

    /// Of the ModRM byte at `at`: the memory that it addresses, as a register and the bytes from where it points.
    /// `None`: no memory, or another form (with an index, by rip, absolute).
    #[must_use]
    pub fn place(&self, at: usize) -> Option<(Register, i32)> {
        let modrm = self.byte(at);
        let (form, low) = (modrm >> 6, modrm & 7);
        if form == 3 || form == 0 && low == 5 {
            return None;
        }
        let (base, behind) = if low == 4 {
            let sib = self.byte(at + 1);
            let has_index = sib >> 3 & 7 != 4 || self.rex & 2 != 0;
            if has_index || form == 0 && sib & 7 == 5 {
                return None;
            }
            (sib & 7, at + 2)
        } else {
            (low, at + 1)
        };
        let displacement = match form {
            0 => 0,
            1 => i32::from(self.byte(behind).cast_signed()),
            _ => i32::from_le_bytes(*self.code.get(behind..)?.first_chunk()?),
        };
        Some((base | (self.rex & 1) << 3, displacement))
    }
}

#[cfg(test)]
mod tests {
    use super::super::decode;
    use super::*;

    #[test]
    fn the_memory_of_an_operand_is_a_register_and_a_distance() {
        for (code, want) in [
            (&b"\x8b\x44\x24\x08"[..], Some((4, 8))),             // [rsp + 8]
            (b"\x48\x8b\x04\x24", Some((4, 0))),                  // [rsp]
            (b"\x48\x8d\x65\xd8", Some((5, -0x28))),              // [rbp - 0x28]
            (b"\x49\x8b\x85\x00\x01\x00\x00", Some((13, 0x100))), // [r13 + 0x100]
            (b"\x49\x8d\x64\x24\xf8", Some((12, -8))),            // [r12 - 8]
            (b"\x48\x8b\x05\x10\x00\x00\x00", None),              // [rip + 0x10]
            (b"\x8b\x04\x25\x0f\x05\x00\x00", None),              // [0x50f]
            (b"\x42\x8b\x44\x25\x00", None),                      // [rbp + r12]
            (b"\x48\x89\xe5", None),                              // a register
        ] {
            let instruction = decode(code).expect("an instruction");
            assert_eq!(Opcode::new(code, instruction).place(1), want, "{code:02x?}");
        }
    }
}
