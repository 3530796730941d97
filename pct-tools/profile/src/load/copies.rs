//! Copies of programs and libraries beside recordings: of files that were deleted or replaced while they were sampled.
//!
//! A copy's name begins with the file's own, so that candidates are found; its build-id or version tells whether it is
//! the file that was sampled.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

/// The folder of copies in a recording's.
pub const FOLDER: &str = "objects";

/// What the copy of the file of this path and inode is called: `libx.so-1a2b`. `None`: the path has no name.
#[must_use]
pub fn name_of(path: &Path, inode: u64) -> Option<OsString> {
    let mut name = path.file_name()?.to_owned();
    name.push(format!("-{inode:x}"));
    Some(name)
}

/// All copies in a recording's folder, sorted.
#[must_use]
pub fn all_of(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder.join(FOLDER)).into_iter().flatten().flatten();
    let mut copies: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    copies.sort_unstable();
    copies
}

/// Those of `copies` that may be of the file of this path.
pub fn named<'c>(copies: &'c [PathBuf], path: &'c Path) -> impl Iterator<Item = &'c Path> {
    let name = path.file_name().unwrap_or_default();
    copies.iter().map(PathBuf::as_path).filter(move |copy| {
        let rest = copy.file_name().and_then(|copy: &OsStr| copy.as_bytes().strip_prefix(name.as_bytes()));
        let inode = rest.and_then(|rest| rest.strip_prefix(b"-"));
        inode.is_some_and(|inode| !inode.is_empty() && inode.iter().all(u8::is_ascii_hexdigit))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_are_found_by_the_name_of_their_file() {
        let copy =
            |path: &str, inode| Path::new("/r/objects").join(name_of(Path::new(path), inode).expect("named"));
        let all = vec![copy("/lib/a.so", 0x1a), copy("/lib/a.so-1", 2), copy("/b/a.so", 3)];
        let of = |path: &'static str| named(&all, Path::new(path)).collect::<Vec<_>>();
        assert_eq!(of("/lib/a.so"), [&all[0], &all[2]]);
        assert_eq!(of("/lib/a.so-1"), [&all[1]]);
        assert!(of("/lib/a").is_empty() && of("/").is_empty());
        assert_eq!(name_of(Path::new("/"), 1), None);
    }
}
