//! Deep profiles of native programs, from stack samples.
//!
//! ```text
//! Profile (stacks, cells) --graph--> folded context graph --write--> DeepData + side file
//! ```
//!
//! [`graph`] folds recursion by the creator rule, which is a pure function of the call path: so graphs of threads, processes
//! and runs merge by plain union, whatever the order. [`mod@deep`] decides the kinds of call sites and makes the data; [`side`] is
//! the text file beside it that says what a sampler does not know (how often anything was called).
//!
//! The unit of quanta is the nanosecond, so that the sum of quanta is the sum of the samples' weights, exactly.
#![forbid(unsafe_code)]

pub mod deep;
pub mod graph;
pub mod side;

pub use deep::{NativeError, deep};
pub use graph::Graph;
