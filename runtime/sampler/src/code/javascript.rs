//! V8 in this process: found by the housekeeper, its functions put in the place of its frames by handlers.
//!
//! An object that defines V8's debugging symbols is a V8 whose functions can be read; each object with code is asked
//! for one of them once. What was found is published by one pointer and told in the file, also when it cannot be read.
//!
//! How functions come to their places says [`pct_languages::v8::weave`].
//!
//! Signal safety: [`is_of_v8`] is a search in memory. Finding is for the housekeeper.

use core::sync::atomic::Ordering;

use pct_elf::{Memory, Symbols};
use pct_format::layout::Wanted;
use pct_format::record::{InterpreterState, Language};
use pct_languages::v8::Refused;
use pct_languages::v8::find::{self, MappedPart};
use pct_unwind::set::Set;

use crate::code::finding::Finding;
use crate::code::interpreter::{COPIES, FoundV8};
use crate::code::regions::{Entry, List};
use crate::process::session::{Session, seed};
use crate::sys;
use crate::sys::loaded::MemoryFile;

/// Whether code at an address may be V8's: its own, or some that it made.
pub(super) fn is_of_v8(found: &FoundV8, modules: &Set<'_>, address: u64) -> bool {
    found.is_builtin(address)
        || modules.region(address).is_some_and(|region| !region.of_file && region.table.is_none())
}

/// Takes an object with these symbols if it is a V8, and says whether. By the housekeeper, for each object that is new.
pub(super) fn consider<M: Memory>(session: &Session, memory: &M, symbols: &Symbols, base: u64) -> bool {
    let javascript = &session.javascript;
    let is_v8 = find::is_v8(memory, symbols);
    if is_v8 && javascript.base.load(Ordering::Relaxed) == 0 {
        javascript.base.store(base, Ordering::Relaxed);
    }
    is_v8
}

/// What of a region is V8's own machine code ([`find::part_with_frame_pointers`]).
pub(super) fn with_frame_pointers(session: &Session, region: (u64, u64)) -> (u64, u64) {
    let found = session.javascript.current();
    find::part_with_frame_pointers(region, found.into_iter().flat_map(FoundV8::builtins))
}

/// Looks whether a V8 is up, or has gone. By the housekeeper, after each look at the maps; whether
/// [`with_frame_pointers`] has other answers now.
pub(super) fn refresh(session: &Session, list: &mut List) -> bool {
    let javascript = &session.javascript;
    let base = javascript.base.load(Ordering::Relaxed);
    if base == 0 || session.counts() {
        return false;
    }
    if !list.entries().iter().any(|entry| entry.base == base) {
        javascript.base.store(0, Ordering::Relaxed);
        javascript.said.store(0, Ordering::Relaxed);
        return javascript.current.hide();
    }
    let was_known = javascript.current().is_some();
    if javascript.said.load(Ordering::Relaxed) == 0 {
        examine(session, list, base);
    }
    javascript.current().is_some_and(|found| note_copies(found, list.entries()) || !was_known)
}

/// Looks at a V8 of which nothing was said yet.
fn examine(session: &Session, list: &mut List, base: u64) {
    let javascript = &session.javascript;
    let mut say = |version, state, detail| {
        javascript.said.store(state as u32, Ordering::Relaxed);
        Finding { language: Language::V8, version, state, detail }.tell(session, list, base);
    };
    if !seed().options.javascript {
        return say(0, InterpreterState::SwitchedOff, "");
    }
    let mut looked = Err(Refused::NotReady);
    let opened = sys::with_descriptor(|| {
        let file = sys::open(sys::c(c"/proc/self/mem"), sys::O_RDONLY, 0)?;
        looked = find::find(&MemoryFile(&file), base);
        Ok(())
    });
    if let Err(errno) = opened {
        session.refusals.note(&session.log, Wanted::Objects, errno);
    }
    match looked {
        Ok((layout, builtins)) => {
            if javascript.current.show(FoundV8::new(layout, builtins)) {
                say(layout.version, InterpreterState::Read, "");
            }
        }
        Err(refused) => {
            if let Some(state) = refused.state() {
                say(0, state, refused.detail());
            }
        }
    }
}

/// Notes where V8's own machine code is mapped once more, elsewhere from the same part of the same file; whether that
/// is new.
fn note_copies(found: &FoundV8, entries: &[Entry]) -> bool {
    let parts = entries.iter().map(|entry| MappedPart {
        start: entry.start,
        end: entry.end,
        offset: entry.offset,
        file: (entry.device, entry.inode),
    });
    find::copies(found.own, parts).is_some_and(|copies| found.set_copies(copies.take(COPIES)))
}
