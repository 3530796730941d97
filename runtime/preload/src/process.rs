//! fork, exit, and what changes the process's rights.
//!
//! fork: our signals are held back in the parent meanwhile, so that the copy of a big process is not interrupted
//! again and again; the child begins anew. A child that was made in a way that we do not see begins at its first
//! wrapped call. Before rights go (setuid, chroot, and [`crate::filters`]) the file is made and blocks are allocated,
//! since neither may be possible afterwards.

use core::sync::atomic::Ordering;

use pct_format::State;
use pct_sampler::process::session::{self, Session};
use pct_sampler::{process::leaving, process::life, process::secure};

use crate::host::{Real, real};
use crate::jump::jump_after;
use crate::still_allowed;

fn before_fork() {
    if let Some(session) = session::current() {
        leaving::before_fork(session);
    }
}

fn forked(which: Real) -> i32 {
    let fork = real(which);
    if fork == 0 {
        return -1;
    }
    // SAFETY: libc's fork or _Fork.
    let fork: unsafe extern "C" fn() -> i32 = unsafe { core::mem::transmute(fork) };
    before_fork();
    let quiet = session::quiet();
    // SAFETY: the host's own wish.
    let pid = unsafe { fork() };
    // The child has no clock yet, and one that finds its signal blocked would begin slowly.
    drop(quiet);
    if pid == 0 {
        life::start_in_child();
    } else if pid > 0
        && let Some(session) = session::current()
    {
        let _alone = session::alone();
        leaving::forked(session, pid as u32);
    }
    pid
}

/// Stands in front of libc's.
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fork() -> i32 {
    forked(Real::Fork)
}

/// Stands in front of libc's.
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn _Fork() -> i32 {
    forked(Real::UnderFork)
}

/// Stands in front of libc's, which forks by itself.
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn daemon(stay: i32, keep_files: i32) -> i32 {
    let daemon = real(Real::Daemon);
    if daemon == 0 {
        return -1;
    }
    before_fork();
    // SAFETY: libc's daemon with the host's arguments.
    let result = unsafe {
        core::mem::transmute::<usize, unsafe extern "C" fn(i32, i32) -> i32>(daemon)(stay, keep_files)
    };
    // Here is the child, if there is one: the parent has exited.
    life::start_in_child();
    result
}

/// Stands in front of libc's, which forks by itself.
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forkpty(
    terminal: *mut i32,
    name: *mut u8,
    settings: *const u8,
    size: *const u8,
) -> i32 {
    let forkpty = real(Real::Forkpty);
    if forkpty == 0 {
        return -1;
    }
    type Forkpty = unsafe extern "C" fn(*mut i32, *mut u8, *const u8, *const u8) -> i32;
    before_fork();
    // SAFETY: libc's forkpty with the host's arguments.
    let pid = unsafe { core::mem::transmute::<usize, Forkpty>(forkpty)(terminal, name, settings, size) };
    if pid == 0 {
        life::start_in_child();
    }
    pid
}

fn close(state: State) {
    if let Some(session) = own() {
        life::end(session, state);
    }
}

extern "C" fn before_exit(which: usize) -> usize {
    close(State::Closed);
    real(if which == 0 { Real::Exit } else { Real::ExitC99 })
}

jump_after!(_exit, before_exit, 0);
jump_after!(_Exit, before_exit, 1);

/// The session, if this process has it for itself: a child of vfork that gives up its rights before it executes another
/// program has its parent's memory, but the parent keeps its rights.
pub(crate) fn own() -> Option<&'static Session> {
    // (Under a filter on system calls that forbids to ask, nothing but a word of the file is written, and no action is
    // set but the one that the caller asks for.)
    let may_ask = |s: &Session| s.may_call() || still_allowed::asks_pid();
    session::current().filter(|s| !may_ask(s) || s.pid.load(Ordering::Relaxed) == pct_sampler::sys::getpid())
}

/// Before the process loses rights.
pub(crate) fn before_less_rights() {
    if let Some(session) = own().filter(|s| s.on.load(Ordering::Relaxed)) {
        let _alone = session::alone();
        secure::secure(session);
    }
}

extern "C" fn before_rights(which: usize) -> usize {
    before_less_rights();
    real(match which {
        0 => Real::Setuid,
        1 => Real::Setgid,
        2 => Real::Seteuid,
        3 => Real::Setreuid,
        4 => Real::Setresuid,
        5 => Real::Chroot,
        6 => Real::Unshare,
        _ => Real::Setns,
    })
}

jump_after!(setuid, before_rights, 0);
jump_after!(setgid, before_rights, 1);
jump_after!(seteuid, before_rights, 2);
jump_after!(setreuid, before_rights, 3);
jump_after!(setresuid, before_rights, 4);
jump_after!(chroot, before_rights, 5);
// Another user's or another file system's namespace.
jump_after!(unshare, before_rights, 6);
jump_after!(setns, before_rights, 7);
