//! Entries of functions, and the other units that they refer to.

use std::cell::OnceCell;
use std::sync::Arc;

use gimli::constants as dw;
use gimli::{AttributeValue, DebugInfoOffset, UnitHeader};

use super::super::question::{Dwarf, Slice};

/// A file of debug information: the main one or dwz's supplementary one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum File {
    Main,
    Sup,
}

/// Another unit. Only what names need of it is read.
pub(super) struct Other<'a> {
    pub(super) header: UnitHeader<Slice<'a>>,
    pub(super) abbreviations: Arc<gimli::Abbreviations>,
    pub(super) str_offsets_base: gimli::DebugStrOffsetsBase,
    pub(super) dir: Option<Slice<'a>>,
    pub(super) lines: Option<gimli::DebugLineOffset>,
    /// Its files, read when a declaration first names one.
    pub(super) files: OnceCell<Option<gimli::LineProgramHeader<Slice<'a>>>>,
}

/// What entries say about a function, directly or through their origins.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct FunctionFacts<'a> {
    /// The linker name, or else the plain one.
    pub(super) name: Option<Slice<'a>>,
    /// `name` is the linker name, which includes the scopes of the function.
    pub(super) is_linker_name: bool,
    /// The last entry of the chain of origins. Its scopes are those of the function's declaration.
    pub(super) root: Option<(File, usize)>,
    /// Column of the declaration; 0: unknown.
    pub(super) column: u32,
    /// Line of the declaration; 0: unknown.
    pub(super) line: u32,
    /// File of the declaration: a file number of the unit that begins at this offset.
    pub(super) file: Option<(File, usize, u64)>,
}
/// An attribute as a number; 0 if it is not a number.
pub(super) fn number(value: AttributeValue<Slice<'_>>) -> u32 {
    value.udata_value().and_then(|n| u32::try_from(n).ok()).unwrap_or(0)
}

/// The number of a source file. Before DWARF 5, 0 means "no file".
pub(super) fn file_number(value: AttributeValue<Slice<'_>>, version: u16) -> Option<u64> {
    let number = match value {
        AttributeValue::FileIndex(n) => Some(n),
        other => other.udata_value(),
    };
    number.filter(|n| *n != 0 || version >= 5)
}

/// The target of a reference: file and offset in its `.debug_info`.
pub(super) fn target(
    value: AttributeValue<Slice<'_>>,
    file: File,
    unit_start: usize,
) -> Option<(File, usize)> {
    match value {
        AttributeValue::UnitRef(at) => Some((file, unit_start.checked_add(at.0)?)),
        AttributeValue::DebugInfoRef(at) => Some((file, at.0)),
        AttributeValue::DebugInfoRefSup(at) => Some((File::Sup, at.0)),
        _ => None,
    }
}

/// Start of the unit of the supplementary file that contains an offset.
pub(super) fn sup_unit(dwarf: &Dwarf<'_>, offset: usize) -> Option<usize> {
    let mut units = dwarf.units();
    while let Ok(Some(header)) = units.next() {
        let start = header.debug_info_offset()?.0;
        if offset >= start && offset - start < header.length_including_self() {
            return Some(start);
        }
    }
    None
}

pub(super) fn open_other<'a>(dwarf: &Dwarf<'a>, start: usize) -> Option<Other<'a>> {
    let header = dwarf.unit_header(DebugInfoOffset(start)).ok()?;
    let abbreviations = dwarf.abbreviations(&header).ok()?;
    let mut base =
        gimli::DebugStrOffsetsBase::default_for_encoding_and_file(header.encoding(), dwarf.file_type);
    let (mut dir, mut lines) = (None, None);
    let mut entries = header.entries_raw(&abbreviations, None).ok()?;
    if let Some(root) = entries.read_abbreviation().ok()? {
        for spec in root.attributes() {
            let attribute = entries.read_attribute(*spec).ok()?;
            match (attribute.name(), attribute.value()) {
                (_, AttributeValue::DebugStrOffsetsBase(at)) => base = at,
                (_, AttributeValue::DebugLineRef(at)) => lines = Some(at),
                (dw::DW_AT_comp_dir, value) => dir = Some(value),
                _ => {}
            }
        }
    }
    let files = OnceCell::new();
    let mut other = Other { header, abbreviations, str_offsets_base: base, dir: None, lines, files };
    other.dir = dir.and_then(|d| other.string(dwarf, d));
    Some(other)
}

impl<'a> Other<'a> {
    /// The text of a string attribute.
    pub(super) fn string(&self, dwarf: &Dwarf<'a>, value: AttributeValue<Slice<'a>>) -> Option<Slice<'a>> {
        match value {
            AttributeValue::String(text) => Some(text),
            AttributeValue::DebugStrRef(at) => dwarf.string(at).ok(),
            AttributeValue::DebugLineStrRef(at) => dwarf.line_string(at).ok(),
            AttributeValue::DebugStrRefSup(at) => dwarf.sup_string(at).ok(),
            AttributeValue::DebugStrOffsetsIndex(index) => {
                let format = self.header.format();
                let at = dwarf.debug_str_offsets.get_str_offset(format, self.str_offsets_base, index).ok()?;
                dwarf.string(at).ok()
            }
            _ => None,
        }
    }
}
