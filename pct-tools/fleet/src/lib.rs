//! Profiles of many hosts and weeks, as Parquet tables that any engine reads.
//!
//! ```text
//! .pct, perf.data, pprof --pct_profile--> Profile --gather--> Tables --root--> samples/ stacks/ locations/ hosts/
//! ```
//!
//! [`tables`] has the columns, [`ids`] what makes a stack the same on every host, [`root`] where files lie, and [`questions`] the
//! SQL text of the three questions that people ask. There is no server and no store of our own: DuckDB, Spark, ClickHouse and
//! others read the files as they are.
//!
//! Privacy: function names, base names of files, host and service are written. Command lines, environments, folders, process and
//! thread ids are not.
#![forbid(unsafe_code)]
#![cfg_attr(
    not(test),
    deny(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_possible_wrap)
)]

pub mod cli;
pub mod columns;
pub mod gather;
pub mod ids;
pub mod questions;
pub mod root;
pub mod tables;

/// Version of the tables: a change that adds columns keeps it.
pub const FORMAT: &str = "1";
/// Seconds that one row of `samples` sums up.
pub const INTERVAL_S: i64 = 60;
