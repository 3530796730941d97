//! The regions of code in this process, and what became of them.
//!
//! The list is the maps file's executable lines, merged with what was known: lines that are new get an id and a record,
//! those that are gone get an end. It belongs to the housekeeper's lock. For the recorder `counts` each
//! change publishes a new sorted array by pointer; arrays are kept, since a handler may still be reading an
//! old one. A region gets its counters at its first sample: most processes are sampled in two or three of
//! their dozen regions, or in none.
//!
//! Signal safety of the reading side ([`Regions::find`]): loads. The refresh reads /proc/thread-self/maps and
//! /proc/thread-self/mem.

use core::hint::cold_path;
use core::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use crate::code::headers::{FirstPages, HeadersApart};
use crate::code::mapped_file;
use crate::code::maps::{self, Mapping};
use crate::code::system_calls;
use crate::record::chain::Chain;
use crate::record::log::Log;
use crate::sys::loaded::MemoryFile;
use crate::sys::lock::Lock;
use crate::sys::text::Buf;
use crate::sys::{self, CStr};
use pct_elf::{Ahead, FileVersion, HEAD_BYTES, Image};
use pct_format::LossCause;
use pct_format::head::kind;
use pct_format::layout::{SEGMENT_HEADER_BYTES, SEGMENT_HEADER_WORDS, Wanted, header as at, segment_kind};
use pct_format::push::SegmentHead;
use pct_format::record::{Encoder, RegionFacts, region_flag};
use pct_languages::hotspot::may_be_jvm;

/// Most regions known at a time.
pub const MAX_REGIONS: usize = 8192;

/// A region.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Entry {
    /// First address.
    pub start: u64,
    /// Address after the last.
    pub end: u64,
    /// Offset in the file.
    pub offset: u64,
    /// `major << 32 | minor`.
    pub device: u64,
    /// Inode.
    pub inode: u64,
    /// Where its object's ELF header is mapped, or a page of ours that has the headers; 0 = no object.
    pub base: u64,
    /// Id in the file.
    pub id: u32,
    /// Its object was given out by [`List::next_new_object`].
    looked_at: bool,
    /// Its object may be a Java virtual machine, by its name.
    may_be_jvm: bool,
    /// Its counters.
    counters: Counters,
}

/// Where a region's counters are: their first word in the file, and in the upper bits the bytes of code per
/// counter as a shift. 0 = none yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(transparent)]
struct Counters(u64);

impl Counters {
    /// There is no room for them.
    const REFUSED: Counters = Counters(u64::MAX);
    const SHIFT_AT: u32 = 56;

    fn new(first: usize, shift: u32) -> Self {
        Counters(first as u64 | u64::from(shift) << Self::SHIFT_AT)
    }

    #[inline(always)]
    fn place(self, offset: u64) -> Option<usize> {
        let first = self.0 & ((1 << Self::SHIFT_AT) - 1);
        let shift = self.0 >> Self::SHIFT_AT;
        (self.0 != 0 && self != Self::REFUSED).then(|| (first + (offset >> (shift & 63))) as usize)
    }
}

impl Entry {
    fn same(&self, m: &Mapping<'_>) -> bool {
        (self.start, self.end, self.offset, self.device, self.inode)
            == (m.start, m.end, m.offset, m.device, m.inode)
    }
}

/// An object that was not given out before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewObject {
    /// As [`Entry::base`].
    pub base: u64,
    /// It may be a Java virtual machine, by its name.
    pub may_be_jvm: bool,
}

/// The list, old and new; one of them is current.
#[derive(Debug)]
#[repr(C)]
pub struct List {
    /// Path of the executable, from the making of the file on.
    pub program: Buf<1024>,
    which: usize,
    count: [usize; 2],
    entries: [[Entry; MAX_REGIONS]; 2],
    next_id: u32,
    /// Regions up to this id were there at the first look, and the loader had not been asked for anything before; 0 =
    /// there was no look, or it had.
    from_start: u32,
    looks: u32,
    /// Entries before this one were asked for by [`List::next_new_object`].
    looked_to: usize,
    apart: HeadersApart,
    buffer: [u8; 8192],
    record: [u64; 1024],
}

/// Regions that are found without a branch.
const FEW: usize = 8;
/// An address above all of user space.
const NOWHERE: u64 = i64::MAX as u64;

/// A published array for handlers.
#[derive(Debug)]
#[repr(C)]
struct Set {
    /// First addresses of the regions if they are so few, and [`NOWHERE`] for those that are not there: a
    /// line of cache.
    starts: [u64; FEW],
    count: usize,
    // As many `VisibleRegion` follow.
}

/// What a handler sees of a region.
#[derive(Debug)]
#[repr(C)]
pub struct VisibleRegion {
    start: u64,
    end: u64,
    counters: AtomicU64,
}

impl VisibleRegion {
    /// Word of the file that counts this PC of the region; `None`: it has no counters (yet).
    #[inline(always)]
    #[must_use]
    pub fn counter(&self, pc: u64) -> Option<usize> {
        Counters(self.counters.load(Ordering::Relaxed)).place(pc - self.start)
    }

    /// Whether it may get counters.
    #[must_use]
    pub fn may_have_counters(&self) -> bool {
        self.counters.load(Ordering::Relaxed) != Counters::REFUSED.0
    }
}

/// Regions of this process. All zeros: no region is known.
#[derive(Debug)]
#[repr(C)]
pub struct Regions {
    set: AtomicPtr<Set>,
    /// Number of changes.
    pub epoch: AtomicU64,
}

impl List {
    /// Regions known, by address.
    pub fn entries(&self) -> &[Entry] {
        let count = self.count.get(self.which).copied().unwrap_or(0);
        self.entries.get(self.which).and_then(|e| e.get(..count)).unwrap_or(&[])
    }

    /// After a look. `loader_was_asked`: objects may have come at run time before it.
    pub fn note_look(&mut self, loader_was_asked: bool) {
        if self.looks == 0 && !loader_was_asked {
            self.from_start = self.next_id;
        }
        self.looks = self.looks.saturating_add(1);
    }

    /// The addresses between the first and the last object that the loader may take away again. `is_lasting` says of
    /// the place where an object is mapped that it stays.
    pub fn may_go(&self, is_lasting: impl Fn(u64) -> bool + Clone) -> core::ops::Range<u64> {
        let entries = self.entries().iter();
        let mut late = entries.filter(|e| e.inode != 0 && e.id > self.from_start && !is_lasting(e.base));
        match (late.clone().next(), late.next_back()) {
            (Some(first), Some(last)) => first.start..last.end,
            _ => 0..0,
        }
    }

    /// Where an object is mapped that was not given out before; of an object with several regions perhaps
    /// more than once.
    pub fn next_new_object(&mut self) -> Option<NewObject> {
        let count = self.count.get(self.which).copied()?;
        let entries = self.entries.get_mut(self.which)?.get_mut(..count)?;
        loop {
            let entry = entries.get_mut(self.looked_to)?;
            self.looked_to += 1;
            if !entry.looked_at {
                entry.looked_at = true;
                if entry.base != 0 && entry.inode != 0 {
                    return Some(NewObject { base: entry.base, may_be_jvm: entry.may_be_jvm });
                }
            }
        }
    }

    /// Gives the object that is mapped at `base` out once more, after the next look at the maps.
    pub fn look_again_at(&mut self, base: u64) {
        let count = self.count.get(self.which).copied().unwrap_or(0);
        let known = self.entries.get_mut(self.which).and_then(|e| e.get_mut(..count)).unwrap_or(&mut []);
        known.iter_mut().filter(|entry| entry.base == base).for_each(|entry| entry.looked_at = false);
    }

    /// The path of the object that is mapped at `base`, as the maps file has it; empty when it is gone. It reads the
    /// maps up to there: not for each object of a process that has hundreds.
    pub fn path_of(&mut self, base: u64) -> Buf<1024> {
        let mut path = Buf::new();
        let _ = maps::each(&mut self.buffer, |m| {
            if m.start == base {
                path.push(m.file().0);
            }
            m.start < base
        });
        path
    }

    /// Room for a record.
    pub fn record(&mut self) -> &mut [u64] {
        &mut self.record
    }
}

impl Regions {
    /// Looks at the maps file and records in `file` what changed. `counts`: handlers look regions up here. `answers`:
    /// path of the file in which answers about objects are kept. `refused` hears what the kernel did not let us see.
    /// `see` is shown every mapping.
    pub fn refresh(
        &self,
        list: &mut List,
        file: (&Log, &Lock<Chain>),
        counts: bool,
        answers: Option<CStr<'_>>,
        refused: impl Fn(Wanted, sys::Errno),
        mut see: impl FnMut(&Mapping<'_>),
    ) {
        let (log, keep) = file;
        let now = crate::record::time::now();
        let old = list.which & 1;
        let new = old ^ 1;
        let [first, second] = &mut list.entries;
        let (old_entries, new_entries) = if old == 0 { (&*first, second) } else { (&*second, first) };
        let old_count = list.count.get(old).copied().unwrap_or(0);
        let old_entries = old_entries.get(..old_count).unwrap_or(&[]);
        let mut gone = old_entries.iter().peekable();
        let mut scan = Scan {
            now,
            changed: false,
            record: &mut list.record,
            next_id: &mut list.next_id,
            program: &list.program,
            log,
            keep,
            answers,
            apart: &mut list.apart,
        };
        let mut count = 0;
        let mut first_pages = FirstPages::default();
        let mut each = |m: Mapping<'_>, memory: Option<&sys::Fd>| {
            see(&m);
            first_pages.note(&m, memory);
            if !m.executable() || m.path == b"[vsyscall]" {
                return true;
            }
            while let Some(lost) = gone.next_if(|e| e.start < m.start) {
                scan.end(lost);
            }
            let Some(place) = new_entries.get_mut(count) else { return true };
            if let Some(same) = gone.next_if(|e| e.same(&m)) {
                *place = *same;
            } else {
                *place = scan.begin(&m, first_pages.nearest(&m), memory);
            }
            count += 1;
            true
        };
        let mut memory_refused = None;
        let read = sys::with_descriptor(|| {
            let memory = sys::open(sys::c(c"/proc/thread-self/mem"), sys::O_RDONLY, 0);
            memory_refused = memory.as_ref().err().copied();
            match memory {
                Err(sys::Errno::EMFILE) => Err(sys::Errno::EMFILE),
                memory => maps::read_maps(&mut list.buffer, |m| each(m, memory.as_ref().ok())),
            }
        });
        if let Some(errno) = memory_refused {
            refused(Wanted::Objects, errno);
        }
        if let Err(errno) = read {
            refused(Wanted::Mappings, errno);
            return;
        }
        for lost in gone {
            scan.end(lost);
        }
        let changed = scan.changed;
        if let Some(place) = list.count.get_mut(new) {
            *place = count;
        }
        list.which = new;
        list.looked_to = 0;
        if changed {
            let epoch = self.epoch.fetch_add(1, Ordering::Relaxed) + 1;
            log.header_set(at::REGION_EPOCH, epoch);
            if counts && let Err(errno) = self.publish(list.entries()) {
                refused(Wanted::Memory, errno);
            }
        }
    }

    /// A new array for handlers. Without memory for it the old one stays.
    fn publish(&self, entries: &[Entry]) -> sys::Result<()> {
        let bytes = size_of::<Set>() + entries.len() * size_of::<VisibleRegion>();
        let memory = sys::map_memory(bytes)?;
        let set = memory.cast::<Set>();
        let mut starts = [NOWHERE; FEW];
        if entries.len() <= FEW {
            starts.iter_mut().zip(entries).for_each(|(place, e)| *place = e.start);
        }
        // SAFETY: fresh memory of `bytes` bytes, page-aligned; nobody else knows it yet.
        unsafe {
            set.write(Set { starts, count: entries.len() });
            let first = set.add(1).cast::<VisibleRegion>();
            for (i, e) in entries.iter().enumerate() {
                first.add(i).write(VisibleRegion {
                    start: e.start,
                    end: e.end,
                    counters: AtomicU64::new(e.counters.0),
                });
            }
        }
        // Release: whoever sees the pointer sees the entries. The old array stays mapped for handlers that
        // still read it.
        self.set.store(set, Ordering::Release);
        Ok(())
    }

    /// Gives the region of `pc` counters, with this shift to begin with. False: it has no room, or there is
    /// no such region.
    pub fn provide(&self, list: &mut List, log: &Log, pc: u64, shift: u64) -> bool {
        let count = list.count.get(list.which).copied().unwrap_or(0);
        let known = list.entries.get_mut(list.which).and_then(|e| e.get_mut(..count)).unwrap_or(&mut []);
        let after = known.partition_point(|e| e.start <= pc);
        let Some(entry) = known.get_mut(after.wrapping_sub(1)).filter(|e| pc < e.end) else { return false };
        if entry.counters == Counters::default() {
            entry.counters = counters(entry, log, shift);
            if let Some(seen) = self.find(pc) {
                // Release: whoever sees the place sees the segment that was begun there.
                seen.counters.store(entry.counters.0, Ordering::Release);
            }
        }
        entry.counters != Counters::REFUSED
    }

    /// The region of a PC, for the recorder `counts`.
    #[inline(always)]
    #[must_use]
    pub fn find(&self, pc: u64) -> Option<&VisibleRegion> {
        let set = self.set.load(Ordering::Acquire);
        if set.is_null() {
            cold_path();
            return None;
        }
        // SAFETY: `publish` wrote header and entries before it stored the pointer, and they are never unmapped.
        let (starts, entries) = unsafe {
            (&(*set).starts, core::slice::from_raw_parts(set.add(1).cast::<VisibleRegion>(), (*set).count))
        };
        let after = if entries.len() <= FEW {
            // Comparing with all costs less than one branch foreseen wrongly. A difference of two user
            // addresses is negative where the upper bit is set.
            FEW - starts.iter().map(|start| (pc.wrapping_sub(*start) >> 63) as usize).sum::<usize>()
        } else {
            cold_path();
            entries.partition_point(|e| e.start <= pc)
        };
        entries.get(after.wrapping_sub(1)).filter(|e| pc < e.end)
    }
}

/// What writing about a scan needs.
struct Scan<'a> {
    now: u64,
    changed: bool,
    record: &'a mut [u64; 1024],
    next_id: &'a mut u32,
    program: &'a Buf<1024>,
    log: &'a Log,
    keep: &'a Lock<Chain>,
    /// Path of the file in which answers about objects are kept.
    answers: Option<CStr<'a>>,
    apart: &'a mut HeadersApart,
}

impl Scan<'_> {
    /// A region that is new. `first_page`: where the first page of its file is mapped.
    fn begin(&mut self, m: &Mapping<'_>, first_page: Option<u64>, memory: Option<&sys::Fd>) -> Entry {
        let mut base = first_page.unwrap_or(m.start);
        self.changed = true;
        *self.next_id += 1;
        let id = *self.next_id;
        let (path, deleted) = m.file();
        let mut flags = 0;
        if deleted {
            flags |= region_flag::DELETED;
        }
        if m.writable() {
            flags |= region_flag::WRITABLE;
        }
        if m.inode == 0 {
            flags |= region_flag::ANONYMOUS;
        }
        let here = crate::sys::arch::restorer() as u64;
        if m.start <= here && here < m.end {
            flags |= region_flag::OURS;
        }
        let mut build_id = [0u8; 32];
        let mut len = 0;
        let mut version = FileVersion::default();
        if let Some(memory) = memory
            && (m.inode != 0 || path == b"[vdso]")
        {
            let mapped = MemoryFile(memory);
            let mut head = Ahead::<_, HEAD_BYTES>::new(&mapped, base);
            let is_of =
                |image: Image| image.has_mapping(&head, m.start, m.offset) && image.are_headers_loaded(&head);
            if m.inode != 0
                && !Image::at_base(&head, base).is_some_and(is_of)
                && let Some(apart) = self.apart.page_for(m, memory)
            {
                base = apart;
                head = Ahead::new(&mapped, base);
            }
            let file = memory;
            let memory = head;
            let image = Image::at_base(&memory, base);
            if flags & region_flag::OURS == 0 && m.inode != 0 {
                system_calls::search_new(&memory, image.as_ref(), (m.start, m.inode), path, self.answers);
            }
            len = image.and_then(|image| image.build_id(&memory, &mut build_id)).unwrap_or(0);
            if len == 0 && m.inode != 0 {
                version = mapped_file::version(m, first_page, file);
            }
        }
        if len > 0 && path == self.program.bytes() {
            self.note_program(&build_id, len);
        }
        // A path of the kernel has at most 4095 bytes, 4 in place of each newline; what is beyond our buffer is cut.
        let path = path.get(..path.len().min(6000)).unwrap_or(&[]);
        let build_id = build_id.get(..len).unwrap_or(&[]);
        let (start, end, offset, device, inode) = (m.start, m.end, m.offset, m.device, m.inode);
        let facts = RegionFacts { start, end, offset, device, inode, flags, build_id, path, version };
        let record = facts.begin(self.record, id, self.now);
        keep_record(self.keep, self.log, record);
        Entry {
            start,
            end,
            offset,
            device,
            inode,
            base: if m.inode != 0 || path == b"[vdso]" { base } else { 0 },
            id,
            looked_at: false,
            may_be_jvm: may_be_jvm(path),
            counters: Counters::default(),
        }
    }

    /// The header names the program by its build-id too.
    fn note_program(&self, build_id: &[u8; 32], len: usize) {
        for (i, bytes) in build_id.chunks_exact(8).enumerate() {
            let mut word = [0; 8];
            word.copy_from_slice(bytes);
            self.log.header_set(at::BUILD_ID + i, u64::from_ne_bytes(word));
        }
        self.log.header_set(at::BUILD_ID_BYTES, len as u64);
    }

    fn end(&mut self, entry: &Entry) {
        self.changed = true;
        let record = Encoder::new(self.record).raw_word(self.now).finish(kind::REGION_END, entry.id);
        keep_record(self.keep, self.log, record);
    }
}

/// Counters for a region; coarser ones when the file has no room for fine ones.
fn counters(entry: &Entry, log: &Log, shift: u64) -> Counters {
    let (_, limit) = log.sizes();
    for shift in shift..=24 {
        let count = ((entry.end - entry.start - 1) >> shift) + 1;
        let bytes = SEGMENT_HEADER_BYTES as u64 + 8 * count;
        let blocks = bytes.div_ceil(pct_format::layout::BLOCK_BYTES as u64);
        // No region may take more than an eighth of the file while it can be counted more coarsely.
        if blocks > 1 && bytes > limit / 8 {
            continue;
        }
        let Some(place) = log.claim_kept(blocks as u32, true) else { continue };
        let head = SegmentHead {
            kind: segment_kind::COUNTERS,
            time: crate::record::time::now(),
            blocks,
            region: u64::from(entry.id),
            shift,
            count,
            ..Default::default()
        };
        log.begin(place, head);
        return Counters::new(place.first + SEGMENT_HEADER_WORDS, shift as u32);
    }
    log.lose(LossCause::Definitions, 1, 0);
    Counters::REFUSED
}

/// Appends a record to the keep segments; a definition that cannot be kept is counted.
pub fn keep_record(keep: &Lock<Chain>, log: &Log, record: Option<&[u64]>) {
    let kept =
        record.is_some_and(|r| keep.lock_patiently(true).is_some_and(|mut k| k.append(log, true, r, &[])));
    if !kept {
        log.lose(LossCause::Definitions, 1, 0);
    }
}
