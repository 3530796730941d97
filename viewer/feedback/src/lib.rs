//! Feedback files: what a deep profile tells a compiler about which conjunctions are worth executing in parallel.
//!
//! In reading order: [`model`] (candidates, annotated goals), [`term`] (the Mercury terms that files are made of),
//! [`codec`] (model to term and back), [`file`] (whole files, their errors), [`report`] (the text that people read),
//! [`options`] (command lines as the original tools read them).
//!
//! What is not here yet: the analysis that finds candidates.
#![forbid(unsafe_code)]

pub mod codec;
pub mod file;
pub mod model;
pub mod options;
pub mod report;
pub mod term;

pub use model::{
    Candidate, Candidates, Feedback, Goal, GoalKind, Metrics, Params, ProcCandidates, Push, VarNames,
};
