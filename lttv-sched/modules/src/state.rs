//! State of a Linux system as a kernel trace shows it: CPUs, threads, interrupts, block devices.
//!
//! Brought forward by the scheduler's, interrupt, system call and state dump events of LTTng, old and new
//! names, and of perf. What happened before the trace began is unknown until an event tells: threads start
//! with a bottom mode `unknown`, which the state dump or the first system call resolves.
//!
//! Losing events makes a state doubtful, never invalid: an exit without its entry is ignored and counted, the
//! bottom of a stack is never popped, and the state says what is in doubt ([`SystemState::in_doubt`]).

mod apply;
mod kind;
mod losses;
mod model;
mod system;

use std::sync::Arc;

use lttv_engine::module::{Module, ModuleHooks};
use lttv_engine::source::Source;
use lttv_engine::state::StateModel;

pub use kind::{KernelEvent, kind_of, softirq_name};
pub use losses::Losses;
pub use model::SystemModel;
pub use system::{
    COMM_LEN, Cpu, CpuMode, DeviceMode, Execution, Mode, Oddities, SoftIrq, Status, SystemState, Thread,
    ThreadKey, ThreadKind, activity,
};

/// Name of the module.
pub const NAME: &str = "state";

/// Computes and saves the states of a trace.
#[derive(Clone, Copy, Debug, Default)]
pub struct StateModule;

impl Module for StateModule {
    fn name(&self) -> &str {
        NAME
    }

    fn model(&self, source: &Arc<dyn Source>) -> Option<Box<dyn StateModel>> {
        Some(Box::new(SystemModel::new(Losses::from_source(source.as_ref()))))
    }

    fn hooks(&self, _source: &Arc<dyn Source>) -> ModuleHooks {
        // The engine applies the model and saves its states; there is nothing else to do.
        ModuleHooks::default()
    }
}
