//! The Java methods that a sample meets: method -> id, and what the file says of each.
//!
//! As [`crate::code::sample_codes`] does for functions of Python, whoever meets a method first writes it down at once:
//! a frame of it is on the own stack, so its class cannot be unloaded meanwhile.
//!
//! Signal safety: loads; stores under try-locks; no waiting.

use core::sync::atomic::Ordering;

use pct_elf::Memory;
use pct_format::record::{CodeFrame, Frame, LineTablePart};
use pct_languages::hotspot::layout::Layout;
use pct_languages::hotspot::{JavaCodes, JavaFrame, Method};

use crate::code::sample_codes::{MOST_NEW, add_code, keep_words};
use crate::process::session::Session;
use crate::record::chain::Chain;
use crate::record::codes::{PART_OCTETS, Writer};
use crate::record::time;

/// Knows the words of one sample's Java frames.
pub(super) struct MethodCodes<'s, M> {
    session: &'s Session,
    memory: &'s M,
    layout: &'s Layout,
    /// Methods that it may still write down.
    new: u32,
}

impl<'s, M: Memory> MethodCodes<'s, M> {
    pub(super) fn new(session: &'s Session, memory: &'s M, layout: &'s Layout) -> Self {
        MethodCodes { session, memory, layout, new: MOST_NEW }
    }

    /// Writes a method down that is met for the first time. `None`: not now.
    #[cold]
    #[inline(never)]
    fn add(&mut self, method: &Method, key: u64) -> Option<u32> {
        let mut new = self.new;
        let id = add_code(self.session, &mut new, key, |writer, keep, id| {
            self.write(writer, keep, method, id).map(|()| id)
        });
        self.new = new;
        id
    }

    fn write(&self, writer: &mut Writer, keep: &mut Chain, method: &Method, id: u32) -> Option<()> {
        let (session, memory) = (self.session, self.memory);
        let (facts, lines) = method.facts(memory, self.layout, (&mut writer.name, &mut writer.file))?;
        keep_words(session, keep, facts.record(&mut writer.record, id, time::now())?)?;
        // The id is taken, whatever becomes of the lines.
        session.codes.newest.store(id, Ordering::Relaxed);
        let mut offset = 0;
        while offset < lines.octets {
            let length = (lines.octets - offset).min(PART_OCTETS as u64);
            let Some(octets) = writer.part.get_mut(..length as usize) else { break };
            if !memory.copy(lines.at + offset, octets) {
                break;
            }
            let part = LineTablePart { form: lines.form as u64, offset, whole: lines.octets, octets };
            let Some(record) = part.record(&mut writer.record, id) else { break };
            if keep_words(session, keep, record).is_none() {
                break;
            }
            offset += length;
        }
        Some(())
    }
}

impl<M: Memory> JavaCodes for MethodCodes<'_, M> {
    fn frame_word(&mut self, frame: JavaFrame) -> Option<u64> {
        let method = Method::at(self.memory, self.layout, frame.method)?;
        let key = method.identity().0.max(1);
        let id = self.session.codes.table.find(key).or_else(|| self.add(&method, key))?;
        CodeFrame::new(id, frame.bci).map(|frame| Frame::Code(frame).encode())
    }
}
