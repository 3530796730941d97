//! `pct attach` to a program that then makes a setting under which pct's handlers would be its end: a filter on system
//! calls and its like. The program's calls were bound to the C library before pct came.

use pct_kit::harm::ended_with;
use pct_tests::pct::{binary, report};
use pct_tests::skip;
use pct_tests::victims::{Guest, victim, victim_with, works};
use std::path::Path;
use std::process::{Command, Stdio};

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
