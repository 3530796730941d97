//! Everything that `lttv` can open: CTF traces, and the sample logs of profiled processes.
//!
//! - [`pct`]: a .pct file as a trace: one tracefile for each thread, one for the process;
//! - [`mod@open`]: opens whatever is at a path;
//! - [`stamp()`]: shows whether it has changed since.
//!
//! Both have times in nanoseconds since 1970, so that samples and kernel or UST events of one machine can be viewed in
//! one traceset.
#![forbid(unsafe_code)]
#![cfg_attr(
    not(test),
    deny(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_possible_wrap)
)]

pub mod open;
pub mod pct;
mod stamp;

pub use open::{OpenError, Opened, open};
pub use pct::PctSource;
pub use stamp::stamp;
