//! A folder of files that can be made again: private, each written whole or not at all, never very many.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Most bytes of a file that is read.
const MOST_BYTES: u64 = 1 << 30;
/// Most files; beyond it the older half goes.
pub(crate) const MOST_FILES: usize = 256;
/// How the names of files end that are written here; others are left alone.
const OWN: [&str; 3] = ["packets", "states", "part"];

/// A folder for what earlier runs found out. Made, private to the user, when something is written to it.
#[derive(Clone, Debug)]
pub struct Folder {
    dir: PathBuf,
}

impl Folder {
    /// This folder.
    pub fn new(dir: &Path) -> Folder {
        Folder { dir: dir.to_path_buf() }
    }

    /// A file as it was written; none when there is no such file or it cannot be read.
    pub fn read(&self, name: &str) -> Option<Vec<u8>> {
        let from = File::open(self.dir.join(name)).ok()?;
        let len = from.metadata().ok().filter(|m| m.is_file() && m.len() <= MOST_BYTES)?.len();
        let mut bytes = Vec::with_capacity(usize::try_from(len).ok()?);
        from.take(len).read_to_end(&mut bytes).ok()?;
        Some(bytes)
    }

    /// Writes a file under another name first, so that nobody sees half of it.
    ///
    /// # Errors
    /// The folder cannot be made or written.
    pub fn write(&self, name: &str, bytes: &[u8]) -> std::io::Result<()> {
        let path = &self.dir.join(name);
        DirBuilder::new().recursive(true).mode(0o700).create(&self.dir)?;
        self.prune()?;
        let part = path.with_extension(format!("{}.part", std::process::id()));
        // A leftover of a run that was killed, from a process of the same number.
        let _ = std::fs::remove_file(&part);
        let mut to = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&part)?;
        let done = to.write_all(bytes).and_then(|()| std::fs::rename(&part, path));
        done.inspect_err(|_| drop(std::fs::remove_file(&part)))
    }

    /// Drops the older half when there are too many files.
    fn prune(&self) -> std::io::Result<()> {
        let mut files = Vec::new();
        for entry in std::fs::read_dir(&self.dir)?.flatten() {
            let path = entry.path();
            let own = path.extension().is_some_and(|e| OWN.iter().any(|own| e == *own));
            if let (true, Ok(m)) = (own, entry.metadata()) {
                files.push((m.modified().unwrap_or(SystemTime::UNIX_EPOCH), path));
            }
        }
        if files.len() >= MOST_FILES {
            files.sort();
            files[..MOST_FILES / 2].iter().for_each(|(_, path)| drop(std::fs::remove_file(path)));
        }
        Ok(())
    }
}

/// The folder for this user: `pct/ctf` in `XDG_CACHE_HOME`, or in `.cache` of the home directory.
pub fn default_folder() -> Option<PathBuf> {
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|p| p.is_absolute());
    let base = absolute("XDG_CACHE_HOME").or_else(|| absolute("HOME").map(|home| home.join(".cache")))?;
    Some(base.join("pct/ctf"))
}
