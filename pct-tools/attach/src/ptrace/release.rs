//! Letting a borrowed thread go that has its own registers and mask back, with the signals that came meanwhile.
//!
//! A signal to the process goes to any thread that does not block it. Had the borrowed thread blocked it,
//! another one would run the handler, and the call in which the borrowed thread waits would not end by EINTR:
//! a main loop that looks at what its handlers have set would sleep on. So the thread takes such a signal
//! ([`ReturnedSignal`]) and gets it at the end, with all that it carried.
//!
//! A signal of a sampler in the target is the reverse: it came because the thread ran for us. If the thread
//! was taken out of a system call that the kernel goes on with only when no handler runs (`poll`,
//! `nanosleep`), that call would end by EINTR, which it would not without us. Such a signal is dropped: the
//! sampler sees the time at its next tick.

use super::bell::bit;
use super::error::CallError;
use super::restart::of_clocks;
use super::stop::{set_again, wait_stop};
use super::sys::{self, Regs, SignalInfo, Stop, Tid};
use std::time::Duration;

/// How long pct waits for a thread that is about to receive a signal.
const DELIVERY: Duration = Duration::from_millis(200);
/// More signals than this are not dropped: a sampler has two clocks a thread.
const MOST_DROPPED: u32 = 4;

/// A signal that waits for the thread, sent by us, and what it was first sent with.
#[derive(Debug, Clone, Copy)]
pub(super) struct ReturnedSignal {
    pub(super) signal: i32,
    pub(super) info: SignalInfo,
}

/// Whether the kernel goes on with an interrupted call by itself, but ends it with EINTR when a handler runs:
/// ERESTARTNOHAND, ERESTART_RESTARTBLOCK.
fn ends_by_a_handler(regs: &Regs) -> bool {
    regs.orig_rax as i64 >= 0 && matches!(regs.rax as i64, -514 | -516)
}

/// Prepares a stopped thread, which has its own registers and mask again, for the detach. Gives the signal to detach
/// it with, or 0.
pub(super) fn settle(
    tid: Tid,
    regs: &Regs,
    mask: u64,
    returned: Option<ReturnedSignal>,
) -> Result<i32, CallError> {
    let unblocked = |set: u64| set & !mask;
    match returned {
        Some(returned) => deliver(tid, returned),
        None if ends_by_a_handler(regs) => {
            for _ in 0..MOST_DROPPED {
                let clocks = unblocked(of_clocks(tid));
                if clocks == 0 {
                    break;
                }
                match to_next_stop(tid)? {
                    // if the thread is resumed or detached without it, it never gets it
                    Stop::Signal(s) if clocks & bit(s) != 0 => {}
                    stop => return Ok(passed_on(tid, stop)),
                }
            }
            Ok(0)
        }
        None => Ok(0),
    }
}

/// The thread gets the signal as it was first sent.
fn deliver(tid: Tid, returned: ReturnedSignal) -> Result<i32, CallError> {
    match to_next_stop(tid)? {
        Stop::Signal(signal) if signal == returned.signal => {
            // Refused: it gets the signal that pct has sent.
            let _ = sys::set_signal_info(tid, &returned.info);
            Ok(signal)
        }
        stop => Ok(passed_on(tid, stop)),
    }
}

/// Resumes the thread until it is about to receive the signal that waits for it. It runs no instruction of its own
/// up to then.
fn to_next_stop(tid: Tid) -> Result<Stop, CallError> {
    let request = |what| CallError::from_refusal(what, tid);
    sys::cont(tid, 0).map_err(request("continue"))?;
    match wait_stop(tid, DELIVERY) {
        // it waits for a processor
        Err(CallError::NoStop(..)) => {
            sys::interrupt(tid).map_err(request("interrupt"))?;
            wait_stop(tid, DELIVERY)
        }
        stop => stop,
    }
}

/// The signal of a stop that is not the expected one; 0: none.
fn passed_on(tid: Tid, stop: Stop) -> i32 {
    let signal = if let Stop::Signal(signal) = stop { signal } else { 0 };
    set_again(tid, signal);
    signal
}
