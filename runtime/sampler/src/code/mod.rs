//! The code of this process: its regions, the objects they come from, and who called whom.

pub(crate) mod call_stack;
pub mod callers;
pub mod interpreter;
pub(crate) mod java;
pub(crate) mod java_codes;
pub mod maps;
pub mod python;
pub mod readable;
pub mod regions;
pub mod sample_codes;
pub mod scratch;
pub(crate) mod stack_finder;
pub mod thread_stack;
pub mod walked_modules;
