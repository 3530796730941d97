//! The library needs nothing: no C start files, no libc. (tests/ checks the finished object.)
//!
//! It is mapped into every process that is profiled, so it is linked for few mappings: one for all that is read or executed,
//! one for what is written, no pass that makes a part of it read-only.

use std::env;
use std::path::Path;
use std::process::{Command, Stdio};

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-nostartfiles");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libpct.so");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,norelro");
    // GNU ld puts constants and code into one mapping by this, lld (which takes it) by the next.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,noseparate-code");
    if linker_takes("-Wl,--no-rosegment") {
        println!("cargo:rustc-cdylib-link-arg=-Wl,--no-rosegment");
    }
}

/// Whether the linker that rustc uses knows an option: older GNU ld refuses what it does not know.
fn linker_takes(option: &str) -> bool {
    let variable = |name: &str| env::var(name).unwrap_or_default();
    let out = variable("OUT_DIR");
    let source = Path::new(&out).join("probe.rs");
    let probe = "#![no_std]\n#[panic_handler]\nfn panic(_: &core::panic::PanicInfo) -> ! { loop {} }\n";
    if std::fs::write(&source, probe).is_err() {
        return false;
    }
    let mut rustc = Command::new(variable("RUSTC"));
    rustc.args(["--edition", "2024", "--crate-type", "cdylib", "-C", "panic=abort", "--target"]);
    rustc.arg(variable("TARGET")).arg("--out-dir").arg(&out).arg(&source);
    rustc.args(["-C", "link-arg=-nostartfiles", "-C", &format!("link-arg={option}")]);
    if let Some(linker) = env::var_os("RUSTC_LINKER") {
        rustc.arg("-C").arg(format!("linker={}", Path::new(&linker).display()));
    }
    rustc.args(variable("CARGO_ENCODED_RUSTFLAGS").split('\u{1f}').filter(|flag| !flag.is_empty()));
    rustc.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}
