//! Blocks that the program tells of itself (`pct_alloc`, `pct_free`): pools, arenas, allocators that no wrapper sees.
//!
//! ```text
//! pct_alloc(address, size): countdown of the thread - size ---- > 0 ----> return
//!                                \---- <= 0: the sample, with the caller's stack
//! pct_free(address):        tag ---- 0 ----> return
//!                                \---- not 0: remove from the live table
//! ```
//!
//! A pool is cut out of memory that malloc gave, so the first block of a pool may have the address of a block
//! that malloc's wrapper has sampled. Blocks that are told are entered at another address: with the highest
//! bit set, which no address of a program has.

use super::{Regs, countdown, entry_flag, tags};

/// What tells the address of a block that is told from that of a block that malloc gave.
pub const MARK: u64 = 1 << 63;

/// What [`alloc`]'s code keeps of a call on the stack: registers as the kernel's context has them, so that
/// the walker of stacks reads them there.
#[repr(C)]
struct Call {
    /// r8 to r15, rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp, rip; then what the kernel's context has behind
    /// them, as zeros.
    registers: [u64; 24],
    /// Bytes that the countdown is lowered by.
    bytes: u64,
    /// Not 0: it was lowered already.
    subtracted: u64,
}

const _: () = assert!(size_of::<Call>() == 208, "the code below makes room for it");

const RDI: usize = 8;
const RSI: usize = 9;
const RIP: usize = 16;

/// `void pct_alloc(const void *address, size_t size)`, see pct.h.
///
/// # Safety
/// None is needed: the address is not read.
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
pub unsafe extern "C" fn alloc() {
    core::arch::naked_asm!(
        ".cfi_startproc",
        "mov rcx, rsi",
        "cmp rcx, 1",
        "adc rcx, 0",
        "mov rax, [rip + {slot}]",
        "test rax, rax",
        "jz 2f",
        "sub fs:[rax], rcx",
        "mov eax, 1",
        "jbe 3f",
        "ret",
        "2:",
        "cmp qword ptr [rip + {shared}], 0",
        "mov eax, 0",
        "jne 3f",
        "ret",
        "3:",
        "sub rsp, 216",
        ".cfi_adjust_cfa_offset 216",
        "mov [rsp + 192], rcx",
        "mov [rsp + 200], rax",
        "mov [rsp + 32], r12",
        "mov [rsp + 40], r13",
        "mov [rsp + 48], r14",
        "mov [rsp + 56], r15",
        "mov [rsp + 64], rdi",
        "mov [rsp + 72], rsi",
        "mov [rsp + 80], rbp",
        "mov [rsp + 88], rbx",
        "xor eax, eax",
        "mov [rsp], rax",
        "mov [rsp + 8], rax",
        "mov [rsp + 16], rax",
        "mov [rsp + 24], rax",
        "mov [rsp + 96], rax",
        "mov [rsp + 104], rax",
        "mov [rsp + 112], rax",
        "mov [rsp + 136], rax",
        "mov [rsp + 144], rax",
        "mov [rsp + 152], rax",
        "mov [rsp + 160], rax",
        "mov [rsp + 168], rax",
        "mov [rsp + 176], rax",
        // No floating-point state of the kernel's.
        "mov [rsp + 184], rax",
        // The caller's stack pointer behind the return, and the last byte of its call.
        "lea rax, [rsp + 224]",
        "mov [rsp + 120], rax",
        "mov rax, [rsp + 216]",
        "dec rax",
        "mov [rsp + 128], rax",
        "mov rdi, rsp",
        "call {said}",
        "add rsp, 216",
        ".cfi_adjust_cfa_offset -216",
        "ret",
        ".cfi_endproc",
        slot = sym countdown::SLOT,
        shared = sym countdown::SHARED,
        said = sym said,
    )
}

extern "C" fn said(call: &Call) {
    let register = |at: usize| call.registers.get(at).copied().unwrap_or(0);
    let (address, size, place) = (register(RDI), register(RSI), register(RIP));
    if let Some(shift) = super::due(call.bytes, call.subtracted != 0)
        && address != 0
    {
        // The walker takes the kernel's context, in which the registers stand 40 bytes behind the start.
        let context = (&raw const *call) as u64;
        let regs = Regs { pc: place, context: context.wrapping_sub(40) };
        super::record(address | MARK, size, shift, entry_flag::API, regs, place.wrapping_add(1));
    }
}

/// Stacks are walked on x86-64 only, and allocations sampled there.
///
/// # Safety
/// None is needed.
#[cfg(not(target_arch = "x86_64"))]
pub unsafe extern "C" fn alloc() {}

/// `void pct_free(const void *address)`, see pct.h.
pub extern "C" fn free(address: u64) {
    let address = address | MARK;
    if tags::ALL.any(address) && address != MARK {
        super::free(address);
    }
}
