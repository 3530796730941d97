//! Feedback files: what a deep profile tells a compiler about which conjunctions are worth executing in parallel.
//!
//! Data and text, in reading order: [`model`] (candidates, annotated goals), [`term`] (the Mercury terms that files are
//! made of), [`codec`] (model to term and back), [`mod@file`] (whole files, their errors), [`report`] (the text that people
//! read), [`message`] (what the analysis says besides), [`options`] (command lines as the original tools read them).
//!
//! The analysis, as functions from a profile with bodies to data: [`walk`] goes through the cliques and collects,
//! [`context`] is a procedure in one context, [`world`] keeps what was found out about all, [`recursion`] how its clique recurses and what
//! recursive calls cost, [`variables`] what goals consume and bind, [`cost`] the algebra of costs and [`costs`] those of a
//! body's goals, [`candidates`] the search in a body, [`partition`] the best way to cut a conjunction into parallel
//! conjuncts, [`use_times`] when goals produce and consume variables, [`join`] what the walk brings together.
//!
//! [`create`] is the program that makes feedback files, [`input`] reads what it needs.
//!
//! [`synthetic`] makes programs up whose best parallelisation is known.
//!
//! Section numbers are those of docs/feedback.md.
#![forbid(unsafe_code)]

pub mod candidates;
pub mod codec;
pub mod context;
pub mod cost;
pub mod costs;
pub mod create;
pub mod file;
pub mod input;
pub mod join;
pub mod message;
pub mod model;
pub mod options;
pub mod partition;
pub mod recursion;
pub mod report;
pub mod synthetic;
pub mod term;
pub mod use_times;
pub mod variables;
pub mod walk;
pub mod world;

pub use model::{
    Candidate, Candidates, Feedback, Goal, GoalKind, Metrics, Params, ProcCandidates, Push, VarNames,
};
pub use walk::{Observer, Outcome, Stopped, analyse};
