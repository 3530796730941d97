//! What is written beside the samples, when the file is made, in each round and at the end: regions, names of threads,
//! anchors and CPU times.
//!
//! Signal safety: system calls; the caller holds the housekeeper's lock.

use core::sync::atomic::Ordering;

use crate::code::stack_finder::StackFinder;
use crate::code::walked_modules;
use crate::heap::level;
use crate::process::session::{self, House, Session};
use crate::process::{tasks, threads};
use crate::record::rings::Ring;
use crate::record::time::Instant;
use crate::sys;
use pct_format::LossCause;
use pct_format::head::kind;
use pct_format::layout::header as at;
use pct_format::record::Encoder;

/// Names are read anew every so many rounds.
const NAMES_EVERY: u64 = 4;
/// What [`Ring::announced`] says of a thread: recorded; recorded, and its name was looked at again.
const ANNOUNCED: u32 = 1;
const SETTLED: u32 = 2;
/// CPU time in which a thread must have ticked, if it could.
const SILENT_NS: u64 = 50_000_000;

/// Looks at the regions.
pub fn refresh_regions(session: &Session, house: &mut House) {
    session.changing.store(false, Ordering::Relaxed);
    walked_modules::begin_look();
    let mut stacks = StackFinder::new(session);
    let list = &mut house.list;
    let refused = |wanted, errno| session.refusals.note(&session.log, wanted, errno);
    let answers = session::seed().answers();
    let (file, counts) = ((&session.log, &session.keep), session.counts());
    session.regions.refresh(list, file, counts, answers, refused, |m| stacks.see(m));
    stacks.end();
    walked_modules::refresh(session, &mut house.list);
}

/// Counters for the region of the PC that is wanted.
pub fn provide_counters(session: &Session, house: &mut House) {
    let shift = session::seed().options.shift;
    session.regions.provide(&mut house.list, &session.log, house.wanted_pc, shift);
}

/// Records threads that are new, and names that changed.
pub fn name_threads(session: &Session, house: &mut House) {
    let all = house.rounds % NAMES_EVERY == 1;
    for ring in session.rings.living() {
        let was = ring.announced.load(Ordering::Relaxed);
        let announced = was != 0;
        let nameless = ring.name[0].load(Ordering::Relaxed) == 0;
        // A thread has its maker's name until it gives itself its own, so new ones are looked at twice.
        if !announced || (all || was == ANNOUNCED) && ring.has_segment() {
            let old = [ring.name[0].load(Ordering::Relaxed), ring.name[1].load(Ordering::Relaxed)];
            let tid = ring.tid.load(Ordering::Relaxed);
            let new = tasks::name_of(tid).unwrap_or(old);
            if new != old {
                ring.set_name(&session.log, new);
            }
            ring.announced.store(if announced { SETTLED } else { ANNOUNCED }, Ordering::Relaxed);
            if !announced {
                threads::announce(session, &session.log, ring, &mut house.record, kind::THREAD_BEGIN);
            } else if new != old || nameless {
                threads::announce(session, &session.log, ring, &mut house.record, kind::THREAD_NAME);
            }
        }
    }
    session.log.header_set(at::THREADS, u64::from(session.rings.count()));
}

/// Writes an anchor and the CPU times, into the header and the process's ring. For handlers: all signals are blocked
/// in the calling thread, and not by the program.
pub fn note_times(session: &Session, house: &mut House) {
    note_times_while_blocked(session, house, !0);
}

/// The same where pct has blocked the signals `ours` in the calling thread, which says nothing of the program.
pub(crate) fn note_times_while_blocked(session: &Session, house: &mut House, ours: sys::SignalSet) {
    let anchor = Instant::now().anchor();
    let cpu = sys::rusage_ns(sys::RUSAGE_SELF);
    session.log.latest_anchor(anchor, session.spent.while_on(cpu));
    let (before, off) = session.spent.while_off();
    session.log.header_set(at::BEFORE_NS, before);
    session.log.header_set(at::OFF_NS, off);
    // Where children are not followed nobody misses their time.
    if session::seed().options.follow.fork {
        let (user, system) = session.spent_by_children.used();
        session.log.header_set(at::CHILDREN_USER_NS, user);
        session.log.header_set(at::CHILDREN_SYSTEM_NS, system);
    }
    let tid = sys::gettid();
    let thread_cpu = sys::clock_ns(sys::CLOCK_THREAD_CPU);
    let record = Encoder::new(&mut house.record)
        .raw_word(anchor.raw)
        .number(anchor.monotonic_ns)
        .number(anchor.realtime_ns)
        .number(u64::from(tid))
        .number(thread_cpu)
        .number(cpu.0)
        .number(cpu.1)
        .finish(kind::ANCHOR, 0);
    if let Some(record) = record {
        house.process.append(&session.log, session.may_call(), record, &[]);
    }
    level::note(session, house);
    for ring in session.rings.living() {
        let ours = if ring.tid.load(Ordering::Relaxed) == tid { ours } else { 0 };
        visit(session, ring, ours);
    }
}

/// Notes a thread's CPU time. One that used much of it without a sample or a tick blocks our signals: that
/// time is lost under that name, and not taken for system time when the signals come through again. `ours`: those
/// that pct has blocked in it, not the program.
fn visit(session: &Session, ring: &Ring, ours: sys::SignalSet) {
    let tid = ring.tid.load(Ordering::Relaxed);
    let cpu = sys::clock_ns(sys::thread_cpu_clock(tid));
    if cpu == 0 {
        return;
    }
    let accounted = ring.accounted_ns.load(Ordering::Relaxed);
    let used = cpu.saturating_sub(ring.visited_cpu_ns.load(Ordering::Relaxed));
    let ticked = ring.seen.swap(0, Ordering::Relaxed) != 0;
    let silent = accounted == ring.visited_accounted_ns.load(Ordering::Relaxed) && !ticked;
    if silent && used < SILENT_NS {
        // Too little to judge by: left to the next visit.
        return;
    }
    ring.visited_cpu_ns.store(cpu, Ordering::Relaxed);
    ring.visited_accounted_ns.store(accounted, Ordering::Relaxed);
    if silent && tasks::blocks(tid, session.signals() & !ours) {
        let weight = used.checked_div(session.settings.period_ns.load(Ordering::Relaxed)).unwrap_or(0);
        session.log.lose(LossCause::Blocked, weight, weight);
        ring.accounted_ns.store(accounted + used, Ordering::Relaxed);
        session.inherited.account(used);
        ring.visited_accounted_ns.store(accounted + used, Ordering::Relaxed);
        threads::slow_down(session, ring);
    }
}
