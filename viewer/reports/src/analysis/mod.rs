//! Analyses behind the reports: contour exclusion, coverage, recursion, variable use.

pub mod contour;
