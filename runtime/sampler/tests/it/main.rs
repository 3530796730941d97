//! The log and the live table between threads. All tests are exact: their outcome is the same in whatever order the
//! threads meet, and the models try every order.

mod block_model;
mod log;
mod places_model;
