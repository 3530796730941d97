//! The kernel, by raw system calls: no libc, no errno, no cancellation point, nothing that a host could have wrapped.
//!
//! Every function here is async-signal-safe: it is one system call (or a loop of one over short reads). Errors are the
//! kernel's numbers ([`Errno`]). Nothing here panics.
//!
//! The faces are safe where the arguments cannot harm the host (paths are C strings in slices, buffers are
//! slices); those that take or give memory mappings are `unsafe` or hand out raw pointers.

#[cfg(target_arch = "aarch64")]
mod aarch64;
pub mod arch;
pub mod auxv;
mod bpf;
mod c_string;
mod clocks;
pub mod cpus;
mod errno;
mod files;
pub mod filter;
pub mod loaded;
pub mod lock;
mod machine;
mod memory;
mod numbers;
mod own_table;
mod process;
mod random;
mod signals;
pub mod text;
mod time;
#[cfg(target_arch = "x86_64")]
mod x86_64;

pub use c_string::{CStr, c};
pub use clocks::*;
pub(crate) use errno::check;
pub use errno::{Errno, Result};
pub use files::*;
pub use machine::*;
pub use memory::*;
pub use own_table::with_descriptor;
pub use process::*;
pub use random::random;
pub use signals::*;
pub use time::*;

#[cfg(target_arch = "aarch64")]
use aarch64::{call, nr};
#[cfg(target_arch = "x86_64")]
use x86_64::{call, nr};
