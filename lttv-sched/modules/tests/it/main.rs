//! Rules of states and statistics, over made-up kernel traces.

mod kernel;
mod states;
mod statistics;
