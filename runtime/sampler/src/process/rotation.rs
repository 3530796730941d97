//! Continuous sampling: files of bounded length, in a folder of bounded size.
//!
//! When a file is old enough or nearly full, the process goes on in another session with a file of its own. The two sessions of a
//! process take turns ([`session::another_session`]): the memory, the mapping and, once the file is deleted, the disk blocks of the
//! file before the last one are given back. So any number of rotations needs what two need.
//!
//! Invariant: a sample that a thread is recording while the file changes goes into the old file; one that is due meanwhile is
//! counted as lost (thread without a ring). Clocks begin anew with a random first period, so on average no CPU time is counted
//! twice. A clock bound to the kernel's tick leaves out up to two ticks of each thread at each change.
//!
//! Signal safety: system calls and try-locks; the stack is the housekeeper's.

use core::sync::atomic::{AtomicPtr, Ordering};

use crate::heap;
use crate::process::options::Options;
use crate::process::session::{self, House, Refused, Session};
use crate::process::{file, housekeeper, threads};
use crate::record::rings::Ring;
use crate::signal::{masks, numbers};
use crate::sys;
use pct_format::State;
use pct_format::layout::header as at;

/// Time until the next attempt where there was no memory for a second session.
const RETRY_NS: u64 = 60_000_000_000;
/// Time for which a rotation waits for threads that were stopped in the handler, in the file before this one. A thread may be stopped
/// for good (by a debugger): then what it needs stays mapped.
const PATIENCE_NS: u64 = 60_000_000_000;

/// Sampling starts: when the file of this session ends.
pub(super) fn set_up(session: &Session, options: &Options) {
    let at = match options.rotate_ns {
        0 => 0,
        ns => housekeeper::clock().saturating_add(ns),
    };
    session.rotate_at.store(at, Ordering::Relaxed);
}

/// Whether another file is to be begun.
pub(super) fn is_due(session: &Session, now_ns: u64) -> bool {
    let at = session.rotate_at.load(Ordering::Relaxed);
    at != 0 && session.log.is_open() && (now_ns >= at || session.log.is_nearly_full())
}

/// Closes the file and goes on in another session. The caller holds the housekeeper's lock and is on its stack.
pub(super) fn rotate(session: &Session, house: &mut House) {
    let Some(switching) = session::try_switching() else { return };
    if !session.on.load(Ordering::Relaxed) {
        return;
    }
    let now = housekeeper::clock();
    let patient = now < session.rotate_at.load(Ordering::Relaxed).saturating_add(PATIENCE_NS);
    let next = match session::another_session(patient) {
        Ok(next) => next,
        Err(Refused::Busy) => return,
        Err(_) => return session.rotate_at.store(now.saturating_add(RETRY_NS), Ordering::Relaxed),
    };
    session.on.store(false, Ordering::Relaxed);
    heap::stop(session);
    housekeeper::stop_watching(session);
    threads::disarm_all(session);
    numbers::drop_pending(session);
    housekeeper::note_times(session, house);
    session.log.header_set(at::STATE, State::Stopped as u64);
    session.spent.off();
    session::seed_begins_anew(&switching);
    next.rotations.store(session.rotations.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    FROM.store(core::ptr::from_ref(session).cast_mut(), Ordering::Release);
    if session::start_in(next, &switching, true).is_ok() {
        threads::discover(next, house);
    } else {
        file::report(b"its clock could not be set up for the next file: from then on it was not sampled");
    }
    FROM.store(core::ptr::null_mut(), Ordering::Release);
}

/// The session that a rotation is leaving, null when there is no rotation.
static FROM: AtomicPtr<Session> = AtomicPtr::new(core::ptr::null_mut());

/// Those of our signals of which a thread believes that it blocks them ([`crate::signal::masks`]), as it did before the rotation that
/// is going on; 0 when there is none.
pub(super) fn believed_before(tid: u32) -> sys::SignalSet {
    let from = FROM.load(Ordering::Acquire);
    // SAFETY: null, or a session, which is never unmapped. (In the child of a fork it is wiped, so no thread is found.)
    let Some(from) = (unsafe { from.as_ref() }) else { return 0 };
    let of_thread = |ring: &&Ring| ring.tid.load(Ordering::Relaxed) == tid;
    // Threads that ended believe nothing, so one that had the same number before adds nothing.
    from.rings.ever_used().filter(of_thread).fold(0, |all, ring| all | masks::believed(ring))
}
