//! Work after the program's end, in a process of its own: it may panic, run out of memory, be killed or
//! interrupted, and the program's status is still there to be given back. A fence for fork and its
//! descriptors.
//!
//! What the process itself says goes to the real stderr through [`crate::face`]. Its descriptor 2 is a pipe,
//! so that the several lines with which std ends a process become the reason in our one line.
//!
//! Invariant: nobody else runs in this process when it forks, so the new one may allocate and start threads.

use super::children;
use crate::face;
use nix::errno::Errno;
use nix::sys::resource::{Resource, setrlimit};
use nix::sys::signal::Signal;
use nix::unistd::{ForkResult, Pid};
use std::fs::File;
use std::io::Read as _;
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// A process that works for this one.
#[derive(Debug)]
pub(super) struct Apart {
    /// Its process id.
    pub(super) pid: Pid,
    /// What std says when it ends a process, and what `work` writes to descriptor 2.
    last_words: OwnedFd,
}

/// Does `work` in a process of its own and waits for it.
///
/// # Errors
/// Why it did not come to its end, in words.
pub fn run(work: impl FnOnce()) -> Result<(), String> {
    // None of them may fall between the fork and the moment when both sides know what to do with it.
    let mask = children::block_passed_on().map_err(|errno| errno.desc().to_owned())?;
    let in_child = || {
        children::end_by_signals();
        let _ = mask.thread_set_mask();
        work();
        0
    };
    match fork(in_child) {
        Err(why) => {
            let _ = mask.thread_set_mask();
            Err(why)
        }
        Ok(apart) => {
            let status = children::wait_passing_signals_on(apart.pid, &mask);
            apart.failure(status).map_or(Ok(()), Err)
        }
    }
}

/// Begins `work` in a process of its own, which ends with the status that `work` returns, or 1 after a panic.
///
/// # Errors
/// Why there is no such process, in words.
pub(super) fn fork(work: impl FnOnce() -> i32) -> Result<Apart, String> {
    let (last_words, to_parent) = std::io::pipe().map_err(|why| why.to_string())?;
    // SAFETY: no other thread runs in this process (see above), so the child may do anything.
    match unsafe { nix::unistd::fork() } {
        Err(errno) => Err(format!("cannot fork: {}", errno.desc())),
        Ok(ForkResult::Child) => {
            drop(last_words);
            let done = catch_unwind(AssertUnwindSafe(|| {
                prepare(to_parent.into());
                work()
            }));
            // SAFETY: ends this process at once, without the parent's exit handlers.
            unsafe { libc::_exit(done.unwrap_or(1)) }
        }
        Ok(ForkResult::Parent { child }) => Ok(Apart { pid: child, last_words: last_words.into() }),
    }
}

/// The kernel takes this process first when memory runs out, and its end leaves no core file.
fn prepare(to_parent: OwnedFd) {
    let _ = std::fs::write("/proc/self/oom_score_adj", "1000");
    let _ = setrlimit(Resource::RLIMIT_CORE, 0, 0);
    let Ok(stderr) = std::io::stderr().as_fd().try_clone_to_owned() else { return };
    face::speak_through(File::from(stderr));
    // A full pipe must not hold up anybody: nobody reads before the end.
    unblock(&to_parent);
    // SAFETY: replaces descriptor 2, which nobody here owns: std only writes to the number.
    unsafe { libc::dup2(to_parent.as_raw_fd(), 2) };
}

fn unblock(pipe: &OwnedFd) {
    let _ = nix::fcntl::fcntl(pipe, nix::fcntl::FcntlArg::F_SETFL(nix::fcntl::OFlag::O_NONBLOCK));
}

impl Apart {
    /// What it said last, in one line; `None`: nothing.
    pub(super) fn said(self) -> Option<String> {
        // Whatever else still holds the pipe's other end is not waited for.
        unblock(&self.last_words);
        let mut said = Vec::new();
        let _ = File::from(self.last_words).take(64 << 10).read_to_end(&mut said);
        Some(one_line(&String::from_utf8_lossy(&said))).filter(|line| !line.is_empty())
    }

    /// Why it did not come to its end, in words, when it ended with this `status`; `None`: it did.
    pub(super) fn failure(self, status: Result<Result<i32, i32>, Errno>) -> Option<String> {
        let how = match status {
            Ok(Ok(0)) => return None,
            Ok(Ok(_)) => None,
            Ok(Err(signal)) => Some(match Signal::try_from(signal) {
                Ok(signal) => format!("ended by {signal}"),
                Err(_) => format!("ended by signal {signal}"),
            }),
            Err(errno) => Some(errno.desc().to_owned()),
        };
        Some(how.into_iter().chain(self.said()).collect::<Vec<_>>().join(": "))
    }
}

/// What std said at the end of a process, without its advice.
fn one_line(said: &str) -> String {
    let lines = said.lines().map(str::trim).filter(|line| !line.is_empty());
    let useful = lines.filter(|line| !line.starts_with("note: ") && !line.starts_with("skipping backtrace"));
    useful.take(2).collect::<Vec<_>>().join(" ").chars().take(300).collect()
}

#[cfg(test)]
mod tests {
    use super::one_line;

    #[test]
    fn what_std_says_at_the_end_becomes_one_line() {
        let panic = "\nthread 'main' (7) panicked at src/table.rs:1:2:\nwidth out of range\nnote: run with `RUST_BACKTRACE=1`\n";
        assert_eq!(one_line(panic), "thread 'main' (7) panicked at src/table.rs:1:2: width out of range");
        assert_eq!(one_line("memory allocation of 4 bytes failed\n"), "memory allocation of 4 bytes failed");
        assert_eq!(one_line(""), "");
        assert_eq!(one_line(&"x".repeat(1 << 20)).len(), 300);
    }
}
