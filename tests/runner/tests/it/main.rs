//! The programs `test-guard` and `test-page`, as `tests/run` uses them.

mod live {
    //! What the guard does for real programs.

    use std::process::{Command, Output};

    /// A shell's script under the guard, as if it were a test program.
    fn guarded(script: &str) -> Output {
        let mut guard = Command::new(env!("CARGO_BIN_EXE_test-guard"));
        guard.args(["/bin/sh", "-c", script]).env("PCT", "hz=1").env("NO_COLOR", "1");
        guard.output().expect("the guard starts")
    }

    #[test]
    fn a_test_has_a_place_of_its_own_which_is_gone_afterwards() {
        let script = r#"for d in "$HOME" "$TMPDIR" "$XDG_RUNTIME_DIR"; do test -d "$d" || exit 2; done
            test -z "$(ls -A "$TMPDIR")" && test -z "$PCT$NO_COLOR" && touch "$TMPDIR/file" && echo "$TMPDIR""#;
        let first = guarded(script);
        assert!(first.status.success(), "{first:?}");
        let place = String::from_utf8(first.stdout).expect("a path");
        assert!(!std::path::Path::new(place.trim_end()).exists(), "{place}");
    }

    #[test]
    fn the_end_of_a_test_is_passed_on() {
        use std::os::unix::process::ExitStatusExt as _;
        assert_eq!(guarded("exit 7").status.code(), Some(7));
        assert_eq!(guarded("kill -SEGV $$").status.signal(), Some(11));
    }

    #[test]
    fn a_server_that_is_left_behind_is_named_ended_and_fails_the_test() {
        let left = guarded("setsid sh -c 'sleep 987654 & sleep 987655' & exit 0");
        let said = String::from_utf8_lossy(&left.stderr);
        assert_eq!(left.status.code(), Some(1), "{said}");
        assert!(said.contains("LEFT BEHIND:") && said.contains("sleep 987654"), "{said}");
    }
}

/// A guest that died in one try of three fails the run, although the test passed at last.
#[test]
fn harm_in_one_try_fails_the_run() {
    let report = r#"<testsuites><testsuite name="a"><testcase name="live::x" classname="a" time="1">
        <flakyFailure><system-err>HARM: the guest ended with signal: 11</system-err></flakyFailure></testcase>
        </testsuite></testsuites>"#;
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("junit.xml");
    for (report, code) in [(report.to_owned(), 1), (report.replace("HARM:", "late:"), 0)] {
        std::fs::write(&path, report).expect("written");
        let page = std::process::Command::new(env!("CARGO_BIN_EXE_test-page"))
            .arg(&path)
            .output()
            .expect("it starts");
        assert_eq!(page.status.code(), Some(code), "{page:?}");
    }
}
