//! Rows of the small tables read back as plain values, and how equal ones become one. (Samples are many:
//! [`crate::scan`] reads them.)

use crate::columns::Table;
use crate::ids::{CodePlace, Kind, STACK_ID};
use crate::pieces::{self, Error, text};
use crate::tables::{Build, Host, Location, Stack};
use std::path::Path;

/// Leaves of the list of frames in `stacks`.
pub(crate) const FRAME_COLUMNS: [&str; 3] =
    ["frames.list.element.build_id", "frames.list.element.addr", "frames.list.element.kind"];

/// A row that can be read, and be merged with others.
pub(crate) trait Rows: Table + Clone {
    /// Appends all rows of a file.
    ///
    /// # Errors
    /// [`Error`]; rows that were read before stay appended.
    fn read(file: &Path, rows: &mut Vec<Self>) -> Result<(), Error>;

    /// Sorts rows; those that differ in nothing but what is summed become one.
    fn merge(rows: &mut Vec<Self>) {
        rows.sort();
        rows.dedup();
    }
}

impl Rows for Stack {
    fn read(file: &Path, rows: &mut Vec<Self>) -> Result<(), Error> {
        let [build, addr, kind] = FRAME_COLUMNS;
        pieces::read(file, &["stack_id", "first_seen", build, addr, kind], &|_| true, |piece| {
            let (ids, seen) = (piece.fixed::<STACK_ID>("stack_id")?, piece.int64("first_seen")?);
            let (builds, addrs, kinds) = (piece.octets(build)?, piece.int64(addr)?, piece.octets(kind)?);
            let mut from = 0;
            for (row, length) in piece.lengths.iter().enumerate() {
                let frame = |at: usize| CodePlace {
                    build_id: builds[at].data().to_vec(),
                    addr: addrs[at],
                    kind: if kinds[at].data() == Kind::Name.as_word().as_bytes() {
                        Kind::Name
                    } else {
                        Kind::Native
                    },
                };
                let frames = (from..from + length).map(frame).collect();
                rows.push(Self { stack_id: ids[row], frames, first_seen: seen[row] });
                from += length;
            }
            Ok(())
        })
    }

    /// The one that was seen first stays. Stacks of one id with other frames stay both, for `check` to find.
    fn merge(rows: &mut Vec<Self>) {
        rows.sort_by(|a, b| {
            (a.stack_id, &a.frames, a.first_seen).cmp(&(b.stack_id, &b.frames, b.first_seen))
        });
        rows.dedup_by(|later, first| later.stack_id == first.stack_id && later.frames == first.frames);
    }
}

/// Gives `take` each location of a file whose build and address are `wanted`.
///
/// # Errors
/// [`Error`]; the rows before the damaged ones were given.
pub(crate) fn for_each_location(
    file: &Path,
    wanted: impl Fn(&[u8], i64) -> bool,
    mut take: impl FnMut(Location),
) -> Result<(), Error> {
    let columns = ["build_id", "addr", "depth", "function", "object", "file", "line"];
    pieces::read(file, &columns, &|_| true, |piece| {
        let (builds, addrs, depths) =
            (piece.octets("build_id")?, piece.int64("addr")?, piece.int32("depth")?);
        let (functions, objects) = (piece.octets("function")?, piece.octets("object")?);
        let (files, lines) = (piece.octets("file")?, piece.int32("line")?);
        for row in 0..piece.rows {
            let (build_id, addr) = (builds[row].data(), addrs[row]);
            if wanted(build_id, addr) {
                take(Location {
                    build_id: build_id.to_vec(),
                    addr,
                    depth: depths[row],
                    function: text(&functions[row]),
                    object: text(&objects[row]),
                    file: text(&files[row]),
                    line: lines[row],
                });
            }
        }
        Ok(())
    })
}

impl Rows for Location {
    fn read(file: &Path, rows: &mut Vec<Self>) -> Result<(), Error> {
        for_each_location(file, |_, _| true, |location| rows.push(location))
    }
}

impl Rows for Build {
    fn read(file: &Path, rows: &mut Vec<Self>) -> Result<(), Error> {
        let columns = ["build_id", "name", "arch", "size", "first_seen", "symbols"];
        pieces::read(file, &columns, &|_| true, |piece| {
            let (builds, names, archs) =
                (piece.octets("build_id")?, piece.octets("name")?, piece.octets("arch")?);
            let (sizes, seen, symbols) =
                (piece.int64("size")?, piece.int64("first_seen")?, piece.octets("symbols")?);
            rows.extend((0..piece.rows).map(|row| Self {
                build_id: builds[row].data().to_vec(),
                name: text(&names[row]),
                arch: text(&archs[row]),
                size: sizes[row],
                first_seen: seen[row],
                symbols: text(&symbols[row]),
            }));
            Ok(())
        })
    }
}

impl Rows for Host {
    fn read(file: &Path, rows: &mut Vec<Self>) -> Result<(), Error> {
        let columns = ["host", "service", "clock", "hz_asked", "hz", "first_seen", "pct"];
        pieces::read(file, &columns, &|_| true, |piece| {
            let (hosts, services, clocks) =
                (piece.octets("host")?, piece.octets("service")?, piece.octets("clock")?);
            let (asked, hz, seen) =
                (piece.int32("hz_asked")?, piece.int32("hz")?, piece.int64("first_seen")?);
            let writers = piece.octets("pct")?;
            rows.extend((0..piece.rows).map(|row| Self {
                host: text(&hosts[row]),
                service: text(&services[row]),
                clock: text(&clocks[row]),
                hz_asked: asked[row],
                hz: hz[row],
                first_seen: seen[row],
                pct: text(&writers[row]),
            }));
            Ok(())
        })
    }
}
