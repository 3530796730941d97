//! Names of functions with the scopes around them, for entries without linker names.

use gimli::constants as dw;
use gimli::{Section, UnitOffset};

use super::super::question::{Dwarf, Question, name_by_symbol};
use super::super::skim::Skimmer;
use super::Walk;
use super::entries::{File, open_other, sup_unit};
use super::scope::Scopes;
use crate::answers::{Answers, NO_TEXT};
use crate::demangle::demangle;

impl<'a> Walk<'a, '_> {
    /// The name of a function that has code. If its entries have no linker name, that of the symbol is used.
    pub(super) fn physical_name(
        &mut self,
        offset: usize,
        address: u64,
        q: &Question<'_>,
        answers: &mut Answers,
    ) -> u32 {
        let known = self.known_of_own(offset);
        let Some(plain) = known.name.filter(|_| self.is_cpp && !known.is_linker_name) else {
            return self.name(offset, answers);
        };
        if let Some(text) = self.physical.get(&offset) {
            return *text;
        }
        let text = match (q.symbol)(address) {
            // A name that is not mangled is `main` or an `extern "C"` function: its plain name is right.
            Some(symbol) if !symbol.name.starts_with("_Z") => self.name(offset, answers),
            Some(symbol) => match name_by_symbol(&plain.to_string_lossy(), &symbol.name) {
                Some(name) => answers.text(&name),
                None => self.inlined_name(offset, answers),
            },
            None => self.inlined_name(offset, answers),
        };
        self.physical.insert(offset, text);
        text
    }

    /// The name of an inlined call. If its entries have no linker name, it is the plain one with the scopes around it.
    pub(super) fn inlined_name(&mut self, offset: usize, answers: &mut Answers) -> u32 {
        let known = self.known_of_own(offset);
        let Some((file, root)) = known.root.filter(|_| self.is_cpp && !known.is_linker_name) else {
            return self.name(offset, answers);
        };
        match self.scoped_name(file, root, 16) {
            Some(name) if !name.is_empty() => answers.text(&name),
            _ => NO_TEXT,
        }
    }

    /// The name of an entry with the scopes around it: `render::(anonymous namespace)::shade`. `hops` bounds the
    /// nesting of functions within functions.
    fn scoped_name(&mut self, file: File, offset: usize, hops: u32) -> Option<String> {
        if let Some(name) = self.scoped.get(&(file, offset)) {
            return name.clone();
        }
        let name = self.compose_name(file, offset, hops);
        self.scoped.insert((file, offset), name.clone());
        name
    }

    fn compose_name(&mut self, file: File, offset: usize, hops: u32) -> Option<String> {
        let known = self.known_of(file, offset, 16);
        let own = known.name.map(|n| n.to_string_lossy().into_owned());
        if known.is_linker_name {
            return own.map(|n| demangle(&n).into_owned());
        }
        let (file, root) = known.root?;
        let around = hops.checked_sub(1).and_then(|hops| {
            let (unit, scope) = self.scope_around(file, root)?;
            self.scoped_name(file, unit.checked_add(scope)?, hops)
        });
        let own = match (own, self.tag(file, root)?) {
            (Some(own), _) => Some(own),
            (None, dw::DW_TAG_namespace) => Some("(anonymous namespace)".to_owned()),
            // Only their positions distinguish two lambdas.
            (None, dw::DW_TAG_class_type | dw::DW_TAG_structure_type) if known.line != 0 => {
                Some(format!("{{lambda:{}:{}}}", known.line, known.column))
            }
            (None, _) => None,
        };
        match (around, own) {
            (Some(around), Some(own)) => Some(format!("{around}::{own}")),
            (around, own) => around.or(own),
        }
    }

    /// Start of the unit that contains an entry of `.debug_info`, and the unit offset of the scope around the entry.
    fn scope_around(&mut self, file: File, offset: usize) -> Option<(usize, usize)> {
        let dwarf: &Dwarf<'a> = match file {
            File::Main => self.dwarf,
            File::Sup => self.dwarf.sup()?,
        };
        let unit = self.unit_start(file, offset)?;
        if !self.scopes.contains_key(&(file, unit)) {
            let own = self.unit.header.debug_info_offset().is_some_and(|o| (File::Main, o.0) == (file, unit));
            let (header, abbreviations) = if own {
                (&self.unit.header, &self.unit.abbreviations)
            } else {
                let other = self.others.entry((file, unit)).or_insert_with(|| open_other(dwarf, unit));
                let other = other.as_ref()?;
                (&other.header, &other.abbreviations)
            };
            let section = dwarf.debug_info.reader().slice();
            let end = unit.saturating_add(header.length_including_self()).min(section.len());
            let mut skimmer = Skimmer::new(section.get(unit..end)?, header, abbreviations);
            let scopes = Scopes::read(&mut skimmer, header.root_offset().0);
            self.scopes.insert((file, unit), scopes);
        }
        let scope = self.scopes.get(&(file, unit))?.around(offset.checked_sub(unit)?)?;
        Some((unit, scope))
    }

    /// Start of the unit that contains an entry of `.debug_info`.
    fn unit_start(&self, file: File, offset: usize) -> Option<usize> {
        match file {
            File::Main => Some(self.index.offset(self.index.unit_holding(offset)?).0),
            File::Sup => sup_unit(self.dwarf.sup()?, offset),
        }
    }

    /// The tag of an entry.
    fn tag(&mut self, file: File, offset: usize) -> Option<gimli::DwTag> {
        let unit = self.unit_start(file, offset)?;
        let own = self.unit.header.debug_info_offset().is_some_and(|o| (File::Main, o.0) == (file, unit));
        let at = Some(UnitOffset(offset.checked_sub(unit)?));
        let mut entries = if own {
            self.unit.entries_raw(at).ok()?
        } else {
            let other = self.others.get(&(file, unit))?.as_ref()?;
            other.header.entries_raw(&other.abbreviations, at).ok()?
        };
        Some(entries.read_abbreviation().ok()??.tag())
    }
}
