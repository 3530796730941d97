//! The private directory and the names in it.

use nix::fcntl::OFlag;
use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::hash::{DefaultHasher, Hasher};
use std::io;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::{DirBuilderExt as _, FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

/// A file name without slashes that no other path has: `/` becomes `:.`, `:` becomes `::`.
///
/// A name that is too long for a file system is cut and gets two hashes of the whole name. Requests name their data
/// file, so even two paths with the same name are never mixed up.
#[must_use]
pub fn mangle(path: &Path) -> OsString {
    let mut out = Vec::new();
    for &b in path.as_os_str().as_bytes() {
        match b {
            b'/' => out.extend(b":."),
            b':' => out.extend(b"::"),
            _ => out.push(b),
        }
    }
    if out.len() > 180 {
        let hash = |salt: u8| {
            let mut h = DefaultHasher::new();
            h.write_u8(salt);
            h.write(path.as_os_str().as_bytes());
            h.finish()
        };
        out.truncate(120);
        out.extend(format!(":-{:016x}{:016x}", hash(1), hash(2)).bytes());
    }
    OsString::from_vec(out)
}

/// Names of the pipes and files that belong to one data file.
#[derive(Clone, Debug)]
pub struct Names {
    /// The private directory.
    pub dir: PathBuf,
    mangled: OsString,
}

/// Prefix of want files.
pub const WANT: &str = "mdprof_want";

impl Names {
    /// The names for a data file in a directory.
    #[must_use]
    pub fn new(dir: PathBuf, file: &Path) -> Names {
        Names { dir, mangled: mangle(file) }
    }

    fn name(&self, prefix: &str) -> PathBuf {
        let mut name = OsString::from(prefix);
        name.push(&self.mangled);
        self.dir.join(name)
    }

    /// The pipe of requests, which only the server reads.
    #[must_use]
    pub fn to_server(&self) -> PathBuf {
        self.name("mdprof_server_to")
    }

    /// The file that is locked.
    #[must_use]
    pub fn mutex(&self) -> PathBuf {
        self.name("mdprof_mutex")
    }

    /// The server's own log.
    #[must_use]
    pub fn record(&self) -> PathBuf {
        self.name("mdprof_startup_err")
    }

    /// The Nth response file.
    #[must_use]
    pub fn response(&self, n: u64) -> PathBuf {
        let mut name = self.name("mdprof_response").into_os_string();
        name.push(n.to_string());
        name.into()
    }

    /// Removes the files of a server that was killed, the locked file last. Only the holder of the lock may call this.
    pub fn remove_leftovers(&self) {
        self.remove_responses();
        sweep_wants(&self.dir);
        for path in [self.to_server(), self.record(), self.mutex()] {
            let _ = std::fs::remove_file(path);
        }
    }

    /// Removes the response files of a server that is gone. Only the holder of the lock may call this.
    pub fn remove_responses(&self) {
        let Ok(entries) = std::fs::read_dir(&self.dir) else { return };
        for entry in entries.flatten() {
            if self.is_response(entry.file_name().as_bytes()) {
                let _ = std::fs::remove_file(entry.path());
            }
        }
    }

    /// Whether this is the name of a response file of this data file.
    #[must_use]
    pub fn is_response(&self, name: &[u8]) -> bool {
        name.strip_prefix(b"mdprof_response")
            .and_then(|n| n.strip_prefix(self.mangled.as_bytes()))
            .is_some_and(|n| !n.is_empty() && n.iter().all(u8::is_ascii_digit))
    }
}

/// Whether a name in a message is that of a want file: letters, digits and dots after the prefix.
#[must_use]
pub fn is_want(name: &str) -> bool {
    name.strip_prefix(WANT)
        .is_some_and(|n| n.len() <= 64 && n.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'.'))
}

/// The directory of this user. It is created if necessary.
///
/// # Errors
/// It cannot be created, or it is not a directory that only this user may enter. The text names it.
pub fn private_dir() -> Result<PathBuf, String> {
    let uid = nix::unistd::geteuid().as_raw();
    let runtime = std::env::var_os("XDG_RUNTIME_DIR")
        .map(PathBuf::from)
        .filter(|p| p.is_absolute() && std::fs::metadata(p).is_ok_and(|m| m.is_dir() && m.uid() == uid));
    let dir = runtime.map_or_else(|| PathBuf::from(format!("/var/tmp/mdprof-{uid}")), |p| p.join("mdprof"));
    match std::fs::DirBuilder::new().mode(0o700).create(&dir) {
        Ok(()) => {}
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
        Err(e) => return Err(format!("{}: cannot be made: {e}", dir.display())),
    }
    // Not through a link, because another user may have created one there.
    let meta = std::fs::symlink_metadata(&dir).map_err(|e| format!("{}: {e}", dir.display()))?;
    if !meta.is_dir() || meta.uid() != uid || meta.mode() & 0o077 != 0 {
        return Err(format!(
            "{}: is not a directory that belongs to user {uid} and that nobody else may enter; remove it, or set XDG_RUNTIME_DIR",
            dir.display()
        ));
    }
    Ok(dir)
}

/// Opens a file without following a link or waiting for the other end.
///
/// # Errors
/// As `open(2)`.
pub fn open_nofollow(path: &Path, write: bool) -> io::Result<File> {
    let flags = OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK;
    OpenOptions::new().read(!write).write(write).custom_flags(flags.bits()).open(path)
}

/// Creates a new file for this user alone.
///
/// # Errors
/// As `open(2)`; it exists already.
pub fn create_new(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .custom_flags(OFlag::O_NOFOLLOW.bits())
        .open(path)
}

/// Opens a pipe for writing, if a living process reads it.
///
/// # Errors
/// The name belongs to something other than a pipe of this user, or the system refuses.
pub fn open_living(path: &Path) -> io::Result<Option<File>> {
    let uid = nix::unistd::geteuid().as_raw();
    match std::fs::symlink_metadata(path) {
        Ok(m) if m.file_type().is_fifo() && m.uid() == uid => {}
        Ok(_) => {
            return Err(io::Error::other(format!(
                "{}: is not a pipe of this user; remove it",
                path.display()
            )));
        }
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(e),
    }
    match open_nofollow(path, true) {
        Ok(file) => Ok(Some(file)),
        Err(e)
            if e.kind() == io::ErrorKind::NotFound
                || e.raw_os_error() == Some(nix::errno::Errno::ENXIO as i32) =>
        {
            Ok(None)
        }
        Err(e) => Err(e),
    }
}

/// Removes want files of clients that are gone, and nothing else.
pub fn sweep_wants(dir: &Path) {
    let Ok(entries) = std::fs::read_dir(dir) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let Some(name) = name.to_str().filter(|n| is_want(n)) else { continue };
        // A client that has created its pipe but not opened it yet has no reader, but it is alive.
        let pid = name[WANT.len()..].split('.').next().unwrap_or_default();
        let lives = pid.is_empty() || Path::new("/proc").join(pid).exists();
        if !lives && matches!(open_living(&entry.path()), Ok(None)) {
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names_are_those_of_the_original() {
        let names = Names::new("/d".into(), Path::new("/a/b:c.data"));
        assert_eq!(names.to_server(), Path::new("/d/mdprof_server_to:.a:.b::c.data"));
        assert_eq!(names.response(7), Path::new("/d/mdprof_response:.a:.b::c.data7"));
        assert!(names.is_response(b"mdprof_response:.a:.b::c.data7"));
        assert!(!names.is_response(b"mdprof_response:.a:.b::c.data"));
        assert!(!names.is_response(b"mdprof_response:.a:.b::c.data1.data3"));
    }

    #[test]
    fn want_names_lead_nowhere_else() {
        assert!(is_want("mdprof_want12.ab"));
        for bad in ["mdprof_want/../x", "x", "mdprof_server_to", "mdprof_want\n", ""] {
            assert!(!is_want(bad), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn mangling_keeps_paths_apart(a in "[:./a]{0,12}", b in "[:./a]{0,12}") {
            let (x, y) = (mangle(Path::new(&a)), mangle(Path::new(&b)));
            prop_assert_eq!(x == y, a == b);
            prop_assert!(!x.as_bytes().contains(&b'/'));
        }

        #[test]
        fn long_names_fit_a_file_system(a in "[:/a]{181,400}") {
            prop_assert!(mangle(Path::new(&a)).len() <= 200);
        }
    }
}
