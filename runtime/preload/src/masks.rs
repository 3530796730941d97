//! `pthread_sigmask`, `sigprocmask`: a thread that blocks nearly all signals leaves ours open, and reads back
//! what it set ([`pct_sampler::signal::masks`]). All else passes through.
//!
//! Signal safety: as the functions' own.

use pct_sampler::process::session::{self, Session};
use pct_sampler::record::rings::Ring;
use pct_sampler::signal::masks::{believe, believed, left_open};
use pct_sampler::sys::Mask;

use crate::host::{Real, real};

/// sigset_t of glibc and musl: the kernel reads the first word.
type Set = [u64; 16];
type Change = unsafe extern "C" fn(i32, *const u64, *mut u64) -> i32;

/// The sampled thread that calls.
fn caller() -> Option<(&'static Session, &'static Ring)> {
    let session = session::current().filter(|s| s.may_call())?;
    Some((session, session.rings.own(true)?))
}

/// # Safety
/// As libc's: null or sigset_t.
unsafe fn change(which: Real, how: i32, set: *const u64, old: *mut u64) -> i32 {
    const EINVAL: i32 = 22;
    let at = real(which);
    if at == 0 {
        return if which == Real::Sigprocmask { -1 } else { EINVAL };
    }
    // SAFETY: libc's function.
    let real: Change = unsafe { core::mem::transmute(at) };
    let Some((session, ring)) = caller() else {
        // SAFETY: the host's arguments.
        return unsafe { real(how, set, old) };
    };
    // SAFETY: null or the host's set.
    let asked = unsafe { set.as_ref() }.copied();
    let before = believed(ring);
    // What the thread will believe to be blocked, and which of our signals are taken out of the set.
    let (open, after) = match (asked, how) {
        (Some(asked), h) if h == Mask::Block as i32 => {
            let open = left_open(session, asked) & asked;
            (open, before | open)
        }
        (Some(asked), h) if h == Mask::Set as i32 => {
            let open = left_open(session, asked) & asked;
            (open, open)
        }
        (Some(asked), h) if h == Mask::Unblock as i32 => (0, before & !asked),
        _ => (0, before),
    };
    let mut without: Set = [0; 16];
    without[0] = asked.unwrap_or(0) & !open;
    let set = if open != 0 { without.as_ptr() } else { set };
    // What it lets through may come within the call: it must not be believed to be blocked any more.
    believe(ring, before & after);
    // SAFETY: the host's arguments, or a set of our own that lives through the call.
    let result = unsafe { real(how, set, old) };
    believe(ring, if result == 0 { after } else { before });
    if result == 0 && !old.is_null() && before != 0 {
        // SAFETY: the host's structure, which libc has just filled.
        unsafe { *old |= before };
    }
    result
}

/// Stands in front of libc's.
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_sigmask(how: i32, set: *const u64, old: *mut u64) -> i32 {
    // SAFETY: the host's arguments.
    unsafe { change(Real::PthreadSigmask, how, set, old) }
}

/// Stands in front of libc's.
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sigprocmask(how: i32, set: *const u64, old: *mut u64) -> i32 {
    // SAFETY: the host's arguments.
    unsafe { change(Real::Sigprocmask, how, set, old) }
}
