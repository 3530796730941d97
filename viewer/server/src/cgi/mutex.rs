//! One process at a time decides about the server of a data file.
//!
//! The lock belongs to the open file, not to a process: a server inherits it, and the kernel releases it when the last
//! holder is gone. Only the holder of the lock removes the file. Whoever gets the lock of a removed file tries again.

use super::names::Names;
use nix::fcntl::OFlag;
use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::sync::mpsc;
use std::time::Instant;

/// Whether a path names this very file.
#[must_use]
pub fn is_at(file: &File, path: &Path) -> bool {
    match (file.metadata(), std::fs::symlink_metadata(path)) {
        (Ok(a), Ok(b)) => (a.dev(), a.ino()) == (b.dev(), b.ino()),
        _ => false,
    }
}

fn open(names: &Names) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .custom_flags((OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK).bits())
        .open(names.mutex())
}

/// Takes the lock if nobody has it.
///
/// # Errors
/// The file cannot be made or locked.
pub fn try_lock(names: &Names) -> io::Result<Option<File>> {
    loop {
        let file = open(names)?;
        match file.try_lock() {
            Ok(()) if is_at(&file, &names.mutex()) => return Ok(Some(file)),
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(e)) => return Err(e),
        }
    }
}

/// Takes the lock. `None`: it was not free before the deadline.
///
/// # Errors
/// The file cannot be made or locked.
pub fn lock(names: &Names, deadline: Instant) -> io::Result<Option<File>> {
    loop {
        if let Some(file) = try_lock(names)? {
            return Ok(Some(file));
        }
        let file = open(names)?;
        let (sender, receiver) = mpsc::channel();
        // A lock has no time limit, so another thread waits for it. If it waits too long, this process ends soon.
        std::thread::Builder::new().spawn(move || {
            let locked = file.lock().map(|()| file);
            let _ = sender.send(locked);
        })?;
        match receiver.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(locked) => {
                let file = locked?;
                if is_at(&file, &names.mutex()) {
                    return Ok(Some(file));
                }
            }
            Err(_) => return Ok(None),
        }
    }
}
