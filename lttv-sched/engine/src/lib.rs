//! Serves a trace viewer's requests: foreground at once, background once.
//!
//! Viewers look at tracesets through windows that they move about; what they draw is made of events, and of states and
//! statistics that hang on all events before. Reading a trace is slow, so it is shared: requests for the same events are
//! served by one sweep, and what needs the whole trace is computed once, behind, a chunk at a time, while windows are served
//! at once with what there is.
//!
//! ```
//! use std::sync::{Arc, Mutex};
//! use lttv_engine::{engine::{Budget, Engine}, hooks::Flow, ids::OwnerId, request::EventsRequest};
//! use lttv_engine::{synthetic::{SyntheticFile, SyntheticTrace}, time::Time};
//!
//! let mut engine = Engine::default();
//! let file = SyntheticFile::at_times("channel", &[0, 5, 7, 10]);
//! let trace = engine.open_source(Arc::new(SyntheticTrace::new("example", vec![file])));
//! let tab = engine.traceset_new();
//! engine.traceset_add(tab, trace)?;
//!
//! let times = Arc::new(Mutex::new(Vec::new()));
//! let seen = times.clone();
//! let window = EventsRequest::new(OwnerId(1)).from_time(Time(5)).until_time(Time(10)).on_event(move |event| {
//!     seen.lock().unwrap().push(event.time.ns());
//!     Flow::Go
//! });
//! engine.events_request(tab, window)?;
//! while !engine.step(Budget::chunks(1)).idle {}
//! assert_eq!(*times.lock().unwrap(), [5, 7]);
//! # Ok::<(), lttv_engine::engine::CommandError>(())
//! ```
//!
//! Reading order:
//!
//! - data: [`time`], [`ids`], [`source`] (what a trace must offer), [`describe`], [`identity`], [`position`], [`diagnostic`];
//! - lists and trees: [`hooks`], [`attribute`];
//! - reading: `merge`, [`context`] (cursors of a traceset), `chunk` (the inner loop), `border` (hooks around it),
//!   [`state`] and `seek` (saved states, seeking with them), [`savefile`], [`browse`] (so many events forward or back);
//! - asking: [`request`], [`command`], [`call`] (what hooks are given), [`module`];
//! - serving: [`foreground`], [`background`], [`trace`], [`engine`], `check` (invariants); `driver` (a thread, optional);
//! - [`synthetic`] traces for tests.
//!
//! Architecture invariants: no I/O beyond resolving a path, no clock unless a budget names an instant, no thread outside
//! `driver`, no knowledge of any trace format, no user interface.
#![forbid(unsafe_code)]

pub mod attribute;
pub mod background;
mod border;
pub mod browse;
pub mod call;
mod check;
mod chunk;
pub mod command;
pub mod context;
pub mod describe;
pub mod diagnostic;
#[cfg(feature = "driver")]
pub mod driver;
pub mod engine;
pub mod foreground;
pub mod hooks;
pub mod identity;
pub mod ids;
mod merge;
pub mod module;
pub mod position;
pub mod request;
pub mod savefile;
mod seek;
pub mod source;
pub mod state;
pub mod synthetic;
pub mod time;
pub mod trace;
