//! Starting the program and waiting for it: fork, exec. A fence for the system calls without safe wrappers.
//!
//! std's `Command` cannot be used: the folder's name holds the pid of the program, which exists only between fork
//! and exec, and it puts SIGPIPE to its default where the program should inherit what pct was given.
//!
//! All signals that are passed on ([`children`]) are blocked from before the fork until both sides have set
//! themselves up, so that none falls between. The program starts with the signal mask and dispositions that
//! pct was started with.
//!
//! Invariant: nobody else runs in pct when it forks, so the child may allocate: there is one thread, or a
//! second one that waits for it (`main` under a small stack).

use super::children::{self, Status};
use super::controller::{self, Controller, Work};
use crate::inherited;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, poll};
use nix::sys::signal::SigSet;
use nix::unistd::{ForkResult, Pid};
use std::ffi::{CString, OsStr, OsString};
use std::io::Read as _;
use std::os::fd::AsFd as _;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

/// The folder that the run writes to.
#[derive(Clone, Debug)]
pub enum Folder {
    /// This one.
    Given(PathBuf),
    /// A new one in this folder: `pct-NAME-PID`.
    Named {
        /// The folder around it, absolute.
        within: PathBuf,
        /// NAME.
        name: OsString,
    },
    /// None can be made, for this reason: the program runs unprofiled.
    Nowhere(String),
}

/// A program that runs.
#[derive(Debug)]
pub struct Started {
    /// Its process id.
    pub pid: Pid,
    /// The folder of the run; `None` when it could not be made and the program runs unprofiled.
    pub folder: Option<PathBuf>,
    /// Why there is no folder.
    pub trouble: Option<String>,
    /// CPU time of children before this one, user and system, nanoseconds: whoever executed pct (`cargo run`, a shell's
    /// `exec`) may have waited for children of its own in this very process.
    used_before: (u64, u64),
    /// Who holds it at its first instruction or samples it from outside, where that was asked for.
    pub controller: Option<Controller>,
    /// Why there is no controller although one was asked for.
    pub no_controller: Option<String>,
    /// Who takes over what cannot be sampled from inside, where somebody does.
    pub hand_over: Option<Controller>,
}

/// The program could not be executed.
#[derive(Debug)]
pub struct NotExecuted {
    /// What execve said.
    pub errno: Errno,
}

/// How it ended, and what the tree of processes that it waited for used.
#[derive(Clone, Copy, Debug)]
pub struct Ended {
    /// Exit status, or the signal's number.
    pub status: Status,
    /// User CPU time of the tree, nanoseconds.
    pub user_ns: u64,
    /// System CPU time of the tree, nanoseconds.
    pub system_ns: u64,
}

/// Starts `command` (first word looked up in PATH as a shell does). `environment` gives the program's whole
/// environment for the folder of the run, or for none. With `control` it is stopped before its first instruction, and a
/// process of its own does this work with it.
///
/// # Errors
/// Outer: pct could not fork. Inner: the program could not be executed (the folder is gone again).
pub fn start(
    command: &[OsString],
    folder: &Folder,
    environment: impl FnOnce(Option<&Path>) -> Vec<(OsString, OsString)>,
    control: Option<Work<'_>>,
) -> anyhow::Result<Result<Started, NotExecuted>> {
    let words: Vec<CString> = command.iter().map(|word| c_string(word)).collect::<anyhow::Result<_>>()?;
    let (mut from_child, to_parent) = std::io::pipe()?;
    let used_before = used_by_children()?;
    let (gate, work) = match control {
        Some(work) => {
            let (gate, key) = controller::gate()?;
            (Some(gate), Some((key, work)))
        }
        None => (None, None),
    };
    let mask = children::block_passed_on()?;
    // SAFETY: no other thread runs in this process (see above), so the child may do anything.
    match unsafe { nix::unistd::fork() } {
        Err(errno) => {
            let _ = mask.thread_set_mask();
            Err(anyhow::Error::new(errno).context("cannot fork"))
        }
        Ok(ForkResult::Child) => {
            drop((from_child, work));
            if let Some(gate) = gate {
                gate.wait();
            }
            let errno = become_program(&words, folder, environment, &to_parent, &mask);
            send(&to_parent, b'E', &(errno as i32).to_le_bytes());
            // SAFETY: ends this process at once, without the parent's exit handlers.
            unsafe { libc::_exit(127) }
        }
        Ok(ForkResult::Parent { child }) => {
            drop((to_parent, gate));
            let begun = work.map(|(key, work)| key.begin(child, work));
            children::pass_signals_on_to(child);
            let _ = mask.thread_set_mask();
            let mut told = Vec::new();
            let _ = from_child.read_to_end(&mut told);
            let told = told_by_child(child, folder, &told);
            let (mut controller, no_controller) = match begun {
                Some(Ok(controller)) => (Some(controller), None),
                Some(Err(why)) => (None, Some(why)),
                None => (None, None),
            };
            if let Some(controller) = &mut controller {
                controller.goes_to(told.as_ref().ok().and_then(|started| started.folder.as_deref()));
            }
            if told.is_err() {
                controller.as_mut().map(Controller::close);
            }
            Ok(told.map(|started| Started { used_before, controller, no_controller, ..started }))
        }
    }
}

fn c_string(word: &OsStr) -> anyhow::Result<CString> {
    CString::new(word.as_bytes()).map_err(|_| anyhow::anyhow!("a word of the command holds a NUL byte"))
}

/// In the child: makes the folder, sets signals back, executes. Returns only when that failed.
fn become_program(
    words: &[CString],
    folder: &Folder,
    environment: impl FnOnce(Option<&Path>) -> Vec<(OsString, OsString)>,
    to_parent: &std::io::PipeWriter,
    mask: &SigSet,
) -> Errno {
    let made = make(folder);
    if let Ok(path) = &made {
        // Processes append to it and never make it: whoever looks into the folder started them.
        let status = path.join(pct_profile::load::status::STATUS);
        let _ = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(status);
    }
    match &made {
        Ok(path) => send(to_parent, b'D', path.as_os_str().as_bytes()),
        Err(why) => send(to_parent, b'T', why.as_bytes()),
    }
    let environment = as_c_strings(environment(made.as_deref().ok()));
    let _ = mask.thread_set_mask();
    execute(words, &environment)
}

/// Gives back what std changed and executes. Returns only when that failed.
fn execute(words: &[CString], environment: &[CString]) -> Errno {
    inherited::give_back();
    let argv: Vec<*const libc::c_char> = words.iter().map(|w| w.as_ptr()).chain([std::ptr::null()]).collect();
    let envp: Vec<*const libc::c_char> =
        environment.iter().map(|w| w.as_ptr()).chain([std::ptr::null()]).collect();
    // SAFETY: both vectors end with a null pointer and point to NUL-terminated strings that live through the call.
    unsafe { libc::execvpe(argv[0], argv.as_ptr(), envp.as_ptr()) };
    Errno::last()
}

/// Becomes the program in this very process, unprofiled: the way that is left when pct cannot even fork.
/// Returns only when that failed.
///
/// # Errors
/// What execve said, or that a word holds a NUL octet.
pub fn become_unprofiled(command: &[OsString]) -> anyhow::Result<NotExecuted> {
    become_with_environment(command, std::env::vars_os().collect())
}

/// Becomes the program, with this environment. Returns only when it could not be executed.
///
/// # Errors
/// When a word of the command cannot be handed to the kernel.
pub fn become_with_environment(
    command: &[OsString],
    environment: Vec<(OsString, OsString)>,
) -> anyhow::Result<NotExecuted> {
    let words: Vec<CString> = command.iter().map(|word| c_string(word)).collect::<anyhow::Result<_>>()?;
    let environment = as_c_strings(environment);
    Ok(NotExecuted { errno: execute(&words, &environment) })
}

fn as_c_strings(environment: Vec<(OsString, OsString)>) -> Vec<CString> {
    environment
        .into_iter()
        .filter_map(|(mut name, value)| {
            name.push("=");
            name.push(value);
            CString::new(name.into_vec()).ok()
        })
        .collect()
}

/// Messages are: kind, length (4 bytes), content.
fn send(to: &std::io::PipeWriter, kind: u8, content: &[u8]) {
    let mut message = vec![kind];
    message.extend_from_slice(&u32::try_from(content.len()).unwrap_or(0).to_le_bytes());
    message.extend_from_slice(content);
    let mut rest = message.as_slice();
    while let Ok(n) = nix::unistd::write(to, rest) {
        rest = rest.get(n..).unwrap_or_default();
        if rest.is_empty() || n == 0 {
            return;
        }
    }
}

fn told_by_child(pid: Pid, folder: &Folder, mut told: &[u8]) -> Result<Started, NotExecuted> {
    let mut started = Started {
        pid,
        folder: None,
        trouble: None,
        used_before: (0, 0),
        controller: None,
        no_controller: None,
        hand_over: None,
    };
    while let [kind, a, b, c, d, rest @ ..] = told {
        let length = u32::from_le_bytes([*a, *b, *c, *d]) as usize;
        let content = rest.get(..length).unwrap_or(rest);
        told = rest.get(length..).unwrap_or_default();
        match kind {
            b'D' => started.folder = Some(PathBuf::from(OsString::from_vec(content.to_vec()))),
            b'T' => started.trouble = Some(String::from_utf8_lossy(content).into_owned()),
            _ => {
                let errno = content.try_into().map_or(0, i32::from_le_bytes);
                let _ = nix::sys::wait::waitpid(pid, None);
                if let Some(made) = started.folder.as_ref().filter(|_| matches!(folder, Folder::Named { .. }))
                {
                    let _ = std::fs::remove_file(made.join(pct_profile::load::status::STATUS));
                    let _ = std::fs::remove_dir(made);
                }
                return Err(NotExecuted { errno: Errno::from_raw(errno) });
            }
        }
    }
    Ok(started)
}

fn make(folder: &Folder) -> Result<PathBuf, String> {
    let within = match folder {
        Folder::Given(path) => path,
        Folder::Named { within, .. } => within,
        Folder::Nowhere(why) => return Err(why.clone()),
    };
    // The options of the library are separated by commas, and a percent sign begins a place in a template.
    if within.as_os_str().as_bytes().iter().any(|byte| b",%".contains(byte)) {
        return Err(format!(
            "{}: a path with a comma or percent sign cannot be used (name another by --out)",
            within.display()
        ));
    }
    let with_mode = |path: &Path| nix::unistd::mkdir(path, nix::sys::stat::Mode::S_IRWXU);
    match folder {
        Folder::Given(path) => match with_mode(path) {
            Ok(()) => Ok(path.clone()),
            Err(Errno::EEXIST) if path.is_dir() => Ok(path.clone()),
            Err(errno) => Err(cannot_make(path, errno)),
        },
        Folder::Named { within, name } => {
            let pid = std::process::id();
            for again in 1..1000 {
                let mut last = OsString::from("pct-");
                last.push(name);
                last.push(format!("-{pid}"));
                if again > 1 {
                    last.push(format!("-{again}"));
                }
                let path = within.join(last);
                match with_mode(&path) {
                    Ok(()) => return Ok(path),
                    Err(Errno::EEXIST) => {}
                    Err(errno) => return Err(cannot_make(&path, errno)),
                }
            }
            Err(format!("{}: a thousand runs of this name and pid", within.display()))
        }
        Folder::Nowhere(why) => Err(why.clone()),
    }
}

fn cannot_make(path: &Path, errno: Errno) -> String {
    let why = match errno {
        Errno::EEXIST => "there is a file of that name",
        Errno::ENOENT => "the folder around it is not there",
        errno => errno.desc(),
    };
    format!("{}: cannot make this folder for the data: {why} (--out names another)", path.display())
}

/// CPU time of all children that were waited for, and of theirs: user and system, nanoseconds.
fn used_by_children() -> Result<(u64, u64), Errno> {
    use nix::sys::resource::{UsageWho, getrusage};
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN)?;
    let ns = |time: nix::sys::time::TimeVal| {
        let micros = i128::from(time.tv_sec()) * 1_000_000 + i128::from(time.tv_usec());
        u64::try_from(micros * 1000).unwrap_or(0)
    };
    Ok((ns(usage.user_time()), ns(usage.system_time())))
}

/// How often there is something to do while the program runs.
const ASIDE_MS: u16 = 500;

/// Waits for the program's end. `aside` is called twice a second meanwhile (never by kernels before 5.3). A
/// panic of it is said by std, and it is not called again: the program's status must not go with it. `ended`
/// is called when the program has ended, before its status is taken: whoever traces it still has to let it
/// go.
///
/// # Errors
/// When the kernel does not know the program any more (somebody else waited for it).
pub fn wait(
    started: &mut Started,
    mut aside: impl FnMut(&mut Started),
    ended: impl FnOnce(&mut Started),
) -> Result<Ended, Errno> {
    if let Some(end) = children::pidfd(started.pid) {
        let mut ready = [PollFd::new(end.as_fd(), PollFlags::POLLIN)];
        let mut may_look = true;
        loop {
            match poll(&mut ready, ASIDE_MS) {
                Ok(0) if may_look => {
                    may_look = catch_unwind(AssertUnwindSafe(|| aside(started))).is_ok();
                }
                Ok(0) | Err(Errno::EINTR) => {}
                // it ended, or the descriptor is of no use
                _ => break,
            }
        }
        ended(started);
        used(started, children::wait_for(started.pid)?)
    } else {
        let status = children::wait_for(started.pid)?;
        ended(started);
        used(started, status)
    }
}

/// What the program used, once somebody has waited for it and was told its `status`. The time of controllers is not the
/// program's.
fn used(started: &Started, status: Status) -> Result<Ended, Errno> {
    children::pass_signals_on_to_nobody();
    let (user, system) = used_by_children()?;
    let controllers = started.controller.iter().chain(&started.hand_over).map(Controller::used);
    let (user_before, system_before) =
        controllers.fold(started.used_before, |sum, used| (sum.0 + used.0, sum.1 + used.1));
    Ok(Ended {
        status,
        user_ns: user.saturating_sub(user_before),
        system_ns: system.saturating_sub(system_before),
    })
}

/// Ends this process by the signal that ended the program, without a core file of its own. Returns (with the
/// shell's status for it) only if the signal does not end a process.
#[must_use]
pub fn die_by(signal: i32) -> u8 {
    let _ = nix::sys::resource::setrlimit(nix::sys::resource::Resource::RLIMIT_CORE, 0, 0);
    // SAFETY: sets a disposition; no handler is involved.
    unsafe { libc::signal(signal, libc::SIG_DFL) };
    // SAFETY: an all-zero set is a valid value of that plain C struct.
    let mut set: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: the set is a live local; a number that is no signal is refused.
    unsafe { libc::sigaddset(&raw mut set, signal) };
    // SAFETY: reads a live set; a null old mask is not written.
    unsafe { libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const set, std::ptr::null_mut()) };
    // SAFETY: raise(3) takes a number.
    unsafe { libc::raise(signal) };
    128_u8.saturating_add(u8::try_from(signal).unwrap_or(0))
}
