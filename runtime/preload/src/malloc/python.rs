//! Python's own allocator: objects of up to 512 bytes, which never reach malloc.
//!
//! CPython lets a program replace the allocators of two domains, `mem` and `obj`, by tables of functions that
//! are given a context. Ours stand in front of the ones that it had, which are the context:
//!
//! ```text
//! PyObject_Malloc -> the domain's table -> ours (countdown, tag) -> what was in the table before -> pymalloc
//!                                                                                \-> malloc, where it is counted
//! ```
//!
//! What pymalloc does not serve it asks malloc for, which is wrapped too. A request must count once. Larger
//! ones are passed on at once. Of the others a sample is dropped if the thread's countdown was lowered behind
//! us: then malloc has counted the request. What is left of the countdown after a dropped sample, or after
//! two subtractions without a sample, is distributed as a fresh draw is; so neither shows in the estimates.
//! (Where threads share words a realloc that shrinks a large block to less than 512 bytes counts twice.)
//!
//! The tables are replaced before the interpreter is initialised, when it has no thread yet. What it sets itself later
//! (`PYTHONMALLOC`, `-X dev`) takes ours away; [`tell_at_end`] looks whether that was so.

use core::arch::naked_asm;
use core::sync::atomic::{AtomicUsize, Ordering};

use pct_sampler::heap::{countdown, tags};
use pct_sampler::process::{report, session};

use super::call::{UNCOUNTED, freed};
use super::entry::request;
use super::objects::{Allocator, BEFORE, CALLOC, MALLOC, REALLOC, Words};
use crate::host::definer;

/// The interpreter's function that tells a domain's table, once ours stand there; 0 = they do not.
static GET: AtomicUsize = AtomicUsize::new(0);

/// Numbers of the domains.
const RAW: i32 = 0;
const DOMAINS: [i32; 2] = [1, 2];

/// Largest request that pymalloc serves.
const LARGEST: u64 = 512;

type Getter = unsafe extern "C" fn(i32, *mut Words);
type Setter = unsafe extern "C" fn(i32, *const Words);

/// By the constructor: puts ours in front, if the process has an interpreter that is not initialised yet.
/// True: they stand there.
pub(super) fn install() -> bool {
    let found = |name: &[u8]| definer(name, false).map(|found| found.address);
    let Some((get, set)) = found(b"PyMem_GetAllocator").zip(found(b"PyMem_SetAllocator")) else {
        return false;
    };
    let Some(is_initialized) = found(b"Py_IsInitialized") else { return false };
    // SAFETY: the interpreter's function of this name, which reads a variable.
    let is_initialized: unsafe extern "C" fn() -> i32 = unsafe { core::mem::transmute(is_initialized) };
    // SAFETY: as above.
    if unsafe { is_initialized() } != 0 {
        return false;
    }
    // SAFETY: the interpreter's functions of these names; both may be called before it is initialised.
    let (getter, setter) =
        unsafe { (core::mem::transmute::<usize, Getter>(get), core::mem::transmute::<usize, Setter>(set)) };
    let raw = table(getter, RAW);
    for (domain, before) in DOMAINS.into_iter().zip(&BEFORE) {
        let words = table(getter, domain);
        // An interpreter without pymalloc: malloc serves each object, and is wrapped.
        if words == raw {
            return false;
        }
        before.set(words);
    }
    for (domain, before) in DOMAINS.into_iter().zip(&BEFORE) {
        let words = ours(before);
        // SAFETY: a whole table whose functions live as long as the process; they call what was there before.
        unsafe { setter(domain, &raw const words) };
    }
    GET.store(get, Ordering::Relaxed);
    true
}

fn ours(before: &'static Allocator) -> Words {
    let functions: [unsafe extern "C" fn(); 4] = [object_malloc, object_calloc, object_realloc, object_free];
    let [malloc, calloc, realloc, free] = functions.map(|function| function as usize);
    [&raw const *before as usize, malloc, calloc, realloc, free]
}

fn table(get: Getter, domain: i32) -> Words {
    let mut words = [0; 5];
    // SAFETY: the interpreter writes a table of this size.
    unsafe { get(domain, &raw mut words) };
    words
}

/// At exit: says so if the interpreter has taken ours away meanwhile, unless malloc serves its objects since
/// then, or if there is an interpreter whose allocator could not be wrapped.
pub(crate) fn tell_at_end() {
    if session::current().is_none() || session::seed().options.alloc == 0 {
        return;
    }
    // An interpreter that is not loaded any more is not asked.
    let Some(found) = definer(b"PyMem_GetAllocator", false) else { return };
    // SAFETY: the interpreter's function of this name, which is still loaded.
    let getter = unsafe { core::mem::transmute::<usize, Getter>(found.address) };
    let [_, objects] = &BEFORE;
    let now = table(getter, DOMAINS[1]);
    if now[1] == table(getter, RAW)[1] || now == ours(objects) {
        return;
    }
    let was_replaced = GET.load(Ordering::Relaxed) == found.address;
    report::report(if was_replaced {
        b"--alloc: Python replaced its allocator of objects (PYTHONMALLOC, -X dev), so objects of up to 512 bytes were not seen"
    } else {
        b"--alloc: Python's allocator could not be wrapped (libpython was loaded by dlopen, or initialised already), so objects of up to 512 bytes were not seen"
    });
}

/// Counts the bytes in rcx, then calls the function of the context (rdi) at an offset of its table.
macro_rules! count_object {
    ($which:ident, $function:literal, [$($first:literal),*]) => {
        naked_asm!(
            ".cfi_startproc",
            $($first,)*
            // What is more goes on to malloc. (calloc: the low word of the product; whoever asks for more is refused.)
            "cmp rcx, {largest}",
            "ja 5f",
            "cmp rcx, 1",
            "adc rcx, 0",
            "mov rax, [rip + {slot}]",
            "test rax, rax",
            "jz 2f",
            "sub fs:[rax], rcx",
            "jbe 3f",
            "5:",
            concat!("mov rax, [rdi + ", $function, "]"),
            "mov rdi, [rdi]",
            "jmp rax",
            "2:",
            "cmp qword ptr [rip + {shared}], 0",
            "je 5b",
            "movabs rax, {uncounted}",
            "jmp {request}",
            "3:",
            "mov eax, {which}",
            "jmp {request}",
            ".cfi_endproc",
            slot = sym countdown::SLOT,
            shared = sym countdown::SHARED,
            request = sym request,
            largest = const LARGEST,
            which = const $which,
            uncounted = const UNCOUNTED + $which as u64,
        )
    };
}

/// `void *malloc(void *ctx, size_t size)`
#[unsafe(naked)]
unsafe extern "C" fn object_malloc() {
    count_object!(MALLOC, 8, ["mov rcx, rsi"])
}

/// `void *calloc(void *ctx, size_t nelem, size_t elsize)`
#[unsafe(naked)]
unsafe extern "C" fn object_calloc() {
    count_object!(CALLOC, 16, ["mov rcx, rsi", "imul rcx, rdx"])
}

/// `void *realloc(void *ctx, void *ptr, size_t new_size)`
#[unsafe(naked)]
unsafe extern "C" fn object_realloc() {
    naked_asm!(
        ".cfi_startproc",
        "movabs rax, {multiplier}",
        "imul rax, rsi",
        "shr rax, 48",
        "lea rcx, [rip + {tags}]",
        "cmp byte ptr [rcx + rax], 0",
        "mov rcx, rdx",
        "jne 4f",
        "cmp rcx, {largest}",
        "ja 5f",
        "cmp rcx, 1",
        "adc rcx, 0",
        "mov rax, [rip + {slot}]",
        "test rax, rax",
        "jz 2f",
        "sub fs:[rax], rcx",
        "jbe 3f",
        "5:",
        "mov rax, [rdi + 24]",
        "mov rdi, [rdi]",
        "jmp rax",
        "2:",
        "cmp qword ptr [rip + {shared}], 0",
        "je 5b",
        "4:",
        "movabs rax, {uncounted}",
        "jmp {request}",
        "3:",
        "mov eax, {which}",
        "jmp {request}",
        ".cfi_endproc",
        tags = sym tags::ALL,
        multiplier = const tags::MULTIPLIER,
        slot = sym countdown::SLOT,
        shared = sym countdown::SHARED,
        request = sym request,
        largest = const LARGEST,
        which = const REALLOC,
        uncounted = const UNCOUNTED + REALLOC as u64,
    )
}

/// `void free(void *ctx, void *ptr)`
#[unsafe(naked)]
unsafe extern "C" fn object_free() {
    naked_asm!(
        ".cfi_startproc",
        "movabs rax, {multiplier}",
        "imul rax, rsi",
        "shr rax, 48",
        "lea rcx, [rip + {tags}]",
        "cmp byte ptr [rcx + rax], 0",
        "jne 3f",
        "2:",
        "mov rax, [rdi + 32]",
        "mov rdi, [rdi]",
        "jmp rax",
        "3:",
        "push rdi", ".cfi_adjust_cfa_offset 8",
        "push rsi", ".cfi_adjust_cfa_offset 8",
        "sub rsp, 8", ".cfi_adjust_cfa_offset 8",
        "mov rdi, rsi",
        "call {freed}",
        "add rsp, 8", ".cfi_adjust_cfa_offset -8",
        "pop rsi", ".cfi_adjust_cfa_offset -8",
        "pop rdi", ".cfi_adjust_cfa_offset -8",
        "jmp 2b",
        ".cfi_endproc",
        tags = sym tags::ALL,
        multiplier = const tags::MULTIPLIER,
        freed = sym freed,
    )
}
