//! Whether code of the program's own can change the action of a signal behind the C library.
//!
//! The library sees what a program does to its signals because it stands in front of libc's functions. A program that
//! makes the system call by the instruction passes it by: runtimes in Go, Rust's `linux_raw` back ends, sanitizers,
//! assembler. Most signals of the clocks are ignored by default, and lost samples are the worst that can come of it
//! ([`crate::signal::numbers`]). But a SIGTRAP kills a process whose action for it is the default one, and so do the
//! itimers' signals. Those clocks are used only where no code but the C library's can have changed actions.
//!
//! Each object of the program's own is searched once ([`super::call_sites`]), and what was found is kept
//! ([`super::object_answers`]).
//!
//! Not looked at: code that the process makes at run time, and the C library and its loader.
//!
//! Signal safety: system calls (the kernel is asked for the bytes, for code need not be readable). Not for handlers.

use core::sync::atomic::{AtomicU8, AtomicU32, Ordering};

use crate::code::call_sites::{code_of, has_call};
use crate::code::object_answers::{Answers, Key};
use crate::code::object_bytes::Bytes;
use crate::sys::text::Buf;
use crate::sys::{self, CStr};
use pct_elf::{Ahead, HEAD_BYTES, Image, Memory, segment_kind};

/// What is known of this process. It is no session's: a forked child has its parent's code.
static ANSWER: AtomicU8 = AtomicU8::new(NOT_LOOKED);
const NOT_LOOKED: u8 = 0;
const NONE_FOUND: u8 = 1;
const FOUND: u8 = 2;
/// Some code was not searched: there is more than the budget allows, or it cannot be read.
const NOT_ALL_SEARCHED: u8 = 3;

/// How much code is searched.
#[derive(Clone, Copy, Debug)]
struct Budget {
    /// Bytes of all objects at the start. More, and the program counts as one that makes the call.
    at_start: u64,
    /// Bytes of an object that comes later: a round is no place for more.
    later: u64,
}

/// Where answers are kept, each object is searched once. (The 21 MB of code in gcc's cc1 take 7 ms by the example
/// `own-calls`, the file being in memory.)
const KEPT: Budget = Budget { at_start: 256 << 20, later: 32 << 20 };
/// Where they are not, each process searches.
const NOT_KEPT: Budget = Budget { at_start: 8 << 20, later: 4 << 20 };

/// A search under way.
#[derive(Debug)]
struct Search<'p> {
    /// Path of the file of answers, while that was not tried.
    path: Option<CStr<'p>>,
    answers: Option<Answers>,
    /// Bytes that may still be searched, and how many more if answers are kept.
    left: u64,
    left_if_kept: u64,
}

impl<'p> Search<'p> {
    /// `answers`: path of the file of answers.
    fn new(answers: Option<CStr<'p>>, budget: impl Fn(Budget) -> u64) -> Self {
        let left = budget(NOT_KEPT);
        Search { path: answers, answers: None, left, left_if_kept: budget(KEPT) - left }
    }

    /// Opens the file of answers, unless that was tried before.
    fn open_answers(&mut self) {
        self.answers = match self.path.take() {
            Some(path) => Answers::open(path),
            None => return,
        };
        if self.answers.is_some() {
            self.left += self.left_if_kept;
        }
    }

    /// Whether code of an object can change actions: [`NONE_FOUND`], [`FOUND`] or [`NOT_ALL_SEARCHED`]. `memory` has
    /// its headers, `file` opens its file.
    fn object<M: Memory>(&mut self, memory: &M, image: &Image, file: impl FnOnce() -> Option<sys::Fd>) -> u8 {
        /// So much is read from memory: fewer calls, and the program is about to use it.
        const FEW_BYTES: u64 = 64 << 10;
        let bytes = code_of(memory, image).fold(0u64, |sum, (_, bytes)| sum.saturating_add(bytes));
        let file = if bytes > FEW_BYTES { file() } else { None };
        if file.is_some() {
            self.open_answers();
        }
        let keep = file.as_ref().and_then(Key::read).and_then(|key| Some((self.answers.as_ref()?, key)));
        if let Some(answer) = keep.and_then(|(answers, key)| answers.get(key)) {
            return told(answer);
        }
        let Some(rest) = self.left.checked_sub(bytes) else { return NOT_ALL_SEARCHED };
        self.left = rest;
        let headers = Bytes(&|at, into| memory.copy(at, into));
        let answer = match &file {
            Some(file) => {
                let contents = ObjectFile::new(file, memory, image);
                has_call(headers, Bytes(&|at, into| contents.copy(at, into)), image)
            }
            None => has_call(headers, headers, image),
        };
        if let Some((answers, key)) = keep {
            answers.keep(key, answer);
        }
        told(answer)
    }
}

/// What a search told that went to its end.
const fn told(found: bool) -> u8 {
    if found { FOUND } else { NONE_FOUND }
}

/// Whether code of this process may change actions by the instruction, as far as was looked.
#[must_use]
pub fn actions_may_change() -> bool {
    matches!(ANSWER.load(Ordering::Relaxed), FOUND | NOT_ALL_SEARCHED)
}

/// Whether that is so because not all code was searched.
#[must_use]
pub fn is_code_left() -> bool {
    ANSWER.load(Ordering::Relaxed) == NOT_ALL_SEARCHED
}

/// Whether all code of the program's own was searched, and none can.
#[must_use]
pub fn none_found() -> bool {
    ANSWER.load(Ordering::Relaxed) == NONE_FOUND
}

/// Calls its argument for each object of the program's own, with the path of its file; with `None` if its headers
/// cannot be read.
pub type EachObject = fn(&mut dyn FnMut(Option<&Image>, CStr<'_>));

/// Searches the objects that were loaded with the program, unless that was done before. `answers`: path of the file in
/// which answers are kept.
pub(crate) fn search(each_object: EachObject, answers: Option<CStr<'_>>) {
    if ANSWER.load(Ordering::Relaxed) != NOT_LOOKED {
        return;
    }
    let mut answer = NONE_FOUND;
    let mut search = Search::new(answers, |budget| budget.at_start);
    each_object(&mut |image, path| {
        if answer != NONE_FOUND {
            return;
        }
        answer = image.map_or(NOT_ALL_SEARCHED, |image| {
            let headers = Ahead::<_, HEAD_BYTES>::new(&OwnMemory, image.headers());
            code_of(&headers, image).for_each(|(start, _)| note_searched(start & !0xfff));
            search.object(&headers, image, || sys::open(path, sys::O_RDONLY, 0).ok())
        });
    });
    ANSWER.store(answer, Ordering::Relaxed);
}

/// A mapping of code has been found in the maps: its object is searched, unless it was. `start` is the mapping's first
/// address. Nothing is done where nobody has asked so far.
pub(super) fn search_new<M: Memory>(
    memory: &M,
    image: Option<&Image>,
    (start, inode): (u64, u64),
    path: &[u8],
    answers: Option<CStr<'_>>,
) {
    let later = start ^ inode.rotate_right(16);
    if ANSWER.load(Ordering::Relaxed) != NONE_FOUND
        || is_of_c_library(path)
        || was_searched(start)
        || was_searched(later)
    {
        return;
    }
    note_searched(later);
    let open = || {
        let mut name = Buf::<1024>::new();
        name.push(path).push(b"\0");
        let file = CStr::new(name.bytes()).and_then(|path| sys::open(path, sys::O_RDONLY, 0).ok());
        // By now there may be another of that name.
        file.filter(|file| sys::fstat(file).is_ok_and(|(id, _)| id.inode == inode))
    };
    let mut search = Search::new(answers, |budget| budget.later);
    let answer = image.map_or(NOT_ALL_SEARCHED, |image| search.object(memory, image, open));
    if answer != NONE_FOUND {
        ANSWER.store(answer, Ordering::Relaxed);
    }
}

/// Code that was searched, by a hash of its first address; of what came after the start mixed with the file's number.
/// 0 = no more. (Of very many objects the last are searched again in each child of a fork.)
static SEARCHED: [AtomicU32; 160] = [const { AtomicU32::new(0) }; 160];

/// Fibonacci hashing; never 0.
const fn hash(code: u64) -> u32 {
    (code.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u32 | 1
}

fn was_searched(code: u64) -> bool {
    let noted = SEARCHED.iter().map(|place| place.load(Ordering::Relaxed));
    noted.take_while(|noted| *noted != 0).any(|noted| noted == hash(code))
}

fn note_searched(code: u64) {
    if let Some(place) = SEARCHED.iter().find(|place| place.load(Ordering::Relaxed) == 0) {
        place.store(hash(code), Ordering::Relaxed);
    }
}

/// Whether a path is that of the C library, in front of whose functions pct's stand, of its parts or of its loader.
#[must_use]
pub fn is_of_c_library(path: &[u8]) -> bool {
    const NAMES: [&[u8]; 8] = [
        b"libc.so",
        b"libc-2",
        b"libc.musl-",
        b"libpthread.so",
        b"libpthread-2",
        b"ld-linux",
        b"ld-2",
        b"ld-musl-",
    ];
    let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or(path);
    NAMES.iter().any(|known| name.starts_with(known))
}

/// This process's memory, asked for from the kernel.
#[derive(Clone, Copy, Debug)]
pub struct OwnMemory;

impl Memory for OwnMemory {
    fn copy(&self, at: u64, into: &mut [u8]) -> bool {
        pct_unwind::os::copy(at, into)
    }
}

/// The segments of an object, read from its file. Memory that nobody has touched would be read page by page,
/// and stay in the process.
#[derive(Debug)]
struct ObjectFile<'f> {
    file: &'f sys::Fd,
    /// First address in the process, bytes, and offset in the file; zeros where there are no more.
    segments: [[u64; 3]; MOST_SEGMENTS],
}

/// Segments of an object that are known. (Linkers make four; those that rewrite objects up to eight.)
const MOST_SEGMENTS: usize = 16;

impl<'f> ObjectFile<'f> {
    fn new<M: Memory>(file: &'f sys::Fd, memory: &M, image: &Image) -> Self {
        let mut segments = [[0; 3]; MOST_SEGMENTS];
        let loaded = image.segments(memory).filter(|s| s.kind == segment_kind::LOAD);
        for (place, segment) in segments.iter_mut().zip(loaded) {
            *place = [segment.address.wrapping_add(image.bias), segment.file_bytes, segment.offset];
        }
        ObjectFile { file, segments }
    }
}

impl Memory for ObjectFile<'_> {
    fn copy(&self, at: u64, into: &mut [u8]) -> bool {
        let holds = |[start, bytes, _]: &&[u64; 3]| at.wrapping_sub(*start) < *bytes;
        let Some([start, _, offset]) = self.segments.iter().find(holds) else { return false };
        sys::pread(self.file, into, offset.wrapping_add(at - start)) == Ok(into.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pct_elf::BytesAt;

    #[test]
    fn code_that_was_not_searched_is_not_taken_for_code_that_makes_the_call() {
        let Ok(bytes) = std::fs::read("/lib/x86_64-linux-gnu/libc.so.6") else {
            return pct_kit::skip("no glibc here");
        };
        let file = BytesAt { at: 0, bytes: &bytes };
        let image = Image::of_file(&file).expect("an object");
        let answer = |most: u64| Search::new(None, |_| most).object(&file, &image, || None);
        assert_eq!(answer(1 << 30), FOUND);
        assert_eq!(answer(1000), NOT_ALL_SEARCHED);
    }
}
