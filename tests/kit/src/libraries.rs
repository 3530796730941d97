//! libpct.so, its forms with features, and libpct.a, as `pct` carries them and people link them.
//!
//! `pct-tools/cli/build.rs` builds the first ones in the same folders with the same words, so behind a build of `pct`
//! nothing is left to do here, and libpct.a finds the crates below it built.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// Path of libpct.so.
///
/// # Panics
/// When it does not build.
pub fn plain() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| shared(None))
}

/// Path of libpct-alloc.so, the library with the feature `alloc`.
///
/// # Panics
/// When it does not build.
pub fn alloc() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| shared(Some("alloc")))
}

/// Path of libpct-waits.so, the library with the feature `waits`.
///
/// # Panics
/// When it does not build.
pub fn waits() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| shared(Some("waits")))
}

/// The folder of libpct.a, for programs that link it: `-lpct`.
///
/// # Panics
/// When it does not build.
pub fn archive() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let made = built("pct-static", None).join("libpct_static.a");
        let folder = made.with_file_name("linked");
        std::fs::create_dir_all(&folder).expect("a folder");
        // Another test may be linking it: it is replaced in one step, by the same.
        let copy = folder.join(format!("{}.a", std::process::id()));
        std::fs::copy(made, &copy).expect("copied");
        std::fs::rename(copy, folder.join("libpct.a")).expect("renamed");
        folder
    })
}

fn shared(feature: Option<&str>) -> PathBuf {
    built("pct-preload", feature).join("libpct.so")
}

/// Builds the library of a crate. The folder in which it lies.
fn built(package: &str, feature: Option<&str>) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("the kit lies in tests/kit");
    // A test's program is TARGET/PROFILE/deps/NAME.
    let program = std::env::current_exe().expect("known");
    let target = program.ancestors().nth(3).expect("it lies deep");
    let folder = target.join("runtime").join(feature.unwrap_or("plain")).join(checkout(root));
    let c_library = if cfg!(target_env = "musl") { "musl" } else { "gnu" };
    let triple = format!("{}-unknown-linux-{c_library}", std::env::consts::ARCH);
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(root);
    cargo.args(["build", "-q", "-p", package, "--lib", "--profile", "preload", "--target", &triple]);
    cargo.arg("--target-dir").arg(&folder);
    if let Some(feature) = feature {
        cargo.args(["--features", feature]);
    }
    for name in ["RUSTFLAGS", "CARGO_ENCODED_RUSTFLAGS", "RUSTC_WRAPPER", "RUSTC_WORKSPACE_WRAPPER"] {
        cargo.env_remove(name);
    }
    assert!(cargo.status().expect("cargo runs").success(), "{package} does not build");
    folder.join(triple).join("preload")
}

/// The folder's name for this checkout, as the build of `pct` makes it: FNV-1a of where the crate `pct` lies.
fn checkout(root: &Path) -> String {
    let place = root.join("pct-tools/cli");
    let hash = place.as_os_str().as_encoded_bytes().iter().fold(0xcbf2_9ce4_8422_2325, |hash: u64, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
    });
    format!("{hash:016x}")
}
