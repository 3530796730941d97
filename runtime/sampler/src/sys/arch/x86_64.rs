//! x86-64.

use super::handlers::{Answer, Handler};
use super::regs::{Regs, stands_before};
use crate::sys::nr;
use core::arch::{asm, global_asm};
use core::sync::atomic::{AtomicBool, Ordering};

/// ELF machine number.
pub const MACHINE: u64 = 62;
/// Whether raw time can be the processor's counter.
pub const COUNTER: pct_format::TimeSource = pct_format::TimeSource::Tsc;

static FSGSBASE: AtomicBool = AtomicBool::new(false);

/// Says whether the kernel allows `rdfsbase` (AT_HWCAP2 bit 1).
pub fn set_hwcap2(hwcap2: u64) {
    FSGSBASE.store(hwcap2 & 2 != 0, Ordering::Relaxed);
}

/// The processor's counter; never 0.
#[inline(always)]
#[must_use]
pub fn counter() -> u64 {
    // SAFETY: rdtsc touches no memory. When a program makes reading the counter a fault through the C library, the
    // preload shell has ended sampling before.
    unsafe { core::arch::x86_64::_rdtsc() | 1 }
}

/// Asks the processor for the cache line at an address that is needed soon.
#[inline(always)]
pub fn prefetch<T>(at: &T) {
    // SAFETY: reads nothing and cannot fault.
    unsafe { asm!("prefetcht0 [{}]", in(reg) at, options(nostack, readonly, preserves_flags)) };
}

/// A number that tells threads apart while they live: the base of the control block.
#[inline(always)]
#[must_use]
pub fn thread_base() -> u64 {
    if FSGSBASE.load(Ordering::Relaxed) {
        let base: u64;
        // SAFETY: the kernel said that the instruction is enabled.
        unsafe { asm!("rdfsbase {}", out(reg) base, options(nomem, nostack, preserves_flags)) };
        base
    } else {
        core::hint::cold_path();
        crate::sys::fs_base()
    }
}

/// Whether a control block may be there: its first word is its own address, on all C libraries, because compilers read
/// it there.
#[must_use]
pub fn is_thread_base(base: u64) -> bool {
    let mut word = [0; 8];
    pct_unwind::os::copy(base, &mut word) && u64::from_ne_bytes(word) == base
}

global_asm!(
    ".pushsection .text.pct_restorer,\"ax\",@progbits",
    ".hidden pct_restorer",
    ".globl pct_restorer",
    ".type pct_restorer,@function",
    "nop",
    "pct_restorer:",
    "mov rax, 15",
    "syscall",
    ".size pct_restorer, . - pct_restorer",
    ".popsection",
);

unsafe extern "C" {
    fn pct_restorer();
}

/// Address of code that returns from a signal handler, in the form that debuggers and unwinders know.
#[must_use]
pub fn restorer() -> usize {
    pct_restorer as *const () as usize
}

/// A handler that runs `H` on an aligned stack, whatever it was entered with (qemu's user mode gives 8 bytes too
/// few), and on one that `H` lends where the thread's alternate stack has less than [`Handler::ROOM`] left.
///
/// A lent stack begins with the stack pointer of the code that was interrupted: so who looks at the thread from
/// outside finds the way back from one stack to the other.
///
/// # Safety
/// For the kernel to call.
#[unsafe(naked)]
pub unsafe extern "C" fn aligned<H: Handler>() {
    core::arch::naked_asm!(
        ".cfi_startproc",
        "push rbp",
        ".cfi_def_cfa_offset 16",
        ".cfi_offset rbp, -16",
        "mov rbp, rsp",
        ".cfi_def_cfa_register rbp",
        // ucontext_t: the alternate stack's lowest address, 0 = none, at 16.
        "mov rax, rsp",
        "sub rax, [rdx + 16]",
        "cmp rax, {room}",
        "jb 2f",
        "and rsp, -16",
        "call {handle}",
        "3: leave",
        ".cfi_remember_state",
        ".cfi_def_cfa rsp, 8",
        "ret",
        ".cfi_restore_state",
        "2: and rsp, -16",
        "push rdi",
        "push rsi",
        "push rdx",
        "push rdx",
        "call {lend}",
        "pop rdx",
        "pop rdx",
        "pop rsi",
        "pop rdi",
        "test rax, rax",
        "jz 3b",
        "mov rsp, rax",
        // The interrupted stack pointer: the 16th of the general registers, which begin at 40.
        "push [rdx + 160]",
        "push [rdx + 160]",
        "call {handle_apart}",
        "lea rdi, [rsp + 16]",
        "mov rsp, rbp",
        "and rsp, -16",
        "call {give_back}",
        "jmp 3b",
        ".cfi_endproc",
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
        "push rdi",
        "push rsi",
        "push rdx",
        "push rbp",
        "mov rbp, rsp",
        "and rsp, -16",
        "call {answer}",
        "mov rsp, rbp",
        "pop rbp",
        "pop rdx",
        "pop rsi",
        "pop rdi",
        "test rax, rax",
        "jz 2f",
        "jmp rax",
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
    // SAFETY: ucontext_t holds the general registers at 40..224: rip is the 17th.
    let pc = unsafe { context.add(168).cast::<u64>().read_unaligned() };
    Regs { pc, context: context as u64 }
}

/// The signal mask of the interrupted thread, from a handler's third argument.
///
/// # Safety
/// `context` is what the kernel passed to a running handler.
#[must_use]
pub unsafe fn interrupted_mask(context: *const u8) -> u64 {
    // SAFETY: ucontext_t: 40 bytes, 256 bytes of machine context, the mask.
    unsafe { context.add(296).cast::<u64>().read_unaligned() }
}

/// The interrupted code goes on with the signals of `block` blocked too, and those of `open` open.
///
/// # Safety
/// `context` is what the kernel passed to a running handler.
pub unsafe fn change_mask_on_return(context: *const u8, block: u64, open: u64) {
    // SAFETY: as above; rt_sigreturn sets the mask that it finds there.
    unsafe {
        let at = context.add(296).cast::<u64>().cast_mut();
        at.write_unaligned((at.read_unaligned() | block) & !open);
    }
}

/// Calls `f(data)` with the stack pointer at `top`.
///
/// # Safety
/// Below `top`, which is a multiple of 16, there is as much memory as `f` needs, and nobody else uses it meanwhile.
#[inline(never)]
pub unsafe fn call_on(top: usize, f: extern "C" fn(usize), data: usize) {
    // SAFETY: r12 is kept by `f`, so the stack pointer comes back; the call follows the C convention.
    unsafe {
        asm!(
            "mov r12, rsp",
            "mov rsp, {top}",
            "call {f}",
            "mov rsp, r12",
            top = in(reg) top,
            f = in(reg) f,
            in("rdi") data,
            out("r12") _,
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
        "push rbx",
        "push r12",
        "mov rbx, rsi",
        "mov r12, rdx",
        "mov eax, {clone}",
        "xor esi, esi",
        "xor edx, edx",
        "xor r10d, r10d",
        "xor r8d, r8d",
        "syscall",
        "test rax, rax",
        "jnz 2f",
        "and rsp, -16",
        "mov rdi, r12",
        "call rbx",
        "mov eax, {exit}",
        "xor edi, edi",
        "syscall",
        "ud2",
        "2: pop r12",
        "pop rbx",
        "ret",
        clone = const nr::CLONE,
        exit = const nr::EXIT,
    )
}

/// The processor that the thread runs on: the kernel keeps its number where any code can read it.
#[inline(always)]
#[must_use]
pub fn processor() -> u32 {
    const SEGMENT_OF_NUMBERS: u32 = 0x7b;
    const NUMBER: u32 = 0xfff;
    let limit: u32;
    // SAFETY: reads the limit of a segment that Linux has on each processor.
    unsafe {
        asm!("lsl {limit:e}, {segment:e}", segment = in(reg) SEGMENT_OF_NUMBERS, limit = out(reg) limit, options(nomem, nostack));
    }
    limit & NUMBER
}

/// The instruction that makes a system call.
const CALL: [u8; 2] = [0x0f, 0x05];
/// Flags that the kernel may change while the thread is in a call: single steps (TF) and going on after one (RF).
const NOT_THE_THREADS: u64 = 1 << 8 | 1 << 16;

/// Whether rcx and r11 are the same after a system call as before, so that they do not tell of one. That is so
/// where the kernel is entered by FRED events (a feature of newer processors), and in some sandboxes.
static KEEPS_REGISTERS: AtomicBool = AtomicBool::new(false);

/// The process's id. Finds out on the way what system calls leave in registers.
#[must_use]
pub fn process_id() -> u32 {
    let (id, left, next): (usize, u64, u64);
    // SAFETY: getpid reads and writes no memory.
    unsafe {
        asm!(
            "lea {next}, [rip + 2f]",
            "xor ecx, ecx",
            "syscall",
            "2:",
            next = out(reg) next,
            inlateout("rax") nr::GETPID => id,
            out("rcx") left,
            out("r11") _,
            options(nostack),
        );
    }
    KEEPS_REGISTERS.store(left != next, Ordering::Relaxed);
    id as u32
}

/// Whether the thread was interrupted at the end of a system call. The `syscall` instruction leaves its return
/// address in rcx and the flags in r11. Where it does not, the kernel is asked for the instruction before if
/// `may_call`, else the answer is no. (The code itself may not be readable: protection keys, PROT_EXEC alone.)
#[inline(always)]
#[must_use]
pub fn after_system_call(regs: Regs, may_call: bool) -> bool {
    if KEEPS_REGISTERS.load(Ordering::Relaxed) {
        core::hint::cold_path();
        return may_call && stands_before(regs.pc, CALL);
    }
    if regs.context == 0 {
        return false;
    }
    let word = |offset: u64| {
        let at = core::ptr::with_exposed_provenance::<u64>((regs.context + offset) as usize);
        // SAFETY: the context lives while its handler runs, and holds the general registers at 40..224: r11 is
        // the 4th, rcx the 15th, the flags are the 18th.
        unsafe { at.read_unaligned() }
    };
    word(152) == regs.pc && (word(64) ^ word(176)) & !NOT_THE_THREADS == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys;

    /// A context in which rcx, r11, the flags and pc are these.
    fn interrupted(rcx: u64, r11: u64, flags: u64, pc: u64) -> ([u64; 120], u64) {
        let mut words = [0; 120];
        for (offset, value) in [(152, rcx), (64, r11), (176, flags), (168, pc)] {
            words[offset / 8] = value;
        }
        (words, pc)
    }

    fn answer((context, pc): ([u64; 120], u64)) -> bool {
        after_system_call(Regs { pc, context: context.as_ptr().expose_provenance() as u64 }, true)
    }

    #[test]
    fn the_end_of_a_system_call_is_known_by_registers_and_code_is_not_read() {
        assert_eq!(process_id(), std::process::id());
        // Nobody can read it.
        let code = sys::map_memory(4096).expect("memory");
        // SAFETY: a mapping of the test's own, to which nothing refers.
        unsafe { sys::unmap(code, 4096) };
        let pc = code.expose_provenance() as u64 + 100;
        const FLAGS: u64 = 0x246;
        const STEPPED: u64 = FLAGS | 1 << 8 | 1 << 16;
        assert!(answer(interrupted(pc, FLAGS, FLAGS, pc)));
        assert!(answer(interrupted(pc, FLAGS, STEPPED, pc)), "the kernel's own flags");
        assert!(!answer(interrupted(pc, FLAGS, FLAGS | 1, pc)), "a call by `call rcx`");
        assert!(!answer(interrupted(pc + 1, FLAGS, FLAGS, pc)));
        assert!(!after_system_call(Regs { pc, context: 0 }, true));
    }
}
