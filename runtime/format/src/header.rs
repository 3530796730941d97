//! The header: the sampled process, its clock, its losses.
//!
//! Words of the header change while the process runs (state, losses, latest anchor); each is one aligned word, so a
//! reader sees an old or a new value. Only the latest anchor has several words: its sequence number shows whether it
//! was read while it was being written.

use crate::heap::AllocServer;
use crate::layout::{self, Text, Wanted, header as at};
use crate::numbered::numbered;
use crate::words::Words;

/// Which kinds of waits are recorded ([`Header::wait_doors`]).
pub mod wait_door {
    /// Calls of the pthread functions from one object to another.
    pub const PTHREAD: u64 = 1;
    /// The system call futex made through libc's `syscall`.
    pub const FUTEX: u64 = 2;
}

numbered! {
    /// State of the sampling.
    State {
        /// The file is being made.
        Making = 0 "being made",
        /// Sampling. Also the state in the file of a process that was killed.
        Armed = 1 "armed",
        /// The process exited normally.
        Closed = 2 "closed",
        /// Sampling was switched off; the process may live on.
        Stopped = 3 "stopped",
        /// A signal killed the process, as far as that could be found out.
        Crashed = 4 "crashed",
        /// The process executed another program: that one has a file of its own.
        Replaced = 5 "replaced by exec",
    }
}

numbered! {
    /// Why sampling ended in a process that runs on, so that nothing could be recorded since.
    OffFor {
        /// The program gave up new privileges: it may have set a filter on system calls that nobody saw.
        UnseenFilter = 1 "it gave up new privileges, and may have set a filter on system calls",
        /// The program's filter forbids handlers to return.
        Filter = 2 "its filter on system calls forbids the return from a signal handler",
        /// The program forbids itself to read the time stamp counter.
        NoCounter = 3 "it forbids itself to read the time stamp counter",
        /// The program is under the kernel's strict mode of system calls.
        StrictMode = 4 "it entered seccomp's strict mode",
        /// The program dispatches its system calls itself.
        Dispatch = 5 "it turns its system calls into signals (PR_SET_SYSCALL_USER_DISPATCH)",
        /// The program set its action for a signal of the clocks, which cannot move under its filter on system calls.
        Taken = 6 "it uses the sampling signal itself, under a filter on system calls",
        /// Threads began under a filter on system calls that forbids to set up their clocks.
        NewThreads = 7 "its filter on system calls lets no clock be set up for the threads that began since",
        /// The process forked under a filter on system calls that forbids to begin in the child.
        NewChildren = 8 "its filter on system calls lets nothing be recorded in the children that it forked since",
        /// Both.
        NewThreadsAndChildren = 9 "its filter on system calls lets nothing be recorded in the threads and children that began since",
    }
}

numbered! {
    /// How samples are stored.
    Recorder {
        /// A circular log of samples in order of time.
        Log = 1 "log",
        /// A counter for each piece of code.
        Counts = 2 "counts",
    }
}

numbered! {
    /// What makes samples due.
    Clock {
        /// The best that works. Only as a request.
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
        /// CPU time of the threads, sampled from outside the process through ptrace.
        Outside = 8 "ptrace",
        /// Wall-clock time of the threads, sampled from outside.
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
    /// The scale of the records' raw times.
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
    /// Why samples that were due are not in the file. (Number 3 is unused: a handler that reaches its share of the
    /// period cuts the stack and marks the cut; the sample is kept.)
    LossCause {
        /// Overwritten when the log wrapped.
        Overwritten = 0 "overwritten by wrap",
        /// No room: nothing could be allocated or overwritten.
        NoRoom = 1 "no room in the log",
        /// The handler was interrupted by itself, or two threads met on one ring.
        Busy = 2 "handler busy",
        /// The thread had no ring: there were more threads than the table holds, or it was not found in time.
        NoRing = 4 "thread without ring",
        /// The thread kept the signal blocked.
        Blocked = 5 "signal blocked by the program",
        /// The program used the signal for itself.
        Taken = 6 "signal taken by the program",
        /// Due before the file could be made.
        TooEarly = 7 "before the file was made",
        /// Timer expiries that the kernel could not deliver one by one.
        Overrun = 8 "timer overrun",
        /// Definitions (stacks, regions) without room. Their samples are in the file.
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
    /// Whether this counts missing samples (as opposed to definitions).
    #[must_use]
    pub const fn loses_samples(self) -> bool {
        !matches!(self, LossCause::Definitions)
    }
}

/// Samples lost for one reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loss {
    /// The reason.
    pub cause: LossCause,
    /// How many samples.
    pub samples: u64,
    /// The periods that they represent.
    pub weight: u64,
}

/// The sampler's own system calls that the kernel refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// What they were for.
    pub wanted: Wanted,
    /// How often.
    pub times: u64,
    /// Error number of the last one.
    pub errno: i32,
}

/// One instant on three time scales.
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

    /// Any word by its index ([`layout::header`]), or 0 if the file is too short.
    #[must_use]
    pub fn header_word(&self, at: usize) -> u64 {
        self.words.get(at).unwrap_or(0)
    }

    fn id(&self, at: usize) -> u32 {
        u32::try_from(self.header_word(at)).unwrap_or(0)
    }

    /// One of the strings. Empty if it is absent or not within the header's block.
    #[must_use]
    pub fn text(&self, which: Text) -> &'a [u8] {
        self.string(self.header_word(at::TEXT + which as usize))
    }

    fn string(&self, reference: u64) -> &'a [u8] {
        let (from, len) = ((reference >> 32) as usize, (reference & 0xffff_ffff) as usize);
        if from < layout::STRINGS_AT {
            return &[];
        }
        from.checked_add(len).and_then(|to| self.block.get(from..to)).unwrap_or(&[])
    }

    /// Requested interval of allocation samples in octets; `None`: allocations were not sampled.
    #[must_use]
    pub fn alloc_interval(&self) -> Option<u64> {
        Some(self.header_word(at::ALLOC_INTERVAL)).filter(|interval| *interval != 0)
    }

    /// What serves malloc in the process. An unknown number counts as not known.
    #[must_use]
    pub fn alloc_server(&self) -> AllocServer {
        AllocServer::from_number(self.header_word(at::ALLOC_SERVER)).unwrap_or(AllocServer::NotKnown)
    }

    /// Path of the object that serves malloc; empty = unknown.
    #[must_use]
    pub fn alloc_server_path(&self) -> &'a [u8] {
        self.string(self.header_word(at::ALLOC_SERVER_PATH))
    }

    /// Which kinds of waits are recorded ([`wait_door`]); 0 = none.
    #[must_use]
    pub fn wait_doors(&self) -> u64 {
        self.header_word(at::WAIT_DOORS)
    }

    /// Records of waits: how many were written, and how many were lost.
    #[must_use]
    pub fn wait_records(&self) -> (u64, u64) {
        (self.header_word(at::WAIT_RECORDS), self.header_word(at::WAIT_RECORDS_LOST))
    }

    /// Version: major, minor.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "the low half")]
    pub fn version(&self) -> (u32, u32) {
        let version = self.header_word(at::VERSION);
        ((version >> 32) as u32, version as u32)
    }

    /// State. An unknown number counts as armed.
    #[must_use]
    pub fn state(&self) -> State {
        State::from_number(self.header_word(at::STATE)).unwrap_or(State::Armed)
    }

    /// Process id in the outermost visible namespace, or else in the process's own.
    #[must_use]
    pub fn pid(&self) -> u32 {
        match self.id(at::PID) {
            0 => self.ns_pid(),
            pid => pid,
        }
    }

    /// Process id in the process's own namespace.
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
        self.header_word(at::START_TICKS)
    }

    /// Boot id, 16 bytes.
    #[must_use]
    pub fn boot_id(&self) -> [u8; 16] {
        let mut id = [0; 16];
        for (i, byte) in id.iter_mut().enumerate() {
            *byte = self.header_word(at::BOOT_ID + i / 8).to_le_bytes()[i % 8];
        }
        id
    }

    /// The recorder. An unknown number counts as the log.
    #[must_use]
    pub fn recorder(&self) -> Recorder {
        Recorder::from_number(self.header_word(at::RECORDER)).unwrap_or(Recorder::Log)
    }

    /// Requested clock.
    #[must_use]
    pub fn clock_asked(&self) -> Option<Clock> {
        Clock::from_number(self.header_word(at::CLOCK_ASKED))
    }

    /// Clock in use.
    #[must_use]
    pub fn clock_got(&self) -> Option<Clock> {
        Clock::from_number(self.header_word(at::CLOCK_GOT))
    }

    /// Requested rate, in Hz of CPU time.
    #[must_use]
    pub fn rate_asked_hz(&self) -> f64 {
        self.header_word(at::RATE_ASKED) as f64 / 1000.0
    }

    /// Rate that the clock in use can deliver, in Hz of CPU time.
    #[must_use]
    pub fn rate_got_hz(&self) -> f64 {
        self.header_word(at::RATE_GOT) as f64 / 1000.0
    }

    /// Kernel ticks per second; 0 = unknown.
    #[must_use]
    pub fn tick_hz(&self) -> u64 {
        self.header_word(at::HZ)
    }

    /// Nanoseconds of CPU time per unit of weight; never 0.
    #[must_use]
    pub fn period_ns(&self) -> u64 {
        self.header_word(at::PERIOD_NS).max(1)
    }

    /// The scale of raw times. An unknown number counts as nanoseconds.
    #[must_use]
    pub fn time_source(&self) -> TimeSource {
        TimeSource::from_number(self.header_word(at::TIME_SOURCE)).unwrap_or(TimeSource::MonotonicNs)
    }

    /// How stacks were walked.
    #[must_use]
    pub fn stack_mode(&self) -> StackMode {
        StackMode::from_number(self.header_word(at::STACK_MODE)).unwrap_or(StackMode::None)
    }

    /// Depth limit of stacks.
    #[must_use]
    pub fn depth(&self) -> u64 {
        self.header_word(at::DEPTH)
    }

    /// Arguments. The last one may be cut: see [`Header::argv_is_cut`].
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
        self.header_word(at::ARGV_BYTES) > self.text(Text::Argv).len() as u64
    }

    /// Build-id of the executable; empty = none.
    #[must_use]
    pub fn build_id(&self) -> &'a [u8] {
        let len = self.header_word(at::BUILD_ID_BYTES).min(32) as usize;
        self.block.get(at::BUILD_ID * 8..at::BUILD_ID * 8 + len).unwrap_or(&[])
    }

    /// The first anchor.
    #[must_use]
    pub fn first_anchor(&self) -> Anchor {
        Anchor {
            raw: self.header_word(at::FIRST_ANCHOR),
            monotonic_ns: self.header_word(at::FIRST_ANCHOR + 1),
            realtime_ns: self.header_word(at::FIRST_ANCHOR + 2),
        }
    }

    /// The latest anchor. `None`: it was just being written, or never was.
    #[must_use]
    pub fn latest_anchor(&self) -> Option<Anchor> {
        let sequence = self.header_word(at::LATEST_ANCHOR);
        (sequence != 0 && sequence.is_multiple_of(2)).then(|| Anchor {
            raw: self.header_word(at::LATEST_ANCHOR + 1),
            monotonic_ns: self.header_word(at::LATEST_ANCHOR + 2),
            realtime_ns: self.header_word(at::LATEST_ANCHOR + 3),
        })
    }

    /// CPU time of the process at its latest anchor, in ns: user, system. `None` = unknown.
    #[must_use]
    pub fn cpu_ns(&self) -> Option<(u64, u64)> {
        match (self.header_word(at::USER_NS), self.header_word(at::SYSTEM_NS)) {
            (0, 0) => None,
            times => Some(times),
        }
    }

    /// Why sampling is off for good. `None`: it is not, or the program asked for it.
    #[must_use]
    pub fn off_for(&self) -> Option<OffFor> {
        OffFor::from_number(self.header_word(at::OFF_FOR))
    }

    /// The sampler's own system calls that the kernel refused, if any.
    pub fn refusals(&self) -> impl Iterator<Item = Refusal> + use<'a> {
        let header = *self;
        Wanted::ALL.into_iter().filter_map(move |wanted| {
            let word = header.header_word(at::REFUSALS + wanted as usize);
            let (times, errno) = (word >> 32, word & u64::from(u32::MAX));
            (times != 0).then(|| Refusal { wanted, times, errno: i32::try_from(errno).unwrap_or(0) })
        })
    }

    /// Causes with losses, as counted in the header. They include samples overwritten by a wrap.
    pub fn losses(&self) -> impl Iterator<Item = Loss> + use<'a> {
        let header = *self;
        LossCause::ALL.iter().filter_map(move |cause| {
            let pair = at::LOSSES + 2 * *cause as usize;
            let loss = Loss {
                cause: *cause,
                samples: header.header_word(pair),
                weight: header.header_word(pair + 1),
            };
            (loss.samples != 0 || loss.weight != 0).then_some(loss)
        })
    }
}
