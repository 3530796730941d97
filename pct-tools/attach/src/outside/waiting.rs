//! Threads that wait, seen without stopping them: `/proc/PID/task/TID/syscall` gives the system call, the
//! stack pointer and the program counter; the stack is read from the target's memory.
//!
//! The other registers cannot be read that way. Most frames need only the stack pointer; one that hangs on
//! rbp (code built with frame pointers, or with stacks of variable size) is found by looking upwards for what
//! such a function pushes: a saved rbp with a return address above it. The first place from which the walk
//! reaches the stack's end is taken, where what is saved looks like a caller's rbp; or an earlier one where
//! it does not (the caller used rbp for something else) and the walk is longer.

use crate::memory::{Memory, ProcessMemory};
use crate::ptrace::sys::{self, Regs};
use crate::unwind::Unwind;
use pct_format::record::CutCause;
use pct_unwind::Placed;

/// What a thread does at the moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// It runs, or could.
    Running,
    /// It waits in the kernel.
    Waiting {
        /// The system call; -1: in none (stopped, or in a page fault).
        call: i64,
        /// Its first two arguments; 0 without a call.
        arguments: [u64; 2],
        /// Its stack pointer.
        sp: u64,
        /// The instruction after the system call.
        pc: u64,
    },
}

/// Reads a line of `/proc/PID/task/TID/syscall`: `running`, or the call, its six arguments (none for -1), sp and pc.
pub fn parse(line: &[u8]) -> Option<Place> {
    let line = std::str::from_utf8(line).ok()?.trim_end();
    if line == "running" {
        return Some(Place::Running);
    }
    let hex = |w: &str| u64::from_str_radix(w.strip_prefix("0x")?, 16).ok();
    let mut words = line.split(' ');
    let call = words.next()?.parse().ok()?;
    let pc = hex(words.next_back()?)?;
    let sp = hex(words.next_back()?)?;
    let arguments = [0; 2].map(|none| words.next().and_then(hex).unwrap_or(none));
    Some(Place::Waiting { call, arguments, sp, pc })
}

/// How far up a function's saved rbp is looked for.
const FAR: usize = 16 << 10;
/// Places that are tried.
const TRIES: usize = 12;

/// The stack of a waiting thread, as [`Unwind::walk`] gives it. `code` says whether an address lies in a region.
pub fn walk(
    unwind: &mut impl Unwind,
    (sp, pc): (u64, u64),
    code: impl Fn(u64) -> bool,
    memory: &ProcessMemory,
    out: &mut Vec<Placed>,
) -> Option<CutCause> {
    let mut regs: Regs = sys::no_regs();
    (regs.rsp, regs.rip) = (sp, pc);
    let mut cut = unwind.walk(&regs, memory, out);
    if cut.is_none() && !out.is_empty() {
        return cut;
    }
    // from the frame on at which the walk stood still
    let mut bytes = vec![0; FAR];
    let n = memory.read_some(sp, &mut bytes);
    let words: Vec<u64> =
        bytes[..n].chunks_exact(8).map(|c| u64::from_ne_bytes(c.try_into().unwrap_or_default())).collect();
    let last = out.iter().rev().find_map(|f| words.iter().position(|w| *w == f.entry));
    let mut best = out.clone();
    let mut whole = false;
    let mut tries = 0;
    for i in last.map_or(0, |i| i + 1)..words.len().saturating_sub(1) {
        let slot = sp + 8 * i as u64;
        let saved = words[i];
        // the caller's rbp: further up this stack, or none (the outermost frame's)
        let plausible = saved == 0 || saved == 1 || (saved > slot && saved - slot < 8 << 20);
        if !code(words[i + 1]) || !follows_call(words[i + 1], memory) {
            continue;
        }
        regs.rbp = slot;
        out.clear();
        let ends = unwind.walk(&regs, memory, out);
        let is_whole = ends.is_none() && !out.is_empty();
        if (is_whole, out.len()) > (whole, best.len()) {
            (whole, cut) = (is_whole, ends);
            best.clone_from(out);
        }
        if is_whole && plausible {
            break;
        }
        tries += 1;
        if tries == TRIES {
            break;
        }
    }
    *out = best;
    cut
}

/// A call instruction ends right before `address`: `e8` with four octets, or `ff /2` with two to seven.
fn follows_call(address: u64, memory: &ProcessMemory) -> bool {
    let mut b = [0u8; 8];
    if address < 8 || memory.read(address - 8, &mut b).is_err() {
        return false;
    }
    b[3] == 0xe8 || (2..=7).any(|len| b[8 - len] == 0xff && b[9 - len] & 0x38 == 0x10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_lines_are_read() {
        assert_eq!(parse(b"running\n"), Some(Place::Running));
        let line = b"232 0x4 0x7ffd0 0x10 0xffffffffffffffff 0x0 0x0 0x7ffc1000 0x7f0012\n";
        assert_eq!(
            parse(line),
            Some(Place::Waiting { call: 232, arguments: [4, 0x7ffd0], sp: 0x7ffc_1000, pc: 0x7f_0012 })
        );
        assert_eq!(
            parse(b"-1 0x7000 0x4000\n"),
            Some(Place::Waiting { call: -1, arguments: [0, 0], sp: 0x7000, pc: 0x4000 })
        );
        for bad in [&b""[..], b"5", b"x 0x1 0x2", b"1 2 3", b"\xff\xfe"] {
            assert_eq!(parse(bad), None);
        }
    }
}
