//! A signal of the user's that switches sampling on and off.
//!
//! Signal safety: the handler makes system calls, and waits for locks a bounded number of times.

use core::sync::atomic::Ordering;

use crate::process::session::{self, Refused};
use crate::process::{life, report};
use crate::signal::lent::{OnStackWithRoom, WithRoom};
use crate::signal::numbers;
use crate::sys::{self, SigAction, arch};
use pct_format::State;

/// Switches sampling on and off by `signal`, until the process ends.
pub fn listen(signal: i32) {
    let action =
        SigAction { handler: arch::aligned::<WithRoom<OnToggle>> as *const () as usize, ..numbers::action() };
    // SAFETY: `OnToggle` is made to run at any instant in any thread.
    let _ = unsafe { sys::sigaction(signal, Some(&action)) };
}

struct OnToggle;

impl OnStackWithRoom for OnToggle {
    unsafe fn handle(_: i32, _: *const u8, _: *const u8) {
        match session::current().filter(|s| s.on.load(Ordering::Relaxed)) {
            Some(session) => life::stop(session, State::Stopped),
            None => {
                if let Err(refused) = life::start() {
                    report::report(match refused {
                        Refused::Clock(_) => b"the clock does not work here: sampling stays off",
                        _ => b"sampling could not be switched on",
                    });
                }
            }
        }
    }
}
