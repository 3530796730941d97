//! Computations over whole traces, done once in the background of the engine.
//!
//! - [`state`]: what each CPU and thread was doing at any time, with saved states for seeking;
//! - [`stats`]: counts of events and CPU time by process, CPU and mode;
//! - [`histogram`]: events over time;
//! - [`timeline`]: what each thread and CPU shows in each bucket of time, at all levels of zoom.
//!
//! Two more measure what a foreground request delivers, and are no modules of the engine:
//!
//! - [`durations`]: how long system calls, interrupts and requests of devices took;
//! - [`threads`]: what each thread was doing, interval by interval, in kernel traces and in recordings of samples.
//!
//! Each is a [`lttv_engine::module::Module`]: register it, ask for it by name, read its result from the
//! trace's data when it is ready. Results depend on the trace only, not on how the engine cut its chunks or
//! what else ran in the pass.
#![forbid(unsafe_code)]
#![cfg_attr(
    not(test),
    deny(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_possible_wrap)
)]

pub mod durations;
mod files;
pub mod histogram;
pub mod leb;
pub mod state;
pub mod stats;
pub mod threads;
pub mod timeline;

use std::sync::Arc;

use lttv_engine::engine::Engine;
use lttv_engine::module::ModuleError;

/// Registers all modules of this crate.
///
/// # Errors
/// One of the names is taken.
pub fn register_all(engine: &mut Engine) -> Result<(), ModuleError> {
    register_with(engine, timeline::TimelineModule::default())
}

/// The same with this module for timelines: several traces share its room.
///
/// # Errors
/// One of the names is taken.
pub fn register_with(engine: &mut Engine, timeline: timeline::TimelineModule) -> Result<(), ModuleError> {
    engine.register(Arc::new(state::StateModule))?;
    engine.register(Arc::new(stats::StatsModule))?;
    engine.register(Arc::new(histogram::HistogramModule::default()))?;
    engine.register(Arc::new(timeline))
}
