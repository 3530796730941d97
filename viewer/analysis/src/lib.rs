//! Analyses of a deep profile together with the bodies of its procedures.
//!
//! [`body`] lays out a procedure's body by goal numbers and joins call sites and coverage points to it; [`coverage`]
//! infers how often each goal was entered and left; [`recursion`] classifies how a clique recurses; [`var_use`] finds
//! when a call first uses an argument; [`cache`] stores bodies that are laid out. [`contour`] reads contour files.
//! Pages and feedback files use them.
#![forbid(unsafe_code)]
#![cfg_attr(
    not(test),
    deny(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_possible_wrap)
)]

use pct_deep::{Profile, PsId};
use serde::Serialize;
use std::sync::Arc;

pub mod body;
pub mod cache;
pub mod contour;
pub mod coverage;
pub mod recursion;
pub mod var_use;

pub use body::Body;
pub use cache::BodyCache;

/// Why an analysis has no result, in words for people.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, thiserror::Error)]
#[error("{0}")]
pub struct Failure(pub String);

impl Failure {
    /// The program representation has no procedure with this name.
    #[must_use]
    pub fn no_body(name: &str) -> Failure {
        Failure(format!("{name} has no body in the program representation."))
    }

    /// There is no node with this kind and number.
    #[must_use]
    pub fn index(kind: &str, number: i64) -> Failure {
        Failure(format!("invalid {kind} index {number}: the file has no such node."))
    }
}

/// A profile whose procedures have bodies.
pub trait Bodies {
    /// The profile.
    fn profile(&self) -> &Profile;
    /// The body of a procedure, laid out.
    ///
    /// # Errors
    /// There is no representation, the procedure is not in it, or its part is broken.
    fn body(&self, ps: PsId) -> Result<Arc<Body>, Failure>;
}
