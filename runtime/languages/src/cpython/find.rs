//! Is this image an interpreter, and is it one that we can read?
//!
//! An image is an interpreter if it *defines* `_PyRuntime` and `PyCode_Type`: both are exported by static
//! executables and by libpython, and survive `strip`. Its layout is chosen by version and then checked
//! against what the interpreter publishes itself: the offsets in `PyCode_Type`'s and `PyFrame_Type`'s lists
//! of members. A debug build shifts every object and is refused by this; so is a fork of CPython that reports
//! its version and differs.

use pct_elf::{Image, Memory, Segment, Symbols, segment_flag, segment_kind};

use super::layout::{Instruction, Layout, TYPE_OF_OBJECT, plausible};
use crate::ThreadMemory;

/// An interpreter in a process. Plain data: it can be copied into a table that handlers read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interpreter {
    /// Where it keeps what.
    pub layout: &'static Layout,
    /// `Py_Version`; before 3.11 only the major and minor version are known.
    pub version: u32,
    /// Address of `_PyRuntime`.
    pub runtime: u64,
    /// Address of `PyCode_Type`: the type of every code object.
    pub code_type: u64,
    /// Addresses of the bytecode loop's main part: first, and behind the last; equal when it has no symbol.
    pub bytecode_loop: (u64, u64),
}

/// Why an image that looks like an interpreter is not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// Its version is not told by its symbols or its path.
    NoVersion,
    /// Its version (3.`minor`) is not one that was tried.
    Version(u8),
    /// A published offset differs from the layout's: a debug build or another implementation.
    Layout(u8),
    /// What it publishes is not there yet: the loader has not relocated the image. It is worth another look.
    NotRelocated(u8),
}

impl Refused {
    /// The version as `Py_Version` has it, as far as it is known; else 0.
    #[must_use]
    pub const fn version(self) -> u32 {
        match self {
            Refused::NoVersion => 0,
            Refused::Version(minor) | Refused::Layout(minor) | Refused::NotRelocated(minor) => {
                version_of(minor)
            }
        }
    }
}

const fn version_of(minor: u8) -> u32 {
    u32::from_be_bytes([3, minor, 0, 0])
}

/// Most interpreters of a process, and threads of all of them, that are looked through. A list that was changed in
/// between may have no end, and so may each list of threads in it.
const MOST_INTERPRETERS: usize = 1024;
const MOST_THREADS: usize = 1 << 16;
/// Longest list of a type's members.
const MOST_MEMBERS: u64 = 64;
/// Bytes of a PyMemberDef.
const MEMBER_BYTES: u64 = 40;
/// Offset of `tp_members` in a type object.
const MEMBERS_OF_TYPE: u64 = 240;

impl Interpreter {
    /// Looks at an image with these symbols. `path` is that of its file, which names the version of 3.8 to 3.10.
    ///
    /// `None`: it is no interpreter.
    ///
    /// # Errors
    /// It is one that cannot be read, or not yet.
    pub fn find<M: Memory>(
        memory: &M,
        (image, symbols): (&Image, &Symbols),
        path: &[u8],
    ) -> Option<Result<Interpreter, Refused>> {
        let runtime = symbols.find(memory, b"_PyRuntime")?.address;
        let code_type = symbols.find(memory, b"PyCode_Type")?.address;
        // Asked first: the loader may be at work in another thread, and come to its end before the checks do.
        let is_relocated = image.is_relocated(memory);
        Some(Self::checked(memory, symbols, path, runtime, code_type).map_err(|refused| match refused {
            Refused::Layout(minor) if !is_relocated => Refused::NotRelocated(minor),
            refused => refused,
        }))
    }

    fn checked<M: Memory>(
        memory: &M,
        symbols: &Symbols,
        path: &[u8],
        runtime: u64,
        code_type: u64,
    ) -> Result<Interpreter, Refused> {
        let published = symbols.find(memory, b"Py_Version").and_then(|s| memory.half(s.address));
        let minor = match published {
            // PY_VERSION_HEX: major, minor, micro, level.
            Some(version) => version.to_be_bytes().get(1).copied(),
            None => minor_in_path(path),
        };
        let minor = minor.ok_or(Refused::NoVersion)?;
        let layout = Layout::for_minor(minor).ok_or(Refused::Version(minor))?;
        // A damaged table of symbols may name any address. Offsets are added to these without a check.
        if !plausible(runtime) || !plausible(code_type) {
            return Err(Refused::Layout(minor));
        }
        let bytecode_loop = symbols
            .find(memory, b"_PyEval_EvalFrameDefault")
            .map_or((0, 0), |s| (s.address, s.address.saturating_add(s.bytes)));
        let type_type = symbols.find(memory, b"PyType_Type").map(|s| s.address);
        let frame_type = symbols.find(memory, b"PyFrame_Type").map(|s| s.address);
        let agrees = memory.read_word(code_type + TYPE_OF_OBJECT) == type_type
            && code_members_agree(memory, code_type, layout)
            && frame_type.is_some_and(|frame| frame_members_agree(memory, frame, layout));
        if agrees {
            let version = published.unwrap_or(version_of(minor));
            Ok(Interpreter { layout, version, runtime, code_type, bytecode_loop })
        } else {
            Err(Refused::Layout(minor))
        }
    }

    /// Whether there is more than one interpreter: then a thread's state may belong to another one than the
    /// thread runs.
    ///
    /// The list has the newest first, and beside its head the main one. (No interpreter is looked at: another thread
    /// may end it just now and give its memory back.)
    #[must_use]
    pub fn has_several<M: Memory>(&self, memory: &M) -> bool {
        let head = self.runtime + self.layout.interpreters;
        let [first, main] = [head, head + 8].map(|at| memory.read_word(at).unwrap_or(0));
        first != 0 && main != 0 && first != main
    }

    /// The control block of the thread that has this number in its process: found by the interpreter's list
    /// of threads, for those who cannot ask the thread itself. `None`: it runs no Python, or the list is
    /// being changed.
    #[must_use]
    pub fn control_block<M: Memory>(&self, memory: &M, data: &ThreadData, tid: u32) -> Option<u64> {
        let layout = self.layout;
        let mut interpreter = memory.read_word(self.runtime + layout.interpreters)?;
        let mut threads_left = MOST_THREADS;
        for _ in 0..MOST_INTERPRETERS {
            if interpreter == 0 {
                return None;
            }
            let mut state = memory.read_word(interpreter.checked_add(layout.first_state)?)?;
            while state != 0 {
                threads_left = threads_left.checked_sub(1)?;
                let thread = memory.read_word(state.checked_add(layout.thread_id)?)?;
                if memory.half(thread.checked_add(data.tid)?) == Some(tid) {
                    return Some(thread);
                }
                state = memory.read_word(state.checked_add(layout.next_state)?)?;
            }
            interpreter = memory.read_word(interpreter.checked_add(layout.next_interpreter)?)?;
        }
        None
    }

    /// The state of the thread whose control block is at `thread`, and whether it holds the GIL (`None`: not
    /// told, 3.12 on). No state: the thread runs no Python, or the interpreter is not initialised, or ends.
    #[must_use]
    pub fn state<M: ThreadMemory>(
        &self,
        memory: &M,
        data: &ThreadData,
        thread: u64,
    ) -> Option<(u64, Option<bool>)> {
        let layout = self.layout;
        let finalizing = memory.read_word(self.runtime + layout.finalizing)?;
        let key = memory.read_word(self.runtime + layout.tss_key)?;
        // {int is_initialised; pthread_key_t key}
        let (initialised, key) = (key & 0xffff_ffff, key >> 32);
        if initialised == 0 {
            return None;
        }
        let mut state = data.value(memory, thread, key)?;
        let mut attached = None;
        if let Some(at) = layout.current_state {
            let current = memory.read_word(self.runtime + at)?;
            attached = Some(current == state && state != 0);
            // A thread that runs a subinterpreter holds the GIL by another state than its key's.
            if current != state
                && plausible(current)
                && memory.read_of_others(current + layout.thread_id) == Some(thread)
            {
                (state, attached) = (current, Some(true));
            }
        }
        if state == 0 || (finalizing != 0 && finalizing != state) {
            return None;
        }
        Some((state, attached))
    }
}

/// The code of the package greenlet, if the image is its module: first address, and the one behind the last.
#[must_use]
pub fn greenlet_code<M: Memory>(memory: &M, image: &Image, symbols: &Symbols) -> Option<(u64, u64)> {
    symbols.find(memory, b"PyInit__greenlet")?;
    let is_code =
        |segment: &Segment| segment.kind == segment_kind::LOAD && segment.flags & segment_flag::EXECUTE != 0;
    let code = image.segments(memory).find(is_code)?;
    let first = image.bias.checked_add(code.address)?;
    Some((first, first.checked_add(code.memory_bytes)?))
}

/// Where glibc keeps a thread's own data: it publishes this for debuggers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadData {
    /// Offset of the array of blocks in the thread's control block.
    blocks: u64,
    /// Offset of the thread's number (32 bits) there.
    tid: u64,
}

/// Keys of one block, and bytes of a key's entry {sequence number, value}.
const KEYS_OF_BLOCK: u64 = 32;
const ENTRY_BYTES: u64 = 16;
const VALUE_IN_ENTRY: u64 = 8;

impl ThreadData {
    /// From the symbols of the C library. `None`: it is not glibc.
    #[must_use]
    pub fn find<M: Memory>(memory: &M, libc: &Symbols) -> Option<ThreadData> {
        // Three numbers: bits of an element, elements, offset.
        let table = libc.find(memory, b"_thread_db_pthread_specific")?.address;
        let entry = libc.find(memory, b"_thread_db_sizeof_pthread_key_data")?.address;
        let number = libc.find(memory, b"_thread_db_pthread_tid")?.address;
        let [blocks, tid] = [table, number].map(|at| memory.half(at.checked_add(8)?));
        let (blocks, tid) = (blocks?, tid?);
        let bytes = memory.half(entry)?;
        (u64::from(bytes) == ENTRY_BYTES && blocks < 1 << 16 && tid < 1 << 16)
            .then_some(ThreadData { blocks: u64::from(blocks), tid: u64::from(tid) })
    }

    /// The value of a key for the thread whose control block is at `thread`; 0 = none.
    fn value<M: Memory>(&self, memory: &M, thread: u64, key: u64) -> Option<u64> {
        let block = memory.read_word(thread.checked_add(self.blocks + 8 * (key / KEYS_OF_BLOCK))?)?;
        if block == 0 {
            return Some(0);
        }
        memory.read_word(block.checked_add(ENTRY_BYTES * (key % KEYS_OF_BLOCK) + VALUE_IN_ENTRY)?)
    }
}

/// The number behind the last "python3." of a path: 8 for `/usr/lib/libpython3.8.so.1.0`.
fn minor_in_path(path: &[u8]) -> Option<u8> {
    let pattern = b"python3.";
    let at = path.windows(pattern.len()).rposition(|part| part == pattern)?;
    let digits = path.get(at + pattern.len()..)?;
    let mut minor = None;
    for digit in digits.iter().take_while(|d| d.is_ascii_digit()) {
        minor = Some(minor.unwrap_or(0_u8).checked_mul(10)?.checked_add(digit - b'0')?);
    }
    minor
}

/// Offset that a type publishes for its member `name`.
fn member<M: Memory>(memory: &M, of_type: u64, name: &[u8]) -> Option<u64> {
    let list = memory.read_word(of_type.checked_add(MEMBERS_OF_TYPE)?)?;
    for index in 0..MOST_MEMBERS {
        let at = list.checked_add(index * MEMBER_BYTES)?;
        let text = memory.read_word(at)?;
        if text == 0 {
            return None;
        }
        if memory.text_is(text, name) {
            return memory.read_word(at.checked_add(16)?);
        }
    }
    None
}

fn code_members_agree<M: Memory>(memory: &M, code_type: u64, layout: &Layout) -> bool {
    let agrees = |name: &[u8], want: u64, must: bool| match member(memory, code_type, name) {
        Some(offset) => offset == want,
        None => !must,
    };
    let name: &[u8] = if layout.minor >= 11 { b"co_qualname" } else { b"co_name" };
    agrees(b"co_filename", layout.filename, true)
        && agrees(name, layout.name, true)
        && agrees(b"co_firstlineno", layout.first_line, true)
        && agrees(b"co_linetable", layout.line_table, layout.minor >= 11)
        && (layout.minor >= 10 || agrees(b"co_lnotab", layout.line_table, false))
}

/// 3.8 to 3.10 publish the offsets of frames too: in 3.10 `f_lasti` is no member any more, which tells it from 3.9.
fn frame_members_agree<M: Memory>(memory: &M, frame_type: u64, layout: &Layout) -> bool {
    if layout.minor > 10 {
        return true;
    }
    let last = match (layout.instruction, layout.minor) {
        (Instruction::Index { at, .. }, 8 | 9) => Some(at),
        _ => None,
    };
    member(memory, frame_type, b"f_back") == Some(layout.previous)
        && member(memory, frame_type, b"f_code").is_none_or(|offset| offset == layout.code)
        && member(memory, frame_type, b"f_lasti") == last
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;

    /// Where the interpreters of a process are listed, and nothing else.
    struct Listed {
        at: u64,
        newest: u64,
        main: u64,
    }

    impl Memory for Listed {
        fn copy(&self, at: u64, into: &mut [u8]) -> bool {
            let word = match at.checked_sub(self.at) {
                Some(0) => self.newest,
                Some(8) => self.main,
                _ => panic!("an interpreter at {at:#x} is read: another thread may end it just now"),
            };
            into.copy_from_slice(&word.to_ne_bytes());
            true
        }
    }

    #[test]
    fn several_interpreters_are_told_without_a_look_at_one() {
        for layout in (8..=13).filter_map(Layout::for_minor) {
            let interpreter =
                Interpreter { layout, version: 0, runtime: 0x10000, code_type: 0, bytecode_loop: (0, 0) };
            let has_several = |newest, main| {
                interpreter.has_several(&Listed { at: 0x10000 + layout.interpreters, newest, main })
            };
            assert!(has_several(0x7000, 0x5000));
            assert!(!has_several(0x5000, 0x5000));
            assert!(!has_several(0, 0), "before the first and after the last");
        }
    }

    /// Words of a memory at an address; what else is there is 0. How many words were read.
    struct Ring {
        words: [(u64, u64); 4],
        reads: core::cell::Cell<usize>,
    }

    impl Memory for Ring {
        fn copy(&self, at: u64, into: &mut [u8]) -> bool {
            self.reads.set(self.reads.get() + 1);
            let word = self.words.iter().find(|(place, _)| *place == at).map_or(0, |(_, word)| *word);
            into.iter_mut().zip(word.to_le_bytes()).for_each(|(to, from)| *to = from);
            true
        }
    }

    #[test]
    fn lists_without_an_end_are_left() {
        for layout in (8..=13).filter_map(Layout::for_minor) {
            let interpreter =
                Interpreter { layout, version: 0, runtime: 0x10000, code_type: 0, bytecode_loop: (0, 0) };
            let data = ThreadData { blocks: 0x300, tid: 0x2d0 };
            // The thread's state comes next to itself, and so does the interpreter.
            let (listed, state) = (0x20000, 0x30000);
            let words = [
                (0x10000 + layout.interpreters, listed),
                (listed + layout.next_interpreter, listed),
                (listed + layout.first_state, state),
                (state + layout.next_state, state),
            ];
            let memory = Ring { words, reads: 0.into() };
            assert_eq!(interpreter.control_block(&memory, &data, 1), None);
            assert!(memory.reads.get() <= 3 * MOST_THREADS + 2, "{}", memory.reads.get());
        }
    }

    /// A table of these symbols, all in one chain, at address 0.
    fn symbols(table: &[(&str, u64)]) -> (std::vec::Vec<u8>, Symbols) {
        let (hash, entries) = (0x80_u64, 0x100_u64);
        let strings = entries + 24 * (1 + table.len() as u64);
        let mut image = std::vec![0_u8; 0x400];
        let mut write = |at: u64, octets: &[u8]| {
            image[at as usize..][..octets.len()].copy_from_slice(octets);
        };
        let mut name_at = 1;
        for (i, (name, address)) in (1..).zip(table) {
            let entry = entries + 24 * u64::from(i);
            write(entry, &u32::to_le_bytes(name_at));
            write(entry + 4, &[1, 0, 1, 0]);
            write(entry + 8, &address.to_le_bytes());
            write(strings + u64::from(name_at), name.as_bytes());
            name_at += name.len() as u32 + 1;
            // Each is the next one of the symbol behind it.
            write(hash + 12 + 4 * u64::from(i), &u32::to_le_bytes(i - 1));
        }
        let count = table.len() as u32;
        write(hash, &[1, count + 1, count].map(u32::to_le_bytes).concat());
        for (i, (tag, value)) in (0..).zip([(4, hash), (5, strings), (6, entries), (10, 0x200_u64)]) {
            write(16 * i, &[tag, value].map(u64::to_le_bytes).concat());
        }
        let found = Symbols::new(&image.as_slice(), 0, 0).expect("tables");
        (image, found)
    }

    #[test]
    fn symbols_may_have_any_address() {
        for wild in [u64::MAX, u64::MAX - 7, 1 << 63] {
            for minor in [8, 12] {
                let path = std::format!("/usr/bin/python3.{minor}");
                for (runtime, code, frame) in [(wild, 8192, 8192), (8192, wild, 8192)] {
                    let (image, symbols) = symbols(&[("PyFrame_Type", frame), ("PyType_Type", 8192)]);
                    let memory = image.as_slice();
                    let checked = Interpreter::checked(&memory, &symbols, path.as_bytes(), runtime, code);
                    assert_eq!(checked, Err(Refused::Layout(minor)));
                    assert!(!frame_members_agree(&memory, wild, Layout::for_minor(8).expect("a layout")));
                }
            }
            let (image, symbols) = symbols(&[
                ("_thread_db_pthread_specific", wild),
                ("_thread_db_sizeof_pthread_key_data", 8),
                ("_thread_db_pthread_tid", wild),
            ]);
            assert_eq!(ThreadData::find(&image.as_slice(), &symbols), None);
        }
    }

    #[test]
    fn the_version_is_the_number_behind_the_last_name() {
        assert_eq!(minor_in_path(b"/opt/python3.9/lib/libpython3.10.so.1.0"), Some(10));
        assert_eq!(minor_in_path(b"/usr/bin/python3.8"), Some(8));
        assert_eq!(minor_in_path(b"/usr/bin/python3"), None);
        assert_eq!(minor_in_path(b"python3."), None);
        assert_eq!(minor_in_path(b"python3.999"), None);
    }
}
