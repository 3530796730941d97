//! The bodies of pct.h's functions, for the two libraries that export them.
//!
//! What differs between them is the [`Host`]: how the environment is found, and what else a sampled process needs.

use core::sync::atomic::Ordering;

use pct_format::{State, answer};

use crate::code::system_calls::EachObject;
use crate::process::boot::{self, Boot};
use crate::{
    process::file, process::life, process::passing, process::session, process::threads, record::mark,
};

/// What a library knows of the program that it is in.
#[derive(Clone, Copy, Debug)]
pub struct Host {
    /// Reads the processor's and the kernel's facts; before sampling starts.
    pub facts: fn(),
    /// Whether the program sets its signals' actions by a C library, in front of which this one stands.
    pub guards_signals: fn() -> bool,
    /// The objects of the program's own: see [`crate::code::system_calls`].
    pub each_object: EachObject,
    /// The environment vector.
    pub environment: fn() -> *const *const u8,
    /// Addresses of pct_on, pct_off, pct_stat, and of the image (0 = not known), for the header.
    pub entries: fn() -> [u64; 4],
    /// What a process that is or may be sampled needs beside the sampler.
    pub prepare: fn(*const *const u8),
}

/// What the constructor does with the environment `vector`: nothing without `PCT`.
///
/// # Safety
/// `vector` is null or the environment of a process in which nobody changes it meanwhile.
pub unsafe fn begin(host: &Host, vector: *const *const u8) {
    // SAFETY: by the caller's promise.
    let Some(options) = (unsafe { boot::variable(vector, b"PCT") }) else { return };
    (host.facts)();
    if !(host.guards_signals)() {
        return boot::decline(
            options,
            b"no C library in it (a Go program?): it sets signals by itself, ours too; pct attach samples it from outside",
        );
    }
    // SAFETY: as above.
    match unsafe { boot::with_options(options, vector, (host.entries)(), host.each_object) } {
        Boot::Idle => {}
        Boot::Refused(why) => boot::complain(&why),
        Boot::Waiting | Boot::Sampling => (host.prepare)(vector),
    }
}

/// `pct_on`.
///
/// # Safety
/// `options` is null or a C string; nobody changes the environment meanwhile (which is as wrong with getenv).
pub unsafe fn on(host: &Host, options: *const u8) -> i32 {
    if stat() == 1 {
        return 0;
    }
    (host.facts)();
    // Before the first clock, so that it tells of them.
    passing::begin_to_pass_by();
    let vector = (host.environment)();
    // SAFETY: by the caller's promise.
    let boot = unsafe {
        let text = if options.is_null() { boot::variable(vector, b"PCT") } else { Some(boot::text(options)) };
        boot::with_options(text.unwrap_or(&[]), vector, (host.entries)(), host.each_object)
    };
    let boot = if matches!(boot, Boot::Waiting) { boot::begin() } else { boot };
    match boot {
        Boot::Sampling => {
            (host.prepare)(vector);
            boot::find_threads();
            let borrowed = session::current().filter(|s| s.by_controller());
            match borrowed.map_or(Ok(()), file::make_now) {
                Ok(()) => {
                    borrowed.inspect(|session| threads::before_given_back(session));
                    0
                }
                Err(errno) => {
                    let _ = off();
                    -(answer::OF_FILE + errno.0)
                }
            }
        }
        // A controller tells its user itself: the program's stderr is not ours.
        Boot::Refused(why) => boot::answer().unwrap_or_else(|| {
            boot::complain(&why);
            -1
        }),
        Boot::Idle | Boot::Waiting => -1,
    }
}

/// `pct_off`.
#[must_use]
pub fn off() -> i32 {
    match session::current() {
        Some(session) if session.on.load(Ordering::Relaxed) => {
            life::stop(session, State::Stopped);
            0
        }
        _ => 1,
    }
}

/// `pct_stat`.
#[must_use]
pub fn stat() -> i32 {
    i32::from(session::current().is_some_and(|s| s.on.load(Ordering::Relaxed)))
}

/// `pct_mark`.
///
/// # Safety
/// `name` is null or a C string.
#[must_use]
pub unsafe fn set_mark(name: *const u8) -> i32 {
    if name.is_null() {
        return -1;
    }
    // SAFETY: by the caller's promise.
    if mark::set(unsafe { boot::text(name) }) { 0 } else { -1 }
}

/// What the destructor does: the last anchor and the CPU times.
pub fn end() {
    if let Some(session) = session::current() {
        life::end(session, State::Closed);
    }
}

/// `pct_heap_mark`.
///
/// # Safety
/// `name` is null or a C string.
#[must_use]
pub unsafe fn set_heap_mark(name: *const u8) -> i32 {
    if name.is_null() {
        return -1;
    }
    // SAFETY: by the caller's promise.
    if mark::set_of_heap(unsafe { boot::text(name) }) { 0 } else { -1 }
}
