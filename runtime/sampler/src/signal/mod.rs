//! From a clock's expiry to the decision what is recorded: the handler, the clocks, the numbers and masks of our signals, what the
//! host wants done with them, the accounts of system time.

pub mod bus;
pub mod clock;
pub mod handler;
pub mod host;
pub mod masks;
pub mod numbers;
pub mod spent;
pub(crate) mod system_time;
