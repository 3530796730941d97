//! `pthread_create`: the new thread arms itself before it runs the host's function.
//!
//! `clone` passes as it is: a thread that is made so is found by the housekeeper, which is told that it comes.
//!
//! What the host wanted to start is kept in a small pool until the thread fetches it; our code then jumps to the host's
//! function, so that none of our frames is left on the thread's stack. If the pool is full, or sampling is
//! off, the call passes as it is and the housekeeper finds the thread later.

use core::arch::naked_asm;
#[cfg(all(feature = "waits", target_arch = "x86_64"))]
use core::sync::atomic::{AtomicU32, AtomicU64};
use core::sync::atomic::{AtomicUsize, Ordering};

#[cfg(all(feature = "waits", target_arch = "x86_64"))]
use pct_sampler::waits;
use pct_sampler::{process::life, process::passing, process::session, process::threads, process::watch};

use crate::host::{Real, real};
use crate::jump::jump_after;

const POOL: usize = 256;

/// A thread to be: 0 = free, 1 = being filled, else the host's function.
struct Start {
    function: AtomicUsize,
    argument: AtomicUsize,
    /// Bytes of its stack, 0 = not known.
    stack: AtomicUsize,
    /// Where waits are recorded: raw time at which it is made, 0 = not recorded; and by which thread.
    #[cfg(all(feature = "waits", target_arch = "x86_64"))]
    made: (AtomicU64, AtomicU32),
}

static WAITING: [Start; POOL] = [const {
    Start {
        function: AtomicUsize::new(0),
        argument: AtomicUsize::new(0),
        stack: AtomicUsize::new(0),
        #[cfg(all(feature = "waits", target_arch = "x86_64"))]
        made: (AtomicU64::new(0), AtomicU32::new(0)),
    }
}; POOL];

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
    life::revive();
    let on = session::current().is_some_and(|s| s.on.load(Ordering::Relaxed));
    if let Some(session) = session::current().filter(|_| on) {
        threads::before_birth(session);
    }
    let place = if on && function > 1 { store_start(function, argument) } else { None };
    let place = place.inspect(|place| {
        // SAFETY: the host's own attributes, or none.
        place.stack.store(unsafe { stack_bytes(attributes) }, Ordering::Relaxed);
        #[cfg(all(feature = "waits", target_arch = "x86_64"))]
        place.note_maker();
    });
    let Some(place) = place else {
        // SAFETY: the host's own arguments.
        return unsafe { create(thread, attributes, function, argument) };
    };
    passing::a_birth_begins();
    let entry = begin_thread as unsafe extern "C" fn() as usize;
    // SAFETY: `begin_thread` takes the pool's place and goes on with the host's function and argument.
    let result = unsafe { create(thread, attributes, entry, core::ptr::from_ref(place) as usize) };
    if result != 0 {
        place.function.store(0, Ordering::Release);
        passing::a_birth_ends();
    }
    result
}

#[cfg(all(feature = "waits", target_arch = "x86_64"))]
impl Start {
    /// The calling thread makes it now.
    fn note_maker(&self) {
        let (time, tid) = waits::makes_thread().unwrap_or_default();
        self.made.0.store(time, Ordering::Relaxed);
        self.made.1.store(tid, Ordering::Relaxed);
    }

    /// Raw time at which it was made, and by whom.
    fn maker(&self) -> Option<(u64, u32)> {
        let time = self.made.0.load(Ordering::Relaxed);
        (time != 0).then(|| (time, self.made.1.load(Ordering::Relaxed)))
    }
}

/// Bytes that a thread with these attributes has for its stack, guard pages not counted; 0 = not known.
///
/// # Safety
/// Attributes that libc knows, or null for its default ones.
unsafe fn stack_bytes(attributes: *const u8) -> usize {
    type Size = unsafe extern "C" fn(*const u8, *mut usize) -> i32;
    type Whole = unsafe extern "C" fn(*mut u8) -> i32;
    let (size, guard) = (real(Real::StackSize), real(Real::GuardSize));
    let (default, destroy) = (real(Real::DefaultAttributes), real(Real::DestroyAttributes));
    if size == 0 || guard == 0 {
        return 0;
    }
    if attributes.is_null() {
        if default == 0 || destroy == 0 {
            return 0;
        }
        // More than a pthread_attr_t of any C library: 56 octets in glibc and musl.
        let mut own = [0u64; 32];
        let own = own.as_mut_ptr().cast::<u8>();
        // SAFETY: libc's functions of these names, on memory that is large enough; what is read was filled.
        unsafe {
            let default: Whole = core::mem::transmute(default);
            let destroy: Whole = core::mem::transmute(destroy);
            if default(own) != 0 {
                return 0;
            }
            let bytes = stack_bytes(own);
            destroy(own);
            return bytes;
        }
    }
    let (mut stack, mut guarded) = (0, 0);
    // SAFETY: libc's functions of these names, on attributes that libc knows.
    unsafe {
        let size: Size = core::mem::transmute(size);
        let guard: Size = core::mem::transmute(guard);
        if size(attributes, &raw mut stack) != 0 || guard(attributes, &raw mut guarded) != 0 {
            return 0;
        }
    }
    // Old versions of glibc take the guard pages from the stack's size.
    stack.saturating_sub(guarded)
}

fn store_start(function: usize, argument: usize) -> Option<&'static Start> {
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
    let stack = place.stack.load(Ordering::Relaxed);
    #[cfg(all(feature = "waits", target_arch = "x86_64"))]
    let maker = place.maker();
    place.function.store(0, Ordering::Release);
    if let Some(session) = session::current()
        && session.on.load(Ordering::Relaxed)
        && session.may_call()
    {
        let armed = threads::arm_newborn(session);
        if armed.is_ok()
            && let Some(ring) = session.rings.own(true)
        {
            ring.stack_created_with(stack as u64);
            #[cfg(all(feature = "waits", target_arch = "x86_64"))]
            if let Some(maker) = maker {
                waits::was_made(maker);
            }
        }
        session.stale.store(true, Ordering::Relaxed);
    } else if let Some(session) = session::current()
        && session.on.load(Ordering::Relaxed)
    {
        life::note_thread_under_filter(session);
    }
    passing::a_birth_ends();
    next
}

/// The host is about to call `clone` with these flags.
pub(crate) fn before_clone_with(flags: usize) {
    const CLONE_THREAD: usize = 0x1_0000;
    if flags & CLONE_THREAD != 0 {
        watch::expect_unseen_threads();
    }
}

extern "C" fn before_clone(_: usize, _: usize, _: usize, flags: usize) -> usize {
    before_clone_with(flags);
    real(Real::Clone)
}

jump_after!(clone, before_clone, 0);

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
