//! Waits are recorded: the functions that take and release locks, and those that wait for other threads, wrapped.
//!
//! A wrapper looks at the count of its object's bucket ([`pct_sampler::waits::watched`]) and at the object, and jumps
//! to the host's function if nobody waits and nothing stands in the way ([`entry`]); it leaves no frame. Otherwise
//! Rust code runs: [`call::before`] the host's function and [`call::after`] it. While the host's function runs no Rust
//! frame is on the stack, so cancellation and exceptions pass.
//!
//! The host's function decides everything: what the wrapper adds are records. Its result and errno are not touched.
//!
//! What a lock looks like inside is glibc's ([`objects`]); in a process with another C library calls are passed on, and
//! one line says so.
//!
//! Before the constructor has run a call finds the host's function by itself and is passed on.

mod call;
mod entry;
mod futex;
mod objects;
mod wrapped;

use pct_format::header::wait_door;
use pct_sampler::process::{report, session};
use pct_sampler::waits;

use crate::host::definer;

/// By the constructor, before it looks at the options: when sampling starts, all must be known. Without `wait=on` the
/// wrappers pass everything on.
pub(crate) fn prepare(options: Option<&[u8]>) {
    let asked = |text: &[u8]| text.split(|byte| *byte == b',').any(|item| item == b"wait=on");
    if options.is_some_and(asked) && objects::are_known() {
        for which in 0..wrapped::ROWS {
            entry::WRAPPED.find(which);
        }
        waits::install(wait_door::PTHREAD | wait_door::FUTEX);
    }
}

/// By the constructor, when sampling has started or not: says what will not be seen.
pub(crate) fn tell() {
    if !session::seed().options.wait || session::current().is_none() {
        return;
    }
    if !objects::are_known() {
        report::report(b"--wait: this C library is not glibc, so waits are not recorded");
    } else if definer(b"pthread_mutex_lock", false).is_some_and(|first| !crate::host::is_ours(&first)) {
        report::report(b"--wait: the program has locks of its own (pthread_mutex_lock), so waits for them are not recorded");
    }
}
