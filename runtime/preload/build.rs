//! The library needs nothing: no C start files, no libc. (tests/ checks the finished object.)
//!
//! It is mapped into every process that is profiled, so it is linked for few mappings: one for all that is
//! read or executed, one for what is written, no pass that makes a part of it read-only; and for few pages
//! that a start touches (layout.ld).

use std::env;
use std::path::Path;
use std::process::{Command, Stdio};

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-nostartfiles");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libpct.so");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,norelro");
    // The whole path, so that a checkout that was moved with its target folder is not linked by the old place.
    let layout = format!("{}/layout.ld", variable("CARGO_MANIFEST_DIR"));
    println!("cargo:rerun-if-changed={layout}");
    let layout = format!("-Wl,-T,{layout}");
    // Constants and code into one mapping: GNU ld does it by the first, lld by the second.
    for option in ["-Wl,-z,noseparate-code", "-Wl,--no-rosegment", &layout] {
        if linker_takes(option) {
            println!("cargo:rustc-cdylib-link-arg={option}");
        }
    }
}

fn variable(name: &str) -> String {
    env::var(name).unwrap_or_default()
}

/// A library with the sections that ours has.
const PROBE: &str = "#![no_std]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo) -> ! { loop {} }
#[used] #[unsafe(link_section = \".init_array\")] static INIT: extern \"C\" fn() = probe;
#[used] #[unsafe(link_section = \".fini_array\")] static FINI: extern \"C\" fn() = probe;
#[used] static mut DATA: u64 = 1;
#[used] static mut BSS: u64 = 0;
extern \"C\" fn probe() {}
";

/// Whether the linker that rustc uses knows an option: some refuse what they do not know.
fn linker_takes(option: &str) -> bool {
    let out = variable("OUT_DIR");
    let source = Path::new(&out).join("probe.rs");
    if std::fs::write(&source, PROBE).is_err() {
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
