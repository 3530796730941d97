//! Foreign formats, read and written. All tests are exact.

mod formats;
mod naive;
mod perf_data;
