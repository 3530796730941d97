//! The functions of interpreted languages that a sample meets: code object -> id, and what the file says of each.
//!
//! Whoever meets a function first writes it down at once, in the handler: the frame that runs it holds a reference,
//! so its code object cannot die meanwhile, and no other moment has that property (generated code is freed within
//! microseconds). An address is no identity; the key is a number over all that the object points to
//! ([`pct_languages::cpython::code::identity`]).
//!
//! One sample writes at most [`MOST_NEW`], and nobody waits: what could not be written is met again.
//!
//! Signal safety: loads; stores under try-locks; no waiting.

use core::sync::atomic::Ordering;

use pct_elf::Memory;
use pct_format::LossCause;
use pct_format::record::{
    CodeFacts, CodeFrame, Frame, Language, LineTableForm, LineTablePart, LostCode, code_flag,
};
use pct_languages::ThreadMemory;
use pct_languages::cpython::layout::LineTable;
use pct_languages::cpython::{self, Layout, code};
use pct_languages::weave::Words;

use crate::process::session::Session;
use crate::record::chain::Chain;
use crate::record::codes::{PART_OCTETS, Writer};
use crate::record::time;

/// Functions that one sample writes down: a stack of imports, where each is new. One takes about a microsecond.
pub(super) const MOST_NEW: u32 = 32;
/// Octets of a line table that are kept.
const TABLE_OCTETS: u64 = 128 << 10;
/// Functions take at most one part in so many of the file.
const SHARE_OF_FILE: u64 = 4;
/// Id of what is not shown: machinery of the interpreter in the shape of a function.
const HIDDEN: u32 = u32::MAX;

/// The words of one sample's frames.
pub struct SampleCodes<'s, M> {
    session: &'s Session,
    memory: &'s M,
    layout: &'static Layout,
    /// Functions that it may still write down.
    new: u32,
}

impl<'s, M: Memory> SampleCodes<'s, M> {
    /// For frames of an interpreter with this layout.
    pub fn new(session: &'s Session, memory: &'s M, layout: &'static Layout) -> Self {
        SampleCodes { session, memory, layout, new: MOST_NEW }
    }

    /// Writes a function down that is met for the first time. `None`: not now.
    #[cold]
    #[inline(never)]
    fn add(&mut self, object: u64, key: u64) -> Option<u32> {
        let (session, mut new) = (self.session, self.new);
        let id = add_code(session, &mut new, key, |writer, keep, id| self.write(writer, keep, object, id));
        self.new = new;
        id
    }

    /// Writes the records of a function; its id, which is [`HIDDEN`] for machinery.
    fn write(&self, writer: &mut Writer, keep: &mut Chain, object: u64, id: u32) -> Option<u32> {
        let (memory, layout) = (self.memory, self.layout);
        let name = code::name(memory, layout, object)?;
        let file = code::filename(memory, layout, object)?;
        let (name_len, name_cut) = code::utf8(memory, name, &mut writer.name)?;
        let (file_len, file_cut) = code::utf8(memory, file, &mut writer.file)?;
        let name = writer.name.get(..name_len)?;
        let file = writer.file.get(..file_len)?;
        // A frame that 3.12 and later push when the call of a class is inlined.
        if file.is_empty() && name == b"__init__" {
            return Some(HIDDEN);
        }
        let table = code::line_table(memory, layout, object)?;
        let kept = table.length.min(TABLE_OCTETS);
        let flags = code_flag::of_cuts(name_cut, file_cut, kept < table.length);
        let first_line = code::first_line(memory, layout, object)?;
        let facts = CodeFacts { language: Language::CPython as u64, first_line, flags, name, file };
        self.keep(keep, facts.record(&mut writer.record, id, time::now())?)?;
        // The id is taken, whatever becomes of the lines.
        self.session.codes.newest.store(id, Ordering::Relaxed);
        let form = match layout.lines {
            LineTable::Lnotab => LineTableForm::Lnotab,
            LineTable::Pairs => LineTableForm::Pairs,
            LineTable::Locations => LineTableForm::Locations,
        };
        let mut offset = 0;
        // An empty table is a record too: each instruction has the first line then.
        loop {
            let length = (kept - offset).min(PART_OCTETS as u64);
            let Some(octets) = writer.part.get_mut(..length as usize) else { break };
            if !memory.copy(table.at.wrapping_add(offset), octets) {
                break;
            }
            let part = LineTablePart { form: form as u64, offset, whole: table.length, octets };
            let Some(record) = part.record(&mut writer.record, id) else { break };
            if self.keep(keep, record).is_none() {
                break;
            }
            offset += length;
            if offset >= kept {
                break;
            }
        }
        Some(id)
    }

    fn keep(&self, keep: &mut Chain, record: &[u64]) -> Option<()> {
        keep_words(self.session, keep, record)
    }
}

/// Gives a function that is met for the first time an id, and has `write` write it down; it says under which id it is
/// to be known. `new`: functions that the sample may still write down. `None`: not now.
pub(super) fn add_code(
    session: &Session,
    new: &mut u32,
    key: u64,
    write: impl FnOnce(&mut Writer, &mut Chain, u32) -> Option<u32>,
) -> Option<u32> {
    *new = new.checked_sub(1)?;
    let codes = &session.codes;
    let (_, limit) = session.log.sizes();
    if 8 * codes.words.load(Ordering::Relaxed) > limit / SHARE_OF_FILE {
        session.log.lose(LossCause::Definitions, 1, 0);
        return None;
    }
    let mut writer = codes.writer.try_lock()?;
    if let Some(id) = codes.table.find(key) {
        return Some(id);
    }
    let mut keep = session.keep.try_lock()?;
    let id = codes.newest.load(Ordering::Relaxed).checked_add(1).filter(|id| *id != HIDDEN)?;
    let id = write(&mut writer, &mut keep, id)?;
    codes.table.insert(key, id, session.may_call());
    Some(id)
}

/// Appends a record about a function. `None`: there is no room, which is counted.
pub(super) fn keep_words(session: &Session, keep: &mut Chain, record: &[u64]) -> Option<()> {
    if !keep.append(&session.log, session.may_call(), record, &[]) {
        session.log.lose(LossCause::Definitions, 1, 0);
        return None;
    }
    session.codes.words.fetch_add(record.len() as u64, Ordering::Relaxed);
    Some(())
}

impl<M: ThreadMemory> Words for SampleCodes<'_, M> {
    #[inline]
    fn frame(&mut self, frame: &cpython::PythonFrame) -> Option<u64> {
        let not_written = Some(Frame::NoCode(LostCode::NotWritten).encode());
        let Some(identity) = code::identity(self.memory, self.layout, frame.code) else { return not_written };
        let key = identity.0.max(1);
        let id = self.session.codes.table.find(key).or_else(|| self.add(frame.code, key));
        match id {
            Some(HIDDEN) => None,
            Some(id) => CodeFrame::new(id, frame.offset.map(|octets| octets / 2))
                .map(|frame| Frame::Code(frame).encode())
                .or(not_written),
            None => not_written,
        }
    }
}
