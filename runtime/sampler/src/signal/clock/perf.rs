//! The perf task clock: a software event per thread that counts its time on a CPU and signals in user mode.
//!
//! The event's file is closed at once, so that the host never sees a descriptor; a mapping of one page keeps the event
//! alive, and unmapping ends it. Signals by F_SETSIG must be standard signals: a queueing real-time signal would turn into
//! SIGIO, and kill the host, when its queue fills while a thread blocks it.
//!
//! Phase and period: the first expiry is at a random point of the period; every few samples the event is replaced by one of another
//! period ([`super::period`]), so that no program stays in step with the clock.
//!
//! Where births pass by us ([`births`]) the event also tells of each thread that its own thread makes: a record in a second page, and
//! the same signal, when the thread returns from its call. [`take_news`] tells the two apart.
//!
//! The event counts from the moment it is opened: an expiry in the few microseconds before its signal is set up is not
//! seen, and comes out as time that no sample accounted for.
//!
//! Signal safety: system calls only.

use core::sync::atomic::{Ordering, fence};

use crate::process::births;
use crate::process::session::Session;
use crate::record::rings::{LIVE, Ring};
use crate::sys::{self, Errno, PerfAttr};
use pct_format::Clock;

const PAGE: usize = 4096;
/// The kernel takes no shorter period for a software clock.
const SHORTEST_NS: u64 = 10_000;

/// `perf_event_attr` of the clock.
#[must_use]
fn attr(clock: Clock, period_ns: u64, data: u64, remove_on_exec: bool, births: bool) -> PerfAttr {
    const TYPE_SOFTWARE: u64 = 1;
    const SIZE: u64 = 128;
    const TASK_CLOCK: u64 = 1;
    const EXCLUDE_KERNEL: u64 = 1 << 5;
    const EXCLUDE_HV: u64 = 1 << 6;
    const TASK: u64 = 1 << 13;
    const WATERMARK: u64 = 1 << 14;
    const REMOVE_ON_EXEC: u64 = 1 << 36;
    const SIGTRAP: u64 = 1 << 37;
    let mut flags = EXCLUDE_KERNEL | EXCLUDE_HV;
    if clock == Clock::Sigtrap {
        flags |= SIGTRAP | REMOVE_ON_EXEC;
    } else if remove_on_exec {
        flags |= REMOVE_ON_EXEC;
    }
    if births {
        flags |= TASK | WATERMARK;
    }
    let mut attr: PerfAttr = [0; 16];
    attr[0] = SIZE << 32 | TYPE_SOFTWARE;
    attr[1] = TASK_CLOCK;
    attr[2] = period_ns.max(SHORTEST_NS);
    attr[5] = flags;
    attr[6] = 1; // wakeup_events, or with WATERMARK the octets after which there is a signal
    attr[15] = if clock == Clock::Sigtrap { data } else { 0 }; // sig_data
    attr
}

/// `perf_event_attr` of an event that all threads inherit, forked processes do not.
#[must_use]
pub(super) fn inherited_attr(period_ns: u64, data: u64) -> PerfAttr {
    const INHERIT: u64 = 1 << 1;
    const INHERIT_THREAD: u64 = 1 << 35;
    let mut attr = attr(Clock::Sigtrap, period_ns, data, true, false);
    attr[5] |= INHERIT | INHERIT_THREAD;
    attr
}

fn open(clock: Clock, tid: u32, period_ns: u64, data: u64, births: bool) -> sys::Result<sys::Fd> {
    match sys::perf_event_open(&attr(clock, period_ns, data, true, births), tid, None) {
        // Kernels before 5.13 know no remove_on_exec, and older ones a shorter structure: E2BIG only if the end is used.
        Err(Errno::EINVAL | Errno(7)) if clock == Clock::Perf => {
            sys::perf_event_open(&attr(clock, period_ns, data, false, births), tid, None)
        }
        fd => fd,
    }
}

/// Arms `ring`'s thread: replaces its event, if it has one, by one with this first expiry.
///
/// # Errors
/// The kernel's refusal; the old event stays then.
pub fn arm(ring: &Ring, clock: Clock, signal: i32, data: u64, period_ns: u64) -> sys::Result<()> {
    let tid = ring.tid.load(Ordering::Relaxed);
    let births = clock == Clock::Perf && births::pass_us_by();
    let fd = open(clock, tid, period_ns, data, births)?;
    if clock == Clock::Perf {
        sys::signal_owner(&fd, tid, signal)?;
    }
    // Too many pages locked, perhaps: a clock without news is better than none.
    let with_news = if births { sys::map_shared(&fd, 2 * PAGE, sys::PROT_READ).ok() } else { None };
    let page = match with_news {
        Some(page) => page as u64 | WITH_NEWS,
        None => sys::map_shared(&fd, PAGE, sys::PROT_READ)? as u64,
    };
    ring.news_read.store(0, Ordering::Relaxed);
    // The kernel does not copy such a mapping to a fork's child.
    let old = ring.perf_page.swap(page, Ordering::SeqCst);
    ring.period_ns.store(period_ns, Ordering::Relaxed);
    unmap(old);
    Ok(())
}

/// Ends the event of `ring`'s thread.
pub fn disarm(ring: &Ring) {
    unmap(ring.perf_page.swap(0, Ordering::SeqCst));
}

/// In [`Ring::perf_page`]: the mapping has a second page, with the kernel's records.
const WITH_NEWS: u64 = 1;

fn unmap(page: u64) {
    if page != 0 {
        let bytes = if page & WITH_NEWS == 0 { PAGE } else { 2 * PAGE };
        // SAFETY: what `arm` mapped, taken out of the ring by a swap: it is unmapped once.
        unsafe { sys::unmap((page & !WITH_NEWS) as *mut u8, bytes) };
    }
}

/// What a signal of an event stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct News {
    /// The event expired.
    pub expired: bool,
    /// The thread made another one.
    pub birth: bool,
}

/// What the kernel has recorded since the last call. The caller is a handler on `ring`'s thread.
///
/// Other threads may switch sampling off or change its signal meanwhile, and unmap what is read here. So it is taken out of the ring for
/// these few instructions. Who wanted it away found nothing, and left a trace that is looked for afterwards.
pub fn take_news(session: &Session, ring: &Ring) -> News {
    let signals = session.signals();
    let page = ring.perf_page.swap(0, Ordering::SeqCst);
    // SAFETY: two pages that `arm` mapped; nobody else can unmap what is not in the ring.
    let news = (page & WITH_NEWS != 0).then(|| unsafe { read_news(page & !WITH_NEWS, ring) });
    if ring.perf_page.compare_exchange(0, page, Ordering::SeqCst, Ordering::Relaxed).is_err() {
        unmap(page);
    }
    fence(Ordering::SeqCst);
    let stays = session.on.load(Ordering::Relaxed) && ring.state.load(Ordering::Relaxed) == LIVE;
    if !stays || session.signals() != signals {
        disarm(ring);
    }
    news.unwrap_or(News { expired: true, birth: false })
}

/// # Safety
/// At `page` an event's two pages are mapped.
unsafe fn read_news(page: u64, ring: &Ring) -> News {
    const DATA_HEAD: u64 = 1024;
    const FORK: u32 = 7;
    const SAMPLE: u32 = 9;
    let read = ring.news_read.load(Ordering::Relaxed);
    // SAFETY: aligned words of the two pages; the kernel writes them, for this very thread alone.
    let word = |at: u64| unsafe { ((page + at) as *const u64).read_volatile() };
    let head = word(DATA_HEAD);
    ring.news_read.store(head, Ordering::Relaxed);
    // Overwritten before they were read, or none at all (a signal of an event that this one has replaced): it may be either.
    let lost = head.wrapping_sub(read) > PAGE as u64;
    let mut news = News { expired: lost || head == read, birth: lost };
    let mut at = read;
    while !lost && at < head {
        let header = word(PAGE as u64 + at % PAGE as u64);
        let (kind, size) = (header as u32, header >> 48);
        news.expired |= kind == SAMPLE;
        news.birth |= kind == FORK;
        if size < 8 || size % 8 != 0 {
            break;
        }
        at += size;
    }
    news
}
