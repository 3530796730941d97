//! Deep profile pages: command to report to display to html, json or text.
#![forbid(unsafe_code)]

pub mod display;
pub mod query;
pub mod render;
