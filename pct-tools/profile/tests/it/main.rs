//! Recordings that are made here, whole and damaged. All tests are exact.

mod by_thread;
mod cut;
mod hostile;
mod losses;
mod memory;
mod naive;
mod unknown_place;
mod wait_windows;
