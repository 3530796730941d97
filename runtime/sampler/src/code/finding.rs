//! What became of an interpreter that was found, as the file says it.

use pct_format::head::kind;
use pct_format::record::{Encoder, InterpreterState, Language};

use crate::code::regions::{List, keep_record};
use crate::process::session::Session;
use crate::record::time;

/// What became of an interpreter that was found.
pub(super) struct Finding<'a> {
    pub(super) language: Language,
    /// As the interpreter writes it, 0 = not known.
    pub(super) version: u32,
    pub(super) state: InterpreterState,
    /// What is missing or odd.
    pub(super) detail: &'a str,
}

impl Finding<'_> {
    /// Says it in the file, of the object that is mapped at `base`. By the housekeeper.
    pub(super) fn tell(&self, session: &Session, list: &mut List, base: u64) {
        let path = list.path_of(base);
        let record = Encoder::new(list.record())
            .raw_word(time::now())
            .number(u64::from(self.version))
            .number(self.state as u64)
            .text(path.bytes())
            .text(self.detail.as_bytes())
            .finish(kind::INTERPRETER, self.language as u32);
        keep_record(&session.keep, &session.log, record);
    }
}
