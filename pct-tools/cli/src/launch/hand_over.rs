//! Processes of a run that cannot be sampled from inside are taken over by a controller, which samples them from
//! outside.
//!
//! Who they are is told in the run's status file: by the library, when a program takes all signals that it could
//! use, or before a static program is executed; by [`super::elsewhere`]. The controller waits for more of that
//! file and for what its processes do, in one wait. It follows what they make, up to programs that load the
//! library.

use crate::face::Face;
use anyhow::{Context as _, Result};
use pct_attach::facts;
use pct_attach::outside::{Ended, Follow, Outside, Settings};
use pct_attach::ptrace::sys::{self, Signals};
use pct_attach::tasks;
use pct_elf::Unloadable;
use pct_profile::load::status::{self, Beyond, Tellings};
use std::fs::File;
use std::io::Read as _;
use std::os::fd::AsFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// Between two looks whether a process has executed what it said.
const LOOK: Duration = Duration::from_millis(1);
/// Between two looks at the status file where the kernel does not tell of changes.
const UNTOLD: Duration = Duration::from_millis(10);
/// Longer than any run.
const FOREVER: Duration = Duration::from_secs(1 << 32);
/// A process that has not executed by then could not.
const PATIENCE: Duration = Duration::from_secs(2);
/// What the files of the library are called, in /proc/PID/maps and in LD_PRELOAD.
const LIBRARY: &str = "libpct";

/// The environment that a process began its program with: empty in the midst of an exec. `None`: it cannot be read.
fn environment_of(pid: i32) -> Option<Vec<u8>> {
    std::fs::read(tasks::folder(pid).join("environ")).ok()
}

/// Who is sampled of what a process makes that was taken over: everybody but programs with the library in them.
#[must_use]
pub fn follow() -> Follow {
    Follow::AllBut(Rc::new(loads_library))
}

/// Whether a process that stands at the first instruction of a program will have the library in it.
fn loads_library(pid: i32) -> bool {
    let process = tasks::folder(pid);
    let environment = environment_of(pid).unwrap_or_default();
    let preloaded = environment.split(|octet| *octet == 0).find_map(|word| word.strip_prefix(b"LD_PRELOAD="));
    let is_there = |path: &[u8]| {
        let below = Path::new(std::ffi::OsStr::from_bytes(path)).strip_prefix("/");
        memchr::memmem::find(path, LIBRARY.as_bytes()).is_some()
            && below.is_ok_and(|below| process.join("root").join(below).exists())
    };
    let preloads = preloaded.is_some_and(|paths| paths.split(|octet| b": ".contains(octet)).any(is_there));
    let mut head = Vec::new();
    let read = File::open(process.join("exe")).and_then(|file| file.take(16 << 10).read_to_end(&mut head));
    preloads && read.is_ok() && Unloadable::reason(&head.as_slice()).is_none()
}

/// Samples what cannot be sampled from inside, of all that is told in `folder` after the first `told_before` octets,
/// until SIGTERM comes.
///
/// # Errors
/// What the kernel refuses. Processes that were taken over go on unsampled then.
pub fn sample(folder: &Path, told_before: u64, settings: Settings, face: &Face) -> Result<()> {
    let signals = Signals::told();
    let mut tellings = Tellings::after(folder, told_before).context("the run's status file")?;
    let watched = File::open(folder).context("the run's folder")?;
    let idle = if sys::signal_when_written(watched.as_fd()).is_ok() { FOREVER } else { UNTOLD };
    let mut taken = Taken { folder, outside: Outside::of_nobody(settings), about_to_execute: Vec::new() };
    let ran = loop {
        for (pid, cause) in tellings.read() {
            taken.hear(pid, &cause);
        }
        taken.take_over_who_executed();
        let pause = if taken.about_to_execute.is_empty() { idle } else { LOOK };
        let signal = match taken.outside.run(Some(pause), &signals) {
            Ok(Ended::Signal(signal)) => Some(signal),
            Ok(Ended::Time) => None,
            // nobody is sampled
            Ok(Ended::Target) => signals.wait(u64::try_from(pause.as_nanos()).unwrap_or(u64::MAX >> 1)),
            Err(why) => break Err(why),
        };
        if signal == Some(libc::SIGTERM) {
            break Ok(());
        }
    };
    let counts = taken.outside.finish();
    if let Some(why) = &counts.failed {
        face.warn(format_args!("a recording could not be made: {why}"));
    }
    Ok(ran?)
}

/// Who was taken over, and who will be.
struct Taken<'a> {
    folder: &'a Path,
    outside: Outside,
    /// Processes that execute a program in a moment that cannot load the library, and since when that is known.
    about_to_execute: Vec<(i32, Instant)>,
}

impl Taken<'_> {
    /// What was told of a process.
    fn hear(&mut self, pid: i32, cause: &str) {
        match Beyond::find_in(cause) {
            None => {}
            // it is the child of one that was taken over
            Some(_) if self.outside.samples(pid) => status::tell_taken_over(self.folder, pid),
            Some(Beyond::Now) => self.take_over(pid),
            Some(Beyond::NextProgram) => self.about_to_execute.push((pid, Instant::now())),
        }
    }

    /// Takes over those that have executed their program since. In the midst of that a process has neither the memory
    /// nor the environment of one of both programs.
    fn take_over_who_executed(&mut self) {
        let mut waiting = std::mem::take(&mut self.about_to_execute);
        waiting.retain(|(pid, since)| {
            let is_between = environment_of(*pid).is_some_and(|all| all.is_empty());
            if tasks::has_mapped(*pid, LIBRARY) || is_between {
                return since.elapsed() < PATIENCE && !tasks::has_ended(&tasks::folder(*pid));
            }
            // that could not be executed, and another one was
            if !loads_library(*pid) {
                self.take_over(*pid);
            }
            false
        });
        self.about_to_execute = waiting;
    }

    /// Whether the process with this id was started to record into our folder. One that calls itself by this id may be
    /// in a namespace of its own, where ids are others.
    fn is_of_run(&self, pid: i32) -> bool {
        let environment = environment_of(pid).unwrap_or_default();
        let folder = [b"out=", self.folder.as_os_str().as_bytes(), b"/"].concat();
        environment
            .split(|octet| *octet == 0)
            .any(|word| word.starts_with(b"PCT=") && word.ends_with(&folder))
    }

    fn take_over(&mut self, pid: i32) {
        if self.outside.samples(pid) || !self.is_of_run(pid) {
            return;
        }
        match self.outside.seize_too(pid) {
            Ok(()) => status::tell_taken_over(self.folder, pid),
            Err(_) if tasks::has_ended(&tasks::folder(pid)) => {}
            Err(why) => {
                let scope = match facts::yama() {
                    Some(scope @ 1..) if !facts::capable() => format!(" (Yama's ptrace_scope is {scope})"),
                    _ => String::new(),
                };
                let cause = format!("it could not be sampled from outside either: {why}{scope}");
                status::tell(self.folder, pid, &cause);
            }
        }
    }
}
