//! `pct.h`: what a program, or a controller on its behalf, calls.
//!
//! The functions are also reachable without symbols, by the note that [`pct_sampler::process::note`] puts
//! into the object.

use pct_sampler::api::Host;
use pct_sampler::process::options::On;
use pct_sampler::process::session;

use crate::{exec, host, late, signals};

pct_sampler::note!(on, off, stat);

pub(crate) const HOST: Host = Host {
    facts: host::facts,
    guards_signals: host::has_libc,
    each_object: host::each_object,
    environment: host::environ,
    entries,
    prepare,
};

/// What a process that is or may be sampled needs beside the sampler.
fn prepare(environ: *const *const u8) {
    exec::remember(environ);
    let options = &session::seed().options;
    if options.on == On::Signal {
        signals::listen(options.toggle);
    }
}

/// Addresses of pct_on, pct_off, pct_stat, and of the image, for the header.
fn entries() -> [u64; 4] {
    unsafe extern "C" {
        static __ehdr_start: u8;
    }
    let on = pct_on as unsafe extern "C" fn(*const u8) -> i32;
    let off = pct_off as extern "C" fn() -> i32;
    let stat = pct_stat as extern "C" fn() -> i32;
    [on as usize as u64, off as usize as u64, stat as usize as u64, (&raw const __ehdr_start) as u64]
}

/// Starts sampling. `options` as in `PCT`, null = the environment's `PCT`. 0 = on; -1 = not, and a line on
/// stderr says why.
///
/// # Safety
/// `options` is null or a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pct_on(options: *const u8) -> i32 {
    // SAFETY: by the caller's promise.
    unsafe { on(options) }
}

/// Stops sampling; the file can be read. 0 = it was on, 1 = it was not.
#[unsafe(no_mangle)]
pub extern "C" fn pct_off() -> i32 {
    off()
}

/// Whether sampling is on: 1 or 0.
#[unsafe(no_mangle)]
pub extern "C" fn pct_stat() -> i32 {
    stat()
}

/// For a controller that loaded this library late: what a child of `fork` does, since its `fork` does not
/// pass through us.
#[unsafe(no_mangle)]
pub extern "C" fn pct_after_fork() {
    pct_sampler::process::life::start_in_child();
}

/// Writes a named mark into the log at this instant. 0 = written, -1 = nobody samples or there is no room.
///
/// # Safety
/// `name` is a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pct_mark(name: *const u8) -> i32 {
    // SAFETY: by the caller's promise.
    unsafe { pct_sampler::api::set_mark(name) }
}

/// # Safety
/// As for [`pct_on`].
pub(crate) unsafe extern "C" fn on(options: *const u8) -> i32 {
    // SAFETY: by the caller's promise.
    let answer = unsafe { pct_sampler::api::on(&HOST, options) };
    // Not before: a controller whose start is refused takes this library away again.
    if answer == 0 {
        late::stand_in_front();
    }
    answer
}

pub(crate) extern "C" fn off() -> i32 {
    pct_sampler::api::off()
}

extern "C" fn stat() -> i32 {
    pct_sampler::api::stat()
}
