//! Runs over the entries of a unit without decoding them.
//!
//! To find the few functions that matter among millions of entries, one must skip fast. Each abbreviation is compiled
//! once per unit: runs of attributes of known size become one number, and only attributes with a length of their own
//! (LEB128, strings, blocks) need a step. Most entries of real files need one addition.
//!
//! Invariant: positions only grow, and each is checked against the unit's end; a damaged unit ends the run.

use gimli::constants as dw;

use super::question::Slice;
use crate::answers::table_index;

/// The kind of an entry, from its abbreviation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EntryKind {
    /// A function that may have its own code.
    Function,
    /// An inlined call.
    Inlined,
    /// A namespace, a class, or a function without code. It is a prefix of the names of the functions in it.
    Scope,
    /// Anything else.
    Other,
}

/// A step over attributes.
#[derive(Debug, Clone, Copy)]
enum AttributeSkip {
    /// This many bytes.
    Bytes(usize),
    /// A LEB128 number.
    Leb,
    /// Bytes up to and including NUL.
    Text,
    /// A block that begins with its length in 1, 2, 4 bytes, or as LEB128 (0).
    Block(u8),
    /// The form is stored in the entry.
    Indirect,
}

/// A compiled abbreviation.
#[derive(Debug, Clone, Copy)]
struct Compiled {
    kind: EntryKind,
    has_children: bool,
    known: bool,
    /// Total size in bytes of the attributes before the first step.
    fixed: usize,
    first_step: u32,
    steps: u32,
}

/// A unit's entries, ready to be skimmed.
pub(super) struct Skimmer<'a> {
    /// The unit's bytes, beginning with its header.
    data: &'a [u8],
    abbreviations: &'a gimli::Abbreviations,
    header: &'a gimli::UnitHeader<Slice<'a>>,
    compiled: Vec<Option<Compiled>>,
    steps: Vec<AttributeSkip>,
}

/// The entry at which the skimmer is.
#[derive(Debug, Clone, Copy)]
pub(super) struct Entry {
    /// Offset in the unit.
    pub(super) offset: usize,
    pub(super) kind: EntryKind,
    /// Number of entries around it.
    pub(super) depth: u32,
}

/// Codes up to this one are compiled into a table. No compiler uses larger ones.
const MAX_CODE: u64 = 1 << 16;

impl<'a> Skimmer<'a> {
    pub(super) fn new(
        data: &'a [u8],
        header: &'a gimli::UnitHeader<Slice<'a>>,
        abbreviations: &'a gimli::Abbreviations,
    ) -> Skimmer<'a> {
        Skimmer { data, abbreviations, header, compiled: Vec::new(), steps: Vec::new() }
    }

    /// Runs from an entry onwards and calls `visit` at each function, scope and inlined call. `visit` returns whether
    /// to go on.
    ///
    /// With `subtree` the run ends after the children of the first entry.
    pub(super) fn run(
        &mut self,
        from: usize,
        subtree: bool,
        mut visit: impl FnMut(Entry) -> bool,
    ) -> Option<()> {
        let mut at = from;
        let mut depth = 0u32;
        while at < self.data.len() {
            let offset = at;
            let code = match self.data[at] {
                small @ 0..0x80 => {
                    at += 1;
                    u64::from(small)
                }
                _ => leb(self.data, &mut at)?,
            };
            if code == 0 {
                // Padding at depth 0 ends nothing.
                depth = depth.saturating_sub(1);
                if depth == 0 && subtree {
                    return Some(());
                }
                continue;
            }
            let entry = self.compile(code)?;
            if entry.kind != EntryKind::Other && !visit(Entry { offset, kind: entry.kind, depth }) {
                return Some(());
            }
            at = at.checked_add(entry.fixed)?;
            for i in entry.first_step..entry.first_step + entry.steps {
                self.step(self.steps[i as usize], &mut at)?;
            }
            if entry.has_children {
                depth = depth.checked_add(1)?;
            } else if depth == 0 && subtree {
                return Some(());
            }
        }
        Some(())
    }

    #[inline]
    fn step(&self, step: AttributeSkip, at: &mut usize) -> Option<()> {
        match step {
            AttributeSkip::Bytes(n) => *at = at.checked_add(n)?,
            AttributeSkip::Leb => skip_leb(self.data, at)?,
            AttributeSkip::Text => *at += memchr::memchr(0, self.data.get(*at..)?)? + 1,
            AttributeSkip::Block(width) => {
                let length = match width {
                    0 => usize::try_from(leb(self.data, at)?).ok()?,
                    width => {
                        let bytes = self.data.get(*at..at.checked_add(usize::from(width))?)?;
                        *at += usize::from(width);
                        let big = self.header_is_big();
                        let fold = |n: usize, b: &u8| n << 8 | usize::from(*b);
                        if big { bytes.iter().fold(0, fold) } else { bytes.iter().rev().fold(0, fold) }
                    }
                };
                *at = at.checked_add(length)?;
            }
            AttributeSkip::Indirect => {
                let form = gimli::DwForm(u16::try_from(leb(self.data, at)?).ok()?);
                // An indirect form that is indirect again is invalid, and so is an implicit constant, which would lack
                // its value.
                if form == dw::DW_FORM_indirect || form == dw::DW_FORM_implicit_const {
                    return None;
                }
                self.step(self.step_of(form)?, at)?;
            }
        }
        Some(())
    }

    fn header_is_big(&self) -> bool {
        use gimli::{Endianity, Reader};
        self.header.range_from(self.header.root_offset()..).is_ok_and(|r| r.endian().is_big_endian())
    }

    #[inline]
    fn compile(&mut self, code: u64) -> Option<Compiled> {
        if let Some(Some(done)) = self.compiled.get(usize::try_from(code).unwrap_or(usize::MAX)) {
            return done.known.then_some(*done);
        }
        self.compile_new(code)
    }

    #[cold]
    fn compile_new(&mut self, code: u64) -> Option<Compiled> {
        let abbreviation = self.abbreviations.get(code)?;
        let first_step = table_index(self.steps.len());
        let mut fixed = 0usize;
        let mut steps: Vec<AttributeSkip> = Vec::new();
        let mut has_place = false;
        for spec in abbreviation.attributes() {
            has_place |= matches!(spec.name(), dw::DW_AT_low_pc | dw::DW_AT_ranges | dw::DW_AT_high_pc);
            let step = match spec.size(self.header) {
                Some(n) => AttributeSkip::Bytes(n),
                None => self.step_of(spec.form())?,
            };
            match (step, steps.last_mut()) {
                (AttributeSkip::Bytes(n), None) => fixed += n,
                (AttributeSkip::Bytes(n), Some(AttributeSkip::Bytes(before))) => *before += n,
                (step, _) => steps.push(step),
            }
        }
        self.steps.extend(&steps);
        let kind = match abbreviation.tag() {
            dw::DW_TAG_subprogram if has_place => EntryKind::Function,
            dw::DW_TAG_inlined_subroutine => EntryKind::Inlined,
            dw::DW_TAG_subprogram
            | dw::DW_TAG_namespace
            | dw::DW_TAG_class_type
            | dw::DW_TAG_structure_type
            | dw::DW_TAG_union_type => EntryKind::Scope,
            _ => EntryKind::Other,
        };
        let compiled = Compiled {
            kind,
            has_children: abbreviation.has_children(),
            known: true,
            fixed,
            first_step,
            steps: table_index(steps.len()),
        };
        if code < MAX_CODE
            && let Ok(slot) = usize::try_from(code)
        {
            if self.compiled.len() <= slot {
                self.compiled.resize(slot + 1, None);
            }
            self.compiled[slot] = Some(compiled);
        } else if self.steps.len() > 1 << 20 {
            // Very large codes are compiled each time. The steps of earlier ones are no longer needed.
            return None;
        }
        Some(compiled)
    }

    /// How to step over a form. None: the form is unknown.
    fn step_of(&self, form: gimli::DwForm) -> Option<AttributeSkip> {
        let encoding = self.header.encoding();
        let word = usize::from(encoding.format.word_size());
        Some(match form {
            dw::DW_FORM_addr => AttributeSkip::Bytes(usize::from(encoding.address_size)),
            dw::DW_FORM_ref_addr if encoding.version == 2 => {
                AttributeSkip::Bytes(usize::from(encoding.address_size))
            }
            dw::DW_FORM_flag_present | dw::DW_FORM_implicit_const => AttributeSkip::Bytes(0),
            dw::DW_FORM_data1
            | dw::DW_FORM_ref1
            | dw::DW_FORM_flag
            | dw::DW_FORM_strx1
            | dw::DW_FORM_addrx1 => AttributeSkip::Bytes(1),
            dw::DW_FORM_data2 | dw::DW_FORM_ref2 | dw::DW_FORM_strx2 | dw::DW_FORM_addrx2 => {
                AttributeSkip::Bytes(2)
            }
            dw::DW_FORM_strx3 | dw::DW_FORM_addrx3 => AttributeSkip::Bytes(3),
            dw::DW_FORM_data4
            | dw::DW_FORM_ref4
            | dw::DW_FORM_strx4
            | dw::DW_FORM_addrx4
            | dw::DW_FORM_ref_sup4 => AttributeSkip::Bytes(4),
            dw::DW_FORM_data8 | dw::DW_FORM_ref8 | dw::DW_FORM_ref_sig8 | dw::DW_FORM_ref_sup8 => {
                AttributeSkip::Bytes(8)
            }
            dw::DW_FORM_data16 => AttributeSkip::Bytes(16),
            dw::DW_FORM_strp
            | dw::DW_FORM_sec_offset
            | dw::DW_FORM_line_strp
            | dw::DW_FORM_ref_addr
            | dw::DW_FORM_strp_sup
            | dw::DW_FORM_GNU_ref_alt
            | dw::DW_FORM_GNU_strp_alt => AttributeSkip::Bytes(word),
            dw::DW_FORM_sdata
            | dw::DW_FORM_udata
            | dw::DW_FORM_ref_udata
            | dw::DW_FORM_strx
            | dw::DW_FORM_addrx
            | dw::DW_FORM_loclistx
            | dw::DW_FORM_rnglistx
            | dw::DW_FORM_GNU_addr_index
            | dw::DW_FORM_GNU_str_index => AttributeSkip::Leb,
            dw::DW_FORM_string => AttributeSkip::Text,
            dw::DW_FORM_block1 => AttributeSkip::Block(1),
            dw::DW_FORM_block2 => AttributeSkip::Block(2),
            dw::DW_FORM_block4 => AttributeSkip::Block(4),
            dw::DW_FORM_block | dw::DW_FORM_exprloc => AttributeSkip::Block(0),
            dw::DW_FORM_indirect => AttributeSkip::Indirect,
            _ => return None,
        })
    }
}

/// A LEB128 number of at most 64 bits.
fn leb(data: &[u8], at: &mut usize) -> Option<u64> {
    let mut n = 0u64;
    let mut shift = 0;
    loop {
        let byte = *data.get(*at)?;
        *at += 1;
        if shift < 64 {
            n |= u64::from(byte & 0x7f) << shift;
        }
        if byte < 0x80 {
            return Some(n);
        }
        shift += 7;
        if shift > 70 {
            return None;
        }
    }
}

#[inline]
fn skip_leb(data: &[u8], at: &mut usize) -> Option<()> {
    while *data.get(*at)? >= 0x80 {
        *at += 1;
    }
    *at += 1;
    Some(())
}
