//! libpct.a: the sampler for programs that link it, static ones too. `include/pct.h` has its functions.
//!
//! Nothing of libc is wrapped: threads are found by the housekeeper, children of fork through `__register_atfork` or
//! `pthread_atfork` if the program has it; programs executed are not followed. From the program's libc it
//! takes `environ` and the memory routines that compilers expect. A constructor comes along with any of the
//! functions, so that `PCT` in the environment is enough to be sampled; the note lets `pct attach` find them
//! in a stripped program.
#![cfg_attr(panic = "abort", no_std)]
#![allow(unreachable_pub, reason = "exported C functions are public to the host, not to Rust")]

use core::arch::global_asm;
use core::sync::atomic::{AtomicBool, Ordering};

use pct_elf::Image;
use pct_format::AllocServer;
use pct_format::heap::source;
use pct_sampler::api::{self, Host};
use pct_sampler::heap::{self, said};
use pct_sampler::process::options::On;
use pct_sampler::sys::{CStr, auxv::Auxv};
use pct_sampler::{
    process::life, process::passing, process::session, process::toggle, record::time, sys::arch,
};

pct_sampler::note!(on, off, stat);

#[cfg(panic = "abort")]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    // No code path leads here: a test looks for what would.
    loop {
        core::hint::spin_loop();
    }
}

#[used]
#[unsafe(link_section = ".init_array")]
static INIT: extern "C" fn() = init;

#[used]
#[unsafe(link_section = ".fini_array")]
static FINI: extern "C" fn() = fini;

unsafe extern "C" {
    static environ: *const *const u8;
}

fn environment() -> *const *const u8 {
    // SAFETY: libc's variable; whoever changes it meanwhile in another thread breaks getenv too.
    unsafe { environ }
}

/// Nothing is wrapped here: who links the library knows what the program does with signals.
fn guards_signals() -> bool {
    true
}

/// For the same reason no code is searched for system calls; the program's own has ours in it.
fn each_object(_: &mut dyn FnMut(Option<&Image>, CStr<'_>)) {}

const HOST: Host = Host { facts, guards_signals, each_object, environment, entries, prepare };

extern "C" fn init() {
    // SAFETY: the program has not begun: nobody changes its environment.
    unsafe { api::begin(&HOST, environment()) }
}

extern "C" fn fini() {
    api::end();
}

/// The processor's and the kernel's facts, before sampling starts.
fn facts() {
    let auxv = Auxv::read().unwrap_or_default();
    arch::set_hwcap2(auxv.hwcap2);
    time::set_vdso(auxv.vdso);
    // Only blocks that the program tells of: who serves malloc is not looked for.
    heap::install(&heap::Facts { server: AllocServer::NotKnown, path: &[], sources: source::API });
}

// Weak references, as data: 0 where the program has no such function.
global_asm!(
    ".pushsection .data.rel.pct_atfork,\"aw\",@progbits",
    ".weak __register_atfork",
    ".weak pthread_atfork",
    ".hidden pct_register_atfork",
    ".globl pct_register_atfork",
    ".balign 8",
    "pct_register_atfork: .quad __register_atfork",
    ".hidden pct_pthread_atfork",
    ".globl pct_pthread_atfork",
    "pct_pthread_atfork: .quad pthread_atfork",
    ".popsection",
);

unsafe extern "C" {
    static pct_register_atfork: Option<unsafe extern "C" fn(usize, usize, usize, usize) -> i32>;
    static pct_pthread_atfork: Option<unsafe extern "C" fn(usize, usize, usize) -> i32>;
}

fn prepare(_: *const *const u8) {
    static REGISTERED: AtomicBool = AtomicBool::new(false);
    if REGISTERED.swap(true, Ordering::Relaxed) {
        return;
    }
    passing::begin_to_pass_by();
    let child = in_child as extern "C" fn() as usize;
    // SAFETY: the words above; the functions' own shapes, and a handler that is never unloaded.
    unsafe {
        if let Some(register) = pct_register_atfork {
            register(0, 0, child, 0);
        } else if let Some(register) = pct_pthread_atfork {
            register(0, 0, child);
        }
    }
    let options = &session::seed().options;
    if options.on == On::Signal {
        toggle::listen(options.toggle);
    }
}

extern "C" fn in_child() {
    life::start_in_child();
}

fn entries() -> [u64; 4] {
    let on = on as unsafe extern "C" fn(*const u8) -> i32;
    let off = off as extern "C" fn() -> i32;
    let stat = stat as extern "C" fn() -> i32;
    [on as usize as u64, off as usize as u64, stat as usize as u64, 0]
}

/// See pct.h.
///
/// # Safety
/// `options` is null or a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pct_on(options: *const u8) -> i32 {
    // SAFETY: by the caller's promise.
    unsafe { on(options) }
}

/// See pct.h.
#[unsafe(no_mangle)]
pub extern "C" fn pct_off() -> i32 {
    off()
}

/// See pct.h.
#[unsafe(no_mangle)]
pub extern "C" fn pct_stat() -> i32 {
    stat()
}

/// See pct.h.
///
/// # Safety
/// `name` is null or a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pct_mark(name: *const u8) -> i32 {
    // SAFETY: by the caller's promise.
    unsafe { api::set_mark(name) }
}

/// Tells of a block of the program's own allocator. See pct.h.
///
/// # Safety
/// None is needed: the address is not read.
#[cfg(target_arch = "x86_64")]
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

unsafe extern "C" fn on(options: *const u8) -> i32 {
    // SAFETY: by the caller's promise.
    unsafe { api::on(&HOST, options) }
}

extern "C" fn off() -> i32 {
    api::off()
}

extern "C" fn stat() -> i32 {
    api::stat()
}
