//! Commands as data: what hooks ask of the engine while it is at work.
//!
//! A command can be copied, printed, kept and applied again ([`crate::engine::Engine::apply`]), on the same engine or on
//! another one with the same traces. That of a hook is applied at the next chunk border, in the order of asking. The types
//! are in [`crate::call`]: a hook is called with the list of commands, and a command may bring hooks.

pub use crate::call::{Command, Commands};
