//! What the parsers say when they give up.

/// What one of the parsers could not make sense of: a place and a problem.
pub(crate) struct Problem {
    pub(crate) place: String,
    pub(crate) problem: String,
}
