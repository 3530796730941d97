//! The controller of a program that is held at its first instruction or sampled from outside, in a process of
//! its own: it may be killed, abort or run out of memory, and the program goes on, and its status is still
//! there to be given back.
//!
//! ```text
//! pct         fork -- fork -- the controller's pid ---------- the run's folder ---------------- waits for both
//! program       |       |           names its tracer                   executes ...............
//! controller            |                    seizes it -- say go -- stands at its entry -- samples it to its end
//! ```
//!
//! pct is the parent of both. A tracer that is no parent does not take the status: when it has waited for the
//! end of the program, the kernel tells the parent; when the tracer dies, the kernel lets its threads go.
//! Where only ancestors may trace (Yama's ptrace_scope 1), the program's process names its tracer before it
//! executes; the kernel keeps that over the exec.
//!
//! Another kind of controller begins beside a program that runs already ([`Controller::beside`]), and takes over what
//! cannot be sampled from inside; it ends when it is told to. Under Yama's ptrace_scope 1 these processes name pct as
//! their tracer (option `tracer` of the library), which lets what pct makes trace them.
//!
//! The controller is in a process group of its own, so that what is sent to the program's group does not end
//! it. It ends with pct.

use super::apart::{self, Apart};
use super::children;
use nix::errno::Errno;
use nix::sys::signal::{self, SigHandler, Signal};
use nix::unistd::Pid;
use pct_attach::ptrace::entry::{HeldThread, Seized};
use std::ffi::OsString;
use std::io::{PipeReader, PipeWriter, Read as _, Write as _};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What the controller does with the program that stands at its first instruction, and where recordings go.
pub type Work<'a> = Box<dyn FnOnce(HeldThread, &Path) -> anyhow::Result<()> + 'a>;

/// What ps calls it.
const NAME: &std::ffi::CStr = c"pct-controller";

/// Exit status of a controller that could not begin; why is in its last words.
const REFUSED: i32 = 2;

/// A controller that does not end within this time after its program is killed.
const AFTER_THE_PROGRAM: Duration = Duration::from_secs(30);

/// In the program's process: what it waits for before it executes.
pub(super) struct Gate {
    word: PipeReader,
    named: PipeWriter,
}

/// In pct: what opens the gate.
pub(super) struct Key {
    word: PipeWriter,
    named: PipeReader,
}

/// A gate and its key.
///
/// # Errors
/// When there are no pipes.
pub(super) fn gate() -> std::io::Result<(Gate, Key)> {
    let (read_word, word) = std::io::pipe()?;
    let (read_named, named) = std::io::pipe()?;
    Ok((Gate { word: read_word, named }, Key { word, named: read_named }))
}

impl Gate {
    /// Lets the controller trace this process, and waits until it does, or will not.
    pub(super) fn wait(mut self) {
        let mut pid = [0; 4];
        if self.word.read_exact(&mut pid).is_ok() {
            let pid = libc::c_ulong::try_from(i32::from_le_bytes(pid)).unwrap_or(0);
            // SAFETY: takes a number; kernels without Yama refuse it, and need it not.
            unsafe { libc::prctl(libc::PR_SET_PTRACER, pid) };
        }
        drop(self.named);
        let _ = self.word.read(&mut [0]);
    }
}

/// The controller of a program.
#[derive(Debug)]
pub struct Controller {
    process: Option<Apart>,
    folder: Option<PipeWriter>,
    /// User and system CPU time that it used, nanoseconds, once it has ended.
    used: (u64, u64),
    end: Option<End>,
}

/// How a controller ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// It did its work.
    Done,
    /// It could not begin, for this reason.
    Refused(String),
    /// It did not come to the end of its work.
    Died(String),
}

impl Key {
    /// Begins the controller of `program`, which waits at the gate. Signals are blocked meanwhile (see `children`).
    ///
    /// # Errors
    /// Why the controller could not begin, in words. The gate is open then.
    pub(super) fn begin(self, program: Pid, work: Work<'_>) -> Result<Controller, String> {
        let parent = nix::unistd::getpid();
        let (mut read_folder, folder) = std::io::pipe().map_err(|why| why.to_string())?;
        let Key { word, mut named } = self;
        // Both sides have them after the fork, and each closes its own.
        let (mut word, mut folder) = (Some(word), Some(folder));
        let process = apart::fork(|| {
            folder = None;
            stay_beside(parent, None);
            let _ = named.read(&mut [0]);
            let seized = Seized::child(program.as_raw());
            word = None;
            let entered = seized.and_then(Seized::at_entry);
            let mut path = Vec::new();
            let _ = read_folder.read_to_end(&mut path);
            // nothing was executed, or there is no place for the data: it has been said
            if path.is_empty() {
                return 0;
            }
            let done =
                match entered {
                    Ok(None) => Ok(()),
                    Ok(Some(held)) => work(held, &PathBuf::from(OsString::from_vec(path))),
                    Err(why) => Err(anyhow::Error::new(why)
                        .context("it could not be stopped before its first instruction")),
                };
            status_of(done)
        })?;
        if let Some(mut word) = word {
            let _ = word.write_all(&process.pid.as_raw().to_le_bytes());
        }
        Ok(Controller { process: Some(process), folder, used: (0, 0), end: None })
    }
}

/// In the controller: what it ends with after its work. Why that was refused becomes its last words.
fn status_of(done: anyhow::Result<()>) -> i32 {
    match done {
        Ok(()) => 0,
        Err(why) => {
            let _ = writeln!(std::io::stderr(), "{}", pct_text::visible(&crate::errors::chain(&why)));
            REFUSED
        }
    }
}

/// In the controller: nothing that is meant for the program ends it, and it ends with pct. `heeded` is blocked, and
/// waited for: it may have come already, and the kernel would take it away if it were ignored.
fn stay_beside(parent: Pid, heeded: Option<Signal>) {
    let _ = nix::sys::prctl::set_name(NAME);
    let _ = nix::unistd::setpgid(Pid::from_raw(0), Pid::from_raw(0));
    let ignored = children::PASSED_ON.into_iter().chain([Signal::SIGTTOU]);
    for signal in ignored.filter(|signal| Some(*signal) != heeded) {
        // SAFETY: ignoring a signal involves no handler.
        let _ = unsafe { signal::signal(signal, SigHandler::SigIgn) };
    }
    let _ = nix::sys::prctl::set_pdeathsig(Signal::SIGKILL);
    if nix::unistd::getppid() != parent {
        // SAFETY: ends this process at once; pct is gone, so nobody waits for a reason.
        unsafe { libc::_exit(1) };
    }
}

impl Controller {
    /// Begins one that does `work` beside a program that runs, until SIGTERM comes, which is blocked in it.
    ///
    /// # Errors
    /// Why it could not begin, in words.
    pub fn beside(work: impl FnOnce() -> anyhow::Result<()>) -> Result<Controller, String> {
        let mask = children::block_passed_on().map_err(|errno| errno.desc().to_owned())?;
        let parent = nix::unistd::getpid();
        let process = apart::fork(|| {
            stay_beside(parent, Some(Signal::SIGTERM));
            status_of(work())
        });
        let _ = mask.thread_set_mask();
        Ok(Controller { process: Some(process?), folder: None, used: (0, 0), end: None })
    }

    /// Tells it to end, and waits for that. How it ended, told once.
    pub fn end(&mut self) -> Option<End> {
        if let Some(process) = &self.process {
            let _ = signal::kill(process.pid, Signal::SIGTERM);
        }
        self.close()
    }

    /// The program executes: where its recordings go. `None`: nowhere, or it could not be executed.
    pub(super) fn goes_to(&mut self, folder: Option<&Path>) {
        if let (Some(mut pipe), Some(folder)) = (self.folder.take(), folder) {
            let _ = pipe.write_all(folder.as_os_str().as_bytes());
        }
    }

    /// How it ended, told once; `None`: it works still, or it was told already.
    pub fn news(&mut self) -> Option<End> {
        self.wait(libc::WNOHANG)
    }

    /// The program has ended: waits for the controller, which ends by that. How it ended, told once.
    pub fn close(&mut self) -> Option<End> {
        let process = self.process.as_ref()?;
        self.folder = None;
        let pid = process.pid;
        if children::ends_within(pid, AFTER_THE_PROGRAM) == Some(false) {
            let _ = signal::kill(pid, Signal::SIGKILL);
        }
        self.wait(0)
    }

    /// User and system CPU time that it used, nanoseconds; zero before it has ended.
    pub(super) fn used(&self) -> (u64, u64) {
        self.used
    }

    /// Did it do its work?
    #[must_use]
    pub fn did_its_work(&self) -> bool {
        self.end == Some(End::Done)
    }

    fn wait(&mut self, options: i32) -> Option<End> {
        let pid = self.process.as_ref()?.pid;
        let status = match children::wait_with_usage(pid, options) {
            Ok(None) => return None,
            Ok(Some((status, used))) => {
                self.used = used;
                Ok(status)
            }
            Err(errno) => Err(errno),
        };
        let end = self.process.take().map_or(End::Done, |process| end_of(process, status));
        self.end = Some(end.clone());
        Some(end)
    }
}

fn end_of(process: Apart, status: Result<Result<i32, i32>, Errno>) -> End {
    match status {
        Ok(Ok(REFUSED)) => End::Refused(process.said().unwrap_or_default()),
        status => process.failure(status).map_or(End::Done, End::Died),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pct_attach::ptrace::sys::Signals;
    use std::time::Instant;

    /// Also if it is told to before it has done anything: the program was that short.
    #[test]
    fn a_controller_beside_a_program_ends_when_it_is_told_to() {
        for _ in 0..20 {
            let begun = Controller::beside(|| {
                let signals = Signals::told();
                while signals.wait(1_000_000_000) != Some(libc::SIGTERM) {}
                Ok(())
            });
            let told = Instant::now();
            assert_eq!(begun.expect("it begins").end(), Some(End::Done));
            // one that has not heard is killed then
            assert!(told.elapsed() < AFTER_THE_PROGRAM);
        }
    }
}
