//! How sampling of a process image begins, pauses, goes on and ends; also in the child of a fork.
//!
//! The state is in [`super::session`]; here is what is done with it, in the order of a life: [`start`], [`pause`] and
//! [`resume`], [`stop`], [`close`], [`start_in_child`].
//!
//! Signal safety: [`start_in`] and [`another_session`] can be told that a handler calls them; the others may
//! wait for a lock.

use core::sync::atomic::Ordering;

use crate::code::{stack_finder, system_calls, walked_modules};
use crate::heap;
use crate::process::options::Options;
use crate::process::report::{self, report};
use crate::process::session::{
    self, Refused, SESSION, SPARE, START, Session, WAS_ON, alone, current, place_of, seed,
};
use crate::process::{
    beside, bookkeeping, file, own_path, own_stack, passing, status, tasks, threads, watch,
};
use crate::record::rests;
use crate::record::time::{self, Instant};
use crate::signal::stores_may_fault::StoresMayFault;
use crate::signal::{bus, clock, lent, moves, numbers};
use crate::sys::lock::Guard;
use crate::sys::text::Buf;
use crate::sys::{self, arch};
use pct_format::layout::header as at;
use pct_format::{Clock, OffFor, Recorder, StackMode, State};

/// Starts sampling this process as the seed says. Arms the calling thread; the housekeeper finds the others.
///
/// # Errors
/// Sampling could not start. The host is unchanged, but for some memory that was mapped and is not used.
pub fn start() -> Result<&'static Session, Refused> {
    let Some(guard) = START.lock_patiently(true) else { return Err(Refused::Busy) };
    let session = match current() {
        Some(session) if session.on.load(Ordering::Relaxed) => return Err(Refused::AlreadyOn),
        Some(session) if !is_for_start(session) => {
            let next = another_session(false)?;
            next.spent.follow(&session.spent);
            next
        }
        Some(session) => session,
        None => map_session()?,
    };
    start_in(session, &guard, false)
}

/// Whether a start can go on in this session: there is no file yet, or it was asked for in the same place and is
/// mapped as it was. Somebody may have cut it, or the program may have mapped memory of its own over it.
fn is_for_start(session: &Session) -> bool {
    let log = &session.log;
    if !log.is_open() {
        return !log.is_given_up();
    }
    let _stores = StoresMayFault::in_thread(session.may_call());
    let is_intact = log.is_intact();
    if !is_intact && !log.is_cut() && !log.is_given_up() {
        // What was to be said at its end was said when sampling was switched off.
        log.give_up_mapping();
        if session.rings.are_left() {
            log.unmap();
        }
    }
    is_intact && session.opened_for.load(Ordering::Relaxed) == place_of(seed())
}

/// Starts sampling in a session that is off.
pub(super) fn start_in(
    session: &'static Session,
    _switching: &Guard<'_, ()>,
    in_handler: bool,
) -> Result<&'static Session, Refused> {
    let options = &seed().options;
    if options.clock == Clock::Wall {
        return Err(Refused::WallNeedsController);
    }
    bus::guard();
    let settings = &session.settings;
    settings.recorder.store(options.mode as u32, Ordering::Relaxed);
    settings.stack.store(options.stack as u32, Ordering::Relaxed);
    settings.depth.store(options.depth.clamp(1, 60_000) as u32, Ordering::Relaxed);
    session.pid.store(arch::process_id(), Ordering::Relaxed);
    session.due.store(0, Ordering::Relaxed);
    // What stood in the way of a file may be gone by now.
    session.failed.store(false, Ordering::Relaxed);
    session.tries.store(0, Ordering::Relaxed);
    session.told.store(false, Ordering::Relaxed);
    session.stale.store(true, Ordering::Relaxed);
    session.rotate_at.store(first_rotation(options), Ordering::Relaxed);
    session.spent.on();
    session.spent_by_children.on();
    // The whole answer lies in /proc and costs a third of a start. A debugger that comes by another way is seen later.
    let traced = sys::addresses_are_fixed() && tasks::is_traced();
    settings.traced.store(traced, Ordering::Relaxed);
    heap::set_up(session);
    let wanted = wants_kernel(options);
    settings.kernel.store(wanted == Ok(true), Ordering::Relaxed);
    settings
        .kernel_errno
        .store(wanted.map_or_else(|e| u8::try_from(e.0).unwrap_or(u8::MAX), |_| 0), Ordering::Relaxed);
    let mut choice = clock::first_choice(options.clock, options.hz);
    loop {
        settings.clock.store(choice.clock as u32, Ordering::Relaxed);
        settings.period_ns.store(choice.period_ns, Ordering::Relaxed);
        settings.expected_mhz.store(choice.expected_mhz, Ordering::Relaxed);
        if choice.errno != 0 && settings.clock_errno.load(Ordering::Relaxed) == 0 {
            settings.clock_errno.store(choice.errno, Ordering::Relaxed);
        }
        if choice.clock == Clock::Sigtrap
            && options.clock == Clock::Auto
            && (options.signal != 0 || seed().controller != 0 || traced)
        {
            // Another signal is asked for; or a tracer would see every trap; or we were attached, where the
            // program cannot take SIGTRAP back from us.
            choice = clock::Chosen { clock: Clock::Perf, ..choice };
            continue;
        }
        if clock::needs_safe_actions(choice.clock) && system_calls::actions_may_change() {
            if options.clock != Clock::Auto {
                report(if system_calls::is_code_left() {
                    b"not all of the program's code was searched for system calls by instructions of its own: one could reset the action of the clock's signal and so kill it, so its clock is perf"
                } else {
                    b"the program makes system calls by instructions of its own, and could reset the action of the clock's signal: that would kill it, so its clock is perf"
                });
            }
            choice = clock::Chosen { errno: choice.errno, ..clock::first_choice(Clock::Perf, options.hz) };
            continue;
        }
        if session.log.is_open() {
            let _stores = StoresMayFault::in_thread(session.may_call());
            settings.period_ns.store(go_on(session, choice.period_ns), Ordering::Relaxed);
        }
        if let Err(refused) = numbers::install(session, options.signal) {
            // A program that handles SIGTRAP itself: the same event with another signal.
            choice = match choice.clock {
                Clock::Sigtrap => clock::Chosen { clock: Clock::Perf, ..choice },
                failed => clock::next_choice(options.clock, failed, options.hz, 0).ok_or(refused)?,
            };
            continue;
        }
        session.begin();
        match threads::arm_first(session, in_handler) {
            Ok(()) => break,
            Err(e) => {
                session.on.store(false, Ordering::Relaxed);
                match clock::next_choice(options.clock, choice.clock, options.hz, e.0) {
                    Some(next) => choice = next,
                    None => return Err(Refused::Clock(e)),
                }
            }
        }
    }
    if session.log.is_open() {
        let _stores = StoresMayFault::in_thread(session.may_call());
        session.log.header_set(at::STATE, State::Armed as u64);
    }
    heap::start(session);
    Ok(session)
}

/// CLOCK_MONOTONIC ns at which the next file is begun, 0 = never.
fn first_rotation(options: &Options) -> u64 {
    match options.rotate_ns {
        0 => 0,
        ns => time::monotonic_ns().saturating_add(ns),
    }
}

/// Whether time in the kernel is to be sampled with its calls: asked for, and harmless here. The errors are what a
/// recording says of it: `ENOSYS` if this kernel cannot without harm, `EOPNOTSUPP` if it would harm this program.
fn wants_kernel(options: &Options) -> sys::Result<bool> {
    let asked = options.kernel
        && options.mode == Recorder::Log
        && options.stack != StackMode::None
        && seed().controller == 0;
    if !asked {
        return Ok(false);
    }
    if !cfg!(target_arch = "x86_64") || sys::kernel_version() < clock::perf::KERNEL_FROM {
        return Err(sys::Errno::ENOSYS);
    }
    if passing::pass_us_by() {
        return Err(sys::Errno::EOPNOTSUPP);
    }
    Ok(true)
}

/// Sampling starts again in the file that is there, and a period of `asked_ns` is asked for: gives the one to take.
///
/// Segments of samples say what theirs is; counters cannot, being sums over the life of the file: its own period stays.
fn go_on(session: &Session, asked_ns: u64) -> u64 {
    let own = session.log.header(at::PERIOD_NS).map_or(asked_ns, |period| period.load(Ordering::Relaxed));
    if !session.counts() {
        session.log.restart(asked_ns);
        return asked_ns;
    }
    if own != asked_ns {
        report(b"counters cannot change their rate: they go on at the rate that their file began with");
    }
    own
}

/// Memory for a session: wiped in the child of a fork, where the same range is used again.
fn map_session() -> Result<&'static Session, Refused> {
    let old = SESSION.load(Ordering::Acquire);
    if !old.is_null() {
        // The child of a fork: the kernel wiped it.
        walked_modules::in_child();
        // SAFETY: mapped for good, all zeros is a valid session, and nobody else lives in this process yet.
        return Ok(unsafe { &*old });
    }
    fresh_session()
}

fn fresh_session() -> Result<&'static Session, Refused> {
    let bytes = size_of::<Session>();
    let memory = sys::map_memory(bytes).map_err(Refused::Memory)?;
    // SAFETY: fresh memory of our own. Kernels before 4.14 do not wipe; then `start_in_child` is told by its pid.
    let _ = unsafe { sys::madvise(memory, bytes, sys::MADV_WIPEONFORK) };
    // SAFETY: as above. Of these megabytes most processes touch one page.
    let _ = unsafe { sys::madvise(memory, bytes, sys::MADV_NOHUGEPAGE) };
    // SAFETY: zeroed, page-aligned memory of the right size that is never unmapped; every field is valid as zeros.
    Ok(unsafe { &*memory.cast::<Session>() })
}

/// For a start that asks for its file in another place than the last one's. The old session stays as it is: a
/// handler that was about to end may still be in it. The one before the old one is given back and begins
/// anew: two serve any number of starts. If a thread is still in it, `patient` callers try again later,
/// others get a third.
pub(super) fn another_session(patient: bool) -> Result<&'static Session, Refused> {
    let spare = SPARE.load(Ordering::Relaxed);
    // SAFETY: once mapped, always mapped.
    let session = match unsafe { spare.as_ref() } {
        // The child of a fork: the kernel wiped it.
        Some(spare) if spare.pid.load(Ordering::Relaxed) == 0 => spare,
        Some(spare) if is_left(spare) => {
            give_back(spare);
            spare
        }
        Some(_) if patient => return Err(Refused::Busy),
        _ => fresh_session()?,
    };
    SPARE.store(SESSION.load(Ordering::Acquire), Ordering::Release);
    own_path::forget();
    Ok(session)
}

/// Whether nobody is in it any more: it is off, and another one has been on since. (In the child of a fork
/// what it refers to is not mapped.)
fn is_left(session: &Session) -> bool {
    !session.on.load(Ordering::Relaxed)
        && session.pid.load(Ordering::Relaxed) == sys::getpid()
        && session.rings.are_left()
        && session.house.try_lock().is_some()
        && session.keep.try_lock().is_some()
}

/// Unmaps its file and its tables; it is as fresh as from [`fresh_session`] then. [`is_left`] was true.
fn give_back(session: &Session) {
    if session.may_call() {
        rests::free(&session.log);
    }
    session.log.unmap();
    session.stacks.unmap();
    session.codes.unmap();
    session.heap.unmap();
    session.rings.unmap();
    let at = core::ptr::from_ref(session).cast_mut().cast::<u8>();
    // SAFETY: our own mapping, whose contents nobody wants any more; every field is valid as zeros, and all
    // are atomics or cells that nobody has borrowed.
    let _ = unsafe { sys::madvise(at, size_of::<Session>(), sys::MADV_DONTNEED) };
}

/// Stops sampling: clocks are disarmed, the handlers stay and do nothing. The file stays open for another start.
pub fn stop(session: &Session, state: State) {
    let _alone = alone();
    let Some(_guard) = START.lock_patiently(true) else { return };
    if !session.on.swap(false, Ordering::Relaxed) {
        return;
    }
    WAS_ON.store(false, Ordering::Relaxed);
    heap::stop(session);
    {
        // A round in another thread arms clocks; later rounds see that it is off.
        let mut house = session.house.lock_patiently(true);
        watch::stop_watching(session);
        if let Some(house) = house.as_deref_mut() {
            threads::settle_carried(session, house);
        }
        threads::disarm_all(session);
        numbers::drop_pending(session);
    }
    close(session, state);
    session.spent.off();
    session.spent_by_children.off();
}

/// From now on no clock may send a signal and no system call may be made, `why` being said in the file. True if
/// sampling was on. [`resume`] takes it back.
pub fn pause(session: &Session, why: OffFor) -> bool {
    if !session.on.load(Ordering::Relaxed) {
        return false;
    }
    stop(session, State::Stopped);
    // Somebody else is switching, and has not come to an end for a second.
    if session.on.load(Ordering::Relaxed) {
        return false;
    }
    numbers::release(session);
    note_off_for(session, Some(why));
    session.forbid_calls();
    true
}

/// Says in the file why sampling ended although the process goes on, or (`None`) that it goes on too.
pub fn note_off_for(session: &Session, why: Option<OffFor>) {
    let _alone = alone();
    session.log.header_set(at::OFF_FOR, why.map_or(0, |why| why as u64));
}

/// Ends a pause: the filter was seen, and it lets our handlers return.
pub fn resume(session: &Session) {
    session.allow_calls();
    note_off_for(session, None);
    match start() {
        Ok(_) | Err(Refused::AlreadyOn) => report::resumed(),
        Err(_) => report(b"sampling could not be resumed under the filter on system calls"),
    }
}

/// In the child of a process that forked after [`pause`], and was sampled before: ends the pause there. Nothing has
/// begun in the child yet.
pub fn end_pause_in_child() {
    session::allow_in_child();
    start_in_child();
}

/// A thread has begun where no system call may be made: it gets no clock.
pub fn note_thread_under_filter(session: &Session) {
    note_begun_under_filter(session, OffFor::NewThreads);
}

/// A child was forked where no system call may be made: nothing begins in it.
pub(super) fn note_child_under_filter(session: &Session) {
    note_begun_under_filter(session, OffFor::NewChildren);
}

fn note_begun_under_filter(session: &Session, begun: OffFor) {
    let said = session.log.header(at::OFF_FOR).map_or(0, |word| word.load(Ordering::Relaxed));
    match OffFor::from_number(said) {
        None if said == 0 => note_off_for(session, Some(begun)),
        Some(before @ (OffFor::NewThreads | OffFor::NewChildren)) if before != begun => {
            note_off_for(session, Some(OffFor::NewThreadsAndChildren));
        }
        // Why nothing is recorded was said before.
        _ => {}
    }
}

/// The process, or this image of it, ends. If sampling was switched off before, the file is told what was used since.
pub fn end(session: &Session, state: State) {
    if session.on.load(Ordering::Relaxed) || !session.may_call() {
        return close(session, state);
    }
    if session.log.is_open() {
        let _alone = alone();
        session.spent.end_while_off();
        session.log.header_set(at::OFF_NS, session.spent.while_off().1);
    }
}

/// Writes what is known at the end: anchors, CPU times, state. The clocks may go on.
pub fn close(session: &Session, state: State) {
    if !session.log.is_open() {
        say_without_sample(session);
        return;
    }
    if !session.may_call() {
        // Under a filter on system calls the header's state word is all that can be written.
        session.log.header_set(at::STATE, state as u64);
        return;
    }
    beside::close(session, state);
    let alone = alone();
    if let Some(mut house) = session.house.lock_patiently(true) {
        if session.on.load(Ordering::Relaxed) {
            threads::settle_carried(session, &mut house);
        }
        bookkeeping::note_times_while_blocked(session, &mut house, alone.signals());
        moves::say_if_taken_unseen(session);
        session.log.header_set(at::STATE, state as u64);
        if own_path::is_gone() {
            report(b"its file was removed or renamed while it was written");
        }
    }
}

/// The process (or this image of it) ends, and no sample fell into its time.
pub(crate) fn say_without_sample(session: &Session) {
    if session.failed.load(Ordering::Relaxed)
        // Samples are in the files before this one.
        || session.rotations.load(Ordering::Relaxed) != 0
        || !session.may_call()
        || session.told.swap(true, Ordering::Relaxed)
    {
        return;
    }
    let seed = seed();
    let all = sys::rusage_ns(sys::RUSAGE_SELF);
    let (user, system) = session.spent.while_on(all);
    let used = user.saturating_add(system);
    if !seed.out_is_template {
        let all = all.0.saturating_add(all.1);
        let pid = session.pid.load(Ordering::Relaxed);
        status::without_sample(seed.places(), pid, seed.called(), used, all);
    }
    if used > ENOUGH_PERIODS * session.settings.period_ns.load(Ordering::Relaxed) {
        explain(session);
    }
}

/// So many periods without one sample are no chance (e^-20 for the ideal sampler).
const ENOUGH_PERIODS: u64 = 20;

/// Says why a process that used enough time ends without a sample.
fn explain(session: &Session) {
    if session.tries.load(Ordering::Relaxed) > 0 {
        let mut cause = Buf::<160>::new();
        cause.push(b"its file could not be made; the last attempt failed with ");
        cause.push(file::last_refusal().name().as_bytes());
        report(cause.bytes());
        return;
    }
    if moves::still_ours(session) && sys::sigmask(sys::Mask::Block, 0) & session.signals() != 0 {
        report(b"the program blocks the sampling signal all the time: it cannot be sampled");
    }
}

/// Begins anew in a child that was made in a way that nobody saw (raw clone): called where the host passes by.
#[inline]
pub fn revive() {
    if current().is_none() && !SESSION.load(Ordering::Relaxed).is_null() {
        start_in_child();
    }
}

/// In the child of a fork: begins anew, with own file, rings and clocks, if forks are followed and the parent
/// was sampled.
pub fn start_in_child() {
    let session = SESSION.load(Ordering::Relaxed);
    // SAFETY: null, or mapped for good.
    let Some(session) = (unsafe { session.as_ref() }) else { return };
    if !session.is_wiped() || session::is_filtered() {
        return;
    }
    START.free_in_child();
    own_stack::stack_in_child();
    stack_finder::in_child();
    lent::in_child();
    passing::in_child();
    // SAFETY: the only thread of a fresh process; no session is alive, so no handler reads the seed.
    let seed = unsafe { session::seed_of_child() };
    own_path::move_to_child(&mut seed.parent);
    // (Not the time before that: a process that forbids itself to read the counter has switched sampling off.)
    if seed.options.follow.fork && WAS_ON.load(Ordering::Relaxed) {
        seed.started = Instant::now();
        let _ = start();
    }
}
