//! Which signals the clocks use: choosing them, installing the handler, and giving them back.
//!
//! When the host wants one of them, [`super::moves`] takes the clocks to another.
//!
//! Signal safety: system calls and bounded waits for locks; not for handlers.

use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicUsize, Ordering};

use crate::process::session::{self, Quiet, Refused, Session};
use crate::process::watch;
use crate::signal::clock::itimer;
use crate::sys::arch::{POLL_HUP, SI_TIMER, SigInfo};
use crate::sys::{self, SIG_DFL, SIG_IGN, SIGTRAP, SIGURG, SigAction, SignalSet, arch, signal_bit};
use pct_format::Clock;

/// Standard signals tried for the perf clock. (A standard signal cannot overflow a queue.) The first is ignored by
/// default: if the program sets it to its default action by a system call that we do not see, samples are lost and
/// nobody dies. Go chose it for its own clock for the same reasons. Of the others that are ignored by default SIGCONT
/// takes pending stops away, and SIGCHLD and SIGWINCH come from others all the time: with a handler on them they would
/// cut calls short. Of the rest nobody uses the first; few use the others without a handler.
const CLOCK_SIGNALS: [i32; 5] = [SIGURG, 16, 30, 27, 26];
/// SIGURG, SIGPROF and SIGVTALRM: gdb and lldb pass them to the program without a stop. While a debugger is there they
/// serve the clock and the tick.
const PASSED_BY_DEBUGGERS: [i32; 3] = [SIGURG, 27, 26];
/// Real-time signals tried for the tick where SIGURG is the program's own, from the top down: programs count from the
/// bottom.
const TICK_SIGNALS: core::ops::RangeInclusive<i32> = 40..=61;

/// Address of the handler that [`install`] puts on the signals, 0 = not known yet. [`crate::process::boot`] says it:
/// the handler uses this file, so this file cannot name the handler.
static ENTRY: AtomicUsize = AtomicUsize::new(0);

/// Names the handler for all signals of the clocks, before sampling starts for the first time.
pub(crate) fn set_entry(handler: usize) {
    ENTRY.store(handler, Ordering::Relaxed);
}

fn entry() -> usize {
    ENTRY.load(Ordering::Relaxed)
}

/// Chooses signals and installs the handler.
///
/// # Errors
/// No signal is free, or no handler was named.
pub fn install(session: &Session, asked: i32) -> Result<(), Refused> {
    let settings = &session.settings;
    let tick = settings.tick_signal.load(Ordering::Relaxed);
    let traced = settings.traced.load(Ordering::Relaxed);
    let (signal, tick) = choose(session.clock(), asked, tick, 0, traced).ok_or(Refused::NoSignal)?;
    settings.signal.store(signal, Ordering::Relaxed);
    settings.tick_signal.store(tick, Ordering::Relaxed);
    Ok(())
}

/// Numbers for the sampling clock and the tick, the latter the one that it has if that can be; none of
/// `avoid`. Our handler is installed on both.
pub(super) fn choose(
    clock: Clock,
    asked: i32,
    tick: i32,
    avoid: SignalSet,
    traced: bool,
) -> Option<(i32, i32)> {
    let free = |signal: &i32| signal_bit(*signal) & !avoid != 0 && take_if_free(*signal);
    let signal = match (itimer::which(clock), clock) {
        (_, Clock::Thread) => None,
        (Some((_, fixed)), _) => Some(Some(fixed).filter(free)?),
        (None, Clock::Sigtrap) => Some(Some(SIGTRAP).filter(free)?),
        // A queueing signal would turn into SIGIO, and kill, when its queue is full.
        (None, Clock::Perf) if asked >= 32 => return None,
        (None, _) if asked != 0 => Some(Some(asked).filter(free)?),
        (None, _) => {
            let passed = PASSED_BY_DEBUGGERS.into_iter().filter(|_| traced);
            Some(passed.chain(CLOCK_SIGNALS).find(free)?)
        }
    };
    // Clock and tick may share SIGURG: the kernel queues a timer's signal even if the same number is pending. An expiry
    // of the event is dropped then, but its signal is pending no longer than it takes to leave the kernel.
    let passed = PASSED_BY_DEBUGGERS.into_iter().filter(|_| traced);
    let others = passed.chain(TICK_SIGNALS.rev()).filter(|s| Some(*s) != signal);
    let tick = Some(tick).filter(free).or_else(|| core::iter::once(SIGURG).chain(others).find(free))?;
    Some((signal.unwrap_or(tick), tick))
}

/// How our handlers are installed.
pub(crate) fn action() -> SigAction {
    SigAction {
        handler: entry(),
        flags: sys::SA_SIGINFO | sys::SA_RESTART | sys::SA_ONSTACK | sys::SA_RESTORER,
        restorer: arch::restorer(),
        // All signals but the synchronous ones: nothing interrupts the handler, and a fault in the handler
        // itself is not held back.
        mask: !sys::FAULTS,
    }
}

/// The numbers that no debugger stops at.
pub(super) const fn passed_by_debuggers() -> SignalSet {
    let [first, second, third] = PASSED_BY_DEBUGGERS;
    signal_bit(first) | signal_bit(second) | signal_bit(third)
}

pub(super) fn set_plain(signal: i32, handler: usize) {
    // SAFETY: no handler is set.
    let _ = unsafe { sys::sigaction(signal, Some(&SigAction { handler, ..SigAction::default() })) };
}

pub(super) fn installed(signal: i32) -> bool {
    // SAFETY: only reads.
    let now = unsafe { sys::sigaction(signal, None) };
    now.is_ok_and(|a| a.handler == entry())
}

/// Takes a signal that nobody handles; puts back what was there if somebody does.
fn take_if_free(signal: i32) -> bool {
    if entry() == 0 {
        return false;
    }
    // SAFETY: the handler is made to run at any instant in any thread, and finds no session when there is none.
    let Ok(old) = (unsafe { sys::sigaction(signal, Some(&action())) }) else { return false };
    let free = old.handler == SIG_DFL || old.handler == entry();
    if !free {
        // SAFETY: the host's own action.
        let _ = unsafe { sys::sigaction(signal, Some(&old)) };
    }
    free
}

/// Whether a signal comes from one of our clocks, by its origin: on our number, from the kernel's event or
/// one of our timers.
#[must_use]
pub fn is_from_our_clocks(session: &Session, signal: i32, info: SigInfo) -> bool {
    let settings = &session.settings;
    (signal == settings.signal.load(Ordering::Relaxed) && is_expiry(signal, info))
        || (signal == settings.tick_signal.load(Ordering::Relaxed) && is_our_timer(session, info))
}

/// Whether a signal on a number of the sampling clock's comes from an event or the process's timer. (The kernel's own
/// SIGURG is for data out of band.)
pub(super) fn is_expiry(signal: i32, info: SigInfo) -> bool {
    info.code() > 0 && (signal != SIGURG || info.code() <= POLL_HUP)
}

fn is_our_timer(session: &Session, info: SigInfo) -> bool {
    info.code() == SI_TIMER && (info.value() == watch::WATCH || session.rings.may_be_value(info.value()))
}

/// What a move of our clocks owes to the host until its own call is done: see [`super::moves::give_way`].
pub struct HandOver {
    /// The host's signals that waited on the number.
    waiting: [MaybeUninit<sys::RawInfo>; MOST_WAITING],
    count: usize,
    signal: i32,
    /// All signals are blocked until the host's own action is set.
    _alone: Quiet,
}

/// Signals of the host's on one number that wait while it is given back: what is beyond is lost.
const MOST_WAITING: usize = 8;

impl HandOver {
    pub(super) fn new(signal: i32) -> Self {
        HandOver {
            waiting: [const { MaybeUninit::uninit() }; MOST_WAITING],
            count: 0,
            signal,
            _alone: session::alone(),
        }
    }

    /// Takes what waits for this thread and for the process, keeps what is the host's.
    pub(super) fn put_aside(&mut self, session: &Session) {
        while let Some(place) = self.waiting.get_mut(self.count) {
            let Some(info) = sys::take_pending_info(signal_bit(self.signal)) else { return };
            // SAFETY: the kernel has filled it.
            let details = unsafe { SigInfo::new(info.as_ptr().cast()) };
            let ours = is_expiry(self.signal, details) || is_our_timer(session, details);
            if !ours {
                place.write(info);
                self.count += 1;
            }
        }
    }
}

impl Drop for HandOver {
    fn drop(&mut self) {
        for info in self.waiting.iter().take(self.count) {
            // SAFETY: the first `count` were written by `put_aside`.
            let info = unsafe { info.assume_init_ref() };
            // SAFETY: as above: a siginfo_t of the kernel's.
            let code = unsafe { SigInfo::new(info.as_ptr().cast()) }.code();
            // SAFETY: a siginfo_t with this signal and code.
            unsafe { sys::send_again(self.signal, info.as_ptr().cast(), code) };
        }
    }
}

/// Takes our clocks' signals away that wait for the calling thread to let them through; the host's own stay.
pub(crate) fn drop_pending(session: &Session) {
    let settings = &session.settings;
    for signal in [&settings.signal, &settings.tick_signal] {
        HandOver::new(signal.load(Ordering::Relaxed)).put_aside(session);
    }
}

/// Gives both numbers back for good: sampling has ended, and none of our handlers may run from now on.
pub(crate) fn release(session: &Session) {
    let settings = &session.settings;
    for signal in [&settings.signal, &settings.tick_signal] {
        let signal = signal.swap(0, Ordering::Relaxed);
        // Ignoring a signal takes it away wherever it is pending. A trap stays ignored: one of an event that has
        // ended is still to come in a thread that lost its CPU on the way out of the kernel. (Those of breakpoints
        // kill all the same.)
        set_plain(signal, SIG_IGN);
        if signal != SIGTRAP {
            set_plain(signal, SIG_DFL);
        }
    }
}
