//! Feedback files: they tell a compiler which conjunctions a deep profile shows to be worth executing in parallel.
//!
//! Data and text, in reading order: [`model`] (candidates, annotated goals), [`term`] (the Mercury terms in files),
//! [`codec`] (model to term and back), [`mod@file`] (whole files, their errors), [`report`] (the text for people),
//! [`message`] (other output of the analysis), [`options`] (command lines as the original tools read them).
//!
//! The analysis, as functions from a profile with bodies to data: [`walk`] visits the cliques and collects results,
//! [`context`] is a procedure in one context, [`world`] stores what was computed, [`recursion`] classifies how a clique
//! recurses and what recursive calls cost, [`variables`] finds what goals consume and bind, [`cost`] is the algebra of
//! costs and [`costs`] has those of a body's goals, [`candidates`] is the search in a body, [`partition`] finds the
//! best way to cut a conjunction into parallel conjuncts, [`use_times`] says when goals produce and consume variables,
//! [`join`] joins the walk's results.
//!
//! [`create`] is the program that makes feedback files, [`input`] reads what it needs.
//!
//! [`synthetic`] makes programs with a known best parallelisation.
//!
//! Section numbers are those of docs/feedback.md.
#![forbid(unsafe_code)]
#![cfg_attr(
    not(test),
    deny(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_possible_wrap)
)]

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
