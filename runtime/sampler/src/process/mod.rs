//! The life of a sampled process image: start, threads, the housekeeper's round, exec, end.

pub mod argv;
pub mod births;
pub mod boot;
pub mod file;
pub mod housekeeper;
pub mod leaving;
pub mod note;
pub mod options;
mod own_path;
pub(crate) mod rotation;
pub mod session;
pub mod status;
mod store;
pub mod threads;
