//! `sigaltstack`: where the host sets a stack that is too small for our handler, we set a larger one in its place.
//!
//! Our handler runs on a thread's alternate stack, as it must where the ordinary one is a coroutine's of a
//! few kilobytes. On a machine with large registers the kernel's frame alone is more than the 2048 bytes that
//! older programs set aside: the kernel kills a process whose frame does not fit, and a frame that just fits
//! leaves nothing for the handler. The host reads back what it set.
//!
//! A larger stack belongs to the thread that asked, until the thread sets another or none. Stacks of threads
//! that have ended are used again. If no slot is free the host's own stack is set, as without the profiler.
//!
//! Signal safety: as libc's `sigaltstack`; a few system calls and no lock.

use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use pct_sampler::process::session;
use pct_sampler::signal::lent;
use pct_sampler::sys::{self, AlternateStack, SS_DISABLE};

use crate::host::{self, Real, real};

/// The kernel takes no smaller one.
const SMALLEST: usize = 2048;
const PAGE: usize = 4096;
const PLACES: usize = 128;

/// One of the larger stacks.
struct StackSlot {
    /// Thread it is for, 0 = nobody; `TAKING` while it is set up.
    owner: AtomicU32,
    /// Process that the owner is a thread of: a fork's child has its parent's numbers here.
    process: AtomicU32,
    /// Lowest address, 0 = not mapped yet.
    at: AtomicUsize,
    bytes: AtomicUsize,
    /// The host's own: address, and size.
    theirs: AtomicUsize,
    their_bytes: AtomicUsize,
}

const TAKING: u32 = u32::MAX;

static PLACES_ALL: [StackSlot; PLACES] = [const {
    StackSlot {
        owner: AtomicU32::new(0),
        process: AtomicU32::new(0),
        at: AtomicUsize::new(0),
        bytes: AtomicUsize::new(0),
        theirs: AtomicUsize::new(0),
        their_bytes: AtomicUsize::new(0),
    }
}; PLACES];

/// The smallest stack that our handler can run on. It has room for two of the kernel's signal frames, because
/// the handler's own store may fault ([`pct_sampler::signal::bus`]).
fn enough() -> usize {
    2 * (host::signal_frame_bytes() as usize).clamp(SMALLEST, 1 << 20) + lent::ROOM
}

/// The slot of the larger stack that begins at `at`.
fn ours(at: usize) -> Option<&'static StackSlot> {
    PLACES_ALL.iter().find(|p| at != 0 && p.at.load(Ordering::Relaxed) == at)
}

fn free(place: &StackSlot) {
    place.owner.store(0, Ordering::Release);
}

/// A larger stack for the calling thread, in place of `theirs`.
fn lend_stack(theirs: AlternateStack) -> Option<&'static StackSlot> {
    let (pid, tid) = (sys::getpid(), sys::gettid());
    let bytes = (enough() + theirs.bytes).next_multiple_of(PAGE);
    for place in &PLACES_ALL {
        let owner = place.owner.load(Ordering::Relaxed);
        let dead = || place.process.load(Ordering::Relaxed) == pid && !sys::thread_lives(pid, owner);
        if owner == TAKING || owner != 0 && !dead() {
            continue;
        }
        // Acquire: with `free`.
        if place.owner.compare_exchange(owner, TAKING, Ordering::Acquire, Ordering::Relaxed).is_err() {
            continue;
        }
        if place.bytes.load(Ordering::Relaxed) < bytes {
            let Ok(memory) = sys::map_memory(bytes) else {
                free(place);
                return None;
            };
            let old = place.at.swap(memory as usize, Ordering::Relaxed);
            let old_bytes = place.bytes.swap(bytes, Ordering::Relaxed);
            if old != 0 {
                // SAFETY: our own mapping, whose thread has ended or has another stack now.
                unsafe { sys::unmap(old as *mut u8, old_bytes) };
            }
        }
        place.theirs.store(theirs.at, Ordering::Relaxed);
        place.their_bytes.store(theirs.bytes, Ordering::Relaxed);
        place.process.store(pid, Ordering::Relaxed);
        place.owner.store(tid, Ordering::Release);
        return Some(place);
    }
    None
}

/// Stands in front of libc's.
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sigaltstack(new: *const AlternateStack, old: *mut AlternateStack) -> i32 {
    let at = real(Real::Sigaltstack);
    if at == 0 {
        return -1;
    }
    // SAFETY: libc's sigaltstack.
    let set: unsafe extern "C" fn(*const AlternateStack, *mut AlternateStack) -> i32 =
        unsafe { core::mem::transmute(at) };
    // SAFETY: null or the host's structure.
    let wanted = unsafe { new.as_ref() };
    let mut before = AlternateStack::NONE;
    let mut ask = || {
        // SAFETY: only asks.
        unsafe { set(core::ptr::null(), &raw mut before) == 0 }
    };
    if session::current().is_none_or(|s| !s.may_call()) || !ask() {
        // SAFETY: the host's own arguments.
        return unsafe { set(new, old) };
    }
    let small = wanted.filter(|w| w.flags & SS_DISABLE == 0 && (SMALLEST..enough()).contains(&w.bytes));
    let place = small.and_then(|w| lend_stack(*w));
    let result = match (small, place) {
        (Some(theirs), Some(place)) => {
            let (at, bytes) = (place.at.load(Ordering::Relaxed), place.bytes.load(Ordering::Relaxed));
            let larger = AlternateStack { at, flags: theirs.flags, bytes };
            // SAFETY: our own memory, which stays until this thread sets another stack.
            unsafe { set(&raw const larger, core::ptr::null_mut()) }
        }
        // SAFETY: the host's own stack.
        _ => unsafe { set(new, core::ptr::null_mut()) },
    };
    if result != 0 {
        if let Some(place) = place {
            free(place);
        }
        return result;
    }
    let stood_in = ours(before.at).filter(|_| before.flags & SS_DISABLE == 0);
    // SAFETY: null or the host's structure.
    if let Some(old) = unsafe { old.as_mut() } {
        *old = match stood_in {
            Some(place) => AlternateStack {
                at: place.theirs.load(Ordering::Relaxed),
                flags: before.flags,
                bytes: place.their_bytes.load(Ordering::Relaxed),
            },
            None => before,
        };
    }
    if wanted.is_some()
        && let Some(place) = stood_in
    {
        free(place);
    }
    0
}
