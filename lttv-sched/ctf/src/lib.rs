//! CTF 1.8 and CTF 2 traces: metadata, packets, events.
//!
//! A trace is a directory with a file `metadata` and stream files. Reading one goes through these stages,
//! each a module:
//!
//! ```text
//! metadata file -- container --> text -- tsdl | json --> model (TraceClass)
//!     model -- resolve --> registers for lengths and tags -- program --> decode steps    (compiled: all of them)
//! stream files -- packet, index, cache, stream --> packets in order, with times and losses
//!     packets + decode steps -- exec, reader --> events -- values --> fields
//! ```
//!
//! Invariants: no input makes it panic, loop or allocate by a number that was not checked against the file; an error of
//! a stream comes after all events before it; results are the same with and without index files; the two metadata
//! languages share only [`model`], and nothing after it depends on the language (except how names are searched).
//!
//! [`Trace`] and [`Reader`] are the library's own interface; [`CtfSource`] makes a trace a source of the engine.
#![forbid(unsafe_code)]
#![cfg_attr(
    not(test),
    deny(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_possible_wrap)
)]

mod bits;
mod cache;
mod clock;
mod compiled;
pub mod container;
mod error;
mod exec;
mod folder;
pub mod index;
pub mod json;
pub mod model;
mod packet;
mod program;
mod reader;
mod resolve;
mod source;
mod stream;
pub mod text;
mod trace;
pub mod tsdl;
mod values;

pub use clock::Clock;
pub use error::{Diagnostic, Fault, MetaError, OpenError, PACKET_MAGIC, ReadError};
pub use folder::{Folder, default_folder};
pub use reader::{EventTime, Head, Position, Reader};
pub use source::CtfSource;
pub use stream::StreamLoss;
pub use trace::{Options, StreamInfo, Trace, discover, open, open_all, open_each};
pub use values::{FieldValue, Parts, View, float, integer};
