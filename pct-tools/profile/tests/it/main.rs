//! Recordings that are made here, whole and damaged. All tests are exact.

mod hostile;
mod memory;
