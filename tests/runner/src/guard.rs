//! A test program in a place of its own: no test depends on what the user, an earlier run or another test left.
//!
//! HOME, the XDG folders and TMPDIR are folders that are made for this one start of the program and removed after it;
//! what the program starts inherits them. What would make a build slower for nothing stays where it is: cargo's,
//! rustup's and pyenv's folders; Go's cache, which knows its entries by their content, lies in the target folder.
//!
//! Orphans of the test come to this process (it is their *subreaper*, prctl(2)). Those that are there some seconds
//! after the test's end are named, killed, and the test has failed.

use std::fs::{DirBuilder, Permissions, set_permissions};
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use nix::errno::Errno;
use nix::sys::prctl;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

use crate::stuck;

/// What a process that was told to end may need for that on a crowded machine.
const TIME_TO_END: Duration = Duration::from_secs(5);

/// Variables by which the user's settings, or those of a program around the tests, would reach the tests.
const NOT_PASSED: [&str; 12] = [
    "PCT",
    "LD_PRELOAD",
    "COLUMNS",
    "LINES",
    "NO_COLOR",
    "CLICOLOR",
    "CLICOLOR_FORCE",
    "DISPLAY",
    "WAYLAND_DISPLAY",
    "DEBUGINFOD_URLS",
    "PYTHONPATH",
    "PYTHONHOME",
];

/// How a test program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// With this status.
    Exited(i32),
    /// By this signal.
    Killed(Signal),
}

/// Runs a test program in a place of its own. Returns how it ended; [`Ended::Exited`] with 1 also when it left
/// processes behind, which are named on stderr.
///
/// # Errors
/// When the folders cannot be made, or the program cannot be started.
pub fn run(program: &Path, arguments: &[String]) -> Result<Ended> {
    prctl::set_child_subreaper(true).context("the kernel knows no subreapers")?;
    let place = tempfile::Builder::new().prefix("t").tempdir().context("a folder for the test")?;
    let mut command = Command::new(program);
    command.args(arguments);
    for name in NOT_PASSED {
        command.env_remove(name);
    }
    for (name, value) in kept_folders(std::env::var_os("HOME").map(PathBuf::from).as_deref()) {
        command.env(name, value);
    }
    for (name, folder) in own_folders(place.path())? {
        command.env(name, folder);
    }
    let test = command.spawn().with_context(|| format!("{} cannot be started", program.display()))?;
    stuck::watch();
    let ended = wait_for_end(Pid::from_raw(i32::try_from(test.id()).context("a process id")?))?;
    let left = end_those_left_behind()?;
    for process in &left {
        eprintln!("{} the test left a process behind: {process}", pct_kit::harm::LEFT_BEHIND);
    }
    Ok(if left.is_empty() { ended } else { Ended::Exited(1) })
}

/// Folders that are made for a test, by the variable that names each.
fn own_folders(place: &Path) -> Result<Vec<(&'static str, PathBuf)>> {
    let folders = [
        ("HOME", "home"),
        ("XDG_CACHE_HOME", "home/.cache"),
        ("XDG_CONFIG_HOME", "home/.config"),
        ("XDG_DATA_HOME", "home/.local/share"),
        ("XDG_STATE_HOME", "home/.local/state"),
        ("XDG_RUNTIME_DIR", "run"),
        ("TMPDIR", "tmp"),
    ];
    let made = folders.map(|(name, folder)| -> Result<_> {
        let folder = place.join(folder);
        DirBuilder::new().recursive(true).mode(0o700).create(&folder)?;
        Ok((name, folder))
    });
    // Servers that change their user enter it too, as they enter /tmp.
    set_permissions(place, Permissions::from_mode(0o755))?;
    set_permissions(place.join("tmp"), Permissions::from_mode(0o1777))?;
    made.into_iter().collect()
}

/// Folders that stay where they are although `home` changes, unless a variable already says where they are.
fn kept_folders(home: Option<&Path>) -> Vec<(&'static str, PathBuf)> {
    let in_home = [("CARGO_HOME", ".cargo"), ("RUSTUP_HOME", ".rustup"), ("PYENV_ROOT", ".pyenv")];
    let mut kept: Vec<_> = in_home
        .into_iter()
        .filter_map(|(name, folder)| Some((name, home?.join(folder))))
        .filter(|(_, folder)| folder.exists())
        .collect();
    let target = std::env::current_exe().ok().and_then(|own| Some(own.parent()?.parent()?.to_owned()));
    kept.extend(target.map(|target| ("GOCACHE", target.join("go-cache"))));
    kept.retain(|(name, _)| std::env::var_os(name).is_none());
    kept
}

/// Waits for the end of the test, and meanwhile for orphans that end.
fn wait_for_end(test: Pid) -> Result<Ended> {
    loop {
        match waitpid(None, None) {
            Ok(WaitStatus::Exited(pid, status)) if pid == test => return Ok(Ended::Exited(status)),
            Ok(WaitStatus::Signaled(pid, signal, _)) if pid == test => return Ok(Ended::Killed(signal)),
            Ok(_) | Err(Errno::EINTR) => {}
            Err(why) => return Err(why).context("waiting for the test"),
        }
    }
}

/// Waits until no process is left, some seconds at most; then kills those that are. Returns the command lines of those
/// that had to be killed.
fn end_those_left_behind() -> Result<Vec<String>> {
    let start = Instant::now();
    let mut killed = Vec::new();
    loop {
        match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
            Err(Errno::ECHILD) => return Ok(killed),
            Err(why) if why != Errno::EINTR => return Err(why).context("waiting for what the test left"),
            Ok(WaitStatus::StillAlive) if start.elapsed() < TIME_TO_END => {
                std::thread::sleep(Duration::from_millis(5));
            }
            Ok(WaitStatus::StillAlive) => {
                for (pid, line) in children() {
                    killed.extend((kill(pid, Signal::SIGKILL).is_ok()).then_some(line));
                }
                // The killed ones' own children come here next.
                let _ = waitpid(None, None);
            }
            _ => {}
        }
    }
}

/// Process ids and command lines of the children that this process has.
fn children() -> Vec<(Pid, String)> {
    let own = std::process::id();
    let listed = std::fs::read_to_string(format!("/proc/{own}/task/{own}/children")).unwrap_or_default();
    let children = listed.split_whitespace().filter_map(|pid| pid.parse().ok());
    children
        .map(|pid: i32| {
            let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let line = String::from_utf8_lossy(&line).replace('\0', " ");
            (Pid::from_raw(pid), format!("{pid} {}", line.trim_end()))
        })
        .collect()
}
