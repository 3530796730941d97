//! Instruction sequences that the target's own code has. The first call in the target uses them, because pct
//! has not mapped anything yet.
//!
//! A small static program may lack them (musl links its signal restorer only where `sigaction` is used). Then pct
//! writes them behind the end of the program's code, into the rest of the last page. That memory is mapped executable,
//! but nobody executes it and it holds nobody's data.

use crate::memory::{Memory, ProcessMemory};
use memchr::memmem;
use std::io;

/// `syscall; ret`, or the tail of glibc's syscall wrapper, which also returns if the result is no error
/// (`syscall; cmp $-4095,%rax; jae ..; ret`).
const SYSCALL_RET: &[&[u8]] =
    &[&[0x0f, 0x05, 0xc3], &[0x0f, 0x05, 0x48, 0x3d, 0x01, 0xf0, 0xff, 0xff, 0x73, 0x01, 0xc3]];
/// `mov $15,%rax; syscall`: glibc's and musl's signal restorer, and Go's.
const RESTORERS: &[&[u8]] =
    &[&[0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05], &[0xb8, 0x0f, 0, 0, 0, 0x0f, 0x05]];

/// Addresses of the two sequences in the target's executable memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Gadgets {
    /// Address of code that makes the system call in rax and returns.
    pub syscall_ret: Option<u64>,
    /// Address of code that calls `rt_sigreturn`.
    pub restorer: Option<u64>,
}

impl Gadgets {
    /// Searches `text`, which lies at `start`, for the sequences that are still missing.
    pub fn search(&mut self, text: &[u8], start: u64) {
        let find = |patterns: &[&[u8]]| {
            patterns.iter().find_map(|p| memmem::find(text, p)).map(|o| start + o as u64)
        };
        self.syscall_ret = self.syscall_ret.or_else(|| find(SYSCALL_RET));
        self.restorer = self.restorer.or_else(|| find(RESTORERS));
    }

    /// Writes both sequences into `room` (address, octets) behind the end of some code. They stay there until the
    /// returned value is dropped. It writes nothing if both are known already or there is no room.
    ///
    /// # Errors
    /// When the memory cannot be written.
    pub fn plant(self, room: Option<u64>, memory: &ProcessMemory) -> io::Result<Planted<'_>> {
        let (Some(at), false) = (room, self.complete()) else {
            return Ok(Planted { gadgets: self, undo: None });
        };
        let mut before = [0; SEQUENCES.len()];
        memory.read(at, &mut before)?;
        memory.write(at, SEQUENCES)?;
        let gadgets = Gadgets { syscall_ret: Some(at), restorer: Some(at + 3) };
        Ok(Planted { gadgets, undo: Some((memory, at, before)) })
    }

    /// Whether both sequences are known.
    pub fn complete(&self) -> bool {
        self.syscall_ret.is_some() && self.restorer.is_some()
    }
}

/// Whether both sequences are still where they were found: then the same program still runs, and no other controller
/// has removed those that it wrote.
pub fn are_at((syscall, restorer): (u64, u64), memory: &impl Memory) -> bool {
    let is_one_of = |at: u64, patterns: &[&[u8]]| {
        patterns.iter().any(|p| memory.bytes(at, p.len() as u64, 64).is_ok_and(|bytes| bytes == **p))
    };
    is_one_of(syscall, SYSCALL_RET) && is_one_of(restorer, RESTORERS)
}

/// `syscall; ret; mov $15,%rax; syscall; ud2`
const SEQUENCES: &[u8; 14] = &[0x0f, 0x05, 0xc3, 0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05, 0x0f, 0x0b];

/// Length in octets of what [`Gadgets::plant`] writes.
pub const ROOM: u64 = SEQUENCES.len() as u64;

/// Gadgets that pct may have written itself. Dropping this value removes those.
#[derive(Debug)]
pub struct Planted<'m> {
    /// Where they are.
    pub gadgets: Gadgets,
    undo: Option<(&'m ProcessMemory, u64, [u8; SEQUENCES.len()])>,
}

impl Planted<'_> {
    /// Leaves them in place, because a thread may still execute them.
    pub fn keep(&mut self) {
        self.undo = None;
    }
}

impl Drop for Planted<'_> {
    fn drop(&mut self) {
        if let Some((memory, at, before)) = self.undo.take() {
            let _ = memory.write(at, &before);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_sequences_are_found_where_they_lie() {
        let mut text = vec![0x90; 100];
        text[40..43].copy_from_slice(&[0x0f, 0x05, 0xc3]);
        text[60..69].copy_from_slice(RESTORERS[0]);
        let mut g = Gadgets::default();
        g.search(&text[..50], 0x1000);
        assert_eq!(g, Gadgets { syscall_ret: Some(0x1028), restorer: None });
        g.search(&text, 0x1000);
        assert!(g.complete());
        assert_eq!(g.restorer, Some(0x103c));
        let memory = crate::memory::FakeMemory { areas: vec![(0x1000, text)] };
        assert!(are_at((0x1028, 0x103c), &memory));
        assert!(!are_at((0x1028, 0x103d), &memory) && !are_at((0x1027, 0x103c), &memory));
        assert!(!are_at((0x1028, 0x9_0000), &memory));
    }
}
