//! Which namespaces, classes and functions lie around an entry.
//!
//! Compilers leave the linker name out where a function has none that other files could use: lambdas in local
//! functions, what is made of templates with them, everything in an anonymous namespace. Its plain name alone
//! (`operator()`, `_M_invoke<0>`) would put all of them into one row. DWARF entries do not say what they lie in, so a
//! unit that has such functions is run over once more.

use gimli::constants as dw;
use gimli::{AttributeValue, Section, UnitOffset};

use super::super::question::{Dwarf, Question, Slice, name_by_symbol};
use super::super::skim::{Kind, Skimmer};
use super::{File, Walk, open_other, sup_unit};
use crate::answers::{Answers, NO_TEXT};
use crate::demangle::demangle;

/// An entry that other entries can lie in.
#[derive(Debug, Clone, Copy)]
struct Scope {
    /// Offset in the unit.
    offset: usize,
    /// Index of the scope around it.
    parent: Option<usize>,
}

/// The scopes of one unit, by offset.
#[derive(Debug, Default)]
pub(super) struct Scopes {
    entries: Vec<Scope>,
}

impl Scopes {
    /// Runs over a unit from its root entry.
    pub(super) fn read(skimmer: &mut Skimmer<'_>, root: usize) -> Scopes {
        let mut scopes = Scopes::default();
        // The scopes around the current entry with their depths, outermost first.
        let mut open: Vec<(u32, usize)> = Vec::new();
        skimmer.run(root, false, |entry| {
            if matches!(entry.kind, Kind::Function | Kind::Scope) {
                while open.last().is_some_and(|(depth, _)| *depth >= entry.depth) {
                    open.pop();
                }
                let parent = open.last().map(|(_, index)| *index);
                open.push((entry.depth, scopes.entries.len()));
                scopes.entries.push(Scope { offset: entry.offset, parent });
            }
            true
        });
        scopes
    }

    /// Offset of the innermost scope around an entry that is a scope itself.
    pub(super) fn around(&self, offset: usize) -> Option<usize> {
        let at = self.entries.binary_search_by_key(&offset, |s| s.offset).ok()?;
        Some(self.entries[self.entries[at].parent?].offset)
    }
}

impl<'a> Walk<'a, '_> {
    /// The name of a function that has code: where its entries tell no linker name, that of the symbol.
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

    /// The name of an inlined call: where its entries tell no linker name, the plain one with the scopes around it.
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

    /// The name of an entry and of the scopes around it: `render::(anonymous namespace)::shade`. `hops` bounds the
    /// number of functions within functions.
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
            // Only the place tells one lambda from the next.
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

    /// Start of the unit that holds an entry of `.debug_info`, and the offset in it of the scope around the entry.
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

    /// Start of the unit that holds an entry of `.debug_info`.
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

/// Whether a unit's language is some C++.
pub(super) fn is_cpp(unit: &gimli::Unit<Slice<'_>>) -> bool {
    let root = unit.entry(unit.header.root_offset());
    let language = root.ok().and_then(|r| r.attr_value(dw::DW_AT_language));
    matches!(
        language,
        Some(AttributeValue::Language(
            dw::DW_LANG_C_plus_plus
                | dw::DW_LANG_C_plus_plus_03
                | dw::DW_LANG_C_plus_plus_11
                | dw::DW_LANG_C_plus_plus_14
                | dw::DW_LANG_C_plus_plus_17
                | dw::DW_LANG_C_plus_plus_20
        ))
    )
}
