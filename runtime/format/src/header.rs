//! The header: who was sampled, with which clock, what was lost.
//!
//! Words of the header change while the process runs (state, losses, latest anchor); each is one aligned word, so a
//! reader sees an old or a new value. Only the latest anchor is several words: a sequence number tells a torn one.

use crate::heap::AllocServer;
use crate::layout::{self, Text, header as at};
use crate::numbered::numbered;
use crate::words::Words;

numbered! {
    /// Where the sampling of the process stands.
    State {
        /// The file is being made.
        Making = 0 "being made",
        /// Sampling; also what a file says whose process was killed.
        Armed = 1 "armed",
        /// The process exited in order.
        Closed = 2 "closed",
        /// Sampling was switched off; the process may live on.
        Stopped = 3 "stopped",
        /// The process died by a signal, as far as somebody could tell.
        Crashed = 4 "crashed",
        /// The process executed another program: that one has a file of its own.
        Replaced = 5 "replaced by exec",
    }
}

numbered! {
    /// What samples are kept as.
    Recorder {
        /// A circular log of samples in order of time.
        Log = 1 "log",
        /// A counter per piece of code.
        Counts = 2 "counts",
    }
}

numbered! {
    /// What makes samples due.
    Clock {
        /// The best that works: asked for only.
        Auto = 1 "auto",
        /// perf task clock, by signal.
        Perf = 2 "perf",
        /// perf task clock, by synchronous SIGTRAP.
        Sigtrap = 3 "sigtrap",
        /// POSIX timer on each thread's CPU clock.
        Thread = 4 "thread",
        /// setitimer(ITIMER_PROF): user and system time of the process.
        Itimer = 5 "itimer",
        /// setitimer(ITIMER_VIRTUAL): user time of the process.
        ItimerVirtual = 6 "itimer-virtual",
        /// setitimer(ITIMER_REAL): wall time.
        ItimerReal = 7 "itimer-real",
        /// Sampled from outside by ptrace.
        Remote = 8 "ptrace",
        /// Wall-clock sampling from outside.
        Wall = 9 "wall",
        /// perf's own ring.
        Ring = 10 "ring",
    }
}

numbered! {
    /// How stacks are walked.
    StackMode {
        /// Not at all.
        None = 1 "none",
        /// By frame pointers.
        Fp = 2 "fp",
        /// By unwind data.
        Cfi = 3 "cfi",
        /// By unwind data, by frame pointers where there is none.
        Auto = 4 "auto",
    }
}

numbered! {
    /// What the raw times of records are.
    TimeSource {
        /// x86-64 time stamp counter.
        Tsc = 1 "tsc",
        /// Nanoseconds of CLOCK_MONOTONIC.
        MonotonicNs = 2 "monotonic",
        /// aarch64 virtual counter.
        Cntvct = 3 "cntvct",
    }
}

numbered! {
    /// Why samples that were due are not in the file. (Number 3 is not used: a handler that reaches its share of the period
    /// cuts the stack, and says so there; the sample is kept.)
    LossCause {
        /// Overwritten when the log wrapped.
        Overwritten = 0 "overwritten by wrap",
        /// No room: nothing could be allocated nor overwritten.
        NoRoom = 1 "no room in the log",
        /// The handler was interrupted by itself, or two threads met on one ring.
        Busy = 2 "handler busy",
        /// The thread had no ring: more threads than the table holds, or it was not found in time.
        NoRing = 4 "thread without ring",
        /// The thread kept the signal blocked.
        Blocked = 5 "signal blocked by the program",
        /// The program took the signal for itself.
        Taken = 6 "signal taken by the program",
        /// Due before the file could be made.
        TooEarly = 7 "before the file was made",
        /// Timer expiries that the kernel could not deliver one by one.
        Overrun = 8 "timer overrun",
        /// Definitions (stacks, regions) that found no room; their samples are there.
        Definitions = 9 "definitions without room",
        /// The program set a filter on system calls under which the sampler could not go on.
        Filtered = 10 "system calls filtered",
        /// Sampled from outside: the thread slept or ended before it could be stopped, and did not run again.
        Asleep = 11 "asleep or gone before it could be stopped",
        /// Somebody cut the file while it was written, or its file system failed.
        Cut = 12 "file cut while it was written",
    }
}

impl LossCause {
    /// Whether the counted things were samples that are missing (as against definitions).
    #[must_use]
    pub const fn loses_samples(self) -> bool {
        !matches!(self, LossCause::Definitions)
    }
}

/// Samples lost for one cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loss {
    /// Why.
    pub cause: LossCause,
    /// How many samples.
    pub samples: u64,
    /// How many periods they stood for.
    pub weight: u64,
}

/// One instant on three scales.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Anchor {
    /// Raw time ([`TimeSource`]).
    pub raw: u64,
    /// CLOCK_MONOTONIC in ns.
    pub monotonic_ns: u64,
    /// CLOCK_REALTIME in ns since 1970.
    pub realtime_ns: u64,
}

/// The header of a file that [`crate::File::parse`] accepted.
#[derive(Clone, Copy, Debug)]
pub struct Header<'a> {
    block: &'a [u8],
    words: Words<'a>,
}

impl<'a> Header<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        let block = bytes.get(..layout::FIRST_SEGMENT_AT.min(bytes.len())).unwrap_or(&[]);
        Header { block, words: Words::new(block).slice(0, layout::HEADER_WORDS) }
    }

    /// Any word by its index ([`layout::header`]), 0 when the file is too short.
    #[must_use]
    pub fn word(&self, at: usize) -> u64 {
        self.words.get(at).unwrap_or(0)
    }

    fn id(&self, at: usize) -> u32 {
        u32::try_from(self.word(at)).unwrap_or(0)
    }

    /// One of the strings; empty when it is absent or does not lie in the header's block.
    #[must_use]
    pub fn text(&self, which: Text) -> &'a [u8] {
        self.string(self.word(at::TEXT + which as usize))
    }

    fn string(&self, reference: u64) -> &'a [u8] {
        let (from, len) = ((reference >> 32) as usize, (reference & 0xffff_ffff) as usize);
        if from < layout::STRINGS_AT {
            return &[];
        }
        from.checked_add(len).and_then(|to| self.block.get(from..to)).unwrap_or(&[])
    }

    /// Interval of allocation samples that was asked for, in octets; `None` when allocations were not sampled.
    #[must_use]
    pub fn alloc_interval(&self) -> Option<u64> {
        Some(self.word(at::ALLOC_INTERVAL)).filter(|interval| *interval != 0)
    }

    /// Who serves malloc in the process; an unknown number is taken for not known.
    #[must_use]
    pub fn alloc_server(&self) -> AllocServer {
        AllocServer::from_number(self.word(at::ALLOC_SERVER)).unwrap_or(AllocServer::NotKnown)
    }

    /// Path of the object that serves malloc; empty = not known.
    #[must_use]
    pub fn alloc_server_path(&self) -> &'a [u8] {
        self.string(self.word(at::ALLOC_SERVER_PATH))
    }

    /// Version: major, minor.
    #[must_use]
    pub fn version(&self) -> (u32, u32) {
        let version = self.word(at::VERSION);
        ((version >> 32) as u32, version as u32)
    }

    /// State; an unknown number is taken for armed.
    #[must_use]
    pub fn state(&self) -> State {
        State::from_number(self.word(at::STATE)).unwrap_or(State::Armed)
    }

    /// Process id, as the outermost visible namespace has it, or else as the process sees itself.
    #[must_use]
    pub fn pid(&self) -> u32 {
        match self.id(at::PID) {
            0 => self.ns_pid(),
            pid => pid,
        }
    }

    /// Process id as the process sees itself.
    #[must_use]
    pub fn ns_pid(&self) -> u32 {
        self.id(at::NS_PID)
    }

    /// Parent's process id.
    #[must_use]
    pub fn ppid(&self) -> u32 {
        self.id(at::PPID)
    }

    /// Real user id.
    #[must_use]
    pub fn uid(&self) -> u32 {
        self.id(at::UID)
    }

    /// Start of the process in clock ticks after boot.
    #[must_use]
    pub fn start_ticks(&self) -> u64 {
        self.word(at::START_TICKS)
    }

    /// Boot id, 16 bytes.
    #[must_use]
    pub fn boot_id(&self) -> [u8; 16] {
        let mut id = [0; 16];
        for (i, byte) in id.iter_mut().enumerate() {
            *byte = (self.word(at::BOOT_ID + i / 8) >> (8 * (i % 8))) as u8;
        }
        id
    }

    /// Which recorder wrote; an unknown number is taken for the log.
    #[must_use]
    pub fn recorder(&self) -> Recorder {
        Recorder::from_number(self.word(at::RECORDER)).unwrap_or(Recorder::Log)
    }

    /// Clock asked for.
    #[must_use]
    pub fn clock_asked(&self) -> Option<Clock> {
        Clock::from_number(self.word(at::CLOCK_ASKED))
    }

    /// Clock got.
    #[must_use]
    pub fn clock_got(&self) -> Option<Clock> {
        Clock::from_number(self.word(at::CLOCK_GOT))
    }

    /// Rate asked for, in Hz of CPU time.
    #[must_use]
    pub fn rate_asked_hz(&self) -> f64 {
        self.word(at::RATE_ASKED) as f64 / 1000.0
    }

    /// Rate that the clock got can deliver, in Hz of CPU time.
    #[must_use]
    pub fn rate_got_hz(&self) -> f64 {
        self.word(at::RATE_GOT) as f64 / 1000.0
    }

    /// Kernel ticks a second, 0 = not known.
    #[must_use]
    pub fn tick_hz(&self) -> u64 {
        self.word(at::HZ)
    }

    /// Nanoseconds of CPU time that one unit of weight stands for; never 0.
    #[must_use]
    pub fn period_ns(&self) -> u64 {
        self.word(at::PERIOD_NS).max(1)
    }

    /// What raw times are; an unknown number is taken for nanoseconds.
    #[must_use]
    pub fn time_source(&self) -> TimeSource {
        TimeSource::from_number(self.word(at::TIME_SOURCE)).unwrap_or(TimeSource::MonotonicNs)
    }

    /// How stacks were walked.
    #[must_use]
    pub fn stack_mode(&self) -> StackMode {
        StackMode::from_number(self.word(at::STACK_MODE)).unwrap_or(StackMode::None)
    }

    /// Depth limit of stacks.
    #[must_use]
    pub fn depth(&self) -> u64 {
        self.word(at::DEPTH)
    }

    /// Arguments. The last may be cut: see [`Header::argv_is_cut`].
    pub fn argv(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let text = self.text(Text::Argv);
        text.strip_suffix(b"\0")
            .into_iter()
            .chain((!text.is_empty() && !text.ends_with(b"\0")).then_some(text))
            .flat_map(|all| all.split(|b| *b == 0))
    }

    /// Whether the argument vector was too long for the header.
    #[must_use]
    pub fn argv_is_cut(&self) -> bool {
        self.word(at::ARGV_BYTES) > self.text(Text::Argv).len() as u64
    }

    /// Build-id of the executable; empty = none.
    #[must_use]
    pub fn build_id(&self) -> &'a [u8] {
        let len = self.word(at::BUILD_ID_BYTES).min(32) as usize;
        self.block.get(at::BUILD_ID * 8..at::BUILD_ID * 8 + len).unwrap_or(&[])
    }

    /// The anchor of the start.
    #[must_use]
    pub fn first_anchor(&self) -> Anchor {
        Anchor {
            raw: self.word(at::FIRST_ANCHOR),
            monotonic_ns: self.word(at::FIRST_ANCHOR + 1),
            realtime_ns: self.word(at::FIRST_ANCHOR + 2),
        }
    }

    /// The newest anchor, `None` when it was being written at that instant or never was.
    #[must_use]
    pub fn latest_anchor(&self) -> Option<Anchor> {
        let sequence = self.word(at::LATEST_ANCHOR);
        (sequence != 0 && sequence.is_multiple_of(2)).then(|| Anchor {
            raw: self.word(at::LATEST_ANCHOR + 1),
            monotonic_ns: self.word(at::LATEST_ANCHOR + 2),
            realtime_ns: self.word(at::LATEST_ANCHOR + 3),
        })
    }

    /// CPU time of the process by its latest anchor, in ns: user, system. `None` = not known.
    #[must_use]
    pub fn cpu_ns(&self) -> Option<(u64, u64)> {
        match (self.word(at::USER_NS), self.word(at::SYSTEM_NS)) {
            (0, 0) => None,
            times => Some(times),
        }
    }

    /// Causes with losses, as counted in the header. Samples overwritten by a wrap are there too.
    pub fn losses(&self) -> impl Iterator<Item = Loss> + use<'a> {
        let header = *self;
        LossCause::ALL.iter().filter_map(move |cause| {
            let pair = at::LOSSES + 2 * *cause as usize;
            let loss = Loss { cause: *cause, samples: header.word(pair), weight: header.word(pair + 1) };
            (loss.samples != 0 || loss.weight != 0).then_some(loss)
        })
    }
}
