//! Arming threads, finding new ones, retiring the dead.
//!
//! A thread is armed by itself (the first one, and those whose creation passes through us) or by the
//! housekeeper through its id. Before the housekeeper arms anybody it retires the dead, so that the base of a
//! control block that was used again never leads to a dead thread's ring.
//!
//! Signal safety: system calls; the housekeeper's lock is held by whoever retires or discovers.

use core::sync::atomic::{Ordering, fence};

use crate::code::regions::keep_record;
use crate::process::session::{self, House, Session};
use crate::process::{passing, previous, tasks};
use crate::record::log::Log;
use crate::record::rings::Ring;
use crate::signal::clock::by_timer::go_by_timer;
use crate::signal::clock::{self, bounded, itimer, perf, period, thread_timer, tick};
use crate::signal::put_off::record_put_off;
use crate::signal::stores_may_fault::StoresMayFault;
use crate::signal::{masks, numbers};
use crate::sys::text::parse_number;
use crate::sys::{self, Errno, SignalSet};
use pct_format::head::kind;
use pct_format::layout::{Wanted, header as at};
use pct_format::record::Encoder;
use pct_format::{Clock, LossCause};

/// Arms the calling thread as the first of the process: here it shows whether the clock works. In a handler
/// all signals are blocked, which says nothing about the host: there the thread is armed as any other.
///
/// # Errors
/// The kernel's refusal of the clock.
pub fn arm_first(session: &Session, in_handler: bool) -> sys::Result<()> {
    let clock = session.clock();
    if itimer::which(clock).is_some() {
        itimer::arm(clock, session.settings.period_ns.load(Ordering::Relaxed))?;
    }
    arm(session, sys::gettid(), !in_handler, true)
}

/// Arms a thread of this process. `own`: it is the caller. `strict`: a refusal of the clock is an error; else the
/// thread falls back to its CPU timer.
///
/// # Errors
/// The kernel's refusal; ENOSPC when the table is full.
pub fn arm(session: &Session, tid: u32, own: bool, strict: bool) -> sys::Result<()> {
    if session.rings.by_tid(tid).is_some() {
        if own {
            wait_for_found_slot(session, tid);
        }
        return Ok(());
    }
    let Some(ring) = session.rings.claim_slot(tid) else {
        let _stores = StoresMayFault::in_thread(session.may_call());
        session.log.lose(LossCause::NoRing, 1, 0);
        return Err(Errno(28));
    };
    if own && !session.rings.may_arm_itself(tid, ring) {
        ring.slot.free();
        wait_for_found_slot(session, tid);
        return Ok(());
    }
    session.log.forget_ring(session.rings.number(ring));
    let cpu = sys::clock_ns(if own { sys::CLOCK_THREAD_CPU } else { sys::thread_cpu_clock(tid) });
    let from = previous::accounted_until(tid).unwrap_or(cpu);
    ring.armed_cpu_ns.store(from, Ordering::Relaxed);
    ring.visited_cpu_ns.store(cpu, Ordering::Relaxed);
    owe(session, ring, cpu.saturating_sub(from));
    ring.rearm.store(clock::PERIOD_WRONG, Ordering::Relaxed);
    masks::believe(ring, previous::believed_before(tid));
    let mut mask = None;
    if own {
        session.rings.set_own(ring);
        // A controller that borrows this thread blocks all signals for that moment: it says nothing about the host.
        if session::seed().options.controller == 0 {
            mask = Some(masks::begin(session, ring));
        }
    }
    // Before the clock: its first signal may come at once.
    ring.slot.begin_arming();
    let armed = arm_clock(session, ring, own.then_some(mask), strict);
    fence(Ordering::SeqCst);
    // Off: the session ended meanwhile, and who ended it may have looked for clocks before there was this one.
    if !ring.slot.armed(armed.is_ok() && session.on.load(Ordering::Relaxed)) {
        disarm(ring);
        ring.slot.free();
        // If it is on again, the thread is one that is not armed yet.
        session.stale.store(true, Ordering::Relaxed);
    }
    armed
}

/// A round has armed the calling thread, or is doing so: waits until the slot is there, and makes the thread find it.
/// (The wrapper of its birth writes there how large its stack is. And by its control block it would find the slot of a
/// dead thread that had the same one, if no round has seen that death yet.)
fn wait_for_found_slot(session: &Session, tid: u32) {
    passing::was_only_found_early();
    for _ in 0..MOST_YIELDS {
        if let Some(ring) = session.rings.by_tid(tid) {
            return session.rings.set_own(ring);
        }
        sys::sched_yield();
    }
}

/// Arms the calling thread, whose birth has passed through us.
///
/// # Errors
/// As [`arm`].
pub fn arm_newborn(session: &Session) -> sys::Result<()> {
    arm(session, sys::gettid(), true, false)
}

/// CPU ns of the thread that no sample stands for, `cpu` being all that it has used.
pub(crate) fn unaccounted(ring: &Ring, cpu: u64) -> u64 {
    let used = cpu.saturating_sub(ring.armed_cpu_ns.load(Ordering::Relaxed));
    used.saturating_sub(ring.accounted_ns.load(Ordering::Relaxed))
}

/// Entire periods of `ns` go to the thread's next sample: where they were used is not known. (The files were changed in
/// the thread's own handler, perhaps. A tick that comes meanwhile is that of the last session's timer, which is gone.)
fn owe(session: &Session, ring: &Ring, ns: u64) {
    let period = session.settings.period_ns.load(Ordering::Relaxed);
    let periods = ns.checked_div(period).unwrap_or(0);
    if periods == 0 {
        return;
    }
    ring.carried_pc.store(0, Ordering::Relaxed);
    ring.carry.fetch_add(periods, Ordering::Relaxed);
    ring.accounted_ns.fetch_add(periods * period, Ordering::Relaxed);
}

/// What is known of the thread that a clock is set up for: that it is the calling one, and its mask if somebody asked
/// the kernel for it just now.
type Own = Option<Option<SignalSet>>;

/// Arms a thread with the clock of the process.
fn arm_clock(session: &Session, ring: &Ring, own: Own, strict: bool) -> sys::Result<()> {
    let clock = session.clock();
    let by_timer = |clock: Clock| {
        ring.clock.store(clock as u32, Ordering::Relaxed);
        clock::arm_timer(session, ring)
    };
    let first = if strict { clock::first_of_process } else { clock::first_of_thread };
    match clock {
        Clock::Perf | Clock::Sigtrap => {
            ring.clock.store(clock as u32, Ordering::Relaxed);
            let armed = if session.inherited.is_on_for_newcomer() {
                Ok(())
            } else {
                arm_event(session, ring, own, first)
            };
            match armed {
                Ok(()) => {
                    // The tick beside it accounts system time and calls the housekeeper: without it we know less, but
                    // we can sample.
                    let _ = clock::arm_timer(session, ring);
                    Ok(())
                }
                Err(e) if strict => Err(e),
                // Perhaps too many pages locked, or no descriptor free: this thread alone goes by its timer.
                Err(_) => by_timer(Clock::Thread),
            }
        }
        Clock::Thread => by_timer(Clock::Thread),
        // The process's timer samples; each thread's tick calls the housekeeper.
        _ => {
            ring.clock.store(clock as u32, Ordering::Relaxed);
            let _ = clock::arm_timer(session, ring);
            Ok(())
        }
    }
}

/// Arms a thread with a perf event of its own. `first` draws the time to its first expiry.
fn arm_event(session: &Session, ring: &Ring, own: Own, first: fn(u64) -> u64) -> sys::Result<()> {
    let settings = &session.settings;
    let period = settings.period_ns.load(Ordering::Relaxed);
    let signal = settings.signal.load(Ordering::Relaxed);
    // A controller that borrows this thread blocks all signals for that moment: it says nothing about the host.
    let borrowed = session::seed().options.controller != 0;
    let mask =
        own.filter(|_| !borrowed).map(|mask| mask.unwrap_or_else(|| sys::sigmask(sys::Mask::Block, 0)));
    let blocked = mask.is_some_and(|mask| mask & sys::signal_bit(signal) != 0);
    let first = if blocked { clock::BLOCKED_NS.max(period) } else { first(period) };
    ring.rearm.store(clock::PERIOD_WRONG, Ordering::Relaxed);
    ring.first_at_ns.store(0, Ordering::Relaxed);
    clock::arm_perf(session, ring, first)?;
    ring.period_ns.store(period, Ordering::Relaxed);
    if !blocked {
        // Not from before: arming takes a while when many threads do it at the same time.
        let tid = ring.tid.load(Ordering::Relaxed);
        let cpu = if own.is_some() { sys::CLOCK_THREAD_CPU } else { sys::thread_cpu_clock(tid) };
        let at = sys::clock_ns(cpu) + first;
        ring.first_ns.store(first, Ordering::Relaxed);
        ring.first_at_ns.store(at, Ordering::Relaxed);
    }
    Ok(())
}

/// A controller gives the calling thread back, which it has borrowed with all signals blocked. What expired meanwhile
/// would cut short the call that the thread was taken from. So its clock begins anew, and the signals that wait are
/// taken away.
pub(crate) fn before_given_back(session: &Session) {
    if let Some(ring) = session.rings.own(session.may_call()) {
        if ring.perf_page.load(Ordering::Relaxed) != 0 {
            let _ = arm_event(session, ring, Some(None), clock::first_after_borrowing);
        }
        // A tick has met it already, most likely. A bounded timer whose signal is taken away never expires again.
        let period = session.settings.period_ns.load(Ordering::Relaxed);
        bounded::begin_timer_anew(ring, clock::first_after_borrowing(period));
    }
    numbers::drop_pending(session);
}

/// The process is about to make a thread: before the first one there is a set of events to be inherited, and
/// where many threads end early there is one no more.
pub fn before_birth(session: &Session) {
    if session.clock() != Clock::Sigtrap || !session.may_call() || !session.on.load(Ordering::Relaxed) {
        return;
    }
    if session.inherited.is_to_be_decided() {
        return inherit(session);
    }
    if !session.inherited.is_to_be_judged(session.rings.count()) {
        return;
    }
    let pid = session.pid.load(Ordering::Relaxed);
    let dead =
        session.rings.living().filter(|r| !sys::thread_lives(pid, r.tid.load(Ordering::Relaxed))).count();
    if session.inherited.loses_short_threads(dead as u32) {
        let _alone = session::alone();
        // Not while a round retires the dead; it is looked at again soon.
        if let Some(_house) = session.house.try_lock() {
            event_for_each(session);
        }
    }
}

/// Replaces the calling thread's own event by the set of inherited events, if it is the only thread of the
/// process. Not under a controller: what `pct attach` does to a running program must not depend on what the
/// program does next.
fn inherit(session: &Session) {
    let _alone = session::alone();
    let Some(ring) = session.rings.own(true) else { return };
    let only = tasks::is_only_thread();
    if !only
        || session::seed().options.controller != 0
        || ring.clock.load(Ordering::Relaxed) != Clock::Sigtrap as u32
    {
        return;
    }
    perf::disarm(ring);
    let with_kernel = session.settings.kernel.load(Ordering::Relaxed);
    if session.inherited.make(session.settings.period_ns.load(Ordering::Relaxed), with_kernel).is_err()
        && arm_event(session, ring, Some(None), clock::first_of_thread).is_err()
    {
        go_by_timer(session, ring);
    }
    note_inherited(session);
}

/// Says in the file's header how the threads' clocks are made.
pub(crate) fn note_inherited(session: &Session) {
    if session.log.is_open() {
        let (count, errno) = session.inherited.facts();
        session.log.header_set(at::INHERITED_EVENTS, count);
        session.log.header_set(at::INHERITED_ERRNO, errno);
    }
}

/// Ends the set of inherited events, if there is one: each thread gets an event of its own. The caller holds
/// the housekeeper's lock.
pub(crate) fn event_for_each(session: &Session) {
    settle_accounts(session);
    if session.inherited.end() {
        arm_eventless(session);
        note_inherited(session);
    }
}

/// Inherited events are about to end. A single thread has too few or too many of their samples by chance; from now
/// on each is looked at alone, so it is told what it misses of what the process misses.
pub(crate) fn settle_accounts(session: &Session) {
    if !session.inherited.is_on() {
        return;
    }
    let used = |ring: &Ring| sys::clock_ns(sys::thread_cpu_clock(ring.tid.load(Ordering::Relaxed)));
    let missing = session.inherited.missing_ns().max(0).unsigned_abs();
    let of_all: u64 = session.rings.living().map(|ring| unaccounted(ring, used(ring))).sum();
    for ring in session.rings.living() {
        let cpu = used(ring);
        let behind = unaccounted(ring, cpu);
        let part = u128::from(behind) * u128::from(missing.min(of_all)) / u128::from(of_all.max(1));
        let since_armed = cpu.saturating_sub(ring.armed_cpu_ns.load(Ordering::Relaxed));
        let part = u64::try_from(part).unwrap_or(behind);
        let accounted = since_armed.saturating_sub(part);
        let before = ring.accounted_ns.swap(accounted, Ordering::Relaxed);
        // No sample came: a thread that blocks pct's signals is still to be seen by that.
        let visited = ring.visited_accounted_ns.load(Ordering::Relaxed);
        let visited = visited.wrapping_add(accounted).wrapping_sub(before);
        ring.visited_accounted_ns.store(visited, Ordering::Relaxed);
    }
}

/// Gives an event to each thread that has none and should.
pub(crate) fn arm_eventless(session: &Session) {
    let own = session.rings.own(session.may_call());
    for ring in session.rings.living() {
        let clock = session.clock();
        let by_event = matches!(clock, Clock::Perf | Clock::Sigtrap)
            && ring.clock.load(Ordering::Relaxed) == clock as u32;
        if by_event && ring.perf_page.load(Ordering::Relaxed) == 0 {
            let own = own.is_some_and(|own| core::ptr::eq(own, ring));
            // Refused: its time comes out as time that no sample accounted for.
            let _ = arm_event(session, ring, own.then_some(None), clock::first_of_thread);
        }
    }
}

/// Gives each perf clock its right period that still runs with the one of its first expiry, and lets clocks go on that
/// would end by themselves: handlers cannot do so from now on, since they may make no system calls.
pub fn settle_periods(session: &Session) {
    let were_bounded = bounded::are_clocks_bounded();
    bounded::end_bounds();
    let nominal = session.settings.period_ns.load(Ordering::Relaxed);
    let clock = session.clock();
    for ring in session.rings.living() {
        let by_event = matches!(clock, Clock::Perf | Clock::Sigtrap)
            && ring.clock.load(Ordering::Relaxed) == clock as u32
            && ring.perf_page.load(Ordering::Relaxed) != 0;
        if were_bounded {
            bounded::let_timer_go_on(ring);
        }
        if !by_event || !were_bounded && ring.rearm.load(Ordering::Relaxed) != clock::PERIOD_WRONG {
            continue;
        }
        let drawn = period::draw(nominal);
        if clock::arm_perf(session, ring, drawn).is_ok() {
            ring.share.store(period::share(drawn, nominal), Ordering::Relaxed);
            ring.dice.store(sys::random(u64::MAX) | 1, Ordering::Relaxed);
            ring.first_at_ns.store(0, Ordering::Relaxed);
            ring.rearm.store(period::held_for(nominal), Ordering::Relaxed);
        } else {
            // An event that expires too often would count too much.
            perf::disarm(ring);
        }
    }
}

/// Slows the perf clock of a thread that blocks its signal.
pub fn slow_down(session: &Session, ring: &Ring) {
    let clock = session.clock();
    if ring.clock.load(Ordering::Relaxed) != clock as u32
        || !matches!(clock, Clock::Perf | Clock::Sigtrap)
        || session.inherited.is_on()
    {
        return;
    }
    let settings = &session.settings;
    let period = settings.period_ns.load(Ordering::Relaxed);
    ring.rearm.store(clock::PERIOD_WRONG, Ordering::Relaxed);
    ring.first_at_ns.store(0, Ordering::Relaxed);
    if clock::arm_perf(session, ring, clock::BLOCKED_NS.max(period)).is_ok() {
        ring.period_ns.store(period, Ordering::Relaxed);
    }
}

/// Stops the clocks of a thread.
pub fn disarm(ring: &Ring) {
    perf::disarm(ring);
    thread_timer::disarm(ring);
}

/// Ends the clocks of all threads and sets them up anew, with other signals: `between` runs while there are none.
///
/// Nobody else arms threads meanwhile: the caller holds the housekeeper's lock. (A thread that arms itself
/// sees the new numbers: [`clock::arm_perf`].)
pub fn change_clocks(session: &Session, between: impl FnOnce()) {
    for ring in session.rings.living() {
        disarm(ring);
    }
    if session.clock() != Clock::Sigtrap {
        session.inherited.end();
        note_inherited(session);
    }
    between();
    for ring in session.rings.living() {
        let was = ring.clock.load(Ordering::Relaxed);
        ring.rearm.store(clock::PERIOD_WRONG, Ordering::Relaxed);
        ring.first_at_ns.store(0, Ordering::Relaxed);
        let _ = arm_clock(session, ring, None, false);
        if was != Clock::Thread as u32 && ring.clock.load(Ordering::Relaxed) == Clock::Thread as u32 {
            let cpu = sys::clock_ns(sys::thread_cpu_clock(ring.tid.load(Ordering::Relaxed)));
            let used = cpu.saturating_sub(ring.armed_cpu_ns.load(Ordering::Relaxed));
            ring.accounted_ns.store(used, Ordering::Relaxed);
            tick::forget(ring);
        }
    }
}

/// Stops all clocks and frees all slots: sampling is switched off. Threads that sample at this moment finish
/// their sample.
pub fn disarm_all(session: &Session) {
    // A clock that is armed from here on is ended by who arms it: it sees that the session is off, or the slot's state.
    fence(Ordering::SeqCst);
    itimer::disarm(session.clock());
    session.inherited.end();
    session.inherited.forget_decision();
    let own = session.rings.own(session.may_call());
    for ring in session.rings.living() {
        let is_ours_to_free = ring.slot.end();
        disarm(ring);
        if !is_ours_to_free {
            continue;
        }
        // A segment that somebody is still writing to is left as a killed process leaves it, to be read as far as it is
        // written.
        // A controller calls us on top of whatever the thread does. If that is a sample, it ends when we have returned.
        let is_own = own.is_some_and(|own| core::ptr::eq(own, ring));
        if waits_until_left(ring, if is_own { 1 } else { MOST_YIELDS }) {
            ring.leave(&session.log);
        }
        ring.slot.free();
    }
}

/// Whether nobody is in a thread's slot any more. Its handler may be pushing right now: it holds the busy flag for some
/// nanoseconds, or for longer if it has no processor.
fn waits_until_left(ring: &Ring, tries: u32) -> bool {
    for _ in 0..tries {
        if !ring.slot.is_busy() {
            return true;
        }
        sys::sched_yield();
    }
    false
}

/// How often who ends a thread's sampling gives its processor away while the thread's handler is at work, and a thread
/// while a round takes a slot for it.
const MOST_YIELDS: u32 = 1000;

/// Records what expired in a thread before there was a file. It waits for the thread's next sample, and there will be
/// none: the thread has ended, or it is the calling one. The sample has the place of the last expiry and no callers.
fn record_carried(session: &Session, ring: &Ring) {
    let weight = ring.carry.swap(0, Ordering::Relaxed);
    let pc = ring.carried_pc.load(Ordering::Relaxed);
    if weight == 0 {
        return;
    }
    if pc == 0 || session.counts() || !session.log.is_open() || ring.slot.is_busy() {
        return session.log.lose(LossCause::TooEarly, weight, weight);
    }
    record_put_off(session, ring, pc, weight);
}

/// Sampling ends: what expired in threads before there was a file and is in no sample yet is recorded, or counted as
/// lost. Without a file it still waits. The caller holds the housekeeper's lock and blocks pct's signals in this
/// thread.
pub(super) fn settle_carried(session: &Session, house: &mut House) {
    if !session.log.is_open() {
        return;
    }
    retire_dead(session, house);
    let own = session.rings.own(session.may_call());
    for ring in session.rings.living() {
        if own.is_some_and(|own| core::ptr::eq(own, ring)) {
            record_carried(session, ring);
        } else {
            // It may sample at this moment, so nothing is written for it.
            let weight = ring.carry.swap(0, Ordering::Relaxed);
            if weight != 0 {
                session.log.lose(LossCause::TooEarly, weight, weight);
            }
        }
    }
}

/// Frees the slots of threads that have ended.
pub fn retire_dead(session: &Session, house: &mut House) {
    let pid = session.pid.load(Ordering::Relaxed);
    for ring in session.rings.living() {
        let tid = ring.tid.load(Ordering::Relaxed);
        // By its timer, which is bound to the thread: its number may be another thread's by now, which would
        // never be sampled.
        let lives = match thread_timer::left(ring) {
            Some(left) => left != 0,
            None => sys::thread_lives(pid, tid),
        };
        if lives || !ring.slot.end() {
            continue;
        }
        disarm(ring);
        masks::believe(ring, 0);
        if session.inherited.is_on() {
            session.inherited.died();
        }
        record_carried(session, ring);
        if session.log.is_open() && ring.announced.load(Ordering::Relaxed) != 0 {
            let record = Encoder::new(&mut house.record)
                .raw_word(crate::record::time::now())
                .number(u64::from(tid))
                .number(ring.visited_cpu_ns.load(Ordering::Relaxed))
                .finish(kind::THREAD_END, ring.serial.load(Ordering::Relaxed));
            keep_record(&session.keep, &session.log, record);
        }
        ring.retire(&session.log);
        ring.slot.abandon();
        ring.slot.free();
    }
}

/// Arms threads that are not armed yet.
pub fn discover(session: &Session, house: &mut House) {
    let pid = session.pid.load(Ordering::Relaxed);
    let arm = |tid: u32| {
        // Before a thread that arms itself can say that it was only found early.
        passing::found_by_round();
        let armed = session.rings.arm_found(tid, || {
            let _ = arm(session, tid, false, false);
        });
        if !armed {
            passing::was_only_found_early();
            session.stale.store(true, Ordering::Relaxed);
        }
    };
    let listed = match list_unarmed(session, &mut house.buffer, arm) {
        Err(Errno::EMFILE) => {
            // The list is read in a thread that has a descriptor, and the clocks are armed in this one.
            let mut found = [0; FOUND_AT_ONCE];
            let mut count = 0;
            let listed = sys::with_descriptor(|| {
                count = 0;
                list_unarmed(session, &mut house.buffer, |tid| {
                    if let Some(place) = found.get_mut(count) {
                        *place = tid;
                        count += 1;
                    }
                })
            });
            if count == FOUND_AT_ONCE {
                session.stale.store(true, Ordering::Relaxed);
            }
            // The one that read the list has ended.
            found.into_iter().take(count).filter(|tid| sys::thread_lives(pid, *tid)).for_each(arm);
            listed
        }
        listed => listed,
    };
    if let Err(errno) = listed {
        session.refusals.note(&session.log, Wanted::Threads, errno);
    }
}

/// Finds the control blocks of threads that have not found their slots themselves yet. They do that by a system call at
/// their first sample, and from now on they may make none.
///
/// The C library tells the kernel where each thread's list of robust locks is, which lies at the same place in each
/// control block. (musl does so only for who uses such locks.)
pub(super) fn find_bases(session: &Session) {
    let is_unknown = |ring: &&Ring| ring.base.load(Ordering::Relaxed) == 0;
    let Ok(own @ 1..) = sys::robust_list(sys::gettid()) else { return };
    let place = own.wrapping_sub(sys::arch::thread_base());
    for ring in session.rings.living().filter(is_unknown) {
        let tid = ring.tid.load(Ordering::Relaxed);
        if let Ok(list @ 1..) = sys::robust_list(tid) {
            let base = list.wrapping_sub(place);
            if sys::arch::is_thread_base(base) {
                session.rings.found_base(ring, base);
            }
        }
    }
}

/// Threads that are armed in one round where no descriptor is free.
const FOUND_AT_ONCE: usize = 128;

/// Calls `each` for every thread of this process that has no ring.
fn list_unarmed(session: &Session, buffer: &mut [u8], mut each: impl FnMut(u32)) -> sys::Result<()> {
    let pid = session.pid.load(Ordering::Relaxed);
    let same_numbers = tasks::proc_is_ours(session);
    let directory = sys::open(sys::c(c"/proc/self/task"), sys::O_RDONLY | sys::O_DIRECTORY, 0)?;
    loop {
        let n = sys::getdents(&directory, buffer)?;
        if n == 0 {
            return Ok(());
        }
        sys::names(buffer.get(..n).unwrap_or(&[]), |name| {
            let number = parse_number(name);
            let number = if same_numbers { number } else { number.and_then(|_| tasks::own_number(name)) };
            // Only tasks of this process: a clock on anybody else's would send them signals.
            if let Some(tid) = number
                && let Ok(tid) = u32::try_from(tid)
                && session.rings.by_tid(tid).is_none()
                && sys::thread_lives(pid, tid)
            {
                each(tid);
            }
        });
    }
}

/// Records a thread's begin, or its new name.
pub fn announce(session: &Session, log: &Log, ring: &Ring, record: &mut [u64], kind: u8) {
    let (name, len) = ring.name_bytes();
    let done = Encoder::new(record)
        .raw_word(crate::record::time::now())
        .number(u64::from(ring.tid.load(Ordering::Relaxed)))
        .text(name.get(..len).unwrap_or(&[]))
        .finish(kind, ring.serial.load(Ordering::Relaxed));
    keep_record(&session.keep, log, done);
}
