//! Samples to a resolved call tree, and reports on it.
