//! A recording's bytes, whatever lies at the path: never more than there can be of it, never without an end.
//!
//! A path may name a device that gives zeros for ever, a sparse file of a terabyte, or a pipe. A .pct file
//! says how long it may become, so nobody needs to believe the file system; for all others half of the
//! machine's free memory is the limit.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::FileTypeExt as _;
use std::path::Path;

use pct_format::layout::{self, header};

/// The word for standard input.
pub const STDIN: &str = "-";
/// A .pct file up to this size is read whatever its header says (it may be damaged): the largest that `--limit` allows.
const SURE: u64 = 1 << 30;
/// More than this does not come out of a pipe.
const MOST_OF_A_PIPE: u64 = 4 << 30;

/// Whether the path is a stream that can be read once: standard input, a pipe.
#[must_use]
pub fn is_stream(path: &Path) -> bool {
    path == Path::new(STDIN) || std::fs::metadata(path).is_ok_and(|meta| meta.file_type().is_fifo())
}

/// Reads a file or a stream (`-` is standard input) to its end.
///
/// # Errors
/// What the system says; a folder, a device; more bytes than a recording can have, or than there is memory for.
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    let path = if path == Path::new(STDIN) { Path::new("/dev/stdin") } else { path };
    // Asked before it is opened: opening a device may do something.
    let kind = std::fs::metadata(path)?.file_type();
    if kind.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    if kind.is_char_device() || kind.is_block_device() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "a device, where a recording was expected"));
    }
    let mut file = File::open(path)?;
    if !kind.is_file() {
        return up_to(&mut file, Vec::new(), MOST_OF_A_PIPE.min(free_memory()));
    }
    let length = file.metadata()?.len();
    let mut head = Vec::new();
    file.by_ref().take(layout::HEADER_BYTES as u64).read_to_end(&mut head)?;
    if head.len() < layout::HEADER_BYTES || head.iter().all(|&byte| byte == 0) {
        // Whoever parses it says that it is cut short, or was never begun.
        let most = if head.iter().all(|&byte| byte == 0) { 1 << 20 } else { u64::MAX };
        file.take(most).read_to_end(&mut head)?;
        return Ok(head);
    }
    let word = |at: usize| {
        head.get(at * 8..at * 8 + 8).and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_le_bytes)
    };
    let most = if word(header::MAGIC) == layout::MAGIC {
        // What was allocated ahead is within the limit; a file that grows while it is read is too.
        word(header::LIMIT).max(word(header::ALLOCATED)).max(SURE).min(free_memory())
    } else {
        free_memory()
    };
    if length > most {
        return Err(too_large(length, most));
    }
    head.try_reserve_exact(usize::try_from(length).unwrap_or(usize::MAX).saturating_sub(head.len()))?;
    up_to(&mut file, head, most)
}

fn up_to(file: &mut File, mut bytes: Vec<u8>, most: u64) -> io::Result<Vec<u8>> {
    let left = most.saturating_sub(bytes.len() as u64);
    file.take(left.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        return Err(too_large(bytes.len() as u64, most));
    }
    Ok(bytes)
}

fn too_large(found: u64, most: u64) -> io::Error {
    io::Error::new(
        io::ErrorKind::FileTooLarge,
        format!(
            "{found} bytes or more; at most {most} can be read (a recording says its limit, and memory has one)"
        ),
    )
}

/// Half of the memory that is available, in bytes; eight gigabytes where /proc does not tell.
fn free_memory() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let available = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let kib = available.and_then(|rest| rest.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
    kib.map_or(8 << 30, |kib| kib.saturating_mul(1024) / 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_comes_whole_and_a_pipe_too() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("x");
        let text: Vec<u8> = (0..200_000_u32).map(|n| (n % 251) as u8).collect();
        std::fs::write(&path, &text).expect("written");
        assert_eq!(read(&path).expect("read"), text);
        std::fs::write(&path, b"short").expect("written");
        assert_eq!(read(&path).expect("read"), b"short");
        let fifo = dir.path().join("fifo");
        assert!(std::process::Command::new("mkfifo").arg(&fifo).status().expect("runs").success());
        assert!(is_stream(&fifo) && !is_stream(&path) && is_stream(Path::new("-")));
        let writer = std::thread::spawn({
            let (fifo, text) = (fifo.clone(), text.clone());
            move || std::fs::write(fifo, text)
        });
        assert_eq!(read(&fifo).expect("read"), text);
        writer.join().expect("joined").expect("written");
    }

    #[test]
    fn devices_folders_and_endless_files_are_refused() {
        let dir = tempfile::tempdir().expect("a folder");
        assert!(read(Path::new("/dev/zero")).expect_err("refused").to_string().contains("device"));
        assert!(read(dir.path()).is_err());
        let path = dir.path().join("sparse.pct");
        let file = File::create(&path).expect("made");
        file.set_len(1 << 42).expect("sparse");
        // Nothing but zeros at its start: a file that was never begun.
        let zeros = read(&path).expect("read");
        assert_eq!(pct_format::File::parse(&zeros).err(), Some(pct_format::Error::Unfinished));
        let begun = pct_format::builder::Builder::new().finish();
        std::fs::write(&path, &begun).expect("written");
        assert_eq!(read(&path).expect("read"), begun);
        File::options().write(true).open(&path).expect("opened").set_len(1 << 42).expect("sparse");
        let why = read(&path).expect_err("refused").to_string();
        assert!(why.contains("4398046511104 bytes"), "{why}");
        std::fs::write(&path, vec![b'x'; 4096]).expect("written");
        File::options().write(true).open(&path).expect("opened").set_len(1 << 42).expect("sparse");
        assert!(read(&path).is_err());
    }
}
