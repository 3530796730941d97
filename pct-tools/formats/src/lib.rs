//! Reads and writes foreign profile formats, and draws pictures of a profile.
//!
//! ```text
//! folded, pprof, perf.data, perf script --import--> Profile --export--> folded, pprof, speedscope,
//!                                                      |                callgrind, chrome, firefox
//!                                                      +-----flame---> SVG (pct-icicle)
//!                                                      +-----html----> one self-contained page
//! ```
//!
//! Each format is one module with one function: from a profile and its selected cells to octets, or back. Weights
//! are nanoseconds of CPU time wherever a format can express that; what other profilers measured keeps its unit
//! ([`pct_profile::Quantity`]).
#![forbid(unsafe_code)]
#![cfg_attr(
    not(test),
    deny(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_possible_wrap)
)]

pub mod export;
pub mod flame;
pub mod html;
pub mod import;
pub mod protobuf;
pub mod sheet;

pub use export::{Format, export};
pub use import::{ImportError, import, import_with};
