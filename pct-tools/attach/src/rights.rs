//! Programs that gain rights when they are executed: another user, another group, or capabilities of their file.
//!
//! The kernel gives them none of that when somebody traces them who may not trace everybody (execve(2), ptrace(2)), nor
//! to a process that gave up new privileges, nor from a file system that is mounted `nosuid`.

use rustix::fs::StatVfsMountFlags;
use rustix::process::{getgid, getuid};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Read as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// What a program gains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gain {
    /// It runs as another user.
    User,
    /// It runs as another group.
    Group,
    /// Its file has capabilities.
    Capabilities,
}

impl Gain {
    /// What such a program does at its start, to follow its name.
    #[must_use]
    pub fn verb(self) -> &'static str {
        match self {
            Gain::User => "changes its user on start (setuid)",
            Gain::Group => "changes its group on start (setgid)",
            Gain::Capabilities => "gets capabilities on start (setcap)",
        }
    }
}

/// What a process with our user and group gains when the kernel runs the code in `file`: a script gains nothing, but
/// its interpreter may.
#[must_use]
pub fn gained_by(file: &Path) -> Option<Gain> {
    let meta = fs::metadata(file).ok()?;
    if is_on_nosuid(file) {
        return None;
    }
    if meta.mode() & 0o4000 != 0 && meta.uid() != getuid().as_raw() {
        return Some(Gain::User);
    }
    if meta.mode() & 0o2010 == 0o2010 && meta.gid() != getgid().as_raw() {
        return Some(Gain::Group);
    }
    (!getuid().is_root() && has_capabilities(file)).then_some(Gain::Capabilities)
}

fn is_on_nosuid(file: &Path) -> bool {
    rustix::fs::statvfs(file).is_ok_and(|system| system.f_flag.contains(StatVfsMountFlags::NOSUID))
}

fn has_capabilities(file: &Path) -> bool {
    rustix::fs::getxattr(file, "security.capability", &mut [0_u8; 64]).is_ok()
}

/// Where a script names its interpreter, the kernel reads no further than this.
const FIRST_LINE: u64 = 256;
/// So many scripts may be each other's interpreters.
const MOST_SCRIPTS: usize = 5;

/// The program that the process in `/proc/PID` runs if it executes `path` from within `folder`, by a path of ours:
/// scripts lead to their interpreters.
#[must_use]
pub fn executed_by(process: &Path, folder: &Path, path: &Path) -> PathBuf {
    let mut program = seen_from(process, folder, path);
    for _ in 0..MOST_SCRIPTS {
        let mut line = Vec::new();
        let _ = File::open(&program).and_then(|file| file.take(FIRST_LINE).read_to_end(&mut line));
        let Some(rest) = line.strip_prefix(b"#!") else { break };
        let line = rest.split(|octet| *octet == b'\n').next().unwrap_or_default();
        let mut words = line.split(|octet| b" \t".contains(octet)).filter(|word| !word.is_empty());
        let Some(word) = words.next() else { break };
        program = seen_from(process, folder, Path::new(OsStr::from_bytes(word)));
    }
    program
}

/// Our path to what the process in `/proc/PID` calls `path` from within `folder`. An empty path is `folder` itself.
#[must_use]
pub fn seen_from(process: &Path, folder: &Path, path: &Path) -> PathBuf {
    match path.strip_prefix("/") {
        Ok(below) => process.join("root").join(below),
        Err(_) if path.as_os_str().is_empty() => folder.to_owned(),
        Err(_) => folder.join(path),
    }
}

/// Whether a process has given up new privileges for good; one that cannot be read has not.
#[must_use]
pub fn has_given_up(pid: i32) -> bool {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    text.lines().any(|line| line.strip_prefix("NoNewPrivs:").is_some_and(|word| word.trim() == "1"))
}
