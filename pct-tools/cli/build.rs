//! Builds libpct.so, libpct-alloc.so and libpct-waits.so and hands them to the compiler, so that `pct` carries its
//! libraries inside.
//!
//! libpct-alloc.so is the same crate with the feature `alloc`: it also wraps the functions that allocate memory.
//! libpct-waits.so has the feature `waits`: it wraps locks and what waits for other threads. A nested cargo builds the
//! crate `pct-preload` with the profile `preload`, and `runlib.rs` includes the bytes. Its target folders lie in
//! `runtime` in the target folder of the outer build. They are folders of their own, so that the two cargos cannot wait
//! for each other. Every profile of the outer build shares them, so that the libraries are built once; another checkout
//! that uses the same target folder does not, since cargo gives libraries of that kind the same name for both. The
//! crates below `pct-preload` have none of its features: they are compiled for the first library and copied for the
//! others. Flags and wrappers of the outer build (clippy's, coverage's) are cleared: they are not meant for what runs
//! inside other people's processes. In a checkout without that crate the library is empty and `pct run` says that it
//! has none.

use std::env;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    let here = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it"));
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    let root = here.join("../..");
    for path in ["runtime", "Cargo.toml", "Cargo.lock"] {
        println!("cargo:rerun-if-changed={}", root.join(path).display());
    }
    println!("cargo:rerun-if-env-changed=PCT_BUILD_WITHOUT_RUNTIME");
    let carried = if root.join("runtime/preload/Cargo.toml").exists()
        && env::var_os("PCT_BUILD_WITHOUT_RUNTIME").is_none()
    {
        true
    } else {
        println!("cargo:warning=this pct carries no libpct.so: it reads profiles but cannot record");
        false
    };
    let checkout = format!("{:016x}", fnv(here.as_os_str().as_encoded_bytes()));
    for (features, name, variable) in [
        (None, "libpct.so", "PCT_LIBRARY_HASH"),
        (Some("alloc"), "libpct-alloc.so", "PCT_ALLOC_LIBRARY_HASH"),
        (Some("waits"), "libpct-waits.so", "PCT_WAITS_LIBRARY_HASH"),
    ] {
        let library = if carried {
            let runtime = target_of(&out).join("runtime");
            let target = runtime.join(features.unwrap_or("plain")).join(&checkout);
            if features.is_some() {
                let first = runtime.join("plain").join(&checkout).join(triple()).join("preload");
                let here = target.join(triple()).join("preload");
                // Whatever is not copied is compiled.
                let _ = share(&first.join("deps"), &here.join("deps"));
                let _ = share(&first.join(".fingerprint"), &here.join(".fingerprint"));
            }
            fs::read(build(&root, &target, features)).expect("the library that was just built")
        } else {
            Vec::new()
        };
        println!("cargo:rustc-env={variable}={:016x}", fnv(&library));
        fs::write(out.join(name), library).expect("OUT_DIR is writable");
    }
}

/// The target folder of the outer build: OUT_DIR is TARGET/PROFILE/build/NAME/out there.
fn target_of(out: &Path) -> &Path {
    out.ancestors().nth(4).expect("OUT_DIR lies deep")
}

fn triple() -> String {
    env::var("TARGET").expect("cargo sets it")
}

/// Copies what was compiled of the crates below `pct-preload`. Cargo tells by the times of files what is up to date:
/// the copies have the same. It would also take a part of a file for the whole: they get their names at the end.
fn share(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let name = entry.file_name();
        let (path, copy) = (entry.path(), to.join(&name));
        let name = name.to_string_lossy();
        // The library itself: deps/libpct.so, deps/pct.d, .fingerprint/pct-preload-HASH.
        if name.starts_with("libpct.") || name.starts_with("pct.") || name.starts_with("pct-preload-") {
            continue;
        }
        if path.is_dir() {
            share(&path, &copy)?;
            continue;
        }
        let modified = fs::metadata(&path)?.modified()?;
        if fs::metadata(&copy).and_then(|metadata| metadata.modified()).ok() != Some(modified) {
            let part = to.join("part");
            fs::copy(&path, &part)?;
            fs::File::options().append(true).open(&part)?.set_modified(modified)?;
            fs::rename(&part, &copy)?;
        }
    }
    Ok(())
}

fn build(root: &Path, target: &Path, features: Option<&str>) -> PathBuf {
    let triple = triple();
    let mut cargo = Command::new(env::var_os("CARGO").expect("cargo sets it"));
    cargo.current_dir(root);
    cargo.args(["build", "-q", "-p", "pct-preload", "--lib", "--profile", "preload", "--target", &triple]);
    cargo.arg("--target-dir").arg(target);
    if let Some(features) = features {
        cargo.args(["--features", features]);
    }
    if env::var("CARGO_NET_OFFLINE").is_ok_and(|value| value == "true") {
        cargo.arg("--offline");
    }
    let inner = ["RUSTFLAGS", "CARGO_ENCODED_RUSTFLAGS", "RUSTC_WRAPPER", "RUSTC_WORKSPACE_WRAPPER"];
    for name in inner.into_iter().chain(["CARGO_BUILD_TARGET", "CARGO_TARGET_DIR", "CARGO_BUILD_TARGET_DIR"])
    {
        cargo.env_remove(name);
    }
    // Features and cfgs of this package are not the runtime's.
    for (name, _) in env::vars_os() {
        let name_text = name.to_string_lossy();
        if name_text.starts_with("CARGO_FEATURE_") || name_text.starts_with("CARGO_CFG_") {
            cargo.env_remove(&name);
        }
    }
    let status = cargo.status().expect("cargo can be started");
    assert!(status.success(), "building libpct.so (cargo build -p pct-preload) failed: {status}");
    target.join(&triple).join("preload/libpct.so")
}

/// FNV-1a, 64 bits: names the file in the cache; its content is compared before use.
fn fnv(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}
