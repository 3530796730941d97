//! What differs between processors: the time stamp, the thread's base register, the interrupted registers, how handlers
//! begin and return, calls on other stacks. Each processor has a file with the same names.
//!
//! Signal safety: single instructions and loads from what the kernel put on the signal stack.

#[cfg(target_arch = "aarch64")]
mod aarch64;
mod handlers;
mod regs;
mod sig_info;
#[cfg(target_arch = "x86_64")]
mod x86_64;

#[cfg(target_arch = "aarch64")]
pub use aarch64::*;
pub use handlers::{Answer, Handler};
pub use regs::Regs;
pub use sig_info::{POLL_HUP, SI_TIMER, SigInfo, TRAP_PERF};
#[cfg(target_arch = "x86_64")]
pub use x86_64::*;
