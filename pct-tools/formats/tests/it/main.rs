//! Foreign formats, read and written. All tests are exact.

mod formats;
mod perf_data;
