//! What a shell records beside samples: waits. It says so here before sampling starts.
//!
//! The end of a recording calls what the shell named, so a library that wraps no locks does not carry that code.

use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use crate::process::session::{self, Session};
use pct_format::State;

/// What of waits the shell can record ([`pct_format::header::wait_door`]), 0 = nothing.
static DOORS: AtomicU64 = AtomicU64::new(0);
/// The function to call at the end of a recording, 0 = none.
static CLOSER: AtomicUsize = AtomicUsize::new(0);

/// A shell can record waits by these doors; `close` is called at the end of a recording.
pub(crate) fn register(doors: u64, close: fn(&Session, State)) {
    CLOSER.store(close as usize, Ordering::Relaxed);
    // Release: whoever sees the doors sees the function.
    DOORS.store(doors, Ordering::Release);
}

/// What of waits is recorded; 0 = nothing.
pub(crate) fn doors() -> u64 {
    if session::seed().options.wait { DOORS.load(Ordering::Acquire) } else { 0 }
}

/// The recording ends.
pub(crate) fn close(session: &Session, state: State) {
    if doors() != 0 && session.log.is_open() {
        // SAFETY: `register` stored this function before the doors.
        let close: fn(&Session, State) = unsafe { core::mem::transmute(CLOSER.load(Ordering::Relaxed)) };
        close(session, state);
    }
}
