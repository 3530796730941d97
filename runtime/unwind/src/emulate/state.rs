//! The general registers, and the words that code stores on the stack, as it is followed.
//!
//! All are told from what they were at the start: a register plus bytes, or the word that was at such an address.
//! Nothing is read, so the result holds for each time that the code is interrupted there.

use crate::cfi::reg;
use crate::instructions::{Opcode, Register, bit};
use crate::rule::{Emulated, Rule};

const RAX: Register = 0;
pub(super) const RSP: Register = 4;
pub(super) const RBP: Register = 5;
/// Numbers that unwind data give to the registers, by those of the instruction set.
pub const DWARF: [u8; 16] = [0, 2, 1, 3, reg::RSP, reg::RBP, 4, 5, 8, 9, 10, 11, 12, 13, 14, 15];

/// Registers that a called function may change: rax, rcx, rdx, rsi, rdi, r8 to r11.
pub(super) const NOT_KEPT: u16 = 1 | 1 << 1 | 1 << 2 | 1 << 6 | 1 << 7 | 0xf << 8;

/// Words of the stack whose stores are remembered.
const STORES: usize = 20;
/// What a number is counted from: a register as it was at the start, or one of these.
type Base = u8;
/// A word that was loaded into rsp.
const LOADED: Base = 16;
/// The first address of the code.
pub(super) const CODE: Base = 17;
/// The first of those that say only: the same unknown number.
const UNKNOWN_NUMBERS: Base = 18;
const MOST_UNKNOWN_NUMBERS: Base = 8;

/// What is known of a register or of a word on the stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Value {
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
pub(super) enum Flow {
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
pub(super) struct State {
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
    pub(super) fn new() -> State {
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

    /// The word at rsp.
    pub(super) fn top(&self) -> Value {
        self.load(self.get(RSP))
    }

    pub(super) fn push(&mut self, value: Value) {
        self.set(RSP, self.get(RSP).plus(-8));
        self.store(self.get(RSP), value);
    }

    pub(super) fn pop(&mut self) -> Value {
        let word = self.top();
        self.set(RSP, self.get(RSP).plus(8));
        word
    }

    pub(super) fn forget(&mut self, registers: u16) {
        (0..16)
            .filter(|number| registers & bit(*number) != 0)
            .for_each(|number| self.set(number, Value::Unknown));
    }

    /// Follows the instruction before `next`. `is_short`: it has the prefix for operands of 16 bits.
    pub(super) fn follow(&mut self, opcode: &Opcode<'_>, next: u64, is_short: bool) -> Flow {
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
    pub(super) fn at_return(&self) -> Option<Returned> {
        let Value::Sum(base, at) = self.get(RSP) else { return None };
        if self.is_full || base >= CODE {
            return None;
        }
        Some(Returned { base, at, loaded: self.loaded, registers: self.registers })
    }

    /// Goes on to the return, known that `rule` holds for the next instruction. Of the registers only rsp and rbp are
    /// known then.
    pub(super) fn go_to_return(&mut self, rule: Emulated) {
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
