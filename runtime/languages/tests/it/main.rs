//! Interpreters: Java over made-up memory, and CPython that runs, held by ptrace.
//!
//! `live::` holds processes by ptrace. `hotspot` is exact.

mod hotspot;
mod other;

mod live {
    mod stepped;
    mod truth;
}
