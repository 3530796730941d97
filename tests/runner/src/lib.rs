//! What `tests/run` needs around the tests, as two programs over this library.
//!
//! - `test-guard` ([`guard`]) starts each test program in a place of its own, and names the processes that it leaves
//!   behind; [`stuck`] says what one waits for that does not end.
//! - `test-page` ([`page`]) reads the runner's reports ([`report`]) and says what happened, for people and as JSON
//!   lines.
#![forbid(unsafe_code)]

pub mod guard;
pub mod page;
pub mod report;
pub mod stuck;
