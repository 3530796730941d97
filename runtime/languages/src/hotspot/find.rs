//! A virtual machine that is up: its heaps of code and the pieces of its interpreter.
//!
//! It is looked at while it starts, in another thread. The interpreter's queue exists long before its pieces do, so
//! what was listed here may be a part. Whoever walks compares [`Jvm::is_current`]: a thread that runs Java began after
//! the last piece was made, so a queue that still ends where it ended at the listing was listed to its end.

use pct_elf::{Image, Memory};

use super::layout::{Layout, Refused};
use super::tables::{Field, Tables};

/// Most heaps of code.
pub const HEAPS: usize = 8;
/// Most pieces of the interpreter. JDK 17 has 271.
pub const CODELETS: usize = 768;
/// Largest code cache.
const LARGEST_CACHE: u64 = 2 << 30;

/// A heap of code.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Heap {
    /// Lowest address.
    pub low: u64,
    /// Where the address behind its highest is stored. It grows.
    pub high_at: u64,
    /// Address of its map of segments, an octet each.
    pub segments: u64,
    /// Logarithm of a segment's octets.
    pub log_segment: u32,
}

/// What a piece of the interpreter is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Codelet {
    /// Bytecodes and all else.
    #[default]
    Other,
    /// A method is entered.
    Entry,
    /// Calls return to it.
    Return,
}

/// A HotSpot whose frames are read. Plain data: it can be copied into a table that handlers read.
#[derive(Clone, Copy, Debug)]
pub struct Jvm {
    /// Where it keeps what.
    pub layout: Layout,
    /// The code cache: lowest address, and the one behind the highest.
    pub bounds: (u64, u64),
    /// Where a call of native code into Java returns to.
    pub call_stub_return: u64,
    /// The interpreter's code.
    pub interpreter: (u64, u64),
    /// Where the end of the interpreter's queue is stored.
    queue_end_at: u64,
    heaps: [Heap; HEAPS],
    /// Where each piece begins in the interpreter, in order, and what it is for.
    codelets: [(u32, Codelet); CODELETS],
    pieces: usize,
}

/// The layout that the HotSpot whose image is mapped at `base` publishes.
///
/// # Errors
/// It is not up yet, or something is missing or odd.
#[inline(never)]
pub fn published_layout<M: Memory>(memory: &M, base: u64) -> Result<Layout, Refused> {
    let image = Image::at_base(memory, base).ok_or(Refused::NotReady)?;
    let symbols = image.symbols(memory).ok_or(Refused::NotReady)?;
    // Asked first: the loader may come to its end meanwhile.
    let is_relocated = image.is_relocated(memory);
    let tables = Tables::read(memory, &symbols).ok_or(Refused::Missing("gHotSpotVMStructs"))?;
    let early = |refused| if is_relocated { refused } else { Refused::NotReady };
    let tables = tables.map_err(|missing| early(Refused::Missing(missing.0)))?;
    let version = tables.field(Field::Version).ok_or(early(Refused::Missing(Field::Version.name())))?;
    match memory.half(version.value).unwrap_or(0) {
        // It is set when the virtual machine starts.
        0 => Err(Refused::NotReady),
        version => Layout::new(&tables, version).map_err(early),
    }
}

impl Jvm {
    /// Looks at a HotSpot with this layout.
    ///
    /// # Errors
    /// It is not up yet, or what it has cannot be.
    pub fn find<M: Memory>(memory: &M, layout: &Layout) -> Result<Jvm, Refused> {
        let ready = |word: Option<u64>| word.filter(|word| *word != 0).ok_or(Refused::NotReady);
        let list = ready(memory.read_word(layout.heaps))?;
        let call_stub_return = ready(memory.read_word(layout.call_stub_return))?;
        let queue = ready(memory.read_word(layout.interpreter_code))?;
        let low = ready(memory.read_word(layout.bounds.0))?;
        let high = ready(memory.read_word(layout.bounds.1))?;
        if low >= high || high >> 47 != 0 || high - low > LARGEST_CACHE {
            return Err(Refused::Odd("CodeCache::_low_bound"));
        }
        let mut jvm = Jvm {
            layout: *layout,
            bounds: (low, high),
            call_stub_return,
            interpreter: (0, 0),
            queue_end_at: queue.wrapping_add(layout.queue_end),
            heaps: [Heap::default(); HEAPS],
            codelets: [(0, Codelet::Other); CODELETS],
            pieces: 0,
        };
        if !jvm.contains(call_stub_return) {
            return Err(Refused::Odd("StubRoutines::_call_stub_return_address"));
        }
        jvm.list_heaps(memory, list)?;
        jvm.list_codelets(memory, queue)?;
        Ok(jvm)
    }

    /// Whether an address lies in the code cache.
    #[inline]
    #[must_use]
    pub fn contains(&self, address: u64) -> bool {
        address >= self.bounds.0 && address < self.bounds.1
    }

    /// An address in the code of the frame that entered a virtual thread. `None`: no virtual thread has run.
    pub(super) fn continuation_return<M: Memory>(&self, memory: &M) -> Option<u64> {
        memory.read_word(self.layout.continuation_return?).filter(|pc| self.contains(*pc))
    }

    /// Whether the interpreter is as it was at the listing.
    #[must_use]
    pub fn is_current<M: Memory>(&self, memory: &M) -> bool {
        memory.half(self.queue_end_at).map(u64::from) == Some(self.interpreter.1 - self.interpreter.0)
    }

    fn list_heaps<M: Memory>(&mut self, memory: &M, list: u64) -> Result<(), Refused> {
        let odd = Refused::Odd("CodeCache::_heaps");
        let layout = self.layout;
        let length = memory.half(list.wrapping_add(layout.list_length)).ok_or(odd)?;
        if length == 0 {
            return Err(Refused::NotReady);
        }
        if length as usize > HEAPS {
            return Err(odd);
        }
        let data = memory.read_word(list.wrapping_add(layout.list_data)).ok_or(odd)?;
        for (i, place) in (0..u64::from(length)).zip(&mut self.heaps) {
            let heap = memory.read_word(data.wrapping_add(8 * i)).ok_or(odd)?;
            let space = heap.wrapping_add(layout.heap_memory);
            let map = heap.wrapping_add(layout.heap_segments);
            let low = memory.read_word(space.wrapping_add(layout.space_low)).ok_or(odd)?;
            let segments = memory.read_word(map.wrapping_add(layout.space_low)).ok_or(odd)?;
            let log_segment = memory.half(heap.wrapping_add(layout.heap_log_segment)).ok_or(odd)?;
            if low == 0 || segments == 0 {
                return Err(Refused::NotReady);
            }
            if low < self.bounds.0 || low >= self.bounds.1 || !(6..=12).contains(&log_segment) {
                return Err(Refused::Odd("CodeHeap::_log2_segment_size"));
            }
            let high_at = space.wrapping_add(layout.space_high);
            *place = Heap { low, high_at, segments, log_segment };
        }
        Ok(())
    }

    fn list_codelets<M: Memory>(&mut self, memory: &M, queue: u64) -> Result<(), Refused> {
        let odd = Refused::Odd("StubQueue::_queue_end");
        let layout = self.layout;
        let start = memory.read_word(queue.wrapping_add(layout.queue_buffer)).ok_or(odd)?;
        let octets = memory.half(self.queue_end_at).ok_or(odd)?;
        if octets == 0 {
            return Err(Refused::NotReady);
        }
        let end = start.checked_add(u64::from(octets)).ok_or(odd)?;
        if !self.contains(start) || !self.contains(end - 1) {
            return Err(Refused::Odd("StubQueue::_stub_buffer"));
        }
        let (mut at, mut returns) = (0_u32, false);
        while at < octets {
            let codelet = start + u64::from(at);
            let size = memory.half(codelet + layout.codelet_size).ok_or(odd)?;
            if u64::from(size) < layout.codelet_head || size > octets - at {
                return Err(Refused::Odd("InterpreterCodelet::_size"));
            }
            let name = memory.read_word(codelet + layout.codelet_description).ok_or(odd)?;
            let kind = codelet_kind(memory, name);
            returns |= kind == Codelet::Return;
            let place = self.codelets.get_mut(self.pieces).ok_or(odd)?;
            *place = (at, kind);
            self.pieces += 1;
            at += size;
        }
        self.interpreter = (start, end);
        if returns { Ok(()) } else { Err(Refused::NotReady) }
    }

    /// What the piece of the interpreter at an address is for. `None`: the address is not in the interpreter.
    #[must_use]
    pub fn codelet(&self, pc: u64) -> Option<Codelet> {
        if pc < self.interpreter.0 || pc >= self.interpreter.1 {
            return None;
        }
        let offset = u32::try_from(pc - self.interpreter.0).ok()?;
        let pieces = self.codelets.get(..self.pieces)?;
        let behind = pieces.partition_point(|(begin, _)| *begin <= offset);
        pieces.get(behind.checked_sub(1)?).map(|(_, kind)| *kind)
    }

    /// The heap that holds an address.
    #[must_use]
    pub fn heap_of(&self, pc: u64) -> Option<&Heap> {
        self.heaps.iter().filter(|heap| heap.low != 0 && heap.low <= pc).max_by_key(|heap| heap.low)
    }
}

/// What a piece with this description is for. All that calls may return to counts as [`Codelet::Return`].
fn codelet_kind<M: Memory>(memory: &M, name: u64) -> Codelet {
    const RETURNS: [&[u8]; 6] = [
        b"return entry points",
        b"invoke return entry points",
        b"deoptimization entry points",
        b"earlyret entry points",
        b"exception handling",
        b"throw exception entrypoints",
    ];
    if RETURNS.iter().any(|text| memory.text_is(name, text)) {
        return Codelet::Return;
    }
    if memory.read_word(name) == Some(u64::from_le_bytes(*b"method e")) {
        return Codelet::Entry;
    }
    Codelet::Other
}
