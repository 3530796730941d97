//! The CPythons that are installed here, and packages for them.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use pct_languages::cpython::Layout;

use crate::skip;
use crate::victims::made_once;

/// The interpreters that are installed here and whose frames can be read; of them those whose path holds what
/// `PCT_TEST_PYTHONS` says.
pub fn pythons(test: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let home = home().map(|home| home.join(".pyenv"));
    for versions in std::env::var_os("PYENV_ROOT").map(PathBuf::from).into_iter().chain(home) {
        for version in std::fs::read_dir(versions.join("versions")).into_iter().flatten().flatten() {
            let name = version.file_name().to_string_lossy().into_owned();
            let minor: Option<u8> =
                name.strip_prefix("3.").and_then(|rest| rest.split('.').next()?.parse().ok());
            if minor.is_some_and(|minor| Layout::for_minor(minor).is_some()) {
                found.push(version.path().join("bin/python3"));
            }
        }
    }
    found.push("/usr/bin/python3".into());
    let wanted = std::env::var("PCT_TEST_PYTHONS").unwrap_or_default();
    found.retain(|python| python.exists() && python.to_string_lossy().contains(&wanted));
    found.sort();
    found.dedup();
    if found.is_empty() {
        skip(test, "no python3 is installed");
    }
    found
}

/// A folder with this package of PyPI for the interpreter, fetched once by its own pip. `None`, after one
/// line that says why: the package cannot be had here.
pub fn package(test: &str, python: &Path, name: &str) -> Option<PathBuf> {
    let version = python.to_string_lossy().replace('/', "_");
    let folder = crate::root().join("target/victims/pypi").join(format!("{name}{version}"));
    let made = made_once(&folder, |aside| {
        let mut pip = Command::new(python);
        pip.args(["-m", "pip", "install", "-q", "--only-binary", ":all:", "--timeout", "10", "--target"]);
        let done = pip.arg(aside).arg(name).output().map_err(|e| e.to_string())?;
        if done.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&done.stderr).into_owned()) }
    });
    if made.is_err() {
        skip(test, &format!("{name} cannot be fetched for {}", python.display()));
    }
    made.ok().map(|()| folder)
}

/// The folder of the user's own files. Not by `HOME`: a test may have a home of its own.
fn home() -> Option<PathBuf> {
    let own = std::fs::metadata("/proc/self").ok()?.uid().to_string();
    let users = std::fs::read_to_string("/etc/passwd").ok()?;
    let of_us = users.lines().map(|line| line.split(':').collect::<Vec<_>>());
    of_us.filter(|user| user.len() > 5 && user[2] == own).map(|user| user[5].into()).next()
}
