//! Foreign formats, read and written. All tests are exact.

mod foreign;
mod formats;
mod naive;
mod perf_data;
mod perf_text;
