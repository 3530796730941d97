//! The rules of the engine, each as a test with its name.

mod common;
mod sim;
mod worked;
