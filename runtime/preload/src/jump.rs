//! Wrappers that leave no frame: they save the argument registers, call one of our functions, and jump to the address
//! that it gives, with everything as the caller left it. Good for variadic functions and for those that look at their
//! return address.

/// Address of code that fails with -1 and no more: for functions that the host does not have.
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn missing() {
    core::arch::naked_asm!("mov rax, -1", "ret")
}

/// Address of code that fails with -1 and no more: for functions that the host does not have.
#[cfg(target_arch = "aarch64")]
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn missing() {
    core::arch::naked_asm!("mov x0, #-1", "ret")
}

/// The code of such a wrapper: `$hook($which, argument 1, 2, 3, 4)` runs first and gives the address to jump to (0:
/// the call fails with -1).
#[cfg(target_arch = "x86_64")]
macro_rules! jump_code {
    ($hook:path, $which:literal) => {
        core::arch::naked_asm!(
            // Unwind data by hand: a sample here, or in the hook below, has its callers.
            ".cfi_startproc",
            "push rdi", ".cfi_adjust_cfa_offset 8",
            "push rsi", ".cfi_adjust_cfa_offset 8",
            "push rdx", ".cfi_adjust_cfa_offset 8",
            "push rcx", ".cfi_adjust_cfa_offset 8",
            "push r8", ".cfi_adjust_cfa_offset 8",
            "push r9", ".cfi_adjust_cfa_offset 8",
            "push rax", ".cfi_adjust_cfa_offset 8",
            "mov r8, rcx",
            "mov rcx, rdx",
            "mov rdx, rsi",
            "mov rsi, rdi",
            "mov edi, {which}",
            "call {hook}",
            "mov r11, rax",
            "pop rax", ".cfi_adjust_cfa_offset -8",
            "pop r9", ".cfi_adjust_cfa_offset -8",
            "pop r8", ".cfi_adjust_cfa_offset -8",
            "pop rcx", ".cfi_adjust_cfa_offset -8",
            "pop rdx", ".cfi_adjust_cfa_offset -8",
            "pop rsi", ".cfi_adjust_cfa_offset -8",
            "pop rdi", ".cfi_adjust_cfa_offset -8",
            "test r11, r11",
            "jz {missing}",
            "jmp r11",
            ".cfi_endproc",
            which = const $which,
            hook = sym $hook,
            missing = sym crate::jump::missing,
        )
    };
}

/// The code of such a wrapper: `$hook($which, argument 1, 2, 3, 4)` runs first and gives the address to jump to (0:
/// the call fails with -1).
#[cfg(target_arch = "aarch64")]
macro_rules! jump_code {
    ($hook:path, $which:literal) => {
        core::arch::naked_asm!(
            "stp x29, x30, [sp, #-80]!",
            "stp x0, x1, [sp, #16]",
            "stp x2, x3, [sp, #32]",
            "stp x4, x5, [sp, #48]",
            "stp x6, x7, [sp, #64]",
            "mov x4, x3",
            "mov x3, x2",
            "mov x2, x1",
            "mov x1, x0",
            "mov x0, #{which}",
            "bl {hook}",
            "mov x16, x0",
            "ldp x0, x1, [sp, #16]",
            "ldp x2, x3, [sp, #32]",
            "ldp x4, x5, [sp, #48]",
            "ldp x6, x7, [sp, #64]",
            "ldp x29, x30, [sp], #80",
            "cbz x16, {missing}",
            "br x16",
            which = const $which,
            hook = sym $hook,
            missing = sym crate::jump::missing,
        )
    };
}

/// Defines the exported `$name`, whose code is [`jump_code`].
macro_rules! jump_after {
    ($name:ident, $hook:path, $which:literal) => {
        /// Stands in front of the host's function of this name.
        ///
        /// # Safety
        /// As the host's.
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        pub unsafe extern "C" fn $name() {
            $crate::jump::jump_code!($hook, $which)
        }
    };
}

pub(crate) use {jump_after, jump_code};
