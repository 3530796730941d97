//! Continuous sampling: files of bounded length, in a folder of bounded size.
//!
//! When a file is old enough or nearly full, the process goes on in another session with a file of its own.
//! The two sessions of a process take turns ([`life::another_session`]): the memory, the mapping and, once
//! the file is deleted, the disk blocks of the file before the last one are given back. So any number of
//! rotations needs what two need.
//!
//! Invariant: a sample that a thread is recording while the file changes goes into the old file; one that is
//! due meanwhile is counted as lost (thread without a ring). Clocks begin anew with a random first period, so
//! on average no CPU time is counted twice. What no sample of a thread stood for in the old file is due in the
//! new one ([`previous::accounted_until`]).
//!
//! Signal safety: system calls and try-locks; the stack is the housekeeper's.

use core::sync::atomic::Ordering;

use crate::heap;
use crate::process::life;
use crate::process::session::{self, House, Refused, Session};
use crate::process::{bookkeeping, previous, report, threads, watch};
use crate::record::time;
use crate::signal::numbers;
use crate::sys::lock::Guard;
use pct_format::State;
use pct_format::layout::header as at;

/// Time until the next attempt where there was no memory for a second session.
const RETRY_NS: u64 = 60_000_000_000;
/// Time for which a rotation waits for threads that were stopped in the handler, in the file before this one.
/// A thread may be stopped for good (by a debugger): then what it needs stays mapped.
const PATIENCE_NS: u64 = 60_000_000_000;

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
    let now = time::monotonic_ns();
    let patient = now < session.rotate_at.load(Ordering::Relaxed).saturating_add(PATIENCE_NS);
    let next = match life::another_session(patient) {
        Ok(next) => next,
        Err(Refused::Busy) => return,
        Err(_) => return session.rotate_at.store(now.saturating_add(RETRY_NS), Ordering::Relaxed),
    };
    go_on_in(next, session, house, &switching, || ());
}

/// Whether the program has mapped memory of its own over the file's mapping.
pub(super) fn is_mapped_over(session: &Session) -> bool {
    // The look at the header may find that the file is cut.
    session.log.is_open() && !session.log.is_intact() && !session.log.is_cut()
}

/// Goes on in another session, with a file of its own, and stores nothing any more to what is the program's memory now.
/// The caller holds the housekeeper's lock and is on its stack.
pub(crate) fn leave_mapping(session: &Session, house: &mut House) {
    let Some(switching) = session::try_switching() else { return };
    if !session.on.load(Ordering::Relaxed) {
        return;
    }
    // Refused: there is no memory. It is tried again at the next sample.
    let Ok(next) = life::another_session(false) else { return };
    go_on_in(next, session, house, &switching, || {
        report::report(b"it mapped memory of its own over the recording: that goes on in another file");
        session.log.give_up_mapping();
    });
}

/// Closes the file and goes on in the session `next`. `before_close` runs when no further sample begins in the old one.
fn go_on_in(
    next: &'static Session,
    session: &Session,
    house: &mut House,
    switching: &Guard<'_, ()>,
    before_close: impl FnOnce(),
) {
    session.on.store(false, Ordering::Relaxed);
    before_close();
    heap::stop(session);
    watch::stop_watching(session);
    threads::settle_accounts(session);
    threads::disarm_all(session);
    numbers::drop_pending(session);
    bookkeeping::note_times(session, house);
    session.log.header_set(at::STATE, State::Stopped as u64);
    session.spent.off();
    session.spent_by_children.off();
    if session.log.is_given_up() && session.rings.are_left() {
        // The program may map over its header too.
        session.log.unmap();
    }
    session::seed_begins_anew(switching);
    next.rotations.store(session.rotations.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    let _leaving = previous::leave(session);
    if life::start_in(next, switching, true).is_ok() {
        threads::discover(next, house);
    } else {
        report::report(b"its clock could not be set up for the next file: from then on it was not sampled");
    }
}
