//! The code of this process: its regions, the objects they come from, and who called whom.

#[cfg(target_arch = "x86_64")]
mod call_number;
pub mod call_sites;
pub(crate) mod call_stack;
pub mod callers;
mod finding;
mod headers;
#[cfg(target_arch = "x86_64")]
pub mod interpreter;
pub(crate) mod java;
pub(crate) mod java_codes;
pub(crate) mod javascript;
pub(crate) mod javascript_codes;
mod mapped_file;
pub mod maps;
mod object_answers;
pub mod object_bytes;
pub mod python;
pub mod readable;
pub mod regions;
pub mod sample_codes;
pub mod scratch;
mod shown;
pub(crate) mod stack_finder;
pub mod system_calls;
pub mod thread_stack;
pub mod walked_modules;
