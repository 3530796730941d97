//! V8 in this process: found by the housekeeper, its functions put in the place of its frames by handlers.
//!
//! An object that defines V8's debugging symbols is a V8 whose functions can be read; each object with code is asked
//! for one of them once. What was found is published by one pointer and told in the file, also when it cannot be read.
//!
//! V8 keeps frame pointers, so that native walks go through its frames. A frame whose code has no unwind data, and in
//! which a function with a script runs, becomes a frame of that function: its address is in V8's interpreter, or in
//! code that V8 made and will free. A frame of a function of V8's own stays as it is: its symbol is its name.
//!
//! Signal safety: [`Weaver::weave`] is as [`crate::code::callers`]. Finding is for the housekeeper.

use core::sync::atomic::Ordering;

use pct_elf::{Image, Memory, Symbols};
use pct_format::layout::Wanted;
use pct_format::record::{InterpreterState, Language};
use pct_languages::ThreadMemory;
use pct_languages::v8::{Function, Layout, Refused, builtins, layout};
use pct_unwind::set::Set;
use pct_unwind::{EXACT, Placed};

use crate::code::finding::Finding;
use crate::code::interpreter::{COPIES, FoundV8};
use crate::code::javascript_codes::JavaScriptCodes;
use crate::code::regions::{Entry, List};
use crate::process::session::{Session, seed};
use crate::sys;
use crate::sys::loaded::MemoryFile;

/// Octets between the frame pointer and the end of its frame: the caller's frame pointer and the return address.
const ABOVE_POINTER: u64 = 16;
/// Octets below the frame pointer that must have been written: the context and the function.
const BELOW_POINTER: u64 = 16;
/// What of an entry is its address.
const ADDRESS: u64 = (1 << 56) - 1;

/// What puts functions of JavaScript in their places.
pub(super) struct Weaver<'s, M> {
    pub(super) found: &'s FoundV8,
    pub(super) memory: &'s M,
    /// The modules as they are now.
    pub(super) modules: &'s Set<'s>,
    /// Most frames that are looked at.
    pub(super) most: u32,
}

impl<M: ThreadMemory> Weaver<'_, M> {
    /// Writes the callers of the place `pc`, where the stack pointer is `sp`, into `out`: native frames, and functions
    /// of JavaScript in the place of theirs. How many words, and whether all had room.
    pub(super) fn weave(
        &self,
        (pc, sp): (u64, u64),
        callers: &[Placed],
        codes: &mut JavaScriptCodes<'_, M>,
        out: &mut [u64],
    ) -> (usize, bool) {
        let mut places = out.iter_mut();
        let mut used = 0;
        let mut store = |word: u64| {
            let Some(place) = places.next() else { return false };
            *place = word;
            used += 1;
            true
        };
        let (mut left, mut is_sure) = (self.most, false);
        let mut own: Option<u64> = None;
        let (mut look, mut low) = (pc, sp);
        let mut rest = callers.iter();
        loop {
            let next = rest.next();
            // A frame ends where the one of its caller begins.
            let frame = next.and_then(|next| next.cfa.checked_sub(ABOVE_POINTER));
            let mut spoken = None;
            if let Some(frame) = frame
                && frame.checked_sub(BELOW_POINTER).is_some_and(|lowest| lowest >= low)
                && left > 0
                && self.is_of_v8(look)
            {
                left -= 1;
                if let Some(function) = Function::of_frame(self.memory, &self.found.layout, frame, is_sure) {
                    is_sure = true;
                    spoken = Some(codes.frame_word(&function));
                }
            }
            if let Some(word) = spoken.or(own)
                && !store(word)
            {
                return (used, false);
            }
            let Some(next) = next else { return (used, true) };
            own = Some(next.entry);
            let address = next.entry & ADDRESS;
            look = if next.entry & EXACT == EXACT { address } else { address.wrapping_sub(1) };
            low = next.cfa;
        }
    }

    /// Whether code at an address may be V8's: its own, or some that it made.
    fn is_of_v8(&self, address: u64) -> bool {
        self.found.is_builtin(address)
            || self.modules.region(address).is_some_and(|region| !region.of_file && region.table.is_none())
    }
}

/// Takes an object with these symbols if it is a V8, and says whether. By the housekeeper, for each object that is new.
pub(super) fn consider<M: Memory>(session: &Session, memory: &M, symbols: &Symbols, base: u64) -> bool {
    let javascript = &session.javascript;
    let is_v8 = symbols.find(memory, layout::MARK).is_some();
    if is_v8 && javascript.base.load(Ordering::Relaxed) == 0 {
        javascript.base.store(base, Ordering::Relaxed);
    }
    is_v8
}

/// What of a region is V8's own code: from its first address to the one behind its last. That code keeps frame
/// pointers, and walks need not follow what it does. Nothing of it: the region's end, twice.
pub(super) fn with_frame_pointers(session: &Session, (start, end): (u64, u64)) -> (u64, u64) {
    let found = session.javascript.current();
    let own = found.and_then(|found| {
        let mut parts = found.builtins().map(|(first, last)| (first.max(start), last.min(end)));
        parts.find(|(first, last)| first < last)
    });
    own.unwrap_or((end, end))
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
        looked = find_v8(&MemoryFile(&file), base);
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
        Err(Refused::NotReady) => {}
        Err(refused @ Refused::Missing(_)) => say(0, InterpreterState::Unpublished, refused.detail()),
        Err(refused @ Refused::Odd(_)) => say(0, InterpreterState::OtherLayout, refused.detail()),
    }
}

#[cold]
#[inline(never)]
fn find_v8<M: Memory>(memory: &M, base: u64) -> Result<(Layout, (u64, u64)), Refused> {
    let image = Image::at_base(memory, base).ok_or(Refused::NotReady)?;
    let symbols = image.symbols(memory).ok_or(Refused::NotReady)?;
    let is_relocated = image.is_relocated(memory);
    let layout = Layout::read(memory, &symbols).ok_or(Refused::NotReady)?;
    let layout = layout.map_err(|refused| if is_relocated { refused } else { Refused::NotReady })?;
    let builtins = builtins::find(memory, &symbols).ok_or(Refused::NotReady)?;
    Ok((layout, builtins))
}

/// Notes where V8's own machine code is mapped once more, elsewhere from the same part of the same file; whether that
/// is new.
fn note_copies(found: &FoundV8, entries: &[Entry]) -> bool {
    let (start, end) = found.own;
    let Some(own) = entries.iter().find(|entry| entry.start <= start && start < entry.end) else {
        return false;
    };
    let (first, last) = (start - own.start + own.offset, end - own.start + own.offset);
    let copies = entries.iter().filter(|entry| {
        (entry.device, entry.inode) == (own.device, own.inode) && own.inode != 0 && entry.start != own.start
    });
    let copies = copies.filter_map(|entry| {
        let mapped = entry.offset..entry.offset + (entry.end - entry.start);
        let (from, to) = (mapped.start.max(first), mapped.end.min(last));
        (from < to).then(|| (entry.start + (from - entry.offset), entry.start + (to - entry.offset)))
    });
    found.set_copies(copies.take(COPIES))
}
