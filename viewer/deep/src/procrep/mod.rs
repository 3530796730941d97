//! Deep.procrep: the bodies of the program's procedures that were compiled with profiling. It has no counts. Call sites
//! and coverage points are joined to it by goal path.
//!
//! ```text
//! file       "Mercury deep profiler procrep version 5\n" (or 6), { byte 1, module }, byte 0
//! module     name: string, string table: num size, octets,
//!            [version 6: num T1, [T1 > 0: oisu block], num T2, [T2 > 0: type block]],
//!            { byte 1, procedure }, byte 0
//! procedure  label, int32 size of what follows the label (itself included), file: strref,
//!            variable table, head variables, body goal, determinism byte
//! ```
//!
//! The octets of a file are kept. When it is opened, modules, names and the positions of procedures are found; a body
//! is decoded on request.

mod body;
mod goal;
mod text;
mod types;

use crate::small::small;
use std::borrow::Cow;
use std::fs::File;
use std::io::Read;
use std::path::Path;

pub use goal::{
    AtomicGoal, AtomicKind, Case, Detism, Goal, GoalKind, HeadVar, Inst, NamedVar, Procedure, Var,
};

pub use types::{OisuType, Type};

use types::StringTable;

use crate::cursor::{Cursor, Decoded, Fault};
use crate::error::{DeepError, ErrorCode};
use crate::id::{IdVec, RepModuleId, RepProcId, ids_to};
use crate::label::ProcLabel;
use crate::read;

/// The original tools' message about an invalid file.
const NOT_VALID: &str = "is not a valid program representation file";
const FIRST_LINE: &[u8] = b"Mercury deep profiler procrep version ";

/// A string of the file: its start and length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct StringSpan {
    start: u32,
    len: u32,
}

#[derive(Clone, Debug)]
struct Module {
    name: StringSpan,
    strings: StringSpan,
    oisu: Vec<OisuType>,
    types: Vec<Type>,
    /// In label order.
    procs: Vec<RepProcId>,
}

#[derive(Clone, Debug)]
struct Proc {
    module: RepModuleId,
    label: ProcLabel<StringSpan>,
    /// The body, after the size field.
    body: StringSpan,
}

/// A program representation.
#[derive(Clone, Debug)]
pub struct ProcRep {
    octets: Vec<u8>,
    version: u32,
    modules: IdVec<RepModuleId, Module>,
    procs: IdVec<RepProcId, Proc>,
    modules_by_name: Vec<RepModuleId>,
    procs_by_label: Vec<RepProcId>,
}

impl ProcRep {
    /// Opens a file.
    ///
    /// # Errors
    /// `cannot_open` with the system's message; otherwise those of [`ProcRep::new`].
    pub fn open(path: &Path) -> Result<Self, DeepError> {
        let read = || -> std::io::Result<Vec<u8>> {
            if !std::fs::metadata(path)?.is_file() {
                return Err(std::io::Error::other("not a regular file"));
            }
            let file = File::open(path)?;
            let len = file.metadata()?.len();
            let mut octets = Vec::new();
            octets.try_reserve_exact(usize::try_from(len).unwrap_or(usize::MAX))?;
            file.take(len).read_to_end(&mut octets)?;
            Ok(octets)
        };
        read().map_err(|e| DeepError::io(&e)).and_then(Self::new).map_err(|e| e.file(path))
    }

    /// The representation in the octets of a file.
    ///
    /// # Errors
    /// The first thing that is wrong with the structure, with its offset. Bodies are checked on request.
    pub fn new(octets: Vec<u8>) -> Result<Self, DeepError> {
        let mut new = Self {
            octets,
            version: 0,
            modules: IdVec::new(),
            procs: IdVec::new(),
            modules_by_name: Vec::new(),
            procs_by_label: Vec::new(),
        };
        if new.octets.len() >= u32::MAX as usize {
            return Err(DeepError::new(ErrorCode::TooLarge, "more than 4 GiB"));
        }
        let octets = std::mem::take(&mut new.octets);
        let mut cursor = Cursor::new(&octets, 0, octets.len() as u64);
        new.index(&mut cursor).map_err(|f| not_valid(f, &cursor))?;
        new.octets = octets;
        new.sort()?;
        Ok(new)
    }

    /// The format's version, 5 or 6.
    pub fn version(&self) -> u32 {
        self.version
    }
    /// The modules, in file order.
    pub fn modules(&self) -> impl DoubleEndedIterator<Item = RepModuleId> + ExactSizeIterator + use<> {
        self.modules.ids()
    }
    /// The modules, by name in octet order.
    pub fn modules_by_name(&self) -> &[RepModuleId] {
        &self.modules_by_name
    }
    /// The name of a module.
    pub fn module_name(&self, module: RepModuleId) -> Cow<'_, str> {
        String::from_utf8_lossy(self.module_name_octets(module))
    }
    /// The name of a module, unchanged from the file.
    pub fn module_name_octets(&self, module: RepModuleId) -> &[u8] {
        self.octets_at(self.modules[module].name)
    }
    /// The module with a name.
    pub fn module(&self, name: &str) -> Option<RepModuleId> {
        self.modules_by_name
            .binary_search_by(|&m| self.module_name_octets(m).cmp(name.as_bytes()))
            .ok()
            .map(|i| self.modules_by_name[i])
    }
    /// The procedures of a module, in label order.
    pub fn module_procs(&self, module: RepModuleId) -> &[RepProcId] {
        &self.modules[module].procs
    }
    /// The types of a module declared for order-independent state update.
    pub fn oisu_types(&self, module: RepModuleId) -> &[OisuType] {
        &self.modules[module].oisu
    }
    /// The type table of a module; empty in version 5.
    pub fn types(&self, module: RepModuleId) -> &[Type] {
        &self.modules[module].types
    }
    /// The procedures, in file order.
    pub fn procs(&self) -> impl DoubleEndedIterator<Item = RepProcId> + ExactSizeIterator + use<> {
        ids_to(self.procs.len())
    }
    /// The label of a procedure.
    pub fn label(&self, proc: RepProcId) -> ProcLabel<&[u8]> {
        self.procs[proc].label.map(|&p| self.octets_at(p))
    }
    /// The module in the file that contains a procedure.
    pub fn module_of(&self, proc: RepProcId) -> RepModuleId {
        self.procs[proc].module
    }
    /// The procedure with a label, such as [`DeepData::label`](crate::DeepData::label) returns.
    pub fn find(&self, label: &ProcLabel<&[u8]>) -> Option<RepProcId> {
        self.procs_by_label
            .binary_search_by(|&p| self.label(p).cmp(label))
            .ok()
            .map(|i| self.procs_by_label[i])
    }
    /// The body of a procedure.
    ///
    /// # Errors
    /// The first thing that is wrong with it, with its offset.
    pub fn procedure(&self, proc: RepProcId) -> Result<Procedure, DeepError> {
        let proc = &self.procs[proc];
        let module = &self.modules[proc.module];
        let end = proc.body.start as usize + proc.body.len as usize;
        let mut cursor = Cursor::new(&self.octets[..end], 0, end as u64);
        cursor.seek(proc.body.start as usize);
        let types = u32::try_from(module.types.len()).unwrap_or(u32::MAX);
        let strings = StringTable(self.octets_at(module.strings));
        body::procedure(&mut cursor, &strings, self.version, types).map_err(|f| match f {
            Fault::Short => DeepError::new(
                ErrorCode::LimitMismatch,
                "limit mismatch: the procedure is longer than its size field says",
            )
            .at(end as u64),
            Fault::Bad(e) if e.code == ErrorCode::Truncated => DeepError::new(
                ErrorCode::LimitMismatch,
                "limit mismatch: a length points beyond the procedure",
            )
            .at(cursor.offset()),
            Fault::Bad(e) => *e,
        })
    }

    fn octets_at(&self, place: StringSpan) -> &[u8] {
        &self.octets[place.start as usize..][..place.len as usize]
    }

    fn index(&mut self, cursor: &mut Cursor<'_>) -> Decoded<()> {
        let line = cursor.octets(FIRST_LINE.len() + 2)?;
        self.version = match line.strip_prefix(FIRST_LINE) {
            Some(b"5\n") => 5,
            Some(b"6\n") => 6,
            _ => return Err(DeepError::new(ErrorCode::NotProcrepFile, NOT_VALID).at(0).into()),
        };
        while more(cursor)? {
            let name = string(cursor)?;
            let size = cursor.count()?;
            let strings = place(cursor, size as usize)?;
            let (oisu, types) =
                if self.version >= 6 { tables(cursor, strings.1)? } else { (Vec::new(), Vec::new()) };
            let module =
                self.modules.push(Module { name, strings: strings.0, oisu, types, procs: Vec::new() });
            while more(cursor)? {
                let label = read::label(cursor, &mut |text, _, end| {
                    Ok(StringSpan {
                        start: u32::try_from(end - text.len() as u64).unwrap_or(u32::MAX),
                        len: small(text.len()),
                    })
                })?;
                let at = cursor.offset();
                let size = cursor.int32()?;
                let rest = usize::try_from(size).ok().and_then(|s| s.checked_sub(4)).ok_or_else(|| {
                    DeepError::new(
                        ErrorCode::LimitMismatch,
                        format!("limit mismatch: a procedure of {size} octets"),
                    )
                    .at(at)
                })?;
                let (body, _) = place(cursor, rest)?;
                let id = self.procs.push(Proc { module, label, body });
                self.modules[module].procs.push(id);
            }
        }
        if !cursor.at_end() {
            return Err(DeepError::new(ErrorCode::TrailingData, NOT_VALID).at(cursor.offset()).into());
        }
        Ok(())
    }

    fn sort(&mut self) -> Result<(), DeepError> {
        let mut by_name: Vec<RepModuleId> = self.modules.ids().collect();
        by_name.sort_unstable_by(|&a, &b| {
            self.module_name_octets(a).cmp(self.module_name_octets(b)).then(a.cmp(&b))
        });
        if let Some(pair) =
            by_name.windows(2).find(|p| self.module_name_octets(p[0]) == self.module_name_octets(p[1]))
        {
            let message = format!("duplicate module {}", self.module_name(pair[1]));
            return Err(DeepError::new(ErrorCode::DuplicateModule, message)
                .at(u64::from(self.modules[pair[1]].name.start)));
        }
        let mut by_label: Vec<RepProcId> = self.procs.ids().collect();
        by_label.sort_unstable_by(|&a, &b| self.label(a).cmp(&self.label(b)).then(a.cmp(&b)));
        if let Some(pair) = by_label.windows(2).find(|p| self.label(p[0]) == self.label(p[1])) {
            let message = format!("duplicate procedure {}", self.label(pair[1]).raw_name());
            return Err(DeepError::new(ErrorCode::DuplicateProc, message)
                .at(u64::from(self.procs[pair[1]].body.start)));
        }
        for module in self.modules.as_mut_slice() {
            module.procs.clear();
        }
        for &proc in &by_label {
            self.modules[self.procs[proc].module].procs.push(proc);
        }
        self.modules_by_name = by_name;
        self.procs_by_label = by_label;
        Ok(())
    }
}

/// A module's tables of types (version 6).
fn tables(cursor: &mut Cursor<'_>, strings: &[u8]) -> Decoded<(Vec<OisuType>, Vec<Type>)> {
    let mut oisu = Vec::new();
    let count = cursor.count()?;
    if count > 0 {
        let end = block_end(cursor)?;
        for _ in 0..count {
            oisu.push(OisuType {
                name: String::from_utf8_lossy(cursor.string()?).into_owned(),
                creators: labels(cursor)?,
                mutators: labels(cursor)?,
                destructors: labels(cursor)?,
            });
        }
        check_end(cursor, end)?;
    }
    let mut types = Vec::new();
    let count = cursor.count()?;
    if count > 0 {
        let end = block_end(cursor)?;
        for n in 0..count {
            types.push(body::type_entry(cursor, &StringTable(strings), n)?);
        }
        check_end(cursor, end)?;
    }
    Ok((oisu, types))
}

fn not_valid(fault: Fault, cursor: &Cursor<'_>) -> DeepError {
    match fault {
        Fault::Short => {
            DeepError::new(ErrorCode::Truncated, NOT_VALID).at(cursor.offset() + cursor.rest_of_file())
        }
        Fault::Bad(mut e) => {
            if matches!(e.code, ErrorCode::Truncated | ErrorCode::BadProclabelKind) {
                NOT_VALID.clone_into(&mut e.message);
            }
            e.at(cursor.offset())
        }
    }
}

fn more(cursor: &mut Cursor<'_>) -> Decoded<bool> {
    match cursor.byte()? {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(cursor.bad_byte(ErrorCode::BadMore, NOT_VALID.to_owned())),
    }
}

fn place<'a>(cursor: &mut Cursor<'a>, len: usize) -> Decoded<(StringSpan, &'a [u8])> {
    let start = cursor.pos();
    let octets = cursor.octets(len)?;
    Ok((StringSpan { start: small(start), len: small(len) }, octets))
}

fn string(cursor: &mut Cursor<'_>) -> Decoded<StringSpan> {
    let text = cursor.string()?;
    Ok(StringSpan { start: small(cursor.pos() - text.len()), len: small(text.len()) })
}

fn labels(cursor: &mut Cursor<'_>) -> Decoded<Vec<ProcLabel<String>>> {
    let mut labels = Vec::new();
    for _ in 0..cursor.count()? {
        labels.push(read::label(cursor, &mut |text, _, _| Ok(String::from_utf8_lossy(text).into_owned()))?);
    }
    Ok(labels)
}

/// Reads a block's size field. Returns the end of the block.
fn block_end(cursor: &mut Cursor<'_>) -> Decoded<u64> {
    let start = cursor.offset();
    let size = cursor.int32()?;
    u64::try_from(size).map(|s| start + s).map_err(|_| limit_mismatch(start))
}

fn check_end(cursor: &Cursor<'_>, end: u64) -> Decoded<()> {
    if cursor.offset() == end { Ok(()) } else { Err(limit_mismatch(cursor.offset())) }
}

fn limit_mismatch(at: u64) -> Fault {
    DeepError::new(ErrorCode::LimitMismatch, "limit mismatch").at(at).into()
}
