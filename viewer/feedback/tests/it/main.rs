//! Candidates for parallelism: the analysis, its files, the two programs. All of it is exact; nothing here is live.

mod common;
mod create;
mod files;
mod goals;
mod properties;
mod search;
