//! The library needs nothing: no C start files, no libc. (tests/ checks the finished object.)

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-nostartfiles");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libpct.so");
    // One mapping and one protection call less at the start of every process.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,norelro");
}
