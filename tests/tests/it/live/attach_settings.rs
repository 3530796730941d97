//! `pct attach` to a program that limits itself afterwards, by a filter on system calls or a similar setting, under
//! which pct's signal handlers would kill it. The loader has bound the program's calls to the C library before pct is
//! there, so pct must lead them to its own functions.

use pct_kit::harm::ended_with;
use pct_kit::wait::wait_until;
use pct_tests::pct::{binary, report};
use pct_tests::skip;
use pct_tests::victims::{Guest, victim, victim_with, works};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Runs `pct` with these arguments.
fn pct(folder: &Path, arguments: &[&str]) {
    let mut command = Command::new(binary());
    command.args(arguments).current_dir(folder).stderr(Stdio::piped());
    let output = Guest::start(&mut command).wait();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {said}");
}

/// Attaches to `latesetting MODE` by a method, with `again` a second time, and has it make the setting. The functions
/// with samples in the last recording.
fn sampled(method: &str, mode: &[&str], again: bool) -> Vec<String> {
    let folder = tempfile::tempdir().expect("a folder");
    let mut target = Guest::started(Command::new(victim("latesetting.c")).args(mode), "ready");
    let attach = |options: &[&str]| pct(folder.path(), &[&["attach", &target.id()], options].concat());
    attach(&["--method", method, "-o", "recording"]);
    if again {
        pct(folder.path(), &["off", &target.id()]);
        attach(&["-o", "recording2"]);
    }
    works(target.pid(), 0.1);
    target.tell("\n");
    let output = target.wait();
    ended_with(output.status, 5, &format!("{mode:?} after an attach by method {method}"));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "done\n");
    let recording = folder.path().join(if again { "recording2" } else { "recording" });
    report(&recording, &[]).into_iter().map(|row| row.function).collect()
}

fn has(functions: &[String], wanted: &[&str]) -> bool {
    wanted.iter().all(|wanted| functions.iter().any(|function| function == wanted))
}

/// Whether this machine's programs are not of the kind in which calls are redirected.
fn is_foreign(test: &str) -> bool {
    let is_foreign = cfg!(not(target_arch = "x86_64"));
    if is_foreign {
        skip(test, "only programs for x86-64 have their calls redirected");
    }
    is_foreign
}

#[test]
fn a_filter_that_comes_after_pct_is_survived_and_sampled_under() {
    if is_foreign("a_filter_that_comes_after_pct_is_survived_and_sampled_under") {
        return;
    }
    let plugin = victim_with("latesetting.c", "cc -O2 -shared -fPIC -DPLUGIN", "latesetting.so");
    let plugin = plugin.expect("a plug-in");
    let plugin = plugin.to_str().expect("a path");
    for method in ["2", "4"] {
        for mode in [&["prctl"][..], &["syscall"], &["plugin", plugin]] {
            let functions = sampled(method, mode, false);
            assert!(has(&functions, &["open_", "limited_"]), "method {method}, {mode:?}: {functions:?}");
        }
    }
}

#[test]
fn sampling_ends_before_a_late_setting_that_no_handler_survives() {
    if is_foreign("sampling_ends_before_a_late_setting_that_no_handler_survives") {
        return;
    }
    for method in ["2", "4"] {
        for mode in ["strict", "dispatch", "counter"] {
            let functions = sampled(method, &[mode], false);
            assert!(has(&functions, &["open_"]), "method {method}, {mode}: {functions:?}");
        }
    }
}

/// Nothing stands in front of a static program's calls.
#[test]
fn a_static_program_that_may_set_a_filter_is_sampled_from_outside() {
    let name = "a_static_program_that_may_set_a_filter_is_sampled_from_outside";
    if is_foreign(name) {
        return;
    }
    let program = match victim_with("latesetting.c", "cc -O2 -static", "latesetting_static") {
        Ok(program) => program,
        Err(why) => return skip(name, &format!("no static programs can be built here: {why}")),
    };
    let folder = tempfile::tempdir().expect("a folder");
    for mode in ["prctl", "syscall", "strict", "dispatch", "counter"] {
        let mut target = Guest::started(Command::new(&program).arg(mode), "ready");
        let mut attach = Command::new(binary());
        attach.args(["attach", "-o", mode, &target.id()]).current_dir(folder.path()).stderr(Stdio::piped());
        let mut attach = Guest::start(&mut attach);
        wait_until("pct to attach", || {
            attach.ended().is_some() || attach.complained().contains("stay outside")
        });
        works(target.pid(), 0.1);
        target.tell("\n");
        ended_with(target.wait().status, 5, &format!("{mode} after an attach: {}", attach.complained()));
        assert!(attach.wait().status.success());
        let mut run = Command::new(binary());
        run.args(["run", "-o", &format!("{mode}-run"), "--"]).arg(&program).arg(mode);
        let mut run = Guest::started(run.current_dir(folder.path()).stderr(Stdio::piped()), "ready");
        std::thread::sleep(Duration::from_millis(100));
        run.tell("\n");
        let output = run.wait();
        ended_with(
            output.status,
            5,
            &format!("{mode} under pct run: {}", String::from_utf8_lossy(&output.stderr)),
        );
        for recording in [mode.to_owned(), format!("{mode}-run")] {
            let rows = report(&folder.path().join(&recording), &[]);
            let functions: Vec<String> = rows.into_iter().map(|row| row.function).collect();
            assert!(has(&functions, &["open_", "limited_"]), "{recording}: {functions:?}");
        }
    }
}

#[test]
fn a_filter_that_comes_after_a_second_attach_is_survived() {
    if is_foreign("a_filter_that_comes_after_a_second_attach_is_survived") {
        return;
    }
    for method in ["2", "4"] {
        let functions = sampled(method, &["prctl"], true);
        assert!(has(&functions, &["open_", "limited_"]), "method {method}: {functions:?}");
    }
}

/// Its calls are redirected while the library is there, and then no more.
#[test]
fn a_program_that_loads_the_library_itself_may_unload_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let library = Command::new(binary()).arg("lib").output().expect("pct can be run").stdout;
    let library = String::from_utf8(library).expect("a path");
    let mut program = Command::new(victim("loadspct.c"));
    program.arg(library.trim()).arg(format!("out={}", folder.path().join("recording.pct").display()));
    let output = Guest::start(&mut program).wait();
    ended_with(output.status, 5, &String::from_utf8_lossy(&output.stdout));
    let rows = report(&folder.path().join("recording.pct"), &[]);
    assert!(rows.iter().any(|row| row.function == "work"), "{rows:?}");
}
