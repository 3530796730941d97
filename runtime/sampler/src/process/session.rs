//! One sampled process image: its memory, and what is known of it from its start. [`super::life`] starts and ends it.
//!
//! All state of the sampler is one private mapping that the child of a fork finds wiped ([`Session::alive`]
//! is zero then): a child can neither write to its parent's file nor believe in its parent's clocks, whatever
//! way it was made. What a child needs to begin anew (options, arguments, paths) is in [`Seed`], which is
//! copied by fork like any memory.
//!
//! Signal safety: see each function; [`current`] is two loads.

use core::cell::UnsafeCell;
use core::mem::offset_of;
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, Ordering};

use crate::code::interpreter::{Java, JavaScript, Python};
use crate::code::regions::{List, Regions};
use crate::heap::state::Heap;
use crate::process::options::Options;
use crate::process::refusals::Refusals;
use crate::record::chain::Chain;
use crate::record::codes::Codes;
use crate::record::log::{Log, PATH_BYTES};
use crate::record::rings::Rings;
use crate::record::stacks::Stacks;
use crate::record::time::Instant;
use crate::signal::clock::inherited::Inherited;
use crate::signal::front;
use crate::signal::spent::{Spent, SpentByChildren};
use crate::signal::stores_may_fault::StoresMayFault;
use crate::sys::lock::{Guard, Lock};
use crate::sys::text::Buf;
use crate::sys::{self, CStr};
use pct_format::{Clock, Recorder};
use pct_unwind::Cache;

/// [`Session::alive`] of the process that made the session.
const ALIVE: u64 = 0x7063_745f_6c69_7665;

/// Most bytes of arguments that are kept.
pub const ARGV_BYTES: usize = 4096;

/// What is known from the start of the image, and what a forked child begins with.
///
/// What every start writes comes first, on one page; of the arguments that is their beginning.
#[derive(Debug)]
#[repr(C)]
pub struct Seed {
    /// Options.
    pub options: Options,
    /// When the image started, on all scales.
    pub started: Instant,
    /// Addresses of pct_on, pct_off, pct_stat, image base.
    pub entries: [u64; 4],
    /// Process id of the controller that attached, 0 = none.
    pub controller: u32,
    /// Whether `out` is a template.
    pub out_is_template: bool,
    /// Number of arguments, and bytes of them all.
    pub argc: u64,
    /// Bytes of all arguments.
    pub argv_bytes: u64,
    /// The options' text.
    pub options_text: Buf<1024>,
    /// Absolute directory for files, or template (with `%`).
    pub out: Buf<1024>,
    /// Arguments, each with its NUL.
    pub argv: Buf<ARGV_BYTES>,
    /// Last part of the executable's path, where it decides whether the program is sampled; else empty.
    pub name: Buf<64>,
    /// Path of the file of the process that forked this one; empty = none.
    pub parent: Buf<PATH_BYTES>,
    /// Path of the file in which answers about objects are kept, with its NUL; empty = the user has none.
    pub answers: Buf<256>,
}

const _: () = assert!(offset_of!(Seed, argv) < 4032, "what a start writes is on one page");

/// The last part of a path.
pub(crate) fn last_part(path: &[u8]) -> &[u8] {
    path.rsplit(|b| *b == b'/').next().unwrap_or(path)
}

impl Seed {
    /// Directories to write to, in this order; the second may be empty.
    pub fn places(&self) -> [&[u8]; 2] {
        [self.out.bytes(), self.options.spare.bytes()]
    }

    /// Path of the file in which answers about objects are kept.
    pub(crate) fn answers(&self) -> Option<CStr<'_>> {
        CStr::new(self.answers.bytes())
    }

    /// What the program was called by, without its folder: known without a system call.
    pub(crate) fn called(&self) -> &[u8] {
        last_part(self.argv.bytes().split(|b| *b == 0).next().unwrap_or(&[]))
    }

    const fn new() -> Self {
        Seed {
            options: Options::new(),
            started: Instant::ZERO,
            entries: [0; 4],
            controller: 0,
            out_is_template: false,
            argc: 0,
            argv_bytes: 0,
            options_text: Buf::new(),
            out: Buf::new(),
            name: Buf::new(),
            argv: Buf::new(),
            parent: Buf::new(),
            answers: Buf::new(),
        }
    }
}

struct SeedCell(UnsafeCell<Seed>);

// SAFETY: written only while no session is on (constructor, or `pct_on` under START), read afterwards.
unsafe impl Sync for SeedCell {}

static SEED: SeedCell = SeedCell(UnsafeCell::new(Seed::new()));
/// Held while sampling is switched on or off.
pub(super) static START: Lock<()> = Lock::new(());
/// Whether sampling was on when the process forked: said by the parent, read by the child.
pub(super) static WAS_ON: AtomicBool = AtomicBool::new(false);
/// A filter on system calls is in force. Forked children inherit it, and have this with it: nothing is begun in them.
pub(super) static FILTERED: AtomicBool = AtomicBool::new(false);
pub(super) static SESSION: AtomicPtr<Session> = AtomicPtr::new(core::ptr::null_mut());
/// The session before the current one, if there was one. Changed only while START is held.
pub(super) static SPARE: AtomicPtr<Session> = AtomicPtr::new(core::ptr::null_mut());

/// The seed.
#[must_use]
pub fn seed() -> &'static Seed {
    // SAFETY: nobody writes it while somebody reads: see SeedCell.
    unsafe { &*SEED.0.get() }
}

/// Changes the seed. Only the constructor and `pct_on` do, while nothing is sampled.
pub fn with_seed<R>(f: impl FnOnce(&mut Seed) -> R) -> Option<R> {
    let _alone = alone();
    let _guard = START.lock_patiently(true)?;
    if current().is_some_and(|s| s.on.load(Ordering::Relaxed)) {
        return None;
    }
    // SAFETY: START is held and no session is on, so no handler reads it.
    Some(f(unsafe { &mut *SEED.0.get() }))
}

/// The seed of a forked child, to be changed before anything is started in it.
///
/// # Safety
/// The caller is the only thread of a process that has no session yet.
pub(super) unsafe fn seed_of_child() -> &'static mut Seed {
    // SAFETY: by the caller's promise nobody else reads or writes it.
    unsafe { &mut *SEED.0.get() }
}

/// A new file of the same image begins now.
pub(super) fn seed_begins_anew(_switching: &Guard<'_, ()>) {
    // SAFETY: the caller holds START and has switched the session off, so nobody reads or writes it.
    unsafe { (*SEED.0.get()).started = Instant::now() };
}

/// Settings that a handler reads: private memory, set before the first clock is armed.
#[derive(Debug)]
#[repr(C)]
pub struct Settings {
    /// [`Recorder`] number.
    pub recorder: AtomicU32,
    /// [`Clock`] number.
    pub clock: AtomicU32,
    /// Nominal period in ns: a sample's unit of weight.
    pub period_ns: AtomicU64,
    /// Rate expected, in thousandths of a hertz.
    pub expected_mhz: AtomicU64,
    /// Why the first choice of clock was refused.
    pub clock_errno: AtomicI32,
    /// Signal of the sampling clock.
    pub signal: AtomicI32,
    /// Signal of the tick timers.
    pub tick_signal: AtomicI32,
    /// [`pct_format::StackMode`] number.
    pub stack: AtomicU32,
    /// Depth limit.
    pub depth: AtomicU32,
    /// A debugger was seen: the signals are those that debuggers let pass.
    pub traced: AtomicBool,
    /// Time in the kernel is sampled with its calls there.
    pub kernel: AtomicBool,
    /// Why it is not although it was asked for: an error number, 0 = it is, or nobody asked.
    pub kernel_errno: AtomicU8,
}

// What follows in the session, up to the first thread's slot, lies well in the lines of the cache: eight more
// bytes here cost each sample 12 ns.
const _: () = assert!(size_of::<Settings>() == 48);

/// The state of a sampled process image. All zeros is a session of nobody.
///
/// What every process touches, also one that ends without a sample, lies together on one page in the middle:
/// from the end of `log` to the first slot of `rings`. The first touch of a page costs 1 to 3 us. The large
/// tables lie before and behind.
#[derive(Debug)]
#[repr(C)]
pub struct Session {
    /// The file. Its last words are what every sample touches: together with the fields that follow some cache lines.
    pub log: Log,
    /// `ALIVE` in the process that made it.
    alive: AtomicU64,
    /// Process id.
    pub pid: AtomicU32,
    /// Samples are taken.
    pub on: AtomicBool,
    /// A filter on system calls is in force: none may be made in handlers.
    pub(super) filtered: AtomicBool,
    /// The file could not be made.
    pub failed: AtomicBool,
    /// It was said that the process ends without a sample.
    pub(super) told: AtomicBool,
    /// Regions are changing and were not looked at since.
    pub changing: AtomicBool,
    /// Somebody saw a change of regions or threads: the housekeeper should come soon.
    pub stale: AtomicBool,
    /// How often the file could not be made for a reason that may pass.
    pub tries: AtomicU32,
    /// Settings.
    pub settings: Settings,
    /// Regions, for the recorder `counts`.
    pub regions: Regions,
    /// The interpreter of the process.
    pub python: Python,
    /// The Java virtual machine of the process.
    pub java: Java,
    /// The V8 of the process.
    pub javascript: JavaScript,
    /// CPU time used while off.
    pub spent: Spent,
    /// CLOCK_MONOTONIC ns at which the next file is begun, 0 = never.
    pub rotate_at: AtomicU64,
    /// Files of this image before this one.
    pub rotations: AtomicU64,
    /// Raw time at which the housekeeper is due.
    pub due: AtomicU64,
    /// CLOCK_MONOTONIC ns of the last look at the regions for a change of the loader's.
    pub looked: AtomicU64,
    /// CLOCK_MONOTONIC ns of the last look for a debugger.
    pub looked_for_tracer: AtomicU64,
    /// The process's timer: id + 1, 0 = none.
    pub watch: AtomicI32,
    /// Where the file was asked to be: [`place_of`] of the seed; 0 = no file was made yet.
    pub opened_for: AtomicU64,
    /// CPU time used by children.
    pub spent_by_children: SpentByChildren,
    /// Perf events that all threads inherit.
    pub inherited: Inherited,
    /// Threads: the first slot follows at once.
    pub rings: Rings,
    /// Writer of the keep segments.
    pub keep: Lock<Chain>,
    /// What the housekeeper works with.
    pub house: Lock<House>,
    /// Rules of unwinding found before.
    pub rules: Cache,
    /// Table of stacks.
    pub stacks: Stacks,
    /// Functions of interpreted languages.
    pub codes: Codes,
    /// Allocation samples.
    pub heap: Heap,
    /// What the sampler asked the kernel for in vain.
    pub refusals: Refusals,
}

// In the second of two lines of the cache that belong together, where the cost of a sample was measured.
const _: () = assert!(offset_of!(Session, rings) % 128 == 64);

const _: () = {
    let first = offset_of!(Session, log) + Log::HOT_AT;
    let last = offset_of!(Session, rings) + Rings::SECOND_SLOT_AT;
    assert!(first / 4096 == (last - 1) / 4096, "what a short process touches is on one page");
};

/// The housekeeper's things.
#[derive(Debug)]
#[repr(C)]
pub struct House {
    /// Writer of the process's ring.
    pub process: Chain,
    /// Regions known.
    pub list: List,
    /// For directory entries and small files.
    pub buffer: [u8; 4096],
    /// For records.
    pub record: [u64; 256],
    /// Rounds made.
    pub rounds: u64,
    /// A PC whose region needs counters.
    pub wanted_pc: u64,
}

/// The session of this process, if it has one. Two loads: for handlers.
#[inline(always)]
#[must_use]
pub fn current() -> Option<&'static Session> {
    let session = SESSION.load(Ordering::Acquire);
    if session.is_null() {
        return None;
    }
    // SAFETY: the mapping is never unmapped; a fork's child finds it wiped, not gone.
    let session = unsafe { &*session };
    (session.alive.load(Ordering::Relaxed) == ALIVE).then_some(session)
}

/// The session before [`current`]: threads that were in its handler when the other took its place may still be there.
#[must_use]
pub(crate) fn before_current() -> Option<&'static Session> {
    // SAFETY: null, or a session, which is never unmapped; a fork's child finds it wiped.
    unsafe { SPARE.load(Ordering::Acquire).as_ref() }
}

/// Why sampling did not start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The kernel refused memory.
    Memory(sys::Errno),
    /// The clock asked for does not work.
    Clock(sys::Errno),
    /// The wall clock needs a controller.
    WallNeedsController,
    /// No signal is free.
    NoSignal,
    /// Somebody else is switching at this moment.
    Busy,
    /// It is on already.
    AlreadyOn,
}

/// Signals that are blocked while it lives.
#[derive(Debug)]
pub struct Quiet {
    /// Those that were open before.
    signals: sys::SignalSet,
    _stores: Option<StoresMayFault>,
}

/// Blocks our signals in the calling thread: around what the host wants done and we do not want to interrupt.
#[must_use]
pub fn quiet() -> Quiet {
    let ours = current().filter(|s| s.may_call()).map_or(0, Session::signals);
    let signals = if ours == 0 { 0 } else { ours & !sys::sigmask(sys::Mask::Block, ours) };
    Quiet { signals, _stores: None }
}

/// Blocks every signal but those of faults in the calling thread: around our own work under a lock. A handler
/// of the host's that jumped out of it (longjmp, cancellation) would leave the lock taken for good. Our work stores to
/// the file, so SIGBUS is open meanwhile.
#[must_use]
pub fn alone() -> Quiet {
    if FILTERED.load(Ordering::Relaxed) {
        return Quiet { signals: 0, _stores: None };
    }
    let mask = sys::sigmask(sys::Mask::Block, !sys::FAULTS);
    Quiet { signals: !sys::FAULTS & !mask, _stores: Some(StoresMayFault::under_mask(mask)) }
}

impl Quiet {
    /// The signals that were open before.
    pub(crate) fn signals(&self) -> sys::SignalSet {
        self.signals
    }
}

impl Drop for Quiet {
    fn drop(&mut self) {
        // Only those that we blocked: the host's own choice stays.
        if self.signals != 0 {
            sys::sigmask(sys::Mask::Unblock, self.signals);
        }
    }
}

impl Session {
    /// The signals in use.
    #[must_use]
    pub fn signals(&self) -> sys::SignalSet {
        sys::signal_bit(self.settings.signal.load(Ordering::Relaxed))
            | sys::signal_bit(self.settings.tick_signal.load(Ordering::Relaxed))
    }

    /// The clock in use.
    #[must_use]
    pub fn clock(&self) -> Clock {
        Clock::from_number(u64::from(self.settings.clock.load(Ordering::Relaxed))).unwrap_or(Clock::Thread)
    }

    /// Whether a controller switched it on.
    #[must_use]
    pub fn by_controller(&self) -> bool {
        seed().controller != 0
    }

    /// The recorder in use.
    #[must_use]
    pub fn counts(&self) -> bool {
        self.settings.recorder.load(Ordering::Relaxed) == Recorder::Counts as u32
    }

    /// Whether nobody lives in it: in the child of a fork, where the kernel has wiped it. Asked by a write, since its
    /// page is written next: what is read first is given twice, as a page of zeros and as one of its own.
    pub(super) fn is_wiped(&self) -> bool {
        self.alive.compare_exchange(0, 0, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// It is the process's session from now on, and samples are taken.
    pub(super) fn begin(&'static self) {
        self.alive.store(ALIVE, Ordering::Relaxed);
        self.on.store(true, Ordering::Relaxed);
        WAS_ON.store(true, Ordering::Relaxed);
        // Release: whoever finds the session finds it ready; signals may come from here on.
        SESSION.store(core::ptr::from_ref(self).cast_mut(), Ordering::Release);
    }

    /// From now on no system call may be made, neither here nor in the children.
    pub fn forbid_calls(&self) {
        front::masks_by_kernel(true);
        FILTERED.store(true, Ordering::SeqCst);
        self.filtered.store(true, Ordering::SeqCst);
    }

    /// Takes [`Session::forbid_calls`] back.
    pub(super) fn allow_calls(&self) {
        FILTERED.store(false, Ordering::SeqCst);
        self.filtered.store(false, Ordering::SeqCst);
        front::masks_by_kernel(false);
    }

    /// Whether system calls may be made in handlers.
    #[inline(always)]
    #[must_use]
    pub fn may_call(&self) -> bool {
        !self.filtered.load(Ordering::Relaxed)
    }
}

/// In the child of a process that had forbidden calls for a while, and was sampled before: takes that back.
pub(super) fn allow_in_child() {
    FILTERED.store(false, Ordering::SeqCst);
    front::masks_by_kernel(false);
    WAS_ON.store(true, Ordering::Relaxed);
}

/// Whether the program has set a filter on system calls. The filter may end the program when the sampler makes one.
/// This is for code that may run without a session; others ask [`Session::may_call`].
pub(crate) fn is_filtered() -> bool {
    FILTERED.load(Ordering::Relaxed)
}

/// Keeps others from switching sampling on or off while the answer lives.
pub(crate) fn switching() -> Option<Guard<'static, ()>> {
    START.lock_patiently(true)
}

/// [`switching`] for a handler, which does not wait.
pub(super) fn try_switching() -> Option<Guard<'static, ()>> {
    START.try_lock()
}

/// A number that tells places of files apart (FNV-1a). Each start by a controller has a file of its own: two
/// attaches are two recordings, wherever they go.
pub(crate) fn place_of(seed: &Seed) -> u64 {
    let hash = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
    let started = if seed.controller == 0 { 0 } else { seed.started.anchor().monotonic_ns };
    let place = seed.out.bytes().iter().fold(0xcbf2_9ce4_8422_2325, hash);
    started.to_ne_bytes().iter().fold(place, hash) | 1
}
