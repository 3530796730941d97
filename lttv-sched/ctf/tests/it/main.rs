//! CTF traces: rules of the specification, traces of a naive writer, real ones. All of it is exact; nothing here is
//! live.

mod common;
mod data;
mod rules;
mod written;
