//! A trace's description of itself, for people: its clocks and its packets.

use std::path::PathBuf;

use crate::time::Time;

/// A clock from which times of a trace are read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClockInfo {
    /// Its name.
    pub name: String,
    /// Its description; empty if the trace has none.
    pub description: String,
    /// What distinguishes it from clocks of the same name, if anything.
    pub uid: Option<String>,
    /// Cycles per second.
    pub frequency: u64,
    /// Uncertainty, cycles.
    pub precision: u64,
    /// The clock's value 0 is this many seconds and cycles after its origin.
    pub offset_s: i64,
    /// See `offset_s`.
    pub offset_cycles: i128,
    /// Its origin, in words.
    pub origin: String,
    /// What the reader adds to all its times, ns.
    pub shift_ns: i64,
}

/// A packet of a tracefile. Fields that the packet lacks are absent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PacketInfo {
    /// The file in which it lies.
    pub file: PathBuf,
    /// Offset of its first byte in the file.
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
