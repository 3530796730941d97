//! Programs that are attached to, and the stand-in for the sampler.

use pct_attach::facts::{self, Target};
use pct_kit::harm::{harm, unharmed};
use pct_kit::wait::wait_for;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};

pub(crate) const BARE: &[&str] = &[
    "-O2",
    "-shared",
    "-fPIC",
    "-nostdlib",
    "-Wl,-Bsymbolic,--hash-style=sysv,--build-id=none,-z,norelro",
    "-fno-stack-protector",
    "-fvisibility=hidden",
];

pub(crate) fn built(source: &str, flags: &[&str], dir: &tempfile::TempDir) -> PathBuf {
    built_by("cc", source, flags, dir)
}

pub(crate) fn built_by(compiler: &str, source: &str, flags: &[&str], dir: &tempfile::TempDir) -> PathBuf {
    let from = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/c").join(source);
    let out = dir.path().join(source.trim_end_matches(".c"));
    let done = Command::new(compiler).args(flags).arg(&from).arg("-o").arg(&out).status();
    let done = done.expect("a C compiler");
    assert!(done.success());
    out
}

/// A child that does not outlive a test that failed.
pub(crate) struct Victim(pub(crate) Option<Child>);

impl Victim {
    pub(crate) fn start(command: &mut Command) -> Victim {
        Victim(Some(command.stdout(Stdio::piped()).spawn().unwrap()))
    }

    pub(crate) fn pid(&self) -> i32 {
        self.0.as_ref().unwrap().id() as i32
    }

    /// Ends it with SIGTERM and checks what it says.
    pub(crate) fn ends_well(self) {
        Command::new("kill").arg(self.pid().to_string()).status().unwrap();
        self.ends_saying("bad 0 signals 0\n", "at its end");
    }

    /// Waits for its end, which is a success after these words.
    pub(crate) fn ends_saying(self, words: &str, when: &str) {
        let (said, status) = self.wait();
        if said != words || status.code() != Some(0) {
            harm(&format!("{when}: it said {said:?} instead of {words:?} and ended with {status}"));
        }
    }

    /// Waits for its end: what it said, and its status.
    pub(crate) fn wait(mut self) -> (String, ExitStatus) {
        let out = self.0.take().unwrap().wait_with_output().unwrap();
        (String::from_utf8_lossy(&out.stdout).into_owned(), out.status)
    }

    /// Its status, killed if it has none yet.
    pub(crate) fn stop(mut self) -> Option<ExitStatus> {
        let mut child = self.0.take()?;
        let _ = child.kill();
        child.wait().ok()
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

pub(crate) fn maps(pid: i32) -> Vec<String> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
    text.lines().map(str::to_owned).collect()
}

/// A target that has come as far as its own code.
pub(crate) fn started(child: &Child, name: &str) -> Target {
    seen_to_be(child.id() as i32, &format!("{name} to run"), |t| {
        t.facts.name == name && t.facts.has_dlopen && t.initial_envp.is_some() && t.facts.threads > 0
    })
}

/// A target as soon as it is so.
pub(crate) fn seen_to_be(pid: i32, what: &str, so: impl Fn(&Target) -> bool) -> Target {
    wait_for(what, || Some(facts::read(pid).unwrap()).filter(&so))
}

/// Checks that `cat`, whose streams are pipes, does its work and ends.
pub(crate) fn echoes(mut cat: Child) {
    cat.stdin.take().unwrap().write_all(b"still here").unwrap();
    let said = unharmed(&cat.wait_with_output().unwrap());
    if said != "still here" {
        harm(&format!("cat said {said:?}"));
    }
}

/// Whether the test `name` has a process of its own. Where it shares one with others (not under nextest), it is run in
/// another process instead: a tracer from outside waits for all children of its process.
pub(crate) fn alone(name: &str) -> bool {
    let mode = std::env::var("NEXTEST_EXECUTION_MODE").unwrap_or_default();
    if mode == "process-per-test" || std::env::var_os("PCT_TEST_ALONE").is_some() {
        return true;
    }
    let mut own = Command::new(std::env::current_exe().unwrap());
    let done = own.args(["--exact", name, "--nocapture"]).env("PCT_TEST_ALONE", "1").status();
    assert!(done.unwrap().success(), "{name} in a process of its own");
    false
}

pub(crate) fn status_line(pid: i32, key: &str) -> String {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    text.lines().find(|l| l.starts_with(key)).unwrap_or_default().to_owned()
}

pub(crate) fn cycles() -> u32 {
    pct_kit::asked("PCT_TEST_CYCLES", 25)
}
