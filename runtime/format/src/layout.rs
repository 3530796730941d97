//! Every offset and constant of the file, version 1. `docs/pct-format.md` explains each.
//!
//! Header fields are named by their word index (byte offset / 8). Nothing else in the project repeats these numbers.

/// First word of a file: the bytes `89 50 43 54 0d 0a 1a 0a` (as PNG's, a text-mode copy damages it visibly).
pub const MAGIC: u64 = u64::from_le_bytes([0x89, b'P', b'C', b'T', 0x0d, 0x0a, 0x1a, 0x0a]);
/// Second word, written as a number. A reader with the other byte order sees it reversed.
pub const BYTE_ORDER: u64 = 0x0102_0304_0506_0708;
/// Version that this crate writes: major in the upper half. A reader refuses another major version and accepts any
/// minor.
pub const VERSION: u64 = 1 << 32;

/// Bytes of the header's words.
pub const HEADER_BYTES: usize = 1024;
/// Words of the header.
pub const HEADER_WORDS: usize = HEADER_BYTES / 8;
/// Byte offset of the strings in block 0.
pub const STRINGS_AT: usize = HEADER_BYTES;
/// Byte offset of block 0's keep segment. The strings end here.
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
    /// Process id in the outermost visible namespace (0 = unknown).
    pub const PID: usize = 9;
    /// Process id in the process's own namespace.
    pub const NS_PID: usize = 10;
    /// Parent's process id in the process's namespace.
    pub const PPID: usize = 11;
    /// Real user id.
    pub const UID: usize = 12;
    /// Effective user id.
    pub const EUID: usize = 13;
    /// Start of the process in clock ticks after boot (field 22 of /proc/PID/stat).
    pub const START_TICKS: usize = 14;
    /// 16 bytes of boot id, two words.
    pub const BOOT_ID: usize = 15;
    /// Kernel ticks per second, measured or configured (0 = unknown).
    pub const HZ: usize = 17;
    /// 1 log, 2 counts.
    pub const RECORDER: usize = 18;
    /// Requested clock ([`crate::Clock`]).
    pub const CLOCK_ASKED: usize = 19;
    /// Clock in use.
    pub const CLOCK_GOT: usize = 20;
    /// Requested rate, in thousandths of a hertz of CPU time.
    pub const RATE_ASKED: usize = 21;
    /// Expected rate of the clock in use, in thousandths of a hertz.
    pub const RATE_GOT: usize = 22;
    /// Nanoseconds of CPU time per unit of weight.
    pub const PERIOD_NS: usize = 23;
    /// Scale of the records' times: 1 TSC, 2 nanoseconds of CLOCK_MONOTONIC, 3 aarch64 virtual counter.
    pub const TIME_SOURCE: usize = 24;
    /// 1 none, 2 fp, 3 cfi, 4 auto.
    pub const STACK_MODE: usize = 25;
    /// Depth limit of stacks in frames.
    pub const DEPTH: usize = 26;
    /// Process id of the controller that attached; 0 = none.
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
    /// User CPU nanoseconds of the process at the latest anchor (0 = unknown).
    pub const USER_NS: usize = 39;
    /// System CPU nanoseconds of the process at the latest anchor.
    pub const SYSTEM_NS: usize = 40;
    /// Number of threads found so far.
    pub const THREADS: usize = 41;
    /// Recorder `counts`: weight of samples outside every region.
    pub const UNKNOWN: usize = 42;
    /// Recorder `counts`: weight of samples between a change of regions and its discovery.
    pub const UNCERTAIN: usize = 43;
    /// Recorder `counts`: samples counted, if a writer stores that (it needs a second addition per sample; pct's does
    /// not).
    pub const COUNTED: usize = 44;
    /// Recorder `counts`: weight of system samples.
    pub const COUNTED_SYSTEM: usize = 45;
    /// Epoch of the region table: how often it changed.
    pub const REGION_EPOCH: usize = 46;
    /// Generation of the newest segment: how many segments were begun.
    pub const GENERATION: usize = 47;
    /// First of the string references (file offset << 32 | bytes), in the order of [`super::Text`].
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
    /// Thread CPU nanoseconds of the housekeeper, as far as it measured them.
    pub const HOUSEKEEPER_NS: usize = 96;
    /// How often the housekeeper ran.
    pub const HOUSEKEEPER_RUNS: usize = 97;
    /// Signal number that the sampling clock uses.
    pub const SIGNAL: usize = 98;
    /// Signal of the tick timer that accounts for system time; 0 = none.
    pub const TICK_SIGNAL: usize = 99;
    /// Why the requested clock was not used: errno of the refused call; 0 = it was used.
    pub const CLOCK_ERRNO: usize = 100;
    /// Why the log stopped growing: errno of the refused allocation; 0 = it can grow.
    pub const GROW_ERRNO: usize = 101;
    /// Number of files of the same process image before this one (continuous sampling); 0 = it is the first.
    pub const ROTATIONS: usize = 102;
    /// How samples in the kernel got their user stacks ([`crate::record::KernelJoin`]); 0 = the kernel's calls were not
    /// sampled.
    pub const KERNEL_JOIN: usize = 103;
    /// Weight of samples with an unknown user stack: the clock expired at one point, and the signal came at another.
    pub const NOT_JOINED: usize = 104;
    /// Why the kernel's calls were not sampled although that was requested: errno of the refused call, 38 (ENOSYS) =
    /// this kernel cannot without harm, 95 (EOPNOTSUPP) = it would harm this program; 0 = they were, it was not
    /// requested, or the clock is not sigtrap.
    pub const KERNEL_ERRNO: usize = 105;
    /// Number of perf events that all threads inherit, one for each CPU; 0 = each thread has its own event, or the
    /// clock is another.
    pub const INHERITED_EVENTS: usize = 106;
    /// Why there are no inherited events: errno of the refused call; 0 = there are, or they were not requested.
    pub const INHERITED_ERRNO: usize = 107;
    /// Allocation sampling: requested interval in octets; 0 = allocations were not sampled.
    pub const ALLOC_INTERVAL: usize = 108;
    /// Allocation sampling: how often the interval is currently doubled.
    pub const ALLOC_SHIFT: usize = 109;
    /// Allocation sampling: seed of the draws.
    pub const ALLOC_SEED: usize = 110;
    /// Allocation sampling: what serves malloc ([`crate::AllocServer`]).
    pub const ALLOC_SERVER: usize = 111;
    /// Allocation sampling: path of the object that serves malloc, a string reference like those of [`TEXT`]; 0 = none.
    pub const ALLOC_SERVER_PATH: usize = 112;
    /// Allocation sampling: the wrapped sources ([`crate::heap::source`]).
    pub const ALLOC_SOURCES: usize = 113;
    /// CPU ns that the process had used when it was first sampled: its start, and what it ran before an exec; 0 =
    /// unknown.
    pub const BEFORE_NS: usize = 114;
    /// Total CPU ns that the process used while it was not sampled, including [`BEFORE_NS`]; 0 = unknown.
    pub const OFF_NS: usize = 115;
    /// User CPU ns of the children that the process waited for while it was sampled, including their children; 0 if
    /// children are not followed.
    pub const CHILDREN_USER_NS: usize = 116;
    /// System CPU ns of the same.
    pub const CHILDREN_SYSTEM_NS: usize = 117;
    /// Why sampling ended in a process that runs on ([`crate::OffFor`]); 0 = it did not.
    pub const OFF_FOR: usize = 118;
    /// What became of the process's Java virtual machine ([`crate::record::InterpreterState`]); 0 = none is known.
    pub const JAVA: usize = 119;
    /// Inode of the process's PID namespace; 0 = unknown. In another namespace its id means nothing.
    pub const PID_NAMESPACE: usize = 120;
    /// First word for the sampler's own system calls that failed, one word for each [`super::Wanted`].
    pub const REFUSALS: usize = 121;
    /// Waits: number of records of waits and of objects handed on; 0 = none, or waits were not requested.
    pub const WAIT_RECORDS: usize = 125;
    /// Waits: number of records without room, or that came while another one was being written.
    pub const WAIT_RECORDS_LOST: usize = 126;
    /// Waits: the kinds that are recorded ([`crate::header::wait_door`]); 0 = none.
    pub const WAIT_DOORS: usize = 127;
}

/// What the sampler requests from the kernel besides samples. A refusal loses names, callers or threads, but no sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Wanted {
    /// The list of the process's mappings.
    Mappings = 0,
    /// The process's memory, for headers and unwind data of its objects.
    Objects = 1,
    /// The list of its threads.
    Threads = 2,
    /// The sampler's own memory.
    Memory = 3,
}

impl Wanted {
    /// Number of values.
    pub const COUNT: usize = 4;
    /// All values, by their numbers.
    pub const ALL: [Wanted; Wanted::COUNT] =
        [Wanted::Mappings, Wanted::Objects, Wanted::Threads, Wanted::Memory];

    /// The word for `times` refusals, the last one with the error number `errno`.
    #[must_use]
    pub const fn packed(times: u64, errno: u32) -> u64 {
        let times = if times > u32::MAX as u64 { u32::MAX as u64 } else { times };
        times << 32 | errno as u64
    }
}

/// The strings of the header, by their index after [`header::TEXT`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Text {
    /// Arguments, each followed by a NUL. They may be cut.
    Argv = 0,
    /// Path of the executable according to `/proc/self/exe`.
    Exe = 1,
    /// Host name.
    Host = 2,
    /// Path of the parent's file, empty when the parent was not sampled.
    Parent = 3,
    /// Preferred translator; empty = the built-in one.
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
    /// [`super::SEGMENT_MAGIC`] | kind. Written last; 0 while the segment is being begun.
    pub const MAGIC: usize = 0;
    /// Unique number of this use of the block, increasing from 1.
    pub const GENERATION: usize = 1;
    /// Thread id (ring segments; 0 for the process's own ring).
    pub const TID: usize = 2;
    /// Serial number of the thread in this file, from 1; 0 for the process's own ring and for keep segments.
    pub const THREAD: usize = 3;
    /// Raw time at which the segment was begun.
    pub const TIME: usize = 4;
    /// CPU nanoseconds of the thread at that time; 0 = unknown.
    pub const CPU_NS: usize = 5;
    /// Epoch of the region table at that time.
    pub const EPOCH: usize = 6;
    /// Samples of this thread overwritten before this segment.
    pub const OVERWRITTEN: usize = 7;
    /// Their weight.
    pub const OVERWRITTEN_WEIGHT: usize = 8;
    /// Nanoseconds of CPU time per unit of weight in this segment.
    pub const PERIOD_NS: usize = 9;
    /// Thread's name, 16 bytes, NUL-padded (two words).
    pub const NAME: usize = 10;
    /// Areas (counters and those of [`crate::heap`]): number of blocks. 1 for other kinds.
    pub const BLOCKS: usize = 12;
    /// Counter areas: region id.
    pub const REGION: usize = 13;
    /// Counter areas: log2 of the bytes of code per counter.
    pub const SHIFT: usize = 14;
    /// Counter areas: number of counters. Heap areas: number of slots. Ring segments: number of samples, updated when
    /// the segment is left.
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
