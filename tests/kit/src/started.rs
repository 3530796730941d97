//! Processes that a test started: they end with it, even if it fails.

use crate::wait::wait_until;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::ops::{Deref, DerefMut};
use std::path::Path;
use std::process::Child;

/// A child that is killed when its test ends, unless it has ended before.
#[derive(Debug)]
pub struct Killed(pub Child);

impl Deref for Killed {
    type Target = Child;

    fn deref(&self) -> &Child {
        &self.0
    }
}

impl DerefMut for Killed {
    fn deref_mut(&mut self) -> &mut Child {
        &mut self.0
    }
}

impl Drop for Killed {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The living processes whose command line or environment names this folder, or that are in this process group.
fn living(folder: &Path, group: Option<u32>) -> Vec<i32> {
    let folder = folder.as_os_str().as_encoded_bytes();
    let of_test = |pid: &i32| {
        let read = |file: &str| std::fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
        let names_folder = |file: &str| read(file).windows(folder.len()).any(|part| part == folder);
        let stat = String::from_utf8_lossy(&read("stat")).into_owned();
        let mut words = stat.rsplit(") ").next().unwrap_or_default().split(' ');
        let (state, own_group) = (words.next(), words.nth(1).and_then(|word| word.parse::<u32>().ok()));
        state.is_some_and(|state| state != "Z" && state != "X")
            && ((group.is_some() && group == own_group) || names_folder("cmdline") || names_folder("environ"))
    };
    let all = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = all.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    numbers
        .filter(|pid| !u32::try_from(*pid).is_ok_and(|pid| pid == std::process::id()))
        .filter(of_test)
        .collect()
}

/// Kills the processes that a test runs in a folder of its own, also those that they start meanwhile, and waits for
/// their end. They are known by the folder in their command line or environment, or by their process group.
///
/// # Panics
/// If one lives a minute longer.
pub fn end_all(folder: &Path, group: Option<u32>) {
    wait_until("the end of what the test started", || {
        let left = living(folder, group);
        for pid in &left {
            // What has ended since needs no signal.
            let _ = kill(Pid::from_raw(*pid), Signal::SIGKILL);
        }
        left.is_empty()
    });
}
