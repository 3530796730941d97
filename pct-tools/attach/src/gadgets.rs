//! Instruction sequences that the target has anyway: what the first remote call stands on, before anything is mapped.

use memchr::memmem;

/// `syscall; ret`, or the tail of glibc's syscall wrapper, which returns too when the result is no error
/// (`syscall; cmp $-4095,%rax; jae ..; ret`).
const SYSCALL_RET: &[&[u8]] =
    &[&[0x0f, 0x05, 0xc3], &[0x0f, 0x05, 0x48, 0x3d, 0x01, 0xf0, 0xff, 0xff, 0x73, 0x01, 0xc3]];
/// `mov $15,%rax; syscall`: glibc's and musl's signal restorer, and Go's.
const RESTORERS: &[&[u8]] =
    &[&[0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05], &[0xb8, 0x0f, 0, 0, 0, 0x0f, 0x05]];

/// Addresses of the two sequences in the target's executable memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Gadgets {
    /// Makes the system call in rax and returns.
    pub syscall_ret: Option<u64>,
    /// Makes `rt_sigreturn`.
    pub restorer: Option<u64>,
}

impl Gadgets {
    /// Looks for what is still missing in `text`, which lies at `start`.
    pub fn search(&mut self, text: &[u8], start: u64) {
        let find = |patterns: &[&[u8]]| {
            patterns.iter().find_map(|p| memmem::find(text, p)).map(|o| start + o as u64)
        };
        self.syscall_ret = self.syscall_ret.or_else(|| find(SYSCALL_RET));
        self.restorer = self.restorer.or_else(|| find(RESTORERS));
    }

    /// Both are known.
    pub fn complete(&self) -> bool {
        self.syscall_ret.is_some() && self.restorer.is_some()
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
    }
}
