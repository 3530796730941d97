//! Programs that are sampled from outside, or that the sampler is put into at their entry: whatever ends the
//! process that does it, the program goes on, and its status is passed on.

use pct_kit::harm::{ended_with, harm};
use pct_kit::wait::{DEADLINE, wait_until};
use pct_tests::pct::binary;
use pct_tests::victims::{Guest, children_of, go_victim, is_gone, signal, victim, victim_with, works};
use pct_tests::{skip, tool_or_skip};
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

/// The process beside the program that samples it; it names itself.
fn controller_of(pct: &Guest) -> Option<i32> {
    children_of(pct.pid().unsigned_abs()).into_iter().find(|child| is_controller(*child))
}

fn is_controller(pid: i32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default().trim_end() == "pct-controller"
}

/// The program that pct has started.
fn program_of(pct: &Guest) -> i32 {
    let program = children_of(pct.pid().unsigned_abs()).into_iter().find(|child| !is_controller(*child));
    program.unwrap_or_else(|| harm("the program has ended"))
}

fn start(folder: &Path, options: &[&str], program: &[&str]) -> Guest {
    let mut command = Command::new(binary());
    command.args(["run", "--no-report", "-o"]).arg(folder.join("r")).args(options).arg("--").args(program);
    Guest::start(command.stderr(Stdio::piped()))
}

/// Ways to end a process that is sampling.
#[derive(Clone, Copy, Debug)]
enum Blow {
    Kill,
    Abort,
    /// It can have no more memory.
    Memory,
}

impl Blow {
    fn strike(self, pid: i32) {
        let pid = pid.to_string();
        let (tool, words) = match self {
            Blow::Kill => ("kill", ["-KILL", &pid]),
            Blow::Abort => ("kill", ["-ABRT", &pid]),
            Blow::Memory => ("prlimit", ["--as=4096", "--pid"]),
        };
        let mut command = Command::new(tool);
        command.args(words);
        if matches!(self, Blow::Memory) {
            command.arg(&pid);
        }
        assert!(command.status().expect("the tool is there").success(), "{self:?} of {pid}");
    }
}

/// The program is sampled for a while; then its controller ends, and the program goes on until SIGTERM, to its own end
/// with status 5.
fn survives(options: &[&str], program: &[&str], blow: Blow) {
    let folder = tempfile::tempdir().expect("a folder");
    let mut pct = start(folder.path(), options, program);
    pct.hear("started");
    let program = program_of(&pct);
    let controller = controller_of(&pct).expect("a controller");
    let recorded = || {
        let files = std::fs::read_dir(folder.path().join("r")).into_iter().flatten().flatten();
        // The magic number is written last: a file without it was struck while it was being made.
        let has_header = |path: &Path| {
            let mut magic = [0; 8];
            std::fs::File::open(path).and_then(|mut file| file.read_exact(&mut magic)).is_ok()
                && magic != [0; 8]
        };
        files.into_iter().any(|f| f.path().extension().is_some_and(|e| e == "pct") && has_header(&f.path()))
    };
    wait_until("a recording", recorded);
    blow.strike(controller);
    if !matches!(blow, Blow::Memory) {
        wait_until("the controller's end", || is_gone(controller));
    }
    works(program, 0.2);
    signal(program, "TERM");
    let output = pct.wait();
    let stderr = String::from_utf8_lossy(&output.stderr);
    let said = String::from_utf8_lossy(&output.stdout);
    ended_with(output.status, 5, &format!("{blow:?} {options:?}: {said}{stderr}"));
    let about: Vec<&str> = stderr.lines().filter(|line| line.contains("did not come to its end")).collect();
    match blow {
        Blow::Kill => assert!(stderr.contains("ended by SIGKILL"), "{stderr}"),
        Blow::Abort => assert!(stderr.contains("ended by SIGABRT"), "{stderr}"),
        // where it needs no more memory until the program's end it does its work
        Blow::Memory => return,
    }
    assert_eq!(about.len(), 1, "one line says what was lost: {stderr}");
    let report =
        Command::new(binary()).args(["report", "--by", "thread"]).arg(folder.path().join("r")).output();
    let report = report.expect("pct can be run");
    assert!(
        report.status.success(),
        "what was recorded can be read: {}",
        String::from_utf8_lossy(&report.stderr)
    );
}

/// The controller as soon as there is one; `None` when pct ended before. (It looks without a pause, to be there early.)
fn soon_controller_of(pct: &mut Guest) -> Option<i32> {
    let start = Instant::now();
    while start.elapsed() < DEADLINE {
        let found = controller_of(pct);
        if found.is_some() || pct.ended().is_some() {
            return found;
        }
    }
    panic!("waited a minute for the controller")
}

fn static_waits(test: &str) -> Option<PathBuf> {
    victim_with("waits.c", "cc -O2 -g -pthread -static", "waits-static").map_err(|why| skip(test, &why)).ok()
}

#[test]
fn the_wall_clocks_controller_may_end_at_any_time() {
    let waits = victim("waits.c");
    for blow in [Blow::Kill, Blow::Abort, Blow::Memory] {
        survives(&["--clock", "wall"], &[waits.to_str().expect("a path"), "600"], blow);
    }
}

#[test]
fn the_controller_of_a_static_program_may_end_at_any_time() {
    let test = "the_controller_of_a_static_program_may_end_at_any_time";
    let Some(waits) = static_waits(test) else { return };
    for blow in [Blow::Kill, Blow::Abort, Blow::Memory] {
        survives(&["--clock", "wall"], &[waits.to_str().expect("a path"), "600"], blow);
    }
    // At its entry the controller has it for some milliseconds: it is struck after ever longer times of them.
    for round in 0..12_u32 {
        let folder = tempfile::tempdir().expect("a folder");
        let mut pct = start(folder.path(), &[], &[waits.to_str().expect("a path"), "0.2"]);
        let controller = soon_controller_of(&mut pct);
        for _ in 0..round * 20_000 {
            std::hint::black_box(round);
        }
        if let Some(controller) = controller {
            // it may have ended by now
            let _ =
                Command::new("kill").args(["-KILL", &controller.to_string()]).stderr(Stdio::null()).status();
        }
        let output = pct.wait();
        ended_with(output.status, 5, &String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn the_controller_of_a_go_program_may_end_at_any_time() {
    let Some(go) = tool_or_skip("go", "the_controller_of_a_go_program_may_end_at_any_time") else { return };
    let program = go_victim(&go, "busy.go", &[], "busy-go").expect("it builds");
    for blow in [Blow::Kill, Blow::Abort, Blow::Memory] {
        survives(&[], &[program.to_str().expect("a path")], blow);
    }
}
