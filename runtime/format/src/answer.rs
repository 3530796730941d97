//! The result of `pct_on` that a controller reads: 0, or a negated error number. If the kernel uses one error number
//! for several causes, a value is added that distinguishes them.

/// Added to an error of creating the file.
pub const OF_FILE: i32 = 1000;
/// Added to an error of the clock.
pub const OF_CLOCK: i32 = 2000;
