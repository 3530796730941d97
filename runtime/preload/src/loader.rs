//! `dlopen`, `dlmopen`, `dlclose`: regions are looked at just before the loader changes them.
//!
//! The real functions judge by their return address who calls (run paths, namespaces), so they are not called but jumped
//! to: these wrappers leave no frame. Looking *before* each change means that every object was seen while it was mapped, so
//! no sample of it goes to whatever takes its place. Where changes come faster than looks may cost, each look finds what the last
//! change before it left, and the regions that it finds begin (and those that are gone end) at that change.

use core::sync::atomic::Ordering;

use pct_sampler::process::session::{self, Session};
use pct_sampler::{code::callers, process::housekeeper, record::time};

use crate::host::{Real, real};
use crate::jump::jump_after;

/// Least time between two looks for this reason.
const APART_NS: u64 = 2_000_000;
/// A look may take one part in so many of the time until the next: a program that loads and unloads without end must not feel us.
const SHARE: u64 = 100;

extern "C" fn before_change(which: usize) -> usize {
    look();
    match which {
        0 => real(Real::Dlopen),
        1 => real(Real::Dlmopen),
        _ => real(Real::Dlclose),
    }
}

fn look() {
    session::revive();
    let Some(session) = session::current() else { return };
    if !session.on.load(Ordering::Relaxed) || !session.may_call() {
        return;
    }
    // What changes now is found at the next tick.
    session.stale.store(true, Ordering::Relaxed);
    look_at_last_change(session);
    session.changed_at.store(time::now(), Ordering::Relaxed);
}

/// Looks at the regions as they are since the change before this one.
fn look_at_last_change(session: &Session) {
    let now = time::monotonic_ns();
    if !session.log.is_open() || now < session.next_look.load(Ordering::Relaxed) {
        return;
    }
    callers::expect_change();
    let _alone = session::alone();
    if let Some(mut house) = session.house.try_lock() {
        let took = housekeeper::cpu_ns_of(|| housekeeper::refresh_regions(session, &mut house));
        let wait = took.saturating_mul(SHARE).max(APART_NS);
        session.next_look.store(time::monotonic_ns() + wait, Ordering::Relaxed);
    }
}

jump_after!(dlopen, before_change, 0);
jump_after!(dlmopen, before_change, 1);
jump_after!(dlclose, before_change, 2);
