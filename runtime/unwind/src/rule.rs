//! One word that says how to get from a frame to its caller.
//!
//! For nearly every instruction of compiled code this is enough: the CFA is rsp or rbp plus bytes, the return address
//! is right below it, and the caller's rbp is unchanged or saved at a distance from it. A [`Rule`] is that, packed so
//! that a cache slot has room for it and its key. Whatever does not fit is [`RuleKind::Full`] and is interpreted with
//! all registers.

use super::cfi::{Cfa, Fde, RegisterLocation, Row, reg};
use super::expr::{self, Folded};

/// The kind of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum RuleKind {
    /// Not a rule: an empty cache slot.
    Empty = 0,
    /// CFA = rsp + offset.
    Sp = 1,
    /// CFA = rbp + offset.
    Bp = 2,
    /// CFA = *(rsp + load) + offset.
    LoadSp = 3,
    /// CFA = *(rbp + load) + offset.
    LoadBp = 4,
    /// A frame that the kernel made to deliver a signal: everything is in the `ucontext` at rsp.
    Signal = 5,
    /// The outermost frame.
    End = 6,
    /// Code without unwind data: use the chain of frame pointers.
    Fp = 7,
    /// No known code at this address.
    Unknown = 8,
    /// Interpret the unwind data with all registers.
    Full = 9,
    /// The unwind data is malformed.
    Bad = 10,
    /// Code without unwind data, by what it does up to its return ([`Emulated`]).
    Emulated = 11,
    /// Code without unwind data that returns on another stack, by what lies in memory
    /// ([`to_other_stack`](crate::emulate::to_other_stack)).
    OtherStack = 12,
}

/// What code without unwind data does up to its return: CFA = *(base + load) + offset, or base + offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Emulated {
    /// A general register, by its number in the instruction set.
    pub base: u8,
    /// Bytes from the register to the word that is loaded.
    pub load: Option<i32>,
    /// Bytes from the register (or the loaded word) to the CFA.
    pub offset: i32,
    /// Bytes from the CFA to the saved rbp; 0: rbp already has the caller's value; [`Emulated::LOST`]: it is not known.
    pub bp: i32,
}

impl Emulated {
    /// As `bp`: the caller's rbp is not known. (Functions that assembly calls within itself may change it.)
    pub const LOST: i32 = -8 << (WORD_BITS - 1);
}

/// A packed rule. Bits 0..4 kind, 4..20 `load`, 20..42 `offset`, 42..64 `bp` (each signed; `bp` zero: unchanged).
/// [`RuleKind::Emulated`]: 4..8 base, 8..24 one more than `load` (0: none), 24..44 `offset`, 44..64 `bp`, these three
/// in words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule(u64);

const LOAD_BITS: u32 = 16;
const OFFSET_BITS: u32 = 22;
const BP_BITS: u32 = 22;
const WORD_BITS: u32 = 20;

fn fits(v: i64, bits: u32) -> bool {
    let limit = 1i64 << (bits - 1);
    (-limit..limit).contains(&v)
}

fn field(v: i64, bits: u32) -> u64 {
    v as u64 & ((1 << bits) - 1)
}

impl Rule {
    /// The empty slot.
    pub const EMPTY: Rule = Rule(0);

    /// A rule without numbers.
    pub const fn plain(kind: RuleKind) -> Rule {
        Rule(kind as u64)
    }

    fn cfa(kind: RuleKind, load: i64, offset: i64, bp: i64) -> Rule {
        if !fits(load, LOAD_BITS) || !fits(offset, OFFSET_BITS) || !fits(bp, BP_BITS) {
            return Rule::plain(RuleKind::Full);
        }
        Rule(
            kind as u64
                | field(load, LOAD_BITS) << 4
                | field(offset, OFFSET_BITS) << (4 + LOAD_BITS)
                | field(bp, BP_BITS) << (64 - BP_BITS),
        )
    }

    /// Packs what code does up to its return. `None`: it does not fit.
    pub fn emulated(emulated: Emulated) -> Option<Rule> {
        let words = |bytes: i32| (bytes % 8 == 0).then_some(i64::from(bytes / 8));
        let load = match emulated.load {
            Some(load) => words(load)? + 1,
            None => 0,
        };
        let (offset, bp) = (words(emulated.offset)?, words(emulated.bp)?);
        let is_load_told = emulated.load.is_none() || load != 0;
        if !is_load_told || !fits(load, LOAD_BITS) || !fits(offset, WORD_BITS) || !fits(bp, WORD_BITS) {
            return None;
        }
        Some(Rule(
            RuleKind::Emulated as u64
                | u64::from(emulated.base & 15) << 4
                | field(load, LOAD_BITS) << 8
                | field(offset, WORD_BITS) << (8 + LOAD_BITS)
                | field(bp, WORD_BITS) << (64 - WORD_BITS),
        ))
    }

    /// What was packed in a rule of kind [`RuleKind::Emulated`].
    pub fn emulation(self) -> Emulated {
        // Each field as the top bits of a signed number: fewer than 2^20 words are fewer than 2^23 bytes.
        let load = (self.0 << (64 - LOAD_BITS - 8)).cast_signed() >> (64 - LOAD_BITS);
        let offset = (self.0 << WORD_BITS).cast_signed() >> (64 - WORD_BITS);
        let bp = self.0.cast_signed() >> (64 - WORD_BITS);
        Emulated {
            base: (self.0 >> 4 & 15) as u8,
            load: (load != 0).then_some((load as i32 - 1) * 8),
            offset: offset as i32 * 8,
            bp: bp as i32 * 8,
        }
    }

    /// The word for a cache.
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// A rule from a cached word. Any word is some rule.
    pub const fn from_bits(bits: u64) -> Rule {
        Rule(bits)
    }

    /// The kind of the step.
    #[inline(always)]
    pub const fn kind(self) -> RuleKind {
        match self.0 & 15 {
            1 => RuleKind::Sp,
            2 => RuleKind::Bp,
            3 => RuleKind::LoadSp,
            4 => RuleKind::LoadBp,
            5 => RuleKind::Signal,
            6 => RuleKind::End,
            7 => RuleKind::Fp,
            8 => RuleKind::Unknown,
            9 => RuleKind::Full,
            10 => RuleKind::Bad,
            11 => RuleKind::Emulated,
            12 => RuleKind::OtherStack,
            _ => RuleKind::Empty,
        }
    }

    /// Bytes from the register to the word that is loaded.
    #[inline(always)]
    pub const fn load(self) -> i64 {
        ((self.0 << (64 - LOAD_BITS - 4)) as i64) >> (64 - LOAD_BITS)
    }

    /// Bytes from the register (or the loaded word) to the CFA.
    #[inline(always)]
    pub const fn offset(self) -> i64 {
        ((self.0 << BP_BITS) as i64) >> (64 - OFFSET_BITS)
    }

    /// Bytes from the CFA to the saved rbp; 0: rbp already has the caller's value.
    #[inline(always)]
    pub const fn bp(self) -> i64 {
        (self.0 as i64) >> (64 - BP_BITS)
    }

    /// The rule for the instruction at `pc`, which `fde` covers.
    pub fn compile(fde: &Fde<'_>, pc: u64) -> Rule {
        match fde.row(pc) {
            Some(row) => Rule::of_row(fde, &row, pc),
            None => Rule::plain(RuleKind::Bad),
        }
    }

    /// Packs a row of `fde`.
    fn of_row(fde: &Fde<'_>, row: &Row, pc: u64) -> Rule {
        let signal = fde.signal;
        let full = Rule::plain(RuleKind::Full);
        let folded = match row.cfa {
            Cfa::None => return Rule::plain(RuleKind::Bad),
            Cfa::Reg(r, o) => Some(Folded::Reg(r, i64::from(o))),
            Cfa::Expr(number) => {
                let (bytes, at) = fde.expression(number);
                expr::fold(bytes, at, pc)
            }
        };
        if signal && folded == Some(Folded::Load(reg::RSP, ucontext::RSP as i64, 0)) {
            return Rule::plain(RuleKind::Signal);
        }
        match row.place(reg::RA) {
            RegisterLocation::Undefined => return Rule::plain(RuleKind::End),
            RegisterLocation::At(-8) if !signal => {}
            _ => return full,
        }
        if !matches!(row.place(reg::RSP), RegisterLocation::Same | RegisterLocation::Value(0)) {
            return full;
        }
        let bp = match row.place(reg::RBP) {
            RegisterLocation::Same => 0,
            RegisterLocation::At(k) if k != 0 => i64::from(k),
            _ => return full,
        };
        match folded {
            Some(Folded::Reg(reg::RSP, o)) => Rule::cfa(RuleKind::Sp, 0, o, bp),
            Some(Folded::Reg(reg::RBP, o)) => Rule::cfa(RuleKind::Bp, 0, o, bp),
            Some(Folded::Load(reg::RSP, l, o)) => Rule::cfa(RuleKind::LoadSp, l, o, bp),
            Some(Folded::Load(reg::RBP, l, o)) => Rule::cfa(RuleKind::LoadBp, l, o, bp),
            _ => full,
        }
    }
}

/// Layout of the x86-64 `ucontext` that the kernel stores at rsp for a signal handler: part of the kernel's interface.
pub mod ucontext {
    /// The general registers, in the kernel's order.
    pub const GREGS: u64 = 40;
    /// The interrupted stack pointer: register 15 of that order.
    pub const RSP: u64 = GREGS + 15 * 8;
    /// Number of registers: r8-r15, rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp, rip.
    pub const COUNT: usize = 17;
    /// For each DWARF number (16: rip) its index in that order.
    pub const OF_DWARF: [u8; COUNT] = [13, 12, 14, 11, 9, 8, 10, 15, 0, 1, 2, 3, 4, 5, 6, 7, 16];
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn numbers_come_out_as_they_went_in_or_the_rule_is_full(load in -70_000i64..70_000, offset in -5_000_000i64..5_000_000, bp in -5_000_000i64..5_000_000) {
            let r = Rule::cfa(RuleKind::LoadBp, load, offset, bp);
            if r.kind() == RuleKind::LoadBp {
                prop_assert_eq!((r.load(), r.offset(), r.bp()), (load, offset, bp));
            } else {
                prop_assert_eq!(r.kind(), RuleKind::Full);
                prop_assert!(!(fits(load, 16) && fits(offset, 22) && fits(bp, 22)));
            }
        }

        #[test]
        fn what_code_does_comes_out_as_it_went_in_or_does_not_fit(base in 0u8..16, load in proptest::option::of(-40_000i32..40_000), offset in -700_000i32..700_000, bp in -700_000i32..700_000) {
            let emulated = Emulated { base, load: load.map(|words| words * 8), offset: offset * 8, bp: bp * 8 };
            match Rule::emulated(emulated) {
                Some(rule) => prop_assert_eq!((rule.kind(), rule.emulation()), (RuleKind::Emulated, emulated)),
                None => prop_assert!(load.is_some_and(|load| load == -1 || !fits(i64::from(load) + 1, 16)) || !fits(i64::from(offset), 20) || !fits(i64::from(bp), 20)),
            }
            prop_assert_eq!(Rule::emulated(Emulated { offset: 4, ..emulated }), None);
        }

        #[test]
        fn any_word_is_a_rule(bits in any::<u64>()) {
            let r = Rule::from_bits(bits);
            let _ = (r.kind(), r.load(), r.offset(), r.bp(), r.emulation());
        }
    }
}
