//! `pct run` as scripts see it: streams, statuses, environment, folders, and what it says of programs that it
//! cannot profile. Real programs, no clock is asserted.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use pct_kit::harm::{ended_with, harm, unharmed};
use pct_kit::wait::wait_for;

const PCT: &str = env!("CARGO_BIN_EXE_pct");

fn pct(dir: &Path, words: &[&str]) -> Output {
    let mut command = Command::new(PCT);
    command.args(words).current_dir(dir).env_remove("PCT").env_remove("LD_PRELOAD");
    command.stdin(Stdio::null()).output().expect("pct starts")
}
fn out(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}
fn err(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}
fn dir() -> tempfile::TempDir {
    tempfile::tempdir().expect("a folder")
}
/// Checks that the program ended with success after these words.
#[track_caller]
fn said(output: &Output, words: &str) {
    if unharmed(output) != words {
        harm(&format!("it said {:?} instead of {words:?}", out(output)));
    }
}
/// Checks how the program ended whose run this was: with this status, as without us.
#[track_caller]
fn ended(output: &Output, status: i32, what: &str) {
    ended_with(output.status, status, &format!("{what}: {}", err(output)));
}
/// A shell loop that takes some tenths of a CPU second.
const BUSY: &str = "i=0; while [ $i -lt 150000 ]; do i=$((i+1)); done";

#[test]
fn the_status_is_the_programs_own() {
    let d = dir();
    for (command, status) in [
        (&["sh", "-c", "exit 0"][..], 0),
        (&["sh", "-c", "exit 3"], 3),
        (&["sh", "-c", "exit 255"], 255),
        (&["no-such-command-here"], 127),
        (&["./no/such/file"], 127),
        (&["/etc/passwd"], 126),
        (&["/"], 126),
    ] {
        let words: Vec<&str> = ["run", "--no-report", "--"].iter().chain(command).copied().collect();
        ended(&pct(d.path(), &words), status, &format!("{command:?}"));
    }
    assert_eq!(pct(d.path(), &["run", "--hz", "none", "true"]).status.code(), Some(125));
}

#[test]
fn killed_by_a_signal_pct_ends_by_the_same() {
    use std::os::unix::process::ExitStatusExt as _;
    let d = dir();
    // 40: a real-time signal
    for signal in [9, 15, 6, 2, 40] {
        let script = format!("kill -{signal} $$");
        let output = pct(d.path(), &["run", "--no-report", "--", "sh", "-c", &script]);
        if output.status.signal() != Some(signal) {
            harm(&format!("{} instead of signal {signal}: {}", output.status, err(&output)));
        }
    }
}

#[test]
fn stdout_and_stdin_are_the_programs_alone() {
    let d = dir();
    let script = format!("{BUSY}; echo out; echo err >&2");
    let output = pct(d.path(), &["run", "-o", "r", "--", "sh", "-c", &script]);
    said(&output, "out\n");
    let told = err(&output);
    assert!(told.starts_with("err\n"), "{told}");
    assert!(told.contains("CPU s in 1 process"), "{told}");
    assert!(told.contains("accounted "), "{told}");
    assert!(d.path().join("r/run.json").exists());
    let report = pct(d.path(), &["report", "--format", "csv", "r"]);
    assert!(out(&report).starts_with("samples,cpu_seconds,share,pid,process,tid,object,function\n"));
    assert!(out(&report).lines().count() > 1);
}

#[test]
fn the_folder_is_named_by_program_and_pid_and_report_finds_it() {
    let d = dir();
    let script = format!("{BUSY}; echo $$");
    let output = pct(d.path(), &["run", "--no-report", "--", "sh", "-c", &script]);
    let folder = format!("pct-sh-{}", out(&output).trim());
    assert!(d.path().join(&folder).is_dir(), "{folder}: {}", err(&output));
    assert_eq!(err(&output), "");
    let report = pct(d.path(), &["report"]);
    assert!(err(&report).contains(&folder), "{}", err(&report));
}

#[test]
fn a_folder_may_be_called_like_a_file_of_samples() {
    let d = dir();
    let output = pct(d.path(), &["run", "-o", "x.pct", "--", "sh", "-c", BUSY]);
    ended(&output, 0, "sh");
    assert!(err(&output).contains(" samples at "), "{}", err(&output));
    let files = std::fs::read_dir(d.path()).expect("there").count();
    assert_eq!(files, 1, "beside it there is nothing");
}

#[test]
fn nothing_is_left_of_a_run_without_samples() {
    let d = dir();
    let output = pct(d.path(), &["run", "--", "/no/such/program"]);
    assert_eq!(output.status.code(), Some(127));
    assert_eq!(std::fs::read_dir(d.path()).expect("read").count(), 0);
}

#[test]
fn a_run_with_alloc_ends_with_memory_and_the_way_to_more() {
    let d = dir();
    let words = ["run", "--alloc=64K", "-o", "r", "--", "sh", "-c", BUSY];
    let with = err(&pct(d.path(), &words));
    assert!(with.contains("\nmemory: ") && with.contains("; one sample per 64 KiB\n"), "{with}");
    assert!(with.contains("r/   try: pct report --alloc r   or: "), "{with}");
    let without = err(&pct(d.path(), &["run", "-o", "s", "--", "sh", "-c", BUSY]));
    assert!(!without.contains("memory: ") && !without.contains("--alloc"), "{without}");
}

#[test]
fn the_report_can_go_to_a_file() {
    let d = dir();
    let output = pct(d.path(), &["run", "-o", "r", "--report", "table.txt", "--", "sh", "-c", BUSY]);
    assert_eq!(err(&output), "");
    let table = std::fs::read_to_string(d.path().join("table.txt")).expect("written");
    assert!(table.contains("function"), "{table}");
}

#[test]
fn what_was_preloaded_stays_and_the_environment_is_whole() {
    let d = dir();
    let output = Command::new(PCT)
        .args(["run", "--no-report", "-o", "r", "--", "sh", "-c", r#"echo "$LD_PRELOAD"; echo "$ODD""#])
        .current_dir(d.path())
        .env("LD_PRELOAD", "/no/such.so")
        .env("ODD", "a=b\nc")
        .output()
        .expect("pct starts");
    let text = out(&output);
    let mut lines = text.lines();
    let preload = lines.next().expect("a line");
    assert!(preload.contains("libpct-") && preload.ends_with(":/no/such.so"), "{preload}");
    assert_eq!(lines.next(), Some("a=b"));
}

#[test]
fn an_unwritable_place_is_said_and_the_program_runs() {
    let d = dir();
    let output = pct(d.path(), &["run", "-o", "/proc/no/such", "--", "echo", "ran"]);
    said(&output, "ran\n");
    assert!(err(&output).contains("unprofiled"), "{}", err(&output));
    let output = pct(d.path(), &["run", "-o", "a,b", "--", "echo", "ran"]);
    said(&output, "ran\n");
    assert!(err(&output).contains("comma"), "{}", err(&output));
}

#[test]
fn a_static_program_that_ends_at_once_is_as_without_us() {
    let d = dir();
    std::fs::write(d.path().join("s.c"), "int main(void) { return 7; }\n").expect("written");
    let built = Command::new("cc").args(["-static", "-o", "s", "s.c"]).current_dir(d.path()).output();
    if !built.is_ok_and(|built| built.status.success()) {
        pct_kit::skip("cc cannot link statically here");
        return;
    }
    let output = pct(d.path(), &["run", "--", "./s"]);
    ended(&output, 7, "static");
    let said = err(&output);
    // whether a sample falls into its short life is chance
    assert!(said.contains("sample") && !said.contains("unprofiled"), "{said}");
}

#[test]
fn a_static_program_is_sampled_from_its_start() {
    let d = dir();
    let source = "#include <time.h>\nint main(void) { while (clock() < CLOCKS_PER_SEC / 5) for (volatile int i = 0; i < 3000000; i++); }\n";
    std::fs::write(d.path().join("s.c"), source).expect("written");
    let built = Command::new("cc").args(["-static", "-o", "s", "s.c"]).current_dir(d.path()).output();
    if !built.is_ok_and(|built| built.status.success()) {
        pct_kit::skip("cc cannot link statically here");
        return;
    }
    let output = pct(d.path(), &["run", "--hz", "1000", "--no-report", "-o", "r", "--", "./s"]);
    unharmed(&output);
    let file = std::fs::read_dir(d.path().join("r")).expect("made").map(|e| e.expect("an entry").path());
    let file = file.into_iter().find(|path| path.extension().is_some_and(|e| e == "pct")).expect("sampled");
    let log = out(&pct(d.path(), &["log", file.to_str().expect("UTF-8")]));
    // It only counts, so that its first 20 ms were booked as the kernel's (as two samples) before the first
    // one of its own.
    let first: Vec<&str> = log.lines().take(2).map(|l| l.split(' ').nth(2).unwrap_or_default()).collect();
    assert!(first.contains(&"u"), "{log:.300}");
    // Its waits cannot be recorded, so nobody is told to ask for them.
    unharmed(&pct(d.path(), &["run", "--wait", "--no-report", "-o", "w", "--", "./s"]));
    let told = err(&pct(d.path(), &["report", "--wait", "w"]));
    assert!(told.contains("did not") && !told.contains("record them by"), "{told}");
}

#[test]
fn after_a_rebuild_annotate_says_why_the_function_is_not_there() {
    let d = dir();
    let source = "#include <time.h>\nvoid hot(void) { while (clock() < CLOCKS_PER_SEC / 5) for (volatile int i = 0; i < 3000000; i++); }\n\
                  int main(void) { hot(); }\n";
    std::fs::write(d.path().join("s.c"), source).expect("written");
    let build = |level: &str| {
        let built = Command::new("cc").args([level, "-o", "s", "s.c"]).current_dir(d.path()).output();
        built.is_ok_and(|built| built.status.success())
    };
    if !build("-O0") {
        pct_kit::skip("no C compiler");
        return;
    }
    unharmed(&pct(d.path(), &["run", "--no-report", "-o", "r", "--", "./s"]));
    assert!(build("-O3"));
    for command in [["annotate", "hot", "r"].as_slice(), &["report", "--callers", "hot", "r"]] {
        let told = err(&pct(d.path(), command));
        assert!(told.contains("no function \"hot\"") && told.contains("replaced or rebuilt"), "{told}");
        assert!(told.contains("--keep-symbols"), "{told}");
    }
}

#[test]
fn an_archive_keeps_the_report_the_same() {
    let d = dir();
    let output = pct(d.path(), &["run", "-o", "r", "--keep-symbols", "--no-report", "--", "sh", "-c", BUSY]);
    unharmed(&output);
    let before = out(&pct(d.path(), &["report", "--format", "csv", "r"]));
    assert!(before.lines().count() > 1);
    std::fs::rename(d.path().join("r"), d.path().join("moved")).expect("moved");
    assert_eq!(out(&pct(d.path(), &["report", "--format", "csv", "moved"])), before);
}

/// `pct run` under what a shell sets up first, with a program that ends with 3.
fn status_after(dir: &Path, setup: &str) -> Output {
    let script = format!(r#"{setup}; exec "$0" run -- sh -c '{BUSY}; exit 3'"#);
    let mut command = Command::new("sh");
    command.args(["-c", &script, PCT]).current_dir(dir).env_remove("PCT").env_remove("LD_PRELOAD");
    command.stdin(Stdio::null()).output().expect("a shell starts")
}

#[test]
fn limits_that_are_meant_for_the_program_do_not_cost_its_status() {
    let d = dir();
    for limit in ["-f 0", "-f 1", "-s 64", "-s 256", "-n 4", "-n 5", "-n 8", "-t 5"] {
        let output = status_after(d.path(), &format!("ulimit {limit}"));
        ended(&output, 3, limit);
    }
    for kilobytes in (12_000..=40_000).step_by(2000) {
        let limit = format!("ulimit -v {kilobytes}");
        let script = format!(r#"{limit}; exec "$0" --version"#);
        // where pct itself cannot start, nothing can be said
        if Command::new("sh").args(["-c", &script, PCT]).output().is_ok_and(|o| o.status.success()) {
            let output = status_after(d.path(), &limit);
            ended(&output, 3, &limit);
            assert!(!err(&output).contains("RUST_BACKTRACE"), "{limit}: {}", err(&output));
        }
    }
}

#[test]
fn what_cannot_be_said_under_a_file_size_limit_ends_nobody() {
    let d = dir();
    // The program is too short for a sample, which its library notes; both notes and messages go to files here.
    let script = r#"ulimit -f 0; exec "$0" run -- sh -c 'exit 3' 2> said"#;
    let output = Command::new("sh").args(["-c", script, PCT]).current_dir(d.path()).output().expect("starts");
    ended(&output, 3, "ulimit -f 0");
}

#[test]
fn in_a_removed_folder_the_program_runs() {
    let d = dir();
    let output = status_after(d.path(), "mkdir gone; cd gone; rmdir ../gone");
    ended(&output, 3, "in a removed folder");
    assert!(err(&output).contains("folder was removed"), "{}", err(&output));
    let output = status_after(d.path(), "mkdir gone; cd gone; rmdir ../gone; set -- -o x");
    ended(&output, 3, "in a removed folder");
}

#[test]
fn closed_standard_descriptors_stay_closed() {
    let d = dir();
    let probe = "s=; for f in 0 1 2; do [ -e /proc/$$/fd/$f ] && s=$s$f; done; echo $s > which";
    for (closed, open) in [("<&-", "12"), (">&-", "02"), ("2>&-", "01"), ("<&- >&- 2>&-", ""), ("", "012")] {
        let script = format!(r#"exec "$0" run --no-report -o r -- sh -c '{probe}' {closed}"#);
        let output = Command::new("sh").args(["-c", &script, PCT]).current_dir(d.path()).output();
        ended(&output.expect("a shell starts"), 0, closed);
        let which = std::fs::read_to_string(d.path().join("which")).expect("written");
        if which.trim_end() != open {
            harm(&format!("{closed}: open are {which:?} instead of {open:?}"));
        }
    }
}

/// The child of a process that is there after the child `before` was waited for.
fn child_after(parent: u32, before: &str) -> i32 {
    wait_for("a child", || {
        let children = std::fs::read_to_string(format!("/proc/{parent}/task/{parent}/children"));
        let children = children.expect("pct lives until its report ends");
        let mut children = children.split_whitespace();
        let child = children.clone().next().filter(|_| children.all(|child| child != before))?;
        Some(child.parse().expect("a number"))
    })
}

#[test]
fn whatever_ends_the_report_the_status_is_the_programs() {
    use nix::sys::signal::{Signal, kill};
    use nix::unistd::Pid;
    use std::io::BufRead as _;
    // A report into a pipe that nobody reads does not end by itself.
    for (signal, to_pct) in [(Signal::SIGKILL, false), (Signal::SIGABRT, false), (Signal::SIGTERM, true)] {
        let d = dir();
        nix::unistd::mkfifo(&d.path().join("table"), nix::sys::stat::Mode::S_IRWXU).expect("made");
        let script = format!("echo $$; {BUSY}; exit 3");
        let mut running = Command::new(PCT)
            .args(["run", "-o", "r", "--report", "table", "--", "sh", "-c", &script])
            .current_dir(d.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("pct starts");
        let mut program = String::new();
        let mut stdout = std::io::BufReader::new(running.stdout.take().expect("a pipe"));
        stdout.read_line(&mut program).expect("its number");
        let report = child_after(running.id(), program.trim_end());
        let target = if to_pct { i32::try_from(running.id()).expect("a pid") } else { report };
        kill(Pid::from_raw(target), signal).expect("sent");
        let output = running.wait_with_output().expect("ended");
        ended(&output, 3, signal.as_str());
        let said = err(&output);
        assert!(said.contains(&format!("ended by {signal}")) && said.lines().count() == 1, "{said}");
    }
}

#[test]
fn a_program_that_becomes_another_user_is_sampled() {
    let d = dir();
    // 0700: the user that the program becomes cannot come to the run's folder, nor to anything beside it
    let command = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", "sh", "-c", BUSY];
    let bare = Command::new(command[0]).args(&command[1..]).output();
    if !bare.is_ok_and(|output| output.status.success()) {
        pct_kit::skip("setpriv is not there, or this is not root");
        return;
    }
    let words: Vec<&str> =
        ["run", "--hz", "1000", "--no-report", "-o", "r", "--"].iter().chain(&command).copied().collect();
    let output = pct(d.path(), &words);
    unharmed(&output);
    assert_eq!(err(&output), "");
    let rows = out(&pct(d.path(), &["report", "--format", "csv", "--by", "process", "r"]));
    let samples = |row: &str| row.split(',').next().and_then(|n| n.parse::<u64>().ok());
    let shell = rows.lines().skip(1).find(|row| row.contains("sh,,")).and_then(samples);
    assert!(shell.is_some_and(|samples| samples > 20), "{rows}");
    let owners = std::fs::read_dir(d.path().join("r")).expect("read").map(|entry| {
        std::os::unix::fs::MetadataExt::uid(&entry.expect("an entry").metadata().expect("there"))
    });
    assert!(owners.into_iter().all(|owner| owner == nix::unistd::geteuid().as_raw()), "all is the caller's");
}

#[test]
fn answers_go_where_they_were_sent_or_are_an_error() {
    let d = dir();
    let recorded = pct(d.path(), &["run", "--no-report", "-o", "r", "--", "sh", "-c", BUSY]);
    unharmed(&recorded);
    let page = out(&pct(d.path(), &["report", "--html", "-", "r"]));
    assert!(page.trim_start().starts_with("<!") && !d.path().join("-").exists(), "{page:.100}");
    for command in ["report r", "report --html - r", "export -f folded -o - r", "print r", "--version"] {
        let script = format!(r#"exec "$0" {command} >&-"#);
        let output =
            Command::new("sh").args(["-c", &script, PCT]).current_dir(d.path()).output().expect("starts");
        assert_eq!(
            (output.status.code(), err(&output).as_str()),
            (Some(1), "pct: stdout is closed\n"),
            "{command}"
        );
    }
    // Tables of rows within rows have any list, but no level twice; trees have one of each.
    for keys in ["function,object", "thread,process", "process,thread,function,line"] {
        let output = pct(d.path(), &["report", "--by", keys, "r"]);
        assert_eq!(output.status.code(), Some(0), "{keys}: {}", err(&output));
        let output = pct(d.path(), &["report", "--tree", "--by", keys, "r"]);
        assert_eq!(output.status.code(), Some(2), "{keys}");
        assert!(
            err(&output).contains("a tree has one of owner, library, leaf, function, line, pc, object"),
            "{}",
            err(&output)
        );
    }
    let output = pct(d.path(), &["report", "--by", "thread,function,thread", "r"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(err(&output).contains("thread is there twice"), "{}", err(&output));
}

#[test]
fn a_format_that_is_no_text_does_not_go_to_a_terminal() {
    let d = dir();
    let recorded = pct(d.path(), &["run", "--no-report", "-o", "r", "--", "sh", "-c", BUSY]);
    unharmed(&recorded);
    // script(1) gives its command a terminal
    for (format, status) in [("pprof", 2), ("folded", 0)] {
        let command = format!("{PCT} export -f {format} -o - r");
        let output =
            Command::new("script").args(["-qec", &command, "/dev/null"]).current_dir(d.path()).output();
        let Ok(output) = output else {
            pct_kit::skip("script(1) is not installed");
            return;
        };
        assert_eq!(output.status.code(), Some(status), "{format}: {:.200}", out(&output));
        assert_eq!(out(&output).contains("no text for a terminal"), status == 2, "{:.200}", out(&output));
    }
}

#[test]
fn what_debuggers_and_emulators_run_is_left_alone() {
    let d = dir();
    // what gdb does on the way is its own: only the program's environment and the status count
    std::fs::write(d.path().join("gdb"), "#!/bin/sh\n\"$@\"\n").expect("written");
    std::fs::set_permissions(d.path().join("gdb"), std::os::unix::fs::PermissionsExt::from_mode(0o755))
        .expect("set");
    let probe = r#"echo "${LD_PRELOAD-none} ${PCT-none}"; exit 3"#;
    let output = pct(d.path(), &["run", "--", "./gdb", "sh", "-c", probe]);
    ended(&output, 3, "under a debugger");
    assert_eq!(out(&output), "none none\n");
    assert!(err(&output).contains("unprofiled") && err(&output).lines().count() == 1, "{}", err(&output));
}

/// Continuous sampling begins a new file now and then; to the reports it is one process with its threads.
#[test]
fn the_files_of_a_continuous_run_are_one_process() {
    let d = dir();
    let script = format!("for round in 1 2 3 4 5 6 7 8; do {BUSY}; done");
    let words =
        ["run", "--continuous", "--rotate", "50ms", "--hz", "997", "-o", "r", "--", "sh", "-c", &script];
    let output = pct(d.path(), &words);
    assert!(output.status.success(), "{}", err(&output));
    let files = std::fs::read_dir(d.path().join("r")).expect("there").count();
    assert!(files >= 3, "{files} files");
    let report = out(&pct(d.path(), &["report", "r"]));
    assert!(report.contains(" in 1 process, 1 thread ("), "{files} files: {report}");
}
