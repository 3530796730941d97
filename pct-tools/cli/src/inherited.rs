//! What pct was started with and std's start code changes before `main`: the program gets it as it was.
//!
//! std ignores SIGPIPE and opens /dev/null in the place of closed standard descriptors. pct itself ignores
//! SIGXFSZ while it runs a program, because a file size limit is meant for the program: pct's own writes then
//! fail with an error instead of ending pct.
//!
//! A fence: signal dispositions and plain descriptor numbers have no safe wrappers.

use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

/// SIGPIPE was ignored.
static SIGPIPE_IGNORED: AtomicBool = AtomicBool::new(false);
/// SIGXFSZ was ignored.
static SIGXFSZ_IGNORED: AtomicBool = AtomicBool::new(false);
/// A bit for each of the descriptors 0, 1 and 2 that was closed.
static CLOSED: AtomicU8 = AtomicU8::new(0);

/// Runs before std's start code. Relaxed everywhere: what is stored is read by the same thread, or by one
/// that it starts.
extern "C" fn note_inherited() {
    SIGPIPE_IGNORED.store(is_ignored(libc::SIGPIPE), Ordering::Relaxed);
    SIGXFSZ_IGNORED.store(is_ignored(libc::SIGXFSZ), Ordering::Relaxed);
    for fd in 0..3_u8 {
        // SAFETY: F_GETFD takes a number and only asks.
        if unsafe { libc::fcntl(i32::from(fd), libc::F_GETFD) } == -1 {
            CLOSED.fetch_or(1 << fd, Ordering::Relaxed);
        }
    }
}

// SAFETY: the dynamic linker (or static start code) calls each word of .init_array as a C function; this one takes
// no arguments, uses none, and needs nothing that std sets up.
#[used]
#[unsafe(link_section = ".init_array")]
static LOOK: extern "C" fn() = note_inherited;

/// Was standard output closed when pct started? What is written to it goes nowhere.
#[must_use]
pub fn stdout_was_closed() -> bool {
    CLOSED.load(Ordering::Relaxed) & 1 << libc::STDOUT_FILENO != 0
}

/// Is this signal ignored now?
pub(crate) fn is_ignored(signal: i32) -> bool {
    // SAFETY: an all-zero sigaction is a valid value of that plain C struct.
    let mut now: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: a null new action only asks; the old one is written to a live local.
    let asked = unsafe { libc::sigaction(signal, std::ptr::null(), &raw mut now) };
    asked == 0 && now.sa_sigaction == libc::SIG_IGN
}

/// From now on a file that grows over RLIMIT_FSIZE is an error of the write, not the end of pct.
pub fn survive_file_size_limits() {
    // SAFETY: ignoring a signal involves no handler.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
}

/// Gives dispositions and closed descriptors back. To be called in the process that becomes the program,
/// right before it does.
pub(crate) fn give_back() {
    for (signal, ignored) in [(libc::SIGPIPE, &SIGPIPE_IGNORED), (libc::SIGXFSZ, &SIGXFSZ_IGNORED)] {
        let was = if ignored.load(Ordering::Relaxed) { libc::SIG_IGN } else { libc::SIG_DFL };
        // SAFETY: sets a disposition; no handler is involved.
        unsafe { libc::signal(signal, was) };
    }
    let closed = CLOSED.load(Ordering::Relaxed);
    for fd in (0..3).filter(|fd| closed & (1 << fd) != 0) {
        // SAFETY: std opened /dev/null here and hands the number to nobody but its own standard streams,
        // which this process does not use between here and the exec.
        unsafe { libc::close(fd) };
    }
}
