//! What `pct_on` answers a controller: 0, or a negated error number. Numbers that the kernel has for several things say of which they
//! are by what is added.

/// Added to an error of making the file.
pub const OF_FILE: i32 = 1000;
/// Added to an error of the clock.
pub const OF_CLOCK: i32 = 2000;
