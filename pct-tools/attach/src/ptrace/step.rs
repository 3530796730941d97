//! What a controller is doing, for whoever watches it.

use std::sync::OnceLock;

/// What a controller is doing with a thread: told to [`OBSERVER`], so that a harness that kills controllers
/// at random can say where each kill fell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum ControllerStep {
    /// Not holding any thread.
    Away = 0,
    /// Seized, waiting for the stop.
    Stopping = 1,
    /// Stopped, its state being saved.
    Saving = 2,
    /// The chain is being written; the registers are still its own.
    Preparing = 3,
    /// The registers are the chain's; not resumed yet.
    Committed = 4,
    /// Our call runs.
    Running = 5,
    /// The call is done; between two calls.
    Between = 6,
    /// Its state is being set back.
    Restoring = 7,
}

impl ControllerStep {
    /// All steps, in order of their numbers.
    pub const ALL: [ControllerStep; 8] = [
        ControllerStep::Away,
        ControllerStep::Stopping,
        ControllerStep::Saving,
        ControllerStep::Preparing,
        ControllerStep::Committed,
        ControllerStep::Running,
        ControllerStep::Between,
        ControllerStep::Restoring,
    ];
}

/// Told of each step, when set.
pub static OBSERVER: OnceLock<fn(ControllerStep)> = OnceLock::new();

pub(super) fn report_step(step: ControllerStep) {
    if let Some(observer) = OBSERVER.get() {
        observer(step);
    }
}
