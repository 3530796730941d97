//! Interpreters: Java and JavaScript over made-up memory, and CPython that runs, held by ptrace.
//!
//! `live::` holds processes by ptrace. `hotspot` and `v8` are exact.

mod hotspot;
mod node_20;
mod other;
mod pages;
mod v8;

mod live {
    mod stepped;
    mod truth;
}
