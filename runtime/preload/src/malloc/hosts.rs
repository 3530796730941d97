//! Finds the host's functions, and decides which of them are counted.
//!
//! A function counts only if the object that defines it also defines `malloc`: then it serves the request by
//! itself. One of another object (libstdc++'s `operator new`) calls `malloc` through the loader's tables,
//! where it is counted; so do some of musl's own, and glibc's `reallocarray`.

use core::sync::atomic::{AtomicU8, Ordering};

use pct_sampler::heap;

use super::wrapped::{Wrapped, no_memory};
use crate::host::{Definer, definer};

/// What becomes of calls: not known yet.
const UNKNOWN: u8 = 0;
/// They are passed on.
const PASS: u8 = 1;
/// They are counted.
const COUNT: u8 = 2;

static MODE: AtomicU8 = AtomicU8::new(UNKNOWN);

/// Functions of musl that call another one of its own through the loader's tables.
const MUSL_CALLS_OTHERS: &[&str] = &["calloc", "memalign", "posix_memalign", "valloc", "reallocarray"];

/// By the constructor, once: whether calls are counted or passed on.
pub(super) fn set_counting(counts: bool) {
    MODE.store(if counts { COUNT } else { PASS }, Ordering::Relaxed);
}

/// Whether an object is the C library.
pub(super) fn is_c_library(object: &Definer) -> bool {
    definer(b"__libc_start_main", true).is_some_and(|libc| libc.dynamic == object.dynamic)
}

fn is_glibc(object: &Definer) -> bool {
    definer(b"gnu_get_libc_version", true).is_some_and(|libc| libc.dynamic == object.dynamic)
}

/// For a first call: finds the host's function, and gives its address.
pub(super) fn first_call(which: usize, wrapped: &Wrapped) -> usize {
    if MODE.load(Ordering::Relaxed) == UNKNOWN {
        heap::note_early_call();
    }
    find(which, wrapped)
}

/// Finds the host's function, and decides whether calls of it are counted. Two threads at once find the same.
pub(super) fn find(which: usize, wrapped: &Wrapped) -> usize {
    let missing = no_memory as unsafe extern "C" fn() as usize;
    let Some(row) = wrapped.rows.get(which) else { return missing };
    let name = row.name.as_bytes();
    let found = definer(name, true)
        .or_else(|| if row.instead.is_empty() { None } else { definer(row.instead.as_bytes(), true) });
    let real = found.map_or(missing, |found| found.address);
    let mode = MODE.load(Ordering::Relaxed);
    if found.is_none() || mode == UNKNOWN {
        // Looked for again at the next call: a library that has it may be loaded then.
        return real;
    }
    wrapped.set_host(which, real);
    let counts = mode == COUNT && found.is_some_and(|found| serves_by_itself(name, &found));
    wrapped.set_target(which, if counts { row.counted as usize } else { real });
    real
}

fn serves_by_itself(name: &[u8], found: &Definer) -> bool {
    let Some(malloc) = definer(b"malloc", true).filter(|malloc| malloc.dynamic == found.dynamic) else {
        return false;
    };
    if is_glibc(&malloc) {
        name != b"reallocarray"
    } else {
        !is_c_library(&malloc) || !MUSL_CALLS_OTHERS.iter().any(|other| other.as_bytes() == name)
    }
}
