//! Runs the line program of a unit for a few addresses only.
//!
//! The program's rows come in sequences of ascending addresses; a row is valid up to the next row's address. The
//! wanted addresses are sorted too, so both are walked side by side, and the run stops when all are found.

use super::question::{Dwarf, Slice};
use crate::answers::{Answers, NO_TEXT};
use crate::quickhash::QuickMap;

/// The source position of an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SourcePosition {
    pub(super) file: u64,
    pub(super) line: u32,
    pub(super) column: u32,
}

/// Finds the rows for ascending addresses. None: the program has no row for the address.
pub(super) fn places(unit: &gimli::Unit<Slice<'_>>, addresses: &[u64]) -> Vec<Option<SourcePosition>> {
    let mut found = vec![None; addresses.len()];
    let Some(program) = unit.line_program.clone() else { return found };
    let mut missing = addresses.len();
    let mut rows = program.rows();
    let mut before: Option<(u64, SourcePosition)> = None;
    // The first wanted address that is not below the last row.
    let mut next = 0;
    while let Ok(Some((_, row))) = rows.next_row() {
        let address = row.address();
        if let Some((last, place)) = before {
            if address >= last {
                while next < addresses.len() && addresses[next] < address {
                    if addresses[next] >= last && found[next].is_none() {
                        found[next] = Some(place);
                        missing -= 1;
                    }
                    next += 1;
                }
            } else {
                next = addresses.partition_point(|a| *a < address);
            }
        } else {
            next = addresses.partition_point(|a| *a < address);
        }
        if row.end_sequence() {
            before = None;
            if missing == 0 {
                break;
            }
            continue;
        }
        let column = match row.column() {
            gimli::ColumnType::LeftEdge => 0,
            gimli::ColumnType::Column(n) => u32::try_from(n.get()).unwrap_or(0),
        };
        let line = row.line().map_or(0, |n| u32::try_from(n.get()).unwrap_or(0));
        before = Some((address, SourcePosition { file: row.file_index(), line, column }));
    }
    found
}

/// Names of a unit's source files. Each is composed at its first use.
pub(super) struct Files<'a, 'u> {
    dwarf: &'u Dwarf<'a>,
    unit: &'u gimli::Unit<Slice<'a>>,
    known: QuickMap<u64, u32>,
}

impl<'a, 'u> Files<'a, 'u> {
    pub(super) fn new(dwarf: &'u Dwarf<'a>, unit: &'u gimli::Unit<Slice<'a>>) -> Files<'a, 'u> {
        Files { dwarf, unit, known: QuickMap::default() }
    }

    /// The number of a file's name among the answers' texts, or [`NO_TEXT`].
    pub(super) fn text(&mut self, file: u64, answers: &mut Answers) -> u32 {
        if let Some(text) = self.known.get(&file) {
            return *text;
        }
        let text = self.path(file).map_or(NO_TEXT, |p| answers.text(&p));
        self.known.insert(file, text);
        text
    }

    fn path(&self, file: u64) -> Option<String> {
        let header = self.unit.line_program.as_ref()?.header();
        path(header, self.unit.comp_dir, |text| self.dwarf.attr_string(self.unit, text).ok(), file)
    }
}

/// A file's path, composed of the unit's directory, the file's directory and its name. An absolute one drops those
/// before it. `text` reads the unit's strings.
pub(super) fn path<'a>(
    header: &gimli::LineProgramHeader<Slice<'a>>,
    unit_dir: Option<Slice<'a>>,
    text: impl Fn(gimli::AttributeValue<Slice<'a>>) -> Option<Slice<'a>>,
    file: u64,
) -> Option<String> {
    let entry = header.file(file)?;
    let mut path = unit_dir.map_or_else(String::new, |d| d.to_string_lossy().into_owned());
    // Directory 0 is the unit's own.
    if entry.directory_index() != 0
        && let Some(directory) = entry.directory(header).and_then(&text)
    {
        push(&mut path, &directory.to_string_lossy());
    }
    push(&mut path, &text(entry.path_name())?.to_string_lossy());
    Some(path)
}

fn push(path: &mut String, part: &str) {
    if part.starts_with('/') {
        path.clear();
    } else if !path.is_empty() && !path.ends_with('/') {
        path.push('/');
    }
    path.push_str(part);
}
