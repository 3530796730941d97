//! Profiles of many hosts and weeks, as Parquet tables that any engine reads.
//!
//! ```text
//! .pct, perf.data, pprof --pct_profile--> Profile --gather--> Tables --root--> samples/ stacks/ locations/ ...
//! ```
//!
//! [`tables`] has the columns, [`ids`] what makes a stack the same on every host, [`root`] where files lie,
//! [`ship`] brings the recordings of continuous sampling there, each once, and [`questions`] has the SQL text
//! of the three questions that people ask. There is no server and no store of our own: DuckDB, Spark,
//! ClickHouse and others read the files as they are.
//!
//! [`compact`] merges small files, [`rollup`] sums up what is kept for years, [`symbolize`] names code later,
//! [`check`] reads all.
//!
//! Privacy: function names, base names of files, host and service are written. Command lines, environments,
//! folders, process and thread ids are not ([`private`]).
#![forbid(unsafe_code)]
#![cfg_attr(
    not(test),
    deny(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_possible_wrap)
)]

pub mod ask;
pub mod check;
pub mod cli;
pub mod columns;
pub mod compact;
pub mod gather;
pub mod http;
mod hybrid;
pub mod ids;
mod merge;
pub mod pieces;
mod places;
pub mod private;
pub mod questions;
pub mod rollup;
pub mod root;
mod rows;
pub mod scan;
pub mod ship;
mod sums;
pub mod symbolize;
pub mod tables;

/// Version of the tables: a change that adds columns keeps it.
pub const FORMAT: &str = "1";
/// Seconds that one row of `samples` sums up.
pub const INTERVAL_S: i64 = 60;
