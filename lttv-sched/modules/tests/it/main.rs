//! Rules of states and statistics, over made-up kernel traces.

mod doubt;
mod kernel;
mod states;
mod statistics;
mod timeline;
mod windows;
