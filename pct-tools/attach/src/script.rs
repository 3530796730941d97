//! Scripts: files that name the program which runs them, in their first line (execve(2), *Interpreter scripts*).

use std::ffi::OsStr;
use std::fs::{self, OpenOptions};
use std::io::Read as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

/// The kernel follows so many scripts that are each other's interpreters.
pub const MOST: usize = 5;

/// The first octets of a file, `most` of them. `None`: it is not a regular file (to open a pipe would wait for its
/// writer), or cannot be read.
#[must_use]
pub fn head_of(file: &Path, most: u64) -> Option<Vec<u8>> {
    if !fs::metadata(file).ok()?.is_file() {
        return None;
    }
    let opened = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(file).ok()?;
    let mut head = Vec::new();
    opened.take(most).read_to_end(&mut head).ok()?;
    Some(head)
}

/// The words of the first line of a script that begins with `head`, without the `#!`. `None`: it is no script.
#[must_use]
pub fn words(head: &[u8]) -> Option<Vec<&[u8]>> {
    let line = head.strip_prefix(b"#!")?.split(|&byte| byte == b'\n').next()?;
    Some(line.split(|&byte| byte == b' ' || byte == b'\t').filter(|word| !word.is_empty()).collect())
}

/// The program that runs a script that begins with `head`, as the script calls it. `None`: it is no script, or names
/// none.
#[must_use]
pub fn interpreter(head: &[u8]) -> Option<&Path> {
    words(head)?.first().map(|word| Path::new(OsStr::from_bytes(word)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interpreters_are_found_in_the_first_line() {
        let of = |head: &str| interpreter(head.as_bytes()).map(|path| path.display().to_string());
        assert_eq!(of("#! /bin/sh -e\n/bin/false").as_deref(), Some("/bin/sh"));
        assert_eq!(of("#!sh").as_deref(), Some("sh"));
        for none in ["", "#", "#!", "#! \t \nsh", "/bin/sh", " #!/bin/sh"] {
            assert_eq!(of(none), None, "{none:?}");
        }
    }

    #[test]
    fn only_regular_files_are_opened() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().join(name);
        assert!(std::process::Command::new("mkfifo").arg(path("pipe")).status().expect("runs").success());
        assert_eq!(head_of(&path("pipe"), 9), None);
        assert_eq!(head_of(folder.path(), 9), None);
        assert_eq!(head_of(&path("nothing"), 9), None);
        fs::write(path("file"), "0123456789").expect("written");
        assert_eq!(head_of(&path("file"), 9).as_deref(), Some(&b"012345678"[..]));
    }
}
