//! Where the first signal frame may lie: stack memory of the target that nobody uses.
//!
//! Not simply below the stack pointer: a goroutine's or coroutine's stack is 2 to 8 KiB, and its neighbours are data.
//!
//! ```text
//! main thread's [stack]    low end | frames | ... 64 KiB and more that nobody uses ... | sp of the main thread | start
//! a C library's thread     guard | ... 64 KiB and more ... | nine frames' room | red zone | sp | ... | thread block
//! ```
//!
//! A frame that a killed controller left there is still needed as long as its thread has not restored itself
//! from it: it may wait for a processor, be stopped, or run a signal handler whose frame lies below (the low
//! end of the stack moves then) or on another stack. So no frame is written below one that is needed,
//! wherever that lies, nor over it ([`super::linger`] judges it).

use super::frame::{self, Owner};
use crate::memory::{Memory, ProcessMemory};
use procfs::process::{MMapPath, MemoryMap};

/// No used stack may be within this many octets above the frame.
const CLEAR: u64 = 64 << 10;
/// A main stack smaller than this is not trusted to have unused memory at its low end.
const MAIN_STACK: u64 = 96 << 10;
/// This many octets of the mapping must be free below the stack pointer of another thread.
const BELOW: u64 = 64 << 10;
/// The red zone of the System V ABI.
const RED_ZONE: u64 = 128;
/// The most frames that may lie one behind the other, which is how many threads may linger.
const FRAMES: u64 = 9;
/// The most that a handler of the target, running on top of a frame, may need.
pub const HANDLER: u64 = 256 << 10;

/// The thread that is to be borrowed.
#[derive(Debug, Clone, Copy)]
pub struct Borrower {
    /// Its stack pointer.
    pub sp: u64,
    /// Its thread block, 0: none.
    pub fs_base: u64,
    /// Octets that a frame takes, a multiple of 64.
    pub room: u64,
}

/// Memory in which frames may be written, from its low end on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Area {
    low: u64,
    high: u64,
}

/// The address for a frame; `None` if no memory is safe for it. `main_sp` is the main thread's stack pointer if that
/// thread is blocked. `is_needed(at, owner)` says whether the owner of the frame at `at` still has to restore itself.
pub fn first_frame(
    maps: &[MemoryMap],
    thread: Borrower,
    main_sp: Option<u64>,
    memory: &ProcessMemory,
    is_needed: impl Fn(u64, Owner) -> bool,
) -> Option<u64> {
    let read = |area: Area| {
        let mut bytes = vec![0; (area.high - area.low) as usize];
        let whole = memory.read_some(area.low, &mut bytes) == bytes.len();
        whole.then_some(bytes)
    };
    let is_own = memory.read_word(thread.fs_base).is_ok_and(|word| word == thread.fs_base);
    let known = main_stack(maps, thread, main_sp).or_else(|| own_stack(maps, thread, is_own));
    if let Some(area) = known {
        return room_in(area, &read(area)?, thread.room, is_needed);
    }
    // nobody knows who uses the main stack; but if its low end is all zero, it was never used
    let area = untouched(maps, thread.room)?;
    let bytes = read(Area { high: area.high + CLEAR, ..area })?;
    let mut rest = bytes.clone();
    for (at, _) in frame::all_in(&bytes, area.low) {
        let from = (at - area.low) as usize;
        let to = (from + thread.room as usize).min(rest.len());
        rest[from..to].fill(0);
    }
    let is_zero = rest.iter().all(|octet| *octet == 0);
    is_zero.then(|| room_in(area, &bytes[..(area.high - area.low) as usize], thread.room, is_needed))?
}

/// The low end of the main thread's stack, if its owner is known to be far above.
fn main_stack(maps: &[MemoryMap], thread: Borrower, main_sp: Option<u64>) -> Option<Area> {
    let (low, high) = stack_of_main(maps)?;
    let inside = |a: u64| (low..high).contains(&a);
    let owner = if inside(thread.sp) { thread.sp } else { main_sp.filter(|a| inside(*a))? };
    let high = owner.checked_sub(CLEAR).filter(|high| *high >= low + thread.room)?;
    Some(Area { low, high: high.min(low + FRAMES * thread.room + HANDLER) })
}

fn stack_of_main(maps: &[MemoryMap]) -> Option<(u64, u64)> {
    let stack = maps.iter().find(|m| m.pathname == MMapPath::Stack).map(|m| m.address);
    stack.filter(|(low, high)| high - low >= MAIN_STACK)
}

/// Well below the stack pointer on the stack that a C library gave the thread. `is_own`: what `fs_base`
/// points to is its own address, as in any C library's thread block, which lies on top of the thread's stack.
/// (A goroutine or a coroutine runs elsewhere: what is below it is somebody's data.)
fn own_stack(maps: &[MemoryMap], thread: Borrower, is_own: bool) -> Option<Area> {
    let Borrower { sp, fs_base, room } = thread;
    let holds = |m: &&MemoryMap, at: u64| (m.address.0..m.address.1).contains(&at);
    let map = maps.iter().find(|m| holds(m, sp))?;
    if !is_own || fs_base <= sp || !holds(&map, fs_base) {
        return None;
    }
    let enough = sp - map.address.0 >= BELOW + FRAMES * room;
    enough.then(|| Area { low: (sp - RED_ZONE - FRAMES * room) & !63, high: (sp - RED_ZONE) & !63 })
}

/// The low end of the main stack. Whether it was ever used must be checked: then it is not all zero.
fn untouched(maps: &[MemoryMap], room: u64) -> Option<Area> {
    let (low, high) = stack_of_main(maps)?;
    let end = (low + FRAMES * room).min(high.checked_sub(CLEAR)?);
    (end >= low + room).then_some(Area { low, high: end })
}

/// The lowest address in the area (which contains `bytes`) above all frames that are still needed.
fn room_in(area: Area, bytes: &[u8], room: u64, is_needed: impl Fn(u64, Owner) -> bool) -> Option<u64> {
    let frames = frame::all_in(bytes, area.low);
    let needed = frames.into_iter().rev().find(|(at, owner)| is_needed(*at, *owner));
    let low = needed.map_or(area.low, |(at, _)| (at + room).next_multiple_of(64));
    (low + room <= area.high).then_some(low)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ptrace::frame::SignalFrame;
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

    fn at(sp: u64, fs_base: u64) -> Borrower {
        Borrower { sp, fs_base, room: 4096 }
    }

    #[test]
    fn the_low_end_of_the_main_stack_is_taken_when_its_owner_is_far_above() {
        let maps =
            [map(0x10_0000, 0x20_0000, MMapPath::Anonymous), map(0x70_0000, 0x72_1000, MMapPath::Stack)];
        let low = |area: Option<Area>| area.map(|a| a.low);
        assert_eq!(low(main_stack(&maps, at(0x72_0000, 0), None)), Some(0x70_0000));
        // a thread with a stack of its own, main blocked high up
        assert_eq!(low(main_stack(&maps, at(0x1f_0000, 0), Some(0x72_0000))), Some(0x70_0000));
        // main unknown or deep: below the thread's own stack pointer
        assert_eq!(main_stack(&maps, at(0x1f_0000, 0), None), None);
        assert_eq!(main_stack(&maps, at(0x1f_0000, 0), Some(0x70_2000)), None);
        let own = own_stack(&maps, at(0x1f_0000, 0x1f_f000), true);
        assert_eq!(low(own), Some((0x1f_0000 - 128 - 9 * 4096) & !63));
    }

    #[test]
    fn frames_of_any_size_keep_away_from_used_stack() {
        let maps = [map(0x70_0000, 0x72_1000, MMapPath::Stack)];
        let area = main_stack(&maps, Borrower { sp: 0x72_0000, fs_base: 0, room: 12 << 10 }, None).unwrap();
        assert!(area.high + CLEAR <= 0x72_0000);
    }

    #[test]
    fn a_stack_that_no_c_library_made_is_left_alone() {
        let maps = [map(0x10_0000, 0x20_0000, MMapPath::Anonymous)];
        assert_eq!(own_stack(&maps, at(0x1f_0000, 0x1f_f000), false), None, "no thread block");
        assert_eq!(own_stack(&maps, at(0x1f_0000, 0x30_0000), true), None, "a block elsewhere");
        assert_eq!(own_stack(&maps, at(0x1f_0000, 0x1e_0000), true), None, "a block below");
        assert_eq!(own_stack(&maps, at(0x10_1f00, 0x1f_f000), true), None, "a small stack");
        assert_eq!(own_stack(&maps, at(0x90_0000, 0x90_1000), true), None, "not mapped");
    }

    #[test]
    fn no_frame_is_written_over_or_below_one_that_is_needed() {
        let (low, room) = (0x70_0000, 4096);
        let area = Area { low, high: low + 16 * room };
        let mut bytes = vec![0; (area.high - area.low) as usize];
        let regs = crate::ptrace::sys::no_regs();
        // not where pct's frames would lie one after the other: the stack has grown since
        for (offset, tid) in [(5 * room + 192, 7), (9 * room + 64, 8)] {
            let f = SignalFrame::build(low + offset, 0xabcd, &regs, 0, &[0; 832], Owner { tid });
            let from = (f.at - low) as usize;
            bytes[from..from + f.bytes.len()].copy_from_slice(&f.bytes);
        }
        let first = |needed: &[u64]| room_in(area, &bytes, room, |_, owner| needed.contains(&owner.tid));
        assert_eq!(first(&[]), Some(low));
        let above = |offset: u64| Some((low + offset + 56 + room).next_multiple_of(64));
        assert_eq!(first(&[7]), above(5 * room + 192));
        assert_eq!(first(&[8]), above(9 * room + 64));
        assert_eq!(first(&[7, 8]), above(9 * room + 64));
        let small = Area { high: low + 10 * room, ..area };
        assert_eq!(room_in(small, &bytes[..10 * room as usize], room, |_, _| true), None, "no room above");
    }
}
