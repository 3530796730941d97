//! Signals of the clocks that the program takes for itself under a filter on system calls.
//!
//! Otherwise the clocks move to another signal then ([`super::moves`]). Under a filter that may end the program: a move
//! takes calls that nobody knows to be allowed. So sampling is over then, and the file says so. Where the filter is
//! known to allow what stops the clocks, they are stopped, and the signal is the program's.
//!
//! Elsewhere they go on. But one call is known to be allowed: the program is about to set the signal's action. So this
//! one call is made with pct's action, which stands in front of the program's ([`super::front`]). What the clocks send
//! from then on is dropped, because it comes with the program's flags and on its stack. (The kernel keeps one signal of
//! a number: what the program sends while one of a clock's is pending is dropped with that.)
//!
//! Signal safety: loads and stores; system calls as said.

use core::sync::atomic::{AtomicBool, Ordering};

use crate::process::session::{self, Session};
use crate::process::{life, threads, watch};
use crate::signal::clock::itimer;
use crate::signal::{front, numbers, trap};
use crate::sys::arch::{self, SigInfo};
use crate::sys::{SIGTRAP, signal_bit};
use pct_format::OffFor;

/// The program has set the process's timer that was our clock: all its signals are the program's.
static TIMER_IS_PROGRAMS: AtomicBool = AtomicBool::new(false);

/// The program is about to set its action for `signal`, which is the clocks'. If system calls are forbidden, sampling
/// ends: pct's action will stand in front of the program's ([`front::Front::set_host`] comes next), or, if clocks
/// `may_be_stopped`, the number is the program's.
pub fn give_way(session: &Session, signal: i32, may_be_stopped: bool) {
    if session.may_call() || session.signals() & signal_bit(signal) == 0 {
        return;
    }
    life::note_off_for(session, Some(OffFor::Taken));
    if may_be_stopped && let Some(_switching) = session::switching() {
        if session.on.swap(false, Ordering::Relaxed) {
            watch::stop_watching(session);
            threads::disarm_all(session);
        }
        numbers::release(session);
        if signal != SIGTRAP {
            return;
        }
    }
    let Some(front) = front::of_clocks(signal) else { return };
    front.stand_when_set(if signal == SIGTRAP {
        trap::entry()
    } else {
        arch::jump_to_answer::<Decide> as *const () as usize
    });
}

/// The program is about to set a timer of its process: `which` as for setitimer. `by_setitimer`: it makes that call.
///
/// If system calls are forbidden, that call is known to be allowed, so our timer is stopped by it: none of its signals
/// is left when the program's may come.
pub fn before_timer_is_set(which: i32, by_setitimer: bool) {
    let Some(session) = session::current().filter(|session| !session.may_call()) else { return };
    if itimer::which(session.clock()).is_some_and(|(ours, _)| ours == which)
        && !TIMER_IS_PROGRAMS.load(Ordering::Relaxed)
    {
        if by_setitimer {
            itimer::disarm(session.clock());
        }
        TIMER_IS_PROGRAMS.store(true, Ordering::Relaxed);
    }
}

/// What [`arch::jump_to_answer`] asks.
#[derive(Debug)]
struct Decide;

impl arch::Answer for Decide {
    /// Where to go on: the program's handler, or 0: the code that was interrupted goes on.
    unsafe extern "C" fn answer(signal: i32, info: *const u8, context: *const u8) -> usize {
        let Some(front) = front::of_signal(signal) else { return 0 };
        // SAFETY: the kernel's siginfo, used before this returns.
        let details = unsafe { SigInfo::new(info) };
        if is_from_clocks(signal, details) {
            return 0;
        }
        // SAFETY: the kernel's context.
        unsafe { front.hand_on(details.code(), context, false) }
    }
}

fn is_from_clocks(signal: i32, details: SigInfo) -> bool {
    let Some(session) = session::current() else {
        // In the child of a fork, by an event that it inherits.
        return numbers::is_expiry(signal, details);
    };
    // The process's timer says no more than that it is the kernel's.
    let is_of_process_timer = itimer::which(session.clock()).is_some_and(|(_, fixed)| fixed == signal);
    if is_of_process_timer && details.code() > 0 && TIMER_IS_PROGRAMS.load(Ordering::Relaxed) {
        return false;
    }
    numbers::is_from_our_clocks(session, signal, details)
}
