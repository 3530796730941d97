//! The rules of the engine, each as a test with its name.

mod behind;
mod common;
mod reading;
mod serving;
mod sim;
mod threads;
mod worked;
