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

    /// Of the ModRM byte at `at`: the memory that it addresses, without a segment's base. `None`: no memory, or two
    /// registers are added.
    #[must_use]
    pub fn place(&self, at: usize) -> Option<MemoryOperand> {
        let modrm = self.byte(at);
        let (form, low) = (modrm >> 6, modrm & 7);
        let word = |behind: usize| Some(i32::from_le_bytes(*self.code.get(behind..)?.first_chunk()?));
        let (base, behind) = match (form, low) {
            (3, _) => return None,
            (0, 5) => return Some(MemoryOperand { origin: Origin::Next, bytes: word(at + 1)? }),
            (_, 4) => {
                let sib = self.byte(at + 1);
                let has_index = sib >> 3 & 7 != 4 || self.rex & 2 != 0;
                match (has_index, form, sib & 7) {
                    (true, ..) => return None,
                    (false, 0, 5) => {
                        return Some(MemoryOperand { origin: Origin::Zero, bytes: word(at + 2)? });
                    }
                    (false, _, base) => (base, at + 2),
                }
            }
            _ => (low, at + 1),
        };
        let bytes = match form {
            0 => 0,
            1 => i32::from(self.byte(behind).cast_signed()),
            _ => word(behind)?,
        };
        Some(MemoryOperand { origin: Origin::Register(base | (self.rex & 1) << 3), bytes })
    }
}

/// Where an operand in memory is: so many bytes from its origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryOperand {
    /// From where the bytes are counted.
    pub origin: Origin,
    /// Bytes from there.
    pub bytes: i32,
}

/// From where the memory of an operand is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// What this register holds.
    Register(Register),
    /// The address of the next instruction.
    Next,
    /// Address 0: the place is absolute.
    Zero,
}

#[cfg(test)]
mod tests {
    use super::super::decode;
    use super::*;

    #[test]
    fn the_memory_of_an_operand_is_an_origin_and_a_distance() {
        let register =
            |number: Register, bytes: i32| Some(MemoryOperand { origin: Origin::Register(number), bytes });
        for (code, want) in [
            (&b"\x8b\x44\x24\x08"[..], register(4, 8)),             // [rsp + 8]
            (b"\x48\x8b\x04\x24", register(4, 0)),                  // [rsp]
            (b"\x48\x8d\x65\xd8", register(5, -0x28)),              // [rbp - 0x28]
            (b"\x49\x8b\x85\x00\x01\x00\x00", register(13, 0x100)), // [r13 + 0x100]
            (b"\x49\x8d\x64\x24\xf8", register(12, -8)),            // [r12 - 8]
            (b"\x48\x8b\x05\x10\x00\x00\x00", Some(MemoryOperand { origin: Origin::Next, bytes: 0x10 })),
            (b"\x8b\x04\x25\x0f\x05\x00\x00", Some(MemoryOperand { origin: Origin::Zero, bytes: 0x50f })),
            (
                b"\x64\x48\x8b\x0c\x25\xf8\xff\xff\xff",
                Some(MemoryOperand { origin: Origin::Zero, bytes: -8 }),
            ), // fs:-8
            (b"\x42\x8b\x44\x25\x00", None), // [rbp + r12]
            (b"\x48\x89\xe5", None),         // a register
        ] {
            let instruction = decode(code).expect("an instruction");
            assert_eq!(Opcode::new(code, instruction).place(1), want, "{code:02x?}");
        }
    }
}
