//! The tables: rows as plain values, their Parquet schema, and how each column is written.
//!
//! Only types that every engine reads as itself: signed integers, UTF-8, binary, UTC timestamps in
//! microseconds, one list of structs. (Unsigned 64-bit integers become decimals in Spark.) No Arrow schema is
//! written: DataFusion fails on some of them. Columns may be added, always optional; none changes its type or
//! meaning.

use crate::columns::{Columns, Problem, Table};
use crate::ids::{CodePlace, STACK_ID};
use std::io::Write;

/// A row of `samples`: what one thread name of a service on a host spent in a stack, within one interval.
#[derive(Clone, PartialEq, Eq, Debug, PartialOrd, Ord)]
pub struct Sample {
    /// The service.
    pub service: String,
    /// Its version; may be empty.
    pub version: String,
    /// The stack, or [`crate::ids::NO_STACK`].
    pub stack_id: [u8; STACK_ID],
    /// The host.
    pub host: String,
    /// Start of the interval, microseconds since 1970.
    pub ts: i64,
    /// Name of the thread, digits cut.
    pub thread: String,
    /// What is counted: `cpu` or `wall`.
    pub kind: String,
    /// Environment (`prod`, `test`); may be empty.
    pub env: String,
    /// Samples.
    pub samples: i32,
    /// Nanoseconds that they stand for: weights times periods, so hosts with other rates add up.
    pub value: i64,
    /// Nanoseconds that were due and are not in any row, on rows without a stack.
    pub lost: i64,
}

/// A row of `stacks`.
#[derive(Clone, PartialEq, Eq, Debug, PartialOrd, Ord)]
pub struct Stack {
    /// Its id.
    pub stack_id: [u8; STACK_ID],
    /// Its frames, innermost first.
    pub frames: Vec<CodePlace>,
    /// When it was seen first, microseconds since 1970.
    pub first_seen: i64,
}

/// A row of `locations`: a function at a place in code; inlined functions have a row each.
#[derive(Clone, PartialEq, Eq, Debug, PartialOrd, Ord)]
pub struct Location {
    /// The build.
    pub build_id: Vec<u8>,
    /// The place in it.
    pub addr: i64,
    /// 0 for the innermost function, 1 for the one that it was inlined into.
    pub depth: i32,
    /// The function.
    pub function: String,
    /// Base name of the file of code.
    pub object: String,
    /// Base name of the source file; may be empty.
    pub file: String,
    /// Source line, 0 if unknown.
    pub line: i32,
}

/// A row of `builds`: a file of code that samples were in.
#[derive(Clone, PartialEq, Eq, Debug, PartialOrd, Ord)]
pub struct Build {
    /// The build.
    pub build_id: Vec<u8>,
    /// Base name of the file.
    pub name: String,
    /// Machine, as the kernel names it: `x86_64`.
    pub arch: String,
    /// Octets of the file, 0 if it could not be looked at.
    pub size: i64,
    /// When it was seen first, microseconds since 1970.
    pub first_seen: i64,
    /// Where names came from: `none` (no function of it has a name), `table` (names, no lines), `dwarf`
    /// (lines).
    pub symbols: String,
}

/// A row of `hosts`: how a service was sampled on a host.
#[derive(Clone, PartialEq, Eq, Debug, PartialOrd, Ord)]
pub struct Host {
    /// The host.
    pub host: String,
    /// The service.
    pub service: String,
    /// The clock that took the samples.
    pub clock: String,
    /// Samples a second that were asked for, 0 if unknown.
    pub hz_asked: i32,
    /// Samples a second that the clock was set to, 0 if unknown.
    pub hz: i32,
    /// When it was seen first, microseconds since 1970.
    pub first_seen: i64,
    /// Version of pct that wrote the row.
    pub pct: String,
}

impl Table for Sample {
    const NAME: &'static str = "samples";
    const SCHEMA: &'static str = "message samples {
        required int64 ts (TIMESTAMP(MICROS,true));
        required binary service (UTF8);
        required binary version (UTF8);
        required binary host (UTF8);
        required binary thread (UTF8);
        required binary env (UTF8);
        required fixed_len_byte_array(16) stack_id;
        required binary kind (UTF8);
        required int32 samples;
        required int64 value;
        required int64 lost;
    }";
    fn write<W: Write + Send>(rows: &[Self], to: &mut Columns<'_, W>) -> Result<(), Problem> {
        to.int64(rows.iter().map(|row| row.ts))?;
        to.text(rows.iter().map(|row| row.service.as_str()))?;
        to.text(rows.iter().map(|row| row.version.as_str()))?;
        to.text(rows.iter().map(|row| row.host.as_str()))?;
        to.text(rows.iter().map(|row| row.thread.as_str()))?;
        to.text(rows.iter().map(|row| row.env.as_str()))?;
        to.fixed(rows.iter().map(|row| row.stack_id.as_slice()))?;
        to.text(rows.iter().map(|row| row.kind.as_str()))?;
        to.int32(rows.iter().map(|row| row.samples))?;
        to.int64(rows.iter().map(|row| row.value))?;
        to.int64(rows.iter().map(|row| row.lost))
    }
}

impl Table for Stack {
    const NAME: &'static str = "stacks";
    const SCHEMA: &'static str = "message stacks {
        required fixed_len_byte_array(16) stack_id;
        required group frames (LIST) {
            repeated group list {
                required group element {
                    required binary build_id;
                    required int64 addr;
                    required binary kind (UTF8);
                }
            }
        }
        required int64 first_seen (TIMESTAMP(MICROS,true));
    }";
    fn write<W: Write + Send>(rows: &[Self], to: &mut Columns<'_, W>) -> Result<(), Problem> {
        to.fixed(rows.iter().map(|row| row.stack_id.as_slice()))?;
        let lengths: Vec<usize> = rows.iter().map(|row| row.frames.len()).collect();
        let frames = || rows.iter().flat_map(|row| &row.frames);
        to.octets_in_lists(&lengths, frames().map(|frame| frame.build_id.as_slice()))?;
        to.int64_in_lists(&lengths, frames().map(|frame| frame.addr))?;
        to.octets_in_lists(&lengths, frames().map(|frame| frame.kind.as_word().as_bytes()))?;
        to.int64(rows.iter().map(|row| row.first_seen))
    }
}

impl Table for Location {
    const NAME: &'static str = "locations";
    const SCHEMA: &'static str = "message locations {
        required binary build_id;
        required int64 addr;
        required int32 depth;
        required binary function (UTF8);
        required binary object (UTF8);
        required binary file (UTF8);
        required int32 line;
    }";
    fn write<W: Write + Send>(rows: &[Self], to: &mut Columns<'_, W>) -> Result<(), Problem> {
        to.octets(rows.iter().map(|row| row.build_id.as_slice()))?;
        to.int64(rows.iter().map(|row| row.addr))?;
        to.int32(rows.iter().map(|row| row.depth))?;
        to.text(rows.iter().map(|row| row.function.as_str()))?;
        to.text(rows.iter().map(|row| row.object.as_str()))?;
        to.text(rows.iter().map(|row| row.file.as_str()))?;
        to.int32(rows.iter().map(|row| row.line))
    }
}

impl Table for Host {
    const NAME: &'static str = "hosts";
    const SCHEMA: &'static str = "message hosts {
        required binary host (UTF8);
        required binary service (UTF8);
        required binary clock (UTF8);
        required int32 hz_asked;
        required int32 hz;
        required int64 first_seen (TIMESTAMP(MICROS,true));
        required binary pct (UTF8);
    }";
    fn write<W: Write + Send>(rows: &[Self], to: &mut Columns<'_, W>) -> Result<(), Problem> {
        to.text(rows.iter().map(|row| row.host.as_str()))?;
        to.text(rows.iter().map(|row| row.service.as_str()))?;
        to.text(rows.iter().map(|row| row.clock.as_str()))?;
        to.int32(rows.iter().map(|row| row.hz_asked))?;
        to.int32(rows.iter().map(|row| row.hz))?;
        to.int64(rows.iter().map(|row| row.first_seen))?;
        to.text(rows.iter().map(|row| row.pct.as_str()))
    }
}

impl Table for Build {
    const NAME: &'static str = "builds";
    const SCHEMA: &'static str = "message builds {
        required binary build_id;
        required binary name (UTF8);
        required binary arch (UTF8);
        required int64 size;
        required int64 first_seen (TIMESTAMP(MICROS,true));
        required binary symbols (UTF8);
    }";
    fn write<W: Write + Send>(rows: &[Self], to: &mut Columns<'_, W>) -> Result<(), Problem> {
        to.octets(rows.iter().map(|row| row.build_id.as_slice()))?;
        to.text(rows.iter().map(|row| row.name.as_str()))?;
        to.text(rows.iter().map(|row| row.arch.as_str()))?;
        to.int64(rows.iter().map(|row| row.size))?;
        to.int64(rows.iter().map(|row| row.first_seen))?;
        to.text(rows.iter().map(|row| row.symbols.as_str()))
    }
}
