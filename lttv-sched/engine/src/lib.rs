//! Serves a trace viewer's requests: foreground at once, background once.
#![forbid(unsafe_code)]

pub mod identity;
pub mod source;
pub mod synthetic;
pub mod time;
