//! From a clock's expiry to the decision what is recorded: the handler, the clocks, the masks, the process's own account.

pub mod clock;
pub mod handler;
pub mod masks;
pub mod spent;
