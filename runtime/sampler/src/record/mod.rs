//! What is written, and where: segments of the mapped file, a ring for each thread, the table of stacks, times and marks.

pub mod chain;
pub mod codes;
pub mod log;
pub mod mark;
pub mod rings;
pub mod stacks;
pub mod table;
pub mod time;
