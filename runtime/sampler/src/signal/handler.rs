//! The signal handler: whose signal it is, which thread's, and what it stands for. [`super::sample`] writes it.
//!
//! ```text
//! perf / SIGTRAP    user mode, the sampling clock            -> sample(user)
//! timer, tick       CPU time of the thread: what perf did
//!                   not see was system time                  -> sample(system), housekeeper
//! timer, sampling   tick-bound clock: user or system by the
//!                   thread's own accounts                    -> sample(user | system), housekeeper
//! anything else     the host's signal                        -> the host's handler
//! ```
//!
//! Between entry and return: no allocation, no waiting, no libc, no errno, no panic. Everything it reads to decide is
//! private memory; the mapped file is only written. All signals are blocked meanwhile, so it is never
//! interrupted by itself on one thread; the busy flag of a ring catches two threads on one.

use core::hint::cold_path;
use core::sync::atomic::Ordering;

use crate::process::session::{self, Session};
use crate::process::{births, housekeeper, watch};
use crate::record::rings::Ring;
use crate::record::time;
use crate::signal::clock::{self, bounded, inherited, period, tick};
use crate::signal::expiry::{goes_on_by_first, set_period};
use crate::signal::lent::{OnStackWithRoom, WithRoom};
use crate::signal::sample::{sample, sample_apart};
use crate::signal::system_time::{Due, MetAt};
use crate::signal::{bus, host, kernel, masks, system_time};
use crate::sys;
use crate::sys::arch::{self, POLL_HUP, Regs, SI_TIMER, SigInfo, TRAP_PERF};
use pct_format::{Clock, LossCause};

/// Address of the handler.
#[must_use]
pub fn entry() -> usize {
    arch::aligned::<WithRoom<OnSignal>> as *const () as usize
}

/// The handler.
///
/// The sampling clock's way through it is one straight line, all else lies off it (`cold_path`): fresh out of
/// the kernel the processor knows neither the code nor its branches, so each jump and each line of cache
/// costs more than the work itself.
struct OnSignal;

impl OnStackWithRoom for OnSignal {
    #[inline(always)]
    unsafe fn handle(signal: i32, info: *const u8, context: *const u8) {
        // SAFETY: the kernel's arguments, used before this returns.
        let (details, regs) = unsafe { (SigInfo::new(info), arch::regs(context)) };
        // SAFETY: the same.
        if unsafe { arch::interrupted_mask(context) } & sys::signal_bit(sys::SIGBUS) != 0 {
            cold_path();
            bus::open_in_handler();
        }
        if let Some(session) = session::current()
            && details.code() > 0
            && signal == session.settings.signal.load(Ordering::Relaxed)
            && on_clock(session, details, regs)
        {
            return;
        }
        cold_path();
        if !on_clock_without_ring(signal, details, regs) && !on_tick_timer(signal, details, regs) {
            host::foreign(signal, info, context);
        }
    }
}

/// A signal of the sampling clock: a perf event's or the process's timer's. False: it is the host's, or no
/// thread's that has a ring ([`on_clock_without_ring`]; to call that from here would cost each sample 5 ns).
#[inline(always)]
fn on_clock(session: &Session, info: SigInfo, regs: Regs) -> bool {
    let clock = session.settings.clock.load(Ordering::Relaxed);
    let ring = if clock == Clock::Sigtrap as u32 {
        if info.code() != TRAP_PERF {
            cold_path();
            return false;
        }
        if info.perf_data() == inherited::DATA {
            on_inherited(session, regs);
            return true;
        }
        session.rings.by_value(info.perf_data())
    } else {
        cold_path();
        if clock == Clock::Thread as u32 {
            // Its timers' signals have another code.
            return false;
        }
        if clock != Clock::Perf as u32 {
            on_process_timer(session, regs);
            return true;
        }
        if info.code() > POLL_HUP {
            return false;
        }
        let ring = session.rings.own(session.may_call());
        if ring.is_some_and(|ring| !births::is_expiry(session, ring)) {
            return true;
        }
        ring
    };
    let Some(ring) = ring else {
        cold_path();
        return false;
    };
    let rearm = ring.rearm.load(Ordering::Relaxed);
    if rearm == clock::PERIOD_WRONG {
        cold_path();
        if goes_on_by_first(session, ring) {
            return true;
        }
    }
    let period = ring.period_ns.load(Ordering::Relaxed);
    ring.accounted_ns.store(ring.accounted_ns.load(Ordering::Relaxed) + period, Ordering::Relaxed);
    let weight = if matches!(rearm, 0 | clock::PERIOD_WRONG) {
        cold_path();
        set_period(session, ring, regs)
    } else {
        ring.rearm.store(rearm - 1, Ordering::Relaxed);
        period::weight(ring, ring.share.load(Ordering::Relaxed))
    };
    if weight == 0 {
        cold_path();
        return true;
    }
    sample(session, ring, regs, weight, false);
    true
}

/// A perf event's signal that [`on_clock`] found no ring for: of an event that counts time in the kernel, or
/// of a thread that is not known yet. False: it is the host's.
#[cold]
#[inline(never)]
fn on_clock_without_ring(signal: i32, info: SigInfo, regs: Regs) -> bool {
    let Some(session) = session::current() else { return false };
    let clock = session.settings.clock.load(Ordering::Relaxed);
    let is_clocks = clock == Clock::Perf as u32 && info.code() <= POLL_HUP
        || clock == Clock::Sigtrap as u32 && info.code() == TRAP_PERF;
    if !is_clocks || info.code() <= 0 || signal != session.settings.signal.load(Ordering::Relaxed) {
        return false;
    }
    if !kernel::on_signal(session, info.perf_data(), regs) {
        without_ring(session);
    }
    true
}

/// An event expired that all threads inherit. (One that was pending when they ended is nobody's.)
#[inline(never)]
fn on_inherited(session: &Session, regs: Regs) {
    if !session.inherited.is_on() {
        return;
    }
    let Some(ring) = session.rings.own(session.may_call()) else { return without_ring(session) };
    if ring.dice.load(Ordering::Relaxed) == 0 {
        cold_path();
        ring.dice.store(sys::random(u64::MAX) | 1, Ordering::Relaxed);
    }
    if session.inherited.sees_kernel() {
        cold_path();
        return kernel::on_inherited(session, ring, regs);
    }
    let (ns, share) = session.inherited.expired();
    ring.accounted_ns.store(ring.accounted_ns.load(Ordering::Relaxed) + ns, Ordering::Relaxed);
    let weight = period::weight(ring, share);
    if weight != 0 {
        sample(session, ring, regs, weight, false);
    }
}

#[cold]
#[inline(never)]
pub(super) fn without_ring(session: &Session) {
    session.rings.without_slot(|| {
        // In a session that ended the file may be unmapped: the thread's next samples stand for its time.
        if session.on.load(Ordering::SeqCst) {
            session.log.lose(LossCause::NoRing, 1, 1);
            session.stale.store(true, Ordering::Relaxed);
        }
    });
}

/// Handles the signal of the tick timer. False: the signal is not from that timer.
#[inline(never)]
fn on_tick_timer(signal: i32, info: SigInfo, regs: Regs) -> bool {
    let ours = info.code() == SI_TIMER;
    let Some(session) = session::current() else { return ours };
    if !ours || signal != session.settings.tick_signal.load(Ordering::Relaxed) {
        return false;
    }
    // A tick of a thread that was switched off meanwhile finds no ring: nothing to do.
    if info.value() == watch::WATCH {
        housekeeper::on_watch(session);
    } else if let Some(ring) = session.rings.by_value(info.value()) {
        ring.seen.store(1, Ordering::Relaxed);
        on_tick(session, ring, regs, 1 + u64::from(info.overrun()));
    }
    true
}

/// The process's timer: whose time it was is not known by the signal, which comes to whoever runs. ITIMER_PROF expires
/// at each tick that meets a thread, and is booked like a tick of the thread's own timer; the others have no such
/// measure.
#[inline(never)]
fn on_process_timer(session: &Session, regs: Regs) {
    let Some(ring) = session.rings.own(session.may_call()) else { return without_ring(session) };
    let clock = session.clock();
    if clock == Clock::Itimer {
        if let Some(due) = system_time::at_process_tick(session, ring, regs) {
            sample_at(session, ring, regs, due);
        }
        return;
    }
    let system = clock != Clock::ItimerVirtual && arch::after_system_call(regs, session.may_call());
    sample_apart(session, ring, regs, 1, system);
}

/// A tick of the thread's CPU timer.
#[inline(never)]
fn on_tick(session: &Session, ring: &Ring, regs: Regs, expiries: u64) {
    masks::follow(session, ring, regs);
    if bounded::are_clocks_bounded() {
        cold_path();
        bounded::start_timer_again(session, ring);
    }
    if let Some(due) = system_time::at_tick(session, ring, regs, expiries) {
        sample_at(session, ring, regs, due);
    }
    if session.may_call() && housekeeper::maybe(session, time::monotonic_ns()) {
        tick::own_work_ends(ring);
    }
}

/// Writes the sample of a tick. `regs`: where it met the thread.
fn sample_at(session: &Session, ring: &Ring, regs: Regs, due: Due) {
    let place = match due.place {
        MetAt::Here => regs,
        MetAt::Sampler => Regs { pc: entry() as u64, context: 0 },
        MetAt::Unknown => Regs::default(),
    };
    sample_apart(session, ring, place, due.weight, due.system);
}
