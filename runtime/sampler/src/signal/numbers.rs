//! Which signals the clocks use: choosing them, installing the handler, and losing them to the host.
//!
//! Signal safety: system calls.

use core::sync::atomic::Ordering;

use crate::process::file;
use crate::process::session::{self, Refused, Session};
use crate::signal::clock::itimer;
use crate::signal::handler::on_signal;
use crate::signal::host::{SIG_DFL, keep_host};
use crate::sys::{self, SigAction, arch};
use pct_format::{Clock, LossCause};

/// Standard signal of the perf clock: nobody uses it, and standard signals cannot overflow a queue.
const SIGSTKFLT: i32 = 16;
const SIGTRAP: i32 = 5;
/// Real-time signals tried for the tick, from the top down: programs count from the bottom.
const TICK_SIGNALS: core::ops::RangeInclusive<i32> = 40..=61;

/// Chooses signals and installs the handler.
///
/// # Errors
/// No signal is free.
pub fn install(session: &Session, asked: i32) -> Result<(), Refused> {
    let settings = &session.settings;
    let clock = session.clock();
    let signal = match (itimer::which(clock), clock) {
        (Some((_, fixed)), _) => fixed,
        (None, Clock::Sigtrap) => SIGTRAP,
        // A queueing signal would turn into SIGIO, and kill, when its queue is full.
        (None, Clock::Perf) if asked >= 32 => return Err(Refused::NoSignal),
        (None, _) if asked != 0 => asked,
        (None, _) => SIGSTKFLT,
    };
    if clock != Clock::Thread {
        take(signal).map_err(|_| Refused::NoSignal)?;
    }
    let mut tick = settings.tick_signal.load(Ordering::Relaxed);
    if tick == 0 {
        tick = TICK_SIGNALS.rev().find(|s| *s != signal && take_if_free(*s)).ok_or(Refused::NoSignal)?;
    } else {
        take(tick).map_err(|_| Refused::NoSignal)?;
    }
    settings.signal.store(if clock == Clock::Thread { tick } else { signal }, Ordering::Relaxed);
    settings.tick_signal.store(tick, Ordering::Relaxed);
    Ok(())
}

fn action() -> SigAction {
    SigAction {
        handler: on_signal as *const () as usize,
        flags: sys::SA_SIGINFO | sys::SA_RESTART | sys::SA_ONSTACK | sys::SA_RESTORER,
        restorer: arch::restorer(),
        // All but the synchronous ones: nothing interrupts us, and a fault of ours is not held back.
        mask: !sys::FAULTS,
    }
}

fn take(signal: i32) -> sys::Result<()> {
    // SAFETY: the handler is made to run at any instant in any thread, and finds no session when there is none.
    let old = unsafe { sys::sigaction(signal, Some(&action())) }?;
    if old.handler != on_signal as *const () as usize {
        keep_host(signal, old);
    }
    Ok(())
}

fn installed(signal: i32) -> bool {
    // SAFETY: only reads.
    let now = unsafe { sys::sigaction(signal, None) };
    now.is_ok_and(|a| a.handler == on_signal as *const () as usize)
}

/// Takes a signal that nobody handles; puts back what was there if somebody does.
fn take_if_free(signal: i32) -> bool {
    // SAFETY: as in `take`.
    let Ok(old) = (unsafe { sys::sigaction(signal, Some(&action())) }) else { return false };
    let free = old.handler == SIG_DFL || old.handler == on_signal as *const () as usize;
    if !free {
        // SAFETY: the host's own action.
        let _ = unsafe { sys::sigaction(signal, Some(&old)) };
    }
    free
}

/// Whether our handlers are still in place. If the host took a signal in a way that we do not see, its clock is stopped:
/// the host's handler must not get our signals.
pub fn still_ours(session: &Session) -> bool {
    if !session.on.load(Ordering::Relaxed) {
        // Off already: the process's timer, if there is one, is the host's own by now.
        return false;
    }
    let settings = &session.settings;
    let tick = settings.tick_signal.load(Ordering::Relaxed);
    let signal = settings.signal.load(Ordering::Relaxed);
    if installed(tick) && installed(signal) {
        return true;
    }
    session.on.store(false, Ordering::Relaxed);
    crate::process::threads::disarm_all(session);
    say_taken(session);
    false
}

/// Counts and reports that the host has our signal now.
pub fn say_taken(session: &Session) {
    session.log.lose(LossCause::Taken, 1, 0);
    file::report(
        b"the program took the sampling signal for itself: sampling ends there (try another: signal=N)",
    );
}

/// Gives a signal up whose number the kernel fixes (that of a plain itimer), since the host installs a handler for it: the
/// host's own timer is that same timer, so its signals could not be told from ours. True: it is the host's from now on.
pub fn yield_fixed(session: &Session, signal: i32) -> bool {
    let fixed = itimer::which(session.clock()).is_some_and(|(_, fixed)| fixed == signal);
    if !fixed || !session.on.swap(false, Ordering::Relaxed) {
        return false;
    }
    crate::process::threads::disarm_all(session);
    itimer::disarm(session.clock());
    session.settings.signal.store(0, Ordering::Relaxed);
    session.log.lose(LossCause::Taken, 1, 0);
    file::report(
        b"the program handles the itimer's signal itself: sampling by clock=itimer ends there (clock=auto does not need it)",
    );
    true
}

/// Switches sampling on and off by `signal`, until the process ends.
pub fn listen(signal: i32) {
    let action = SigAction { handler: on_toggle as *const () as usize, ..action() };
    // SAFETY: `on_toggle` is made to run at any instant in any thread.
    let _ = unsafe { sys::sigaction(signal, Some(&action)) };
}

extern "C" fn on_toggle(_: i32, _: *const u8, _: *const u8) {
    match session::current().filter(|s| s.on.load(Ordering::Relaxed)) {
        Some(session) => session::stop(session, pct_format::State::Stopped),
        None => {
            if let Err(refused) = session::start() {
                file::report(match refused {
                    Refused::Clock(_) => b"the clock does not work here: sampling stays off",
                    _ => b"sampling could not be switched on",
                });
            }
        }
    }
}
