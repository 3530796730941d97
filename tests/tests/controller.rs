//! Programs that are sampled from outside, or that the sampler is put into at their entry: whatever ends the
//! process that does it, the program goes on, and its status is passed on.

use pct_tests::pct::binary;
use pct_tests::victims::{victim, victim_with};
use pct_tests::{skip, tool_or_skip};
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// The children of a process.
fn children_of(pid: u32) -> Vec<i32> {
    let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    children.split_whitespace().filter_map(|child| child.parse().ok()).collect()
}

/// The process beside the program that samples it; it names itself.
fn controller_of(pct: u32) -> Option<i32> {
    let name = |pid: &i32| std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    children_of(pct).into_iter().find(|child| name(child).trim_end() == "pct-controller")
}

fn start(folder: &Path, options: &[&str], program: &[&str]) -> Child {
    let mut command = Command::new(binary());
    command.args(["run", "--no-report", "-o"]).arg(folder.join("r")).args(options).arg("--").args(program);
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("pct starts")
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

/// The program is sampled for a while; then its controller ends, and the program goes on to its own end with status 5.
fn survives(options: &[&str], program: &[&str], blow: Blow) {
    let folder = tempfile::tempdir().expect("a folder");
    let mut pct = start(folder.path(), options, program);
    let mut stdout = BufReader::new(pct.stdout.take().expect("a pipe"));
    let mut first = String::new();
    stdout.read_line(&mut first).expect("text");
    let controller = controller_of(pct.id()).expect("a controller");
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
    while !recorded() {
        std::thread::yield_now();
    }
    blow.strike(controller);
    let mut said = String::new();
    stdout.read_to_string(&mut said).expect("text");
    let output = pct.wait_with_output().expect("ended");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(5), "{blow:?} {options:?}: {said}{stderr}");
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

fn static_waits(test: &str) -> Option<PathBuf> {
    victim_with("waits.c", "cc -O2 -g -pthread -static", "waits-static").map_err(|why| skip(test, &why)).ok()
}

#[test]
fn the_wall_clocks_controller_may_end_at_any_time() {
    let waits = victim("waits.c");
    for blow in [Blow::Kill, Blow::Abort, Blow::Memory] {
        survives(&["--clock", "wall"], &[waits.to_str().expect("a path"), "1.5"], blow);
    }
}

#[test]
fn the_controller_of_a_static_program_may_end_at_any_time() {
    let test = "the_controller_of_a_static_program_may_end_at_any_time";
    let Some(waits) = static_waits(test) else { return };
    for blow in [Blow::Kill, Blow::Abort, Blow::Memory] {
        survives(&["--clock", "wall"], &[waits.to_str().expect("a path"), "1.5"], blow);
    }
    // At its entry the controller has it for some milliseconds: it is struck after ever longer times of them.
    for round in 0..12_u32 {
        let folder = tempfile::tempdir().expect("a folder");
        let mut pct = start(folder.path(), &[], &[waits.to_str().expect("a path"), "0.2"]);
        let controller = loop {
            if let Some(found) = controller_of(pct.id()) {
                break Some(found);
            }
            if pct.try_wait().expect("a child").is_some() {
                break None;
            }
        };
        for _ in 0..round * 20_000 {
            std::hint::black_box(round);
        }
        if let Some(controller) = controller {
            // it may have ended by now
            let _ =
                Command::new("kill").args(["-KILL", &controller.to_string()]).stderr(Stdio::null()).status();
        }
        let output = pct.wait_with_output().expect("ended");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(5), "{stderr}");
    }
}

#[test]
fn the_controller_of_a_go_program_may_end_at_any_time() {
    let Some(go) = tool_or_skip("go", "the_controller_of_a_go_program_may_end_at_any_time") else { return };
    let kept = pct_tests::root().join("target/victims");
    std::fs::create_dir_all(&kept).expect("a folder");
    let source = kept.join("status5.go");
    let text = "package main\nimport (\"fmt\"; \"os\"; \"time\")\nfunc main() {\n\tfmt.Println(\"started\")\n\tx := 1.0\n\
                \tfor end := time.Now().Add(1500 * time.Millisecond); time.Now().Before(end); {\n\
                \t\tfor i := 0; i < 1000; i++ { x = x*1.0000001 + 1 }\n\t}\n\tif x > 0 { os.Exit(5) }\n}\n";
    std::fs::write(&source, text).expect("written");
    let program = kept.join("status5-go");
    let mut build = Command::new(go);
    build.env("CGO_ENABLED", "0").env("GOCACHE", kept.join("go-cache")).env("GO111MODULE", "off");
    let built = build.args(["build", "-o"]).arg(&program).arg(&source).output().expect("go can be run");
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    for blow in [Blow::Kill, Blow::Abort, Blow::Memory] {
        survives(&[], &[program.to_str().expect("a path")], blow);
    }
}
