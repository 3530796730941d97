//! Programs that have the kernel turn their system calls into signals (`PR_SET_SYSCALL_USER_DISPATCH`): Wine and
//! emulators.
//!
//! The calls of a sampler in such a thread, and even the return from its handler, would become signals of the program,
//! which takes them for calls of the code that it emulates, or dies of them. So nothing is injected there. Each thread
//! has a setting of its own.

use crate::facts::Target;
use crate::inject_error::InjectError;
use crate::ptrace::stop::{STOP, at_stop, in_own_thread};
use crate::ptrace::sys::{self, Tid};
use crate::tasks;
use crate::turn::Turn;
use std::path::Path;

/// Asks the threads of a target, which are stopped for a moment each. A program that does not handle SIGSYS is not
/// asked: it would have died of its own calls.
///
/// # Errors
/// [`InjectError::Dispatches`]; [`InjectError::MayDispatch`] if the kernel does not tell.
pub(crate) fn check(target: &Target) -> Result<(), InjectError> {
    if !target.facts.sigsys_caught {
        return Ok(());
    }
    let pid = target.facts.pid;
    let _turn = Turn::wait_for_turn(pid)?;
    in_own_thread(|| ask_all(pid))
}

fn ask_all(pid: i32) -> Result<(), InjectError> {
    let entries = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    for folder in entries.map(|entry| entry.path()) {
        let Some(tid) = number(&folder) else { continue };
        match at_stop(tid, STOP, sys::dispatches_calls) {
            Some(Ok(false)) => {}
            Some(Ok(true)) => return Err(InjectError::Dispatches(pid)),
            _ if tasks::has_ended(&folder) => {}
            Some(Err(_)) | None => return Err(InjectError::MayDispatch(pid)),
        }
    }
    Ok(())
}

fn number(folder: &Path) -> Option<Tid> {
    folder.file_name()?.to_str()?.parse().ok().map(Tid)
}
