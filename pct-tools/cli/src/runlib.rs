//! The libraries inside: libpct.so, libpct-alloc.so and libpct-waits.so, carried in the executable and laid
//! out where every program can load them.
//!
//! A preloaded library must be readable by whatever user the program becomes, on a file system that allows
//! execution, under a path without the separators that the dynamic linker splits LD_PRELOAD at. The per-user cache
//! often fails the first point (a home is mode 0700), so a place is taken only when it passes all three; a folder
//! in /var/tmp or /tmp is used only when it is ours and nobody else can write to it.
//!
//! Invariant: the path that [`path`] returns names a regular file of this user that holds exactly the carried bytes.

use anyhow::{Context as _, Result, bail};
use std::ffi::OsString;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::Write as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

/// libpct.so as built by the build script; empty in a build without the runtime.
pub static LIBRARY: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/libpct.so"));

/// A library that this pct carries.
#[derive(Clone, Copy, Debug)]
pub struct Carried {
    octets: &'static [u8],
    /// The hash makes versions live side by side, since running programs keep theirs mapped.
    file_name: &'static str,
}

/// libpct.so.
pub const SAMPLER: Carried =
    Carried { octets: LIBRARY, file_name: concat!("libpct-", env!("PCT_LIBRARY_HASH"), ".so") };

/// libpct-alloc.so: the same, which also samples allocations. A program that has libpct.so calls the C library's own
/// malloc.
pub const ALLOC_SAMPLER: Carried = Carried {
    octets: include_bytes!(concat!(env!("OUT_DIR"), "/libpct-alloc.so")),
    file_name: concat!("libpct-alloc-", env!("PCT_ALLOC_LIBRARY_HASH"), ".so"),
};

/// libpct-waits.so: the same, which also records waits. A program that has libpct.so calls the C library's own locks.
pub const WAITS_SAMPLER: Carried = Carried {
    octets: include_bytes!(concat!(env!("OUT_DIR"), "/libpct-waits.so")),
    file_name: concat!("libpct-waits-", env!("PCT_WAITS_LIBRARY_HASH"), ".so"),
};

/// The path of libpct.so, laid out now if it is not there yet.
///
/// # Errors
/// As [`path_of`].
pub fn path() -> Result<PathBuf> {
    path_of(SAMPLER)
}

/// The path of a library, laid out now if it is not there yet.
///
/// # Errors
/// When this pct carries no library, or no folder that would do can be written; the message names each folder that
/// was tried and why it failed.
pub fn path_of(library: Carried) -> Result<PathBuf> {
    if library.octets.is_empty() {
        bail!("this pct was built without libpct.so, so it can read profiles but not record any");
    }
    let mut tried = Vec::new();
    for (place, strict) in places() {
        match lay_out(library, &place, strict) {
            Ok(path) => return Ok(path),
            Err(why) => tried.push(format!("{}: {}", place.display(), crate::errors::chain(&why))),
        }
    }
    bail!("no folder for libpct.so: {}", tried.join("; "))
}

/// Where things lie that can be made again: `pct` in `XDG_CACHE_HOME`, or in `.cache` of the home.
#[must_use]
pub fn cache() -> Option<PathBuf> {
    std::env::var_os("XDG_CACHE_HOME")
        .filter(|dir| Path::new(dir).is_absolute())
        .map(PathBuf::from)
        .or_else(|| {
            std::env::var_os("HOME").filter(|home| !home.is_empty()).map(|h| Path::new(&h).join(".cache"))
        })
        .map(|dir| dir.join("pct"))
}

/// Folders in order of preference; `true` = other users must be able to reach it.
fn places() -> Vec<(PathBuf, bool)> {
    let uid = nix::unistd::geteuid();
    let cache = cache();
    let shared = ["/var/tmp", "/tmp", "/dev/shm"].map(|dir| PathBuf::from(format!("{dir}/pct-{uid}")));
    let strict = cache.iter().cloned().chain(shared).map(|dir| (dir, true));
    let last = cache.iter().cloned().map(|dir| (dir, false));
    strict.chain(last).collect()
}

fn lay_out(library: Carried, dir: &Path, reachable: bool) -> Result<PathBuf> {
    if dir.as_os_str().as_bytes().iter().any(|byte| b" :\t\n".contains(byte)) {
        bail!("the dynamic linker would split this path");
    }
    // Asked before anything is made, so that nothing is left in a place that will not do.
    if reachable && !everybody_may_enter(dir.ancestors().find(|part| part.exists()).unwrap_or(dir)) {
        bail!("other users cannot reach it");
    }
    if !dir.exists() {
        DirBuilder::new().recursive(true).mode(0o755).create(dir).context("cannot make it")?;
    }
    let meta = fs::symlink_metadata(dir)?;
    let uid = nix::unistd::geteuid().as_raw();
    if !meta.is_dir() || meta.uid() != uid || meta.mode() & 0o022 != 0 {
        bail!("not a folder that is ours alone");
    }
    if reachable && !everybody_may_enter(dir) {
        bail!("other users cannot reach it");
    }
    let flags = nix::sys::statvfs::statvfs(dir).context("cannot ask about its file system")?.flags();
    if flags.contains(nix::sys::statvfs::FsFlags::ST_NOEXEC) {
        bail!("mounted noexec");
    }
    let path = dir.join(library.file_name);
    if holds(library, &path, uid) {
        return Ok(path);
    }
    write_whole(library, dir, &path)?;
    if !holds(library, &path, uid) {
        bail!("what was written is not what is there");
    }
    Ok(path)
}

fn everybody_may_enter(dir: &Path) -> bool {
    dir.ancestors().all(|part| fs::metadata(part).is_ok_and(|meta| meta.mode() & 0o001 != 0))
}

fn holds(library: Carried, path: &Path, uid: u32) -> bool {
    let Ok(meta) = fs::symlink_metadata(path) else { return false };
    meta.is_file()
        && meta.uid() == uid
        && meta.mode() & 0o7777 == 0o755
        && meta.len() == library.octets.len() as u64
        && fs::read(path).is_ok_and(|bytes| bytes == library.octets)
}

/// Temporary file and rename, so that nobody ever maps half a library.
fn write_whole(library: Carried, dir: &Path, path: &Path) -> Result<()> {
    let name = OsString::from(format!(".tmp-{}-{}", std::process::id(), library.file_name));
    let temporary = dir.join(name);
    let _ = fs::remove_file(&temporary);
    let written = (|| -> std::io::Result<()> {
        let mut file: File = OpenOptions::new()
            .write(true)
            .create_new(true)
            .custom_flags(libc::O_NOFOLLOW)
            .mode(0o700)
            .open(&temporary)?;
        file.write_all(library.octets)?;
        file.set_permissions(fs::Permissions::from_mode(0o755))?;
        fs::rename(&temporary, path)
    })();
    written.inspect_err(|_| drop(fs::remove_file(&temporary))).context("cannot write the library")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_with_a_separator_or_strange_owner_is_refused() {
        let top = tempfile::tempdir().expect("a folder");
        let refused = lay_out(SAMPLER, &top.path().join("a b"), false).unwrap_err();
        assert!(refused.to_string().contains("split"));
        let open = top.path().join("open");
        fs::create_dir(&open).expect("made");
        fs::set_permissions(&open, fs::Permissions::from_mode(0o777)).expect("set");
        assert!(lay_out(SAMPLER, &open, false).unwrap_err().to_string().contains("ours alone"));
        let link = top.path().join("link");
        std::os::unix::fs::symlink("/tmp", &link).expect("made");
        assert!(lay_out(SAMPLER, &link, false).is_err());
        fs::set_permissions(top.path(), fs::Permissions::from_mode(0o700)).expect("set");
        let closed = lay_out(SAMPLER, &top.path().join("closed"), true).unwrap_err();
        assert!(closed.to_string().contains("cannot reach"));
    }

    #[test]
    fn the_library_is_written_once_and_repaired_when_damaged() {
        let top = tempfile::tempdir().expect("a folder");
        let dir = top.path().join("pct");
        let path = lay_out(SAMPLER, &dir, false).expect("laid out");
        let first = fs::metadata(&path).expect("there").ino();
        assert_eq!(fs::metadata(lay_out(SAMPLER, &dir, false).expect("again")).expect("there").ino(), first);
        fs::write(&path, b"scribble").expect("written");
        let path = lay_out(SAMPLER, &dir, false).expect("repaired");
        assert_eq!(fs::read(path).expect("read"), LIBRARY);
    }
}
