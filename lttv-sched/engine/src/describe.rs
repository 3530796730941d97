//! What a trace says of itself, for people to look at: its clocks and its packets.

use std::path::PathBuf;

use crate::time::Time;

/// A clock that times of a trace are read from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClockInfo {
    /// Its name.
    pub name: String,
    /// What it is, in words; empty when the trace does not say.
    pub description: String,
    /// What tells it from clocks of the same name, where there is something.
    pub uid: Option<String>,
    /// Cycles a second.
    pub frequency: u64,
    /// Uncertainty, cycles.
    pub precision: u64,
    /// The clock's value 0 is so many seconds, and so many cycles, after its origin.
    pub offset_s: i64,
    /// See `offset_s`.
    pub offset_cycles: i128,
    /// What it counts from, in words.
    pub origin: String,
    /// What the reader adds to all its times, ns.
    pub shift_ns: i64,
}

/// A packet of a tracefile. What is absent the packet does not say.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PacketInfo {
    /// The file in which it lies.
    pub file: PathBuf,
    /// Its first byte there.
    pub at: u64,
    /// Its length, bytes.
    pub bytes: u64,
    /// When it was begun.
    pub begin: Option<Time>,
    /// When it was ended.
    pub end: Option<Time>,
    /// Its number in the stream.
    pub sequence: Option<u64>,
    /// The tracer's counter of lost events at its end.
    pub discarded: Option<u64>,
}
