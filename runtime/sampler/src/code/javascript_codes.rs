//! The functions of JavaScript that a sample meets: function -> id, and what the file says of each.
//!
//! Whoever meets a function first writes it down at once: it is on the own stack, so it lives.
//!
//! Signal safety: loads; stores under try-locks; no waiting.

use core::sync::atomic::Ordering;

use pct_format::record::{CodeFrame, Frame, LostCode};
use pct_languages::ThreadMemory;
use pct_languages::v8::{Function, Layout};

use crate::code::sample_codes::{MOST_NEW, add_code, keep_words};
use crate::process::session::Session;
use crate::record::chain::Chain;
use crate::record::codes::Writer;
use crate::record::time;

/// The words of one sample's frames.
pub(super) struct JavaScriptCodes<'s, M> {
    session: &'s Session,
    memory: &'s M,
    layout: &'s Layout,
    /// Functions that it may still write down.
    new: u32,
}

impl<'s, M: ThreadMemory> JavaScriptCodes<'s, M> {
    pub(super) fn new(session: &'s Session, memory: &'s M, layout: &'s Layout) -> Self {
        JavaScriptCodes { session, memory, layout, new: MOST_NEW }
    }

    /// The word of a frame in which a function runs.
    pub(super) fn frame_word(&mut self, function: &Function) -> u64 {
        self.id(function)
            .and_then(|id| CodeFrame::new(id, None))
            .map_or(Frame::NoCode(LostCode::NotWritten).encode(), |frame| Frame::Code(frame).encode())
    }

    fn id(&mut self, function: &Function) -> Option<u32> {
        let key = function.identity(self.memory, self.layout)?.max(1);
        let known = self.session.codes.table.find(key);
        known.or_else(|| self.add(function, key))
    }

    /// Writes a function down that is met for the first time. `None`: not now.
    #[cold]
    #[inline(never)]
    fn add(&mut self, function: &Function, key: u64) -> Option<u32> {
        let (session, memory, layout) = (self.session, self.memory, self.layout);
        add_code(session, &mut self.new, key, |writer, keep, id| {
            write(session, (memory, layout), function, (writer, keep), id)
        })
    }
}

fn write<M: ThreadMemory>(
    session: &Session,
    (memory, layout): (&M, &Layout),
    function: &Function,
    (writer, keep): (&mut Writer, &mut Chain),
    id: u32,
) -> Option<u32> {
    let buffers: (&mut [u8], &mut [u8]) = (&mut writer.name, &mut writer.file);
    let facts = function.facts(memory, layout, buffers, &mut writer.lines)?;
    keep_words(session, keep, facts.record(&mut writer.record, id, time::now())?)?;
    session.codes.newest.store(id, Ordering::Relaxed);
    Some(id)
}
