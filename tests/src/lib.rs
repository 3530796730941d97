//! Scenario tests of pct: they build and run real programs, and compare what pct reports with a truth that the program
//! counts itself.
//!
//! - [`victims`]: the small programs under `tests/victims`, built once with the command in their first line;
//! - [`pct`]: the shipped `pct` binary, run as people run it, and its csv report as rows;
//! - [`pythons`]: the interpreters that are installed; [`python`]: what recordings of them say;
//! - [`java`]: Java programs and the JDKs that are installed; [`waits`]: what victims say of their waits, and what
//!   reports say of them.
//!
//! A test whose tool is missing says so in one line on stderr and passes: [`skip`]. Nothing here asserts a time.
#![forbid(unsafe_code)]

pub mod java;
pub mod odd_objects;
pub mod pct;
pub mod python;
pub mod pythons;
pub mod victims;
pub mod waits;

use std::path::{Path, PathBuf};

/// The root of the repository.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the tests crate lies in the root").to_path_buf()
}

/// The path of `tool` when it is on `PATH`, else `None` after one line on stderr that names `test` as skipped.
pub fn tool_or_skip(tool: &str, test: &str) -> Option<PathBuf> {
    let found = which(tool);
    if found.is_none() {
        skip(test, &format!("{tool} is not installed"));
    }
    found
}

/// Says in one line that `test` is skipped, and why.
pub fn skip(test: &str, why: &str) {
    pct_kit::skip_test(test, why);
}

/// Looks `tool` up on `PATH` and in the sbin folders that users' paths often lack.
pub fn which(tool: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(["/usr/sbin".into(), "/sbin".into()])
        .map(|d| d.join(tool))
        .find(|p| p.is_file())
}
