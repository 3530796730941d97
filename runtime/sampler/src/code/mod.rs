//! The code of this process: its regions, the objects they come from, and who called whom.

pub mod callers;
pub mod maps;
pub mod python;
pub mod readable;
pub mod regions;
