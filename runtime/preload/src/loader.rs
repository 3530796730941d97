//! `dlopen`, `dlmopen`, `dlclose`: new code is looked at when a sample meets it, or just before the loader changes
//! something.
//!
//! A look costs as much as some samples, and a program may load and unload without end. Where samples have stacks,
//! the handler finds out by itself that code is new, or that it may be another object's by now, and looks then.
//! Otherwise, and before an object goes that a sample met in vain, the look is here.
//!
//! The real functions judge by their return address who calls (run paths, namespaces), so they are not called
//! but jumped to: these wrappers leave no frame. Looking *before* a change means that an object was seen while it
//! was mapped, so no sample of it goes to whatever takes its place.

use core::sync::atomic::Ordering;

use pct_sampler::{
    code::walked_modules, process::bookkeeping, process::life, process::session, process::watch, record::time,
};

use crate::host::{self, Real, real};
use crate::jump::jump_after;

/// Least time between two looks for this reason: a program that loads and unloads without end must not feel us.
const APART_NS: u64 = 2_000_000;

/// What [`before_change`] is called with by `dlclose`.
const CLOSES: usize = 2;

/// What [`before_change`] is called with by `dlmopen`.
const NAMESPACE: usize = 1;

extern "C" fn before_change(which: usize, _: usize, flags: usize) -> usize {
    const RTLD_DEEPBIND: usize = 8;
    if which == NAMESPACE || which != CLOSES && flags & RTLD_DEEPBIND != 0 {
        // Such an object calls its own C library, or the host's without us.
        watch::expect_unseen_threads();
    }
    look_for_change(which == CLOSES);
    match which {
        0 => real(Real::Dlopen),
        NAMESPACE => real(Real::Dlmopen),
        _ => real(Real::Dlclose),
    }
}

fn look_for_change(removes: bool) {
    life::revive();
    let Some(session) = session::current() else { return };
    if walked_modules::is_first_call_of_loader() {
        host::each_bias(walked_modules::note_lasting);
    }
    let samples_look = walked_modules::samples_will_look(session, removes);
    if samples_look || !session.on.load(Ordering::Relaxed) || !session.may_call() {
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
    walked_modules::expect_change();
    let _alone = session::alone();
    if let Some(mut house) = session.house.try_lock() {
        session.looked.store(now, Ordering::Relaxed);
        bookkeeping::refresh_regions(session, &mut house);
    }
}

jump_after!(dlopen, before_change, 0);
jump_after!(dlmopen, before_change, 1);
jump_after!(dlclose, before_change, 2);
