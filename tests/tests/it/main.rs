//! Scenario tests: real programs under pct, and rules of the house.
//!
//! The name of a test says of what kind it is (`.config/nextest.toml` has the rules):
//!
//! - `live::`: real processes, servers, signals, ptrace. Tried again when it fails.
//! - `chance::`: shares and rates against a truth that the victim counts. Draws more samples until it is sure.
//! - all others are exact: never tried again.

mod house;

mod chance {
    mod accuracy;
    mod kernel;
    mod memory;
    mod python;
    mod python_memory;
    mod python_ways;
    mod stacks;
    mod wall;
}

mod live {
    mod attach;
    mod attach_again;
    mod attach_refused;
    mod attach_tree;
    mod controller;
    mod crash;
    mod formats;
    mod jit;
    mod manners;
    mod processes;
    mod static_programs;
}
