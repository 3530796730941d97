//! Allocation samples in a file: what is live, sums by stack, the account.
//!
//! A request of `s` octets is sampled with probability `p = 1 - e^(-s/N)`, where `N` is the current interval: the
//! requested interval, doubled as many times as the sample's *shift* says. A sample stands for `s / p` octets and `1 /
//! p` blocks. So an estimate needs only the size and the shift of an entry. Size 0 counts as 1.
//!
//! There are three kinds of segment. All of them are areas like counters: several blocks, words after the header, no
//! records.
//!
//! ```text
//! HEAP          entries of 6 words: a sampled block that is live, or was at the peak
//! HEAP_SUM      entries of 20 words: totals of one stack since the start
//! HEAP_ACCOUNT  words by name ([`account`]): totals, the peak, what was not seen
//! ```
//!
//! There may be several areas of the first two kinds. Their entries have no order, and unused ones are zeros. The
//! writer stores a state or stack id last, with release order. An entry that is being written has the state
//! [`EntryState::Busy`]; any other entry is complete.
//!
//! Estimates are stored as the bits of an IEEE double, counts as integers.
//!
//! Signal safety: writing means that the caller stores to the words named here.

use crate::numbered::numbered;
use crate::words::Words;

/// Words of an entry of the live table.
pub const ENTRY_WORDS: usize = 6;
/// Words of a stack's sums.
pub const SUM_WORDS: usize = 20;
/// Words of the account area that readers use.
pub const ACCOUNT_WORDS: usize = 64;
/// Largest valid size of a block: user space is not larger.
pub const MAX_SIZE: u64 = 1 << 47;
/// Largest valid shift.
pub const MAX_SHIFT: u32 = 40;
/// Smallest and largest interval that can be requested, in octets.
pub const INTERVALS: core::ops::RangeInclusive<u64> = 16..=1 << 30;
/// Default interval, in octets.
pub const DEFAULT_INTERVAL: u64 = 512 << 10;

/// Word indexes of an entry of the live table.
pub mod entry {
    /// State (bits 0 to 7), shift (8 to 15), flags (16 to 31), stack id (32 to 63).
    pub const STATE: usize = 0;
    /// Address of the block.
    pub const ADDRESS: usize = 1;
    /// Requested octets.
    pub const SIZE: usize = 2;
    /// Raw time of the request.
    pub const ALLOCATED: usize = 3;
    /// Raw time of the free; 0 = live.
    pub const FREED: usize = 4;
    /// Kernel's id of the requesting thread; 0 = unknown.
    pub const TID: usize = 5;
}

/// Word indexes of a stack's sums.
pub mod sum {
    /// Stack id + 1; 0 = unused. Id 0 collects the samples without a stack.
    pub const STACK: usize = 0;
    /// Samples.
    pub const SAMPLES: usize = 1;
    /// Octets: sum of s/p, a double.
    pub const BYTES: usize = 2;
    /// Variance of that: sum of (s/p)^2 (1-p), a double.
    pub const BYTES_VARIANCE: usize = 3;
    /// Blocks: sum of 1/p, a double.
    pub const BLOCKS: usize = 4;
    /// Variance of that: sum of (1-p)/p^2, a double.
    pub const BLOCKS_VARIANCE: usize = 5;
    /// Number of these samples whose block was freed.
    pub const FREED_SAMPLES: usize = 6;
    /// Octets of those, a double.
    pub const FREED_BYTES: usize = 7;
    /// Blocks of those, a double.
    pub const FREED_BLOCKS: usize = 8;
    /// Requested octets in samples, not scaled: a lower bound of what was allocated.
    pub const SEEN_BYTES: usize = 9;
    /// First word of the lifetimes: 20 counts of 32 bits, two a word, the lower half first.
    pub const LIFETIMES: usize = 10;
    /// Number of counts. Count k has freed samples that lived from 2^(2k+8) to below 2^(2k+10) units of raw time. The
    /// first one also has those that lived shorter, the last one also those that lived longer.
    pub const LIFETIME_COUNTS: usize = 20;
}

/// Word indexes of the account, after the area's header.
pub mod account {
    /// Samples taken.
    pub const SAMPLES: usize = 0;
    /// Octets allocated, a double.
    pub const BYTES: usize = 1;
    /// Variance of that, a double.
    pub const BYTES_VARIANCE: usize = 2;
    /// Blocks allocated, a double.
    pub const BLOCKS: usize = 3;
    /// Variance of that, a double.
    pub const BLOCKS_VARIANCE: usize = 4;
    /// Samples whose block was freed.
    pub const FREED_SAMPLES: usize = 5;
    /// Octets of those, a double.
    pub const FREED_BYTES: usize = 6;
    /// Octets live now, a double.
    pub const LIVE_BYTES: usize = 7;
    /// Largest value of that so far, a double.
    pub const PEAK_BYTES: usize = 8;
    /// Raw time of the peak. Blocks live then have allocated <= this < freed.
    pub const PEAK_TIME: usize = 9;
    /// Current shift.
    pub const SHIFT: usize = 10;
    /// Largest shift so far of all sites. Busy ones may have a larger one: [`MOST_SITE_SHIFT`].
    pub const MOST_SHIFT: usize = 11;
    /// How often the interval was doubled because of a high sample rate.
    pub const RATE_RISES: usize = 12;
    /// How often the live table was thinned for lack of room.
    pub const THINNINGS: usize = 13;
    /// Samples without room in the live table. They are in the sums only.
    pub const UNTRACKED: usize = 14;
    /// Octets of those, a double.
    pub const UNTRACKED_BYTES: usize = 15;
    /// Samples whose free was not seen: their block's address was allocated again.
    pub const MISSED_FREES: usize = 16;
    /// Samples without a stack, because there was no room or the stacks were being changed.
    pub const WITHOUT_STACK: usize = 17;
    /// Samples without their own sums, because the table of sums was full. The account includes them.
    pub const WITHOUT_SUM: usize = 18;
    /// Samples during another sample of the same thread. They were dropped.
    pub const NESTED: usize = 19;
    /// Calls before the sampler was ready. They are not counted.
    pub const EARLY_CALLS: usize = 20;
    /// The parent's live samples at the fork: [`super::entry_flag::INHERITED`].
    pub const INHERITED: usize = 21;
    /// Octets of those, a double.
    pub const INHERITED_BYTES: usize = 22;
    /// Octets of the tables of the allocation sampler in the process.
    pub const OWN_BYTES: usize = 23;
    /// Samples from words that threads share. Their countdowns may be off by one request.
    pub const SHARED: usize = 24;
    /// Samples among those without a stack whose stack could not be looked up, because another thread was changing the
    /// table for too long.
    pub const STACKS_TAKEN: usize = 25;
    /// Samples of busy sites that were left out for the rate, before anything was recorded of them: those that were
    /// kept stand for them too.
    pub const LEFT_OUT: usize = 26;
    /// How often the interval of a busy site was doubled because of the rate of samples.
    pub const SITE_RISES: usize = 27;
    /// Largest shift of a sample so far.
    pub const MOST_SITE_SHIFT: usize = 28;
}

/// Flags of an entry.
pub mod entry_flag {
    /// Allocated by the parent before the fork. The stack id is one of the parent's file, and the sums exclude it.
    pub const INHERITED: u16 = 1;
    /// Reported by the program (`pct_alloc`), not by an allocator.
    pub const API: u16 = 2;
    /// An object of an interpreter's own allocator (Python's pymalloc).
    pub const OBJECT: u16 = 4;
    /// Memory from the kernel (mmap).
    pub const MAP: u16 = 8;
}

/// Sources that were wrapped: bits of the header's word `ALLOC_SOURCES`.
pub mod source {
    /// malloc, free and their relatives.
    pub const MALLOC: u64 = 1;
    /// C++ operator new and delete.
    pub const NEW: u64 = 2;
    /// Python's object allocators.
    pub const PYTHON: u64 = 4;
    /// `pct_alloc` and `pct_free`.
    pub const API: u64 = 8;
    /// mmap and its relatives.
    pub const MAPS: u64 = 16;
    /// Calls of objects whose tables were patched (attach): blocks since then.
    pub const PATCHED: u64 = 32;
}

numbered! {
    /// The state of a slot of the live table.
    EntryState {
        /// Nothing.
        Free = 0 "free",
        /// It is being written.
        Busy = 1 "being written",
        /// A block that is live.
        Live = 2 "live",
        /// A live block inside realloc.
        Moving = 3 "moving",
        /// A block that was live at the peak and was freed since.
        Ghost = 4 "live at the peak",
    }
}

numbered! {
    /// What serves malloc in the process.
    AllocServer {
        /// Unknown.
        NotKnown = 0 "not known",
        /// The C library.
        CLibrary = 1 "the C library",
        /// Another shared library.
        Library = 2 "a shared library",
        /// The program itself, which contains an allocator.
        Program = 3 "the program itself",
        /// A library that the loader asks before pct's.
        Before = 4 "a library before pct's",
    }
}

/// A sampled block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeapEntry {
    /// Its current state, never [`EntryState::Free`] or [`EntryState::Busy`].
    pub state: EntryState,
    /// How often the requested interval was doubled for it.
    pub shift: u32,
    /// [`entry_flag`].
    pub flags: u16,
    /// Stack of the request; 0 = none.
    pub stack: u32,
    /// Address of the block.
    pub address: u64,
    /// Requested octets.
    pub size: u64,
    /// Raw time of the request.
    pub allocated: u64,
    /// Raw time of the free, if it was freed.
    pub freed: Option<u64>,
    /// Kernel's id of the requesting thread; 0 = unknown.
    pub tid: u32,
}

impl HeapEntry {
    /// Its first word.
    #[inline]
    #[must_use]
    pub const fn head(state: EntryState, shift: u32, flags: u16, stack: u32) -> u64 {
        state as u64 | ((shift & 0xff) as u64) << 8 | (flags as u64) << 16 | (stack as u64) << 32
    }

    /// Whether it was live at a raw time.
    #[must_use]
    pub fn is_live_at(&self, time: u64) -> bool {
        self.allocated <= time && self.freed.is_none_or(|freed| time < freed)
    }

    #[expect(clippy::cast_possible_truncation, reason = "each field is cut out of the word")]
    fn decode(words: Words<'_>) -> Result<Option<HeapEntry>, BadEntry> {
        let word = |at: usize| words.get(at).unwrap_or(0);
        let head = word(entry::STATE);
        let state = match EntryState::from_number(head & 0xff) {
            Some(EntryState::Free) => return Ok(None),
            Some(EntryState::Busy) => return Err(BadEntry::Busy),
            Some(state) => state,
            None => return Err(BadEntry::State((head & 0xff) as u8)),
        };
        let shift = (head >> 8 & 0xff) as u32;
        let (address, size) = (word(entry::ADDRESS), word(entry::SIZE));
        if shift > MAX_SHIFT {
            return Err(BadEntry::Shift(shift));
        }
        if size > MAX_SIZE {
            return Err(BadEntry::Size(size));
        }
        if address == 0 {
            return Err(BadEntry::NoAddress);
        }
        let freed = word(entry::FREED);
        Ok(Some(HeapEntry {
            state,
            shift,
            flags: (head >> 16) as u16,
            stack: (head >> 32) as u32,
            address,
            size,
            allocated: word(entry::ALLOCATED),
            freed: (freed != 0).then_some(freed),
            tid: u32::try_from(word(entry::TID)).unwrap_or(0),
        }))
    }
}

/// Why a slot of the live table is no valid entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BadEntry {
    /// It was being written when the file was copied, or when its process died. This is no damage.
    Busy,
    /// The state does not exist.
    State(u8),
    /// The shift is impossible.
    Shift(u32),
    /// The size is impossible.
    Size(u64),
    /// An entry without an address.
    NoAddress,
}

/// Sums of one stack.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HeapSum {
    /// Stack id; 0 = samples without a stack.
    pub stack: u32,
    /// Samples.
    pub samples: u64,
    /// Octets and their variance.
    pub bytes: (f64, f64),
    /// Blocks and their variance.
    pub blocks: (f64, f64),
    /// Samples, octets and blocks that were freed.
    pub freed: (u64, f64, f64),
    /// Requested octets in the samples themselves.
    pub seen_bytes: u64,
    /// Freed samples by lifetime: see [`sum::LIFETIME_COUNTS`].
    pub lifetimes: [u32; sum::LIFETIME_COUNTS],
}

impl HeapSum {
    fn decode(words: Words<'_>) -> Result<Option<HeapSum>, BadSum> {
        let word = |at: usize| words.get(at).unwrap_or(0);
        let Some(stack) = word(sum::STACK).checked_sub(1) else { return Ok(None) };
        let stack = u32::try_from(stack).map_err(|_| BadSum)?;
        let real = |at: usize| estimate(word(at)).ok_or(BadSum);
        let mut lifetimes = [0; sum::LIFETIME_COUNTS];
        for (i, count) in lifetimes.iter_mut().enumerate() {
            *count = (word(sum::LIFETIMES + i / 2) >> (32 * (i % 2)) & 0xffff_ffff) as u32;
        }
        Ok(Some(HeapSum {
            stack,
            samples: word(sum::SAMPLES),
            bytes: (real(sum::BYTES)?, real(sum::BYTES_VARIANCE)?),
            blocks: (real(sum::BLOCKS)?, real(sum::BLOCKS_VARIANCE)?),
            freed: (word(sum::FREED_SAMPLES), real(sum::FREED_BYTES)?, real(sum::FREED_BLOCKS)?),
            seen_bytes: word(sum::SEEN_BYTES),
            lifetimes,
        }))
    }
}

/// Sums with impossible numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadSum;

/// An estimate from a word: finite and not negative.
fn estimate(word: u64) -> Option<f64> {
    let value = f64::from_bits(word);
    (value.is_finite() && value >= 0.0).then_some(value)
}

/// An area of the live table.
#[derive(Clone, Copy, Debug)]
pub struct HeapTable<'a>(pub(crate) Words<'a>);

impl<'a> HeapTable<'a> {
    /// Number of slots that are in the file.
    #[must_use]
    pub fn places(&self) -> usize {
        self.0.len() / ENTRY_WORDS
    }

    /// The entries in used slots.
    pub fn entries(&self) -> impl Iterator<Item = Result<HeapEntry, BadEntry>> + use<'a> {
        chunks(self.0, ENTRY_WORDS).filter_map(|words| HeapEntry::decode(words).transpose())
    }
}

/// An area of sums by stack.
#[derive(Clone, Copy, Debug)]
pub struct HeapSums<'a>(pub(crate) Words<'a>);

impl<'a> HeapSums<'a> {
    /// Number of slots that are in the file.
    #[must_use]
    pub fn places(&self) -> usize {
        self.0.len() / SUM_WORDS
    }

    /// The sums. If a stack occurs more than once, add its sums.
    pub fn sums(&self) -> impl Iterator<Item = Result<HeapSum, BadSum>> + use<'a> {
        chunks(self.0, SUM_WORDS).filter_map(|words| HeapSum::decode(words).transpose())
    }
}

/// The account of allocation sampling.
#[derive(Clone, Copy, Debug)]
pub struct HeapAccount<'a>(pub(crate) Words<'a>);

impl HeapAccount<'_> {
    /// A count by its name in [`account`].
    #[must_use]
    pub fn count(&self, at: usize) -> u64 {
        self.0.get(at).unwrap_or(0)
    }

    /// An estimate by its name in [`account`]. `None`: the number is damaged.
    #[must_use]
    pub fn estimate(&self, at: usize) -> Option<f64> {
        estimate(self.count(at))
    }
}

fn chunks(words: Words<'_>, each: usize) -> impl Iterator<Item = Words<'_>> {
    (0..words.len() / each).map(move |i| words.slice(i * each, (i + 1) * each))
}

/// Index of the lifetime count for a block with these raw times: see [`sum::LIFETIME_COUNTS`].
#[must_use]
pub const fn lifetime_count(allocated: u64, freed: u64) -> usize {
    let lived = freed.saturating_sub(allocated);
    let halves = (63 - (lived | 1).leading_zeros()).saturating_sub(8) / 2;
    let last = sum::LIFETIME_COUNTS - 1;
    if (halves as usize) < last { halves as usize } else { last }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builder::Builder;
    use crate::file::File;
    use proptest::prelude::*;

    fn entry(address: u64, size: u64, freed: u64) -> [u64; ENTRY_WORDS] {
        let state = if freed == 0 { EntryState::Live } else { EntryState::Ghost };
        [HeapEntry::head(state, 3, entry_flag::API, 7), address, size, 100, freed, 42]
    }

    fn sum_words(stack: u32, bytes: f64) -> [u64; SUM_WORDS] {
        let mut words = [0; SUM_WORDS];
        words[sum::STACK] = u64::from(stack) + 1;
        words[sum::SAMPLES] = 2;
        words[sum::BYTES] = bytes.to_bits();
        words[sum::BYTES_VARIANCE] = 9f64.to_bits();
        words[sum::LIFETIMES] = 5 << 32 | 4;
        words
    }

    fn example() -> Vec<u8> {
        let mut b = Builder::new();
        b.heap(&[entry(0x1000, 64, 0), [0; ENTRY_WORDS], entry(0x2000, 0, 200)], 4000);
        b.heap_sums(&[sum_words(0, 1.5), sum_words(7, 2e9)], 300);
        let mut account_words = [0; ACCOUNT_WORDS];
        account_words[account::SAMPLES] = 3;
        account_words[account::LIVE_BYTES] = 4.5f64.to_bits();
        b.heap_account(&account_words);
        b.set_header_word(crate::layout::header::ALLOC_INTERVAL, 4096)
            .alloc_server(AllocServer::Library, b"/l.so");
        let thread = b.thread(1, 5, b"t");
        b.sample(thread, 3, 4, 1, false, 0);
        b.finish()
    }

    #[test]
    fn areas_are_read_back_and_hide_no_segment_behind_them() {
        let bytes = example();
        let file = File::parse(&bytes).unwrap();
        let tables: Vec<_> = file.heap_tables().collect();
        assert_eq!((tables.len(), tables[0].places()), (1, 4000));
        let entries: Vec<_> = tables[0].entries().map(Result::unwrap).collect();
        assert_eq!(entries.len(), 2);
        let first = entries[0];
        assert_eq!((first.state, first.shift, first.flags, first.stack), (EntryState::Live, 3, 2, 7));
        assert_eq!((first.address, first.size, first.tid, first.freed), (0x1000, 64, 42, None));
        assert!(first.is_live_at(100) && !first.is_live_at(99));
        assert!(entries[1].is_live_at(199) && !entries[1].is_live_at(200));
        let sums: Vec<_> = file.heap_sums().flat_map(|s| s.sums()).map(Result::unwrap).collect();
        assert_eq!((sums[0].stack, sums[1].stack, sums[1].bytes), (0, 7, (2e9, 9.0)));
        assert_eq!(sums[0].lifetimes[..3], [4, 5, 0]);
        let account = file.heap_account().unwrap();
        assert_eq!(account.count(account::SAMPLES), 3);
        assert_eq!(account.estimate(account::LIVE_BYTES), Some(4.5));
        let header = file.header();
        assert_eq!((header.alloc_interval(), header.alloc_server()), (Some(4096), AllocServer::Library));
        assert_eq!(header.alloc_server_path(), b"/l.so");
        let index = crate::Index::new(&file);
        assert_eq!(index.samples_by_time().count(), 1);
        assert_eq!(index.torn_segments, 0);
    }

    #[test]
    fn damaged_entries_are_told_apart_from_half_written_ones() {
        let good = entry(0x1000, 64, 0);
        let with = |at: usize, word: u64| {
            let mut words = good;
            words[at] = word;
            words
        };
        let damaged = [
            with(entry::STATE, 1),
            with(entry::STATE, 7),
            with(entry::STATE, HeapEntry::head(EntryState::Live, 41, 0, 1)),
            with(entry::SIZE, MAX_SIZE + 1),
            with(entry::ADDRESS, 0),
        ];
        let mut b = Builder::new();
        b.heap(&damaged, damaged.len());
        b.heap_sums(&[sum_words(1, f64::NAN), sum_words(2, -1.0), [u64::MAX; SUM_WORDS]], 3);
        let bytes = b.finish();
        let file = File::parse(&bytes).unwrap();
        let found: Vec<_> = file.heap_tables().flat_map(|t| t.entries()).map(Result::unwrap_err).collect();
        assert_eq!(
            found,
            [
                BadEntry::Busy,
                BadEntry::State(7),
                BadEntry::Shift(41),
                BadEntry::Size(MAX_SIZE + 1),
                BadEntry::NoAddress
            ]
        );
        assert!(file.heap_sums().flat_map(|s| s.sums()).all(|s| s == Err(BadSum)));
        assert!(file.heap_account().is_none());
    }

    #[test]
    fn an_area_cut_short_gives_what_is_there() {
        let bytes = example();
        let file = File::parse(&bytes).unwrap();
        let all = file.heap_tables().next().unwrap().places();
        for len in (0..bytes.len()).step_by(4099) {
            let Ok(file) = File::parse(&bytes[..len]) else { continue };
            for table in file.heap_tables() {
                assert!(table.places() <= all);
                assert!(table.entries().count() <= 2);
            }
            let _ = file.heap_sums().flat_map(|s| s.sums()).count();
            let _ = file.heap_account().map(|a| a.count(ACCOUNT_WORDS));
        }
    }

    #[test]
    fn lifetimes_fall_into_their_counts() {
        for (lived, count) in [
            (0, 0),
            (1, 0),
            (1023, 0),
            (1024, 1),
            (4095, 1),
            (4096, 2),
            (1 << 45, 18),
            (1 << 46, 19),
            (u64::MAX, 19),
        ] {
            assert_eq!(lifetime_count(0, lived), count, "{lived}");
        }
        assert_eq!(lifetime_count(5, 3), 0);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]
        #[test]
        fn scribbled_areas_never_panic(places in proptest::collection::vec((8192usize..400_000, any::<u64>()), 1..60)) {
            let mut bytes = example();
            for (at, word) in places {
                let at = (at & !7) % (bytes.len() - 8);
                bytes[at..at + 8].copy_from_slice(&word.to_le_bytes());
            }
            let Ok(file) = File::parse(&bytes) else { return Ok(()) };
            let most = bytes.len() / (8 * ENTRY_WORDS);
            prop_assert!(file.heap_tables().flat_map(|t| t.entries()).count() <= most);
            for sum in file.heap_sums().flat_map(|s| s.sums()).flatten() {
                prop_assert!(sum.bytes.0 >= 0.0 && sum.bytes.1.is_finite());
            }
            let _ = file.heap_account().map(|a| a.estimate(account::BYTES));
        }
    }
}
