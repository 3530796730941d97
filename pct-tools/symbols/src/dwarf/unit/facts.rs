//! What a function's entries say about it: its name and where it is declared, through the chain of its origins.

use std::sync::atomic::Ordering;

use gimli::constants as dw;
use gimli::{AttributeValue, UnitOffset};

use super::super::lines::{Files, path};
use super::super::question::{Dwarf, Slice};
use super::Walk;
use super::entries::{File, FunctionFacts, file_number, number, open_other, sup_unit, target};
use crate::answers::{Answers, LocalPlace, NO_TEXT};

/// What one entry itself says.
#[derive(Debug, Clone, Copy, Default)]
struct EntryFacts<'a> {
    /// Offset of the unit's start.
    unit_start: usize,
    linker_name: Option<Slice<'a>>,
    plain_name: Option<Slice<'a>>,
    /// The entry that has the rest.
    origin: Option<(File, usize)>,
    /// 0: absent.
    line: u32,
    /// 0: absent.
    column: u32,
    /// File number in the unit.
    file: Option<u64>,
}

impl<'a> Walk<'a, '_> {
    /// Where the function of an entry in this unit is declared.
    pub(super) fn declaration(
        &mut self,
        offset: usize,
        files: &mut Files<'_, '_>,
        answers: &mut Answers,
    ) -> LocalPlace {
        let FunctionFacts { line: line @ 1.., file: Some((file, unit, number)), .. } =
            self.known_of_own(offset)
        else {
            return LocalPlace::NONE;
        };
        let own = self.unit.header.debug_info_offset().is_some_and(|o| (File::Main, o.0) == (file, unit));
        let file = match self.paths.get(&(file, unit, number)) {
            _ if own => files.text(number, answers),
            Some(text) => *text,
            None => {
                let path = self.path_of_other(file, unit, number);
                let text = path.map_or(NO_TEXT, |p| answers.text(&p));
                self.paths.insert((file, unit, number), text);
                text
            }
        };
        match file {
            NO_TEXT => LocalPlace::NONE,
            file => LocalPlace { file, line },
        }
    }

    /// The path of a file of another unit that names refer to.
    fn path_of_other(&self, file: File, unit: usize, number: u64) -> Option<String> {
        let dwarf: &Dwarf<'a> = match file {
            File::Main => self.dwarf,
            File::Sup => self.dwarf.sup()?,
        };
        let other = self.others.get(&(file, unit))?.as_ref()?;
        let header = other.files.get_or_init(|| {
            let size = other.header.address_size();
            let program = dwarf.debug_line.program(other.lines?, size, other.dir, None).ok()?;
            Some(program.header().clone())
        });
        path(header.as_ref()?, other.dir, |text| other.string(dwarf, text), number)
    }

    /// The facts of an entry of this unit.
    pub(super) fn known_of_own(&mut self, offset: usize) -> FunctionFacts<'a> {
        match self.unit.header.debug_info_offset() {
            Some(start) => self.known_of(File::Main, start.0.saturating_add(offset), 16),
            None => FunctionFacts::default(),
        }
    }

    /// The facts of an entry, through its origins. `hops` bounds their chain.
    pub(super) fn known_of(&mut self, file: File, offset: usize, hops: u32) -> FunctionFacts<'a> {
        if let Some(known) = self.known.get(&(file, offset)) {
            return *known;
        }
        let found = self.find_out(file, offset, hops).unwrap_or_default();
        self.known.insert((file, offset), found);
        found
    }

    /// A string attribute of this unit.
    fn text(&self, value: AttributeValue<Slice<'a>>) -> Option<Slice<'a>> {
        if let AttributeValue::DebugStrRefSup(_) = value
            && self.dwarf.sup().is_none()
        {
            return self.miss();
        }
        self.dwarf.attr_string(self.unit, value).ok()
    }

    /// Records that something is in the supplementary file, which was not found.
    fn miss<T>(&self) -> Option<T> {
        // Relaxed: it is read after all threads have ended.
        self.missed.store(true, Ordering::Relaxed);
        None
    }

    fn find_out(&mut self, file: File, offset: usize, hops: u32) -> Option<FunctionFacts<'a>> {
        let hops = hops.checked_sub(1)?;
        let own = self.unit.header.debug_info_offset()?.0;
        let is_own = file == File::Main && offset >= own && offset - own < self.data.len();
        let said = if is_own { self.own_entry(own, offset - own) } else { self.other_entry(file, offset) }?;
        let mut known = FunctionFacts {
            name: said.linker_name.or(said.plain_name),
            is_linker_name: said.linker_name.is_some(),
            root: Some((file, offset)),
            line: said.line,
            column: said.column,
            file: said.file.map(|number| (file, said.unit_start, number)),
        };
        // If an entry lacks something, its origin has it: the file and the line each, too.
        let is_partial = said.linker_name.is_none() || said.line == 0 || said.file.is_none();
        if let Some((file, offset)) = said.origin.filter(|_| is_partial) {
            let behind = self.known_of(file, offset, hops);
            known.root = behind.root.or(known.root);
            if said.linker_name.is_none() {
                // The origin of a plain name may have a linker name (a definition of a declared method).
                known.name =
                    behind.name.filter(|n| said.plain_name.is_none() || is_mangled(n)).or(said.plain_name);
                known.is_linker_name = behind.is_linker_name;
            }
            if said.line == 0 {
                (known.line, known.column) = (behind.line, behind.column);
            }
            known.file = known.file.or(behind.file);
        }
        Some(known)
    }

    /// What an entry of this unit itself says. Other attributes are skipped.
    fn own_entry(&self, unit_start: usize, at: usize) -> Option<EntryFacts<'a>> {
        let mut said = EntryFacts { unit_start, ..EntryFacts::default() };
        let mut entries = self.unit.entries_raw(Some(UnitOffset(at))).ok()?;
        let abbreviation = entries.read_abbreviation().ok()??;
        for spec in abbreviation.attributes() {
            match spec.name() {
                dw::DW_AT_linkage_name | dw::DW_AT_MIPS_linkage_name => {
                    let value = entries.read_attribute(*spec).ok()?.value();
                    said.linker_name = self.text(value);
                }
                dw::DW_AT_name => {
                    let value = entries.read_attribute(*spec).ok()?.value();
                    said.plain_name = self.text(value);
                }
                dw::DW_AT_abstract_origin | dw::DW_AT_specification => {
                    let value = entries.read_attribute(*spec).ok()?.value();
                    said.origin = target(value, File::Main, unit_start);
                }
                dw::DW_AT_decl_line => said.line = number(entries.read_attribute(*spec).ok()?.value()),
                dw::DW_AT_decl_column => said.column = number(entries.read_attribute(*spec).ok()?.value()),
                dw::DW_AT_decl_file => {
                    let value = entries.read_attribute(*spec).ok()?.value();
                    said.file = file_number(value, self.unit.header.version());
                }
                _ => entries.skip_attributes(std::slice::from_ref(spec)).ok()?,
            }
        }
        Some(said)
    }

    /// What an entry of another unit itself says. The unit is opened at its first use.
    fn other_entry(&mut self, file: File, offset: usize) -> Option<EntryFacts<'a>> {
        let dwarf: &Dwarf<'a> = match file {
            File::Main => self.dwarf,
            File::Sup => self.dwarf.sup().or_else(|| self.miss())?,
        };
        let unit_start = match file {
            File::Main => self.index.offset(self.index.unit_holding(offset)?).0,
            File::Sup => sup_unit(dwarf, offset)?,
        };
        let other = self.others.entry((file, unit_start)).or_insert_with(|| open_other(dwarf, unit_start));
        let other = other.as_ref()?;
        let mut said = EntryFacts { unit_start, ..EntryFacts::default() };
        let at = UnitOffset(offset - unit_start);
        let mut entries = other.header.entries_raw(&other.abbreviations, Some(at)).ok()?;
        let abbreviation = entries.read_abbreviation().ok()??;
        for spec in abbreviation.attributes() {
            let attribute = entries.read_attribute(*spec).ok()?;
            match attribute.name() {
                dw::DW_AT_linkage_name | dw::DW_AT_MIPS_linkage_name => {
                    said.linker_name = other.string(dwarf, attribute.value());
                }
                dw::DW_AT_name => said.plain_name = other.string(dwarf, attribute.value()),
                dw::DW_AT_abstract_origin | dw::DW_AT_specification => {
                    said.origin = target(attribute.value(), file, unit_start);
                }
                dw::DW_AT_decl_line => said.line = number(attribute.value()),
                dw::DW_AT_decl_column => said.column = number(attribute.value()),
                dw::DW_AT_decl_file => {
                    said.file = file_number(attribute.value(), other.header.version());
                }
                _ => {}
            }
        }
        Some(said)
    }
}

fn is_mangled(name: &Slice<'_>) -> bool {
    matches!(name.slice(), [b'_', b'Z' | b'R', ..])
}
