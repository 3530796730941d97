//! A thread that stands before the first instruction of a signal handler.
//!
//! A thread that is asked to stop takes its pending signals first: it stops with the handler's frame already made. Go's
//! runtime sends a signal to each busy thread a hundred times a second, so that samples seemed to fall into
//! `runtime.sigtramp`, where nothing had run yet. Their time belongs to what was interrupted.
//!
//! ```text
//!  rsp -> return address (the restorer) | ucontext (rdx) | siginfo (rsi)      as rt_sigframe of the kernel, x86-64
//! ```

use crate::memory::Memory;
use crate::ptrace::sys::Regs;

/// Octets of the kernel's `struct ucontext`, behind which the frame has the `siginfo`.
const UCONTEXT: u64 = 304;
/// Where the general registers begin in it.
const REGISTERS: u64 = 40;
/// `mov $15, %rax` or `mov $15, %eax`, then `syscall`: what a restorer is.
const RESTORERS: [&[u8]; 2] =
    [&[0x48, 0xc7, 0xc0, 15, 0, 0, 0, 0x0f, 0x05], &[0xb8, 15, 0, 0, 0, 0x0f, 0x05]];

/// The registers of what a signal interrupted, if its handler has not run an instruction yet.
pub(super) fn interrupted(regs: &Regs, memory: &impl Memory) -> Option<Regs> {
    let context = regs.rsp.wrapping_add(8);
    // The kernel hands both over in registers. A handler that has begun keeps neither for long.
    if regs.rdx != context || regs.rsi != context.wrapping_add(UCONTEXT) {
        return None;
    }
    let restorer = memory.read_word(regs.rsp).ok()?;
    let is_restorer = RESTORERS.iter().any(|code| {
        let found = memory.bytes(restorer, code.len() as u64, 16);
        found.is_ok_and(|found| found == *code)
    });
    if !is_restorer {
        return None;
    }
    let mut words = [0; 17];
    for (at, word) in (0u64..).zip(&mut words) {
        *word = memory.read_word(context.wrapping_add(REGISTERS + at * 8)).ok()?;
    }
    let [r8, r9, r10, r11, r12, r13, r14, r15, rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp, rip] = words;
    Some(Regs { r8, r9, r10, r11, r12, r13, r14, r15, rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp, rip, ..*regs })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ptrace::sys;
    use std::io;

    /// Octets from an address on.
    struct Image(u64, Vec<u8>);

    impl Memory for Image {
        fn read(&self, addr: u64, out: &mut [u8]) -> io::Result<()> {
            let from = addr.checked_sub(self.0).and_then(|at| usize::try_from(at).ok());
            let found = from.and_then(|from| self.1.get(from..)?.get(..out.len()));
            out.copy_from_slice(found.ok_or(io::ErrorKind::UnexpectedEof)?);
            Ok(())
        }
    }

    /// A restorer at 0x1000, a frame at 0x1100 whose registers are 100, 101, ...
    fn stopped(restorer: &[u8]) -> (Regs, Image) {
        let mut octets = vec![0; 0x400];
        octets[..restorer.len()].copy_from_slice(restorer);
        octets[0x100..0x108].copy_from_slice(&0x1000u64.to_le_bytes());
        for n in 0..17u64 {
            let at = 0x108 + 40 + n as usize * 8;
            octets[at..at + 8].copy_from_slice(&(100 + n).to_le_bytes());
        }
        let mut regs = sys::no_regs();
        (regs.rsp, regs.rdx, regs.rsi, regs.rip) = (0x1100, 0x1108, 0x1108 + 304, 0x77);
        (regs, Image(0x1000, octets))
    }

    #[test]
    fn before_a_handlers_first_instruction_the_interrupted_code_is_sampled() {
        for restorer in RESTORERS {
            let (regs, memory) = stopped(restorer);
            let found = interrupted(&regs, &memory).expect("a handler's entry");
            assert_eq!((found.r8, found.rbp, found.rsp, found.rip), (100, 110, 115, 116));
        }
    }

    #[test]
    fn other_places_are_left_as_they_are() {
        let (mut regs, memory) = stopped(RESTORERS[0]);
        regs.rdx += 8;
        assert!(interrupted(&regs, &memory).is_none(), "a handler that runs");
        let (regs, memory) = stopped(&[0x90; 9]);
        assert!(interrupted(&regs, &memory).is_none(), "a function with such arguments");
    }
}
