//! The signal frame that lets a borrowed thread restore itself.
//!
//! When a controller is killed, the kernel detaches and the thread runs on with whatever registers it has. So
//! a call in the target is prepared as a chain that ends in `rt_sigreturn`, and the frame built here is what that
//! call reads: the thread's own registers, signal mask and extended state.
//!
//! ```text
//!     at                        what                        who reads it
//!     sp                        address of the restorer     `ret` of the gadget
//!     sp + 8                    struct ucontext             rt_sigreturn (rsp points here)
//!     aligned to 64 behind it   xsave image, magic2         rt_sigreturn, through uc_mcontext.fpstate
//! ```
//!
//! Layouts: struct ucontext and struct sigcontext of the kernel's x86 uapi (asm/ucontext.h, asm/sigcontext.h), and the
//! software bytes of the xsave image (struct _fpx_sw_bytes, at octet 464).

use super::sys::Regs;
use crate::memory::Memory;

const UC_FP_XSTATE: u64 = 1;
const UC_SIGCONTEXT_SS: u64 = 2;
const UC_STRICT_RESTORE_SS: u64 = 4;
const FLAGS: u64 = UC_FP_XSTATE | UC_SIGCONTEXT_SS | UC_STRICT_RESTORE_SS;
/// Not a valid `ss_flags`: `rt_sigreturn` then leaves the alternate stack alone, which a tracer cannot read.
const KEEP_ALTERNATE_STACK: u32 = 0x7fff;
const FP_XSTATE_MAGIC1: u32 = 0x4650_5853;
const FP_XSTATE_MAGIC2: u32 = 0x4650_5845;
const SW_BYTES: usize = 464;
/// sizeof(struct ucontext): flags, link, stack, sigcontext (256), mask.
const UCONTEXT: usize = 304;

/// Restart codes that a system call leaves in rax when it is interrupted (ERESTARTSYS, NOINTR, NOHAND, RESTARTBLOCK).
pub const RESTARTS: [i64; 4] = [-512, -513, -514, -516];

/// Offset in struct ucontext of eight words behind the pointer to the extended state that nobody reads: whose
/// frame it is.
const OWNER: usize = 232;
/// What stands behind the owner, so that no data of the program looks like pct's frame by chance.
const SIGN: u64 = u64::from_le_bytes(*b"pctframe");

/// Whose frame it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Owner {
    /// The thread, as the target's own pid namespace numbers it.
    pub tid: u64,
}

/// The frames in `bytes`, which lie at `low`, that were not given up: their addresses in ascending order, and
/// whose they are. (After a controller was killed, a thread that waits for a processor, or in a stopped
/// process, still needs the frame that it left.)
pub fn all_in(bytes: &[u8], low: u64) -> Vec<(u64, Owner)> {
    let first = (56 - (low % 64) as i64).rem_euclid(64) as usize;
    let word = |at: usize| Some(u64::from_ne_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
    let found = (first..bytes.len()).step_by(64).filter_map(|at| {
        let is_ours = word(at)? != 0
            && word(at + 8)? == FLAGS
            && word(at + 32)? as u32 == KEEP_ALTERNATE_STACK
            && word(at + 16 + OWNER)? == SIGN;
        is_ours.then_some((low + at as u64, Owner { tid: word(at + 8 + OWNER)? }))
    });
    found.collect()
}

/// A frame as octets to be written at an address of the target.
#[derive(Debug)]
pub struct SignalFrame {
    /// The octets, return address first.
    pub bytes: Vec<u8>,
    /// Where they go; a multiple of 64 plus 56, so that the ucontext is aligned as the kernel itself aligns it.
    pub at: u64,
}

impl SignalFrame {
    /// Whether a ucontext that we made lies at `at`.
    pub fn is_at(at: u64, memory: &impl Memory) -> bool {
        memory.read_word(at).is_ok_and(|flags| flags == FLAGS)
            && memory.half(at.wrapping_add(24)).is_ok_and(|flags| flags == KEEP_ALTERNATE_STACK)
            && memory.read_word(at.wrapping_add(8 + OWNER as u64)).is_ok_and(|sign| sign == SIGN)
    }

    /// The address of the ucontext: what rsp must be when `rt_sigreturn` is made.
    pub fn ucontext(&self) -> u64 {
        self.at + 8
    }

    /// How many octets a frame with this much extended state needs at most, alignment included.
    pub fn room(xstate: usize) -> usize {
        8 + UCONTEXT + 64 + xstate + 4 + 128
    }

    /// Builds the frame in the room that starts at `low`: it restores `regs`, `mask` and `xstate`. `restorer` is the
    /// address of `mov $15,%rax; syscall` in the target.
    pub fn build(
        low: u64,
        restorer: u64,
        regs: &Regs,
        mask: u64,
        xstate: &[u8],
        owner: Owner,
    ) -> SignalFrame {
        let at = low.next_multiple_of(64) + 56;
        let fp = (at + 8 + UCONTEXT as u64).next_multiple_of(64);
        let fp_offset = (fp - at) as usize;
        let mut bytes = vec![0u8; fp_offset];
        put_word(&mut bytes, 0, restorer);
        let uc = &mut bytes[8..8 + UCONTEXT];
        put_word(uc, 0, FLAGS);
        uc[24..28].copy_from_slice(&KEEP_ALTERNATE_STACK.to_ne_bytes());
        let regs = resumed(regs);
        let words = [
            regs.r8,
            regs.r9,
            regs.r10,
            regs.r11,
            regs.r12,
            regs.r13,
            regs.r14,
            regs.r15,
            regs.rdi,
            regs.rsi,
            regs.rbp,
            regs.rbx,
            regs.rdx,
            regs.rax,
            regs.rcx,
            regs.rsp,
            regs.rip,
            regs.eflags,
        ];
        for (i, word) in words.into_iter().enumerate() {
            put_word(uc, 40 + 8 * i, word);
        }
        for (i, segment) in [regs.cs, 0, 0, regs.ss].into_iter().enumerate() {
            uc[184 + 2 * i..][..2].copy_from_slice(&(segment as u16).to_ne_bytes());
        }
        put_word(uc, 224, fp);
        put_word(uc, OWNER, owner.tid);
        put_word(uc, OWNER + 8, SIGN);
        put_word(uc, 296, mask);
        bytes.extend_from_slice(&with_software_bytes(xstate));
        SignalFrame { bytes, at }
    }
}

/// The registers with which the thread goes on: an interrupted system call is made again, as the kernel would do.
fn resumed(regs: &Regs) -> Regs {
    let mut regs = *regs;
    if (regs.orig_rax as i64) >= 0 && RESTARTS.contains(&(regs.rax as i64)) {
        regs.rax = regs.orig_rax;
        regs.rip = regs.rip.wrapping_sub(2);
    }
    regs
}

/// The ptrace image with what the kernel wants in a signal frame: the software bytes and the second magic behind.
fn with_software_bytes(xstate: &[u8]) -> Vec<u8> {
    let mut image = xstate.to_vec();
    if image.len() < SW_BYTES + 24 {
        return image;
    }
    let size = image.len() as u32;
    // the ptrace image has the feature mask (xcr0) in the first software word
    let mut features = [0u8; 8];
    features.copy_from_slice(&image[SW_BYTES..SW_BYTES + 8]);
    image[SW_BYTES..SW_BYTES + 4].copy_from_slice(&FP_XSTATE_MAGIC1.to_ne_bytes());
    image[SW_BYTES + 4..SW_BYTES + 8].copy_from_slice(&(size + 4).to_ne_bytes());
    image[SW_BYTES + 8..SW_BYTES + 16].copy_from_slice(&features);
    image[SW_BYTES + 16..SW_BYTES + 20].copy_from_slice(&size.to_ne_bytes());
    image[SW_BYTES + 20..SW_BYTES + 24].fill(0);
    image.extend_from_slice(&FP_XSTATE_MAGIC2.to_ne_bytes());
    image
}

fn put_word(bytes: &mut [u8], at: usize, word: u64) {
    bytes[at..at + 8].copy_from_slice(&word.to_ne_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::FakeMemory;

    fn regs() -> Regs {
        let mut r = crate::ptrace::sys::no_regs();
        r.rip = 0x40_1000;
        r.rsp = 0x7fff_0000;
        r.rax = 7;
        r.orig_rax = u64::MAX;
        r.cs = 0x33;
        r.ss = 0x2b;
        r
    }

    fn word_at(b: &[u8], at: usize) -> u64 {
        u64::from_ne_bytes(b[at..at + 8].try_into().unwrap())
    }

    #[test]
    fn the_frame_holds_registers_mask_and_state_where_the_kernel_reads_them() {
        let f = SignalFrame::build(0x1000, 0xabcd, &regs(), 0x55, &[0u8; 832], Owner { tid: 7 });
        assert_eq!(f.at % 64, 56);
        assert_eq!(word_at(&f.bytes, 0), 0xabcd);
        assert_eq!(word_at(&f.bytes, 8 + 160), 0x7fff_0000);
        assert_eq!(word_at(&f.bytes, 8 + 168), 0x40_1000);
        assert_eq!(word_at(&f.bytes, 8 + 296), 0x55);
        let fp = word_at(&f.bytes, 8 + 224);
        assert_eq!(fp % 64, 0);
        let image = &f.bytes[(fp - f.at) as usize..];
        assert_eq!(&image[464..468], &FP_XSTATE_MAGIC1.to_ne_bytes());
        assert_eq!(&image[832..836], &FP_XSTATE_MAGIC2.to_ne_bytes());
        assert!(f.bytes.len() <= SignalFrame::room(832));
    }

    #[test]
    fn frames_are_found_wherever_they_lie_until_they_are_given_up() {
        let low = 0x1000 + 24; // of no alignment
        let mut bytes = vec![0x7f; 20_000];
        let frames = [100, 5000, 16_000].map(|offset| {
            SignalFrame::build(low + offset, 0xabcd, &regs(), 0, &[0u8; 832], Owner { tid: 7 + offset })
        });
        for f in &frames {
            bytes[(f.at - low) as usize..][..f.bytes.len()].copy_from_slice(&f.bytes);
        }
        let memory = FakeMemory { areas: vec![(low, bytes.clone())] };
        assert!(frames.iter().all(|f| SignalFrame::is_at(f.ucontext(), &memory)));
        let expected = |i: usize, offset: u64| (frames[i].at, Owner { tid: 7 + offset });
        assert_eq!(all_in(&bytes, low), [expected(0, 100), expected(1, 5000), expected(2, 16_000)]);
        bytes[(frames[1].at - low) as usize..][..8].fill(0);
        assert_eq!(all_in(&bytes, low), [expected(0, 100), expected(2, 16_000)]);
        // cut anywhere: no panic, and nothing that is not whole
        let end = (frames[2].at - low) as usize + 8 + OWNER + 16;
        for len in 0..bytes.len() {
            assert_eq!(
                all_in(&bytes[..len], low).len(),
                usize::from(len >= (frames[0].at - low) as usize + 8 + OWNER + 16) + usize::from(len >= end)
            );
        }
        // the kernel's own signal frames, and what a program has by chance
        bytes[(frames[0].at - low) as usize + 16 + OWNER..][..8].fill(1);
        assert_eq!(all_in(&bytes, low), [expected(2, 16_000)]);
    }

    #[test]
    fn an_interrupted_system_call_is_made_again() {
        let mut r = regs();
        r.orig_rax = 35;
        r.rax = -516i64 as u64;
        let again = resumed(&r);
        assert_eq!((again.rax, again.rip), (35, 0x40_1000 - 2));
        r.rax = 3;
        assert_eq!(resumed(&r).rip, 0x40_1000);
    }
}
