//! Stopping seized threads, and letting go those that stop too late.

use super::error::CallError;
use super::restart;
use super::sys::{self, Errno, Regs, Stop, Tid};
use std::cell::RefCell;
use std::time::{Duration, Instant};

/// How long pct waits for a thread to stop before it gives up or tries another.
pub const STOP: Duration = Duration::from_millis(200);

/// Runs `work`, which stops threads, in a thread of its own. A thread that did not stop in time stops later, and stays
/// stopped until its tracer ends: the tracer is this thread. SIGCHLD, which reports stops, is blocked in all threads of
/// pct meanwhile, because the kernel drops it otherwise.
pub fn in_own_thread<R: Send>(work: impl FnOnce() -> R + Send) -> R {
    let _signal = sys::ChildSignal::block();
    std::thread::scope(|scope| {
        let working = scope.spawn(work);
        working.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Waits for the next stop of one thread.
///
/// # Errors
/// [`CallError::NoStop`] after `limit`; [`CallError::Gone`] when it ended.
pub fn wait_stop(tid: Tid, limit: Duration) -> Result<Stop, CallError> {
    /// SIGCHLD is the process's: another thread of pct may take it. So the wait for it is no longer than this.
    const LOOK: u64 = 1_000_000;
    let start = Instant::now();
    // a waiting thread gets a processor as soon as the stop happens; one that polls does not
    let signal = sys::ChildSignal::block();
    loop {
        match sys::peek_stop(tid) {
            Ok(Some(stop)) if stop.is_end() => return Err(CallError::Gone(tid)),
            Ok(Some(stop)) => return Ok(stop),
            Ok(None) => {}
            Err(e) if e.0 == libc::EINTR => continue,
            Err(e) if e.0 == libc::ECHILD => return Err(CallError::Gone(tid)),
            Err(source) => return Err(CallError::Request { what: "wait", tid, source }),
        }
        let left = limit.saturating_sub(start.elapsed());
        if left.is_zero() {
            return Err(CallError::NoStop(tid, limit.as_millis()));
        }
        signal.wait(LOOK.min(left.as_nanos() as u64));
    }
}

/// Asks a seized thread to stop and waits until it has done so; signals that come before are passed on.
///
/// # Errors
/// As [`wait_stop`]; `limit` is that of the whole wait.
pub(super) fn interrupted(tid: Tid, limit: Duration) -> Result<(), CallError> {
    let request = |what| CallError::from_refusal(what, tid);
    let start = Instant::now();
    sys::interrupt(tid).map_err(request("interrupt"))?;
    loop {
        let delivered = match wait_stop(tid, limit.saturating_sub(start.elapsed())) {
            Ok(Stop::Interrupted | Stop::Group(_)) => return Ok(()),
            Ok(Stop::Signal(signal)) => signal,
            Ok(_) => 0,
            Err(CallError::NoStop(..)) => return Err(CallError::NoStop(tid, limit.as_millis())),
            Err(why) => return Err(why),
        };
        if delivered != 0 {
            set_again(tid, delivered);
        }
        go_on_to_interrupt(tid, delivered).map_err(request("continue"))?;
    }
}

/// Resumes a thread that was asked to stop and has stopped for another reason. It is asked anew: a stop of any kind
/// takes an interrupt that is under way with it (the kernel's ptrace_stop: "any trap clears pending STOP trap").
pub(super) fn go_on_to_interrupt(tid: Tid, delivered: i32) -> Result<(), Errno> {
    sys::interrupt(tid)?;
    sys::cont(tid, delivered)
}

/// Releases a seized thread that was asked to stop, if it has stopped by now or has ended. Says whether it did.
fn let_go(tid: Tid) -> bool {
    let signal = match sys::peek_stop(tid) {
        Ok(None) => return false,
        Err(e) if e.0 == libc::EINTR => return false,
        Ok(Some(stop)) if stop.is_end() => return true,
        Ok(Some(Stop::Signal(signal))) => signal,
        Ok(Some(_)) => 0,
        Err(_) => return true,
    };
    set_again(tid, signal);
    sys::detach(tid, signal).is_ok() || sys::peek_stop(tid).is_err()
}

thread_local! {
    /// Threads that this tracer (a tracer is a thread) has seized and asked to stop, and that had not stopped in time.
    static LATE: RefCell<Vec<Tid>> = const { RefCell::new(Vec::new()) };
}

/// Remembers a thread that did not stop in time. It will stop later, and must then be released.
pub(super) fn is_late(tid: Tid) {
    LATE.with_borrow_mut(|late| late.push(tid));
}

/// Releases the remembered threads that have stopped by now. Gives those that still have not.
pub fn let_late_go() -> Vec<Tid> {
    LATE.with_borrow_mut(|late| {
        late.retain(|tid| !let_go(*tid));
        late.clone()
    })
}

/// Makes a system call again that the stop has cut short, unless `delivered` is a signal that the program
/// notices; the thread's registers before that.
pub fn set_again(tid: Tid, delivered: i32) -> Option<Regs> {
    let regs = sys::regs(tid).ok()?;
    if let Some(again) = restart::again(tid, &regs, None, delivered) {
        let _ = sys::set_regs(tid, &again);
    }
    Some(regs)
}

/// The stack pointer of a thread that runs. `None`: as [`at_stop`].
pub fn stack_pointer(tid: Tid, limit: Duration) -> Option<u64> {
    at_stop(tid, limit, sys::regs)?.ok().map(|regs| regs.rsp)
}

/// What `look` finds out of a thread that runs: it is stopped for a moment. `None` when that cannot be done within
/// `limit`, or somebody else traces it.
pub fn at_stop<R>(tid: Tid, limit: Duration, look: impl FnOnce(Tid) -> R) -> Option<R> {
    sys::seize(tid, libc::PTRACE_O_TRACESYSGOOD).ok()?;
    if let Err(why) = interrupted(tid, limit) {
        if matches!(why, CallError::NoStop(..)) {
            is_late(tid);
        }
        return None;
    }
    let found = look(tid);
    set_again(tid, 0);
    let _ = sys::detach(tid, 0);
    Some(found)
}
