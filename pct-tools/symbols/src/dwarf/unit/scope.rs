//! Finds the namespaces, classes and functions around an entry.
//!
//! Compilers leave out the linker name if other files cannot use the function: lambdas in local functions, templates
//! instantiated with them, everything in an anonymous namespace. The plain name alone (`operator()`, `_M_invoke<0>`)
//! would put all of them into one row. DWARF entries do not name the scope around them, so a unit that has such
//! functions is skimmed a second time.

use gimli::AttributeValue;
use gimli::constants as dw;

use super::super::question::Slice;
use super::super::skim::{EntryKind, Skimmer};

/// An entry that can contain other entries.
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
            if matches!(entry.kind, EntryKind::Function | EntryKind::Scope) {
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
