//! Foreign formats, read and written. All tests are exact.

mod foreign;
mod foreign_files;
mod formats;
mod naive;
mod perf_data;
mod perf_text;
