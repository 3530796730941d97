//! Analyses behind the reports.
//!
//! [`body`] lays a procedure's body out by goal numbers and joins call sites and coverage points to it; [`coverage`]
//! infers how often each goal was entered and left; [`recursion`] classifies how a clique recurses; [`var_use`] finds
//! when a call first uses an argument. [`contour`] reads contour files.

pub mod body;
pub mod contour;
pub mod coverage;
pub mod recursion;
pub mod var_use;
