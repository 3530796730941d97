//! `pct attach` to a program that is still being loaded: pct waits for the loader's end, so that the method
//! is the same as a moment later.

use pct_kit::started::Killed;
use pct_tests::pct::binary;
use pct_tests::tool_or_skip;
use pct_tests::victims::victim;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;
use std::process::{Command, Stdio};

/// A program that is killed at the end.
struct Target(Killed);

impl Target {
    /// Returns when the kernel has given up the old program; of the new one nothing has run yet.
    fn start(command: &mut Command) -> Target {
        let command = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Target(Killed(command.spawn().expect("it starts")))
    }

    fn attach(&self, folder: &Path) -> Command {
        let mut command = Command::new(binary());
        command.args(["attach", "-o"]).arg(folder).arg(self.0.id().to_string());
        command
    }
}

/// The loader waits as long as the test wants: it opens a named pipe for which there is no writer.
#[test]
fn a_program_that_is_being_loaded_is_waited_for() {
    let test = "a_program_that_is_being_loaded_is_waited_for";
    let Some(mkfifo) = tool_or_skip("mkfifo", test) else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let pipe = folder.path().join("pipe");
    assert!(Command::new(mkfifo).arg(&pipe).status().expect("mkfifo").success());
    let target = Target::start(Command::new(victim("shares.c")).args(["1", "600"]).env("LD_PRELOAD", &pipe));
    let explained = target.attach(folder.path()).arg("--explain").output().expect("pct can be run");
    let explained = String::from_utf8_lossy(&explained.stdout).into_owned();
    assert!(explained.contains("no: the program is still being loaded"), "{explained}");
    let mut attach = target.attach(&folder.path().join("recording"));
    let mut attach = attach.stderr(Stdio::piped()).spawn().expect("pct can be run");
    let mut said = BufReader::new(attach.stderr.take().expect("a pipe"));
    let mut words = String::new();
    said.read_line(&mut words).expect("text");
    assert!(words.contains("still being loaded"), "{words}");
    // The loader reads an empty file, says so on stderr, and goes on.
    drop(std::fs::File::options().write(true).open(&pipe).expect("the loader has it open"));
    said.read_to_string(&mut words).expect("text");
    assert!(attach.wait().expect("waited").success(), "{words}");
    assert!(words.contains("by method 2 (dlopen)") && !words.contains("not by method"), "{words}");
}

/// The loader of a stopped program cannot get on, so pct does not wait. It says which method was left out, and why.
#[test]
fn a_stopped_program_is_not_waited_for() {
    let test = "a_stopped_program_is_not_waited_for";
    let Some(mkfifo) = tool_or_skip("mkfifo", test) else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let pipe = folder.path().join("pipe");
    assert!(Command::new(mkfifo).arg(&pipe).status().expect("mkfifo").success());
    let target = Target::start(Command::new(victim("shares.c")).args(["1", "600"]).env("LD_PRELOAD", &pipe));
    let id = target.0.id().to_string();
    let stopped = || {
        let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).expect("it lives");
        stat.rsplit(')').next().expect("fields").trim_start().starts_with('T')
    };
    assert!(Command::new("kill").args(["-STOP", &id]).status().expect("kill").success());
    while !stopped() {
        std::thread::yield_now();
    }
    let out = folder.path().join("recording");
    let attached = target.attach(&out).output().expect("pct can be run");
    let said = String::from_utf8_lossy(&attached.stderr).into_owned();
    assert!(attached.status.success(), "{said}");
    assert!(said.contains("not by method 2 (dlopen): the program is still being loaded: "), "{said}");
    assert!(said.contains("by method 4 (blob)"), "{said}");
}

/// Many programs, each attached to at once after its exec. LD_DEBUG makes their loaders slow.
#[test]
fn programs_that_were_executed_just_now_are_attached_to_by_dlopen() {
    let folder = tempfile::tempdir().expect("a folder");
    for round in 0..30 {
        let mut command = Command::new(victim("shares.c"));
        command.args(["1", "600"]);
        if round % 3 > 0 {
            command.env("LD_DEBUG", "all").env("LD_BIND_NOW", "1");
        }
        let target = Target::start(&mut command);
        let attached =
            target.attach(&folder.path().join(format!("{round}"))).output().expect("pct can be run");
        let said = String::from_utf8_lossy(&attached.stderr).into_owned();
        assert!(attached.status.success(), "{said}");
        assert!(said.contains("by method 2 (dlopen)"), "round {round}: {said}");
    }
}
