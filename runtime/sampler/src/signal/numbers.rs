//! Which signals the clocks use: choosing them, installing the handler, and giving them to the host when it wants them.
//!
//! Nothing of the host's is imitated: when it takes a number of ours (an action, a timer, a wait), the number becomes its own in
//! the kernel, and our clocks move to another one ([`give_way`]). The order of a move keeps our signals away from the host's
//! handler:
//!
//! 1. our handler is installed on the new numbers, and they are published;
//! 2. the clocks of all threads end; one that is being set up at this moment sees the new numbers and is set up again;
//! 3. signals of the host's own that wait on the old number are put aside; then ignoring it for a moment makes the kernel drop
//!    what is pending in all threads;
//! 4. the clocks start on the new numbers, and the host's call goes on. What was put aside is sent again.
//!
//! A thread that is in our handler for the old number at this moment goes on in it, and drops that signal ([`super::host`]).
//!
//! Signal safety: system calls and bounded waits for locks; not for handlers.

use core::mem::MaybeUninit;
use core::sync::atomic::{Ordering, fence};

use crate::process::session::{self, Quiet, Refused, Session};
use crate::process::{file, housekeeper, threads};
use crate::signal::clock::{self, itimer};
use crate::signal::handler;
use crate::sys::arch::{SI_TIMER, SigInfo};
use crate::sys::{self, SigAction, SignalSet, arch, signal_bit};
use pct_format::layout::header as at;
use pct_format::{Clock, LossCause};

/// Standard signals tried for the perf clock. Nobody uses the first; few use the others without a handler. (Not one that is ignored
/// by default: it would wake threads that sleep.) A standard signal cannot overflow a queue.
const CLOCK_SIGNALS: [i32; 4] = [16, 30, 27, 26];
const SIGTRAP: i32 = 5;
/// SIGPROF and SIGVTALRM: gdb and lldb pass them to the program without a stop. While a debugger is there they serve
/// the clock and the tick.
const PASSED_BY_DEBUGGERS: [i32; 2] = [27, 26];
/// Real-time signals tried for the tick, from the top down: programs count from the bottom.
const TICK_SIGNALS: core::ops::RangeInclusive<i32> = 40..=61;
/// The default action.
pub(crate) const SIG_DFL: usize = 0;
/// The host's action for a signal without a handler that is to be ignored.
pub(crate) const SIG_IGN: usize = 1;

/// Chooses signals and installs the handler.
///
/// # Errors
/// No signal is free.
pub fn install(session: &Session, asked: i32) -> Result<(), Refused> {
    let settings = &session.settings;
    let tick = settings.tick_signal.load(Ordering::Relaxed);
    let traced = settings.traced.load(Ordering::Relaxed);
    let (signal, tick) = choose(session.clock(), asked, tick, 0, traced).ok_or(Refused::NoSignal)?;
    settings.signal.store(signal, Ordering::Relaxed);
    settings.tick_signal.store(tick, Ordering::Relaxed);
    Ok(())
}

/// Numbers for the sampling clock and the tick, the latter the one that it has if that can be; none of `avoid`. Our handler is
/// installed on both.
fn choose(clock: Clock, asked: i32, tick: i32, avoid: SignalSet, traced: bool) -> Option<(i32, i32)> {
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
    let others = PASSED_BY_DEBUGGERS.into_iter().filter(|_| traced).chain(TICK_SIGNALS.rev());
    let tick = Some(tick).filter(free).or_else(|| others.filter(|s| Some(*s) != signal).find(free))?;
    Some((signal.unwrap_or(tick), tick))
}

fn action() -> SigAction {
    SigAction {
        handler: handler::entry(),
        flags: sys::SA_SIGINFO | sys::SA_RESTART | sys::SA_ONSTACK | sys::SA_RESTORER,
        restorer: arch::restorer(),
        // All but the synchronous ones: nothing interrupts us, and a fault of ours is not held back.
        mask: !sys::FAULTS,
    }
}

fn set_plain(signal: i32, handler: usize) {
    // SAFETY: no handler is set.
    let _ = unsafe { sys::sigaction(signal, Some(&SigAction { handler, ..SigAction::default() })) };
}

fn installed(signal: i32) -> bool {
    // SAFETY: only reads.
    let now = unsafe { sys::sigaction(signal, None) };
    now.is_ok_and(|a| a.handler == handler::entry())
}

/// Takes a signal that nobody handles; puts back what was there if somebody does.
fn take_if_free(signal: i32) -> bool {
    // SAFETY: the handler is made to run at any instant in any thread, and finds no session when there is none.
    let Ok(old) = (unsafe { sys::sigaction(signal, Some(&action())) }) else { return false };
    let free = old.handler == SIG_DFL || old.handler == handler::entry();
    if !free {
        // SAFETY: the host's own action.
        let _ = unsafe { sys::sigaction(signal, Some(&old)) };
    }
    free
}

/// Whether a signal comes from one of our clocks, by its origin: on our number, from the kernel's event or one of our timers.
#[must_use]
pub fn is_from_our_clocks(session: &Session, signal: i32, info: SigInfo) -> bool {
    let settings = &session.settings;
    (signal == settings.signal.load(Ordering::Relaxed) && info.code() > 0)
        || (signal == settings.tick_signal.load(Ordering::Relaxed) && is_our_timer(session, info))
}

fn is_our_timer(session: &Session, info: SigInfo) -> bool {
    info.code() == SI_TIMER
        && (info.value() == housekeeper::WATCH || session.rings.may_be_value(info.value()))
}

/// What a move of our clocks owes to the host until its own call is done: see [`give_way`].
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
    fn new(signal: i32) -> Self {
        HandOver {
            waiting: [const { MaybeUninit::uninit() }; MOST_WAITING],
            count: 0,
            signal,
            _alone: session::alone(),
        }
    }

    /// Takes what waits for this thread and for the process, keeps what is the host's.
    fn put_aside(&mut self, session: &Session) {
        while let Some(place) = self.waiting.get_mut(self.count) {
            let Some(info) = sys::take_pending_info(signal_bit(self.signal)) else { return };
            // SAFETY: the kernel has filled it.
            let details = unsafe { SigInfo::new(info.as_ptr().cast()) };
            let ours = details.code() > 0 || is_our_timer(session, details);
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

/// The host is about to use `signal` for itself, which is ours: it becomes the host's, with the default action as if we had never
/// been there, and our clocks move to another number. The host's own call comes while the answer lives.
///
/// `None`: it is not ours. The new number is none of `avoid`. If no other is free, sampling ends, and says so.
#[must_use]
pub fn give_way(session: &Session, signal: i32, avoid: SignalSet) -> Option<HandOver> {
    let is_ours = || session.signals() & signal_bit(signal) != 0;
    // (A child of vfork has our memory, and a table of actions of its own.)
    if !is_ours() || !session.may_call() || sys::getpid() != session.pid.load(Ordering::Relaxed) {
        return None;
    }
    let mut hand_over = HandOver::new(signal);
    let _switching = session::switching()?;
    if !is_ours() {
        return None;
    }
    move_clocks(session, signal_bit(signal), avoid, || {
        hand_over.put_aside(session);
        // Ignoring a signal takes it away wherever it is pending.
        set_plain(signal, SIG_IGN);
        set_plain(signal, SIG_DFL);
    });
    Some(hand_over)
}

/// Whether our handlers are still in place. If the host took a signal in a way that we do not see, its clock moves to another.
pub fn still_ours(session: &Session) -> bool {
    if !session.on.load(Ordering::Relaxed) {
        // Off already: the process's timer, if there is one, is the host's own by now.
        return false;
    }
    let taken = |of: &core::sync::atomic::AtomicI32| {
        let signal = of.load(Ordering::Relaxed);
        if installed(signal) { 0 } else { signal_bit(signal) }
    };
    let settings = &session.settings;
    let taken = taken(&settings.signal) | taken(&settings.tick_signal);
    if taken != 0 {
        move_with_house(session, taken, 0, || ());
    }
    session.on.load(Ordering::Relaxed)
}

/// If a debugger has come, which would stop the program at each of our signals, the clocks move to signals that it
/// lets pass. The caller holds the housekeeper's lock.
///
/// Not where the clock or the signal was named. Nor where a controller attached: that one is a tracer itself at times.
pub(crate) fn give_way_to_tracer(session: &Session) {
    let settings = &session.settings;
    let options = &session::seed().options;
    if settings.traced.load(Ordering::Relaxed)
        || !session.on.load(Ordering::Relaxed)
        || !matches!(options.clock, Clock::Auto | Clock::Perf | Clock::Thread)
        || options.signal != 0
        || session.by_controller()
        || !threads::is_traced()
    {
        return;
    }
    settings.traced.store(true, Ordering::Relaxed);
    move_with_house(session, session.signals(), 0, || ());
}

/// The sampling clock becomes each thread's CPU timer, for good. The caller holds the housekeeper's lock.
pub(crate) fn go_by_timers(session: &Session) {
    let settings = &session.settings;
    let period = settings.period_ns.load(Ordering::Relaxed);
    let hz = 1_000_000_000u64.checked_div(period).unwrap_or(0).max(1);
    let expected = clock::first_choice(Clock::Thread, hz).expected_mhz;
    settings.clock.store(Clock::Thread as u32, Ordering::Relaxed);
    settings.expected_mhz.store(expected, Ordering::Relaxed);
    move_with_house(session, 0, 0, || ());
    if session.log.is_open() {
        session.log.header_set(at::RATE_GOT, expected);
    }
}

/// [`move_with_house`] by one who is not the housekeeper.
fn move_clocks(session: &Session, taken: SignalSet, avoid: SignalSet, between: impl FnOnce()) {
    // A round in another thread arms clocks. (Who does not let go of the lock for a second is stopped or dead: then what is armed
    // meanwhile is found by the next round.)
    let _house = session.house.lock_patiently();
    move_with_house(session, taken, avoid, between);
}

/// Takes our clocks' signals away that wait for the calling thread to let them through; the host's own stay.
pub(crate) fn drop_pending(session: &Session) {
    let settings = &session.settings;
    for signal in [&settings.signal, &settings.tick_signal] {
        HandOver::new(signal.load(Ordering::Relaxed)).put_aside(session);
    }
}

/// Gives both numbers back for good: sampling has ended, and no handler of ours may run from now on.
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

/// Ends the clocks that use numbers in `taken`, does `between`, and starts them on others that are not in `avoid` either.
fn move_with_house(session: &Session, taken: SignalSet, avoid: SignalSet, between: impl FnOnce()) {
    let settings = &session.settings;
    let (old_signal, old_tick) =
        (settings.signal.load(Ordering::Relaxed), settings.tick_signal.load(Ordering::Relaxed));
    let on = session.on.load(Ordering::Relaxed);
    let mut clock = session.clock();
    let kept = |signal: i32| if signal_bit(signal) & taken == 0 { signal } else { 0 };
    // What is not taken stays, although it may be one that the host would rather see elsewhere.
    let avoid = taken | avoid & !session.signals();
    let mut chosen = None;
    while on && chosen.is_none() {
        chosen = choose(clock, kept(old_signal), old_tick, avoid, settings.traced.load(Ordering::Relaxed));
        clock = match (chosen, clock) {
            (None, Clock::Sigtrap) => Clock::Perf,
            (None, Clock::Perf) => Clock::Thread,
            (None, _) => break,
            (Some(_), clock) => clock,
        };
    }
    let (signal, tick) = chosen.unwrap_or_else(|| {
        session.on.store(false, Ordering::Relaxed);
        (kept(old_signal), kept(old_tick))
    });
    // The numbers before the clocks end: whoever arms one at this moment sees that they changed.
    settings.clock.store(clock as u32, Ordering::Relaxed);
    settings.signal.store(signal, Ordering::Relaxed);
    settings.tick_signal.store(tick, Ordering::Relaxed);
    fence(Ordering::SeqCst);
    if chosen.is_none() {
        housekeeper::stop_watching(session);
        threads::disarm_all(session);
        between();
        if on {
            say_taken(session, clock);
        }
        return;
    }
    housekeeper::stop_watching(session);
    threads::change_clocks(session, between);
    housekeeper::watch(session);
    if session.log.is_open() {
        session.log.header_set(at::CLOCK_GOT, clock as u64);
        session.log.header_set(at::SIGNAL, signal as u64);
        session.log.header_set(at::TICK_SIGNAL, tick as u64);
    }
}

/// Counts and reports that the host has all the signals that we could use.
fn say_taken(session: &Session, clock: Clock) {
    session.log.lose(LossCause::Taken, 1, 0);
    file::report(if itimer::which(clock).is_some() {
        b"the program uses the itimer's signal itself: sampling by clock=itimer ends there (clock=auto does not need it)"
    } else {
        b"the program took the sampling signal for itself and no other is free: sampling ends there"
    });
}

/// Switches sampling on and off by `signal`, until the process ends.
pub fn listen(signal: i32) {
    let action = SigAction { handler: arch::aligned::<OnToggle> as *const () as usize, ..action() };
    // SAFETY: `OnToggle` is made to run at any instant in any thread.
    let _ = unsafe { sys::sigaction(signal, Some(&action)) };
}

struct OnToggle;

impl arch::Handler for OnToggle {
    unsafe extern "C" fn handle(_: i32, _: *const u8, _: *const u8) {
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
}
