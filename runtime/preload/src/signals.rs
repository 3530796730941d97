//! `sigaction`, `signal` and kin, `timer_create`: when the host wants one of our signals, it is the host's
//! from then on.
//!
//! Our clocks move to another number before the host's own call is made ([`pct_sampler::signal::numbers`]),
//! so all of it is the kernel's and libc's: flags, masks, what is read back. As long as the host has set
//! nothing for one of our numbers it reads the default action, and may set that one again. For SIGBUS, for SIGTRAP once
//! it was ours, and for what the host takes under a filter on system calls, pct's action stays in front of the host's.
//! All other signals pass straight through.

use pct_sampler::process::session::{self, Session};
use pct_sampler::process::{life, toggle};
use pct_sampler::signal::moves;
use pct_sampler::signal::numbers::HandOver;
use pct_sampler::signal::{front, masks, taken};
use pct_sampler::sys::{self, SigAction};

use crate::host::{Real, real};
use crate::jump::jump_after;
use crate::process::own;
use crate::still_allowed;

/// struct sigaction as glibc and musl have it (x86-64 and aarch64).
#[repr(C)]
pub struct UserAction {
    handler: usize,
    mask: [u64; 16],
    flags: i32,
    restorer: usize,
}

const SIG_DFL: usize = 0;
/// Of `sigset`: the signal is blocked, and its action stays.
const SIG_HOLD: usize = 2;
const SIG_ERR: usize = usize::MAX;

/// Switches sampling by `signal`.
pub(crate) fn listen(signal: i32) {
    toggle::listen(signal);
}

fn is_ours(signal: i32) -> bool {
    life::revive();
    own().is_some_and(|session| session.signals() & sys::signal_bit(signal) != 0)
}

/// Gives one of our signals to the host. The caller keeps the result until the host's call has returned.
fn give_way(signal: i32) -> Option<HandOver> {
    moves::give_way(session::current()?, signal, 0)
}

/// Before the host sets the action of one of our signals: it is the host's, or, where the clocks can neither move nor
/// end, pct's action will stand in front of the host's ([`exchange_kept`]).
fn give_way_to_action(signal: i32) -> Option<HandOver> {
    taken::give_way(session::current()?, signal, still_allowed::stops_clocks());
    give_way(signal)
}

/// The host waits for signals of this set: a few, so that it means them, and ours become its own; or nearly
/// all, so that it does not mean ours.
pub(crate) fn waited_for(session: &Session, set: sys::SignalSet) {
    let ours = session.signals() & set;
    if ours != 0 && !masks::means_all(set) {
        for signal in (1..=64).filter(|s| sys::signal_bit(*s) & ours != 0) {
            drop(moves::give_way(session, signal, set));
        }
    }
}

/// The host sets a signal's action by system call: what it sets will be there.
pub(crate) fn taken_by_system_call(signal: i32) {
    life::revive();
    drop(give_way(signal));
    if signal == sys::SIGTRAP
        && let Some(front) = front::of_signal(signal)
    {
        front.step_aside();
    }
}

/// The program's action for a signal where it is kept behind pct's ([`pct_sampler::signal::front`]), and its new one
/// if it sets one. `None`: the kernel has it.
fn exchange_kept(signal: i32, new: impl FnOnce() -> Option<SigAction>) -> Option<SigAction> {
    let front = front::of_signal(signal).filter(|front| front.stands())?;
    // A child of vfork has its parent's memory, and a table of actions of its own.
    if session::current().is_some() && own().is_none() {
        return None;
    }
    let before = front.host();
    if let Some(new) = new() {
        front.set_host(new);
    }
    Some(before)
}

/// Stands in front of libc's.
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sigaction(signal: i32, new: *const UserAction, old: *mut UserAction) -> i32 {
    // SAFETY: null or the host's structure.
    let wanted = unsafe { new.as_ref() };
    let kernels = |new: &UserAction| SigAction {
        handler: new.handler,
        flags: u64::from(new.flags.cast_unsigned()),
        restorer: 0,
        mask: new.mask[0],
    };
    let sets = wanted.is_some_and(|new| new.handler != SIG_DFL);
    let ours = is_ours(signal);
    let _given = if ours && sets { give_way_to_action(signal) } else { None };
    if let Some(before) = exchange_kept(signal, || wanted.map(kernels)) {
        if !old.is_null() {
            let mut mask = [0; 16];
            mask[0] = before.mask;
            let flags = before.flags as i32;
            // SAFETY: the host's structure.
            unsafe { old.write(UserAction { handler: before.handler, mask, flags, restorer: 0 }) };
        }
        return 0;
    }
    if ours && !sets {
        // It has set nothing before: that is what it reads, and what it may set.
        if !old.is_null() {
            // SAFETY: the host's structure.
            unsafe { old.write(UserAction { handler: SIG_DFL, mask: [0; 16], flags: 0, restorer: 0 }) };
        }
        return 0;
    }
    let at = real(Real::Sigaction);
    if at == 0 {
        return -1;
    }
    type Sigaction = unsafe extern "C" fn(i32, *const UserAction, *mut UserAction) -> i32;
    // SAFETY: libc's sigaction with the host's arguments.
    unsafe { core::mem::transmute::<usize, Sigaction>(at)(signal, new, old) }
}

fn simple(which: Real, signal: i32, new: usize, flags: u64) -> usize {
    let action = SigAction { handler: new, flags, restorer: 0, mask: 0 };
    let (ours, sets) = (is_ours(signal), new != SIG_DFL);
    let given = if ours && sets { give_way_to_action(signal) } else { None };
    if let Some(before) = exchange_kept(signal, || Some(action)) {
        return before.handler;
    }
    if ours && !sets {
        return SIG_DFL;
    }
    let before = by_libc(which, signal, new);
    drop(given);
    before
}

/// libc's function of this shape.
fn by_libc(which: Real, signal: i32, new: usize) -> usize {
    let at = match real(which) {
        0 => real(Real::Signal),
        at => at,
    };
    if at == 0 {
        return SIG_ERR;
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
    let (ours, sets) = (is_ours(number), new != SIG_HOLD);
    let is_kept = front::of_signal(number).is_some_and(front::Front::stands);
    if ours && new == SIG_DFL && !is_kept {
        return SIG_DFL;
    }
    let _given = match ours {
        true if sets && new != SIG_DFL => give_way_to_action(number),
        true => give_way(number),
        false => None,
    };
    let before = by_libc(Real::Sigset, number, new);
    // libc sets the action in the kernel, and reads pct's there.
    let action = SigAction { handler: new, ..SigAction::default() };
    match exchange_kept(number, || Some(action).filter(|_| sets && before != SIG_ERR)) {
        Some(kept) if before != SIG_HOLD && before != SIG_ERR => kept.handler,
        _ => before,
    }
}

/// The host makes a timer that would send one of our signals. Not every handler could tell it from our own
/// timers, so the signal becomes the host's.
extern "C" fn before_timer(_: usize, _: usize, event: usize, _: usize) -> usize {
    const SIGEV_SIGNAL: i32 = 0;
    const SIGEV_THREAD_ID: i32 = 4;
    if event != 0 {
        // SAFETY: the host's struct sigevent: a value of 8 bytes, the signal, the way of notification.
        let [signal, how] = unsafe { ((event + 8) as *const [i32; 2]).read_unaligned() };
        if matches!(how, SIGEV_SIGNAL | SIGEV_THREAD_ID) && is_ours(signal) {
            drop(give_way(signal));
        }
    }
    real(Real::TimerCreate)
}

/// The host sets a timer of its process (`which`: 0 = `setitimer`, whose first argument says which; 1 = `alarm`).
extern "C" fn before_process_timer(which: usize, first: usize, _: usize, _: usize) -> usize {
    let by_setitimer = which == 0;
    let function = real(if by_setitimer { Real::Setitimer } else { Real::Alarm });
    taken::before_timer_is_set(if by_setitimer { first as i32 } else { ITIMER_REAL }, by_setitimer);
    function
}

const ITIMER_REAL: i32 = 0;

jump_after!(timer_create, before_timer, 0);
jump_after!(setitimer, before_process_timer, 0);
jump_after!(alarm, before_process_timer, 1);
