//! Writing a sample: its stack, its number, its record; or one more in a counter.
//!
//! Signal safety: system calls and try-locks, as [`super::handler`].

use core::hint::cold_path;
use core::sync::atomic::Ordering;

use crate::code::callers;
use crate::process::own_stack::on_own_stack;
use crate::process::session::Session;
use crate::process::{bookkeeping, file, housekeeper, rotation};
use crate::record::rings::{NotEntered, Ring};
use crate::record::time;
use crate::signal::clock::tick;
use crate::signal::put_off::record_put_off;
use crate::sys::arch::Regs;
use pct_format::layout::header as at;
use pct_format::{CutCause, LossCause, record};

/// Frames that a sample itself may carry: a quarter of a segment. Of a deeper stack the innermost are kept.
pub(super) const MOST_OWN_FRAMES: usize = 2048;

/// [`sample`] for those that are not in a hurry.
#[inline(never)]
pub(super) fn sample_apart(session: &Session, ring: &Ring, regs: Regs, weight: u64, system: bool) {
    sample(session, ring, regs, weight, system);
}

/// Writes one sample.
#[inline(always)]
pub(super) fn sample(session: &Session, ring: &Ring, regs: Regs, weight: u64, system: bool) {
    if !session.log.is_open() {
        cold_path();
        first_in_file(session, ring, regs, weight, system);
        return;
    }
    let counts = session.counts();
    if !counts && !ring.has_segment() {
        before_first(session);
    }
    if let Err(why) = ring.enter() {
        cold_path();
        not_entered(session, ring, regs, weight, why);
        return;
    }
    if !counts && !ring.is_in_the_file(&session.log) {
        cold_path();
        ring.exit();
        mapped_over(session, ring, regs, weight);
        return;
    }
    let mut weight = weight;
    if ring.carry.load(Ordering::Relaxed) != 0 {
        cold_path();
        weight += carried(session, ring);
    }
    if counts {
        cold_path();
        count(session, regs.pc, weight, system);
    } else if callers::wanted(session, regs) {
        with_stack(session, ring, regs, weight, system);
    } else {
        record_sample(session, ring, (time::now(), regs.pc, weight, system), 0);
    }
    ring.exit();
}

/// The sample for which a file is made.
#[cold]
#[inline(never)]
fn first_in_file(session: &Session, ring: &Ring, regs: Regs, weight: u64, system: bool) {
    if file::open_in_handler(session) {
        sample_apart(session, ring, regs, weight, system);
        tick::own_work_ends(ring);
    } else {
        // Another thread is making the file: the weight goes to this one's next sample.
        ring.put_off(regs.pc, weight);
    }
}

/// Periods that a sample stands for beside its own: what expired so shortly before was spent about here.
const MOST_CARRIED: u64 = 4;

/// What expired in the thread before it could be recorded, and goes to its present sample. More than a few periods are
/// recorded where the last of them expired: by now the thread may do something else, or nothing. The caller holds the
/// busy flag.
#[cold]
#[inline(never)]
pub(super) fn carried(session: &Session, ring: &Ring) -> u64 {
    // Who ends the recording takes it too, and only one may have it.
    let weight = ring.carry.swap(0, Ordering::Relaxed);
    let pc = ring.carried_pc.load(Ordering::Relaxed);
    if weight <= MOST_CARRIED || pc == 0 {
        return weight;
    }
    if session.counts() {
        count(session, pc, weight, false);
    } else {
        record_put_off(session, ring, pc, weight);
    }
    0
}

/// A sample that cannot be written. In a session that ended, the next one's sample of this thread stands for it
/// ([`crate::process::previous`]).
#[cold]
#[inline(never)]
pub(super) fn not_entered(session: &Session, ring: &Ring, regs: Regs, weight: u64, why: NotEntered) {
    match why {
        NotEntered::Busy => session.rings.without_slot(|| session.log.lose(LossCause::Busy, 1, weight)),
        NotEntered::Ended => ring.put_off(regs.pc, weight),
    }
}

/// The program has mapped memory of its own over the file's mapping. The sample waits for the next file.
#[cold]
#[inline(never)]
pub(super) fn mapped_over(session: &Session, ring: &Ring, regs: Regs, weight: u64) {
    ring.put_off(regs.pc, weight);
    if session.may_call()
        && let Some(mut house) = session.house.try_lock()
    {
        on_own_stack(session, &mut house, rotation::leave_mapping);
    }
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

/// A sample that begins a segment, or whose numbers are large. `rest`: the stack's number, and whether it is
/// system time (bit 32); all in registers.
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

/// A thread's first sample, and one in a program of short threads, which never tick: the segments of the dead
/// among them should be there for it. (A program of few threads is looked at by its ticks: a round before it
/// has made them would only put off the one that finds them.)
#[cold]
#[inline(never)]
pub(super) fn before_first(session: &Session) {
    const MANY: u32 = 32;
    if session.rings.count() > MANY && session.may_call() && session.stale.load(Ordering::Relaxed) {
        housekeeper::maybe(session, time::monotonic_ns());
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
            callers::look_again(session) == Some(true)
        }
    };
    if worth_it
        && session.may_call()
        && let Some(mut house) = session.house.try_lock()
    {
        house.wanted_pc = pc;
        on_own_stack(session, &mut house, bookkeeping::provide_counters);
    }
    match session.regions.find(pc).and_then(|region| log.header(region.counter(pc)?)) {
        Some(counter) => {
            counter.fetch_add(weight, Ordering::Relaxed);
        }
        None => log.header_add(at::UNKNOWN, weight),
    }
}
