//! The folder that `perf record --threads` writes: `data` is a file as without it, and `data.0`, `data.1` and so on
//! have the records of each of the recorder's threads.

use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

/// The file of a recording that has its head: `path` itself, or `data` in a folder of perf's; `None` for other folders.
#[must_use]
pub fn main_file(path: &Path) -> Option<PathBuf> {
    if !path.is_dir() {
        return Some(path.to_owned());
    }
    let main = path.join("data");
    let mut head = [0; 8];
    let is_perf =
        main.is_file() && std::fs::File::open(&main).and_then(|mut file| file.read_exact(&mut head)).is_ok();
    (is_perf && (&head == b"PERFILE2" || &head == b"2ELIFREP")).then_some(main)
}

/// Names and contents of the files beside `data`, in order of their numbers.
///
/// # Errors
/// What the system says of one that cannot be read, with its name.
pub(crate) fn others(folder: &Path) -> io::Result<Vec<(String, Vec<u8>)>> {
    let mut numbers = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let name = entry?.file_name();
        numbers.extend(
            name.to_str().and_then(|name| name.strip_prefix("data.")).and_then(|n| n.parse::<u32>().ok()),
        );
    }
    numbers.sort_unstable();
    let read = |number: u32| {
        let name = format!("data.{number}");
        let bytes = pct_profile::load::whole::read(&folder.join(&name));
        let bytes = bytes.map_err(|why| io::Error::new(why.kind(), format!("{name}: {why}")))?;
        Ok((name, bytes))
    };
    numbers.into_iter().map(read).collect()
}
