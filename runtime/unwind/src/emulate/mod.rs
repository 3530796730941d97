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
//! last one that jumps beyond is taken, then the one before it. It is assumed that paths meet with the same stack.
//! Whoever uses the result must see whether the word there is an address behind a call.
//!
//! Signal safety: that of the memory that is given; 1.3 KB of stack; no panic path. Invariant: it ends after
//! as many instructions as it is given.

mod code;
mod state;
mod step;
mod values;

pub use state::{DWARF, Followed, Returned};
pub use values::{Kept, ReturnPlace, to_other_stack};

use super::rule::{Rule, RuleKind};
use super::stack::Memory;
use code::Code;
use state::{CODE, State, Value};
use step::{Before, Flow, Machine as _, NOT_KEPT, Operation, step};

/// Instructions that may be followed in one walk, in all tries together. From the start of OpenBLAS's dgemm for Haswell
/// there are 5,500 to its return.
pub const MOST: u32 = 6_000;
/// Jumps that are remembered.
const JUMPS: usize = 12;

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
) -> Followed {
    let mut code = Code::new(memory, range);
    let mut followed = Followed::Nowhere;
    // What assembly calls within itself may leave to its caller what other functions do not.
    for calls in [Calls::Passed, Calls::Followed] {
        let mut taken = u32::MAX;
        loop {
            let mut state = State::new();
            let mut jumps = Jumps::default();
            match follow(&mut code, &mut state, &mut jumps, start, (taken, calls), left, &known) {
                Try::Returned => match state.at_return() {
                    Followed::Nowhere => break,
                    Followed::OtherStack => {
                        followed = Followed::OtherStack;
                        break;
                    }
                    returned => return returned,
                },
                Try::Lost => break,
                Try::Dead(at) => match jumps.to_take(taken, code.offset(at)) {
                    Some(number) => taken = number,
                    None => break,
                },
            }
        }
    }
    followed
}

/// An address in the code, as a value.
fn place_in<M: Memory>(code: &Code<'_, M>, address: u64) -> Value {
    i32::try_from(code.offset(address)).map_or(Value::Unknown, |bytes| Value::Sum(CODE, bytes))
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
    let mut before = Before::default();
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
        let Some(operation) = Operation::new(bytes, at) else { return Try::Lost };
        let next = operation.next;
        let flow = step(state, &mut before, &operation);
        let target = match flow {
            Flow::Next => None,
            Flow::Branch(target) => (jumps.branch(code.offset(target)) == taken).then_some(target),
            // Where it has been before it would come again.
            Flow::Jump(_) if jumps.jump(code.offset(at)) => return Try::Dead(at),
            Flow::Jump(target) => Some(target),
            // Its first entry stands for all.
            Flow::Table(table) => code.data_word(table).filter(|target| code.contains(*target)),
            Flow::Call(target) if calls == Calls::Followed && code.contains(target) => {
                state.push(place_in(code, next));
                depth += 1;
                Some(target)
            }
            Flow::Call(_) => {
                state.forget(NOT_KEPT);
                None
            }
            Flow::Return => match state.top() {
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
    use super::step::{RBP, RSP};
    use super::*;
    use crate::rule::Emulated;

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
        to_return(&mut Bytes(code), AT, range, left, known).returned()?.rule().map(Rule::emulation)
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
        // jmp [0x1008 + rax * 8]; nop; the address of what follows; pop rbp; ret
        let table = b"\xff\x24\xc5\x08\x10\x00\x00\x90\x10\x10\x00\x00\x00\x00\x00\x00\x5d\xc3";
        assert_eq!(rule(table), by_rsp(16, -16));
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
