//! The machine of classic BPF, as far as filters on system calls use it. It follows all ways that a filter may take.
//!
//! Signal safety: arithmetic.

/// One instruction, as the kernel has it (`struct sock_filter`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Instruction {
    pub(super) code: u16,
    pub(super) if_true: u8,
    pub(super) if_false: u8,
    pub(super) operand: u32,
}

/// Fields of `struct seccomp_data`, in words of 32 bits.
pub(super) const NUMBER_AT: u32 = 0;
pub(super) const MACHINE_AT: u32 = 4;
const DATA_BYTES: u32 = 64;
#[cfg(target_arch = "x86_64")]
pub(super) const MACHINE: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
pub(super) const MACHINE: u32 = 0xc000_00b7;

/// Calls `each` with what a filter returns for a call, on each way that it may take; false if not all is known. The
/// kernel refuses such a filter, or it has more ways than are followed. `arguments`: each word of the arguments and of
/// the place; `None`: not known.
pub(super) fn each_end(
    filter: &[Instruction],
    number: u32,
    arguments: Option<u32>,
    mut each: impl FnMut(u32),
) -> bool {
    let mut others = Others { machines: [Machine::START; MOST_OTHERS], count: 0 };
    let mut machine = Machine::START;
    for _ in 0..MOST_STEPS {
        match machine.step(filter, number, arguments) {
            Some(Step::Next) => continue,
            Some(Step::Either(at)) if others.add(Machine { at, ..machine }) => continue,
            Some(Step::Returns(said)) => each(said),
            _ => return false,
        }
        match others.next() {
            Some(other) => machine = other,
            None => return true,
        }
    }
    false
}

/// Instructions on all ways together. (The kernel takes filters of 4,096.)
const MOST_STEPS: usize = 20_000;
/// A filter that compares one argument after the other has one way more for each.
pub(super) const MOST_OTHERS: usize = 16;

/// Ways that are not followed yet.
struct Others {
    machines: [Machine; MOST_OTHERS],
    count: usize,
}

impl Others {
    /// False: there is no room for it.
    fn add(&mut self, machine: Machine) -> bool {
        let Some(place) = self.machines.get_mut(self.count) else { return false };
        *place = machine;
        self.count += 1;
        true
    }

    fn next(&mut self) -> Option<Machine> {
        self.count = self.count.checked_sub(1)?;
        self.machines.get(self.count).copied()
    }
}

/// The machine of classic BPF; what is `None` is not known.
#[derive(Clone, Copy)]
struct Machine {
    at: usize,
    a: Option<u32>,
    x: Option<u32>,
    memory: [Option<u32>; 16],
}

/// What an instruction does.
enum Step {
    /// The machine stands at the next one.
    Next,
    /// By what is not known it stands at the next one, or at this.
    Either(usize),
    Returns(u32),
}

impl Machine {
    const START: Machine = Machine { at: 0, a: Some(0), x: Some(0), memory: [Some(0); 16] };

    /// The next instruction; `None` where the kernel takes no such filter, or what happens is not known. (Jumps go
    /// forward only, so no way is endless.)
    fn step(&mut self, filter: &[Instruction], number: u32, arguments: Option<u32>) -> Option<Step> {
        let Instruction { code, if_true, if_false, operand: k } = *filter.get(self.at)?;
        self.at += 1;
        // BPF_SRC: the operand, or the register X.
        let source = if code & 0x08 == 0 { Some(k) } else { self.x };
        let both = self.a.zip(source);
        let jump = |is: Option<bool>| match is {
            Some(is) => (self.at + usize::from(if is { if_true } else { if_false }), None),
            None => (self.at + usize::from(if_true), Some(self.at + usize::from(if_false))),
        };
        match code {
            // BPF_LD | BPF_W | BPF_ABS
            0x20 => {
                self.a = match k {
                    NUMBER_AT => Some(number),
                    MACHINE_AT => Some(MACHINE),
                    k if k < DATA_BYTES && k.is_multiple_of(4) => arguments,
                    _ => return None,
                }
            }
            // BPF_LD, BPF_LDX with BPF_IMM, BPF_LEN, BPF_MEM
            0x00 => self.a = Some(k),
            0x01 => self.x = Some(k),
            0x80 => self.a = Some(DATA_BYTES),
            0x81 => self.x = Some(DATA_BYTES),
            0x60 => self.a = *self.memory.get(k as usize)?,
            0x61 => self.x = *self.memory.get(k as usize)?,
            // BPF_ST, BPF_STX
            0x02 => *self.memory.get_mut(k as usize)? = self.a,
            0x03 => *self.memory.get_mut(k as usize)? = self.x,
            // BPF_ALU
            0x04 | 0x0c => self.a = both.map(|(a, source)| a.wrapping_add(source)),
            0x14 | 0x1c => self.a = both.map(|(a, source)| a.wrapping_sub(source)),
            0x24 | 0x2c => self.a = both.map(|(a, source)| a.wrapping_mul(source)),
            // A division by zero ends the filter with 0: kill.
            0x34 | 0x3c => match source {
                Some(0) => return Some(Step::Returns(0)),
                Some(source) => self.a = self.a.map(|a| a / source),
                None => return None,
            },
            0x44 | 0x4c => self.a = both.map(|(a, source)| a | source),
            0x54 | 0x5c => self.a = both.map(|(a, source)| a & source),
            0x64 | 0x6c => self.a = both.map(|(a, source)| a.wrapping_shl(source)),
            0x74 | 0x7c => self.a = both.map(|(a, source)| a.wrapping_shr(source)),
            0x84 => self.a = self.a.map(u32::wrapping_neg),
            0xa4 | 0xac => self.a = both.map(|(a, source)| a ^ source),
            // BPF_JMP: always, if equal, greater, greater or equal, with a common bit
            0x05 => self.at += k as usize,
            0x15 | 0x1d | 0x25 | 0x2d | 0x35 | 0x3d | 0x45 | 0x4d => {
                let (at, other) = jump(both.map(|(a, source)| match code & 0xf0 {
                    0x10 => a == source,
                    0x20 => a > source,
                    0x30 => a >= source,
                    _ => a & source != 0,
                }));
                self.at = at;
                return Some(other.map_or(Step::Next, Step::Either));
            }
            // BPF_RET of the operand, of A
            0x06 => return Some(Step::Returns(k)),
            0x16 => return self.a.map(Step::Returns),
            // BPF_MISC: X = A, A = X
            0x07 => self.x = self.a,
            0x87 => self.a = self.x,
            _ => return None,
        }
        Some(Step::Next)
    }
}

/// Instructions for tests.
#[cfg(test)]
pub(super) mod testing {
    use super::Instruction;

    pub(crate) fn load(at: u32) -> Instruction {
        Instruction { code: 0x20, operand: at, ..Instruction::default() }
    }

    pub(crate) fn returns(what: u32) -> Instruction {
        Instruction { code: 0x06, operand: what, ..Instruction::default() }
    }

    pub(crate) fn jump(code: u16, operand: u32, if_true: u8, if_false: u8) -> Instruction {
        Instruction { code, if_true, if_false, operand }
    }
}

#[cfg(test)]
mod tests {
    use super::testing::{jump, load, returns};
    use super::*;

    /// What the filter returns for a call with arguments of zeros.
    fn run(filter: &[Instruction], number: u32) -> Option<u32> {
        let mut machine = Machine::START;
        loop {
            match machine.step(filter, number, Some(0)) {
                Some(Step::Next) => {}
                Some(Step::Returns(said)) => return Some(said),
                _ => return None,
            }
        }
    }

    #[test]
    fn arithmetic_is_that_of_the_machine() {
        // A = ((number + 5) & 0xff) << 1, by way of X and a word of memory; returned as an answer
        let filter = [
            load(NUMBER_AT),
            jump(0x04, 5, 0, 0),
            jump(0x54, 0xff, 0, 0),
            jump(0x02, 3, 0, 0),
            jump(0x61, 3, 0, 0),
            jump(0x87, 0, 0, 0),
            jump(0x64, 1, 0, 0),
            jump(0x16, 0, 0, 0),
        ];
        assert_eq!(run(&filter, 300), Some((305 & 0xff) << 1));
        assert_eq!(run(&[jump(0x01, 0, 0, 0), jump(0x3c, 0, 0, 0)], 1), Some(0));
    }

    #[test]
    fn bad_programs_end() {
        assert_eq!(run(&[], 1), None);
        assert_eq!(run(&[jump(0x05, u32::MAX, 0, 0), returns(0x7fff_0000)], 1), None);
        assert_eq!(run(&[load(2)], 1), None);
        assert_eq!(run(&[load(64)], 1), None);
        assert_eq!(run(&[jump(0x60, 16, 0, 0)], 1), None);
        assert_eq!(run(&[jump(0xffff, 0, 0, 0)], 1), None);
    }
}
