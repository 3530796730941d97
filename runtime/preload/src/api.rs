//! `pct.h`: what a program, or a controller on its behalf, calls.
//!
//! The functions are also reachable without symbols, by the note that [`pct_sampler::note`] puts into the object.

use core::sync::atomic::Ordering;

use pct_format::State;
use pct_sampler::boot::{self, Boot};
use pct_sampler::{mark, session};

use crate::{host, start};

pct_sampler::note!(on, off, stat);

/// Addresses of pct_on, pct_off, pct_stat, and of the image, for the header.
pub(crate) fn entries() -> [u64; 4] {
    unsafe extern "C" {
        static __ehdr_start: u8;
    }
    let on = pct_on as unsafe extern "C" fn(*const u8) -> i32;
    let off = pct_off as extern "C" fn() -> i32;
    let stat = pct_stat as extern "C" fn() -> i32;
    [on as usize as u64, off as usize as u64, stat as usize as u64, (&raw const __ehdr_start) as u64]
}

/// Starts sampling. `options` as in `PCT`, null = the environment's `PCT`. 0 = on; -1 = not, and a line on stderr says why.
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

/// For a controller that loaded this library late: what a child of `fork` does, since its `fork` does not pass through us.
#[unsafe(no_mangle)]
pub extern "C" fn pct_after_fork() {
    session::start_in_child();
}

/// Writes a named mark into the log at this instant. 0 = written, -1 = nobody samples or there is no room.
///
/// # Safety
/// `name` is a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pct_mark(name: *const u8) -> i32 {
    if name.is_null() {
        return -1;
    }
    // SAFETY: by the caller's promise.
    if mark::set(unsafe { boot::text(name) }) { 0 } else { -1 }
}

/// # Safety
/// As for [`pct_on`].
pub(crate) unsafe extern "C" fn on(options: *const u8) -> i32 {
    if stat() == 1 {
        return 0;
    }
    host::facts();
    let environ = host::environ();
    // SAFETY: the environment is the host's; calling this while another thread changes it is as wrong as getenv.
    let boot = unsafe {
        let text =
            if options.is_null() { boot::variable(environ, b"PCT") } else { Some(boot::text(options)) };
        boot::with_options(text.unwrap_or(&[]), environ, entries())
    };
    let boot = if matches!(boot, Boot::Waiting) { boot::begin() } else { boot };
    match boot {
        Boot::Sampling => {
            start::prepare(environ);
            0
        }
        // A controller tells its user itself: the program's stderr is not ours.
        Boot::Refused(message) => boot::answer().unwrap_or_else(|| {
            boot::complain(&message);
            -1
        }),
        Boot::Idle | Boot::Waiting => -1,
    }
}

pub(crate) extern "C" fn off() -> i32 {
    match session::current() {
        Some(session) if session.on.load(Ordering::Relaxed) => {
            session::stop(session, State::Stopped);
            0
        }
        _ => 1,
    }
}

extern "C" fn stat() -> i32 {
    i32::from(session::current().is_some_and(|s| s.on.load(Ordering::Relaxed)))
}
