//! Whether the process of a recording is still there.

use pct_format::{Header, State};
use std::path::{Path, PathBuf};

/// Whether a file's process is still running and sampled, told from the file's beginning.
pub(super) fn is_running(path: &Path) -> bool {
    use std::io::Read as _;
    let mut head = Vec::new();
    // The header is in the first block; what a file lacks of its end is no error.
    let read = std::fs::File::open(path).and_then(|f| f.take(1 << 20).read_to_end(&mut head));
    let Ok(file) = pct_format::File::parse(&head) else { return false };
    let header = file.header();
    read.is_ok() && matches!(header.state(), State::Armed | State::Making) && is_alive(&header)
}

/// Is the process of this file still running? By pid and start time, on this boot.
pub(super) fn is_alive(header: &Header<'_>) -> bool {
    let Ok(boot) = std::fs::read_to_string("/proc/sys/kernel/random/boot_id") else { return false };
    let hex: String = header.boot_id().iter().map(|byte| format!("{byte:02x}")).collect();
    if boot.trim().replace('-', "") != hex {
        return false;
    }
    let Ok(stat) = std::fs::read_to_string(format!("/proc/{}/stat", header.pid())) else { return false };
    // Field 22, counted behind the name, which may hold anything.
    let start = stat.rsplit_once(") ").and_then(|(_, rest)| rest.split(' ').nth(19)?.parse::<u64>().ok());
    start == Some(header.start_ticks())
}

/// The root folder of a process that still runs, where that is another one than ours (a container, chroot): what it calls `/lib/x` is
/// below it.
pub(super) fn other_root_of(header: &Header<'_>) -> Option<PathBuf> {
    use std::os::unix::fs::MetadataExt as _;
    let process = PathBuf::from(format!("/proc/{}", header.pid()));
    let which = |process: &Path| {
        let root = std::fs::metadata(process.join("root")).ok()?;
        Some((root.dev(), root.ino(), std::fs::read_link(process.join("ns/mnt")).ok()))
    };
    let theirs = which(&process)?;
    (which(Path::new("/proc/self"))? != theirs && is_alive(header)).then(|| process.join("root"))
}
