//! The life of a sampled process image: start, threads, the housekeeper's round, exec, end.

pub mod argv;
pub(crate) mod beside;
pub mod births;
pub mod bookkeeping;
pub mod boot;
pub mod file;
pub mod housekeeper;
pub mod leaving;
pub mod life;
pub mod note;
pub mod options;
mod own_path;
pub(crate) mod own_stack;
pub mod passing;
mod previous;
mod program_name;
pub mod refusals;
pub mod report;
pub(crate) mod rotation;
pub mod secure;
pub mod session;
pub mod status;
mod store;
pub(crate) mod tasks;
pub mod threads;
pub mod toggle;
pub mod watch;
