//! The perf task clock: a software event per thread that counts its time on a CPU and signals in user mode.
//!
//! The event's file is closed at once, so that the host never sees a descriptor; a mapping of one page keeps the event
//! alive, and unmapping ends it. Signals by F_SETSIG must be standard signals: a queueing real-time signal
//! would turn into SIGIO, and kill the host, when its queue fills while a thread blocks it.
//!
//! Phase and period: the first expiry is at a random point of the period; every few samples the event is
//! replaced by one of another period ([`super::period`]), so that no program stays in step with the clock.
//!
//! Where births pass by us ([`passing`]) the event also tells of each thread that its own thread makes: a
//! record in a second page, and the same signal, when the thread returns from its call. [`take_news`] tells
//! the two apart.
//!
//! Where the kernel's own calls are sampled too, the event also counts time in the kernel and writes what it
//! saw into pages behind the first one ([`super::kernel_records`]). Its signal does not interrupt a system
//! call: it waits for the return to user mode. (Only from [`KERNEL_FROM`] on; earlier kernels cut calls
//! short.)
//!
//! The event counts from the moment it is opened: an expiry in the few microseconds before its signal is set up is not
//! seen, and comes out as time that no sample accounted for.
//!
//! Signal safety: system calls only.

use core::sync::atomic::{AtomicU64, Ordering, fence};

use crate::process::passing;
use crate::process::session::Session;
use crate::record::rings::Ring;
use crate::signal::clock::kernel_records::Records;
use crate::sys::{self, Errno, PerfAttr};
use pct_format::Clock;

const PAGE: usize = 4096;
/// Of `perf_event_attr`: time in the kernel does not count.
const EXCLUDE_KERNEL: u64 = 1 << 5;
/// The kernel takes no shorter period for a software clock.
const SHORTEST_NS: u64 = 10_000;
/// The first kernel whose synchronous signals leave a system call alone that is under way.
pub const KERNEL_FROM: (u64, u64) = (6, 11);
/// In the data of an event that also counts time in the kernel. No slot has so large a number, so such a
/// signal is not taken for another event's.
pub const KERNEL_DATA: u64 = 1 << 31;
/// Pages of records of a thread's event: some 80 expiries in one system call. Fewer if the user may not lock so many.
const RECORD_PAGES: [usize; 2] = [4, 2];

/// `perf_event_attr` of the clock.
#[must_use]
fn attr(clock: Clock, period_ns: u64, data: u64, remove_on_exec: bool, births: bool) -> PerfAttr {
    const TYPE_SOFTWARE: u64 = 1;
    const SIZE: u64 = 128;
    const TASK_CLOCK: u64 = 1;
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

/// The same of an event that also counts time in the kernel, and records where it was.
#[must_use]
fn kernel_attr(period_ns: u64, data: u64) -> PerfAttr {
    const WATERMARK: u64 = 1 << 14;
    const EXCLUDE_CALLCHAIN_USER: u64 = 1 << 22;
    const USE_CLOCKID: u64 = 1 << 25;
    const WRITE_BACKWARD: u64 = 1 << 27;
    // Address, thread, time, chain of calls, registers of the user's half: stack pointer and program counter.
    const SAMPLE_TYPE: u64 = 1 | 1 << 1 | 1 << 2 | 1 << 5 | 1 << 12;
    const STACK_POINTER_AND_PC: u64 = 1 << 7 | 1 << 8;
    let mut attr = attr(Clock::Sigtrap, period_ns, data, true, false);
    attr[3] = SAMPLE_TYPE;
    attr[5] &= !EXCLUDE_KERNEL;
    attr[5] |= WATERMARK | EXCLUDE_CALLCHAIN_USER | USE_CLOCKID | WRITE_BACKWARD;
    // A wake-up for each record would double its cost, and nobody waits.
    attr[6] = u64::from(u32::MAX);
    attr[10] = STACK_POINTER_AND_PC;
    attr[11] = (sys::CLOCK_MONOTONIC as u64) << 32;
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

/// The same, of events that also count time in the kernel.
#[must_use]
pub(super) fn inherited_kernel_attr(period_ns: u64, data: u64) -> PerfAttr {
    let mut attr = kernel_attr(period_ns, data);
    attr[5] |= inherited_attr(period_ns, data)[5] & !EXCLUDE_KERNEL;
    attr
}

fn open(clock: Clock, tid: u32, period_ns: u64, data: u64, births: bool) -> sys::Result<sys::Fd> {
    match sys::perf_event_open(&attr(clock, period_ns, data, true, births), tid, None) {
        // Kernels before 5.13 know no remove_on_exec, and older ones a shorter structure: E2BIG only if the
        // end is used.
        Err(Errno::EINVAL | Errno(7)) if clock == Clock::Perf => {
            sys::perf_event_open(&attr(clock, period_ns, data, false, births), tid, None)
        }
        fd => fd,
    }
}

/// Arms `ring`'s thread: replaces its event, if it has one, by one with this first expiry. With a `limit` it stops
/// after so many expiries.
///
/// # Errors
/// The kernel's refusal; the old event stays then.
pub fn arm(
    ring: &Ring,
    (clock, limit): (Clock, Option<u32>),
    signal: i32,
    data: u64,
    period_ns: u64,
) -> sys::Result<()> {
    let tid = ring.tid.load(Ordering::Relaxed);
    let births = clock == Clock::Perf && passing::pass_us_by();
    let page = sys::with_descriptor(|| {
        let fd = open(clock, tid, period_ns, data, births)?;
        if clock == Clock::Perf {
            sys::signal_owner(&fd, tid, signal)?;
            if let Some(limit) = limit {
                sys::limit_expiries(&fd, limit)?;
            }
        }
        // Too many pages locked, perhaps: a clock without news is better than none.
        let with_news = if births { sys::map_shared(&fd, 2 * PAGE, sys::PROT_READ).ok() } else { None };
        match with_news {
            Some(page) => Ok(page as u64 | WITH_NEWS),
            None => Ok(sys::map_shared(&fd, PAGE, sys::PROT_READ)? as u64),
        }
    })?;
    ring.news_read.store(0, Ordering::Relaxed);
    // The kernel does not copy such a mapping to a fork's child.
    let old = ring.perf_page.swap(page, Ordering::SeqCst);
    ring.period_ns.store(period_ns, Ordering::Relaxed);
    unmap(old);
    Ok(())
}

/// The same with an event that also counts time in the kernel.
///
/// # Errors
/// The kernel's refusal; the old event stays then.
pub fn arm_with_kernel(ring: &Ring, data: u64, period_ns: u64) -> sys::Result<()> {
    let tid = ring.tid.load(Ordering::Relaxed);
    let page = sys::with_descriptor(|| {
        let fd = sys::perf_event_open(&kernel_attr(period_ns, data | KERNEL_DATA), tid, None)?;
        let mut mapped = Err(Errno::EINVAL);
        for pages in RECORD_PAGES {
            mapped =
                sys::map_shared(&fd, (1 + pages) * PAGE, sys::PROT_READ).map(|at| at as u64 | pages as u64);
            if mapped.is_ok() {
                break;
            }
        }
        mapped
    })?;
    ring.news_read.store(0, Ordering::Relaxed);
    let old = ring.perf_page.swap(page, Ordering::SeqCst);
    ring.period_ns.store(period_ns, Ordering::Relaxed);
    unmap(old);
    Ok(())
}

/// Whether the thread's event also counts time in the kernel.
#[must_use]
pub fn sees_kernel(ring: &Ring) -> bool {
    has_records(ring.perf_page.load(Ordering::Relaxed))
}

/// Whether the thread's event tells of the threads that it makes.
#[must_use]
pub(crate) fn tells_of_births(ring: &Ring) -> bool {
    ring.perf_page.load(Ordering::Relaxed) & MORE_PAGES == WITH_NEWS
}

const fn has_records(page: u64) -> bool {
    page & MORE_PAGES > WITH_NEWS
}

/// An event's pages, taken out of a ring so that nobody unmaps them meanwhile.
#[derive(Debug)]
pub struct TakenRecords {
    page: u64,
}

impl TakenRecords {
    /// Takes the records of the calling handler's thread. `None`: its event has none, or has just ended.
    pub fn take_from(ring: &Ring) -> Option<Self> {
        if !sees_kernel(ring) {
            return None;
        }
        let page = ring.perf_page.swap(0, Ordering::SeqCst);
        if !has_records(page) {
            put_back(ring, page);
            return None;
        }
        Some(TakenRecords { page })
    }

    /// The pages.
    #[must_use]
    pub fn records(&self) -> Option<Records<'_>> {
        let words = (1 + (self.page & MORE_PAGES)) as usize * PAGE / 8;
        // SAFETY: what `arm_with_kernel` mapped, for as long as `self` holds it; the kernel writes to it, so
        // its words are atomics.
        Records::new(unsafe {
            core::slice::from_raw_parts((self.page & !MORE_PAGES) as *const AtomicU64, words)
        })
    }

    /// Puts them back, if nothing has taken their place: then their event ends.
    pub fn give_back(self, session: &Session, ring: &Ring, signals: sys::SignalSet) {
        if ring.clock.load(Ordering::Relaxed) == Clock::Sigtrap as u32 {
            put_back(ring, self.page);
        } else {
            unmap(self.page);
        }
        end_if_unwanted(session, ring, signals);
    }
}

fn put_back(ring: &Ring, page: u64) {
    if ring.perf_page.compare_exchange(0, page, Ordering::SeqCst, Ordering::Relaxed).is_err() {
        unmap(page);
    }
}

/// Who wanted the event away while its page was out of the ring found nothing, and left a trace.
fn end_if_unwanted(session: &Session, ring: &Ring, signals: sys::SignalSet) {
    fence(Ordering::SeqCst);
    let stays = session.on.load(Ordering::Relaxed) && ring.slot.is_live();
    if !stays || session.signals() != signals {
        disarm(ring);
    }
}

/// Ends the event of `ring`'s thread.
pub fn disarm(ring: &Ring) {
    unmap(ring.perf_page.swap(0, Ordering::SeqCst));
}

/// In [`Ring::perf_page`]: how many pages with the kernel's records follow the first.
const MORE_PAGES: u64 = 0xfff;
/// One such page, which tells of births.
const WITH_NEWS: u64 = 1;

fn unmap(page: u64) {
    if page != 0 {
        let bytes = (1 + (page & MORE_PAGES)) as usize * PAGE;
        // SAFETY: what `arm` or `arm_with_kernel` mapped, taken out of the ring by a swap: it is unmapped once.
        unsafe { sys::unmap((page & !MORE_PAGES) as *mut u8, bytes) };
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
/// Other threads may switch sampling off or change its signal meanwhile, and unmap what is read here. So it
/// is taken out of the ring for these few instructions. Who wanted it away found nothing, and left a trace
/// that is looked for afterwards.
pub fn take_news(session: &Session, ring: &Ring) -> News {
    let signals = session.signals();
    let page = ring.perf_page.swap(0, Ordering::SeqCst);
    // SAFETY: two pages that `arm` mapped; nobody else can unmap what is not in the ring.
    let news = (page & MORE_PAGES == WITH_NEWS).then(|| unsafe { read_news(page & !MORE_PAGES, ring) });
    put_back(ring, page);
    end_if_unwanted(session, ring, signals);
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
    // Overwritten before they were read, or none at all (a signal of an event that this one has replaced): it
    // may be either.
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
