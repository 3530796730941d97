//! Children of pct: passing signals on to one, and waiting for it. A fence for the system calls without safe wrappers.
//!
//! SIGINT and SIGQUIT from the terminal reach the whole foreground group, the child included; pct survives
//! them and still reports. Those that somebody sends to pct alone, and SIGTERM, SIGHUP and others
//! ([`PASSED_ON`]), are passed on.

use crate::inherited;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{self, SaFlags, SigAction, SigHandler, SigSet, Signal};
use nix::unistd::Pid;
use std::os::fd::{AsFd as _, FromRawFd as _, OwnedFd};
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::{Duration, Instant};

/// Exit status, or the signal's number (there are more than `Signal` has names for).
pub type Status = Result<i32, i32>;

/// User and system CPU nanoseconds.
pub(super) type Used = (u64, u64);

/// The running program's pid, for the handler; 0 = none.
static CHILD: AtomicI32 = AtomicI32::new(0);

/// The signals that people and supervisors end or steer programs by (`timeout -s`, `kill -USR1`), and the
/// alarm that whoever executed pct may have set for its program.
pub(super) const PASSED_ON: [Signal; 7] = [
    Signal::SIGINT,
    Signal::SIGQUIT,
    Signal::SIGTERM,
    Signal::SIGHUP,
    Signal::SIGUSR1,
    Signal::SIGUSR2,
    Signal::SIGALRM,
];

/// Async-signal-safe: reads an atomic, calls kill(2), keeps errno.
extern "C" fn pass_on(number: i32, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    let errno = Errno::last_raw();
    // SAFETY: the kernel passes a siginfo that lives as long as the handler runs (SA_SIGINFO).
    let code = unsafe { (*info).si_code };
    let child = CHILD.load(Ordering::Relaxed);
    let from_terminal = code == libc::SI_KERNEL && (number == libc::SIGINT || number == libc::SIGQUIT);
    if child > 0 && !from_terminal {
        // SAFETY: kill(2) takes two integers.
        unsafe { libc::kill(child, number) };
    }
    Errno::set_raw(errno);
}

/// From now on the signals that pct is sent are passed on to this child. What pct was told to ignore it
/// ignores (nohup).
pub(super) fn pass_signals_on_to(child: Pid) {
    CHILD.store(child.as_raw(), Ordering::Relaxed);
    let action = SigAction::new(SigHandler::SigAction(pass_on), SaFlags::SA_RESTART, SigSet::empty());
    for signal in PASSED_ON {
        let by_choice = signal == Signal::SIGINT || signal == Signal::SIGQUIT;
        if !by_choice && inherited::is_ignored(signal as i32) {
            continue;
        }
        // SAFETY: the handler is async-signal-safe (see there).
        let _ = unsafe { signal::sigaction(signal, &action) };
    }
}

/// The child has ended: signals are passed on to nobody.
pub(super) fn pass_signals_on_to_nobody() {
    CHILD.store(0, Ordering::Relaxed);
}

/// A descriptor that can be read from when the process has ended; `None` in kernels before 5.3.
pub(super) fn pidfd(pid: Pid) -> Option<OwnedFd> {
    // SAFETY: the call takes two numbers, and gives a descriptor that nobody else has.
    let opened = unsafe { libc::syscall(libc::SYS_pidfd_open, pid.as_raw(), 0) };
    let number = i32::try_from(opened).ok().filter(|number| *number >= 0)?;
    // SAFETY: it was just opened for us.
    Some(unsafe { OwnedFd::from_raw_fd(number) })
}

/// Does a child end in this time? It is not waited for. `None`: this kernel cannot tell.
pub(super) fn ends_within(pid: Pid, time: Duration) -> Option<bool> {
    let end = pidfd(pid)?;
    let mut ready = [PollFd::new(end.as_fd(), PollFlags::POLLIN)];
    let until = Instant::now() + time;
    loop {
        let left = until.saturating_duration_since(Instant::now());
        match poll(&mut ready, PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX)) {
            Err(Errno::EINTR) => {}
            Ok(0) => return Some(false),
            Ok(_) => return Some(true),
            Err(_) => return None,
        }
    }
}

/// Blocks the signals that are passed on; gives the mask that was before.
pub(super) fn block_passed_on() -> Result<SigSet, Errno> {
    let set: SigSet = PASSED_ON.into_iter().collect();
    set.thread_swap_mask(signal::SigmaskHow::SIG_BLOCK)
}

/// Waits for the end of a child that is passed the signals from now on, when `mask` lets them through: its
/// exit status, or the signal's number.
///
/// # Errors
/// When the kernel does not know the child.
pub(super) fn wait_passing_signals_on(child: Pid, mask: &SigSet) -> Result<Status, Errno> {
    CHILD.store(child.as_raw(), Ordering::Relaxed);
    let _ = mask.thread_set_mask();
    let status = wait_for(child);
    CHILD.store(0, Ordering::Relaxed);
    status
}

/// In a child of pct: the signals that pct passes on end it.
pub(super) fn end_by_signals() {
    for signal in PASSED_ON.into_iter().filter(|&signal| !inherited::is_ignored(signal as i32)) {
        // SAFETY: sets a disposition; no handler is involved.
        let _ = unsafe { signal::signal(signal, SigHandler::SigDfl) };
    }
}

/// Waits for a child's end: exit status, or the signal's number.
pub(super) fn wait_for(child: Pid) -> Result<Status, Errno> {
    loop {
        if let Some((status, _)) = wait_with_usage(child, 0)? {
            return Ok(status);
        }
    }
}

/// wait4(2) with every signal's number (nix refuses a status with a real-time signal): exit status, or the
/// signal's number, and user and system CPU nanoseconds. `None`: it has not ended (with `WNOHANG`).
pub(super) fn wait_with_usage(child: Pid, options: i32) -> Result<Option<(Status, Used)>, Errno> {
    let mut status = 0;
    // SAFETY: all-zero is a valid value of this plain struct.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    loop {
        // SAFETY: wait4 writes one int and one rusage through the pointers, which are to live locals.
        let waited = unsafe { libc::wait4(child.as_raw(), &raw mut status, options, &raw mut usage) };
        let ns = |time: libc::timeval| {
            let micros = i128::from(time.tv_sec) * 1_000_000 + i128::from(time.tv_usec);
            u64::try_from(micros * 1000).unwrap_or(0)
        };
        let used = (ns(usage.ru_utime), ns(usage.ru_stime));
        match Errno::result(waited) {
            Ok(0) => return Ok(None),
            Ok(_) if libc::WIFEXITED(status) => return Ok(Some((Ok(libc::WEXITSTATUS(status)), used))),
            Ok(_) if libc::WIFSIGNALED(status) => return Ok(Some((Err(libc::WTERMSIG(status)), used))),
            Ok(_) | Err(Errno::EINTR) => {}
            Err(errno) => return Err(errno),
        }
    }
}
