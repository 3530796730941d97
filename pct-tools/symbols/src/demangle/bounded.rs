//! The text that a demangler writes to. Substitutions can double a name at each step, so its length has a limit.

use std::fmt::{self, Write};

/// Longest result. A name that grows beyond it is returned unchanged.
pub(super) const MAX_OUTPUT: usize = 256 * 1024;

/// A string that refuses to grow beyond [`MAX_OUTPUT`].
pub(super) struct Bounded(pub(super) String);

impl Write for Bounded {
    fn write_str(&mut self, s: &str) -> fmt::Result {
        if self.0.len() + s.len() > MAX_OUTPUT {
            return Err(fmt::Error);
        }
        self.0.push_str(s);
        Ok(())
    }
}
