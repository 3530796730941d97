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
    mod archive;
    mod attach;
    mod attach_accounts;
    mod attach_actions;
    mod attach_again;
    mod attach_controller;
    mod attach_loading;
    mod attach_refused;
    mod attach_settings;
    mod attach_tree;
    mod births;
    mod controller;
    mod crash;
    mod few_descriptors;
    mod filters;
    mod flight_recorder;
    mod formats;
    mod go_programs;
    mod hand_over;
    mod interrupts;
    mod java;
    mod javascript;
    mod jit;
    #[cfg(target_arch = "x86_64")]
    mod kernels;
    mod latency;
    mod manners;
    mod memory_allocators;
    mod memory_live;
    mod odd_objects;
    mod off_cpu;
    mod own_clock;
    mod owners;
    mod processes;
    mod python_hosts;
    mod python_programs;
    mod recording_lost;
    mod replaced;
    mod rights;
    mod static_programs;
    mod wait_futexes;
    mod wait_path;
    mod waits;
}
