//! Foreign formats, read and written. All tests are exact.

mod callgrind_files;
mod foreign;
mod foreign_files;
mod formats;
mod jfr_files;
mod json_files;
mod naive;
mod perf_columns;
mod perf_data;
mod perf_text;
mod round;
