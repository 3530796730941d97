//! The exported functions: a subtraction, a test and a jump each.
//!
//! ```text
//! malloc:   countdown -= size (in the thread's control block)      free:   tag of the address
//!           > 0: jump to the host's malloc                                 0: jump to the host's free
//!           else: request -> decide, call the host's, finish               else: freed, then jump
//! ```
//!
//! What the compiler would make of it in Rust has frames; these have none, and unwind data by hand. A
//! function is in [`TABLE`] by its number; [`REALS`] has the host's function of each, [`TARGETS`] where the
//! exported one jumps to.

use core::arch::naked_asm;
use core::sync::atomic::AtomicPtr;

use pct_sampler::heap::{countdown, tags};

use super::call::{self, Call, UNCOUNTED, freed};
use super::hosts;
use super::wrapped::{Code, Kind, ROWS, Row, Wrapped};

const fn code(function: unsafe extern "C" fn()) -> Code {
    AtomicPtr::new(function as *const () as *mut ())
}

/// Code for a request that ran its countdown out (`which` in eax, the bytes in rcx), or that was not counted
/// (bit 32 of rax).
#[unsafe(naked)]
pub(super) unsafe extern "C" fn request() {
    naked_asm!(
        ".cfi_startproc",
        "sub rsp, 232",
        ".cfi_adjust_cfa_offset 232",
        "mov [rsp + 192], rcx",
        "mov [rsp + 200], rax",
        "mov [rsp], r8",
        "mov [rsp + 8], r9",
        "mov [rsp + 16], r10",
        "mov [rsp + 32], r12",
        "mov [rsp + 40], r13",
        "mov [rsp + 48], r14",
        "mov [rsp + 56], r15",
        "mov [rsp + 64], rdi",
        "mov [rsp + 72], rsi",
        "mov [rsp + 80], rbp",
        "mov [rsp + 88], rbx",
        "mov [rsp + 96], rdx",
        "xor eax, eax",
        "mov [rsp + 24], rax",
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
        "lea rax, [rsp + 240]",
        "mov [rsp + 120], rax",
        "mov rax, [rsp + 232]",
        "dec rax",
        "mov [rsp + 128], rax",
        "mov rdi, rsp",
        "call {decide}",
        "mov r11, rax",
        "mov rdi, [rsp + 64]",
        "mov rsi, [rsp + 72]",
        "mov rdx, [rsp + 96]",
        "cmp qword ptr [rsp + 208], 0",
        "je 5f",
        "call r11",
        "mov [rsp + 104], rax",
        "mov rdi, rsp",
        "call {finish}",
        "mov rax, [rsp + 104]",
        "add rsp, 232",
        ".cfi_adjust_cfa_offset -232",
        "ret",
        ".cfi_adjust_cfa_offset 232",
        "5:",
        "add rsp, 232",
        ".cfi_adjust_cfa_offset -232",
        "jmp r11",
        ".cfi_endproc",
        decide = sym decide,
        finish = sym finish,
    )
}

/// Code for a free (`which` in eax) of a block whose tag is set.
#[unsafe(naked)]
unsafe extern "C" fn tagged() {
    naked_asm!(
        ".cfi_startproc",
        "push rdi", ".cfi_adjust_cfa_offset 8",
        "push rsi", ".cfi_adjust_cfa_offset 8",
        "push rdx", ".cfi_adjust_cfa_offset 8",
        "push rax", ".cfi_adjust_cfa_offset 8",
        "sub rsp, 8", ".cfi_adjust_cfa_offset 8",
        "call {freed}",
        "add rsp, 8", ".cfi_adjust_cfa_offset -8",
        "pop rax", ".cfi_adjust_cfa_offset -8",
        "pop rdx", ".cfi_adjust_cfa_offset -8",
        "pop rsi", ".cfi_adjust_cfa_offset -8",
        "pop rdi", ".cfi_adjust_cfa_offset -8",
        "lea r11, [rip + {reals}]",
        "jmp [r11 + 8*rax]",
        ".cfi_endproc",
        freed = sym freed,
        reals = sym REALS,
    )
}

/// Code for the first call of a function (`which` in eax): finds the host's.
#[unsafe(naked)]
unsafe extern "C" fn first_call() {
    naked_asm!(
        ".cfi_startproc",
        "push rdi", ".cfi_adjust_cfa_offset 8",
        "push rsi", ".cfi_adjust_cfa_offset 8",
        "push rdx", ".cfi_adjust_cfa_offset 8",
        "mov edi, eax",
        "call {find}",
        "pop rdx", ".cfi_adjust_cfa_offset -8",
        "pop rsi", ".cfi_adjust_cfa_offset -8",
        "pop rdi", ".cfi_adjust_cfa_offset -8",
        "jmp rax",
        ".cfi_endproc",
        find = sym find,
    )
}

/// Counts a request whose size the given instructions put into rcx.
macro_rules! count_request {
    ($which:literal, $($size:literal),+) => {
        naked_asm!(
            ".cfi_startproc",
            $($size,)+
            "cmp rcx, 1",
            "adc rcx, 0",
            "mov rax, [rip + {slot}]",
            "test rax, rax",
            "jz 2f",
            "sub fs:[rax], rcx",
            "jbe 3f",
            "jmp [rip + {reals} + 8*{which}]",
            "2:",
            "cmp qword ptr [rip + {shared}], 0",
            "jne 4f",
            "jmp [rip + {reals} + 8*{which}]",
            "3:",
            "mov eax, {which}",
            "jmp {request}",
            "4:",
            "movabs rax, {uncounted}",
            "jmp {request}",
            ".cfi_endproc",
            slot = sym countdown::SLOT,
            shared = sym countdown::SHARED,
            reals = sym REALS,
            request = sym request,
            which = const $which,
            uncounted = const UNCOUNTED + $which,
        )
    };
}

/// Counts a realloc: as a request, and the free of a block that may have a tag.
macro_rules! count_move {
    ($which:literal) => {
        naked_asm!(
            ".cfi_startproc",
            "mov rcx, rsi",
            "cmp rcx, 1",
            "adc rcx, 0",
            "movabs r11, {multiplier}",
            "imul r11, rdi",
            "shr r11, 48",
            "lea rax, [rip + {tags}]",
            "cmp byte ptr [rax + r11], 0",
            "jne 4f",
            "mov rax, [rip + {slot}]",
            "test rax, rax",
            "jz 2f",
            "sub fs:[rax], rcx",
            "jbe 3f",
            "jmp [rip + {reals} + 8*{which}]",
            "2:",
            "cmp qword ptr [rip + {shared}], 0",
            "jne 4f",
            "jmp [rip + {reals} + 8*{which}]",
            "3:",
            "mov eax, {which}",
            "jmp {request}",
            "4:",
            "movabs rax, {uncounted}",
            "jmp {request}",
            ".cfi_endproc",
            slot = sym countdown::SLOT,
            shared = sym countdown::SHARED,
            reals = sym REALS,
            tags = sym tags::ALL,
            request = sym request,
            multiplier = const tags::MULTIPLIER,
            which = const $which,
            uncounted = const UNCOUNTED + $which,
        )
    };
}

/// Looks at the tag of a block that is freed.
macro_rules! look_at_tag {
    ($which:literal) => {
        naked_asm!(
            ".cfi_startproc",
            "movabs rcx, {multiplier}",
            "imul rcx, rdi",
            "shr rcx, 48",
            "lea rax, [rip + {tags}]",
            "cmp byte ptr [rax + rcx], 0",
            "jne 3f",
            "jmp [rip + {reals} + 8*{which}]",
            "3:",
            "mov eax, {which}",
            "jmp {tagged}",
            ".cfi_endproc",
            tags = sym tags::ALL,
            reals = sym REALS,
            tagged = sym tagged,
            multiplier = const tags::MULTIPLIER,
            which = const $which,
        )
    };
}

/// What a function of this kind does where it counts.
macro_rules! counting {
    (SizeFirst, $which:literal) => {
        count_request!($which, "mov rcx, rdi")
    };
    (SizeSecond, $which:literal) => {
        count_request!($which, "mov rcx, rsi")
    };
    (SizeThird, $which:literal) => {
        count_request!($which, "mov rcx, rdx")
    };
    // (The low word of the product: a host that is asked for more refuses.)
    (Product, $which:literal) => {
        count_request!($which, "mov rcx, rdi", "imul rcx, rsi")
    };
    (Moves, $which:literal) => {
        count_move!($which)
    };
    (Frees, $which:literal) => {
        look_at_tag!($which)
    };
}

/// An exported function: one that always counts (`direct`), or one that jumps to where [`TARGETS`] says (`chosen`).
macro_rules! exported {
    (direct $which:literal $name:ident $kind:ident) => {
        /// Stands in front of the host's function of this name.
        ///
        /// # Safety
        /// As the host's.
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        pub unsafe extern "C" fn $name() {
            counting!($kind, $which)
        }
    };
    (chosen $which:literal $name:ident $kind:ident) => {
        /// Stands in front of the host's function of this name.
        ///
        /// # Safety
        /// As the host's.
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        pub unsafe extern "C" fn $name() {
            naked_asm!(
                ".cfi_startproc",
                "jmp [rip + {targets} + 8*{which}]",
                ".cfi_endproc",
                targets = sym TARGETS,
                which = const $which,
            )
        }
    };
}

/// All functions: number, how it is exported, its kind, what may be called where the host does not have it.
macro_rules! functions {
    ($($which:literal $how:ident $name:ident $kind:ident $instead:literal,)*) => {
        $(
            exported!($how $which $name $kind);

            #[allow(non_snake_case, reason = "a module for each exported name")]
            mod $name {
                use super::*;

                /// Counts, then goes on to the host's.
                #[unsafe(naked)]
                pub(super) unsafe extern "C" fn counted() {
                    counting!($kind, $which)
                }

                /// The first call finds the host's.
                #[unsafe(naked)]
                pub(super) unsafe extern "C" fn first() {
                    naked_asm!(
                        ".cfi_startproc", "mov eax, {which}", "jmp {first}", ".cfi_endproc",
                        which = const $which, first = sym first_call,
                    )
                }
            }
        )*

        /// All functions, by their numbers.
        static TABLE: [Row; ROWS] = [$(
            Row { name: stringify!($name), kind: Kind::$kind, instead: $instead, counted: $name::counted },
        )*];

        /// The host's functions; before they were found, code that finds them.
        static REALS: [Code; ROWS] = [$(code($name::first),)*];

        /// Where the exported functions jump to: what counts, or the host's.
        static TARGETS: [Code; ROWS] = [$(code($name::first),)*];
    };
}

functions! {
    0 direct malloc SizeFirst "",
    1 direct free Frees "",
    2 chosen calloc Product "",
    3 direct realloc Moves "",
    4 chosen reallocarray Moves "",
    5 chosen memalign SizeSecond "aligned_alloc",
    6 chosen aligned_alloc SizeSecond "memalign",
    7 chosen posix_memalign SizeThird "",
    8 chosen valloc SizeFirst "",
    9 chosen pvalloc SizeFirst "valloc",
    10 chosen cfree Frees "free",
    11 chosen free_sized Frees "free",
    12 chosen free_aligned_sized Frees "free",
    13 chosen _Znwm SizeFirst "",
    14 chosen _Znam SizeFirst "_Znwm",
    15 chosen _ZnwmRKSt9nothrow_t SizeFirst "",
    16 chosen _ZnamRKSt9nothrow_t SizeFirst "_ZnwmRKSt9nothrow_t",
    17 chosen _ZnwmSt11align_val_t SizeFirst "",
    18 chosen _ZnamSt11align_val_t SizeFirst "",
    19 chosen _ZnwmSt11align_val_tRKSt9nothrow_t SizeFirst "",
    20 chosen _ZnamSt11align_val_tRKSt9nothrow_t SizeFirst "",
    21 chosen _ZdlPv Frees "",
    22 chosen _ZdaPv Frees "_ZdlPv",
    23 chosen _ZdlPvm Frees "_ZdlPv",
    24 chosen _ZdaPvm Frees "_ZdlPv",
    25 chosen _ZdlPvRKSt9nothrow_t Frees "_ZdlPv",
    26 chosen _ZdaPvRKSt9nothrow_t Frees "_ZdlPv",
    27 chosen _ZdlPvSt11align_val_t Frees "_ZdlPv",
    28 chosen _ZdaPvSt11align_val_t Frees "_ZdlPv",
    29 chosen _ZdlPvmSt11align_val_t Frees "_ZdlPv",
    30 chosen _ZdaPvmSt11align_val_t Frees "_ZdlPv",
    31 chosen _ZdlPvSt11align_val_tRKSt9nothrow_t Frees "_ZdlPv",
    32 chosen _ZdaPvSt11align_val_tRKSt9nothrow_t Frees "_ZdlPv",
}

/// The tables of all functions.
pub(super) static WRAPPED: Wrapped = Wrapped { rows: &TABLE, hosts: &REALS, targets: &TARGETS };

/// Before the host's function, see [`call::decide`].
extern "C" fn decide(call: &mut Call) -> usize {
    call::decide(call, &WRAPPED)
}

/// After the host's function, see [`call::finish`].
extern "C" fn finish(call: &Call) {
    call::finish(call, &WRAPPED);
}

/// A function is called for the first time, see [`hosts::first_call`].
extern "C" fn find(which: usize) -> usize {
    hosts::first_call(which, &WRAPPED)
}
