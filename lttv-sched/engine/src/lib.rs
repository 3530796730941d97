//! Serves a trace viewer's requests: foreground requests at once, background requests once for all.
//!
//! Viewers show tracesets through windows that move. They draw events, and states and statistics that depend on all
//! events before. Reading a trace is slow, so it is shared: one sweep serves all requests for the same events. What
//! needs the whole trace is computed once, in the background, a chunk at a time, while windows are served at once with
//! what exists already.
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
//! - data: [`time`], [`ids`], [`source`] (what a trace must offer), [`describe`], [`identity`], [`position`],
//!   [`diagnostic`];
//! - lists and trees: [`hooks`], [`attribute`];
//! - reading: `event`, [`state`] (models and their saved states), `merge`, [`context`] (cursors of a traceset);
//! - requests: `data` (what is known of a trace), `flags`, [`call`] (what hooks receive, and what they request),
//!   [`request`], [`command`], [`module`], `registered` (hooks in a context);
//! - serving: `border` (hooks around a chunk), `chunk` (the inner loop), [`background`], [`trace`], `turn`,
//!   `seek` (with saved states), [`foreground`], `pass` (background work), [`engine`], [`savefile`],
//!   [`browse`] (so many events forward or back), `check` (invariants); `driver` (a thread, optional);
//! - [`synthetic`] traces for tests.
//!
//! Architecture invariants: no I/O beyond resolving a path, no clock unless a budget names an instant, no
//! thread outside `driver`, no knowledge of any trace format, no user interface.
#![forbid(unsafe_code)]
#![cfg_attr(
    not(test),
    deny(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_possible_wrap)
)]

pub mod attribute;
pub mod background;
mod border;
pub mod browse;
pub mod call;
mod check;
mod chunk;
pub mod command;
pub mod context;
mod data;
pub mod describe;
pub mod diagnostic;
#[cfg(feature = "driver")]
pub mod driver;
pub mod engine;
mod event;
mod flags;
pub mod foreground;
pub mod hooks;
pub mod identity;
pub mod ids;
pub mod kept;
mod merge;
pub mod module;
mod pass;
pub mod position;
mod registered;
pub mod request;
pub mod savefile;
mod seek;
pub mod source;
pub mod state;
pub mod synthetic;
pub mod time;
pub mod trace;
mod turn;
