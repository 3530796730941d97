//! What the run's folder is told: causes for which a process is not sampled, or not whole.

use crate::process::{session, status};
use crate::sys;

/// Reports a cause to the run's folder: `pct run` prints it.
pub fn report(cause: &[u8]) {
    report_of(sys::getpid(), cause);
}

/// Reports a cause for which this process, or the program that it is about to execute, can only be sampled from
/// outside: where that must be allowed, it is. As for each report, no filter of the program's may stand against our
/// calls.
pub fn report_outside(cause: &[u8]) {
    let tracer = session::seed().options.tracer;
    if tracer != 0 {
        sys::let_trace(tracer);
    }
    report(cause);
}

/// Tells the run's folder that sampling goes on after a pause that was reported.
pub(crate) fn resumed() {
    let seed = session::seed();
    if !seed.out_is_template {
        status::resumed(seed.places());
    }
}

/// Reports a cause for another process.
pub fn report_of(pid: u32, cause: &[u8]) {
    let seed = session::seed();
    if !seed.out_is_template {
        status::report_of(pid, seed.places(), cause);
    }
}
