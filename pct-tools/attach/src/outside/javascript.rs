//! V8 in a process that is sampled from outside: found in its maps, its functions put in the places of its frames in
//! the stacks of threads that stand still, and written down when they are met first.
//!
//! The readers are the sampler's own ([`pct_languages::v8`]); what differs is the memory.

use super::pages::Pages;
use super::still::{NAME_OCTETS, NewObject, Object, Still};
use crate::memory::ProcessMemory;
use crate::recording::{FoundInterpreter, Recording};
use crate::unwind::StackWalker;
use pct_format::record::{CodeFrame, CutCause, Frame, InterpreterState, Language, LostCode};
use pct_languages::v8::find::{self, MappedPart};
use pct_languages::v8::text::CountedLines;
use pct_languages::v8::{Function, Layout, Weaver};
use procfs::process::{MMPermissions, MemoryMap};
use std::collections::{HashMap, HashSet};

/// Most frames that are looked at.
const MOST: u32 = 4096;

/// The V8 of one process.
pub(super) struct JavaScript {
    /// Functions are wanted.
    on: bool,
    object: Option<(Object, Vec<u8>)>,
    /// The file says what became of it.
    is_said: bool,
    found: Option<FoundV8>,
    /// Numbers of functions in the file, by identity.
    codes: HashMap<u64, u32>,
    lines: Box<CountedLines>,
    words: Vec<u64>,
}

/// A V8 whose functions are read.
struct FoundV8 {
    layout: Layout,
    /// Its own machine code: first address, and the one behind the last.
    own: (u64, u64),
    /// Where that code is mapped once more.
    copies: Vec<(u64, u64)>,
}

impl FoundV8 {
    fn own_code(&self) -> impl Iterator<Item = (u64, u64)> {
        std::iter::once(self.own).chain(self.copies.iter().copied())
    }

    fn is_builtin(&self, address: u64) -> bool {
        self.own_code().any(|(start, end)| (start..end).contains(&address))
    }
}

impl JavaScript {
    /// None is found yet. Stacks have up to `depth` frames; `on`: functions are wanted.
    pub(super) fn new(depth: usize, on: bool) -> JavaScript {
        JavaScript {
            on,
            object: None,
            is_said: false,
            found: None,
            codes: HashMap::new(),
            lines: Box::new(CountedLines::NOTHING),
            words: vec![0; depth],
        }
    }

    /// There is a V8 whose functions are read.
    pub(super) fn is_there(&self) -> bool {
        self.found.is_some()
    }

    /// Forgets what is not mapped any more: `now` are the objects that are.
    pub(super) fn retain(&mut self, now: &HashSet<Object>) {
        if self.object.as_ref().is_some_and(|(object, _)| !now.contains(object)) {
            *self = JavaScript::new(self.words.len(), self.on);
        }
    }

    /// Looks at an object that is new.
    pub(super) fn meet(&mut self, new: &NewObject<'_>, pages: &Pages<'_>) {
        if self.object.is_none() && find::is_v8(pages, new.symbols) {
            self.object = Some((new.object, new.path.to_vec()));
        }
    }

    /// Where V8's own machine code lies: first addresses, and those behind the last.
    pub(super) fn own_code(&self) -> Vec<(u64, u64)> {
        self.found.iter().flat_map(FoundV8::own_code).collect()
    }

    /// Looks where V8 has mapped its machine code once more.
    pub(super) fn note_copies(&mut self, maps: &[MemoryMap]) {
        let Some(found) = &mut self.found else { return };
        let part = |map: &MemoryMap| MappedPart {
            start: map.address.0,
            end: map.address.1,
            offset: map.offset,
            file: (
                u64::from(map.dev.0.cast_unsigned()) << 32 | u64::from(map.dev.1.cast_unsigned()),
                map.inode,
            ),
        };
        let code = maps.iter().filter(|map| map.perms.contains(MMPermissions::EXECUTE));
        found.copies = find::copies(found.own, code.map(part)).into_iter().flatten().collect();
    }

    /// Looks at a V8 of which nothing was said yet. True: it is read from now on.
    pub(super) fn look_again(&mut self, memory: &ProcessMemory, recording: &mut Recording) -> bool {
        let Some((object, path)) = self.object.as_ref().filter(|_| !self.is_said) else { return false };
        let mut say = |version: u32, state, detail: &str| {
            let found = FoundInterpreter { language: Language::V8, version: u64::from(version), state };
            recording.interpreter(found, path, detail);
            self.is_said = true;
        };
        if !self.on {
            say(0, InterpreterState::SwitchedOff, "");
            return false;
        }
        match find::find(&Pages::new(memory), object.0) {
            Ok((layout, (start, octets))) => {
                say(layout.version, InterpreterState::Read, "");
                let own = (start, start.saturating_add(octets));
                self.found = Some(FoundV8 { layout, own, copies: Vec::new() });
                true
            }
            Err(refused) => {
                if let Some(state) = refused.state() {
                    say(0, state, refused.detail());
                }
                false
            }
        }
    }

    /// The stack of a thread with functions at their places; `None`: there is no V8.
    pub(super) fn stack(
        &mut self,
        still: &Still<'_>,
        natives: &StackWalker,
        memory: &ProcessMemory,
        recording: &mut Recording,
        out: &mut Vec<Frame>,
    ) -> Option<()> {
        let found = self.found.as_ref()?;
        let pages = &Pages::new(memory);
        let is_of_v8 = |address| found.is_builtin(address) || natives.is_made_code(address);
        let weaver = Weaver { memory: pages, layout: &found.layout, is_of_v8, most: MOST };
        let (codes, lines) = (&mut self.codes, &mut *self.lines);
        let mut functions = WrittenFunctions { pages, layout: &found.layout, codes, lines, recording };
        let frame_word = |function: &Function| functions.frame_word(function);
        let (words, had_room) =
            weaver.weave((still.pc, still.sp), still.callers, frame_word, &mut self.words);
        out.extend(self.words[..words].iter().map(|word| Frame::decode(*word)));
        let cut = if had_room { still.cut } else { Some(CutCause::Depth) };
        out.extend(cut.map(Frame::Cut));
        Some(())
    }
}

/// Functions as the recording has them.
struct WrittenFunctions<'a> {
    pages: &'a Pages<'a>,
    layout: &'a Layout,
    codes: &'a mut HashMap<u64, u32>,
    lines: &'a mut CountedLines,
    recording: &'a mut Recording,
}

impl WrittenFunctions<'_> {
    fn frame_word(&mut self, function: &Function) -> u64 {
        self.number(function)
            .and_then(|number| CodeFrame::new(number, None))
            .map_or(Frame::NoCode(LostCode::NotWritten).encode(), |frame| Frame::Code(frame).encode())
    }

    fn number(&mut self, function: &Function) -> Option<u32> {
        let key = function.identity(self.pages, self.layout)?;
        if let Some(number) = self.codes.get(&key) {
            return Some(*number);
        }
        let (mut name, mut file) = (vec![0; NAME_OCTETS], vec![0; NAME_OCTETS]);
        let facts = function.facts(self.pages, self.layout, (&mut name, &mut file), self.lines)?;
        let number = self.recording.code(&facts.map(<[u8]>::to_vec), None)?;
        self.codes.insert(key, number);
        Some(number)
    }
}
