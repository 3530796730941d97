//! The number of a system call that x86-64 code makes, by a walk through its function from the start.
//!
//! Compilers load the number as a constant right before the call, or keep it in a register across several. So the walk
//! knows which registers hold constants, as the bytes lie: it takes no jumps. Where paths meet, it has what the last
//! one in the file left; the caller is told which other constants the function loads.
//!
//! Signal safety: the memory that is given, no other calls.

use crate::code::object_bytes::Bytes;
use pct_elf::Memory;
use pct_unwind::instructions::{ALL, Instruction, Opcode, RAX, RDX, Register, decode};

/// What a walk from a function's start found at an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Walk {
    /// No instruction begins there.
    WithinAnother,
    /// One does.
    Call {
        /// What eax holds, if it is a constant.
        number: Option<u32>,
        /// The constants that the function has loaded before.
        others: Constants,
    },
    /// There was something that is no instruction.
    Lost,
}

/// A set of small constants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Constants(u64);

impl Constants {
    /// Whether this one is in the set. Of large ones that is not known: none is.
    pub(super) fn contains(self, constant: u32) -> bool {
        constant < 64 && self.0 >> constant & 1 != 0
    }

    fn add(&mut self, constant: u32) {
        if constant < 64 {
            self.0 |= 1 << constant;
        }
    }
}

/// Bytes that the longest instruction may have.
const LONGEST: usize = 15;

/// Bytes before an address by which [`may_begin_at`] judges.
pub(super) const CONTEXT: usize = 96;

/// Whether an instruction may begin at `address`, at least [`CONTEXT`] bytes behind the start of its function.
///
/// Among so many addresses as the longest instruction has bytes one is an instruction's beginning. So walks from all of
/// them are made, from so far before that most have met by then. If none comes to `address`, nothing begins there. This
/// spares most of the long walks.
pub(super) fn may_begin_at(memory: Bytes<'_>, address: u64) -> bool {
    let mut context = [0u8; CONTEXT];
    if !memory.copy(address.wrapping_sub(CONTEXT as u64), &mut context) {
        return true;
    }
    (0..LONGEST).any(|start| {
        let mut at = start;
        while at < CONTEXT {
            // Bytes behind the address do not matter: what needs them goes on behind it.
            let code = context.get(at..).unwrap_or(&[]);
            let Some(instruction) = decode(code) else { return false };
            at += instruction.length;
        }
        at == CONTEXT
    })
}

/// Walks from `start`, the first address of a function, to the two bytes of a call at `address`.
pub(super) fn walk(memory: Bytes<'_>, start: u64, address: u64) -> Walk {
    const LONGEST: u64 = self::LONGEST as u64;
    let mut buffer = [0u8; 512];
    let (mut window, mut window_end) = (start, start);
    // Nothing behind the call is read: it may be the last one in memory.
    let limit = address.saturating_add(2);
    let mut registers = Registers::default();
    let mut at = start;
    while at < address {
        if window_end < limit && window_end - at < LONGEST {
            let length = usize::try_from(limit - at).unwrap_or(usize::MAX).min(buffer.len());
            if !buffer.get_mut(..length).is_some_and(|bytes| memory.copy(at, bytes)) {
                return Walk::Lost;
            }
            (window, window_end) = (at, at + length as u64);
        }
        let bytes = usize::try_from(at - window).ok().zip(usize::try_from(window_end - window).ok());
        let Some(code) = bytes.and_then(|(from, to)| buffer.get(from..to)) else { return Walk::Lost };
        match decode(code) {
            Some(instruction) => {
                registers.follow(effect(code, instruction));
                at += instruction.length as u64;
            }
            // It goes on behind the address.
            None if limit - at < LONGEST => return Walk::WithinAnother,
            None => return Walk::Lost,
        }
    }
    if at > address {
        return Walk::WithinAnother;
    }
    Walk::Call { number: registers.get(EAX), others: registers.loaded }
}

const EAX: Register = 0;

/// Those in which a called function may give something back. It may change others too, but then nobody reads them
/// behind the call: who does has come by a jump from where they were loaded.
const SET_BY_CALLS: u16 = RAX | RDX;

/// Those that a function restores before it returns: rbx, rbp, r12 to r15. What follows a return has come by a jump.
const RESTORED: u16 = 1 << 3 | 1 << 5 | 0xf << 12;

/// The constants that registers hold.
#[derive(Clone, Copy, Debug, Default)]
struct Registers {
    held: [Option<u32>; 16],
    /// A constant that the instruction before pushed.
    pushed: Option<u32>,
    loaded: Constants,
}

impl Registers {
    fn get(&self, register: Register) -> Option<u32> {
        self.held.get(usize::from(register)).copied().flatten()
    }

    fn set(&mut self, register: Register, constant: Option<u32>) {
        if let Some(place) = self.held.get_mut(usize::from(register)) {
            *place = constant;
        }
        if let Some(constant) = constant {
            self.loaded.add(constant);
        }
    }

    fn forget(&mut self, registers: u16) {
        let held = self.held.iter_mut().enumerate();
        held.filter(|(number, _)| registers >> number & 1 != 0).for_each(|(_, place)| *place = None);
    }

    fn follow(&mut self, effect: Effect) {
        let pushed = self.pushed.take();
        match effect {
            Effect::Loads(register, constant) => self.set(register, Some(constant)),
            Effect::Copies { to, from } => self.set(to, self.get(from)),
            Effect::Writes(registers) => self.forget(registers),
            Effect::Pushes(constant) => self.pushed = Some(constant),
            Effect::Pops(register) if pushed.is_none() && RESTORED >> register & 1 != 0 => {}
            Effect::Pops(register) => self.set(register, pushed),
        }
    }
}

/// What an instruction does to the registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Effect {
    /// A constant into a register.
    Loads(Register, u32),
    Copies {
        to: Register,
        from: Register,
    },
    /// Something else into these, a bit for each.
    Writes(u16),
    /// A constant onto the stack.
    Pushes(u32),
    Pops(Register),
}

fn effect(code: &[u8], instruction: Instruction) -> Effect {
    let opcode = Opcode::new(code, instruction);
    let load = |register| match opcode.constant() {
        Some(constant) => Effect::Loads(register, constant),
        None => Effect::Writes(ALL),
    };
    let writes = Effect::Writes(opcode.written());
    match opcode.byte(0) {
        0xb8..=0xbf if opcode.bytes().len() == 5 => load(opcode.own_register()),
        0xc7 if opcode.bytes().len() == 6 => opcode.target(1).map_or(writes, load),
        0x31 | 0x33 if opcode.target(1) == Some(opcode.other(1)) => Effect::Loads(opcode.other(1), 0),
        0x89 => opcode.target(1).map_or(writes, |to| Effect::Copies { to, from: opcode.other(1) }),
        0x8b => opcode.target(1).map_or(writes, |from| Effect::Copies { to: opcode.other(1), from }),
        0x6a => Effect::Pushes(u32::from(opcode.byte(1))),
        0x58..=0x5f => Effect::Pops(opcode.own_register()),
        0xe8 => Effect::Writes(SET_BY_CALLS),
        0xff if matches!(opcode.extension(1), 2 | 3) => Effect::Writes(SET_BY_CALLS),
        _ => writes,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pct_elf::BytesAt;

    const AT: u64 = 0x1000;

    /// Calls `f` with a memory that has this code at [`AT`], and with the address of its last two bytes.
    fn with<R>(code: &[u8], f: impl FnOnce(Bytes<'_>, u64) -> R) -> R {
        let memory = BytesAt { at: AT, bytes: code };
        f(Bytes(&|at, into| memory.copy(at, into)), AT + code.len() as u64 - 2)
    }

    /// What a walk from the first byte to the last two finds.
    fn walked(code: &[u8]) -> Walk {
        with(code, |memory, address| walk(memory, AT, address))
    }

    fn number(code: &[u8]) -> Option<u32> {
        match walked(code) {
            Walk::Call { number, .. } => number,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_number_is_followed_into_the_register() {
        for (code, want) in [
            (&b"\xb8\x0d\x00\x00\x00\x0f\x05"[..], Some(13)),
            (b"\x48\xc7\xc0\xca\x00\x00\x00\x0f\x05", Some(202)),
            (b"\x31\xc0\x0f\x05", Some(0)),
            (b"\x6a\x0d\x58\x0f\x05", Some(13)),
            // Kept in ebp across a call.
            (b"\xbd\xca\x00\x00\x00\xe8\x00\x00\x00\x00\x8b\x35\x01\x02\x03\x04\x48\x89\xdf\x89\xe8\x0f\x05", Some(202)),
            // In r12.
            (b"\x41\xbc\x09\x00\x00\x00\x44\x89\xe0\x0f\x05", Some(9)),
            // An argument.
            (b"\x48\x89\xf8\x48\x89\xf7\x0f\x05", None),
            // Of what the call before left.
            (b"\xb8\x27\x00\x00\x00\x0f\x05\x0f\x05", None),
            (b"\xb8\x27\x00\x00\x00\x83\xc0\x01\x0f\x05", None),
            (b"\xb8\x27\x00\x00\x00\xe8\x00\x00\x00\x00\x0f\x05", None),
            // A comparison, a jump not taken, and vectors.
            (b"\xb8\x27\x00\x00\x00\x85\xc9\x74\x02\x66\x0f\x6f\xc1\x0f\x05", Some(39)),
        ] {
            assert_eq!(number(code), want, "{code:02x?}");
        }
    }

    #[test]
    fn a_number_that_a_jump_may_bring_is_told() {
        // mov eax, 13; je over; mov eax, 14; over: syscall
        let code = b"\xb8\x0d\x00\x00\x00\x74\x05\xb8\x0e\x00\x00\x00\x0f\x05";
        let Walk::Call { number, others } = walked(code) else { panic!("a call") };
        assert_eq!(number, Some(14));
        assert!(others.contains(13) && !others.contains(15));
    }

    #[test]
    fn bytes_within_an_instruction_are_no_call() {
        // lea rsi, [rip + 0x50f1d], cut behind the two bytes; call with them
        for code in [&b"\x48\x8d\x35\x1d\x0f\x05"[..], b"\xe8\xf8\x0f\x05", b"\x0f\x84\x0f\x05"] {
            assert_eq!(walked(code), Walk::WithinAnother, "{code:02x?}");
        }
        // Data.
        assert_eq!(walked(&[[0x06; 20].as_slice(), b"\x0f\x05"].concat()), Walk::Lost);
        // Memory that cannot be read.
        assert_eq!(with(b"\x90\x90", |memory, _| walk(memory, AT, AT + 100)), Walk::Lost);
    }

    #[test]
    fn the_bytes_before_show_where_nothing_begins() {
        let mut code = b"\x89\xd8\x48\x8b\x45\x08\x85\xc0".repeat(16);
        let begins = |code: &[u8]| with(code, may_begin_at);
        code.extend(b"\x48\x8d\x35\x1d\x0f\x05");
        assert!(!begins(&code), "within an instruction");
        code.extend(b"\x00\xb8\x27\x00\x00\x00\x0f\x05");
        assert!(begins(&code), "a call");
        assert!(begins(b"\x90\x0f\x05"), "too little before it to tell");
    }

    #[test]
    fn long_functions_are_read_in_pieces() {
        let mut code = vec![0xb8, 0x0d, 0, 0, 0];
        while code.len() < 5000 {
            code.extend(b"\x66\x0f\x1f\x84\x00\x00\x00\x00\x00");
        }
        code.extend(b"\x0f\x05");
        assert_eq!(number(&code), Some(13));
    }
}
