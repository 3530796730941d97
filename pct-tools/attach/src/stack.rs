//! Where the first signal frame may lie: stack memory of the target that nobody uses.
//!
//! Not simply below the stack pointer: a goroutine's or coroutine's stack is 2 to 8 KiB, and its neighbours are data.

use crate::ptrace::frame::Owner;
use procfs::process::{MMapPath, MemoryMap};

/// No used stack may be within this many octets above the frame.
const CLEAR: u64 = 64 << 10;
/// A main stack smaller than this is not trusted to have unused memory at its low end.
const MAIN_STACK: u64 = 96 << 10;
/// Below another thread's stack pointer so much of the same mapping must be free.
const BELOW: u64 = 64 << 10;
/// The red zone of the System V ABI.
const RED_ZONE: u64 = 128;

/// The address for a frame of `room` octets: the low end of the main thread's `[stack]` when its owner is far above, else
/// well below `sp` in a mapping that is large enough; `None` when neither is safe.
///
/// `main_sp` is read from `/proc/PID/task/PID/syscall` when the main thread is blocked; a running main thread's stack
/// pointer is not known and its stack is left alone unless `sp` itself lies on it.
pub fn first_frame(maps: &[MemoryMap], pid: i32, sp: u64, room: u64) -> Option<u64> {
    choose(maps, sp, blocked_sp(pid, pid), room)
}

fn choose(maps: &[MemoryMap], sp: u64, main_sp: Option<u64>, room: u64) -> Option<u64> {
    let stack = maps.iter().find(|m| m.pathname == MMapPath::Stack).map(|m| m.address);
    if let Some((low, high)) = stack
        && high - low >= MAIN_STACK
    {
        let inside = |a: u64| (low..high).contains(&a);
        let owner = if inside(sp) { Some(sp) } else { main_sp.filter(|a| inside(*a)) };
        if owner.is_some_and(|a| a >= low + room + CLEAR) {
            return Some(low);
        }
    }
    let (low, _) = maps.iter().find(|m| (m.address.0..m.address.1).contains(&sp)).map(|m| m.address)?;
    // room for some frames, one behind the other
    (sp - low >= BELOW + 9 * room).then(|| (sp - RED_ZONE - 9 * room) & !63)
}

/// Nanoseconds that a thread has run: the first word of `/proc/PID/task/TID/schedstat`.
pub fn ran(pid: i32, tid: u64) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/task/{tid}/schedstat")).ok()?;
    text.split(' ').next()?.parse().ok()
}

/// Whether a thread that was let go in the middle of a bare system call of ours, its frame in `low..high`, has got out of it: it has
/// ended, it waits elsewhere, or it has run for longer than such a call takes.
pub fn has_left(pid: i32, owner: Owner, low: u64, high: u64) -> bool {
    /// A handler may be running below the frame.
    const HANDLER: u64 = 256 << 10;
    const ENOUGH_NS: u64 = 20_000_000;
    let Ok(tid) = i32::try_from(owner.tid) else { return true };
    if !std::path::Path::new(&format!("/proc/{pid}/task/{tid}")).exists() {
        return true;
    }
    match blocked_sp(pid, tid) {
        Some(sp) => !(low.saturating_sub(HANDLER)..high).contains(&sp),
        None => ran(pid, owner.tid).is_some_and(|now| now.saturating_sub(owner.ran) > ENOUGH_NS),
    }
}

/// The stack pointer of a blocked thread: the last but one word of `/proc/PID/task/TID/syscall`.
pub fn blocked_sp(pid: i32, tid: i32) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/task/{tid}/syscall")).ok()?;
    let words: Vec<&str> = text.split_whitespace().collect();
    let sp = words.len().checked_sub(2).and_then(|i| words.get(i))?;
    u64::from_str_radix(sp.strip_prefix("0x")?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use procfs::process::MMPermissions;

    fn map(from: u64, to: u64, pathname: MMapPath) -> MemoryMap {
        MemoryMap {
            address: (from, to),
            perms: MMPermissions::READ | MMPermissions::WRITE,
            offset: 0,
            dev: (0, 0),
            inode: 0,
            pathname,
            extension: Default::default(),
        }
    }

    #[test]
    fn the_low_end_of_the_main_stack_is_taken_when_its_owner_is_far_above() {
        let maps =
            [map(0x10_0000, 0x20_0000, MMapPath::Anonymous), map(0x70_0000, 0x72_1000, MMapPath::Stack)];
        assert_eq!(choose(&maps, 0x72_0000, None, 4096), Some(0x70_0000));
        // a thread with a stack of its own, main blocked high up
        assert_eq!(choose(&maps, 0x1f_0000, Some(0x72_0000), 4096), Some(0x70_0000));
        // main unknown or deep: below the thread's own stack pointer
        assert_eq!(choose(&maps, 0x1f_0000, None, 4096), Some((0x1f_0000 - 128 - 9 * 4096) & !63));
        assert_eq!(choose(&maps, 0x1f_0000, Some(0x70_2000), 4096), Some((0x1f_0000 - 128 - 9 * 4096) & !63));
    }

    #[test]
    fn a_small_stack_has_no_room() {
        let maps = [map(0x10_0000, 0x10_2000, MMapPath::Anonymous)];
        assert_eq!(choose(&maps, 0x10_1f00, None, 4096), None);
        assert_eq!(choose(&maps, 0x90_0000, None, 4096), None);
    }
}
