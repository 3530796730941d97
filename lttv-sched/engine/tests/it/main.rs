//! The rules of the engine, each as a test with its name.

#[expect(dead_code, reason = "some helpers are for tests still to come")]
mod common;
mod worked;
