//! One controller at a time works in a process.

use crate::choose::Refusal;
use crate::delays::{PATIENCE, tell};
use crate::facts::{self, Target};
use crate::inject_error::InjectError;
use std::fs::TryLockError;
use std::time::{Duration, Instant};

/// How long pct waits for another controller.
const TURN: Duration = Duration::from_secs(10);

/// The right to borrow threads of one process. One controller at a time has it, because two would write their
/// frames to the same address. It ends with the controller.
pub(crate) struct Turn {
    process: i32,
    _locked: std::fs::File,
}

impl Turn {
    /// Waits until the turn is free.
    pub(crate) fn wait_for_turn(pid: i32) -> Result<Turn, InjectError> {
        let gone = |_| InjectError::Facts(facts::FactsError::NoSuchProcess(pid));
        let folder = std::fs::File::open(format!("/proc/{pid}")).map_err(gone)?;
        let start = Instant::now();
        let mut told = false;
        loop {
            match folder.try_lock() {
                Ok(()) => return Ok(Turn { process: pid, _locked: folder }),
                Err(TryLockError::WouldBlock) if start.elapsed() < TURN => {
                    if !told && start.elapsed() > PATIENCE {
                        told = true;
                        tell(format_args!("another pct is at work in process {pid}: waiting for it"));
                    }
                    std::thread::sleep(Duration::from_millis(1));
                }
                Err(TryLockError::WouldBlock) => return Err(InjectError::Busy(pid)),
                // this kernel has no such locks: go on as if there were no other controller
                Err(TryLockError::Error(_)) => return Ok(Turn { process: pid, _locked: folder }),
            }
        }
    }

    /// Reads the target again, since another controller may have worked on it during the first reading or since. (The
    /// maps alone do not show that: a sampler that was being loaded then is in them, but was not recognised.)
    pub(crate) fn read_again(&self, target: &Target) -> Result<Target, InjectError> {
        let mut now = facts::read(self.process)?;
        // a killed controller releases its thread in a moment
        let start = Instant::now();
        while now.facts.tracer != 0 && start.elapsed() < PATIENCE {
            std::thread::sleep(Duration::from_millis(1));
            now = facts::read(self.process)?;
        }
        if (now.start_time, now.start_stack) != (target.start_time, target.start_stack) {
            return Err(InjectError::Reused(self.process));
        }
        if now.facts.tracer != 0 {
            let refusal = Refusal::Traced { pid: self.process, tracer: now.facts.tracer };
            return Err(InjectError::Refused(refusal));
        }
        if now.note.is_some() && target.note.is_none() {
            return Err(InjectError::Already(self.process));
        }
        Ok(now)
    }
}
