//! From an instruction without unwind data to its function's return address, by what the code itself does up to its
//! `ret`.
//!
//! Assembly often has no unwind data: kernels of linear algebra, codecs, cryptography. But such a function gives back
//! the stack and the registers as any other does, and how it does so stands in its code. So the instructions from the
//! interrupted one up to a `ret` are followed, for the general registers and the words on the stack alone:
//!
//! ```text
//!  sub $0x7080, %rsp                                     the frame is in %rbx meanwhile
//!  and $-4096, %rsp
//!  ...              <- interrupted here
//!  mov %rbx, %rsp
//!  mov (%rsp), %rbx
//!  mov 0x8(%rsp), %rbp
//!  add $0x60, %rsp
//!  ret              -> return address at rbx + 0x60, CFA 8 above it, caller's rbp at CFA - 0x60
//! ```
//!
//! Conditional jumps are not taken. Where that leads nowhere (a loop without end, a trap, the end of the code), the
//! last one that jumps beyond is taken, then the one before it. That paths meet with the same stack is what all
//! assembly for Linux keeps; that it was so is tested by whoever uses the result: the word there must be an address
//! behind a call.
//!
//! Signal safety: that of the memory that is given; 1.6 KB of stack; no panic path. Invariant: it ends after
//! as many instructions as it is given.

use super::cfi::reg;
use super::instructions::{Opcode, Register, bit, decode};
use super::rule::{Emulated, Rule, RuleKind};
use super::stack::Memory;

const RAX: Register = 0;
const RSP: Register = 4;
const RBP: Register = 5;
/// Numbers that unwind data give to the registers, by those of the instruction set.
pub const DWARF: [u8; 16] = [0, 2, 1, 3, reg::RSP, reg::RBP, 4, 5, 8, 9, 10, 11, 12, 13, 14, 15];

/// Registers that a called function may change: rax, rcx, rdx, rsi, rdi, r8 to r11.
const NOT_KEPT: u16 = 1 | 1 << 1 | 1 << 2 | 1 << 6 | 1 << 7 | 0xf << 8;

/// Instructions that may be followed in one walk, in all tries together. OpenBLAS's largest kernels have 5,500 to their
/// return.
pub const MOST: u32 = 6_000;
/// Bytes of code that are read at once.
const PIECE: usize = 512;
/// Words of the stack whose stores are remembered.
const STORES: usize = 20;
/// Jumps that are remembered.
const JUMPS: usize = 12;

/// What a number is counted from: a register as it was at the start, or one of these.
type Base = u8;
/// A word that was loaded into rsp.
const LOADED: Base = 16;
/// The first address of the code.
const CODE: Base = 17;
/// The first of those that say only: the same unknown number.
const UNKNOWN_NUMBERS: Base = 18;
const MOST_UNKNOWN_NUMBERS: Base = 8;

/// What is known of a register or of a word on the stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Value {
    Unknown,
    /// The base plus bytes.
    Sum(Base, i32),
    /// The word at base plus bytes, as it was at the start.
    Load(Base, i32),
}

impl Value {
    fn plus(self, bytes: i32) -> Value {
        match self {
            Value::Sum(base, at) => at.checked_add(bytes).map_or(Value::Unknown, |at| Value::Sum(base, at)),
            _ => Value::Unknown,
        }
    }
}

/// What an instruction does to the order of instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flow {
    Next,
    Jump(u64),
    /// If a condition holds.
    Branch(u64),
    /// To a function that returns here.
    Call(u64),
    /// To the address on the stack.
    Return,
    /// To a function that returns to this one's caller.
    Tail,
    /// Nothing follows.
    Dead,
    /// It cannot be followed.
    Lost,
}

#[derive(Clone, Copy)]
struct Store {
    base: Base,
    at: i32,
    value: Value,
}

/// The registers, and the words that were stored since the start.
struct State {
    registers: [Value; 16],
    stores: [Store; STORES],
    stored: usize,
    /// Where the word of [`LOADED`] was.
    loaded: Option<(Base, i32)>,
    unknown_numbers: Base,
    /// A word was stored for which there was no room.
    is_full: bool,
    /// rax is the number of `rt_sigreturn`.
    is_sigreturn: bool,
    /// The instruction before has given stack back.
    is_given_back: bool,
}

impl State {
    fn new() -> State {
        State {
            registers: core::array::from_fn(|number| Value::Sum(number as Base, 0)),
            stores: [Store { base: 0, at: 0, value: Value::Unknown }; STORES],
            stored: 0,
            loaded: None,
            unknown_numbers: 0,
            is_full: false,
            is_sigreturn: false,
            is_given_back: false,
        }
    }

    fn get(&self, register: Register) -> Value {
        self.registers.get(usize::from(register)).copied().unwrap_or(Value::Unknown)
    }

    fn set(&mut self, register: Register, value: Value) {
        let value = match value {
            // What is stored and loaded relative to the stack pointer is to be known whatever it is.
            Value::Load(base, at) if register == RSP => self.loaded_from(base, at),
            Value::Unknown if register == RSP && self.unknown_numbers < MOST_UNKNOWN_NUMBERS => {
                self.unknown_numbers += 1;
                Value::Sum(UNKNOWN_NUMBERS + self.unknown_numbers - 1, 0)
            }
            value => value,
        };
        if let Some(slot) = self.registers.get_mut(usize::from(register)) {
            *slot = value;
        }
    }

    /// The word at an address, as a base.
    fn loaded_from(&mut self, base: Base, at: i32) -> Value {
        match *self.loaded.get_or_insert((base, at)) {
            first if first == (base, at) => Value::Sum(LOADED, 0),
            _ => Value::Unknown,
        }
    }

    /// What is at an address.
    fn load(&self, address: Value) -> Value {
        let Value::Sum(base, at) = address else { return Value::Unknown };
        let stores = self.stores.get(..self.stored).unwrap_or(&[]);
        let over = stores.iter().find(|store| store.base == base && store.at.abs_diff(at) < 8);
        match over {
            Some(store) if store.at == at => store.value,
            Some(_) => Value::Unknown,
            None if base >= CODE => Value::Unknown,
            None => Value::Load(base, at),
        }
    }

    /// Stores at an address. (Where that is unknown, it is not where this function saved anything.)
    fn store(&mut self, address: Value, value: Value) {
        let Value::Sum(base, at) = address else { return };
        let mut is_there = false;
        let stores = self.stores.get_mut(..self.stored).unwrap_or(&mut []);
        for store in stores.iter_mut().filter(|store| store.base == base && store.at.abs_diff(at) < 8) {
            is_there |= store.at == at;
            store.value = if store.at == at { value } else { Value::Unknown };
        }
        if is_there {
            return;
        }
        match self.stores.get_mut(self.stored) {
            Some(slot) => {
                *slot = Store { base, at, value };
                self.stored += 1;
            }
            None => self.is_full = true,
        }
    }

    fn place(&self, opcode: &Opcode<'_>) -> Value {
        opcode.place(1).map_or(Value::Unknown, |(register, bytes)| self.get(register).plus(bytes))
    }

    fn push(&mut self, value: Value) {
        self.set(RSP, self.get(RSP).plus(-8));
        self.store(self.get(RSP), value);
    }

    fn pop(&mut self) -> Value {
        let word = self.load(self.get(RSP));
        self.set(RSP, self.get(RSP).plus(8));
        word
    }

    fn forget(&mut self, registers: u16) {
        (0..16)
            .filter(|number| registers & bit(*number) != 0)
            .for_each(|number| self.set(number, Value::Unknown));
    }

    /// Follows the instruction before `next`. `is_short`: it has the prefix for operands of 16 bits.
    fn follow(&mut self, opcode: &Opcode<'_>, next: u64, is_short: bool) -> Flow {
        let is_wide = opcode.rex & 8 != 0;
        let first = opcode.byte(0);
        let is_sigreturn = core::mem::replace(&mut self.is_sigreturn, false);
        let is_given_back = core::mem::replace(&mut self.is_given_back, false);
        let before = self.get(RSP);
        if is_short && matches!(first, 0x50..=0x5f | 0x68 | 0x6a | 0x8f | 0x9c | 0x9d | 0xc2 | 0xc3 | 0xc9) {
            return Flow::Lost;
        }
        let by_word =
            || opcode.constant().map(|bytes| next.wrapping_add_signed(i64::from(bytes.cast_signed())));
        let by_byte = || next.wrapping_add_signed(i64::from(opcode.byte(1).cast_signed()));
        match first {
            0x50..=0x57 => self.push(self.get(opcode.own_register())),
            0x68 | 0x6a | 0x9c => self.push(Value::Unknown),
            0x58..=0x5f => {
                let word = self.pop();
                self.set(opcode.own_register(), word);
            }
            0x9d => {
                self.pop();
            }
            0x8f if opcode.byte(1) & 0x1f < 8 => {
                let word = self.pop();
                match opcode.target(1) {
                    Some(register) => self.set(register, word),
                    None => self.store(self.place(opcode), word),
                }
            }
            0x89 if is_wide => match opcode.target(1) {
                Some(register) => self.set(register, self.get(opcode.other(1))),
                None => self.store(self.place(opcode), self.get(opcode.other(1))),
            },
            0x88 | 0x89 | 0xc6 | 0xc7 if opcode.target(1).is_none() => {
                self.store(self.place(opcode), Value::Unknown);
            }
            0x8b if is_wide => {
                let value = match opcode.target(1) {
                    Some(register) => self.get(register),
                    None => self.load(self.place(opcode)),
                };
                self.set(opcode.other(1), value);
            }
            0x8d if is_wide => self.set(opcode.other(1), self.place(opcode)),
            0x81 | 0x83 if is_wide && opcode.target(1).is_some() && opcode.extension(1) != 7 => {
                let register = opcode.target(1).unwrap_or(RAX);
                let constant = if first == 0x83 {
                    Some(i32::from(opcode.byte(2).cast_signed()))
                } else {
                    opcode.constant().map(u32::cast_signed)
                };
                let constant = match opcode.extension(1) {
                    0 => constant,
                    5 => constant.and_then(i32::checked_neg),
                    _ => None,
                };
                let value = constant.map_or(Value::Unknown, |bytes| self.get(register).plus(bytes));
                self.set(register, value);
            }
            0x87 if is_wide && opcode.target(1).is_some() => {
                let (one, two) = (opcode.target(1).unwrap_or(RAX), opcode.other(1));
                let (first, second) = (self.get(one), self.get(two));
                self.set(one, second);
                self.set(two, first);
            }
            0xc9 => {
                self.set(RSP, self.get(RBP));
                let word = self.pop();
                self.set(RBP, word);
            }
            0xc2 | 0xc3 => return Flow::Return,
            0xe9 => return by_word().map_or(Flow::Lost, Flow::Jump),
            0xeb => return Flow::Jump(by_byte()),
            0xe8 => return by_word().map_or(Flow::Lost, Flow::Call),
            0xff => match opcode.extension(1) {
                2 => self.forget(NOT_KEPT),
                // Through a word at a fixed place, or when the stack has just been given back: to another function.
                // Else by a table, and one of the places to which it leads follows.
                4 if opcode.byte(1) == 0x25 || is_given_back => return Flow::Tail,
                4 => {}
                6 => self.push(Value::Unknown),
                0 | 1 => self.forget(opcode.written()),
                _ => return Flow::Lost,
            },
            0x70..=0x7f | 0xe0..=0xe3 => {
                self.forget(opcode.written());
                return Flow::Branch(by_byte());
            }
            0xcc | 0xf4 => return Flow::Dead,
            0xc8 | 0xca | 0xcb | 0xcd | 0xcf => return Flow::Lost,
            0x0f => match opcode.byte(1) {
                0x80..=0x8f => return by_word().map_or(Flow::Lost, Flow::Branch),
                0x0b | 0xb9 | 0xff => return Flow::Dead,
                0x05 if is_sigreturn => return Flow::Lost,
                _ => self.forget(opcode.written()),
            },
            _ => self.forget(opcode.written()),
        }
        self.is_given_back =
            matches!(first, 0x58..=0x5f | 0x81 | 0x83 | 0x8b | 0x8d | 0xc9) && self.get(RSP) != before;
        self.is_sigreturn =
            matches!(first, 0xb8 | 0xc7) && opcode.written() == bit(RAX) && opcode.constant() == Some(15);
        Flow::Next
    }

    /// Where the return address is when the code returns now, and what the registers are then.
    fn at_return(&self) -> Option<Returned> {
        let Value::Sum(base, at) = self.get(RSP) else { return None };
        if self.is_full || base >= CODE {
            return None;
        }
        Some(Returned { base, at, loaded: self.loaded, registers: self.registers })
    }

    /// Goes on to the return, known that `rule` holds for the next instruction. Of the registers only rsp and rbp are
    /// known then.
    fn go_to_return(&mut self, rule: Emulated) {
        let mut base = self.get(rule.base).plus(rule.load.unwrap_or(0));
        if rule.load.is_some() {
            base = self.load(base);
            if let Value::Load(from, at) = base {
                base = self.loaded_from(from, at);
            }
        }
        let bp = match rule.bp {
            0 => self.get(RBP),
            Emulated::LOST => Value::Unknown,
            saved => self.load(base.plus(rule.offset).plus(saved)),
        };
        self.registers = [Value::Unknown; 16];
        self.set(RSP, base.plus(rule.offset).plus(-8));
        self.set(RBP, bp);
    }
}

/// What the code has done when it returns.
#[derive(Clone, Copy, Debug)]
pub struct Returned {
    base: Base,
    /// Bytes from the base to the return address.
    at: i32,
    loaded: Option<(Base, i32)>,
    registers: [Value; 16],
}

impl Returned {
    /// The same as a rule. `None`: it does not fit.
    #[must_use]
    pub fn rule(&self) -> Option<Rule> {
        let offset = self.at.checked_add(8)?;
        // A return address lies at rsp or above; from another register that is seen when its value is known.
        if self.base == RSP && offset <= 0 {
            return None;
        }
        let bp = match self.registers.get(usize::from(RBP))? {
            Value::Sum(RBP, 0) => 0,
            Value::Load(base, at) if *base == self.base => {
                at.checked_sub(offset).filter(|distance| *distance != 0)?
            }
            _ => Emulated::LOST,
        };
        let (base, load) = match self.base {
            LOADED => self.loaded.map(|(base, at)| (base, Some(at)))?,
            base => (base, None),
        };
        Rule::emulated(Emulated { base, load, offset, bp })
    }

    /// A register as the caller has it. `at_start`: the registers where the code was at the start; `word`: the memory
    /// then. `None`: it is not known.
    pub fn register(
        &self,
        register: Register,
        at_start: impl Fn(Register) -> Option<u64>,
        mut word: impl FnMut(u64) -> Option<u64>,
    ) -> Option<u64> {
        let mut base = |base: Base| match base {
            LOADED => {
                let (from, at) = self.loaded?;
                word(at_start(from)?.wrapping_add_signed(i64::from(at)))
            }
            base => at_start(base),
        };
        let sum = |base: u64, at: i32| base.wrapping_add_signed(i64::from(at));
        if register == RSP {
            return Some(sum(base(self.base)?, self.at).wrapping_add(8));
        }
        match *self.registers.get(usize::from(register))? {
            Value::Unknown => None,
            Value::Sum(from, at) => Some(sum(base(from)?, at)),
            Value::Load(from, at) => {
                let address = sum(base(from)?, at);
                word(address)
            }
        }
    }
}

/// The code between two functions with unwind data, read in pieces.
struct Code<'m, M> {
    memory: &'m mut M,
    /// First address, and the one behind the last.
    range: (u64, u64),
    at: u64,
    length: usize,
    bytes: [u8; PIECE],
}

impl<M: Memory> Code<'_, M> {
    /// The bytes from `address` on: an instruction at least, unless the code ends before.
    fn from(&mut self, address: u64) -> Option<&[u8]> {
        const LONGEST: u64 = 15;
        let left = self.range.1.checked_sub(address).filter(|left| *left > 0)?;
        let end = self.at.wrapping_add(self.length as u64);
        if address < self.at || address.checked_add(left.min(LONGEST))? > end {
            self.length = usize::try_from(left).unwrap_or(PIECE).min(PIECE);
            self.at = address;
            if !self.memory.code_bytes(address, self.bytes.get_mut(..self.length)?) {
                self.length = 0;
                return None;
            }
        }
        self.bytes.get(usize::try_from(address.wrapping_sub(self.at)).ok()?..self.length)
    }

    fn contains(&self, address: u64) -> bool {
        address >= self.range.0 && address < self.range.1
    }

    /// Bytes from the first address. Addresses outside of the code count as its end, which cannot be jumped to.
    fn offset(&self, address: u64) -> u32 {
        let offset = address.checked_sub(self.range.0).filter(|_| address < self.range.1);
        offset.and_then(|offset| u32::try_from(offset).ok()).unwrap_or(u32::MAX)
    }

    fn value(&self, address: u64) -> Value {
        i32::try_from(self.offset(address)).map_or(Value::Unknown, |bytes| Value::Sum(CODE, bytes))
    }
}

/// How a try ended.
enum Try {
    Returned,
    /// At this address nothing follows.
    Dead(u64),
    Lost,
}

/// The last jumps of a try. Addresses are counted from the first one of the code.
#[derive(Default)]
struct Jumps {
    /// Conditional ones: their number, the first one is 1, and where they lead.
    branches: [(u32, u32); JUMPS],
    branches_seen: u32,
    /// Where the others are.
    from: [u32; JUMPS],
    jumps_seen: usize,
}

impl Jumps {
    /// Notes a conditional jump. Its number.
    fn branch(&mut self, to: u32) -> u32 {
        self.branches_seen = self.branches_seen.saturating_add(1);
        if let Some(slot) = self.branches.get_mut(self.branches_seen as usize % JUMPS) {
            *slot = (self.branches_seen, to);
        }
        self.branches_seen
    }

    /// Notes another jump. Whether it was there before.
    fn jump(&mut self, from: u32) -> bool {
        let is_known = self.from.get(..self.jumps_seen.min(JUMPS)).is_some_and(|seen| seen.contains(&from));
        if let Some(slot) = self.from.get_mut(self.jumps_seen % JUMPS) {
            *slot = from;
        }
        self.jumps_seen += 1;
        is_known
    }

    /// The last conditional jump before number `before` that leads beyond `at`, or else anywhere.
    fn to_take(&self, before: u32, at: u32) -> Option<u32> {
        let untried = || self.branches.iter().filter(|(number, _)| *number != 0 && *number < before);
        let last =
            |beyond: bool| untried().filter(|(_, to)| !beyond || *to > at).map(|(number, _)| *number).max();
        last(true).or_else(|| last(false))
    }
}

/// Follows the code from `start` to its return. `range`: where code without unwind data is, from its first address to
/// the one behind its last. `left`: instructions that may be followed, of which it takes its own. `known`: the rule of
/// an address, [`Rule::EMPTY`] if it is not known.
pub fn to_return<M: Memory>(
    memory: &mut M,
    start: u64,
    range: (u64, u64),
    left: &mut u32,
    known: impl Fn(u64) -> Rule,
) -> Option<Returned> {
    let mut code = Code { memory, range, at: 0, length: 0, bytes: [0; PIECE] };
    // What assembly calls within itself may leave to its caller what other functions do not.
    for calls in [Calls::Passed, Calls::Followed] {
        let mut taken = u32::MAX;
        loop {
            let mut state = State::new();
            let mut jumps = Jumps::default();
            match follow(&mut code, &mut state, &mut jumps, start, (taken, calls), left, &known) {
                Try::Returned => match state.at_return() {
                    Some(returned) => return Some(returned),
                    None => break,
                },
                Try::Lost => break,
                Try::Dead(at) => match jumps.to_take(taken, code.offset(at)) {
                    Some(number) => taken = number,
                    None => break,
                },
            }
        }
    }
    None
}

/// What is done with calls within the code.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Calls {
    Passed,
    Followed,
}

/// One try, in which the conditional jump number `taken` is taken. Where it is [`Try::Returned`], the state is that
/// before the return.
fn follow<M: Memory>(
    code: &mut Code<'_, M>,
    state: &mut State,
    jumps: &mut Jumps,
    start: u64,
    (taken, calls): (u32, Calls),
    left: &mut u32,
    known: &impl Fn(u64) -> Rule,
) -> Try {
    // Calls that have not returned.
    let mut depth = 0u32;
    let mut at = start;
    loop {
        let Some(rest) = left.checked_sub(1) else { return Try::Lost };
        *left = rest;
        if at != start && depth == 0 {
            let rule = known(at);
            if rule.kind() == RuleKind::Emulated {
                state.go_to_return(rule.emulation());
                return Try::Returned;
            }
        }
        let Some(bytes) = code.from(at) else { return Try::Dead(at) };
        let Some(instruction) = decode(bytes) else { return Try::Lost };
        let is_short = bytes.get(..instruction.prefixes).is_some_and(|prefixes| prefixes.contains(&0x66));
        let next = at.wrapping_add(instruction.length as u64);
        let flow = state.follow(&Opcode::new(bytes, instruction), next, is_short);
        let target = match flow {
            Flow::Next => None,
            Flow::Branch(target) => (jumps.branch(code.offset(target)) == taken).then_some(target),
            // Where it has been before it would come again.
            Flow::Jump(_) if jumps.jump(code.offset(at)) => return Try::Dead(at),
            Flow::Jump(target) => Some(target),
            Flow::Call(target) if calls == Calls::Followed && code.contains(target) => {
                state.push(code.value(next));
                depth += 1;
                Some(target)
            }
            Flow::Call(_) => {
                state.forget(NOT_KEPT);
                None
            }
            Flow::Return => match state.load(state.get(RSP)) {
                Value::Sum(CODE, bytes) => {
                    state.pop();
                    depth = depth.saturating_sub(1);
                    Some(code.range.0.wrapping_add_signed(i64::from(bytes)))
                }
                _ => return Try::Returned,
            },
            Flow::Tail => return Try::Returned,
            Flow::Dead => return Try::Dead(at),
            Flow::Lost => return Try::Lost,
        };
        at = match target {
            None => next,
            Some(target) if code.contains(target) => target,
            // Another function, which returns to this one's caller.
            Some(_) => return Try::Returned,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: u64 = 0x1000;

    struct Bytes<'c>(&'c [u8]);

    impl Memory for Bytes<'_> {
        fn peek(&self, _: u64) -> Option<u64> {
            None
        }

        fn code_bytes(&mut self, addr: u64, into: &mut [u8]) -> bool {
            let from = (addr - AT) as usize;
            self.0.get(from..from + into.len()).map(|code| into.copy_from_slice(code)).is_some()
        }
    }

    fn rule_with(code: &[u8], left: &mut u32, known: impl Fn(u64) -> Rule) -> Option<Emulated> {
        let range = (AT, AT + code.len() as u64);
        to_return(&mut Bytes(code), AT, range, left, known)?.rule().map(Rule::emulation)
    }

    fn rule(code: &[u8]) -> Option<Emulated> {
        rule_with(code, &mut MOST.clone(), |_| Rule::EMPTY)
    }

    const fn by_rsp(offset: i32, bp: i32) -> Option<Emulated> {
        Some(Emulated { base: RSP, load: None, offset, bp })
    }

    #[test]
    fn code_gives_back_what_it_took() {
        // ret
        assert_eq!(rule(b"\xc3"), by_rsp(8, 0));
        // pop rbx; pop rbp; ret
        assert_eq!(rule(b"\x5b\x5d\xc3"), by_rsp(24, -16));
        // push rbp; mov ebp, 1; pop rbp; ret
        assert_eq!(rule(b"\x55\xbd\x01\x00\x00\x00\x5d\xc3"), by_rsp(8, 0));
        // xor ebp, ebp; ret
        assert_eq!(rule(b"\x31\xed\xc3"), by_rsp(8, Emulated::LOST));
        // leave; ret
        assert_eq!(rule(b"\xc9\xc3"), Some(Emulated { base: RBP, load: None, offset: 16, bp: -16 }));
        // mov rsp, [rsp + 0x100]; pop rbp; ret
        let saved = Some(Emulated { base: RSP, load: Some(0x100), offset: 16, bp: -16 });
        assert_eq!(rule(b"\x48\x8b\xa4\x24\x00\x01\x00\x00\x5d\xc3"), saved);
        // mov rsp, rbx; ret
        assert_eq!(rule(b"\x48\x89\xdc\xc3"), Some(Emulated { base: 3, load: None, offset: 8, bp: 0 }));
        // mov rcx, rsp; and rsp, -32; call the ret below (it keeps rcx); mov rsp, rcx; ret; ret
        assert_eq!(
            rule(b"\x48\x89\xe1\x48\x83\xe4\xe0\xe8\x04\x00\x00\x00\x48\x89\xcc\xc3\xc3"),
            by_rsp(8, 0)
        );
        // test edi, edi; je out; jmp back; out: pop rbp; ret
        assert_eq!(rule(b"\x85\xff\x74\x02\xeb\xfa\x5d\xc3"), by_rsp(16, -16));
    }

    #[test]
    fn what_cannot_be_followed_is_not() {
        for code in [
            &b"\xeb\xfe"[..],                            // jmp to itself
            b"\x0f\x0b\xc3",                             // ud2
            b"\x48\xc7\xc0\x0f\x00\x00\x00\x0f\x05\xc3", // mov rax, rt_sigreturn; syscall
            b"\x48\x29\xc4\xc3",                         // sub rsp, rax
            b"\x06\xc3",                                 // no instruction
            b"\x90\x90",                                 // nothing behind it
            b"\x66\x5d\xc3",                             // pop bp
            b"\x48\x83\xec\x08\xc3",                     // the return address would be below rsp
        ] {
            assert_eq!(rule(code), None, "{code:02x?}");
        }
        // More words are stored than are remembered: 40 times push rax.
        assert_eq!(rule(&[[0x50; 40].as_slice(), b"\x48\x81\xc4\x40\x01\x00\x00\xc3"].concat()), None);
    }

    #[test]
    fn it_follows_no_more_than_it_may_and_uses_what_is_known() {
        let mut long = vec![0x90; 2 * MOST as usize];
        long.push(0xc3);
        let mut left = MOST;
        assert_eq!((rule_with(&long, &mut left, |_| Rule::EMPTY), left), (None, 0));
        // Behind a push, of an instruction from which the caller's rbp is 8 bytes above rsp.
        long[0] = 0x53;
        let known = Rule::emulated(Emulated { base: RSP, load: None, offset: 32, bp: -24 }).expect("it fits");
        let mut left = MOST;
        let found = rule_with(&long, &mut left, |at| if at == AT + 100 { known } else { Rule::EMPTY });
        assert_eq!((found, MOST - left), (by_rsp(24, -24), 101));
    }
}
