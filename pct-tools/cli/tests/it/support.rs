//! What several tests of the command share: running `pct`, and `pct view` as a server.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Output};

/// The program under test.
pub(crate) const PCT: &str = env!("CARGO_BIN_EXE_pct");

/// Runs `pct` in a folder that is the home directory, too: nothing of this machine's caches is read.
pub(crate) fn pct(dir: &Path, words: &[&str]) -> Output {
    Command::new(PCT).args(words).current_dir(dir).env("HOME", dir).output().expect("pct starts")
}

/// The address that a server prints as its first line. Its stdout is a pipe.
pub(crate) fn first_line(server: &mut Child) -> String {
    let mut url = String::new();
    let stdout = server.stdout.take().expect("is piped");
    BufReader::new(stdout).read_line(&mut url).expect("says its address");
    url.trim().to_owned()
}

/// `host:port` of an address, and the path below it.
pub(crate) fn host_and_path(url: &str) -> (&str, &str) {
    let rest = url.trim().strip_prefix("http://").expect("an address");
    rest.split_at(rest.find('/').expect("a path"))
}
