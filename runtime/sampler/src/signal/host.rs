//! Signals on one of our numbers that our clocks did not send: somebody sent the program a signal for which it has no
//! handler.
//!
//! When the program sets an action for one of our numbers, the number becomes its own ([`super::moves`]).
//! So its action here is always the default one, and what would have happened without us happens.
//!
//! Signal safety: system calls.

use crate::process::session;
use crate::signal::masks;
use crate::sys::arch::{SI_TIMER, SigInfo};
use crate::sys::{self, SIGTRAP, SigAction};

/// What a breakpoint has for si_code, beside the kernel's own 0x80.
const TRAP_HWBKPT: i32 = 4;

/// A signal that, by the present settings, none of our clocks has sent.
#[cold]
#[inline(never)]
pub(crate) fn foreign(signal: i32, info: *const u8, context: *const u8) {
    // SAFETY: the kernel's siginfo, used before this returns.
    let code = unsafe { SigInfo::new(info) }.code();
    // Of a clock that was moved to another number, or switched off, after this signal was sent. (A trap
    // instruction is the host's.)
    let breakpoint = signal == SIGTRAP && (code <= TRAP_HWBKPT || code == 0x80);
    if code == SI_TIMER || code > 0 && !breakpoint {
        return;
    }
    // SAFETY: the kernel's arguments.
    if session::current().is_some_and(|s| unsafe { masks::give_way(s, signal, info, context) }) {
        return;
    }
    if sys::IGNORED_BY_DEFAULT & sys::signal_bit(signal) != 0 {
        return;
    }
    let default = SigAction { handler: sys::SIG_DFL, ..Default::default() };
    // SAFETY: no handler is set; the process is to die of this signal, as it would have.
    let _ = unsafe { sys::sigaction(signal, Some(&default)) };
    let _ = sys::tgkill(sys::getpid(), sys::gettid(), signal);
    sys::sigmask(sys::Mask::Unblock, sys::signal_bit(signal));
}
