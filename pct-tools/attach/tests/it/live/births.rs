//! Method 5 on a program that makes threads all the time.

#![expect(clippy::zombie_processes, reason = "the tracer reaps the child")]

use pct_attach::outside::{Ended, Follow, Outside, Settings};
use pct_attach::ptrace::sys::Signals;
use pct_attach::subject::Manner;
use pct_format::header::{Clock, StackMode};
use std::io::Write;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::victims;

/// The kernel drops an interrupt that is under way when the thread stops for another reason, such as the birth of a
/// thread.
#[test]
fn a_thread_that_makes_threads_all_the_time_is_sampled_to_its_end() {
    if !victims::alone("live::births::a_thread_that_makes_threads_all_the_time_is_sampled_to_its_end") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let victim = victims::built("births.c", &["-O2", "-pthread"], &dir);
    let mut child = Command::new(victim).stdin(Stdio::piped()).spawn().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let signals = Signals::control();
    let manner = Manner {
        clock_asked: Clock::Outside,
        clock: Clock::Outside,
        hz: 1000,
        stacks: StackMode::None,
        depth: 512,
        limit: 16 << 20,
        python: false,
        java: false,
        javascript: false,
    };
    let settings =
        Settings { manner, follow: Follow::None, first_only: false, folder: folder.path().to_owned() };
    let mut outside = Outside::seize(child.id() as i32, settings).unwrap();
    child.stdin.take().unwrap().write_all(b"\n").unwrap();
    assert_eq!(outside.run(Some(Duration::from_secs(60)), &signals).unwrap(), Ended::Target);
    // one second, a sample stands for all CPU time since the one before it, however late it comes
    let counts = outside.finish();
    assert!(counts.weight > 700, "{counts:?}");
}
