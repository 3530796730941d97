//! Clocks that end by themselves unless the handler sets them up again.
//!
//! If a program takes the clocks' signals by system calls of its own ([`system_calls`]), pct's handler does not run any
//! more. It could not end the clocks, and their signals would come to the program's handlers for as long as it runs. So
//! a perf event stops after some expiries (it is replaced long before, for another period), and a timer after one. Only
//! where all code was searched and none can make such a call the clocks go on by themselves. Where pct attached, nobody
//! searched.
//!
//! Signal safety: loads; system calls, none under a filter on them.

use core::sync::atomic::{AtomicBool, Ordering};

use crate::code::system_calls;
use crate::process::session::Session;
use crate::record::rings::Ring;
use crate::signal::clock::thread_timer::ONCE_NS;
use crate::signal::clock::tick::EACH_TICK_NS;
use crate::signal::clock::{period, thread_timer};

/// A perf event may expire so many times as often as it is to before it is replaced: signals that wait become one.
const SLACK: u32 = 4;

/// Handlers may not set clocks up any more.
static IS_ENDED: AtomicBool = AtomicBool::new(false);

/// Whether clocks are set up in this way.
#[inline]
pub(crate) fn are_clocks_bounded() -> bool {
    !system_calls::none_found() && !IS_ENDED.load(Ordering::Relaxed)
}

/// From now on no clock is bounded: a filter on system calls is about to be in force. Forked children inherit it.
pub(crate) fn end_bounds() {
    IS_ENDED.store(true, Ordering::Relaxed);
}

/// Expiries after which a thread's perf event is to stop.
pub(super) fn most_expiries(session: &Session) -> Option<u32> {
    let nominal = session.settings.period_ns.load(Ordering::Relaxed);
    are_clocks_bounded().then(|| period::held_for(nominal).saturating_mul(SLACK))
}

/// The interval of a thread's timer that is about to be set up.
pub(super) fn interval() -> u64 {
    if are_clocks_bounded() { ONCE_NS } else { EACH_TICK_NS }
}

/// The calling thread's timer has expired, and is started again.
#[cold]
pub(crate) fn start_timer_again(session: &Session, ring: &Ring) {
    if session.may_call() && session.on.load(Ordering::Relaxed) {
        thread_timer::start_again(ring, EACH_TICK_NS, ONCE_NS);
    }
}

/// A controller gives the thread back soon, and takes away what its timer has sent meanwhile: it expires in `first_ns`.
pub(crate) fn begin_timer_anew(ring: &Ring, first_ns: u64) {
    thread_timer::start_again(ring, first_ns, interval());
}

/// A thread's timer goes on without us.
pub(crate) fn let_timer_go_on(ring: &Ring) {
    // Not one that has no time left: its thread has ended.
    if thread_timer::left(ring).is_some_and(|left| left > 0) {
        thread_timer::start_again(ring, EACH_TICK_NS, EACH_TICK_NS);
    }
}
