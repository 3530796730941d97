//! The file in which the library keeps what it found out about objects, so that each is searched once.
//!
//! The library opens it where it is and never makes it, so that a program leaves nothing behind by itself. Without it
//! each process searches its objects anew, and large programs take a clock that costs a little more.

use crate::runlib;
use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

/// A table of 8,192 answers.
const BYTES: u64 = 64 << 10;
/// Its name in the user's folder for what can be made again; the library knows it too.
const NAME: &str = "objects";

/// Makes the file if the user has none. What stands in the way does not matter: the library goes on without it.
pub fn make_file() {
    let _ = runlib::cache().filter(|folder| folder.is_absolute()).map(|folder| make_in(&folder));
}

/// Makes the file if the user has none. Gives what stands in the way of it, in words.
#[must_use]
pub fn why_no_file() -> Option<String> {
    let Some(folder) = runlib::cache().filter(|folder| folder.is_absolute()) else {
        return Some("there is no folder for it: HOME and XDG_CACHE_HOME name none".into());
    };
    why_none_in(&folder)
}

fn why_none_in(folder: &Path) -> Option<String> {
    let made = make_in(folder);
    let path = folder.join(NAME);
    // The library reads and writes it. If that works, it was there before.
    let opened = File::options().read(true).write(true).open(&path).err()?;
    let why = made.err().filter(|why| why.kind() != io::ErrorKind::AlreadyExists).unwrap_or(opened);
    Some(format!("{}: {why}", path.display()))
}

fn make_in(folder: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o755).create(folder)?;
    // Under sudo the folder is often another user's. That user could not write to a file that root has made.
    if fs::metadata(folder)?.uid() == nix::unistd::geteuid().as_raw() {
        File::options().write(true).create_new(true).mode(0o600).open(folder.join(NAME))?.set_len(BYTES)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_is_made_once() {
        let home = tempfile::tempdir().expect("a folder");
        let folder = home.path().join("pct");
        make_in(&folder).expect("made");
        let path = folder.join(NAME);
        assert_eq!(fs::read(&path).expect("read"), vec![0; 64 << 10]);
        fs::write(&path, [1; 64 << 10]).expect("written");
        assert!(make_in(&folder).is_err(), "there is one");
        assert_eq!(fs::read(&path).expect("read"), vec![1; 64 << 10], "what is known stays");
        assert_eq!(fs::read_dir(&folder).expect("read").count(), 1, "nothing else is left");
    }

    #[test]
    fn what_stands_in_the_way_of_the_file_is_told() {
        let home = tempfile::tempdir().expect("a folder");
        let folder = home.path().join("pct");
        assert_eq!(why_none_in(&folder), None, "made");
        assert_eq!(why_none_in(&folder), None, "it is there");
        fs::remove_file(folder.join(NAME)).expect("removed");
        fs::create_dir(folder.join(NAME)).expect("made");
        let why = why_none_in(&folder).expect("a folder is in its place");
        assert!(why.starts_with(&format!("{}: ", folder.join(NAME).display())), "{why}");
        let file = home.path().join("file");
        fs::write(&file, "").expect("written");
        assert!(why_none_in(&file).is_some(), "the folder is a file");
    }
}
