//! The functions of JavaScript that a sample meets: function -> id, and what the file says of each.
//!
//! Whoever meets a function first writes it down at once: it is on the own stack, so it lives.
//!
//! Signal safety: loads; stores under try-locks; no waiting.

use core::sync::atomic::Ordering;

use pct_format::record::{CodeFacts, CodeFrame, Frame, Language, LostCode, code_flag};
use pct_languages::ThreadMemory;
use pct_languages::v8::{Function, Layout};

use crate::code::sample_codes::{MOST_NEW, add_code, keep_words};
use crate::process::session::Session;
use crate::record::chain::Chain;
use crate::record::codes::Writer;
use crate::record::time;

/// Name of what is outside of all functions of a script.
const TOP_LEVEL: &[u8] = b"(top level)";

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
    let scope = function.scope(memory, layout)?;
    let source = function.source(memory, layout);
    let file = function.file(memory, layout);
    let (file_len, file_cut) =
        file.map_or(Some((0, false)), |file| file.write(memory, layout, &mut writer.file))?;
    let is_top = scope.name.is_none()
        && source.is_some_and(|source| scope.place.is_some_and(|place| place == (0, source.length)));
    let written = scope.name.map(|name| name.write(memory, layout, &mut writer.name));
    let (name_len, name_cut) = written.unwrap_or(Some((0, false)))?;
    let name = if is_top { TOP_LEVEL } else { writer.name.get(..name_len)? };
    let lines = source.zip(scope.place).and_then(|(source, (begin, _))| {
        writer.lines.before(memory, layout, (function.script(), &source), begin)
    });
    let first_line = lines.map_or(0, |lines| lines + 1);
    let mut flags = 0;
    for (set, flag) in [(name_cut, code_flag::NAME_CUT), (file_cut, code_flag::FILE_CUT)] {
        flags |= if set { flag } else { 0 };
    }
    let file = writer.file.get(..file_len)?;
    let facts = CodeFacts { language: Language::V8 as u64, first_line, flags, name, file };
    keep_words(session, keep, facts.record(&mut writer.record, id, time::now())?)?;
    session.codes.newest.store(id, Ordering::Relaxed);
    Some(id)
}
