//! Whether the process of a recording is still there, and whether somebody still writes the recording.

use pct_format::layout::header as at;
use pct_format::{Clock, Header, State};
use std::path::{Path, PathBuf};

/// Whether a file's process is still running and sampled, told from the file's beginning.
pub(super) fn is_running(path: &Path) -> bool {
    use std::io::Read as _;
    let mut head = Vec::new();
    // The header is in the first block; what a file lacks of its end is no error.
    let read = std::fs::File::open(path).and_then(|f| f.take(1 << 20).read_to_end(&mut head));
    let Ok(file) = pct_format::File::parse(&head) else { return false };
    let header = file.header();
    read.is_ok() && matches!(header.state(), State::Armed | State::Making) && is_sampled(&header)
}

/// Is the process of this file, which was not closed, still sampled? One that is sampled from outside is as
/// long as its controller traces it: the controller may have ended before.
pub(super) fn is_sampled(header: &Header<'_>) -> bool {
    is_alive(header) && (!is_from_outside(header) || is_traced_by_controller(header))
}

/// What is said of so many segments that are not whole: a process that is sampled rewrites them while they are read.
pub(super) fn torn_segments(number: u64, is_sampled: bool) -> &'static str {
    match (number, is_sampled) {
        (1, true) => "segment was being rewritten",
        (_, true) => "segments were being rewritten",
        (1, false) => "segment is damaged",
        (_, false) => "segments are damaged",
    }
}

/// Whether a controller outside of the process writes the file.
pub(super) fn is_from_outside(header: &Header<'_>) -> bool {
    matches!(header.clock_got(), Some(Clock::Wall | Clock::Outside))
}

fn is_traced_by_controller(header: &Header<'_>) -> bool {
    let numbers = |pid: &str, key: &str| {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix(key)).unwrap_or_default();
        line.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
    };
    let Some(tracer) = numbers(&header.pid().to_string(), "TracerPid:").pop() else { return false };
    // The controller wrote its number as it sees itself.
    let controller = header.header_word(at::CONTROLLER).to_string();
    tracer != "0" && numbers(&tracer, "NStgid:").contains(&controller)
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

/// The root folder of a process that still runs, where that is another one than ours (a container, chroot):
/// what it calls `/lib/x` is below it.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_of_a_file_that_nobody_writes_are_damaged() {
        assert_eq!(torn_segments(1, false), "segment is damaged");
        assert_eq!(torn_segments(2, true), "segments were being rewritten");
    }
}
