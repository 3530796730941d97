//! `pct.h` about memory: blocks that the program tells of itself. Only libpct-alloc.so has these functions,
//! so a weak reference to them is null in a program whose allocations are not sampled.

use pct_sampler::api;
use pct_sampler::heap::said;

/// Tells of a block of the program's own allocator. See pct.h.
///
/// # Safety
/// None is needed: the address is not read.
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub unsafe extern "C" fn pct_alloc() {
    core::arch::naked_asm!(".cfi_startproc", "jmp {said}", ".cfi_endproc", said = sym said::alloc)
}

/// Tells that such a block is about to be given back. See pct.h.
#[unsafe(no_mangle)]
pub extern "C" fn pct_free(address: u64) {
    said::free(address);
}

/// Writes a named mark with what is live in memory. 0 = written, -1 = allocations are not sampled or there is no room.
///
/// # Safety
/// `name` is null or a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pct_heap_mark(name: *const u8) -> i32 {
    // SAFETY: by the caller's promise.
    unsafe { api::set_heap_mark(name) }
}
