//! Go programs, with and without C: sampled from outside where their runtime takes every signal, from inside where Go
//! is a library, with whole stacks over all changes of stacks.

use pct_kit::harm::{harm, unharmed};
use pct_tests::pct::{Run, folded, run, seconds_in};
use pct_tests::tool_or_skip;
use pct_tests::victims::{Guest, go_victim, go_victim_with_c, victim, victim_with};
use std::path::Path;
use std::process::Command;

/// The program of gospin.go printed its sum.
fn sums(r: &Run) {
    if unharmed(&r.output) != "9e+08\n" {
        harm(&r.stdout());
    }
}

/// Go's runtime installs handlers for every signal after we are in, and dies of one that it does not expect.
#[test]
fn go_programs_are_sampled_from_outside_and_run_on() {
    let test = "go_programs_are_sampled_from_outside_and_run_on";
    let Some(go) = tool_or_skip("go", test) else { return };
    for mode in ["exe", "pie"] {
        let built = go_victim(&go, "gospin.go", &[&format!("-buildmode={mode}")], &format!("gospin-{mode}"));
        let program = built.expect("it builds");
        let program = program.to_str().expect("UTF-8");
        let direct = run(&["--hz", "997"], &[program]);
        sums(&direct);
        assert!(direct.stderr().contains("from outside"), "{mode}: {}", direct.stderr());
        let rows = direct.report(&["--by", "function"]);
        let all: f64 = rows.iter().map(|r| r.cpu_seconds).sum();
        assert!(seconds_in(&rows, "main.sum") > 0.8 * all, "{mode}: {rows:?}");
        let left = run(&["--clock", "perf"], &[program]);
        sums(&left);
        assert!(left.stderr().contains("Go program"), "{mode}: {}", left.stderr());
        let shell = run(&["--hz", "997"], &["sh", "-c", &format!("{program}; exit $?")]);
        sums(&shell);
    }
}

/// Samples whose stack is so.
fn samples(stacks: &str, is_so: impl Fn(&str) -> bool) -> u64 {
    let lines = stacks.lines().filter_map(|line| line.rsplit_once(' ')).filter(|(stack, _)| is_so(stack));
    lines.map(|(_, count)| count.parse::<u64>().expect("a number")).sum()
}

/// Asserts that nearly all stacks are whole. A few instructions of the runtime stand between two states.
fn assert_whole(stacks: &str, what: &str) {
    let cut = samples(stacks, |stack| stack.contains("no unwind data"));
    assert!(cut * 50 <= samples(stacks, |_| true), "{what}: {cut} cut:\n{stacks}");
}

/// The frames of a stack that say how Go and C have called each other.
fn calls(stack: &str) -> Vec<&str> {
    let is_told = |frame: &&str| {
        let known = ["EnterGo", "enter_c", "leaf", "main", "runtime.asmcgocall", "runtime.cgocallback"];
        frame.starts_with("main.") || known.contains(frame) || frame.starts_with('<')
    };
    stack.split(';').filter(is_told).collect()
}

/// Asserts that the stacks of gocalls.go's two busy functions are theirs. `entry`: what calls the first EnterGo.
fn assert_calls(recording: &Path, entry: &[&'static str], what: &str) {
    let (mut path, mut all) = (entry.to_vec(), Vec::new());
    for _ in 0..3 {
        path.push("main.EnterGo");
        all.push([path.as_slice(), &["main.goLeaf"]].concat());
        path.extend(["main._Cfunc_enter_c", "runtime.asmcgocall", "enter_c"]);
        all.push([path.as_slice(), &["leaf"]].concat());
        path.extend(["EnterGo", "runtime.cgocallback"]);
    }
    let stacks = folded(recording);
    let seen: Vec<Vec<&str>> = stacks
        .lines()
        .filter_map(|line| Some(calls(line.rsplit_once(' ')?.0)))
        .filter(|calls| calls.last().is_some_and(|leaf| ["leaf", "main.goLeaf"].contains(leaf)))
        .collect();
    let wrong: Vec<_> = seen.iter().filter(|calls| !all.contains(calls)).collect();
    assert!(wrong.is_empty(), "{what}: {wrong:#?}");
    let missing: Vec<_> = all.iter().filter(|calls| !seen.contains(calls)).collect();
    assert!(missing.is_empty(), "{what}: {missing:#?} not seen in\n{stacks}");
}

#[test]
fn go_programs_with_c_are_sampled_from_the_start_with_whole_stacks() {
    let test = "go_programs_with_c_are_sampled_from_the_start_with_whole_stacks";
    let Some(go) = tool_or_skip("go", test) else { return };
    for (flags, name) in [
        (&["-buildmode=exe"][..], "gocalls-exe"),
        (&["-buildmode=pie"], "gocalls-pie"),
        (&["-ldflags=-s -w -linkmode external"], "gocalls-stripped"),
    ] {
        let program = go_victim_with_c(&go, "gocalls.go", flags, name).expect("it builds");
        let r = run(&["--hz", "997"], &[program.to_str().expect("UTF-8")]);
        assert_eq!(r.unharmed(), "done\n", "{name}");
        assert!(r.stderr().contains("from outside"), "{name}: {}", r.stderr());
        // Of those without names only the Go functions have one.
        if name != "gocalls-stripped" {
            assert_calls(&r.dir, &["main.main"], name);
        }
        assert_whole(&folded(&r.dir), name);
    }
}

#[test]
fn pct_attached_to_a_go_program_with_c_sees_whole_stacks() {
    let test = "pct_attached_to_a_go_program_with_c_sees_whole_stacks";
    let Some(go) = tool_or_skip("go", test) else { return };
    let program = go_victim_with_c(&go, "gocalls.go", &["-buildmode=exe"], "gocalls-exe").expect("it builds");
    let here = tempfile::tempdir().expect("a folder");
    let guest = Guest::start(Command::new(&program).arg("600"));
    guest.attached(here.path(), &["--hz", "997", "--out", "recording"], 0.8);
    assert_calls(&here.path().join("recording"), &["main.main"], "attached");
}

#[test]
fn go_as_a_library_is_sampled_from_inside_with_whole_stacks() {
    let test = "go_as_a_library_is_sampled_from_inside_with_whole_stacks";
    let Some(go) = tool_or_skip("go", test) else { return };
    let library =
        go_victim_with_c(&go, "gocalls.go", &["-buildmode=c-shared"], "libgocalls.so").expect("it builds");
    let (program, library) = (victim("gocalled.c"), library.to_str().expect("UTF-8").to_owned());
    let program = program.to_str().expect("UTF-8");
    for clock in ["perf", "thread"] {
        let r = run(&["--clock", clock], &[program, &library]);
        assert_eq!(r.unharmed(), "done\n", "{clock}");
        assert!(!r.stderr().contains("from outside"), "{clock}: {}", r.stderr());
        assert_calls(&r.dir, &["main", "EnterGo", "runtime.cgocallback"], clock);
    }
}

/// Go's linker leaves its note in these too.
#[test]
fn a_program_linked_with_go_code_is_sampled_from_inside() {
    let test = "a_program_linked_with_go_code_is_sampled_from_inside";
    let Some(go) = tool_or_skip("go", test) else { return };
    let archive = go_victim_with_c(&go, "gocalls.go", &["-buildmode=c-archive"], "libgocalls.a");
    let archive = archive.expect("it builds");
    let folder = archive.parent().expect("a folder").display();
    let command = format!("cc -O2 -pthread -DLINKED -L{folder} -l:libgocalls.a");
    let program = victim_with("gocalled.c", &command, "gocalled-linked").expect("it builds");
    let r = run(&["--clock", "perf"], &[program.to_str().expect("UTF-8")]);
    assert_eq!(r.unharmed(), "done\n");
    assert!(!r.stderr().contains("from outside"), "{}", r.stderr());
    assert_calls(&r.dir, &["main", "EnterGo", "runtime.cgocallback"], "linked");
}

/// Go's scheduler runs on the thread's stack, where nothing that it calls returns: its stacks end there, and none goes
/// on with what an older call has left.
#[test]
fn stacks_of_go_s_scheduler_end_where_it_was_entered() {
    let test = "stacks_of_go_s_scheduler_end_where_it_was_entered";
    let Some(go) = tool_or_skip("go", test) else { return };
    let program = go_victim(&go, "gochannels.go", &[], "gochannels").expect("it builds");
    let r = run(&["--hz", "997"], &[program.to_str().expect("UTF-8")]);
    assert_eq!(r.unharmed(), "done\n");
    let stacks = folded(&r.dir);
    let wrong = samples(&stacks, |stack| {
        [";runtime.mcall;", ";runtime.morestack;"].iter().any(|f| stack.contains(f))
    });
    assert_eq!(wrong, 0, "{stacks}");
    assert!(samples(&stacks, |stack| stack.starts_with("runtime.mcall;")) > 0, "{stacks}");
    assert_whole(&stacks, "channels");
}
