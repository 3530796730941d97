//! The finished libpct.so: what is in it, and what it does to real programs.
//!
//! The library is built here as `pct` carries it (profile `preload`), once per test run. Programs are compiled from
//! the C files beside this one with the C compiler; without one those tests say so and pass.
//!
//! `live::` runs programs under the library. The others are exact: they look into the object.

mod object_file;
mod run;

mod live {
    mod actions;
    mod alloc;
    mod continuous;
    mod filters;
    mod hostile;
    mod itself;
    mod numbers;
    mod programs;
    mod stacks;
    mod start;
    mod tracers;
    mod traps;
}

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// Builds the library; `strip` as it is shipped, or with its symbols.
fn library(strip: bool) -> &'static Path {
    static SHIPPED: OnceLock<PathBuf> = OnceLock::new();
    static WITH_SYMBOLS: OnceLock<PathBuf> = OnceLock::new();
    let (cell, folder) =
        if strip { (&SHIPPED, "libpct-shipped") } else { (&WITH_SYMBOLS, "libpct-with-symbols") };
    cell.get_or_init(|| built(folder, strip, &[]))
}

/// The same with the feature `alloc`: libpct-alloc.so.
fn alloc_library(strip: bool) -> &'static Path {
    static SHIPPED: OnceLock<PathBuf> = OnceLock::new();
    static WITH_SYMBOLS: OnceLock<PathBuf> = OnceLock::new();
    let (cell, folder) =
        if strip { (&SHIPPED, "libpct-alloc-shipped") } else { (&WITH_SYMBOLS, "libpct-alloc-with-symbols") };
    cell.get_or_init(|| built(folder, strip, &["--features", "alloc"]))
}

/// The same with the feature `waits`: libpct-waits.so.
fn waits_library(strip: bool) -> &'static Path {
    static SHIPPED: OnceLock<PathBuf> = OnceLock::new();
    static WITH_SYMBOLS: OnceLock<PathBuf> = OnceLock::new();
    let (cell, folder) =
        if strip { (&SHIPPED, "libpct-waits-shipped") } else { (&WITH_SYMBOLS, "libpct-waits-with-symbols") };
    cell.get_or_init(|| built(folder, strip, &["--features", "waits"]))
}

fn built(folder: &str, strip: bool, features: &[&str]) -> PathBuf {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join(folder);
    let mut cargo = Command::new(env!("CARGO"));
    cargo.current_dir(env!("CARGO_MANIFEST_DIR"));
    cargo.args(["build", "-q", "-p", "pct-preload", "--lib", "--profile", "preload"]).args(features);
    cargo.arg("--target-dir").arg(&target);
    for name in ["RUSTFLAGS", "CARGO_ENCODED_RUSTFLAGS", "RUSTC_WRAPPER", "RUSTC_WORKSPACE_WRAPPER"] {
        cargo.env_remove(name);
    }
    if !strip {
        cargo.env("CARGO_PROFILE_PRELOAD_STRIP", "false");
    }
    assert!(cargo.status().expect("cargo runs").success(), "libpct.so does not build");
    target.join("preload/libpct.so")
}
