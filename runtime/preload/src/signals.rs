//! `sigaction`, `signal` and kin: our signals stay ours, and the host believes that it has them.
//!
//! What the host sets for one of our signals is kept ([`pct_sampler::signal::host::HOST`]) and honoured for signals that are not
//! from our clocks; what it reads back is what it set. All other signals pass straight through.

use pct_format::State;
use pct_sampler::process::session;
use pct_sampler::signal::host::HOST;
use pct_sampler::signal::numbers;
use pct_sampler::sys;

use crate::host::{Real, real};

/// struct sigaction as glibc and musl have it (x86-64 and aarch64).
#[repr(C)]
pub struct UserAction {
    handler: usize,
    mask: [u64; 16],
    flags: i32,
    restorer: usize,
}

/// Switches sampling by `signal`.
pub(crate) fn listen(signal: i32) {
    numbers::listen(signal);
}

/// SIG_DFL and SIG_IGN are 0 and 1; above are handlers (and SIG_ERR, which nobody installs).
const SIG_IGN: usize = 1;

/// The host gets a signal of ours for itself, where the two cannot be told apart.
fn yields(signal: i32) -> bool {
    session::current().is_some_and(|s| numbers::yield_fixed(s, signal))
}

fn is_ours(signal: i32) -> bool {
    session::revive();
    session::current().is_some_and(|s| s.signals() & sys::signal_bit(signal) != 0)
}

/// The host sets a signal's action by system call: what it sets will be there. Our clocks end before, if it is ours.
pub(crate) fn taken_by_system_call(signal: i32) {
    if is_ours(signal)
        && let Some(session) = session::current()
    {
        session::stop(session, State::Stopped);
        numbers::say_taken(session);
    }
}

/// Stands in front of libc's.
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sigaction(signal: i32, new: *const UserAction, old: *mut UserAction) -> i32 {
    // SAFETY: null or the host's structure.
    let handles = unsafe { new.as_ref() }.is_some_and(|new| new.handler > SIG_IGN);
    if !is_ours(signal) || handles && yields(signal) {
        let at = real(Real::Sigaction);
        if at == 0 {
            return -1;
        }
        // SAFETY: libc's sigaction with the host's arguments.
        return unsafe {
            core::mem::transmute::<usize, unsafe extern "C" fn(i32, *const UserAction, *mut UserAction) -> i32>(
                at,
            )(signal, new, old)
        };
    }
    let Some(host) = HOST.get(signal as usize) else { return -1 };
    let before = host.get();
    if !new.is_null() {
        // SAFETY: the host's structure.
        let new = unsafe { &*new };
        host.set(new.handler, new.flags as u32 as u64, new.mask[0]);
    }
    if !old.is_null() {
        let mut mask = [0u64; 16];
        mask[0] = before.mask;
        let action = UserAction { handler: before.handler, mask, flags: before.flags as i32, restorer: 0 };
        // SAFETY: the host's structure.
        unsafe { old.write(action) };
    }
    0
}

/// Keeps a handler for one of our signals; gives the one before.
fn keep(signal: i32, new: usize, flags: u64) -> usize {
    match HOST.get(signal as usize) {
        Some(host) => {
            let before = host.get().handler;
            host.set(new, flags, 0);
            before
        }
        None => usize::MAX,
    }
}

fn simple(which: Real, signal: i32, new: usize, flags: u64) -> usize {
    if is_ours(signal) && !(new > SIG_IGN && yields(signal)) {
        return keep(signal, new, flags);
    }
    let at = match real(which) {
        0 => real(Real::Signal),
        at => at,
    };
    if at == 0 {
        return usize::MAX;
    }
    // SAFETY: libc's signal, or one of its shape, with the host's arguments.
    unsafe { core::mem::transmute::<usize, unsafe extern "C" fn(i32, usize) -> usize>(at)(signal, new) }
}

/// Stands in front of libc's.
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn signal(number: i32, new: usize) -> usize {
    simple(Real::Signal, number, new, sys::SA_RESTART)
}

/// Stands in front of libc's.
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bsd_signal(number: i32, new: usize) -> usize {
    simple(Real::BsdSignal, number, new, sys::SA_RESTART)
}

/// Stands in front of libc's.
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __sysv_signal(number: i32, new: usize) -> usize {
    simple(Real::SysvSignal, number, new, sys::SA_RESETHAND | sys::SA_NODEFER)
}

/// Stands in front of libc's.
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sigset(number: i32, new: usize) -> usize {
    simple(Real::Sigset, number, new, 0)
}
