//! What one instruction does to the general registers and to words of memory, whatever is known of these.

use crate::instructions::{Opcode, Origin, Register, bit, decode};

pub(super) const RAX: Register = 0;
pub(super) const RSP: Register = 4;
pub(super) const RBP: Register = 5;

/// Registers that a called function may change: rax, rcx, rdx, rsi, rdi, r8 to r11.
pub(super) const NOT_KEPT: u16 = 1 | 1 << 1 | 1 << 2 | 1 << 6 | 1 << 7 | 0xf << 8;

/// Bytes of the longest instruction.
pub(super) const LONGEST: usize = 15;

/// Calculations by their numbers in the instruction set.
pub(super) const ADD: u8 = 0;
pub(super) const AND: u8 = 4;
pub(super) const SUBTRACT: u8 = 5;
const COMPARE: u8 = 7;

/// What an instruction does to the order of instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flow {
    Next,
    Jump(u64),
    /// If a condition holds.
    Branch(u64),
    /// To a place that stands in a table, whose address this is.
    Table(u64),
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

/// Registers and memory, of which something is known.
pub(super) trait Machine {
    /// What is known of a word of eight bytes.
    type Value: Copy + PartialEq;
    /// Nothing is known.
    const UNKNOWN: Self::Value;

    fn get(&self, register: Register) -> Self::Value;
    fn set(&mut self, register: Register, value: Self::Value);
    /// The word at an address.
    fn load(&mut self, address: Self::Value) -> Self::Value;
    fn store(&mut self, address: Self::Value, value: Self::Value);
    fn plus(value: Self::Value, bytes: i32) -> Self::Value;

    fn constant(_: u64) -> Self::Value {
        Self::UNKNOWN
    }

    /// The result of calculation number `_number` ([`ADD`]).
    fn calculated(_number: u8, _one: Self::Value, _other: Self::Value) -> Self::Value {
        Self::UNKNOWN
    }

    /// The base of the segment that is each thread's own.
    fn thread_base(&mut self) -> Self::Value {
        Self::UNKNOWN
    }

    fn push(&mut self, value: Self::Value) {
        self.set(RSP, Self::plus(self.get(RSP), -8));
        self.store(self.get(RSP), value);
    }

    fn pop(&mut self) -> Self::Value {
        let word = self.load(self.get(RSP));
        self.set(RSP, Self::plus(self.get(RSP), 8));
        word
    }

    fn forget(&mut self, registers: u16) {
        (0..16)
            .filter(|number| registers & bit(*number) != 0)
            .for_each(|number| self.set(number, Self::UNKNOWN));
    }
}

/// An instruction with what precedes and follows it.
#[derive(Clone, Copy)]
pub(super) struct Operation<'c> {
    opcode: Opcode<'c>,
    /// Address of the instruction behind it.
    pub(super) next: u64,
    /// It has the prefix for operands of 16 bits.
    is_short: bool,
    /// The prefix of its segment, 0 = none.
    segment: u8,
}

impl<'c> Operation<'c> {
    /// The one at the beginning of `bytes`, which are at address `at`.
    #[inline]
    pub(super) fn new(bytes: &'c [u8], at: u64) -> Option<Operation<'c>> {
        let instruction = decode(bytes)?;
        let (mut is_short, mut segment) = (false, 0);
        let legacy = instruction.prefixes - usize::from(instruction.rex != 0);
        for prefix in bytes.get(..legacy)? {
            match prefix {
                0x66 => is_short = true,
                // With addresses of 32 bits (67) its operand is somewhere else, whatever the segment.
                0x64 | 0x65 | 0x67 => segment = segment.max(*prefix),
                _ => {}
            }
        }
        let next = at.wrapping_add(instruction.length as u64);
        Some(Operation { opcode: Opcode::new(bytes, instruction), next, is_short, segment })
    }

    /// Where its operand in memory is.
    fn place<M: Machine>(&self, machine: &mut M) -> M::Value {
        let Some(place) = self.opcode.place(1) else { return M::UNKNOWN };
        let origin = match place.origin {
            Origin::Register(register) => machine.get(register),
            Origin::Next => M::constant(self.next),
            Origin::Zero => M::constant(0),
        };
        let address = M::plus(origin, place.bytes);
        match self.segment {
            0 => address,
            0x64 => M::calculated(ADD, address, machine.thread_base()),
            _ => M::UNKNOWN,
        }
    }

    /// The value of its operand, in a register or in memory.
    fn operand<M: Machine>(&self, machine: &mut M) -> M::Value {
        match self.opcode.target(1) {
            Some(register) => machine.get(register),
            None => {
                let place = self.place(machine);
                machine.load(place)
            }
        }
    }

    /// Changes its operand.
    fn set_operand<M: Machine>(&self, machine: &mut M, value: M::Value) {
        match self.opcode.target(1) {
            Some(register) => machine.set(register, value),
            None => {
                let place = self.place(machine);
                machine.store(place, value);
            }
        }
    }

    /// The constant at its end as 64 bits, of one byte or of four.
    fn constant(&self) -> Option<i32> {
        if self.opcode.byte(0) == 0x83 || self.opcode.byte(0) == 0x6a {
            return self.opcode.bytes().last().map(|byte| i32::from(byte.cast_signed()));
        }
        self.opcode.constant().map(u32::cast_signed)
    }

    /// Calculates with its operand. `result`: of its number and the operand's value.
    fn calculate<M: Machine>(
        &self,
        machine: &mut M,
        number: u8,
        result: impl FnOnce(&M, M::Value) -> M::Value,
    ) {
        if number != COMPARE {
            let value = self.operand(machine);
            let result = result(machine, value);
            self.set_operand(machine, result);
        }
    }
}

/// What the instruction before has done.
#[derive(Clone, Copy, Default)]
pub(super) struct Before {
    /// rax is the number of `rt_sigreturn`.
    is_sigreturn: bool,
    /// It has given stack back.
    is_given_back: bool,
}

/// Follows an instruction.
#[inline]
pub(super) fn step<M: Machine>(machine: &mut M, before: &mut Before, operation: &Operation<'_>) -> Flow {
    let Operation { opcode, next, is_short, .. } = *operation;
    let Before { is_sigreturn, is_given_back } = core::mem::take(before);
    let is_wide = opcode.rex & 8 != 0;
    let first = opcode.byte(0);
    let rsp_before = machine.get(RSP);
    if is_short && matches!(first, 0x50..=0x5f | 0x68 | 0x6a | 0x8f | 0x9c | 0x9d | 0xc2 | 0xc3 | 0xc9) {
        return Flow::Lost;
    }
    let by_word = || opcode.constant().map(|bytes| next.wrapping_add_signed(i64::from(bytes.cast_signed())));
    let by_byte = || next.wrapping_add_signed(i64::from(opcode.byte(1).cast_signed()));
    let constant = || operation.constant().map_or(M::UNKNOWN, |bytes| M::plus(M::constant(0), bytes));
    match first {
        // add, or, adc, sbb, and, sub, xor, cmp with a register.
        0x01 | 0x03 | 0x09 | 0x0b | 0x11 | 0x13 | 0x19 | 0x1b | 0x21 | 0x23 | 0x29 | 0x2b | 0x31 | 0x33
        | 0x39 | 0x3b
            if is_wide =>
        {
            let (number, other) = (first >> 3, opcode.other(1));
            if first & 2 == 0 {
                operation.calculate(machine, number, |machine, value| {
                    M::calculated(number, value, machine.get(other))
                });
            } else if number != COMPARE {
                let value = operation.operand(machine);
                machine.set(other, M::calculated(number, machine.get(other), value));
            }
        }
        0x81 | 0x83 if is_wide => {
            let number = opcode.extension(1);
            operation.calculate(machine, number, |_, value| match (number, operation.constant()) {
                (ADD, Some(bytes)) => M::plus(value, bytes),
                (SUBTRACT, Some(bytes)) => {
                    bytes.checked_neg().map_or(M::UNKNOWN, |bytes| M::plus(value, bytes))
                }
                _ => M::calculated(number, value, constant()),
            });
        }
        0x50..=0x57 => machine.push(machine.get(opcode.own_register())),
        0x68 | 0x6a => machine.push(constant()),
        0x9c => machine.push(M::UNKNOWN),
        0x58..=0x5f => {
            let word = machine.pop();
            machine.set(opcode.own_register(), word);
        }
        0x9d => {
            machine.pop();
        }
        0x8f if opcode.byte(1) & 0x1f < 8 => {
            let word = machine.pop();
            operation.set_operand(machine, word);
        }
        0x89 if is_wide => {
            let value = machine.get(opcode.other(1));
            operation.set_operand(machine, value);
        }
        0xc7 if is_wide => operation.set_operand(machine, constant()),
        0x88 | 0x89 | 0xc6 | 0xc7 if opcode.target(1).is_none() => operation.set_operand(machine, M::UNKNOWN),
        0x8b if is_wide => {
            let value = operation.operand(machine);
            machine.set(opcode.other(1), value);
        }
        // lea takes no segment into account
        0x8d if is_wide => {
            let place = Operation { segment: 0, ..*operation }.place(machine);
            machine.set(opcode.other(1), place);
        }
        0x87 if is_wide && opcode.target(1).is_some() => {
            let (one, two) = (opcode.target(1).unwrap_or(RAX), opcode.other(1));
            let (first, second) = (machine.get(one), machine.get(two));
            machine.set(one, second);
            machine.set(two, first);
        }
        0xc9 => {
            machine.set(RSP, machine.get(RBP));
            let word = machine.pop();
            machine.set(RBP, word);
        }
        0xc2 | 0xc3 => return Flow::Return,
        0xe9 => return by_word().map_or(Flow::Lost, Flow::Jump),
        0xeb => return Flow::Jump(by_byte()),
        0xe8 => return by_word().map_or(Flow::Lost, Flow::Call),
        0xff => match opcode.extension(1) {
            2 => machine.forget(NOT_KEPT),
            // Through a word at a fixed place, or when the stack has just been given back: to another function.
            // Else by a table: one at a fixed address can be read, and elsewhere one of the places to which it leads
            // follows.
            4 if opcode.byte(1) == 0x25 || is_given_back => return Flow::Tail,
            4 if opcode.byte(1) == 0x24 && opcode.byte(2) & 7 == 5 => {
                return opcode
                    .constant()
                    .map_or(Flow::Lost, |at| Flow::Table(i64::from(at.cast_signed()).cast_unsigned()));
            }
            4 => {}
            6 => {
                let word = operation.operand(machine);
                machine.push(word);
            }
            0 | 1 => machine.forget(opcode.written()),
            _ => return Flow::Lost,
        },
        0x70..=0x7f | 0xe0..=0xe3 => {
            machine.forget(opcode.written());
            return Flow::Branch(by_byte());
        }
        0xcc | 0xf4 => return Flow::Dead,
        0xc8 | 0xca | 0xcb | 0xcd | 0xcf => return Flow::Lost,
        0x0f => match opcode.byte(1) {
            0x80..=0x8f => return by_word().map_or(Flow::Lost, Flow::Branch),
            0x0b | 0xb9 | 0xff => return Flow::Dead,
            0x05 if is_sigreturn => return Flow::Lost,
            _ => machine.forget(opcode.written()),
        },
        _ => machine.forget(opcode.written()),
    }
    before.is_given_back =
        matches!(first, 0x58..=0x5f | 0x81 | 0x83 | 0x8b | 0x8d | 0xc9) && machine.get(RSP) != rsp_before;
    before.is_sigreturn =
        matches!(first, 0xb8 | 0xc7) && opcode.written() == bit(RAX) && opcode.constant() == Some(15);
    Flow::Next
}
