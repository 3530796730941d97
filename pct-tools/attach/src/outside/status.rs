//! Processes without a recording: a line each in the folder's `pct.status`, where it has one, as the sampler in a program writes it
//! (`PID<TAB>NANOSECONDS`). So the account of a tree closes: what short processes used is named though none of it was seen.

use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Name of the file. Who starts sampling makes it.
const NAME: &str = "pct.status";

/// Appends that a process ended without a sample, and what CPU time it had used.
pub(super) fn without_sample(folder: &Path, pid: i32, cpu_ns: u64) {
    let mut options = OpenOptions::new();
    options.append(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
    let Ok(mut file) = options.open(folder.join(NAME)) else { return };
    // one line more or less is not worth ending for
    let _ = file.write_all(format!("{pid}\t{cpu_ns}\n").as_bytes());
}
