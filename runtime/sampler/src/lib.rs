//! The sampler core that runs inside a profiled program.

#![cfg_attr(not(test), no_std)]

pub mod unwind;
