//! `dlopen`, `dlmopen`, `dlclose`: regions are looked at just before the loader changes them.
//!
//! The real functions judge by their return address who calls (run paths, namespaces), so they are not called but jumped
//! to: these wrappers leave no frame. Looking *before* each change means that every object was seen while it was mapped, so
//! no sample of it goes to whatever takes its place.

use core::sync::atomic::Ordering;

use pct_sampler::{code::callers, process::housekeeper, process::session, record::time};

use crate::host::{Real, real};
use crate::jump::jump_after;

/// Least time between two looks for this reason: a program that loads and unloads without end must not feel us.
const APART_NS: u64 = 2_000_000;

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
    session.changing.store(true, Ordering::Relaxed);
    if !session.log.is_open() {
        return;
    }
    let now = time::monotonic_ns();
    let last = session.looked.load(Ordering::Relaxed);
    if now.wrapping_sub(last) < APART_NS {
        return;
    }
    callers::expect_change();
    let _alone = session::alone();
    if let Some(mut house) = session.house.try_lock() {
        session.looked.store(now, Ordering::Relaxed);
        housekeeper::refresh_regions(session, &mut house);
    }
}

jump_after!(dlopen, before_change, 0);
jump_after!(dlmopen, before_change, 1);
jump_after!(dlclose, before_change, 2);
