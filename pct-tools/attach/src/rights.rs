//! Programs that gain rights when they are executed: another user, another group, or capabilities of their file.
//!
//! The kernel gives them none of that when somebody traces them who may not trace everybody (execve(2), ptrace(2)), nor
//! to a process that gave up new privileges, nor from a file system that is mounted `nosuid`.

use crate::script;
use rustix::fs::StatVfsMountFlags;
use rustix::process::{getgid, getuid};
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// A path that a process hands to the kernel is no longer, with its NUL (the kernel's `PATH_MAX`).
pub(crate) const LONGEST_PATH: usize = 4096;

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

/// The file whose code runs when the process in the folder `process` of `/proc` executes `path` from within `folder`:
/// of a script it is the interpreter's. The result is a path that pct can open.
#[must_use]
pub fn executed_by(process: &Path, folder: &Path, path: &Path) -> PathBuf {
    let mut program = seen_from(process, folder, path);
    for _ in 0..script::MOST {
        let Some(head) = script::head_of(&program, FIRST_LINE) else { break };
        let Some(interpreter) = script::interpreter(&head) else { break };
        program = seen_from(process, folder, interpreter);
    }
    program
}

/// The path by which pct can open what the process in the folder `process` of `/proc` calls `path` from within
/// `folder`. An empty path is `folder` itself.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_lead_to_the_code_that_runs() {
        let process = tempfile::tempdir().expect("a folder");
        let (root, folder) = (process.path().join("root"), process.path().join("cwd"));
        fs::create_dir(&root).expect("made");
        fs::create_dir(&folder).expect("made");
        for (file, text) in
            [("root/a", "#!/b x\n"), ("root/b", "#! c\n"), ("cwd/c", "code"), ("cwd/self", "#!self\n")]
        {
            fs::write(process.path().join(file), text).expect("written");
        }
        let by = |path: &str| executed_by(process.path(), &folder, Path::new(path));
        assert_eq!(by("/a"), folder.join("c"));
        assert_eq!(by("c"), folder.join("c"));
        assert_eq!(by("self"), folder.join("self"));
        assert_eq!(by("/nothing"), root.join("nothing"));
        assert_eq!(by(""), folder);
    }
}
