//! `pthread_create`: the new thread arms itself before it runs the host's function.
//!
//! What the host wanted to start is kept in a small pool until the thread fetches it; our code then jumps to the host's
//! function, so that no frame of ours is left on the thread's stack. A full pool, or sampling off: the call passes as it
//! is, and the housekeeper finds the thread.

use core::arch::naked_asm;
use core::sync::atomic::{AtomicUsize, Ordering};

use pct_sampler::{process::session, process::threads, sys};

use crate::host::{Real, real};

const POOL: usize = 256;

/// A thread to be: 0 = free, 1 = being filled, else the host's function.
struct Start {
    function: AtomicUsize,
    argument: AtomicUsize,
}

static WAITING: [Start; POOL] =
    [const { Start { function: AtomicUsize::new(0), argument: AtomicUsize::new(0) } }; POOL];

type Create = unsafe extern "C" fn(*mut u8, *const u8, usize, usize) -> i32;

/// Stands in front of libc's.
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_create(
    thread: *mut u8,
    attributes: *const u8,
    function: usize,
    argument: usize,
) -> i32 {
    let create = real(Real::PthreadCreate);
    if create == 0 {
        return 11; // EAGAIN: there are no threads here
    }
    // SAFETY: libc's pthread_create.
    let create: Create = unsafe { core::mem::transmute(create) };
    session::revive();
    let on = session::current().is_some_and(|s| s.on.load(Ordering::Relaxed));
    if let Some(session) = session::current().filter(|_| on) {
        threads::before_birth(session);
    }
    let place = if on && function > 1 { put(function, argument) } else { None };
    let Some(place) = place else {
        // SAFETY: the host's own arguments.
        return unsafe { create(thread, attributes, function, argument) };
    };
    let entry = begin_thread as unsafe extern "C" fn() as usize;
    // SAFETY: `begin_thread` takes the pool's place and goes on with the host's function and argument.
    let result = unsafe { create(thread, attributes, entry, core::ptr::from_ref(place) as usize) };
    if result != 0 {
        place.function.store(0, Ordering::Release);
    }
    result
}

fn put(function: usize, argument: usize) -> Option<&'static Start> {
    let free = |s: &&Start| s.function.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_ok();
    let place = WAITING.iter().find(free)?;
    place.argument.store(argument, Ordering::Relaxed);
    // Release: the thread that sees the function sees the argument.
    place.function.store(function, Ordering::Release);
    Some(place)
}

/// The host's function and its argument, as registers return two words.
#[repr(C)]
struct Next {
    function: usize,
    argument: usize,
}

extern "C" fn arm(place: &'static Start) -> Next {
    let function = place.function.load(Ordering::Acquire);
    let next = Next { function, argument: place.argument.load(Ordering::Relaxed) };
    place.function.store(0, Ordering::Release);
    if let Some(session) = session::current()
        && session.on.load(Ordering::Relaxed)
        && session.may_call()
    {
        let _ = threads::arm(session, sys::gettid(), true, false);
        session.stale.store(true, Ordering::Relaxed);
    }
    next
}

/// Where new threads begin: arms, then jumps to the host's function as if it had been called.
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
unsafe extern "C" fn begin_thread() {
    naked_asm!("sub rsp, 8", "call {arm}", "add rsp, 8", "mov rdi, rdx", "jmp rax", arm = sym arm)
}

/// Where new threads begin: arms, then jumps to the host's function as if it had been called.
#[cfg(target_arch = "aarch64")]
#[unsafe(naked)]
unsafe extern "C" fn begin_thread() {
    naked_asm!(
        "stp x29, x30, [sp, #-16]!",
        "bl {arm}",
        "ldp x29, x30, [sp], #16",
        "mov x16, x0",
        "mov x0, x1",
        "br x16",
        arm = sym arm
    )
}
