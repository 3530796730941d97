//! Processes without a recording: a line each in the folder's `pct.status`, where it has one, as the sampler
//! in a program writes it (`PID<TAB>NANOSECONDS`, or `PID CAUSE`). So the account of a tree closes: what short
//! processes used is named though none of it was seen.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Name of the file. Who starts sampling makes it.
const NAME: &str = "pct.status";

/// The file. It stays open: what is to be told may be that no descriptor is free.
pub(super) struct Status(Option<File>);

impl Status {
    pub(super) fn open(folder: &Path) -> Status {
        let mut options = OpenOptions::new();
        options.append(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
        Status(options.open(folder.join(NAME)).ok())
    }

    /// Appends that a process ended without a sample, and what CPU time it had used.
    pub(super) fn without_sample(&mut self, pid: i32, cpu_ns: u64) {
        self.append(&format!("{pid}\t{cpu_ns}\n"));
    }

    /// Appends why a process could not be sampled.
    pub(super) fn cause(&mut self, pid: i32, cause: &str) {
        self.append(&format!("{pid} {}\n", cause.replace(['\n', '\t'], "?")));
    }

    fn append(&mut self, line: &str) {
        if let Some(file) = &mut self.0 {
            // one line more or less is not worth ending for
            let _ = file.write_all(line.as_bytes());
        }
    }
}
