//! The housekeeper's own stack.
//!
//! Signal safety: the try-lock; one system call, when the stack is used for the first time.

use core::sync::atomic::Ordering;

use crate::process::session::{House, Session};
use crate::sys::lock::Lock;
use crate::sys::{self, arch};

/// Bytes of the housekeeper's own stack. What reads a Java virtual machine's tables keeps some pages of them on it.
/// Memory is used up to the depth that was reached.
const STACK_BYTES: usize = 256 << 10;
/// Its lowest address, 0 = none yet. (A lock on [`House`] would not do: two sessions have one each.)
static STACK: Lock<usize> = Lock::new(0);

/// A thread that was on the stack does not exist in the child of a fork.
pub(crate) fn stack_in_child() {
    STACK.free_in_child();
}

/// Runs `work` on a stack of our own: the thread may be on a signal stack of 8 KiB, of which the kernel has
/// taken half (every Rust program's main thread is), and making the file or reading the maps wants more than
/// the rest. If another thread is on it, the work is left out: all of it is tried again later.
pub(crate) fn on_own_stack(session: &Session, house: &mut House, work: fn(&Session, &mut House)) {
    let Some(mut low) = STACK.try_lock() else { return };
    if *low == 0 {
        match sys::map_memory(STACK_BYTES) {
            Ok(at) => *low = at as usize,
            // Without memory nothing will come of the work either. A process that ends so says why it has no file.
            Err(_) => {
                session.tries.fetch_add(1, Ordering::Relaxed);
                return;
            }
        }
    }
    let top = *low + STACK_BYTES;
    // SAFETY: the mapping is ours, and the lock keeps it to one thread.
    unsafe { run_on(top, session.may_call(), || work(session, house)) };
}

/// Runs `work` with the stack pointer at `top`. Meanwhile the thread has no alternate stack if `may_call` (two system
/// calls): it may be in a handler on that one, and the kernel, which would take it for unused, would put the frame of a
/// fault (of a store to a file that was cut) where that handler's own frame is.
///
/// # Safety
/// As [`arch::call_on`].
pub(crate) unsafe fn run_on<F: FnOnce()>(top: usize, may_call: bool, work: F) {
    struct Job<F>(bool, Option<F>);
    extern "C" fn run<F: FnOnce()>(job: usize) {
        // SAFETY: `job` is the address of the value below, which lives until `call_on` returns.
        let job = unsafe { &mut *(job as *mut Job<F>) };
        // SAFETY: no stack.
        let theirs = job.0.then(|| unsafe { sys::set_alternate_stack(&sys::AlternateStack::NONE) });
        if let Some(work) = job.1.take() {
            work();
        }
        if let Some(Ok(theirs)) = theirs {
            // SAFETY: as the program had it.
            let _ = unsafe { sys::set_alternate_stack(&theirs) };
        }
    }
    let mut job = Job(may_call, Some(work));
    // SAFETY: the caller's.
    unsafe { arch::call_on(top, run::<F>, &raw mut job as usize) };
}
