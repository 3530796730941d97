//! A folder of files that can be computed again: private, limited in number, each written completely or not at all.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use lttv_engine::kept::Kept;

/// Largest file that is read, in bytes.
const MOST_BYTES: u64 = 1 << 30;
/// Most files. Beyond that, the older half is removed.
pub(crate) const MOST_FILES: usize = 256;
/// Suffixes of the files that are written here. Other files are left alone.
const OWN: [&str; 4] = ["packets", "states", "timeline", "part"];
/// Most bytes of all files together.
const MOST_IN_ALL: u64 = 1 << 30;

/// A folder for results of earlier runs. It is created, private to the user, at the first write.
#[derive(Clone, Debug)]
pub struct Folder {
    dir: PathBuf,
}

impl Folder {
    /// This folder.
    pub fn new(dir: &Path) -> Folder {
        Folder { dir: dir.to_path_buf() }
    }

    /// A file's contents. None if there is no such file or it cannot be read.
    pub fn read(&self, name: &str) -> Option<Vec<u8>> {
        let from = File::open(self.dir.join(name)).ok()?;
        let len = from.metadata().ok().filter(|m| m.is_file() && m.len() <= MOST_BYTES)?.len();
        let mut bytes = Vec::with_capacity(usize::try_from(len).ok()?);
        from.take(len).read_to_end(&mut bytes).ok()?;
        Some(bytes)
    }

    /// Writes a file under another name first, so that nobody reads half of it.
    ///
    /// # Errors
    /// The folder cannot be created or written.
    pub fn write(&self, name: &str, bytes: &[u8]) -> std::io::Result<()> {
        let path = &self.dir.join(name);
        DirBuilder::new().recursive(true).mode(0o700).create(&self.dir)?;
        self.prune()?;
        let part = path.with_extension(format!("{}.part", std::process::id()));
        // It is left by a killed run whose process had the same number.
        let _ = std::fs::remove_file(&part);
        let mut to = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&part)?;
        let done = to.write_all(bytes).and_then(|()| std::fs::rename(&part, path));
        done.inspect_err(|_| drop(std::fs::remove_file(&part)))
    }

    /// Removes the older half if there are too many files, and the oldest ones if they are too large.
    fn prune(&self) -> std::io::Result<()> {
        let mut files = Vec::new();
        for entry in std::fs::read_dir(&self.dir)?.flatten() {
            let path = entry.path();
            let own = path.extension().is_some_and(|e| OWN.iter().any(|own| e == *own));
            if let (true, Ok(m)) = (own, entry.metadata()) {
                files.push((m.modified().unwrap_or(SystemTime::UNIX_EPOCH), path, m.len()));
            }
        }
        files.sort();
        let mut gone = if files.len() >= MOST_FILES { MOST_FILES / 2 } else { 0 };
        let mut left: u64 = files[gone..].iter().map(|file| file.2).sum();
        while left > MOST_IN_ALL {
            left -= files[gone].2;
            gone += 1;
        }
        files[..gone].iter().for_each(|(_, path, _)| drop(std::fs::remove_file(path)));
        Ok(())
    }
}

/// Name of the file for a result that was computed from the trace with this content key.
fn name_of(key: &[u8], what: &str) -> String {
    let mut hash = std::hash::DefaultHasher::new();
    std::hash::Hash::hash(key, &mut hash);
    format!("{:016x}.{what}", std::hash::Hasher::finish(&hash))
}

impl Kept for Folder {
    fn read(&self, key: &[u8], what: &str) -> Option<Vec<u8>> {
        Folder::read(self, &name_of(key, what))
    }

    fn write(&self, key: &[u8], what: &str, bytes: &[u8]) {
        // If the folder cannot be written, the next run computes the result again.
        let _ = Folder::write(self, &name_of(key, what), bytes);
    }
}

/// The folder for this user: `pct/ctf` in `XDG_CACHE_HOME`, or in `.cache` of the home directory.
pub fn default_folder() -> Option<PathBuf> {
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|p| p.is_absolute());
    let base = absolute("XDG_CACHE_HOME").or_else(|| absolute("HOME").map(|home| home.join(".cache")))?;
    Some(base.join("pct/ctf"))
}
