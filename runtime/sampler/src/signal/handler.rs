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
use core::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use crate::process::session::{self, Refused, Session};
use crate::record::rings::Ring;
use crate::signal::clock::{self, itimer, perf, thread_timer};
use crate::sys::arch::{self, Regs, SI_TIMER, SigInfo, TRAP_PERF};
use crate::sys::{self, SigAction};
use crate::{code::callers, process::file, process::housekeeper, record::time, signal::masks};
use pct_format::layout::header as at;
use pct_format::{Clock, CutCause, LossCause, record};

/// Standard signal of the perf clock: nobody uses it, and standard signals cannot overflow a queue.
const SIGSTKFLT: i32 = 16;
const SIGTRAP: i32 = 5;
/// Real-time signals tried for the tick, from the top down: programs count from the bottom.
const TICK_SIGNALS: core::ops::RangeInclusive<i32> = 40..=61;
/// Frames that a sample itself may carry: a quarter of a segment. Of a deeper stack the innermost are kept.
const MOST_OWN_FRAMES: usize = 2048;
/// See [`goes_on_by_first`].
const MOST_PASSED_OVER: u32 = 3;
/// System time is written down at the next system call, but not put off further than this many periods.
const PUT_OFF_PERIODS: u64 = 8;

/// What the host wants done with a signal that is ours in the kernel.
#[derive(Debug)]
pub struct HostAction {
    handler: AtomicUsize,
    flags: AtomicU64,
    mask: AtomicU64,
}

/// The host's actions for our signals, by number.
pub static HOST: [HostAction; 65] = [const {
    HostAction { handler: AtomicUsize::new(0), flags: AtomicU64::new(0), mask: AtomicU64::new(0) }
}; 65];

/// Whether [`HOST`] was written to: most processes never touch its page.
static HOST_KEPT: AtomicBool = AtomicBool::new(false);

/// Remembers the host's action for a signal that we take.
fn keep_host(signal: i32, action: SigAction) {
    let is_default = action.handler == SIG_DFL && action.flags & !sys::SA_RESTORER == 0 && action.mask == 0;
    if (!is_default || HOST_KEPT.load(Ordering::Relaxed))
        && let Some(host) = HOST.get(signal as usize)
    {
        host.set(action.handler, action.flags, action.mask);
    }
}

impl HostAction {
    /// What it is.
    #[must_use]
    pub fn get(&self) -> SigAction {
        SigAction {
            handler: self.handler.load(Ordering::Acquire),
            flags: self.flags.load(Ordering::Relaxed),
            restorer: 0,
            mask: self.mask.load(Ordering::Relaxed),
        }
    }

    /// Sets it. A signal that arrives meanwhile may see the new handler with the old flags.
    pub fn set(&self, handler: usize, flags: u64, mask: sys::SignalSet) {
        HOST_KEPT.store(true, Ordering::Relaxed);
        self.flags.store(flags, Ordering::Relaxed);
        self.mask.store(mask, Ordering::Relaxed);
        self.handler.store(handler, Ordering::Release);
    }
}

/// A signal of the host's on a number of ours: what would have happened without us happens.
#[cold]
#[inline(never)]
fn foreign(signal: i32, info: *const u8, context: *const u8) {
    let Some(host) = HOST.get(signal as usize) else { return };
    // SAFETY: the kernel's arguments.
    if session::current().is_some_and(|s| unsafe { masks::give_way(s, signal, info, context) }) {
        return;
    }
    let action = host.get();
    match action.handler {
        SIG_IGN => {}
        SIG_DFL => by_default(signal),
        handler => {
            if action.flags & sys::SA_RESETHAND != 0 {
                host.set(SIG_DFL, 0, 0);
            }
            let own = if action.flags & sys::SA_NODEFER != 0 { 0 } else { sys::signal_bit(signal) };
            // We run with everything blocked: the host's handler gets the mask that it would have had.
            // SAFETY: the kernel's ucontext; rt_sigreturn puts the interrupted mask back whatever is set here.
            let interrupted = unsafe { arch::interrupted_mask(context) };
            sys::sigmask(sys::Mask::Set, interrupted | action.mask | own);
            // SAFETY: the host's handler for this signal. With or without SA_SIGINFO the first argument is the same.
            let handler: unsafe extern "C" fn(i32, *const u8, *const u8) =
                unsafe { core::mem::transmute(handler) };
            // SAFETY: as the kernel would call it.
            unsafe { handler(signal, info, context) };
        }
    }
}

const SIG_DFL: usize = 0;
const SIG_IGN: usize = 1;

/// The signal's default action, which for all numbers that we take is death (or, for a few, nothing).
fn by_default(signal: i32) {
    // SIGCHLD, SIGCONT, SIGURG, SIGWINCH
    const IGNORED: sys::SignalSet =
        sys::signal_bit(17) | sys::signal_bit(18) | sys::signal_bit(23) | sys::signal_bit(28);
    if IGNORED & sys::signal_bit(signal) != 0 {
        return;
    }
    let default = SigAction { handler: SIG_DFL, ..Default::default() };
    // SAFETY: no handler is set; the process is to die of this signal, as it would have.
    let _ = unsafe { sys::sigaction(signal, Some(&default)) };
    let _ = sys::tgkill(sys::getpid(), sys::gettid(), signal);
    sys::sigmask(sys::Mask::Unblock, sys::signal_bit(signal));
}

/// The handler.
///
/// The sampling clock's way through it is one straight line, all else lies off it (`cold_path`): fresh out of the kernel the
/// processor knows neither the code nor its branches, so each jump and each line of cache costs more than the work itself.
///
/// # Safety
/// For the kernel to call.
pub unsafe extern "C" fn on_signal(signal: i32, info: *const u8, context: *const u8) {
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
        foreign(signal, info, context);
    }
}

/// A signal of the sampling clock: a perf event's or the process's timer's. False: it is the host's.
#[inline(always)]
fn on_clock(session: &Session, info: SigInfo, regs: Regs) -> bool {
    let clock = session.settings.clock.load(Ordering::Relaxed);
    let ring = if clock == Clock::Perf as u32 {
        session.rings.own(session.may_call())
    } else {
        cold_path();
        if clock != Clock::Sigtrap as u32 {
            on_process_timer(session, regs);
            return true;
        }
        if info.code() != TRAP_PERF {
            return false;
        }
        session.rings.by_value(info.perf_data())
    };
    let Some(ring) = ring else {
        cold_path();
        without_ring(session);
        return true;
    };
    let rearm = ring.rearm.load(Ordering::Relaxed);
    if rearm == clock::PERIOD_WRONG {
        cold_path();
        if goes_on_by_first(session, ring, clock) {
            return true;
        }
    }
    let period = ring.period_ns.load(Ordering::Relaxed);
    ring.accounted_ns.store(ring.accounted_ns.load(Ordering::Relaxed) + period, Ordering::Relaxed);
    if rearm != 0 {
        cold_path();
        set_period(session, ring, session.clock());
    }
    sample(session, ring, regs, 1, false);
    true
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
fn goes_on_by_first(session: &Session, ring: &Ring, clock: u32) -> bool {
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
    let signal = settings.signal.load(Ordering::Relaxed);
    let clock = if clock == Clock::Sigtrap as u32 { Clock::Sigtrap } else { Clock::Perf };
    // Refused: the next expiry is looked at in the same way.
    let _ = perf::arm(ring, clock, signal, session.rings.value(ring), left);
    true
}

/// Replaces the perf event by one of another period: at an expiry, so that no part of a period is lost, and before the sample is
/// taken. A process's first one takes longer than many a first period: that event would expire again meanwhile, and its signal,
/// held back until we return, would be one sample too many.
#[cold]
#[inline(never)]
fn set_period(session: &Session, ring: &Ring, clock: Clock) {
    let wrong_period = ring.rearm.swap(0, Ordering::Relaxed) == clock::PERIOD_WRONG;
    ring.first_at_ns.store(0, Ordering::Relaxed);
    ring.ticks.store(0, Ordering::Relaxed);
    if !session.may_call() || !session.on.load(Ordering::Relaxed) {
        return;
    }
    let settings = &session.settings;
    let period = clock::jittered(settings.period_ns.load(Ordering::Relaxed));
    let signal = settings.signal.load(Ordering::Relaxed);
    let armed = perf::arm(ring, clock, signal, session.rings.value(ring), period);
    // Refused (no descriptor free, say): the old event goes on. But one that was only to expire once, at a random point of the
    // period, must not go on so: each expiry would count as an entire period.
    if armed.is_err() && wrong_period {
        go_by_timer(session, ring, settings.period_ns.load(Ordering::Relaxed));
    }
}

/// A tick of the thread's CPU timer.
#[inline(never)]
fn on_tick(session: &Session, ring: &Ring, regs: Regs, expiries: u64) {
    if !session.may_call() {
        // Under a filter on system calls the time cannot be read: a tick-bound clock still samples.
        if ring.clock.load(Ordering::Relaxed) == Clock::Thread as u32 {
            sample_apart(session, ring, regs, expiries, arch::after_system_call(regs.pc));
        }
        return;
    }
    let period = session.settings.period_ns.load(Ordering::Relaxed);
    if ring.clock.load(Ordering::Relaxed) == Clock::Thread as u32 {
        let (_, system_ns) = sys::rusage_ns(sys::RUSAGE_THREAD);
        let taken = expiries * period;
        // The kernel books entire ticks as user or system: so do we, as soon as half of this one is due.
        let accounted = ring.system_ns.load(Ordering::Relaxed);
        let system = system_ns.saturating_sub(accounted) * 2 >= taken;
        if system {
            ring.system_ns.store(accounted + taken, Ordering::Relaxed);
        }
        ring.accounted_ns.store(ring.accounted_ns.load(Ordering::Relaxed) + taken, Ordering::Relaxed);
        sample_apart(session, ring, regs, expiries, system);
    } else if ring.clock.load(Ordering::Relaxed) == Clock::Perf as u32 && !samples_itself(session, ring) {
        go_by_timer(session, ring, period);
    } else if itimer::which(session.clock()).is_none() {
        account_system_time(session, ring, regs, period);
        let ticks = ring.ticks.load(Ordering::Relaxed) + 1;
        ring.ticks.store(ticks, Ordering::Relaxed);
        if ticks >= clock::REARM_TICKS {
            ring.rearm.fetch_max(1, Ordering::Relaxed);
        }
    }
    housekeeper::maybe(session, housekeeper::clock());
}

/// Whether the perf signals of this thread find its ring. Not those of a raw clone that shares its maker's control block: they
/// go to the maker's ring.
fn samples_itself(session: &Session, ring: &Ring) -> bool {
    session.rings.own(true).is_none_or(|own| core::ptr::eq(own, ring))
}

/// The thread is sampled by its CPU timer from now on, whose signal names the ring. What it used so far is accounted for.
#[cold]
#[inline(never)]
fn go_by_timer(session: &Session, ring: &Ring, period: u64) {
    perf::disarm(ring);
    let tick_signal = session.settings.tick_signal.load(Ordering::Relaxed);
    let value = session.rings.value(ring);
    let (_, system_ns) = sys::rusage_ns(sys::RUSAGE_THREAD);
    let cpu = sys::clock_ns(sys::CLOCK_THREAD_CPU).wrapping_sub(ring.armed_cpu_ns.load(Ordering::Relaxed));
    ring.system_ns.store(system_ns, Ordering::Relaxed);
    ring.accounted_ns.store(cpu, Ordering::Relaxed);
    ring.clock.store(Clock::Thread as u32, Ordering::Relaxed);
    let _ = thread_timer::arm(ring, tick_signal, value, clock::first_expiry(period), period);
}

/// What the thread's clock shows beyond the samples of user mode was time in the kernel.
fn account_system_time(session: &Session, ring: &Ring, regs: Regs, period: u64) {
    let cpu = sys::clock_ns(sys::CLOCK_THREAD_CPU).wrapping_sub(ring.armed_cpu_ns.load(Ordering::Relaxed));
    let accounted = ring.accounted_ns.load(Ordering::Relaxed);
    let missing = cpu.saturating_sub(accounted);
    if missing < period {
        return;
    }
    // The right place to book it is a system call: in a thread that does both, the tick often falls into its own code.
    if !arch::after_system_call(regs.pc) && missing < PUT_OFF_PERIODS * period {
        return;
    }
    let periods = missing.checked_div(period).unwrap_or(0);
    ring.accounted_ns.store(accounted + periods * period, Ordering::Relaxed);
    sample_apart(session, ring, regs, periods, true);
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
