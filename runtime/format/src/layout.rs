//! Every offset and constant of the file, version 1. `docs/pct-format.md` explains each.
//!
//! Header fields are named by their word index (byte offset / 8). Nothing else in the project repeats these numbers.

/// First word of a file: the bytes `89 50 43 54 0d 0a 1a 0a` (as PNG's, a text-mode copy damages it visibly).
pub const MAGIC: u64 = u64::from_le_bytes([0x89, b'P', b'C', b'T', 0x0d, 0x0a, 0x1a, 0x0a]);
/// Second word, written as a number: a reader of the other byte order sees it reversed.
pub const BYTE_ORDER: u64 = 0x0102_0304_0506_0708;
/// Version that this crate writes: major in the upper half. A reader refuses another major, accepts any minor.
pub const VERSION: u64 = 1 << 32;

/// Bytes of the header's words.
pub const HEADER_BYTES: usize = 1024;
/// Words of the header.
pub const HEADER_WORDS: usize = HEADER_BYTES / 8;
/// Where strings start in block 0.
pub const STRINGS_AT: usize = HEADER_BYTES;
/// Where block 0's keep segment starts: the strings end here.
pub const FIRST_SEGMENT_AT: usize = 8192;
/// Size of a block: a segment is one block, but for the first (the second half of block 0) and counter areas (several).
pub const BLOCK_BYTES: usize = 16 * 1024;
/// Smallest and largest block size that a reader accepts.
pub const BLOCK_RANGE: core::ops::RangeInclusive<u64> = 16 * 1024..=16 * 1024 * 1024;

/// Word indexes of the header.
pub mod header {
    /// [`super::MAGIC`].
    pub const MAGIC: usize = 0;
    /// [`super::BYTE_ORDER`].
    pub const BYTE_ORDER: usize = 1;
    /// [`super::VERSION`].
    pub const VERSION: usize = 2;
    /// [`super::HEADER_BYTES`].
    pub const HEADER_BYTES: usize = 3;
    /// [`super::BLOCK_BYTES`].
    pub const BLOCK_BYTES: usize = 4;
    /// ELF machine number (62 x86-64, 183 aarch64).
    pub const MACHINE: usize = 5;
    /// 0 being made, 1 armed, 2 closed by exit, 3 stopped by `pct_off`, 4 crashed.
    pub const STATE: usize = 6;
    /// Bytes of the file that are allocated and may hold segments.
    pub const ALLOCATED: usize = 7;
    /// Upper bound of the file's size in bytes.
    pub const LIMIT: usize = 8;
    /// Process id as seen from the outermost namespace that could be seen (0 = not known).
    pub const PID: usize = 9;
    /// Process id as the process sees itself.
    pub const NS_PID: usize = 10;
    /// Parent's process id as the process sees it.
    pub const PPID: usize = 11;
    /// Real user id.
    pub const UID: usize = 12;
    /// Effective user id.
    pub const EUID: usize = 13;
    /// Start of the process in clock ticks after boot (field 22 of /proc/PID/stat).
    pub const START_TICKS: usize = 14;
    /// 16 bytes of boot id, two words.
    pub const BOOT_ID: usize = 15;
    /// Kernel ticks a second as measured or configured (0 = not known).
    pub const HZ: usize = 17;
    /// 1 log, 2 counts.
    pub const RECORDER: usize = 18;
    /// Clock asked for ([`crate::Clock`]).
    pub const CLOCK_ASKED: usize = 19;
    /// Clock got.
    pub const CLOCK_GOT: usize = 20;
    /// Rate asked for, in thousandths of a hertz of CPU time.
    pub const RATE_ASKED: usize = 21;
    /// Rate that the clock got is expected to deliver, in thousandths of a hertz.
    pub const RATE_GOT: usize = 22;
    /// Nanoseconds of CPU time that one unit of weight stands for.
    pub const PERIOD_NS: usize = 23;
    /// What the times of records are: 1 TSC, 2 nanoseconds of CLOCK_MONOTONIC, 3 aarch64 virtual counter.
    pub const TIME_SOURCE: usize = 24;
    /// 1 none, 2 fp, 3 cfi, 4 auto.
    pub const STACK_MODE: usize = 25;
    /// Depth limit of stacks in frames.
    pub const DEPTH: usize = 26;
    /// Process id of the controller that attached, 0 = none.
    pub const CONTROLLER: usize = 27;
    /// Address of `pct_on` in the process.
    pub const ENTRY_ON: usize = 28;
    /// Address of `pct_off` in the process.
    pub const ENTRY_OFF: usize = 29;
    /// Address of `pct_stat` in the process.
    pub const ENTRY_STAT: usize = 30;
    /// Address at which the sampler's image is mapped.
    pub const IMAGE_BASE: usize = 31;
    /// First anchor: raw time, monotonic ns, realtime ns.
    pub const FIRST_ANCHOR: usize = 32;
    /// Latest anchor: sequence (odd while being written), raw, monotonic ns, realtime ns.
    pub const LATEST_ANCHOR: usize = 35;
    /// User CPU nanoseconds of the process at the latest anchor (0 = not known).
    pub const USER_NS: usize = 39;
    /// System CPU nanoseconds of the process at the latest anchor.
    pub const SYSTEM_NS: usize = 40;
    /// Threads seen so far.
    pub const THREADS: usize = 41;
    /// Recorder `counts`: weight of samples outside every region.
    pub const UNKNOWN: usize = 42;
    /// Recorder `counts`: weight that fell between a change of regions and its discovery.
    pub const UNCERTAIN: usize = 43;
    /// Recorder `counts`: samples counted, where a writer keeps it (a second addition per sample; ours does not).
    pub const COUNTED: usize = 44;
    /// Recorder `counts`: weight of system samples.
    pub const COUNTED_SYSTEM: usize = 45;
    /// Epoch of the region table: how often it changed.
    pub const REGION_EPOCH: usize = 46;
    /// Generation of the newest segment: how many segments were begun.
    pub const GENERATION: usize = 47;
    /// First of the string references (offset from the file's start << 32 | bytes), in the order of [`super::Text`].
    pub const TEXT: usize = 48;
    /// Number of arguments.
    pub const ARGC: usize = 56;
    /// Bytes of the argument vector before it was cut to fit.
    pub const ARGV_BYTES: usize = 57;
    /// Bytes of the executable's build-id, 0..=32.
    pub const BUILD_ID_BYTES: usize = 58;
    /// The executable's build-id, four words.
    pub const BUILD_ID: usize = 59;
    /// Losses: pairs (samples, weight), by [`crate::LossCause`].
    pub const LOSSES: usize = 64;
    /// Number of loss pairs.
    pub const LOSS_PAIRS: usize = 16;
    /// Thread CPU nanoseconds spent by the housekeeper, as far as it measured them.
    pub const HOUSEKEEPER_NS: usize = 96;
    /// How often the housekeeper ran.
    pub const HOUSEKEEPER_RUNS: usize = 97;
    /// Signal number that the sampling clock uses.
    pub const SIGNAL: usize = 98;
    /// Signal of the tick timer that accounts system time, 0 = none.
    pub const TICK_SIGNAL: usize = 99;
    /// Why the clock asked for was not taken: errno of the refused call, 0 = it was.
    pub const CLOCK_ERRNO: usize = 100;
    /// Why the log stopped growing: errno of the refused allocation, 0 = it can grow.
    pub const GROW_ERRNO: usize = 101;
    /// Files of the same process image before this one (continuous sampling), 0 = it is the first.
    pub const ROTATIONS: usize = 102;
    /// Perf events that all threads inherit, one for each CPU; 0 = each thread has an event of its own, or the clock is another.
    pub const INHERITED_EVENTS: usize = 106;
    /// Why there are no inherited events: errno of the refused call, 0 = they were not asked for, or are there.
    pub const INHERITED_ERRNO: usize = 107;
    /// Allocation sampling: interval asked for in octets, 0 = allocations were not sampled.
    pub const ALLOC_INTERVAL: usize = 108;
    /// Allocation sampling: how often that is doubled at the moment.
    pub const ALLOC_SHIFT: usize = 109;
    /// Allocation sampling: seed of the draws.
    pub const ALLOC_SEED: usize = 110;
    /// Allocation sampling: who serves malloc ([`crate::AllocServer`]).
    pub const ALLOC_SERVER: usize = 111;
    /// Allocation sampling: path of the object that does, a string reference as those of [`TEXT`]; 0 = none.
    pub const ALLOC_SERVER_PATH: usize = 112;
    /// Allocation sampling: what was wrapped ([`crate::heap::source`]).
    pub const ALLOC_SOURCES: usize = 113;
    /// CPU ns that the process had used when it was first sampled: its start, and what it ran before an exec; 0 = not known.
    pub const BEFORE_NS: usize = 114;
    /// CPU ns that the process used in all while it was not sampled, [`BEFORE_NS`] among them; 0 = not known.
    pub const OFF_NS: usize = 115;
}

/// The strings of the header, by their place after [`header::TEXT`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Text {
    /// Arguments, each followed by a NUL; perhaps cut.
    Argv = 0,
    /// Path of the executable as `/proc/self/exe` named it.
    Exe = 1,
    /// Host name.
    Host = 2,
    /// Path of the parent's file, empty when the parent was not sampled.
    Parent = 3,
    /// Preferred translator, empty = the built-in one.
    Translator = 4,
    /// The options as given in `PCT`.
    Options = 5,
    /// Working directory at start.
    Cwd = 6,
    /// Version of the sampler that wrote the file.
    Writer = 7,
}

/// Number of strings.
pub const TEXTS: usize = 8;

/// Bytes of a segment's header.
pub const SEGMENT_HEADER_BYTES: usize = 128;
/// Words of a segment's header.
pub const SEGMENT_HEADER_WORDS: usize = SEGMENT_HEADER_BYTES / 8;
/// Upper 56 bits of a segment's first word; the kind is in the lowest byte.
pub const SEGMENT_MAGIC: u64 = u64::from_le_bytes([0, b'P', b'C', b'T', b's', b'e', b'g', 0xa5]);

/// Word indexes of a segment's header. The segment's last word repeats [`segment::GENERATION`].
pub mod segment {
    /// [`super::SEGMENT_MAGIC`] | kind; written last, 0 while the segment is being begun.
    pub const MAGIC: usize = 0;
    /// Unique number of this use of the block, rising from 1.
    pub const GENERATION: usize = 1;
    /// Thread id (ring segments; 0 for the process's own ring).
    pub const TID: usize = 2;
    /// Serial number of the thread in this file, from 1; 0 for the process's own ring and for keep segments.
    pub const THREAD: usize = 3;
    /// Raw time at which the segment was begun.
    pub const TIME: usize = 4;
    /// CPU nanoseconds of the thread by then, 0 = not known.
    pub const CPU_NS: usize = 5;
    /// Epoch of the region table by then.
    pub const EPOCH: usize = 6;
    /// Samples of this thread overwritten before this segment.
    pub const OVERWRITTEN: usize = 7;
    /// Their weight.
    pub const OVERWRITTEN_WEIGHT: usize = 8;
    /// Nanoseconds of CPU time that one unit of weight stands for in this segment.
    pub const PERIOD_NS: usize = 9;
    /// Thread's name, 16 bytes, NUL-padded (two words).
    pub const NAME: usize = 10;
    /// Areas (counters and those of [`crate::heap`]): blocks that the area takes. 1 otherwise.
    pub const BLOCKS: usize = 12;
    /// Counter areas: region id.
    pub const REGION: usize = 13;
    /// Counter areas: log2 of the bytes of code per counter.
    pub const SHIFT: usize = 14;
    /// Counter areas: number of counters. Heap areas: number of places. Ring segments: samples written so far, updated when the segment is left.
    pub const COUNT: usize = 15;
}

/// Kinds of segment (lowest byte of the first word).
pub mod segment_kind {
    /// Records that are never overwritten: regions, stacks, threads.
    pub const KEEP: u8 = 1;
    /// One thread's samples, or the process's anchors and losses (thread serial 0).
    pub const RING: u8 = 2;
    /// Counters of one region.
    pub const COUNTERS: u8 = 3;
    /// A part of the table of live blocks ([`crate::heap`]).
    pub const HEAP: u8 = 4;
    /// A part of the sums of allocations by stack.
    pub const HEAP_SUM: u8 = 5;
    /// The account of allocation sampling.
    pub const HEAP_ACCOUNT: u8 = 6;
}

const _: () = assert!(header::TEXT + TEXTS <= header::ARGC);
const _: () = assert!(header::LOSSES + 2 * header::LOSS_PAIRS <= header::HOUSEKEEPER_NS);
const _: () = assert!(FIRST_SEGMENT_AT < BLOCK_BYTES);
