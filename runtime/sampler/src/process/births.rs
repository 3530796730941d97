//! Threads whose creation does not pass through us: in static programs, and in those that we were attached to.
//!
//! The perf clock's events tell of them ([`perf::take_news`]): whoever makes a thread gets a signal on its
//! way out of the call, and looks for it at once. Without that a thread is found by the housekeeper's rounds
//! alone, and one of a tenth of a second perhaps never. (Other clocks have no such news. There the first
//! rounds come more often, since programs make their threads soon after their start.)
//!
//! A program that makes threads without end must not feel it: looks may take one part in [`SHARE`] of the
//! time, beyond a first few.
//!
//! Signal safety: system calls and the try-lock on the house.

use core::sync::atomic::{AtomicU64, Ordering};

use crate::process::own_stack::on_own_stack;
use crate::process::passing::{self, pass_us_by};
use crate::process::session::{House, Session};
use crate::process::threads;
use crate::process::watch::{ROUND_NS, watch};
use crate::record::rings::Ring;
use crate::record::time;
use crate::signal::clock::perf;

/// Looks may take one part in so many of the time.
const SHARE: u64 = 10;
/// So many nanoseconds' worth of looks may come at once.
const CREDIT_NS: u64 = 20_000_000;

/// Up to when the time for looks is used up, monotonic ns.
static SPENT_UNTIL: AtomicU64 = AtomicU64::new(0);

/// Takes what the signal of the perf clock on `ring`'s thread tells, and looks for new threads. False: it was
/// no expiry.
pub(crate) fn is_expiry(session: &Session, ring: &Ring) -> bool {
    if !pass_us_by() {
        return true;
    }
    let news = perf::take_news(session, ring);
    if news.birth {
        find_newborn(session);
    }
    news.expired
}

/// Arms the threads that are new. What there is no time for is left to the next round.
fn find_newborn(session: &Session) {
    if !session.may_call() || !session.on.load(Ordering::Relaxed) {
        return;
    }
    let began = time::monotonic_ns();
    let spent_until = SPENT_UNTIL.load(Ordering::Relaxed).max(began.saturating_sub(CREDIT_NS));
    let house = if spent_until > began { None } else { session.house.try_lock() };
    let Some(mut house) = house else {
        session.stale.store(true, Ordering::Relaxed);
        // The next tick looks. But who made the thread may sleep for ever.
        let _ = passing::some_begin_to_pass_by();
        return watch(session, ROUND_NS);
    };
    on_own_stack(session, &mut house, |session: &Session, house: &mut House| {
        threads::retire_dead(session, house);
        threads::discover(session, house);
    });
    let took = time::monotonic_ns().wrapping_sub(began);
    SPENT_UNTIL.store(spent_until.saturating_add(took.saturating_mul(SHARE)), Ordering::Relaxed);
}
