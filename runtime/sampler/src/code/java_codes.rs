//! The Java methods that a sample meets: method -> id, and what the file says of each.
//!
//! As [`crate::code::sample_codes`] does for functions of Python, whoever meets a method first writes it down at once:
//! a frame of it is on the own stack, so its class cannot be unloaded meanwhile.
//!
//! Signal safety: loads; stores under try-locks; no waiting.

use core::sync::atomic::Ordering;

use pct_elf::Memory;
use pct_format::record::{
    CodeFacts, CodeFrame, Frame, Language, LineTableForm, LineTablePart, LostCode, code_flag,
};
use pct_languages::hotspot::layout::Layout;
use pct_languages::hotspot::{JavaFrame, JavaFrames, Method, lines};

use crate::code::sample_codes::{MOST_NEW, add_code, keep_words};
use crate::process::session::Session;
use crate::record::chain::Chain;
use crate::record::codes::{PART_OCTETS, Writer};
use crate::record::time;

/// Octets of a line table that are kept.
const TABLE_OCTETS: u64 = 16 << 10;

/// Writes one sample's Java frames as words.
pub(super) struct JavaWords<'s, 'o, M> {
    session: &'s Session,
    memory: &'s M,
    layout: &'s Layout,
    /// Methods that it may still write down.
    new: u32,
    out: &'o mut [u64],
    pub(super) used: usize,
}

impl<'s, 'o, M: Memory> JavaWords<'s, 'o, M> {
    pub(super) fn new(session: &'s Session, memory: &'s M, layout: &'s Layout, out: &'o mut [u64]) -> Self {
        JavaWords { session, memory, layout, new: MOST_NEW, out, used: 0 }
    }

    /// Room that is left.
    pub(super) fn rest(&mut self) -> &mut [u64] {
        self.out.get_mut(self.used..).unwrap_or(&mut [])
    }

    /// Stores a word; false: there is no room.
    pub(super) fn store(&mut self, word: u64) -> bool {
        match self.out.get_mut(self.used) {
            Some(place) => {
                *place = word;
                self.used += 1;
                true
            }
            None => false,
        }
    }

    fn frame_word(&mut self, frame: JavaFrame) -> Option<u64> {
        let method = Method::at(self.memory, self.layout, frame.method)?;
        let key = method.identity().0.max(1);
        let id = self.session.codes.table.find(key).or_else(|| self.add(&method, key))?;
        CodeFrame::new(id, frame.bci).map(|frame| Frame::Code(frame).encode())
    }

    /// Writes a method down that is met for the first time. `None`: not now.
    #[cold]
    #[inline(never)]
    fn add(&mut self, method: &Method, key: u64) -> Option<u32> {
        let mut new = self.new;
        let id = add_code(self.session, &mut new, key, |writer, keep, id| {
            let is_method = method.is_method(self.memory, self.layout);
            if is_method { self.write(writer, keep, method, id).map(|()| id) } else { None }
        });
        self.new = new;
        id
    }

    fn write(&self, writer: &mut Writer, keep: &mut Chain, method: &Method, id: u32) -> Option<()> {
        let (session, memory, layout) = (self.session, self.memory, self.layout);
        let (name_len, name_cut) = method.write_name(memory, layout, &mut writer.name)?;
        let (file_len, file_cut) = method.write_file(memory, layout, &mut writer.file)?;
        let table = method.line_table(memory, layout);
        let measured =
            table.and_then(|at| Some((at, lines::measure(memory, at, layout.biased, TABLE_OCTETS)?)));
        let (at, (kept, whole, first_line)) = measured.unwrap_or((0, (0, true, 0)));
        let mut flags = 0;
        for (set, flag) in
            [(name_cut, code_flag::NAME_CUT), (file_cut, code_flag::FILE_CUT), (!whole, code_flag::LINES_CUT)]
        {
            flags |= if set { flag } else { 0 };
        }
        let (name, file) = (writer.name.get(..name_len)?, writer.file.get(..file_len)?);
        let facts = CodeFacts { language: Language::HotSpot as u64, first_line, flags, name, file };
        keep_words(session, keep, facts.record(&mut writer.record, id, time::now())?)?;
        // The id is taken, whatever becomes of the lines.
        session.codes.newest.store(id, Ordering::Relaxed);
        let form = if layout.biased { LineTableForm::CompressedBiased } else { LineTableForm::Compressed };
        let mut offset = 0;
        while offset < kept {
            let length = (kept - offset).min(PART_OCTETS as u64);
            let Some(octets) = writer.part.get_mut(..length as usize) else { break };
            if !memory.copy(at + offset, octets) {
                break;
            }
            let part = LineTablePart { form: form as u64, offset, whole: kept, octets };
            let Some(record) = part.record(&mut writer.record, id) else { break };
            if keep_words(session, keep, record).is_none() {
                break;
            }
            offset += length;
        }
        Some(())
    }
}

impl<M: Memory> JavaFrames for JavaWords<'_, '_, M> {
    fn push(&mut self, frame: JavaFrame) -> bool {
        let word = self.frame_word(frame).unwrap_or(Frame::NoCode(LostCode::NotWritten).encode());
        self.store(word)
    }

    fn push_heap(&mut self) -> bool {
        self.store(Frame::NoCode(LostCode::InHeap).encode())
    }
}
