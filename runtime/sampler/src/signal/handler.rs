//! The signal handler: find the ring, take the time, write the sample. The heart of the house.
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
//! private memory; the mapped file is only written. All signals are blocked meanwhile, so it is never interrupted by itself
//! on one thread; the busy flag of a ring catches two threads on one.

use core::hint::cold_path;
use core::sync::atomic::Ordering;

use crate::process::session::{self, Session};
use crate::record::rings::Ring;
use crate::signal::clock::{self, inherited, period};
use crate::signal::system_time::go_by_timer;
use crate::signal::{host, masks, system_time};
use crate::sys::arch::{self, Regs, SI_TIMER, SigInfo, TRAP_PERF};
use crate::{code::callers, process::births, process::file, process::housekeeper, record::time, sys};
use pct_format::layout::header as at;
use pct_format::{Clock, CutCause, LossCause, record};

/// Frames that a sample itself may carry: a quarter of a segment. Of a deeper stack the innermost are kept.
const MOST_OWN_FRAMES: usize = 2048;
/// See [`goes_on_by_first`].
const MOST_PASSED_OVER: u32 = 3;

/// Address of the handler.
#[must_use]
pub fn entry() -> usize {
    arch::aligned::<OnSignal> as *const () as usize
}

/// The handler.
///
/// The sampling clock's way through it is one straight line, all else lies off it (`cold_path`): fresh out of the kernel the
/// processor knows neither the code nor its branches, so each jump and each line of cache costs more than the work itself.
struct OnSignal;

impl arch::Handler for OnSignal {
    unsafe extern "C" fn handle(signal: i32, info: *const u8, context: *const u8) {
        // SAFETY: the kernel's arguments, used before this returns.
        let (details, regs) = unsafe { (SigInfo::new(info), arch::regs(context)) };
        if let Some(session) = session::current()
            && details.code() > 0
            && signal == session.settings.signal.load(Ordering::Relaxed)
            && on_clock(session, details, regs)
        {
            return;
        }
        cold_path();
        if !on_tick_timer(signal, details, regs) {
            host::foreign(signal, info, context);
        }
    }
}

/// A signal of the sampling clock: a perf event's or the process's timer's. False: it is the host's.
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
        if clock != Clock::Perf as u32 {
            on_process_timer(session, regs);
            return true;
        }
        let ring = session.rings.own(session.may_call());
        if ring.is_some_and(|ring| !births::is_expiry(session, ring)) {
            return true;
        }
        ring
    };
    let Some(ring) = ring else {
        cold_path();
        without_ring(session);
        return true;
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

/// An event expired that all threads inherit. (One that was pending when they ended is nobody's.)
#[inline(never)]
fn on_inherited(session: &Session, regs: Regs) {
    if !session.inherited.is_on() {
        return;
    }
    let Some(ring) = session.rings.own(session.may_call()) else { return without_ring(session) };
    if ring.dice.load(Ordering::Relaxed) == 0 {
        cold_path();
        ring.dice.store(clock::random(u64::MAX) | 1, Ordering::Relaxed);
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
fn without_ring(session: &Session) {
    session.log.lose(LossCause::NoRing, 1, 1);
    session.stale.store(true, Ordering::Relaxed);
}

/// A signal that is not the sampling clock's. False: it is none of ours.
#[inline(never)]
fn on_tick_timer(signal: i32, info: SigInfo, regs: Regs) -> bool {
    let ours = info.code() == SI_TIMER;
    let Some(session) = session::current() else { return ours };
    if !ours || signal != session.settings.tick_signal.load(Ordering::Relaxed) {
        return false;
    }
    // A tick of a thread that was switched off meanwhile finds no ring: nothing to do.
    if info.value() == housekeeper::WATCH {
        housekeeper::on_watch(session);
    } else if let Some(ring) = session.rings.by_value(info.value()) {
        ring.seen.store(1, Ordering::Relaxed);
        on_tick(session, ring, regs, 1 + u64::from(info.overrun()));
    }
    true
}

/// The process's timer: whose time it was is not known by the signal, which comes to whoever runs. ITIMER_PROF is weighted
/// by the time that the thread used since its last sample; the others have no such measure.
#[inline(never)]
fn on_process_timer(session: &Session, regs: Regs) {
    let Some(ring) = session.rings.own(session.may_call()) else { return without_ring(session) };
    let clock = session.clock();
    let mut weight = 1;
    if clock == Clock::Itimer && session.may_call() {
        let period = session.settings.period_ns.load(Ordering::Relaxed);
        let accounted = ring.accounted_ns.load(Ordering::Relaxed);
        let cpu =
            sys::clock_ns(sys::CLOCK_THREAD_CPU).wrapping_sub(ring.armed_cpu_ns.load(Ordering::Relaxed));
        weight = (cpu.saturating_sub(accounted) + period / 2).checked_div(period).unwrap_or(1);
        if weight == 0 {
            // The time was another thread's, and comes with that one's next sample.
            return;
        }
        ring.accounted_ns.store(accounted + weight * period, Ordering::Relaxed);
    }
    sample_apart(
        session,
        ring,
        regs,
        weight,
        clock != Clock::ItimerVirtual && arch::after_system_call(regs.pc),
    );
}

/// Whether this is not the first expiry but a later one, by the period that was meant for the first alone: the kernel tells
/// nothing of an expiry that falls into itself and goes on by that period. What would be a second chance, and a third, is none:
/// short programs, which begin in the kernel, had a fifth too many samples by it. The next is due a whole period after the first.
///
/// Seen by the time alone, so where a signal takes longer than half of that period (under a tracer, say) each would look like a
/// later one: no more than [`MOST_PASSED_OVER`] are.
#[cold]
#[inline(never)]
fn goes_on_by_first(session: &Session, ring: &Ring) -> bool {
    let due = ring.first_at_ns.load(Ordering::Relaxed);
    let first = ring.first_ns.load(Ordering::Relaxed);
    let passed_over = ring.passed_over.load(Ordering::Relaxed);
    if due == 0
        || passed_over >= MOST_PASSED_OVER
        || !session.may_call()
        || !session.on.load(Ordering::Relaxed)
    {
        return false;
    }
    let now = sys::clock_ns(sys::CLOCK_THREAD_CPU);
    if now < due + first / 2 {
        return false;
    }
    ring.passed_over.store(passed_over + 1, Ordering::Relaxed);
    let settings = &session.settings;
    let period = settings.period_ns.load(Ordering::Relaxed).max(1);
    let next = due + ((now - due) / period + 1) * period;
    let left = (next - now).max(clock::SHORTEST_FIRST_NS.min(period));
    ring.first_at_ns.store(now + left, Ordering::Relaxed);
    ring.first_ns.store(left, Ordering::Relaxed);
    // Refused: the next expiry is looked at in the same way.
    let _ = clock::arm_perf(session, ring, left);
    true
}

/// Replaces the perf event by one of another period: at an expiry, so that no part of a period is lost, and before the sample is
/// taken. A process's first one takes longer than many a first period: that event would expire again meanwhile, and its signal,
/// held back until we return, would be one sample too many. Gives the weight of the sample that is due.
#[cold]
#[inline(never)]
fn set_period(session: &Session, ring: &Ring, regs: Regs) -> u64 {
    let wrong_period = ring.rearm.load(Ordering::Relaxed) == clock::PERIOD_WRONG;
    let nominal = session.settings.period_ns.load(Ordering::Relaxed);
    let weight = if wrong_period { 1 } else { period::weight(ring, ring.share.load(Ordering::Relaxed)) };
    ring.rearm.store(period::held_for(nominal), Ordering::Relaxed);
    ring.first_at_ns.store(0, Ordering::Relaxed);
    if ring.dice.load(Ordering::Relaxed) == 0 {
        ring.dice.store(clock::random(u64::MAX) | 1, Ordering::Relaxed);
    }
    if wrong_period {
        ring.share.store(period::ONE, Ordering::Relaxed);
    }
    masks::follow(session, ring, regs);
    if !session.may_call() || !session.on.load(Ordering::Relaxed) {
        return weight;
    }
    let drawn = period::draw(nominal);
    match clock::arm_perf(session, ring, drawn) {
        Ok(()) => ring.share.store(period::share(drawn, nominal), Ordering::Relaxed),
        // Refused (no descriptor free, say): the old event goes on. But one that was only to expire once, at a random point of the
        // period, must not go on so: each expiry would count as an entire period.
        Err(_) if wrong_period => go_by_timer(session, ring, nominal),
        Err(_) => {}
    }
    weight
}

/// A tick of the thread's CPU timer.
#[inline(never)]
fn on_tick(session: &Session, ring: &Ring, regs: Regs, expiries: u64) {
    masks::follow(session, ring, regs);
    if let Some(due) = system_time::at_tick(session, ring, regs, expiries) {
        sample_apart(session, ring, regs, due.weight, due.system);
    }
    if session.may_call() {
        housekeeper::maybe(session, housekeeper::clock());
    }
}

/// [`sample`] for those that are not in a hurry.
#[inline(never)]
fn sample_apart(session: &Session, ring: &Ring, regs: Regs, weight: u64, system: bool) {
    sample(session, ring, regs, weight, system);
}

/// Writes one sample.
#[inline(always)]
fn sample(session: &Session, ring: &Ring, regs: Regs, weight: u64, system: bool) {
    if !session.log.is_open() && !file::open_in_handler(session) {
        cold_path();
        // Another thread is making the file: the weight goes to this one's next sample.
        ring.carry.store(ring.carry.load(Ordering::Relaxed) + weight, Ordering::Relaxed);
        return;
    }
    let carried = ring.carry.load(Ordering::Relaxed);
    if carried != 0 {
        cold_path();
        ring.carry.store(0, Ordering::Relaxed);
    }
    let weight = weight + carried;
    if session.counts() {
        cold_path();
        count(session, regs.pc, weight, system);
        return;
    }
    // Plain load and store: on its own thread the handler cannot meet itself, and an owner that is on two threads at once
    // is what this is to notice, not to survive at every instruction.
    if ring.busy.load(Ordering::Relaxed) != 0 {
        cold_path();
        session.log.lose(LossCause::Busy, 1, weight);
        return;
    }
    if !ring.has_segment() {
        before_first(session);
    }
    ring.busy.store(1, Ordering::Relaxed);
    if callers::wanted(session, regs) {
        with_stack(session, ring, regs, weight, system);
    } else {
        record_sample(session, ring, (time::now(), regs.pc, weight, system), 0);
    }
    ring.busy.store(0, Ordering::Release);
}

/// The record of a sample whose stack is known. The caller holds the busy flag.
#[inline(always)]
fn record_sample(
    session: &Session,
    ring: &Ring,
    (now, pc, weight, system): (u64, u64, u64, bool),
    stack: u32,
) {
    if let Some(words) = record::short_sample(now, pc, weight, system, stack)
        && ring.append(&session.log, weight, &words)
    {
        return;
    }
    cold_path();
    record_seldom(session, ring, now, pc, weight, u64::from(system) << 32 | u64::from(stack));
}

/// A sample that begins a segment, or whose numbers are large. `rest`: the stack's number, and whether it is system time (bit 32);
/// all in registers.
#[cold]
#[inline(never)]
fn record_seldom(session: &Session, ring: &Ring, now: u64, pc: u64, weight: u64, rest: u64) {
    let (log, stack, system) = (&session.log, rest as u32, rest >> 32 != 0);
    match record::short_sample(now, pc, weight, system, stack) {
        Some(words) => ring.push(log, &session.rings, session.may_call(), 1, weight, &words, &[]),
        None => {
            let words = record::long_sample(now, pc, weight, system, stack);
            ring.push(log, &session.rings, session.may_call(), 1, weight, &words, &[])
        }
    };
}

/// A sample and its stack.
#[inline(never)]
fn with_stack(session: &Session, ring: &Ring, regs: Regs, weight: u64, system: bool) {
    let mut spare = [0; 1];
    let frames = callers::words(session, ring, regs, &mut spare);
    // After the walk, which may have found a new region: the sample belongs to it, so it is not older.
    let sample = (time::now(), regs.pc, weight, system);
    match session.stacks.id(&session.log, &session.keep, session.may_call(), frames) {
        Some(stack) => record_sample(session, ring, sample, stack),
        None => with_frames(session, ring, sample, frames),
    }
}

/// A thread's first sample, and one in a program of short threads, which never tick: the segments of the dead among them
/// should be there for it. (A program of few threads is looked at by its ticks: a round before it has made them would only
/// put off the one that finds them.)
#[cold]
#[inline(never)]
fn before_first(session: &Session) {
    const MANY: u32 = 32;
    if session.rings.count() > MANY && session.may_call() && session.stale.load(Ordering::Relaxed) {
        housekeeper::maybe(session, housekeeper::clock());
    }
}

/// A sample that carries its own stack: the table of stacks is full, or somebody else is writing it.
#[cold]
#[inline(never)]
fn with_frames(
    session: &Session,
    ring: &Ring,
    (now, pc, weight, system): (u64, u64, u64, bool),
    frames: &mut [u64],
) {
    if let Some(last) = frames.get_mut(MOST_OWN_FRAMES - 1) {
        *last = record::Frame::Cut(CutCause::Depth).encode();
    }
    let frames = frames.get(..frames.len().min(MOST_OWN_FRAMES)).unwrap_or(&[]);
    let head = record::sample_with_frames(now, pc, weight, system, frames.len());
    ring.push(&session.log, &session.rings, session.may_call(), 1, weight, &head, frames);
}

/// Recorder `counts`: one addition.
#[inline(always)]
fn count(session: &Session, pc: u64, weight: u64, system: bool) {
    let log = &session.log;
    if session.changing.load(Ordering::Relaxed) {
        cold_path();
        log.header_add(at::UNCERTAIN, weight);
    }
    if system {
        cold_path();
        log.header_add(at::COUNTED_SYSTEM, weight);
        return;
    }
    if let Some(region) = session.regions.find(pc)
        && let Some(place) = region.counter(pc)
        && let Some(counter) = log.header(place)
    {
        counter.fetch_add(weight, Ordering::Relaxed);
        return;
    }
    cold_path();
    count_in_new_place(session, pc, weight);
}

/// The first sample in a region makes its counters; one in code that is not known yet makes us look at the regions.
#[cold]
#[inline(never)]
fn count_in_new_place(session: &Session, pc: u64, weight: u64) {
    let log = &session.log;
    let worth_it = match session.regions.find(pc) {
        Some(region) => region.may_have_counters(),
        None => {
            session.stale.store(true, Ordering::Relaxed);
            callers::look_again(session)
        }
    };
    if worth_it
        && session.may_call()
        && let Some(mut house) = session.house.try_lock()
    {
        house.wanted_pc = pc;
        housekeeper::on_own_stack(session, &mut house, housekeeper::provide_counters);
    }
    match session.regions.find(pc).and_then(|region| log.header(region.counter(pc)?)) {
        Some(counter) => {
            counter.fetch_add(weight, Ordering::Relaxed);
        }
        None => log.header_add(at::UNKNOWN, weight),
    }
}
