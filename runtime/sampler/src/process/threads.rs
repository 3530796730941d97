//! Arming threads, finding new ones, retiring the dead.
//!
//! A thread is armed by itself (the first one, and those whose creation passes through us) or by the housekeeper through
//! its id. Before the housekeeper arms anybody it retires the dead, so that the base of a control block that was used
//! again never leads to a dead thread's ring.
//!
//! Signal safety: system calls; the housekeeper's lock is held by whoever retires or discovers.

use core::sync::atomic::Ordering;

use crate::code::regions::keep_record;
use crate::process::rotation;
use crate::process::session::{self, House, Session};
use crate::record::log::Log;
use crate::record::rings::{FREE, LIVE, Ring};
use crate::signal::clock::{self, inherited, itimer, perf, period, thread_timer};
use crate::signal::system_time::{SYSTEM_NS_UNKNOWN, go_by_timer};
use crate::signal::{masks, numbers};
use crate::sys::text::{Buf, parse_number};
use crate::sys::{self, Errno};
use pct_format::Clock;
use pct_format::LossCause;
use pct_format::head::kind;
use pct_format::layout::header as at;
use pct_format::record::Encoder;

/// Arms the calling thread as the first of the process: here it shows whether the clock works. In a handler all signals are blocked,
/// which says nothing about the host: there the thread is armed as any other.
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
        return Ok(());
    }
    let Some(ring) = session.rings.take(tid) else {
        session.log.lose(LossCause::NoRing, 1, 0);
        return Err(Errno(28));
    };
    session.log.forget_ring(session.rings.number(ring));
    let cpu = sys::clock_ns(if own { sys::CLOCK_THREAD_CPU } else { sys::thread_cpu_clock(tid) });
    ring.armed_cpu_ns.store(cpu, Ordering::Relaxed);
    ring.visited_cpu_ns.store(cpu, Ordering::Relaxed);
    ring.rearm.store(clock::PERIOD_WRONG, Ordering::Relaxed);
    masks::believe(ring, rotation::believed_before(tid));
    if own {
        session.rings.set_own(ring);
        // A controller that borrows this thread blocks all signals for that moment: it says nothing about the host.
        if session::seed().options.controller == 0 {
            masks::begin(session, ring);
        }
    }
    // Before the clock: its first signal may come at once.
    ring.state.store(LIVE, Ordering::Release);
    let armed = arm_clock(session, ring, own, strict);
    if armed.is_err() {
        disarm(ring);
        ring.state.store(FREE, Ordering::Release);
    }
    armed
}

/// Arms a thread with the clock of the process.
fn arm_clock(session: &Session, ring: &Ring, own: bool, strict: bool) -> sys::Result<()> {
    let settings = &session.settings;
    let clock = session.clock();
    let period = settings.period_ns.load(Ordering::Relaxed);
    let by_timer = |clock: Clock, interval: u64| {
        ring.clock.store(clock as u32, Ordering::Relaxed);
        clock::arm_timer(session, ring, clock::first_expiry(interval), interval)
    };
    match clock {
        Clock::Perf | Clock::Sigtrap => {
            ring.clock.store(clock as u32, Ordering::Relaxed);
            let armed =
                if session.inherited.is_on_for_newcomer() { Ok(()) } else { arm_event(session, ring, own) };
            match armed {
                Ok(()) => {
                    // The tick beside it accounts system time and calls the housekeeper: without it we know less, but
                    // we can sample.
                    let _ = clock::arm_timer(session, ring, clock::TICK_NS, clock::TICK_NS);
                    Ok(())
                }
                Err(e) if strict => Err(e),
                // Perhaps too many pages locked, or no descriptor free: this thread alone goes by its timer.
                Err(_) => by_timer(Clock::Thread, period),
            }
        }
        Clock::Thread => by_timer(Clock::Thread, period),
        // The process's timer samples; each thread's tick calls the housekeeper.
        _ => {
            ring.clock.store(clock as u32, Ordering::Relaxed);
            let _ = clock::arm_timer(session, ring, clock::TICK_NS, clock::TICK_NS);
            Ok(())
        }
    }
}

/// Arms a thread with a perf event of its own.
fn arm_event(session: &Session, ring: &Ring, own: bool) -> sys::Result<()> {
    let settings = &session.settings;
    let period = settings.period_ns.load(Ordering::Relaxed);
    let signal = settings.signal.load(Ordering::Relaxed);
    // A controller that borrows this thread blocks all signals for that moment: it says nothing about the host.
    let borrowed = session::seed().options.controller != 0;
    let blocked = own && !borrowed && sys::sigmask(sys::Mask::Block, 0) & sys::signal_bit(signal) != 0;
    let first = if blocked { clock::BLOCKED_NS.max(period) } else { clock::first_expiry(period) };
    ring.rearm.store(clock::PERIOD_WRONG, Ordering::Relaxed);
    ring.first_at_ns.store(0, Ordering::Relaxed);
    clock::arm_perf(session, ring, first)?;
    ring.period_ns.store(period, Ordering::Relaxed);
    if !blocked {
        // Not from before: arming takes a while when many threads do it at the same time.
        let tid = ring.tid.load(Ordering::Relaxed);
        let cpu = if own { sys::CLOCK_THREAD_CPU } else { sys::thread_cpu_clock(tid) };
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
    if let Some(ring) = session.rings.own(session.may_call())
        && ring.perf_page.load(Ordering::Relaxed) != 0
    {
        let _ = arm_event(session, ring, true);
    }
    numbers::drop_pending(session);
}

/// The process is about to make a thread: before the first one there is a set of events to be inherited, and where many threads end
/// early there is one no more.
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

/// Makes the set of inherited events in place of the calling thread's own one, if it is the only thread of the process and of our own
/// accord: what a controller does to a running program is not to depend on what the program does next.
fn inherit(session: &Session) {
    let _alone = session::alone();
    let Some(ring) = session.rings.own(true) else { return };
    let only = status_number(sys::c(c"/proc/self/status"), b"Threads", false) == Some(1);
    if !only
        || session::seed().options.controller != 0
        || ring.clock.load(Ordering::Relaxed) != Clock::Sigtrap as u32
    {
        return;
    }
    perf::disarm(ring);
    if session.inherited.make(session.settings.period_ns.load(Ordering::Relaxed)).is_err()
        && arm_event(session, ring, true).is_err()
    {
        go_by_timer(session, ring, session.settings.period_ns.load(Ordering::Relaxed));
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

/// Ends the set of inherited events, if there is one: each thread gets an event of its own. The caller holds the housekeeper's lock.
pub(crate) fn event_for_each(session: &Session) {
    if session.inherited.end() {
        arm_eventless(session);
        note_inherited(session);
    }
}

/// The clocks of many threads, by how often these wait: see [`inherited`]. The caller holds the housekeeper's lock.
pub(crate) fn follow_waits(session: &Session) {
    if session.clock() != Clock::Sigtrap || session.rings.living().nth(1).is_none() {
        return;
    }
    let Some(waits) = session.inherited.waits_a_second() else { return };
    if session.inherited.is_on() {
        if waits < inherited::FEW_WAITS {
            event_for_each(session);
        }
    } else if waits > inherited::MANY_WAITS && session::seed().options.clock == Clock::Auto {
        numbers::go_by_timers(session);
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
            let _ = arm_event(session, ring, own);
        }
    }
}

/// Gives each perf clock its right period that still runs with the one of its first expiry: handlers cannot do so
/// from now on, since they may make no system calls.
pub fn settle_periods(session: &Session) {
    let nominal = session.settings.period_ns.load(Ordering::Relaxed);
    let clock = session.clock();
    for ring in session.rings.living() {
        let by_event = matches!(clock, Clock::Perf | Clock::Sigtrap)
            && ring.clock.load(Ordering::Relaxed) == clock as u32
            && ring.perf_page.load(Ordering::Relaxed) != 0;
        if !by_event || ring.rearm.load(Ordering::Relaxed) != clock::PERIOD_WRONG {
            continue;
        }
        let drawn = period::draw(nominal);
        if clock::arm_perf(session, ring, drawn).is_ok() {
            ring.share.store(period::share(drawn, nominal), Ordering::Relaxed);
            ring.dice.store(clock::random(u64::MAX) | 1, Ordering::Relaxed);
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
/// Nobody else arms threads meanwhile: the caller holds the housekeeper's lock. (A thread that arms itself sees the new numbers:
/// [`clock::arm_perf`].)
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
        let _ = arm_clock(session, ring, false, false);
        if ring.clock.load(Ordering::Relaxed) == Clock::Thread as u32 && was != Clock::Thread as u32 {
            let cpu = sys::clock_ns(sys::thread_cpu_clock(ring.tid.load(Ordering::Relaxed)));
            let used = cpu.wrapping_sub(ring.armed_cpu_ns.load(Ordering::Relaxed));
            ring.accounted_ns.store(used, Ordering::Relaxed);
            ring.system_ns.store(SYSTEM_NS_UNKNOWN, Ordering::Relaxed);
        }
    }
}

/// Stops all clocks and frees all slots: sampling is switched off. Threads that sample at this moment finish their sample.
pub fn disarm_all(session: &Session) {
    itimer::disarm(session.clock());
    session.inherited.end();
    session.inherited.forget_decision();
    let own = session.rings.own(session.may_call());
    for ring in session.rings.living() {
        disarm(ring);
        // A controller calls us on top of whatever the thread does. If that is a sample, it ends when we have returned: there is
        // nothing to wait for, and its segment is left as a killed process leaves it, to be read as far as it is written.
        let below_us =
            own.is_some_and(|own| core::ptr::eq(own, ring)) && ring.busy.load(Ordering::Acquire) != 0;
        if !below_us {
            // A handler of that thread may be pushing right now: it holds the busy flag for some nanoseconds.
            for _ in 0..1000 {
                if ring.busy.load(Ordering::Acquire) == 0 {
                    break;
                }
                sys::sched_yield();
            }
            ring.leave(&session.log);
        }
        ring.state.store(FREE, Ordering::Release);
    }
}

/// Frees the slots of threads that have ended.
pub fn retire_dead(session: &Session, house: &mut House) {
    let pid = session.pid.load(Ordering::Relaxed);
    for ring in session.rings.living() {
        let tid = ring.tid.load(Ordering::Relaxed);
        // By its timer, which is bound to the thread: its number may be another thread's by now, which would never be sampled.
        let lives = match thread_timer::left(ring) {
            Some(left) => left != 0,
            None => sys::thread_lives(pid, tid),
        };
        if lives {
            continue;
        }
        disarm(ring);
        masks::believe(ring, 0);
        if session.inherited.is_on() {
            session.inherited.died();
        }
        let carried = ring.carry.swap(0, Ordering::Relaxed);
        if carried != 0 {
            session.log.lose(LossCause::TooEarly, carried, carried);
        }
        if session.log.is_open() && ring.announced.load(Ordering::Relaxed) != 0 {
            let record = Encoder::new(&mut house.record)
                .raw_word(crate::record::time::now())
                .number(u64::from(tid))
                .number(ring.visited_cpu_ns.load(Ordering::Relaxed))
                .finish(kind::THREAD_END, ring.serial.load(Ordering::Relaxed));
            keep_record(&session.keep, &session.log, record);
        }
        ring.retire(&session.log);
        ring.state.store(FREE, Ordering::Release);
    }
}

/// Whether /proc numbers processes as this one sees itself. It does not in a process namespace of its own under the /proc of
/// another one (unshare without a mount): there the names of our tasks are the numbers of strangers, or of nobody.
fn proc_is_ours(session: &Session) -> bool {
    let mut buffer = [0u8; 16];
    let own = sys::readlink(sys::c(c"/proc/self"), &mut buffer).ok().and_then(parse_number);
    own == Some(u64::from(session.pid.load(Ordering::Relaxed)))
}

/// The number that a task of ours has in its own namespace, by the name that it has in /proc.
fn own_number(name: &[u8]) -> Option<u64> {
    let mut path = Buf::<64>::new();
    path.push(b"/proc/self/task/").push(name).push(b"/status");
    let mut buffer = [0u8; 2048];
    let status = sys::read_file(path.with_nul()?, &mut buffer).ok()?;
    // From the outermost namespace that this /proc knows to the task's own.
    let numbers = status.split(|b| *b == b'\n').find_map(|line| line.strip_prefix(b"NSpid:"))?;
    parse_number(numbers.rsplit(|b| *b == b'\t').next()?)
}

/// Arms threads that are not armed yet.
pub fn discover(session: &Session, house: &mut House) {
    let pid = session.pid.load(Ordering::Relaxed);
    let same_numbers = proc_is_ours(session);
    let Ok(directory) = sys::open(sys::c(c"/proc/self/task"), sys::O_RDONLY | sys::O_DIRECTORY, 0) else {
        return;
    };
    loop {
        let Ok(n) = sys::getdents(&directory, &mut house.buffer) else { return };
        if n == 0 {
            return;
        }
        sys::names(house.buffer.get(..n).unwrap_or(&[]), |name| {
            let number = parse_number(name);
            let number = if same_numbers { number } else { number.and_then(|_| own_number(name)) };
            // Only tasks of this process: a clock on anybody else's would send them signals.
            if let Some(tid) = number
                && let Ok(tid) = u32::try_from(tid)
                && session.rings.by_tid(tid).is_none()
                && sys::thread_lives(pid, tid)
            {
                let _ = arm(session, tid, false, false);
            }
        });
    }
}

/// A number from a line `KEY:\tNUMBER` of a status file.
fn status_number(path: sys::CStr<'_>, key: &[u8], hexadecimal: bool) -> Option<u64> {
    let mut buffer = [0u8; 2048];
    let status = sys::read_file(path, &mut buffer).ok()?;
    let line = status.split(|b| *b == b'\n').find(|l| l.starts_with(key))?;
    let text = line.get(key.len()..)?.strip_prefix(b":\t")?;
    if hexadecimal { crate::sys::text::parse_hex(text).map(|(n, _)| n) } else { parse_number(text) }
}

/// Whether a thread blocks one of `signals`.
#[must_use]
pub fn blocks(tid: u32, signals: sys::SignalSet) -> bool {
    let mut path = Buf::<64>::new();
    path.push(b"/proc/self/task/").push_number(u64::from(tid)).push(b"/status");
    let blocked = path.with_nul().and_then(|path| status_number(path, b"SigBlk", true));
    blocked.is_some_and(|set| set & signals != 0)
}

/// Whether a debugger or the like traces this process.
#[must_use]
pub fn is_traced() -> bool {
    status_number(sys::c(c"/proc/self/status"), b"TracerPid", false).is_some_and(|pid| pid != 0)
}

/// The name of any thread of this process, NUL-padded.
#[must_use]
pub fn name_of(tid: u32) -> Option<[u64; 2]> {
    let mut path = Buf::<64>::new();
    path.push(b"/proc/self/task/").push_number(u64::from(tid)).push(b"/comm");
    let mut name = [0u8; 32];
    let mut words = [0u64; 2];
    for (i, byte) in sys::read_file(path.with_nul()?, &mut name).ok()?.iter().take(15).enumerate() {
        if *byte == b'\n' {
            break;
        }
        if let Some(word) = words.get_mut(i / 8) {
            *word |= u64::from(*byte) << (8 * (i % 8));
        }
    }
    Some(words)
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
