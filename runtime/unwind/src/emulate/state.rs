//! The general registers, and the words that code stores on the stack, as it is followed.
//!
//! All are told from what they were at the start: a register plus bytes, or the word that was at such an address.
//! Nothing is read, so the result holds for each time that the code is interrupted there.

use super::step::{Machine, RBP, RSP};
use crate::cfi::reg;
use crate::instructions::Register;
use crate::rule::{Emulated, Rule};

/// Numbers that unwind data give to the registers, by those of the instruction set.
pub const DWARF: [u8; 16] = [0, 2, 1, 3, reg::RSP, reg::RBP, 4, 5, 8, 9, 10, 11, 12, 13, 14, 15];

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
    /// It comes from a word of memory whose address is not known.
    FromMemory,
    /// The base plus bytes.
    Sum(Base, i32),
    /// The word at base plus bytes, as it was at the start.
    Load(Base, i32),
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
    /// What rsp is counted from was [`Value::FromMemory`], not otherwise unknown.
    is_stack_from_memory: bool,
    /// A word was stored for which there was no room.
    is_full: bool,
}

impl State {
    pub(super) fn new() -> State {
        State {
            registers: core::array::from_fn(|number| Value::Sum(number as Base, 0)),
            stores: [Store { base: 0, at: 0, value: Value::Unknown }; STORES],
            stored: 0,
            loaded: None,
            unknown_numbers: 0,
            is_stack_from_memory: false,
            is_full: false,
        }
    }

    /// The word at an address, as a base.
    fn loaded_from(&mut self, base: Base, at: i32) -> Value {
        match *self.loaded.get_or_insert((base, at)) {
            first if first == (base, at) => Value::Sum(LOADED, 0),
            _ => Value::FromMemory,
        }
    }

    /// A value for rsp. What is stored and loaded relative to it is to be known whatever it is.
    fn as_stack(&mut self, value: Value) -> Value {
        let value = match value {
            Value::Load(base, at) => self.loaded_from(base, at),
            value => value,
        };
        if matches!(value, Value::Sum(..)) {
            return value;
        }
        self.is_stack_from_memory = value == Value::FromMemory;
        if self.unknown_numbers == MOST_UNKNOWN_NUMBERS {
            return Value::Unknown;
        }
        self.unknown_numbers += 1;
        Value::Sum(UNKNOWN_NUMBERS + self.unknown_numbers - 1, 0)
    }

    /// The word at rsp.
    pub(super) fn top(&mut self) -> Value {
        self.load(self.get(RSP))
    }

    /// Where the return address is when the code returns now, and what the registers are then.
    pub(super) fn at_return(&self) -> Followed {
        match self.get(RSP) {
            Value::Sum(base, at) if base < CODE && !self.is_full => {
                Followed::Returned(Returned { base, at, loaded: self.loaded, registers: self.registers })
            }
            Value::Sum(UNKNOWN_NUMBERS.., _) if self.is_stack_from_memory => Followed::OtherStack,
            _ => Followed::Nowhere,
        }
    }

    /// Goes on to the return, known that `rule` holds for the next instruction. Of the registers only rsp and rbp are
    /// known then.
    pub(super) fn go_to_return(&mut self, rule: Emulated) {
        let mut base = State::plus(self.get(rule.base), rule.load.unwrap_or(0));
        if rule.load.is_some() {
            base = self.load(base);
            if let Value::Load(from, at) = base {
                base = self.loaded_from(from, at);
            }
        }
        let bp = match rule.bp {
            0 => self.get(RBP),
            Emulated::LOST => Value::Unknown,
            saved => self.load(State::plus(State::plus(base, rule.offset), saved)),
        };
        self.registers = [Value::Unknown; 16];
        self.set(RSP, State::plus(State::plus(base, rule.offset), -8));
        self.set(RBP, bp);
    }
}

impl Machine for State {
    type Value = Value;
    const UNKNOWN: Value = Value::Unknown;

    fn get(&self, register: Register) -> Value {
        self.registers.get(usize::from(register)).copied().unwrap_or(Value::Unknown)
    }

    fn set(&mut self, register: Register, value: Value) {
        let value = if register == RSP { self.as_stack(value) } else { value };
        if let Some(slot) = self.registers.get_mut(usize::from(register)) {
            *slot = value;
        }
    }

    fn load(&mut self, address: Value) -> Value {
        let Value::Sum(base, at) = address else { return Value::FromMemory };
        let stores = self.stores.get(..self.stored).unwrap_or(&[]);
        let over = stores.iter().find(|store| store.base == base && store.at.abs_diff(at) < 8);
        match over {
            Some(store) if store.at == at => store.value,
            Some(_) => Value::Unknown,
            None if base >= CODE => Value::FromMemory,
            None => Value::Load(base, at),
        }
    }

    /// (Where that is unknown, it is not where this function saved anything.)
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

    fn plus(value: Value, bytes: i32) -> Value {
        match value {
            Value::Sum(base, at) => at.checked_add(bytes).map_or(Value::Unknown, |at| Value::Sum(base, at)),
            Value::FromMemory => Value::FromMemory,
            Value::Unknown | Value::Load(..) => Value::Unknown,
        }
    }

    fn calculated(_: u8, one: Value, other: Value) -> Value {
        let is_from_memory = [one, other].contains(&Value::FromMemory);
        if is_from_memory { Value::FromMemory } else { Value::Unknown }
    }
}

/// What following the code has told.
#[derive(Clone, Copy, Debug)]
pub enum Followed {
    /// It returns, and how it does so can be told from the registers at the start.
    Returned(Returned),
    /// It returns, and where its return address is depends on what lies in memory
    /// ([`to_other_stack`](super::to_other_stack)).
    OtherStack,
    /// It was not followed to a return.
    Nowhere,
}

impl Followed {
    /// How it returns, if that can be told.
    #[must_use]
    pub fn returned(&self) -> Option<&Returned> {
        match self {
            Followed::Returned(returned) => Some(returned),
            Followed::OtherStack | Followed::Nowhere => None,
        }
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
            Value::Unknown | Value::FromMemory => None,
            Value::Sum(from, at) => Some(sum(base(from)?, at)),
            Value::Load(from, at) => {
                let address = sum(base(from)?, at);
                word(address)
            }
        }
    }
}
