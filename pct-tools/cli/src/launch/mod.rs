//! Starting a program under the sampler: [`check`] says beforehand what cannot be profiled and why, [`spawn`] forks
//! and executes; [`children`] passes signals on and waits; [`apart`] does what comes after the program's end,
//! [`controller`] what stands outside of it while it runs; [`bound`] keeps a run's folder small, [`maps`] names
//! of code that is made at run time, for which `java` asks,
//! `held_objects` keeps programs and libraries that go away; [`objects`] makes the file in which the
//! library keeps what it finds out about objects; [`elsewhere`] sees programs under another root, [`hand_over`] has
//! sampled from outside what cannot be from inside;
//! [`place`] finds room where a running process can write, [`spare`] where a started one can that became
//! another user.

#[expect(unsafe_code, reason = "fork")]
pub mod apart;
pub mod bound;
pub mod check;
#[expect(unsafe_code, reason = "signals and waiting")]
pub mod children;
#[expect(unsafe_code, reason = "prctl, signal dispositions")]
pub mod controller;
pub mod elsewhere;
pub mod hand_over;
pub mod held_objects;
mod java;
pub mod maps;
pub mod objects;
pub mod place;
mod snapshots;
pub mod spare;
#[expect(unsafe_code, reason = "fork, exec and signal dispositions")]
pub mod spawn;
pub mod stack;

/// Exit status when pct itself failed, as env(1) has it.
pub const FAILED: u8 = 125;
/// Exit status when the command was found and could not be executed.
pub const NOT_EXECUTABLE: u8 = 126;
/// Exit status when the command was not found.
pub const NOT_FOUND: u8 = 127;
