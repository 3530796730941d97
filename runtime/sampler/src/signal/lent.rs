//! Stacks for the handler where the thread's own alternate one has too little room for it.
//!
//! The handler runs on a thread's alternate stack, as it must where the ordinary one is a coroutine's of a few
//! kilobytes. Many programs set SIGSTKSZ bytes aside, 8 KiB, of which the kernel's frame takes 3.4 KB on a machine with
//! large registers. So the entry ([`arch::aligned`]) looks how far the alternate stack reaches below it, and borrows
//! one of the stacks here when that is less than [`ROOM`]. What the program set stays as it is.
//!
//! While a handler is on a lent stack, its thread has no alternate stack: the kernel would take it for unused, and put
//! the frame of a fault in the handler where the frame of the handler's own signal is. `rt_sigreturn` sets it again.
//!
//! Signal safety: atomics; one system call.

use core::cell::UnsafeCell;
use core::marker::PhantomData;
use core::sync::atomic::{AtomicBool, Ordering};

use crate::process::session;
use crate::sys::{self, arch};
use pct_format::LossCause;

/// Bytes that a handler must have: 6.4 KB is the most that was seen, and a fault in it (SIGBUS of a file that was cut)
/// has a frame of the kernel's beside it.
pub const ROOM: usize = 10 << 10;
/// Bytes of a lent stack: the handler, and the frame of a fault on the machine with the largest registers (11 KB).
const STACK_BYTES: usize = 24 << 10;
/// So many handlers may be on lent stacks at once, those included that wait for a processor in the middle. A page that
/// none has reached takes no memory.
const STACKS: usize = 16;

#[repr(C, align(64))]
struct Stack(UnsafeCell<[u8; STACK_BYTES]>);

// SAFETY: only the thread that took the stack, by its flag in `TAKEN`, runs on it.
unsafe impl Sync for Stack {}

static LENT: [Stack; STACKS] = [const { Stack(UnsafeCell::new([0; STACK_BYTES])) }; STACKS];
static TAKEN: [AtomicBool; STACKS] = [const { AtomicBool::new(false) }; STACKS];

/// What a handler does once its stack has [`ROOM`].
pub(crate) trait OnStackWithRoom {
    /// Gets what the kernel passes to a handler.
    ///
    /// # Safety
    /// As [`arch::Handler::handle`].
    unsafe fn handle(signal: i32, info: *const u8, context: *const u8);
}

/// A handler that runs `H` on a lent stack where its own has too little room.
pub(crate) struct WithRoom<H>(PhantomData<H>);

impl<H: OnStackWithRoom> arch::Handler for WithRoom<H> {
    const ROOM: usize = ROOM;

    unsafe extern "C" fn handle(signal: i32, info: *const u8, context: *const u8) {
        // SAFETY: the caller's.
        unsafe { H::handle(signal, info, context) };
    }

    unsafe extern "C" fn handle_apart(signal: i32, info: *const u8, context: *const u8) {
        if !session::is_filtered() {
            // SAFETY: no stack. (It fails for a thread that is on its own alternate one: this one is not.)
            let _ = unsafe { sys::set_alternate_stack(&sys::AlternateStack::NONE) };
        }
        // SAFETY: the caller's.
        unsafe { Self::handle(signal, info, context) };
    }

    extern "C" fn lend() -> usize {
        for (stack, taken) in LENT.iter().zip(&TAKEN) {
            // Acquire: with `give_back`.
            if !taken.load(Ordering::Relaxed) && !taken.swap(true, Ordering::Acquire) {
                return stack.0.get().addr() + STACK_BYTES;
            }
        }
        lose();
        0
    }

    extern "C" fn give_back(top: usize) {
        let ends = |stack: &Stack| stack.0.get().addr() + STACK_BYTES == top;
        if let Some((_, taken)) = LENT.iter().zip(&TAKEN).find(|(stack, _)| ends(stack)) {
            taken.store(false, Ordering::Release);
        }
    }
}

/// No stack is free.
#[cold]
#[inline(never)]
fn lose() {
    if let Some(session) = session::current() {
        session.rings.without_slot(|| session.log.lose(LossCause::Busy, 1, 1));
    }
}

/// A thread that was on a lent stack does not exist in the child of a fork.
pub(crate) fn in_child() {
    for taken in &TAKEN {
        taken.store(false, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::own_stack::run_on;
    use core::sync::atomic::{AtomicPtr, AtomicUsize};
    use std::os::fd::{FromRawFd as _, OwnedFd};

    const PAGE: usize = 4096;
    /// Memory that cannot be had: a mapping of an empty file.
    static FAULTS: AtomicPtr<u8> = AtomicPtr::new(core::ptr::null_mut());
    static OWN: AtomicPtr<u8> = AtomicPtr::new(core::ptr::null_mut());
    static FAULTED: AtomicUsize = AtomicUsize::new(0);
    static RUN: AtomicUsize = AtomicUsize::new(0);
    static AT: AtomicUsize = AtomicUsize::new(0);

    struct Probe;

    /// Uses as much stack as the sampler's handler does, and a fault.
    fn use_stack() {
        let mut much = [0_u8; 6400];
        core::hint::black_box(&mut much);
        AT.store(much.as_ptr().addr(), Ordering::Relaxed);
        // SAFETY: mapped; the first store faults, and `mend` gives it memory.
        unsafe { FAULTS.load(Ordering::Relaxed).write_volatile(1) };
        RUN.fetch_add(1, Ordering::Relaxed);
    }

    /// Runs `work` in a handler, whose frame is as it was afterwards. (With another one it would return to anywhere.)
    fn with_frame_kept(context: *const u8, work: impl FnOnce()) {
        // SAFETY: the kernel's context has more than that.
        let saved = || unsafe { context.cast::<[u64; 32]>().read_volatile() };
        let before = saved();
        work();
        if saved() != before {
            eprintln!("a fault's frame lies on the handler's");
            std::process::abort();
        }
    }

    impl OnStackWithRoom for Probe {
        unsafe fn handle(_: i32, _: *const u8, context: *const u8) {
            with_frame_kept(context, use_stack);
        }
    }

    extern "C" fn on_own_stack(_: i32, _: *const u8, context: *const u8) {
        let own = OWN.load(Ordering::Relaxed).addr() + (64 << 10);
        // SAFETY: memory for nothing else.
        with_frame_kept(context, || unsafe { run_on(own, true, use_stack) });
    }

    extern "C" fn mend(_: i32) {
        let at = FAULTS.load(Ordering::Relaxed).cast();
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_FIXED | libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: the page that faulted.
        unsafe { libc::mmap(at, PAGE, protection, flags, -1, 0) };
        FAULTED.fetch_add(1, Ordering::Relaxed);
    }

    fn map(file: Option<&OwnedFd>, bytes: usize) -> *mut u8 {
        let (flags, fd) = match file {
            Some(file) => (libc::MAP_SHARED, std::os::fd::AsRawFd::as_raw_fd(file)),
            None => (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1),
        };
        // SAFETY: a new mapping.
        let at = unsafe {
            libc::mmap(core::ptr::null_mut(), bytes, libc::PROT_READ | libc::PROT_WRITE, flags, fd, 0)
        };
        assert_ne!(at, libc::MAP_FAILED);
        at.cast()
    }

    fn set(signal: i32, handler: *const (), flags: i32) {
        // SAFETY: all zeros is a sigaction.
        let mut action: libc::sigaction = unsafe { core::mem::zeroed() };
        action.sa_sigaction = handler.addr();
        action.sa_flags = flags | libc::SA_ONSTACK;
        // SAFETY: this test's own signals.
        assert_eq!(unsafe { libc::sigaction(signal, &raw const action, core::ptr::null_mut()) }, 0);
    }

    /// What the kernel needs for a signal's frame.
    fn least() -> usize {
        // SAFETY: a number.
        let asked = unsafe { libc::getauxval(libc::AT_MINSIGSTKSZ) };
        usize::try_from(asked).expect("a size").max(libc::MINSIGSTKSZ)
    }

    /// With `beside` bytes beside the kernel's frame: where the handler ran, and where its alternate stack is.
    fn handled(beside: usize) -> (usize, core::ops::Range<usize>) {
        let (below, size) = (64 << 10, least() + beside);
        let memory = map(None, below + (64 << 10));
        // SAFETY: the mapping.
        unsafe { memory.write_bytes(0xab, below) };
        let stack = libc::stack_t { ss_sp: memory.wrapping_add(below).cast(), ss_flags: 0, ss_size: size };
        // SAFETY: memory for nothing else.
        assert_eq!(unsafe { libc::sigaltstack(&raw const stack, core::ptr::null_mut()) }, 0);
        // SAFETY: a memfd.
        let empty = unsafe { OwnedFd::from_raw_fd(libc::memfd_create(c"empty".as_ptr(), libc::MFD_CLOEXEC)) };
        FAULTS.store(map(Some(&empty), PAGE), Ordering::Relaxed);
        let before = [&RUN, &FAULTED].map(|n| n.load(Ordering::Relaxed));
        // SAFETY: it has a handler.
        assert_eq!(unsafe { libc::raise(libc::SIGUSR2) }, 0);
        let after = [&RUN, &FAULTED].map(|n| n.load(Ordering::Relaxed));
        assert_eq!(after, [before[0] + 1, before[1] + 1], "run once, one fault");
        let mut now = libc::stack_t { ss_sp: core::ptr::null_mut(), ss_flags: 0, ss_size: 0 };
        // SAFETY: asks.
        assert_eq!(unsafe { libc::sigaltstack(core::ptr::null(), &raw mut now) }, 0);
        assert_eq!((now.ss_sp, now.ss_flags, now.ss_size), (stack.ss_sp, 0, size), "as it was set");
        // SAFETY: the mapping.
        let painted = unsafe { core::slice::from_raw_parts(memory, below) };
        assert!(
            painted.iter().all(|byte| *byte == 0xab),
            "{beside}: nothing below the alternate stack is touched"
        );
        let low = stack.ss_sp.addr();
        (AT.load(Ordering::Relaxed), low..low + size)
    }

    #[test]
    fn work_on_another_stack_leaves_the_frame_of_its_handler_whole() {
        OWN.store(map(None, 64 << 10), Ordering::Relaxed);
        set(libc::SIGUSR2, on_own_stack as *const (), libc::SA_SIGINFO);
        set(libc::SIGBUS, mend as *const (), 0);
        let (at, own) = handled(4096);
        assert!(!own.contains(&at), "on another stack");
    }

    #[test]
    fn a_handler_without_room_runs_on_a_lent_stack_and_a_fault_in_it_leaves_its_frame_whole() {
        set(libc::SIGUSR2, arch::aligned::<WithRoom<Probe>> as *const (), libc::SA_SIGINFO);
        set(libc::SIGBUS, mend as *const (), 0);
        // What lends takes more stack where it is not optimized.
        let smallest = if cfg!(debug_assertions) { 2000 } else { 0 };
        for beside in [smallest, 2400, 4800] {
            let (at, own) = handled(beside);
            assert!(!own.contains(&at), "{beside}: on a lent stack");
        }
        let (at, own) = handled(ROOM + 4096);
        assert!(own.contains(&at), "with room on its own");
        assert!(TAKEN.iter().all(|taken| !taken.load(Ordering::Relaxed)), "all were given back");
        for taken in &TAKEN {
            taken.store(true, Ordering::Relaxed);
        }
        let run = RUN.load(Ordering::Relaxed);
        let small = std::thread::spawn(move || {
            let stack =
                libc::stack_t { ss_sp: map(None, 64 << 10).cast(), ss_flags: 0, ss_size: least() + smallest };
            // SAFETY: memory for nothing else; the signal has a handler.
            unsafe {
                libc::sigaltstack(&raw const stack, core::ptr::null_mut()) == 0
                    && libc::raise(libc::SIGUSR2) == 0
            }
        });
        assert!(small.join().expect("it goes on"));
        assert_eq!(RUN.load(Ordering::Relaxed), run, "none was free: not handled");
        in_child();
    }
}
