//! Samples to a resolved call tree, and reports on it.
//!
//! The way of the data, each arrow a plain function:
//!
//! ```text
//! .pct files, run directory --load--> Profile --Filter--> cells --+--> CallTree   (tree, flame graphs, exports)
//!   (or a foreign format)            (model.rs)                   +--> Flat       (tables)
//!                                                                 +--> Diff       (two profiles)
//!                                                                 +--> CallsOverTime (stack charts of a thread)
//!                                                                 +--> Latency    (cells weighed by parallelism)
//!                                                                      +--> parallelism (threads beside functions)
//! allocation samples -------------------> Memory  --Selection--> cells ...         (the same views, of estimates)
//! waits and changes of hands -----------> Waits   (by lock, function, thread; cells for trees and flame graphs)
//! ```
//!
//! [`model`] holds facts only; views ([`tree`], [`flat`], [`diff`]) hold numbers and ids, no words; [`text`] turns
//! views into tables for people, CSV and JSON. Nothing here prints or knows a terminal.
#![forbid(unsafe_code)]
#![cfg_attr(
    not(test),
    deny(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_possible_wrap)
)]

pub mod account;
mod allocator_names;
pub mod annotate;
pub mod calls_over_time;
pub mod causes;
pub mod cut;
pub mod diff;
pub mod flat;
pub mod fold;
pub mod ids;
pub mod language;
mod language_locks;
pub mod latency;
mod library_names;
pub mod load;
mod lock_names;
mod measured;
pub mod memory;
pub mod memory_views;
pub mod model;
pub mod nested;
pub mod packed;
pub mod parallelism;
pub mod path_sums;
pub mod quantity;
pub mod rows;
pub mod select;
pub mod text;
pub mod transform;
pub mod tree;
pub mod wait_views;
pub mod waits;

pub use diff::Diff;
pub use flat::Flat;
pub use fold::Frames;
pub use language::Language;
pub use latency::Latency;
pub use memory::Memory;
pub use model::{Builder, Profile, Weight};
pub use nested::{Level, Nested};
pub use quantity::{Quantity, Unit};
pub use select::{Filter, Pattern};
pub use transform::{Transform, Transformed};
pub use tree::{By, CallTree, Label, Split};
