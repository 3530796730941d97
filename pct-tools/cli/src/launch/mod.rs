//! Starting a program under the sampler: [`check`] says beforehand what cannot be profiled and why, [`spawn`] forks,
//! executes, passes signals on and waits; [`place`] finds room where a running process can write.

pub mod check;
pub mod place;
#[expect(unsafe_code, reason = "fork, exec and signal dispositions")]
pub mod spawn;

/// Exit status when pct itself failed, as env(1) has it.
pub const FAILED: u8 = 125;
/// Exit status when the command was found and could not be executed.
pub const NOT_EXECUTABLE: u8 = 126;
/// Exit status when the command was not found.
pub const NOT_FOUND: u8 = 127;
