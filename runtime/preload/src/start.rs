//! The constructor and the destructor.
//!
//! The constructor believes its arguments only after checking them: musl passes none. It runs before the program's own code, in well under a
//! millisecond; without `PCT` it does no more than look for it. The destructor runs at `exit`: it writes the last anchor
//! and the CPU times.

use core::sync::atomic::Ordering;

use pct_format::State;
use pct_sampler::boot::{self, Boot};
use pct_sampler::options::On;
use pct_sampler::session;

use crate::{api, exec, host, signals};

#[used]
#[unsafe(link_section = ".init_array")]
static INIT: extern "C" fn(usize, u64, u64) = init;

#[used]
#[unsafe(link_section = ".fini_array")]
static FINI: extern "C" fn() = fini;

extern "C" fn init(count: usize, arguments: u64, environment: u64) {
    let environ = if host::from_constructor(count, arguments, environment) {
        environment as *const *const u8
    } else {
        host::environ()
    };
    // SAFETY: the environment vector of a process that has one thread yet, or whose loader calls us: nobody changes it.
    let Some(options) = (unsafe { boot::variable(environ, b"PCT") }) else { return };
    host::facts();
    // SAFETY: as above.
    match unsafe { boot::with_options(options, environ, api::entries()) } {
        Boot::Idle => {}
        Boot::Refused(message) => boot::complain(&message),
        Boot::Waiting | Boot::Sampling => prepare(environ),
    }
}

/// What a process that is or may be sampled needs beside the sampler.
pub(crate) fn prepare(environ: *const *const u8) {
    exec::remember(environ);
    let options = &session::seed().options;
    if options.on == On::Signal {
        signals::listen(options.toggle);
    }
}

extern "C" fn fini() {
    if let Some(session) = session::current()
        && session.on.load(Ordering::Relaxed)
    {
        session::close(session, State::Closed);
    }
}
