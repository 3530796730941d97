//! What the user is told when a controller waits for long.

use std::sync::OnceLock;
use std::time::Duration;

/// A wait that takes longer is reported to the user.
pub const PATIENCE: Duration = Duration::from_secs(1);

/// Called with a line about what a controller waits for, when the wait is long.
pub static DELAYED: OnceLock<fn(&str)> = OnceLock::new();

pub(crate) fn tell(line: std::fmt::Arguments<'_>) {
    if let Some(told) = DELAYED.get() {
        told(&line.to_string());
    }
}
