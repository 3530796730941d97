//! The rules of the engine, each as a test with its name.

mod behind;
mod common;
mod noting;
mod panics;
mod quiet;
mod reading;
mod serving;
mod sharing;
mod sim;
mod threads;
mod turns;
mod worked;
