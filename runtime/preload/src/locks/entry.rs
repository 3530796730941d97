//! The exported functions: two looks and a jump each.
//!
//! ```text
//! lock:    count of the bucket | the lock's word       unlock:  count of the bucket
//!          0: jump to the host's lock                           0: jump to the host's unlock
//!          else: slow -> before, call the host's, after         else: slow
//! ```
//!
//! What the compiler would make of it in Rust has frames; these have none, and unwind data by hand. A
//! function is in [`TABLE`] by its number; [`HOSTS`] has the host's function of each.

use core::arch::naked_asm;
use core::sync::atomic::AtomicPtr;

use pct_format::record::WaitKind::{ReadLock, Semaphore, WriteLock};
use pct_sampler::waits::watched;

use super::call::{self, Call};
use super::wrapped::{Code, Does, ROWS, Row, Wrapped};

const fn code(function: unsafe extern "C" fn()) -> Code {
    AtomicPtr::new(function as *const () as *mut ())
}

/// Code for a call that may wait or that others wait for (`which` in eax).
#[unsafe(naked)]
unsafe extern "C" fn slow() {
    naked_asm!(
        ".cfi_startproc",
        // Relative to its place, four octets.
        ".cfi_personality 0x1b, {passed}",
        "sub rsp, 248",
        ".cfi_adjust_cfa_offset 248",
        "mov [rsp + 192], rax",
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
        "mov [rsp + 112], rcx",
        "xor eax, eax",
        "mov [rsp + 24], rax",
        "mov [rsp + 104], rax",
        "mov [rsp + 136], rax",
        "mov [rsp + 144], rax",
        "mov [rsp + 152], rax",
        "mov [rsp + 160], rax",
        "mov [rsp + 168], rax",
        "mov [rsp + 176], rax",
        // No floating-point state of the kernel's.
        "mov [rsp + 184], rax",
        // The caller's stack pointer behind the return, and the last byte of its call.
        "lea rax, [rsp + 256]",
        "mov [rsp + 120], rax",
        "mov rax, [rsp + 248]",
        "dec rax",
        "mov [rsp + 128], rax",
        "mov rdi, rsp",
        "call {before}",
        "mov r11, rax",
        "mov r8, [rsp]",
        "mov r9, [rsp + 8]",
        "mov rdi, [rsp + 64]",
        "mov rsi, [rsp + 72]",
        "mov rdx, [rsp + 96]",
        "mov rcx, [rsp + 112]",
        // The seventh argument of `syscall`. Others have none: then it is a word of the caller's frame.
        "mov r10, [rsp + 256]",
        "push r10", ".cfi_adjust_cfa_offset 8",
        "push r10", ".cfi_adjust_cfa_offset 8",
        "call r11",
        "add rsp, 16", ".cfi_adjust_cfa_offset -16",
        "mov [rsp + 104], rax",
        "mov rdi, rsp",
        "call {after}",
        "mov rax, [rsp + 104]",
        "add rsp, 248",
        ".cfi_adjust_cfa_offset -248",
        "ret",
        ".cfi_endproc",
        before = sym before,
        after = sym after,
        passed = sym passed,
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
        "push rcx", ".cfi_adjust_cfa_offset 8",
        "push r8", ".cfi_adjust_cfa_offset 8",
        "mov edi, eax",
        "call {find}",
        "pop r8", ".cfi_adjust_cfa_offset -8",
        "pop rcx", ".cfi_adjust_cfa_offset -8",
        "pop rdx", ".cfi_adjust_cfa_offset -8",
        "pop rsi", ".cfi_adjust_cfa_offset -8",
        "pop rdi", ".cfi_adjust_cfa_offset -8",
        "jmp rax",
        ".cfi_endproc",
        find = sym find,
    )
}

/// Jumps to the host's function if nobody waits in the object's bucket, and what `$free` says of the object (bits of
/// r11d that are 0) is so too.
macro_rules! look {
    ($which:literal, $($free:literal),*) => {
        naked_asm!(
            ".cfi_startproc",
            "mov eax, edi",
            "shr eax, 3",
            "and eax, {last}",
            "lea r11, [rip + {watched}]",
            "movzx r11d, byte ptr [r11 + rax]",
            $($free,)*
            "test r11d, r11d",
            "jne 2f",
            "jmp [rip + {hosts} + 8*{which}]",
            "2:",
            "mov eax, {which}",
            "jmp {slow}",
            ".cfi_endproc",
            last = const watched::BUCKETS - 1,
            watched = sym watched::ALL,
            hosts = sym HOSTS,
            slow = sym slow,
            which = const $which,
        )
    };
}

/// What an exported function looks at.
macro_rules! looking {
    // Nobody waits.
    (count, $which:literal) => {
        look!($which,)
    };
    // Nor is the mutex taken.
    (mutex, $which:literal) => {
        look!($which, "or r11d, [rdi]")
    };
    // Nor does anybody write, or wait to write: the phase (bit 0), the writer (bit 1).
    (read, $which:literal) => {
        look!($which, "mov eax, [rdi]", "and eax, 3", "or r11d, eax")
    };
    // Nor does anybody read or write: all but the phase.
    (write, $which:literal) => {
        look!($which, "mov eax, [rdi]", "and eax, -2", "or r11d, eax")
    };
    // The semaphore has something to give.
    (semaphore, $which:literal) => {
        naked_asm!(
            ".cfi_startproc",
            "cmp dword ptr [rdi], 0",
            "je 2f",
            "jmp [rip + {hosts} + 8*{which}]",
            "2:",
            "mov eax, {which}",
            "jmp {slow}",
            ".cfi_endproc",
            hosts = sym HOSTS,
            slow = sym slow,
            which = const $which,
        )
    };
    // Whether it is the number of the system call `futex`.
    (system_call, $which:literal) => {
        naked_asm!(
            ".cfi_startproc",
            "cmp rdi, {futex}",
            "je 2f",
            "jmp {other}",
            "2:",
            "mov eax, {which}",
            "jmp {slow}",
            ".cfi_endproc",
            futex = const super::futex::NUMBER,
            other = sym crate::filters::other_system_call,
            slow = sym slow,
            which = const $which,
        )
    };
    // Always waits.
    (always, $which:literal) => {
        naked_asm!(
            ".cfi_startproc", "mov eax, {which}", "jmp {slow}", ".cfi_endproc",
            slow = sym slow, which = const $which,
        )
    };
}

/// All functions: number, what they look at, name, what they do.
macro_rules! functions {
    ($($which:literal $look:ident $name:ident $does:expr,)*) => {
        $(
            /// Stands in front of the host's function of this name.
            ///
            /// # Safety
            /// As the host's.
            #[unsafe(no_mangle)]
            #[unsafe(naked)]
            pub unsafe extern "C" fn $name() {
                looking!($look, $which)
            }

            mod $name {
                use super::*;

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
        static TABLE: [Row; ROWS] = [$(Row { name: stringify!($name), does: $does },)*];

        /// The host's functions; before they were found, code that finds them.
        static HOSTS: [Code; ROWS] = [$(code($name::first),)*];
    };
}

functions! {
    0 mutex pthread_mutex_lock Does::LockMutex,
    1 mutex pthread_mutex_timedlock Does::LockMutex,
    2 mutex pthread_mutex_clocklock Does::LockMutex,
    3 count pthread_mutex_trylock Does::Try(pct_format::record::WaitKind::Mutex),
    4 count pthread_mutex_unlock Does::UnlockMutex,
    5 read pthread_rwlock_rdlock Does::Read,
    6 read pthread_rwlock_timedrdlock Does::Read,
    7 read pthread_rwlock_clockrdlock Does::Read,
    8 write pthread_rwlock_wrlock Does::Write,
    9 write pthread_rwlock_timedwrlock Does::Write,
    10 write pthread_rwlock_clockwrlock Does::Write,
    11 count pthread_rwlock_tryrdlock Does::Try(ReadLock),
    12 count pthread_rwlock_trywrlock Does::Try(WriteLock),
    13 count pthread_rwlock_unlock Does::Unlock(WriteLock),
    14 always pthread_cond_wait Does::AwaitCondition,
    15 always pthread_cond_timedwait Does::AwaitCondition,
    16 always pthread_cond_clockwait Does::AwaitCondition,
    17 count pthread_cond_signal Does::Signal(1),
    18 count pthread_cond_broadcast Does::Signal(u8::MAX),
    19 semaphore sem_wait Does::Await(Semaphore),
    20 semaphore sem_timedwait Does::Await(Semaphore),
    21 semaphore sem_clockwait Does::Await(Semaphore),
    22 count sem_post Does::Wake(Semaphore),
    23 always pthread_barrier_wait Does::AwaitOthers,
    24 always pthread_join Does::Join,
    25 always pthread_timedjoin_np Does::Join,
    26 always pthread_clockjoin_np Does::Join,
    27 system_call syscall Does::Futex,
}

/// The tables of all functions.
pub(super) static WRAPPED: Wrapped = Wrapped { rows: &TABLE, hosts: &HOSTS };

/// Before the host's function, see [`call::before`].
extern "C" fn before(call: &mut Call) -> usize {
    call::before(call, &WRAPPED)
}

/// What the unwinder calls for a frame of [`slow`] that an exception or the cancellation of its thread passes: with
/// [`CLEANUP`] in its second argument when the frame is about to go.
extern "C" fn passed(_version: i32, actions: i32, _class: u64, _exception: usize, _context: usize) -> i32 {
    if actions & CLEANUP != 0 {
        pct_sampler::waits::cancelled();
    }
    CONTINUE_UNWIND
}

/// `_UA_CLEANUP_PHASE` and `_URC_CONTINUE_UNWIND` of the C++ ABI.
const CLEANUP: i32 = 2;
const CONTINUE_UNWIND: i32 = 8;

/// After the host's function, see [`call::after`].
extern "C" fn after(call: &Call) {
    call::after(call, &WRAPPED);
}

/// A function is called for the first time.
extern "C" fn find(which: usize) -> usize {
    WRAPPED.find(which)
}
