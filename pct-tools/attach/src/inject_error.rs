//! Why nothing was injected.

use crate::choose::Refusal;
use crate::facts;
use crate::ptrace::error::CallError;
use std::ffi::CString;

/// Why nothing was injected.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InjectError {
    /// No thread reached a safe point in time.
    #[error(
        "no thread of process {pid} came to a point where {what} may be called within 5 s (last: {last}){help}"
    )]
    NoSafePoint {
        /// The target's process id.
        pid: i32,
        /// Which code was to be called.
        what: &'static str,
        /// Why the last thread that was tried was not safe.
        last: String,
        /// What would help.
        help: &'static str,
    },
    /// The call in the target failed.
    #[error(transparent)]
    Call(#[from] CallError),
    /// The target could not be read.
    #[error(transparent)]
    Facts(#[from] facts::FactsError),
    /// dlopen returned an error.
    #[error("dlopen of {path} in the target: {why}")]
    Dlopen {
        /// The library.
        path: String,
        /// The loader's message.
        why: String,
    },
    /// The sampler is loaded, but its note was not found.
    #[error("{path} is loaded in the target, but it is not a libpct.so of this version")]
    NoNote {
        /// The library.
        path: String,
    },
    /// `pct_on` refused.
    #[error("the sampler in the target: {0}{hint}", hint = hint_for(.0))]
    On(std::io::Error),
    /// The sampler could not make its file.
    #[error("its sampler cannot make a recording: {0}{limit}", limit = limit_for(.0))]
    File(std::io::Error),
    /// None of the sampler's clocks works.
    #[error("no clock for its sampler: {0}")]
    Clock(std::io::Error),
    /// The process is being sampled already.
    #[error("process {0} is being sampled already; pct off {0} ends that")]
    Already(i32),
    /// The target lacks a function.
    #[error("the target has no {0}")]
    Missing(&'static str),
    /// A text contains a NUL.
    #[error("a NUL in {0}")]
    Nul(&'static str),
    /// The process is not the one that was read before, or it has executed another program.
    #[error("process {0} has been replaced by another one")]
    Reused(i32),
    /// The target may no longer be attached to.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The kernel turns its system calls into signals.
    #[error(
        "process {0} has its system calls turned into signals (PR_SET_SYSCALL_USER_DISPATCH), and pct's in it would be too"
    )]
    Dispatches(i32),
    /// It handles SIGSYS, and nobody tells whether the kernel turns its system calls into it.
    #[error(
        "process {0} handles SIGSYS, and this kernel does not tell whether it turns system calls into that signal, pct's too"
    )]
    MayDispatch(i32),
    /// Another controller worked in the process all the time.
    #[error("another pct is at work in process {0}")]
    Busy(i32),
}

/// Names the owner of the limit that an error about making a file reports.
fn limit_for(error: &std::io::Error) -> &'static str {
    match error.raw_os_error() {
        Some(libc::EMFILE) => " (its limit RLIMIT_NOFILE)",
        Some(libc::EFBIG) => " (its limit RLIMIT_FSIZE)",
        _ => "",
    }
}

/// What the sampler means by an error number.
fn hint_for(error: &std::io::Error) -> &'static str {
    match error.raw_os_error() {
        Some(libc::EBUSY) => " (no signal is free for its clock)",
        Some(libc::EINVAL) => " (it refuses an option)",
        Some(libc::EAGAIN) => " (another thread is turning it on or off)",
        Some(libc::EALREADY) => " (it is on already)",
        _ => "",
    }
}

/// A text as a C string.
pub(crate) fn text(bytes: &str, what: &'static str) -> Result<Vec<u8>, InjectError> {
    CString::new(bytes).map(CString::into_bytes_with_nul).map_err(|_| InjectError::Nul(what))
}
