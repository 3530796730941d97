//! The library needs nothing: no C start files, no libc. (tests/ checks the finished object.)

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-nostartfiles");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libpct.so");
}
