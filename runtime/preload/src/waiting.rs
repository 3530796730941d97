//! `sigwait`, `signalfd`, `ppoll` and kin: a thread that blocks all signals and asks for them where it likes
//! must not be given ours.
//!
//! Our clocks' signals become pending like any other while a thread blocks them. A program that takes
//! whatever signal comes (`sigwait` on a full set, a signalfd of all) would find one that it cannot know; one
//! that waits with its signals open (`ppoll`, `sigsuspend`) would be woken by it. So: those that *ask* for
//! signals skip ours, told by their origin as in the handler, and a wait that *opens* the mask leaves ours as
//! they were. Such a thread uses no CPU time while it waits, so nothing is lost by that.
//!
//! Signal safety: as the functions' own. Each calls the host's function, which is a point of cancellation still.

use pct_sampler::process::session::{self, Session};
use pct_sampler::signal::numbers;
use pct_sampler::sys::arch::SigInfo;
use pct_sampler::{record::time, sys};

use crate::host::{Real, real};

/// sigset_t of glibc and musl: the kernel reads the first word.
type Set = [u64; 16];
/// siginfo_t.
type Info = [u64; 16];

/// Our signals in the set that the host waits for, and the session that has them.
///
/// # Safety
/// `set` is null or a sigset_t.
unsafe fn ours_in(set: *const u64) -> Option<(&'static Session, sys::SignalSet)> {
    // SAFETY: by the caller's promise.
    let set = *unsafe { set.as_ref() }?;
    let session = session::current()?;
    crate::signals::waited_for(session, set);
    let ours = session.signals() & set;
    (ours != 0).then_some((session, ours))
}

/// Whether this signal comes from one of our clocks.
fn from_our_clocks(session: &Session, signal: i32, info: &Info) -> bool {
    // SAFETY: a siginfo_t that the kernel filled, used before this returns.
    let info = unsafe { SigInfo::new(info.as_ptr().cast()) };
    numbers::is_from_our_clocks(session, signal, info)
}

/// Asks again and again with `wait` until a signal comes that is not ours, or none.
fn skipping(session: &Session, info: *mut Info, mut wait: impl FnMut(*mut Info) -> i32) -> i32 {
    let mut own: Info = [0; 16];
    loop {
        let signal = wait(&raw mut own);
        if signal > 0 && from_our_clocks(session, signal, &own) {
            continue;
        }
        if signal > 0 && !info.is_null() {
            // SAFETY: the host's structure.
            unsafe { info.write(own) };
        }
        return signal;
    }
}

/// The thread's errno; 0 when it cannot be known.
pub(crate) fn errno() -> i32 {
    match real(Real::Errno) {
        0 => 0,
        // SAFETY: libc's __errno_location gives the address of the thread's errno.
        at => unsafe { *core::mem::transmute::<usize, extern "C" fn() -> *const i32>(at)() },
    }
}

const EINTR: i32 = 4;
const EAGAIN: i32 = 11;

type Sigwaitinfo = unsafe extern "C" fn(*const u64, *mut Info) -> i32;
type Sigtimedwait = unsafe extern "C" fn(*const u64, *mut Info, *const [i64; 2]) -> i32;

/// Stands in front of libc's.
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sigwait(set: *const u64, signal: *mut i32) -> i32 {
    let (wait, by_info) = (real(Real::Sigwait), real(Real::Sigwaitinfo));
    if wait == 0 {
        return EAGAIN;
    }
    // SAFETY: the host's set.
    let ours = unsafe { ours_in(set) };
    if by_info != 0
        && let Some((session, _)) = ours
    {
        // SAFETY: libc's sigwaitinfo.
        let by_info: Sigwaitinfo = unsafe { core::mem::transmute(by_info) };
        // SAFETY: the host's set, and a structure of our own.
        let got = skipping(session, core::ptr::null_mut(), |info| unsafe {
            loop {
                let got = by_info(set, info);
                if got > 0 || errno() != EINTR {
                    return got;
                }
            }
        });
        if got > 0 {
            // SAFETY: the host's variable.
            unsafe { signal.write(got) };
            return 0;
        }
        return errno();
    }
    // SAFETY: libc's sigwait with the host's arguments.
    unsafe {
        core::mem::transmute::<usize, unsafe extern "C" fn(*const u64, *mut i32) -> i32>(wait)(set, signal)
    }
}

/// Stands in front of libc's.
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sigwaitinfo(set: *const u64, info: *mut Info) -> i32 {
    let wait = real(Real::Sigwaitinfo);
    if wait == 0 {
        return -1;
    }
    // SAFETY: libc's sigwaitinfo.
    let wait: Sigwaitinfo = unsafe { core::mem::transmute(wait) };
    // SAFETY: the host's set and structure.
    unsafe {
        match ours_in(set) {
            Some((session, _)) => skipping(session, info, |info| wait(set, info)),
            None => wait(set, info),
        }
    }
}

/// Stands in front of libc's.
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sigtimedwait(set: *const u64, info: *mut Info, timeout: *const [i64; 2]) -> i32 {
    let wait = real(Real::Sigtimedwait);
    if wait == 0 {
        return -1;
    }
    // SAFETY: libc's sigtimedwait.
    let wait: Sigtimedwait = unsafe { core::mem::transmute(wait) };
    // SAFETY: the host's set.
    let ours = unsafe { ours_in(set) };
    // SAFETY: the host's set and time, and a structure.
    let wait = |info: *mut Info, timeout: *const [i64; 2]| unsafe { wait(set, info, timeout) };
    let Some((session, _)) = ours else { return wait(info, timeout) };
    // SAFETY: null or the host's time.
    let Some([seconds, ns]) = (unsafe { timeout.as_ref() }) else {
        return skipping(session, info, |info| wait(info, timeout));
    };
    let whole = seconds.saturating_mul(1_000_000_000).saturating_add(*ns);
    let begin = time::monotonic_ns();
    let mut again = false;
    skipping(session, info, |info| {
        let passed = if again { time::monotonic_ns().wrapping_sub(begin) as i64 } else { 0 };
        // The first time with the host's own words: what is wrong with them is for the kernel to say.
        let left = whole.saturating_sub(passed).max(0);
        let left = [left / 1_000_000_000, left % 1_000_000_000];
        let timeout = if again { &raw const left } else { timeout };
        again = true;
        wait(info, timeout)
    })
}

/// Stands in front of libc's.
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn signalfd(fd: i32, set: *const u64, flags: i32) -> i32 {
    let make = real(Real::Signalfd);
    if make == 0 {
        return -1;
    }
    // SAFETY: libc's signalfd.
    let make: unsafe extern "C" fn(i32, *const u64, i32) -> i32 = unsafe { core::mem::transmute(make) };
    let mut without: Set = [0; 16];
    // SAFETY: the host's set.
    match unsafe { ours_in(set) } {
        Some((_, ours)) => {
            // SAFETY: not null, since it has ours in it.
            without[0] = unsafe { *set } & !ours;
            // SAFETY: a set of our own.
            unsafe { make(fd, without.as_ptr(), flags) }
        }
        // SAFETY: the host's arguments.
        None => unsafe { make(fd, set, flags) },
    }
}

/// The mask to wait with: what the host asked for, and those of our signals that the thread blocks now.
/// `None`: the host's own.
///
/// # Safety
/// `mask` is null or a sigset_t.
unsafe fn with_ours_blocked(mask: *const u64) -> Option<Set> {
    // SAFETY: by the caller's promise.
    let asked = *unsafe { mask.as_ref() }?;
    let session = session::current().filter(|s| s.may_call())?;
    let ours = session.signals() & !asked;
    if ours == 0 {
        return None;
    }
    let blocked = sys::sigmask(sys::Mask::Block, 0) & ours;
    let mut set: Set = [0; 16];
    set[0] = asked | blocked;
    (blocked != 0).then_some(set)
}

/// Defines the exported `$name`, whose argument `$mask` is a mask to wait with.
macro_rules! with_mask {
    ($name:ident, $real:ident, ($($before:ident),*), ($($after:ident),*)) => {
        /// Stands in front of libc's.
        ///
        /// # Safety
        /// As libc's.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($before: usize,)* mask: *const u64, $($after: usize,)*) -> i32 {
            let wait = real(Real::$real);
            if wait == 0 {
                return -1;
            }
            // SAFETY: the host's mask.
            let changed = unsafe { with_ours_blocked(mask) };
            let mask = changed.as_ref().map_or(mask, |set| set.as_ptr());
            type Wait = unsafe extern "C" fn($(with_mask!(@word $before),)* *const u64, $(with_mask!(@word $after),)*) -> i32;
            // SAFETY: libc's function: integers and pointers in registers.
            let wait: Wait = unsafe { core::mem::transmute(wait) };
            // SAFETY: the host's arguments, and a mask that lives through the call.
            unsafe { wait($($before,)* mask, $($after,)*) }
        }
    };
    (@word $x:ident) => { usize };
}

with_mask!(sigsuspend, Sigsuspend, (), ());
with_mask!(ppoll, Ppoll, (files, count, timeout), ());
with_mask!(__ppoll_chk, PpollChecked, (files, count, timeout), (room));
with_mask!(pselect, Pselect, (count, read, write, other, timeout), ());
with_mask!(epoll_pwait, EpollPwait, (file, events, most, timeout), ());
with_mask!(epoll_pwait2, EpollPwait2, (file, events, most, timeout), ());
