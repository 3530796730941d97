//! Harm to a guest: it died, or it said something else than without pct.
//!
//! Tests of real processes are tried again when they fail, because a machine can be crowded. A race that kills the
//! guest in one run of three would hide behind that. So whoever sees a guest harmed panics by [`harm`], and `tests/run`
//! looks for its word in the output of all tries, those of tests that passed later too.

use std::process::{ExitStatus, Output};

/// The word that fails the whole run wherever it is printed by a failing test.
pub const HARM: &str = "HARM:";

/// The word by which `tests/run` finds that a test left a process behind.
pub const LEFT_BEHIND: &str = "LEFT BEHIND:";

/// Panics with [`HARM`]: a guest was harmed.
///
/// # Panics
/// Always.
#[track_caller]
pub fn harm(how: &str) -> ! {
    panic!("{HARM} {how}")
}

/// Checks that a guest ended with the exit status `code`, and not by a signal.
///
/// # Panics
/// With [`HARM`] when it did not; `said` stands in the message.
#[track_caller]
pub fn ended_with(status: ExitStatus, code: i32, said: &str) {
    if status.code() != Some(code) {
        harm(&format!("the guest ended with {status} instead of {code}: {said}"));
    }
}

/// Checks that a guest ended with success. Returns what it printed.
///
/// # Panics
/// With [`HARM`] when it did not.
#[track_caller]
pub fn unharmed(guest: &Output) -> String {
    ended_with(guest.status, 0, &String::from_utf8_lossy(&guest.stderr));
    String::from_utf8_lossy(&guest.stdout).into_owned()
}

/// Checks that a guest ended as `bare` did, and printed the same to its standard output.
///
/// # Panics
/// With [`HARM`] when it did not.
#[track_caller]
pub fn same_as_bare(guest: &Output, bare: &Output) {
    let said = |output: &Output| String::from_utf8_lossy(&output.stdout).into_owned();
    if guest.status != bare.status || guest.stdout != bare.stdout {
        harm(&format!(
            "bare: {}, {:?}; profiled: {}, {:?}, {}",
            bare.status,
            said(bare),
            guest.status,
            said(guest),
            String::from_utf8_lossy(&guest.stderr)
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    fn ended(script: &str) -> Output {
        Command::new("sh").args(["-c", script]).output().expect("sh")
    }

    fn panics(what: impl FnOnce() + std::panic::UnwindSafe) -> bool {
        std::panic::catch_unwind(what)
            .is_err_and(|why| why.downcast_ref::<String>().is_some_and(|why| why.starts_with(HARM)))
    }

    #[test]
    fn signals_statuses_and_other_words_are_harm() {
        let well = ended("echo well");
        assert_eq!(unharmed(&well), "well\n");
        same_as_bare(&well, &ended("echo well"));
        assert!(panics(|| ended_with(ended("kill -SEGV $$").status, 0, "")));
        assert!(panics(|| drop(unharmed(&ended("exit 3")))));
        assert!(panics(|| same_as_bare(&ended("echo ill"), &ended("echo well"))));
        assert!(panics(|| same_as_bare(&ended("kill $$"), &ended("exit 143"))));
    }
}
