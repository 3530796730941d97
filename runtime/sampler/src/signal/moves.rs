//! Moving the clocks to other signals, when the host wants one of pct's signal numbers or a debugger has come; and
//! to another kind of clock.
//!
//! When the host wants one of pct's signal numbers (for an action, a timer or a wait), the kernel's settings of that
//! number become the host's, and the clocks move to another number ([`give_way`]). SIGTRAP is the exception: there
//! pct's action stays in front of the host's, because traps of ended events may come later ([`super::trap`]).
//!
//! The order of a move keeps pct's signals away from the host's handler:
//!
//! 1. our handler is installed on the new numbers, and they are published;
//! 2. the clocks of all threads end; one that is being set up at this moment sees the new numbers and is set up again;
//! 3. signals of the host's own that wait on the old number are put aside; then ignoring it for a moment
//!    makes the kernel drop what is pending in all threads;
//! 4. the clocks start on the new numbers, and the host's call goes on. What was put aside is sent again.
//!
//! A thread that is in our handler for the old number at this moment goes on in it, and drops that signal
//! ([`super::host`]).
//!
//! Signal safety: system calls and bounded waits for locks; [`look_for_tracer`] and [`follow_waits`] are for handlers.

use core::sync::atomic::{AtomicI32, Ordering, fence};

use crate::code::system_calls;
use crate::process::own_stack::on_own_stack;
use crate::process::session::{self, Session};
use crate::process::{report, tasks, threads, watch};
use crate::record::time;
use crate::signal::clock::{self, inherited, itimer};
use crate::signal::numbers::{self, HandOver};
use crate::signal::stores_may_fault::StoresMayFault;
use crate::signal::trap;
use crate::sys::{self, SIG_DFL, SIG_IGN, SIGTRAP, SignalSet, signal_bit};
use pct_format::layout::header as at;
use pct_format::{Clock, LossCause};

/// The host is about to use `signal` for itself, which is ours: it becomes the host's, with the default
/// action as if we had never been there, and our clocks move to another number. The host's own call comes
/// while the answer lives.
///
/// `None`: it is not ours. The new number is not in `avoid`. If no other is free, sampling ends, and says so.
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
        numbers::set_plain(signal, SIG_IGN);
        if signal == SIGTRAP {
            trap::guard();
        } else {
            numbers::set_plain(signal, SIG_DFL);
        }
    });
    Some(hand_over)
}

/// Whether our handlers are still in place. If the host took a signal in a way that we do not see, its clock
/// moves to another.
pub fn still_ours(session: &Session) -> bool {
    if !session.on.load(Ordering::Relaxed) {
        // Off already: the process's timer, if there is one, is the host's own by now.
        return false;
    }
    let taken = |of: &AtomicI32| {
        let signal = of.load(Ordering::Relaxed);
        if numbers::installed(signal) { 0 } else { signal_bit(signal) }
    };
    let settings = &session.settings;
    let taken = taken(&settings.signal) | taken(&settings.tick_signal);
    if taken != 0 {
        move_with_house(session, taken, 0, || ());
    }
    session.on.load(Ordering::Relaxed)
}

/// Says at the end if the program has set the action of one of our signals where we do not see it, and no clock could
/// be moved to another since.
pub(crate) fn say_if_taken_unseen(session: &Session) {
    let settings = &session.settings;
    let signals = [&settings.signal, &settings.tick_signal].map(|of| of.load(Ordering::Relaxed));
    if session.on.load(Ordering::Relaxed)
        && !system_calls::none_found()
        && !signals.into_iter().all(numbers::installed)
    {
        session.log.lose(LossCause::Taken, 1, 0);
        report::report(b"the program set the action of the sampling signal by a system call of its own: sampling ended there");
    }
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
        || !tasks::is_traced()
    {
        return;
    }
    settings.traced.store(true, Ordering::Relaxed);
    let stopped_at = session.signals() & !numbers::passed_by_debuggers();
    if stopped_at != 0 {
        move_with_house(session, stopped_at, 0, || ());
    }
}

/// Least time between two looks for a debugger beside those of the rounds.
const TRACER_LOOKS_APART_NS: u64 = 100_000_000;

/// The samples of a thread do not come although it uses time: perhaps a debugger keeps the signals. (gdb stops at
/// each SIGTRAP, and does not hand it on.)
pub(crate) fn look_for_tracer(session: &Session) {
    let now = time::monotonic_ns();
    let last = session.looked_for_tracer.load(Ordering::Relaxed);
    if now.wrapping_sub(last) < TRACER_LOOKS_APART_NS || session.settings.traced.load(Ordering::Relaxed) {
        return;
    }
    // A round that is under way in another thread holds the lock: then the next tick looks.
    if let Some(mut house) = session.house.try_lock() {
        session.looked_for_tracer.store(now, Ordering::Relaxed);
        on_own_stack(session, &mut house, |session, _| give_way_to_tracer(session));
    }
}

/// If code has come that may set signals' actions behind our back, no clock stays whose signal could kill then. The
/// caller holds the housekeeper's lock.
pub(crate) fn give_way_to_own_calls(session: &Session) {
    let clock = session.clock();
    if !clock::needs_safe_actions(clock)
        || !system_calls::actions_may_change()
        || !session.on.load(Ordering::Relaxed)
    {
        return;
    }
    itimer::disarm(clock);
    let settings = &session.settings;
    settings.clock.store(Clock::Perf as u32, Ordering::Relaxed);
    move_with_house(session, signal_bit(settings.signal.load(Ordering::Relaxed)), 0, || ());
}

/// The clocks of many threads, by how often these wait: see [`inherited`]. The caller holds the housekeeper's lock.
pub(crate) fn follow_waits(session: &Session) {
    if session.clock() != Clock::Sigtrap || session.rings.living().nth(1).is_none() {
        return;
    }
    let Some(waits) = session.inherited.waits_a_second() else { return };
    if session.inherited.is_on() {
        if waits < inherited::FEW_WAITS {
            threads::event_for_each(session);
        }
    } else if waits > inherited::MANY_WAITS && session::seed().options.clock == Clock::Auto {
        go_by_timers(session);
    }
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
    let _stores = StoresMayFault::in_thread(session.may_call());
    // A round in another thread arms clocks. (Who does not let go of the lock for a second is stopped or
    // dead: then what is armed meanwhile is found by the next round.)
    let _house = session.house.lock_patiently(true);
    move_with_house(session, taken, avoid, between);
}

/// Ends the clocks that use numbers in `taken`, does `between`, and starts them on others that are not in
/// `avoid` either.
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
        chosen = numbers::choose(
            clock,
            kept(old_signal),
            old_tick,
            avoid,
            settings.traced.load(Ordering::Relaxed),
        );
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
        watch::stop_watching(session);
        threads::disarm_all(session);
        between();
        if on {
            say_taken(session, clock);
        }
        return;
    }
    watch::stop_watching(session);
    threads::change_clocks(session, between);
    watch::watch(session, watch::ROUND_NS);
    if session.log.is_open() {
        session.log.header_set(at::CLOCK_GOT, clock as u64);
        session.log.header_set(at::SIGNAL, signal as u64);
        session.log.header_set(at::TICK_SIGNAL, tick as u64);
    }
}

/// Counts and reports that the host has all the signals that we could use.
fn say_taken(session: &Session, clock: Clock) {
    session.log.lose(LossCause::Taken, 1, 0);
    if itimer::which(clock).is_some() {
        report::report(
            b"the program uses the itimer's signal itself: sampling by clock=itimer ends there (clock=auto does not need it)",
        );
    } else {
        report::report_outside(
            b"the program took the sampling signal for itself and no other is free: sampling ends there",
        );
    }
}
