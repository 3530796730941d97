//! From a clock's expiry to the decision what is recorded: the handler, the clocks, the numbers and masks of
//! our signals, what the host wants done with them, the accounts of system time.

pub mod bus;
pub mod clock;
pub(crate) mod expiry;
pub mod front;
pub mod handler;
pub mod host;
pub(crate) mod kernel;
pub mod lent;
pub mod masks;
pub mod moves;
pub mod numbers;
pub(crate) mod put_off;
pub(crate) mod sample;
pub mod spent;
pub(crate) mod stores_may_fault;
pub(crate) mod system_time;
pub mod taken;
pub(crate) mod trap;
