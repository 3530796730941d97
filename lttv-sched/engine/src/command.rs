//! Commands as data: what hooks request of the engine while it works.
//!
//! A command can be copied, printed, stored and applied again ([`crate::engine::Engine::apply`]), to the same
//! engine or to another one with the same traces. A hook's commands are applied at the next chunk border, in the order
//! in which they were added. The types are in [`crate::call`]: a hook is called with the list of commands, and a
//! command may contain hooks.

pub use crate::call::{Command, Commands};
