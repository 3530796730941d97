//! The timeline page: samples and trace events on one time axis, in a browser.
//!
//! The page never holds a trace. It asks for tiles of 256 buckets at the level of zoom that its pixels need, and draws
//! them on a canvas; what is selected is asked for as a flame graph, a table, statistics, a list of events. Without
//! script the same address gives the same picture as SVG with links.
//!
//! In reading order: [`recording`] (samples as plain data: how a command gives them), [`windows`] (how it answers
//! for ranges), [`waits`] (what threads waited for), [`store`] (the engine's thread, tiles, windows), `kept` (what
//! earlier runs have computed), [`events`] (lists of events), `states` (what a thread did), [`density`] (what was
//! recorded when), [`view`] (what an address says), [`board`] (which lanes, and how cells look), [`picture`] (lanes
//! as SVG), [`tiles`] (tiles as JSON), `packed` (their cells in few characters), `html` (the page), `live` (traces
//! that grow while a page is open), `turns` (long answers one at a time), [`web`] (which address gives what).
//!
//! Invariant: this crate reads no files and knows no symbols; what an address asks for costs no more than its limits
//! allow.
#![forbid(unsafe_code)]
#![cfg_attr(
    not(test),
    deny(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_possible_wrap)
)]

pub mod board;
pub mod density;
pub mod events;
mod files;
pub mod hits;
mod html;
mod kept;
mod lanes;
mod live;
mod packed;
pub mod picture;
pub mod recording;
mod samples;
pub mod search;
mod states;
mod steps;
pub mod store;
mod sums;
pub mod tiles;
mod turns;
pub mod view;
pub mod waits;
pub mod web;
pub mod windows;
mod words;

pub use html::Links;
pub use live::Origin;
pub use recording::Recording;
pub use store::{Shown, Store};
pub use sums::LaneSum;
pub use web::TimelinePage;
pub use windows::{Window, WindowSums, Windows};
