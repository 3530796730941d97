//! Feedback files: what a deep profile tells a compiler about which conjunctions are worth executing in parallel.
//!
//! In reading order: [`model`] (candidates, annotated goals), [`term`] (the Mercury terms that files are made of),
//! [`codec`] (model to term and back), [`mod@file`] (whole files, their errors), [`report`] (the text that people read),
//! [`options`] (command lines as the original tools read them); then the analysis as pure functions: [`cost`] (of
//! goals), [`partition`] (the best way to cut a conjunction into parallel conjuncts).
//!
//! What is not here yet: the walk over a profile that feeds the analysis, use times, and so the making of files.
#![forbid(unsafe_code)]

pub mod codec;
pub mod cost;
pub mod file;
pub mod model;
pub mod options;
pub mod partition;
pub mod report;
pub mod term;

pub use model::{
    Candidate, Candidates, Feedback, Goal, GoalKind, Metrics, Params, ProcCandidates, Push, VarNames,
};
