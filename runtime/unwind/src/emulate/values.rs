//! From an instruction without unwind data to its return address, with the values that registers and memory have.
//!
//! Some code goes over to another stack and finds the way back in memory. Go's runtime runs C functions, and a part of
//! itself, on the stack that the kernel or the C library gave to the thread, and notes in a structure of the goroutine
//! where that one's stack goes on:
//!
//! ```text
//!  call *%rax                   the C function, on the thread's stack
//!  mov 0x30(%rsp), %rdi         <- it returns to here. The goroutine's structure
//!  mov 0x8(%rdi), %rsi          the end of the goroutine's stack
//!  sub 0x28(%rsp), %rsi         how deep it was
//!  mov %rdi, %fs:(%rcx)
//!  mov %rsi, %rsp
//!  ret                          to the Go function that called
//! ```
//!
//! Nothing of that has to be known here: the instructions up to the `ret` are carried out on copies of the values.
//! Conditional jumps are not taken. Whoever uses the result must see whether it is an address behind a call.

use super::code::Code;
use super::step::{ADD, AND, Before, Flow, LONGEST, Machine, NOT_KEPT, Operation, RBP, RSP, SUBTRACT, step};
use crate::instructions::Register;
use crate::stack::Memory;

/// Instructions that are followed. The way back from C to Go takes 8 in Go 1.19, that from Go to C 24.
const MOST: u32 = 64;
/// Words whose stores are remembered.
const STORES: usize = 12;
/// Lines of memory that are remembered.
const LINES: usize = 4;

/// What a walk keeps from one such return to the next.
#[derive(Clone, Copy, Debug, Default)]
pub struct Kept {
    /// Words that followed code has stored, by address; `None`: it is not known what. Each time that the code returns
    /// it puts things back for the stack that it returns to, and where the two stacks have called each other several
    /// times the next return needs these.
    stores: [(u64, Option<u64>); STORES],
    stored: usize,
    /// Lines of 64 bytes that were copied, by address: the structures are the same at each return.
    lines: [(u64, [u64; 8]); LINES],
    copied: usize,
}

impl Kept {
    /// What was stored at an address: `None` nothing, `Some(None)` something unknown.
    fn get(&self, address: u64) -> Option<Option<u64>> {
        let stores = self.stores.get(..self.stored)?;
        let (at, word) = stores.iter().find(|(at, _)| at.abs_diff(address) < 8)?;
        Some(word.filter(|_| *at == address))
    }

    /// Whether there was room for it.
    fn set(&mut self, address: u64, word: Option<u64>) -> bool {
        let mut is_there = false;
        let stores = self.stores.iter_mut().take(self.stored);
        for (at, stored) in stores.filter(|(at, _)| at.abs_diff(address) < 8) {
            is_there |= *at == address;
            *stored = word.filter(|_| *at == address);
        }
        if is_there {
            return true;
        }
        let Some(slot) = self.stores.get_mut(self.stored) else { return false };
        *slot = (address, word);
        self.stored += 1;
        true
    }

    /// The word of the memory at an address.
    fn memory_word<M: Memory>(&mut self, memory: &mut M, address: u64) -> Option<u64> {
        if let Some(word) = memory.peek(address) {
            return Some(word);
        }
        let (line, at) = (address & !63, address % 64);
        if at % 8 != 0 {
            return memory.far(address);
        }
        let place = usize::try_from(at / 8).ok()?;
        let known = self.lines.iter().take(self.copied).find(|(address, _)| *address == line);
        if let Some((_, words)) = known {
            return words.get(place).copied();
        }
        let words = memory.line(line)?;
        if let Some(slot) = self.lines.get_mut(self.copied % LINES) {
            *slot = (line, words);
        }
        self.copied += 1;
        words.get(place).copied()
    }
}

/// Where followed code returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReturnPlace {
    /// Address of the return address.
    pub sp: u64,
    /// The return address, if the followed code has stored it; else it is in memory.
    pub ra: Option<u64>,
    /// rbp, if known.
    pub bp: Option<u64>,
}

struct Values<'k, 'm, M> {
    code: Code<'m, M>,
    registers: [Option<u64>; 16],
    kept: &'k mut Kept,
    /// A word was stored for which there was no room.
    is_full: bool,
}

/// Follows the code from `start` to its return. `range`: where code without unwind data is, from its first address to
/// the one behind its last. `registers`: by their numbers in the instruction set. `left`: instructions that may be
/// followed, of which it takes its own. `kept`: from the return before in this walk; of no use where this one is not
/// found.
pub fn to_other_stack<M: Memory>(
    memory: &mut M,
    start: u64,
    range: (u64, u64),
    registers: [Option<u64>; 16],
    kept: &mut Kept,
    left: &mut u32,
) -> Option<ReturnPlace> {
    let mut values = Values { code: Code::new(memory, range), registers, kept, is_full: false };
    let mut before = Before::default();
    let mut at = start;
    for _ in 0..MOST {
        *left = left.checked_sub(1)?;
        // A copy: what the instruction reads and stores needs the rest.
        let mut bytes = [0; LONGEST];
        let code = values.code.from(at)?;
        let length = code.len().min(LONGEST);
        bytes.get_mut(..length)?.copy_from_slice(code.get(..length)?);
        let operation = Operation::new(bytes.get(..length)?, at)?;
        at = operation.next;
        match step(&mut values, &mut before, &operation) {
            Flow::Next | Flow::Branch(_) => {}
            Flow::Call(_) => values.forget(NOT_KEPT),
            Flow::Jump(target) if values.code.contains(target) => at = target,
            Flow::Return => {
                let sp = values.get(RSP)?;
                let ra = match values.kept.get(sp) {
                    Some(stored) => Some(stored?),
                    None => None,
                };
                return (!values.is_full).then_some(ReturnPlace { sp, ra, bp: values.get(RBP) });
            }
            Flow::Jump(_) | Flow::Table(_) | Flow::Tail | Flow::Dead | Flow::Lost => return None,
        }
    }
    None
}

impl<M: Memory> Machine for Values<'_, '_, M> {
    type Value = Option<u64>;
    const UNKNOWN: Option<u64> = None;

    fn get(&self, register: Register) -> Option<u64> {
        self.registers.get(usize::from(register)).copied().flatten()
    }

    fn set(&mut self, register: Register, value: Option<u64>) {
        if let Some(slot) = self.registers.get_mut(usize::from(register)) {
            *slot = value;
        }
    }

    fn load(&mut self, address: Option<u64>) -> Option<u64> {
        let address = address?;
        match self.kept.get(address) {
            Some(stored) => stored,
            None => self.kept.memory_word(self.code.memory, address),
        }
    }

    /// (Where that is unknown, it is not where the way back stands.)
    fn store(&mut self, address: Option<u64>, value: Option<u64>) {
        if let Some(address) = address {
            self.is_full |= !self.kept.set(address, value);
        }
    }

    fn plus(value: Option<u64>, bytes: i32) -> Option<u64> {
        Some(value?.wrapping_add_signed(i64::from(bytes)))
    }

    fn constant(value: u64) -> Option<u64> {
        Some(value)
    }

    fn calculated(number: u8, one: Option<u64>, other: Option<u64>) -> Option<u64> {
        let (one, other) = (one?, other?);
        match number {
            ADD => Some(one.wrapping_add(other)),
            AND => Some(one & other),
            SUBTRACT => Some(one.wrapping_sub(other)),
            _ => None,
        }
    }

    fn thread_base(&mut self) -> Option<u64> {
        self.code.memory.thread_base()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    const AT: u64 = 0x1000;
    /// Base of the segment that is the thread's own.
    const THREAD: u64 = 0x7000;
    const SP: u64 = 0x9000;
    const RA: u64 = 0x4321;

    struct Image<'c> {
        code: &'c [u8],
        words: HashMap<u64, u64>,
    }

    impl Memory for Image<'_> {
        fn peek(&self, address: u64) -> Option<u64> {
            self.words.get(&address).copied()
        }

        fn code_bytes(&mut self, addr: u64, into: &mut [u8]) -> bool {
            let from = (addr - AT) as usize;
            self.code.get(from..from + into.len()).map(|code| into.copy_from_slice(code)).is_some()
        }

        fn thread_base(&self) -> Option<u64> {
            Some(THREAD)
        }
    }

    /// From the start of `code`, with rsp and rbp: the return address, the address behind it, and rbp.
    fn followed(code: &[u8], words: &[(u64, u64)], kept: &mut Kept) -> Option<(u64, u64, Option<u64>)> {
        let mut image = Image { code, words: words.iter().copied().collect() };
        let mut registers = [None; 16];
        (registers[usize::from(RSP)], registers[usize::from(RBP)]) = (Some(SP), Some(77));
        let range = (AT, AT + code.len() as u64);
        let to = to_other_stack(&mut image, AT, range, registers, kept, &mut 1000)?;
        Some((to.ra.or_else(|| image.peek(to.sp))?, to.sp + 8, to.bp))
    }

    /// ```text
    ///  mov 0x30(%rsp), %rdi ; mov 0x8(%rdi), %rsi ; sub 0x28(%rsp), %rsi ; mov %rdi, %fs:-8 ; mov %rsi, %rsp
    ///  mov %eax, 0x18(%rsp) ; ret
    /// ```
    const BACK: &[u8] =
        b"\x48\x8b\x7c\x24\x30\x48\x8b\x77\x08\x48\x2b\x74\x24\x28\x64\x48\x89\x3c\x25\xf8\xff\xff\xff\
        \x48\x89\xf4\x89\x44\x24\x18\xc3";
    const STRUCTURE: u64 = 0x5000;
    const END_OF_STACK: u64 = 0x3000;
    const IN_MEMORY: &[(u64, u64)] = &[
        (SP + 0x30, STRUCTURE),
        (STRUCTURE + 8, END_OF_STACK),
        (SP + 0x28, 0x100),
        (END_OF_STACK - 0x100, RA),
    ];

    #[test]
    fn the_way_back_is_found_in_memory() {
        let mut kept = Kept::default();
        let found = followed(BACK, IN_MEMORY, &mut kept);
        assert_eq!(found, Some((RA, END_OF_STACK - 0x100 + 8, Some(77))));
        assert_eq!(kept.get(THREAD - 8), Some(Some(STRUCTURE)), "by the thread's own segment");
        for missing in 0..IN_MEMORY.len() {
            let mut words = IN_MEMORY.to_vec();
            words.remove(missing);
            assert_eq!(followed(BACK, &words, &mut Kept::default()), None, "{missing}");
        }
        for end in 0..BACK.len() {
            assert_eq!(followed(&BACK[..end], IN_MEMORY, &mut Kept::default()), None, "{end}");
        }
    }

    /// ```text
    ///  mov %fs:-8, %rax ; mov 0x38(%rax), %rsp ; pop %rcx ; mov %rcx, 0x38(%rax) ; test %rcx, %rcx ; jne + 5
    ///  call + 0 ; ret
    /// ```
    const RESTORE: &[u8] =
        b"\x64\x48\x8b\x04\x25\xf8\xff\xff\xff\x48\x8b\x60\x38\x59\x48\x89\x48\x38\x48\x85\xc9\x75\x05\
        \xe8\x00\x00\x00\x00\xc3";

    #[test]
    fn the_next_return_uses_what_the_last_one_put_back() {
        let words = [
            (THREAD - 8, STRUCTURE),
            (STRUCTURE + 0x38, 0x2000),
            (0x2000, 0x2800),
            (0x2008, RA),
            (0x2800, 0x2900),
            (0x2808, RA + 1),
        ];
        let mut kept = Kept::default();
        let mut next = || followed(RESTORE, &words, &mut kept).map(|(ra, cfa, _)| (ra, cfa));
        assert_eq!(next(), Some((RA, 0x2010)));
        assert_eq!(next(), Some((RA + 1, 0x2810)));
        assert_eq!(next(), None, "no word is at 0x2900");
        // A part of a word that was stored: it is not known what is there.
        let mut kept = Kept::default();
        assert!(kept.set(STRUCTURE + 0x3c, Some(1)));
        assert_eq!(followed(RESTORE, &words, &mut kept), None);
    }

    #[test]
    fn it_ends_where_nothing_can_be_said() {
        for code in [
            &b"\xeb\xfe"[..],                            // jmp to itself
            b"\x0f\x0b\xc3",                             // ud2
            b"\xe9\x00\x10\x00\x00",                     // jmp out of the code
            b"\x48\x8b\x20\xc3",                         // mov rsp, [rax]
            b"\x65\x48\x8b\x24\x25\x00\x90\x00\x00\xc3", // mov rsp, gs:[0x9000]
            b"\x67\x48\x8b\x24\x24\xc3",                 // mov rsp, [esp]
            b"\x48\x0f\xaf\xe0\xc3",                     // imul rsp, rax
            b"\x06\xc3",                                 // no instruction
        ] {
            let words = [(SP, RA), (0x9000, SP)];
            assert_eq!(followed(code, &words, &mut Kept::default()), None, "{code:02x?}");
        }
        // More words are stored than are remembered.
        let pushes = [[0x50; STORES + 1].as_slice(), b"\x48\x83\xc4\x68\xc3"].concat();
        assert_eq!(followed(&pushes, &[(SP, RA)], &mut Kept::default()), None);
        let pushes = [[0x50; STORES].as_slice(), b"\x48\x83\xc4\x60\xc3"].concat();
        let found = followed(&pushes, &[(SP, RA)], &mut Kept::default());
        assert_eq!(found.map(|(_, cfa, _)| cfa), Some(SP + 8));
        // More instructions than are followed.
        let long = [[0x90; MOST as usize].as_slice(), b"\xc3"].concat();
        assert_eq!(followed(&long, &[(SP, RA)], &mut Kept::default()), None);
        assert!(followed(&long[1..], &[(SP, RA)], &mut Kept::default()).is_some());
    }

    #[test]
    fn numbers_are_calculated() {
        // push 0x100; mov rcx, [rsp]; mov rax, rsp; and rax, -0x1000; add rax, rcx; sub rax, [rsp];
        // lea rsp, [rax + 8]; ret
        let code =
            b"\x68\x00\x01\x00\x00\x48\x8b\x0c\x24\x48\x89\xe0\x48\x81\xe0\x00\xf0\xff\xff\x48\x01\xc8\
            \x48\x2b\x04\x24\x48\x8d\x60\x08\xc3";
        let found = followed(code, &[(SP - 0x1000 + 8, RA)], &mut Kept::default());
        assert_eq!(found.map(|(_, cfa, _)| cfa), Some(SP - 0x1000 + 16));
        // lea rcx, [rip + 0x10]; mov rsp, [rcx]; ret
        let code = b"\x48\x8d\x0d\x10\x00\x00\x00\x48\x8b\x21\xc3";
        let words = [(AT + 7 + 0x10, 0x2000), (0x2000, RA)];
        assert_eq!(followed(code, &words, &mut Kept::default()).map(|(_, cfa, _)| cfa), Some(0x2008));
        // push 0x77; ret
        let found = followed(b"\x6a\x77\xc3", &[], &mut Kept::default());
        assert_eq!(found.map(|(ra, cfa, _)| (ra, cfa)), Some((0x77, SP)));
        // mov qword [rsp - 8], -0x10; mov rax, [rsp - 8]; add rsp, rax; ret
        let code = b"\x48\xc7\x44\x24\xf8\xf0\xff\xff\xff\x48\x8b\x44\x24\xf8\x48\x01\xc4\xc3";
        let found = followed(code, &[(SP - 0x10, RA)], &mut Kept::default());
        assert_eq!(found.map(|(_, cfa, _)| cfa), Some(SP - 8));
    }
}
