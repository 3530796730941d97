//! Deep profile pages: command to report to display to html, json or text.
#![forbid(unsafe_code)]
#![cfg_attr(
    not(test),
    deny(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_possible_wrap)
)]

mod colours;
pub mod display;
mod memo;
pub mod page;
pub mod pages;
pub mod query;
pub mod render;
pub mod report;
pub mod sources;
pub mod subject;

pub use pct_analysis as analysis;
