//! aarch64. (Stacks are not walked on it yet.)

use super::handlers::{Answer, Handler};
use super::regs::{Regs, stands_before};
use crate::sys::nr;
use core::arch::asm;

/// ELF machine number.
pub const MACHINE: u64 = 183;
/// Whether raw time can be the processor's counter.
pub const COUNTER: pct_format::TimeSource = pct_format::TimeSource::Cntvct;

/// Nothing to know on this machine.
pub fn set_hwcap2(_: u64) {}

/// The processor's counter; never 0.
#[inline(always)]
#[must_use]
pub fn counter() -> u64 {
    let count: u64;
    // SAFETY: a read of the virtual counter, which Linux allows to user space.
    unsafe { asm!("mrs {}, cntvct_el0", out(reg) count, options(nomem, nostack, preserves_flags)) };
    count | 1
}

/// Asks the processor for the cache line at an address that is needed soon.
#[inline(always)]
pub fn prefetch<T>(at: &T) {
    // SAFETY: reads nothing and cannot fault.
    unsafe { asm!("prfm pldl1keep, [{}]", in(reg) at, options(nostack, readonly, preserves_flags)) };
}

/// A number that tells threads apart while they live.
#[inline(always)]
#[must_use]
pub fn thread_base() -> u64 {
    let base: u64;
    // SAFETY: a read of the thread pointer.
    unsafe { asm!("mrs {}, tpidr_el0", out(reg) base, options(nomem, nostack, preserves_flags)) };
    base
}

/// Whether a control block may be there: there is memory. (No word of it is the same on all C libraries.)
#[must_use]
pub fn is_thread_base(base: u64) -> bool {
    pct_unwind::os::readable(base)
}

/// The vdso returns from handlers.
#[must_use]
pub fn restorer() -> usize {
    0
}

/// Calls `f(data)` with the stack pointer at `top`.
///
/// # Safety
/// Below `top`, which is a multiple of 16, there is as much memory as `f` needs, and nobody else uses it meanwhile.
#[inline(never)]
pub unsafe fn call_on(top: usize, f: extern "C" fn(usize), data: usize) {
    // SAFETY: x20 is kept by `f`, so the stack pointer comes back; the call follows the C convention.
    unsafe {
        asm!(
            "mov x20, sp",
            "mov sp, {top}",
            "blr {f}",
            "mov sp, x20",
            top = in(reg) top,
            f = in(reg) f,
            in("x0") data,
            out("x20") _,
            clobber_abi("C"),
        );
    }
}

/// Makes a thread by clone(2) with `flags`, in which `f(data)` runs and which ends then: its id, or the kernel's
/// refusal as a negative number.
///
/// # Safety
/// The flags say CLONE_VM and CLONE_VFORK: the thread runs on this stack while its maker stands still. `f` makes
/// no use of memory that belongs to a thread, and no signal that the program handles reaches it.
#[unsafe(naked)]
pub unsafe extern "C" fn run_in_thread(flags: usize, f: extern "C" fn(usize), data: usize) -> isize {
    core::arch::naked_asm!(
        "stp x29, x30, [sp, #-32]!",
        "stp x19, x20, [sp, #16]",
        "mov x19, x1",
        "mov x20, x2",
        "mov x1, xzr",
        "mov x2, xzr",
        "mov x3, xzr",
        "mov x4, xzr",
        "mov x8, #{clone}",
        "svc #0",
        "cbnz x0, 2f",
        "mov x0, x20",
        "blr x19",
        "mov x0, xzr",
        "mov x8, #{exit}",
        "svc #0",
        "brk #0",
        "2: ldp x19, x20, [sp, #16]",
        "ldp x29, x30, [sp], #32",
        "ret",
        clone = const nr::CLONE,
        exit = const nr::EXIT,
    )
}

/// A handler that runs `H`, on a stack that `H` lends where the thread's alternate one has less than
/// [`Handler::ROOM`] left. (The machine itself keeps stacks aligned.)
///
/// # Safety
/// For the kernel to call.
#[unsafe(naked)]
pub unsafe extern "C" fn aligned<H: Handler>() {
    core::arch::naked_asm!(
        // ucontext_t: the alternate stack's lowest address, 0 = none, at 16.
        "ldr x9, [x2, #16]",
        "mov x10, sp",
        "sub x9, x10, x9",
        "mov x10, #{room}",
        "cmp x9, x10",
        "b.lo 2f",
        "b {handle}",
        "2: stp x29, x30, [sp, #-64]!",
        "mov x29, sp",
        "stp x0, x1, [sp, #16]",
        "stp x2, x19, [sp, #32]",
        "bl {lend}",
        "cbz x0, 3f",
        "mov x19, x0",
        "mov sp, x0",
        "ldp x0, x1, [x29, #16]",
        "ldr x2, [x29, #32]",
        "bl {handle_apart}",
        "mov sp, x29",
        "mov x0, x19",
        "bl {give_back}",
        "3: ldr x19, [sp, #40]",
        "ldp x29, x30, [sp], #64",
        "ret",
        room = const H::ROOM,
        handle = sym H::handle,
        lend = sym H::lend,
        handle_apart = sym H::handle_apart,
        give_back = sym H::give_back,
    )
}

/// A handler that asks `A` for an address and jumps there with the kernel's arguments, or returns where it is 0.
///
/// # Safety
/// For the kernel to call.
#[unsafe(naked)]
pub unsafe extern "C" fn jump_to_answer<A: Answer>() {
    core::arch::naked_asm!(
        "stp x29, x30, [sp, #-48]!",
        "stp x0, x1, [sp, #16]",
        "str x2, [sp, #32]",
        "bl {answer}",
        "mov x16, x0",
        "ldp x0, x1, [sp, #16]",
        "ldr x2, [sp, #32]",
        "ldp x29, x30, [sp], #48",
        "cbz x16, 2f",
        "br x16",
        "2: ret",
        answer = sym A::answer,
    )
}

/// Registers from a handler's third argument.
///
/// # Safety
/// `context` is what the kernel passed to a running handler.
#[inline(always)]
pub unsafe fn regs(context: *const u8) -> Regs {
    let word = |offset: usize| {
        // SAFETY: sigcontext starts at 176: fault address, 31 registers, sp, pc.
        unsafe { context.add(offset).cast::<u64>().read_unaligned() }
    };
    // Stacks are not walked on this machine yet.
    Regs { pc: word(440), context: 0 }
}

/// The signal mask of the interrupted thread, from a handler's third argument.
///
/// # Safety
/// `context` is what the kernel passed to a running handler.
#[must_use]
pub unsafe fn interrupted_mask(context: *const u8) -> u64 {
    // SAFETY: ucontext_t: 40 bytes, then the mask.
    unsafe { context.add(40).cast::<u64>().read_unaligned() }
}

/// The interrupted code goes on with the signals of `block` blocked too, and those of `open` open.
///
/// # Safety
/// `context` is what the kernel passed to a running handler.
pub unsafe fn change_mask_on_return(context: *const u8, block: u64, open: u64) {
    // SAFETY: as above; rt_sigreturn sets the mask that it finds there.
    unsafe {
        let at = context.add(40).cast::<u64>().cast_mut();
        at.write_unaligned((at.read_unaligned() | block) & !open);
    }
}

/// The processor that the thread runs on: not known here.
#[must_use]
pub fn processor() -> u32 {
    0
}

/// The instruction that makes a system call, `svc #0`.
const CALL: [u8; 4] = 0xd400_0001_u32.to_le_bytes();

/// The process's id.
#[must_use]
pub fn process_id() -> u32 {
    crate::sys::getpid()
}

/// Whether the thread was interrupted at the end of a system call: the kernel is asked for the instruction before
/// if `may_call`, else the answer is no. (The code itself may not be readable.)
#[must_use]
pub fn after_system_call(regs: Regs, may_call: bool) -> bool {
    may_call && stands_before(regs.pc, CALL)
}
