//! SIGTRAP after the program has set an action for it: the traps of pct's ended events never reach the program.
//!
//! The clock `sigtrap` moves to another signal before the program's action counts ([`super::moves`]). But a thread
//! that lost its processor on the way out of the kernel still gets the trap of an event that has ended since, and
//! nothing tells when the last one has come. With the default action such a trap would kill the process; a handler
//! of the program would get a signal that it knows nothing of. So pct's action stays in front of the program's
//! ([`super::front`]), and drops them.
//!
//! Where the program sets its action by a system call that pct does not see, nothing stands in front of it.
//!
//! Signal safety: loads and stores, system calls.

use crate::process::session;
use crate::signal::clock::{inherited, perf};
use crate::signal::front::TRAP;
use crate::signal::masks;
use crate::sys::arch::{self, SigInfo, TRAP_PERF};
use crate::sys::{SIGTRAP, SigAction, signal_bit};

/// pct's action stands in front of the program's default one from now on.
pub(super) fn guard() {
    TRAP.stand(entry(), SigAction::default());
}

/// Address of what the kernel calls.
pub(super) fn entry() -> usize {
    arch::jump_to_answer::<Decide> as *const () as usize
}

/// What [`arch::jump_to_answer`] asks.
#[derive(Debug)]
pub(crate) struct Decide;

impl arch::Answer for Decide {
    /// Where to go on: the program's handler, or 0: the code that was interrupted goes on.
    unsafe extern "C" fn answer(signal: i32, info: *const u8, context: *const u8) -> usize {
        // SAFETY: the kernel's siginfo, used before this returns.
        let details = unsafe { SigInfo::new(info) };
        let session = session::current();
        if details.code() == TRAP_PERF && session.is_none_or(|s| is_of_our_event(s, details.perf_data())) {
            return 0;
        }
        // SAFETY: the kernel's arguments.
        if session.is_some_and(|s| unsafe { masks::give_way(s, signal, info, context) }) {
            return 0;
        }
        // (The kernel keeps the trap of an event until the thread lets it through; one of a breakpoint kills.)
        let is_blocked = details.code() != TRAP_PERF
            && session.is_some_and(|s| masks::believes_to_block(s, signal_bit(SIGTRAP)));
        // SAFETY: the kernel's context.
        unsafe { TRAP.hand_on(details.code(), context, is_blocked) }
    }
}

/// Whether one of pct's events, perhaps of a thread that has ended, may carry this.
fn is_of_our_event(session: &session::Session, data: u64) -> bool {
    data == inherited::DATA || session.rings.may_be_value(data & !perf::KERNEL_DATA)
}
