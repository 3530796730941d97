//! Samples whose time in the kernel has the kernel's own calls: one stack from `_start` through `read` to
//! `copy_to_user`.
//!
//! The clock's event counts time in the kernel too ([`perf::arm_with_kernel`]). Each expiry leaves a record
//! at once: where the thread was in the kernel, and where its own code had entered it. The signal waits for
//! the return to user mode, so no system call is cut short. In that handler the thread's own stack is still
//! the one that made the call, and it is walked as ever.
//!
//! ```text
//! thread   | main > work > read() |                             | handler
//! kernel                          | ksys_read > vfs_read > ...  |
//! records                               #      #      #           all three: below main > work > read
//! ```
//!
//! A record belongs to the interrupted place if it names the same instruction and the same stack pointer. If
//! not, the clock expired elsewhere: in our own handler, while the thread blocked the signal, before the
//! host's own handler. Then its callers are not known, and the sample says so.
//!
//! A call that lasts longer than the ring holds loses the oldest records. The thread's CPU time shows them at
//! the next tick ([`super::system_time`]), without the kernel's calls.
//!
//! Programs must execute others through functions that we wrap: a signal that waits while the kernel replaces
//! the program kills the next one. So neither attached nor static programs are sampled in this way.
//!
//! Signal safety: as [`super::handler`].

use core::sync::atomic::Ordering;

use crate::code::callers::{self, Halves};
use crate::code::thread_stack::FRONT;
use crate::process::file;
use crate::process::session::{self, Session};
use crate::record::rings::Ring;
use crate::record::time;
use crate::signal::clock::kernel_records::{Expiry, Fresh, Records};
use crate::signal::clock::{self, perf, period};
use crate::signal::expiry::set_period;
use crate::signal::sample::{MOST_OWN_FRAMES, before_first, carried, mapped_over, not_entered, sample_apart};
use crate::sys::arch::{self, Regs};
use pct_format::layout::header as at;
use pct_format::record::{Boundary, Entry, Frame};
use pct_format::record::{kernel_sample, kernel_sample_with_frames, sample, sample_with_frames};
use pct_format::{Clock, CutCause, LossCause};

/// A record so much older than its signal keeps its own time: the thread slept in between.
const LATE_NS: u64 = 2_000_000;
/// Length of the instruction that enters the kernel: a call to be made once more is gone back to.
const SYSCALL_OCTETS: u64 = 2;

/// Handles the signal of an event that counts time in the kernel. False: the signal is not from such an event.
#[cold]
#[inline(never)]
pub(super) fn on_signal(session: &Session, data: u64, regs: Regs) -> bool {
    if data & perf::KERNEL_DATA == 0 || session.clock() != Clock::Sigtrap {
        return false;
    }
    let Some(ring) = session.rings.by_value(data & !perf::KERNEL_DATA) else { return false };
    let signals = session.signals();
    // None: another thread is ending the event.
    if let Some(taken) = perf::TakenRecords::take_from(ring) {
        if let Some(records) = taken.records() {
            on_records(session, ring, regs, records);
        }
        taken.give_back(session, ring, signals);
    }
    true
}

/// An event expired that all threads inherit, and that counts time in the kernel.
#[inline(never)]
pub(super) fn on_inherited(session: &Session, ring: &Ring, regs: Regs) {
    let inherited = &session.inherited;
    let (tid, since) = (ring.tid.load(Ordering::Relaxed), ring.news_read.load(Ordering::Relaxed));
    let of = |number: u32| {
        let records = inherited.records(number)?;
        let fresh = records.fresh_of(tid, since);
        (fresh.count() > 0).then_some((records, fresh))
    };
    // The thread may have gone to another processor since.
    let found = of(arch::processor()).or_else(|| (0..inherited.facts().0 as u32).find_map(of));
    let (ns, share) = inherited.expired();
    let mut ns = ns;
    if let Some((_, fresh)) = &found {
        ring.news_read.store(fresh.newest_ns, Ordering::Relaxed);
        let others = fresh.count() as u64 - 1;
        inherited.account(ns * others);
        ns += ns * others;
    }
    ring.accounted_ns.store(ring.accounted_ns.load(Ordering::Relaxed) + ns, Ordering::Relaxed);
    let weight = period::weight(ring, share);
    match found {
        Some((records, fresh)) => record(session, ring, regs, (records, &fresh), (weight, share)),
        None if weight == 0 => {}
        None => {
            let system = arch::after_system_call(regs, session.may_call());
            sample_apart(session, ring, regs, weight, system);
        }
    }
}

/// Samples what was recorded since the last signal. Nothing: the signal is of an event that was replaced meanwhile.
fn on_records(session: &Session, ring: &Ring, regs: Regs, records: Records<'_>) {
    let fresh = records.fresh(ring.news_read.load(Ordering::Relaxed));
    if fresh.count() == 0 {
        return;
    }
    ring.news_read.store(fresh.head, Ordering::Relaxed);
    let weights = account(session, ring, regs, fresh.count() as u64);
    record(session, ring, regs, (records, &fresh), weights);
}

/// Writes samples of fresh records. `first_weight`: of the oldest; `share`: what each of the others stands for.
fn record(
    session: &Session,
    ring: &Ring,
    regs: Regs,
    (records, fresh): (Records<'_>, &Fresh),
    (first_weight, share): (u64, u64),
) {
    if !session.log.is_open() && !file::open_in_handler(session) {
        // Another thread is making the file: the weight goes to this one's next sample.
        ring.put_off(regs.pc, weight_of_all(ring, fresh, (first_weight, share)));
        return;
    }
    if !ring.has_segment() {
        before_first(session);
    }
    if let Err(why) = ring.enter() {
        return not_entered(session, ring, regs, weight_of_all(ring, fresh, (first_weight, share)), why);
    }
    if !ring.is_in_the_file(&session.log) {
        ring.exit();
        return mapped_over(session, ring, regs, weight_of_all(ring, fresh, (first_weight, share)));
    }
    record_all(session, ring, regs, (records, fresh), (first_weight, share));
    ring.exit();
}

/// What all fresh records stand for, where none of them can be written.
#[cold]
fn weight_of_all(ring: &Ring, fresh: &Fresh, (first_weight, share): (u64, u64)) -> u64 {
    (1..fresh.count()).fold(first_weight, |sum, _| sum + period::weight(ring, share))
}

/// Accounts for so many expiries, and draws a new period when it is time. Gives the weight of the oldest, and
/// what each of the others stands for.
fn account(session: &Session, ring: &Ring, regs: Regs, count: u64) -> (u64, u64) {
    let rearm = ring.rearm.load(Ordering::Relaxed);
    let is_first = rearm == clock::PERIOD_WRONG;
    let nominal = session.settings.period_ns.load(Ordering::Relaxed);
    let (oldest_ns, other_ns, share) = if is_first {
        // The first one stands for an entire period, those behind it for the time up to the first. (0: that
        // is not known.)
        let known = ring.first_at_ns.load(Ordering::Relaxed) != 0;
        let first_ns = if known { ring.first_ns.load(Ordering::Relaxed) } else { 0 };
        (nominal, first_ns, period::share(first_ns, nominal))
    } else {
        let period = ring.period_ns.load(Ordering::Relaxed);
        (period, period, ring.share.load(Ordering::Relaxed))
    };
    let accounted = ring.accounted_ns.load(Ordering::Relaxed) + oldest_ns + other_ns * (count - 1);
    ring.accounted_ns.store(accounted, Ordering::Relaxed);
    let weight = if is_first || u64::from(rearm) < count {
        set_period(session, ring, regs)
    } else {
        ring.rearm.store(rearm - count as u32, Ordering::Relaxed);
        period::weight(ring, share)
    };
    (weight, share)
}

fn record_all(
    session: &Session,
    ring: &Ring,
    regs: Regs,
    (records, fresh): (Records<'_>, &Fresh),
    (first_weight, share): (u64, u64),
) {
    let Some(mut halves) = callers::halves(session, ring, regs) else {
        return session.log.lose(LossCause::NoRoom, 1, first_weight);
    };
    let interrupted = (regs, callers::stack_pointer(regs));
    for (number, place) in fresh.oldest_first().enumerate() {
        let weight = match number {
            0 => first_weight + carried(session, ring),
            _ => period::weight(ring, share),
        };
        // What was written over meanwhile comes out as time that no sample accounted for, as the others that were.
        if weight == 0 {
            continue;
        }
        match records.read(place, halves.chain) {
            Some(expiry) => record_one(session, ring, &mut halves, interrupted, expiry, weight),
            None => session.log.lose(LossCause::Overwritten, 1, weight),
        }
    }
}

/// Writes the sample of one expiry.
fn record_one(
    session: &Session,
    ring: &Ring,
    halves: &mut Halves<'_>,
    (regs, stack_pointer): (Regs, u64),
    expiry: Expiry,
    weight: u64,
) {
    let (pc, place) = (regs.pc, expiry.user);
    let is_joined = place
        .is_some_and(|(ip, sp)| sp == stack_pointer && (ip == pc || ip == pc.wrapping_add(SYSCALL_OCTETS)));
    let user_pc = if is_joined { pc } else { place.map_or(0, |(ip, _)| ip) };
    let mut first = FRONT;
    let mut end = halves.words.len();
    let mut entry = Entry::Unknown;
    if is_joined {
        if expiry.in_kernel && arch::after_system_call(regs, session.may_call()) {
            entry = Entry::SystemCall;
        }
    } else {
        session.log.header_add(at::NOT_JOINED, weight);
        first = put_before(halves.words, first, Frame::Cut(CutCause::NotJoined).encode());
        end = FRONT;
    }
    let leaf = if expiry.in_kernel {
        first = put_before(halves.words, first, Frame::Exact(user_pc).encode());
        first = put_before(halves.words, first, Frame::Boundary(Boundary { entry, number: None }).encode());
        let (leaf, callers) = match halves.chain.get(..expiry.addresses) {
            Some([leaf, callers @ ..]) => (*leaf, callers),
            _ => (0, &[][..]),
        };
        for caller in callers.iter().rev() {
            first = put_before(halves.words, first, Frame::Kernel(*caller).encode());
        }
        leaf
    } else {
        user_pc
    };
    let frames = halves.words.get_mut(first..end).unwrap_or(&mut []);
    let time = raw_time(expiry.time_ns);
    match session.stacks.id(&session.log, &session.keep, session.may_call(), frames) {
        Some(stack) => {
            let (words, count) = if expiry.in_kernel {
                kernel_sample(time, leaf, weight, stack)
            } else {
                sample(time, leaf, weight, false, stack)
            };
            push(session, ring, weight, words.get(..count).unwrap_or(&words), &[]);
        }
        None => with_frames(session, ring, (time, leaf, weight, expiry.in_kernel), frames),
    }
}

/// Puts a word before those that begin at `first`, and says where they begin then.
fn put_before(words: &mut [u64], first: usize, word: u64) -> usize {
    let Some(place) = first.checked_sub(1) else { return 0 };
    if let Some(slot) = words.get_mut(place) {
        *slot = word;
    }
    place
}

/// A sample that carries its own stack: the table of stacks is full, or somebody else is writing it.
#[cold]
fn with_frames(
    session: &Session,
    ring: &Ring,
    (time, pc, weight, in_kernel): (u64, u64, u64, bool),
    frames: &mut [u64],
) {
    if let Some(last) = frames.get_mut(MOST_OWN_FRAMES - 1) {
        *last = Frame::Cut(CutCause::Depth).encode();
    }
    let frames = frames.get(..frames.len().min(MOST_OWN_FRAMES)).unwrap_or(&[]);
    let head = if in_kernel {
        kernel_sample_with_frames(time, pc, weight, frames.len())
    } else {
        sample_with_frames(time, pc, weight, false, frames.len())
    };
    push(session, ring, weight, &head, frames);
}

fn push(session: &Session, ring: &Ring, weight: u64, words: &[u64], frames: &[u64]) {
    if frames.is_empty() && ring.append(&session.log, weight, words) {
        return;
    }
    ring.push(&session.log, &session.rings, session.may_call(), 1, weight, words, frames);
}

/// The raw time of an instant that has just passed on CLOCK_MONOTONIC. Of one long ago it is found by the
/// counter's rate since the start.
fn raw_time(then_ns: u64) -> u64 {
    let now = time::Instant::now().anchor();
    let ago_ns = now.monotonic_ns.saturating_sub(then_ns);
    let start = session::seed().started.anchor();
    let (raw, ns) = (now.raw.saturating_sub(start.raw), now.monotonic_ns.saturating_sub(start.monotonic_ns));
    if ago_ns < LATE_NS || ago_ns > ns {
        return time::now();
    }
    let ago = u128::from(ago_ns) * u128::from(raw) / u128::from(ns.max(1));
    now.raw.saturating_sub(ago as u64).max(1)
}
