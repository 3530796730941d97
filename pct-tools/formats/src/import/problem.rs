//! What parsers report when they give up.

/// What a parser could not read: a position and a problem.
pub(crate) struct Problem {
    pub(crate) place: String,
    pub(crate) problem: String,
}
