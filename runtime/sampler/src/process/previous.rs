//! The session that a rotation is leaving: what its threads still have to hand on to the next one.
//!
//! Signal safety: loads and stores of memory.

use core::sync::atomic::{AtomicPtr, Ordering};

use crate::process::session::Session;
use crate::record::rings::Ring;
use crate::signal::masks;
use crate::sys;

/// The session that a rotation is leaving, null when there is no rotation.
static FROM: AtomicPtr<Session> = AtomicPtr::new(core::ptr::null_mut());

/// A rotation is going on.
pub(super) struct Leaving(());

impl Drop for Leaving {
    fn drop(&mut self) {
        FROM.store(core::ptr::null_mut(), Ordering::Release);
    }
}

/// A rotation leaves `session` until the answer is dropped.
pub(super) fn leave(session: &Session) -> Leaving {
    FROM.store(core::ptr::from_ref(session).cast_mut(), Ordering::Release);
    Leaving(())
}

/// CPU ns of a thread up to which the samples of the file before stand for it: a little less than it has used, or more.
/// `None` when no rotation is going on, or the thread was not sampled before.
pub(super) fn accounted_until(tid: u32) -> Option<u64> {
    // SAFETY: null, or a session, which is never unmapped.
    let from = unsafe { FROM.load(Ordering::Acquire).as_ref() }?;
    let of_thread = from.rings.ever_used().filter(|ring| ring.tid.load(Ordering::Relaxed) == tid);
    // An earlier thread may have had the same number: the serial numbers say which came last.
    let last = of_thread.max_by_key(|ring| ring.serial.load(Ordering::Relaxed))?;
    let until = last.armed_cpu_ns.load(Ordering::Relaxed) + last.accounted_ns.load(Ordering::Relaxed);
    let period = from.settings.period_ns.load(Ordering::Relaxed);
    // Samples that were due and are in no file yet.
    Some(until.saturating_sub(last.carry.load(Ordering::Relaxed) * period))
}

/// Those of pct's signals of which a thread believes that it blocks them ([`crate::signal::masks`]), as it did
/// before the present rotation; 0 outside of a rotation.
pub(super) fn believed_before(tid: u32) -> sys::SignalSet {
    let from = FROM.load(Ordering::Acquire);
    // SAFETY: null, or a session, which is never unmapped. (In the child of a fork it is wiped, so no thread is found.)
    let Some(from) = (unsafe { from.as_ref() }) else { return 0 };
    let of_thread = |ring: &&Ring| ring.tid.load(Ordering::Relaxed) == tid;
    // Threads that ended believe nothing, so one that had the same number before adds nothing.
    from.rings.ever_used().filter(of_thread).fold(0, |all, ring| all | masks::believed(ring))
}
