//! One sampled process image: its memory, its start and end, fork and exec.
//!
//! All state of the sampler is one private mapping that the child of a fork finds wiped ([`Session::alive`] is zero then):
//! a child can neither write to its parent's file nor believe in its parent's clocks, whatever way it was made. What a
//! child needs to begin anew (options, arguments, paths) is in [`Seed`], which is copied by fork like any memory.
//!
//! Signal safety: see each function; [`current`] is two loads.

use core::cell::UnsafeCell;
use core::mem::offset_of;
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU32, AtomicU64, Ordering};

use crate::code::python::Python;
use crate::code::regions::{List, Regions};
use crate::heap::{self, Heap};
use crate::process::options::Options;
use crate::process::own_path;
use crate::record::chain::Chain;
use crate::record::codes::Codes;
use crate::record::log::{Log, PATH_BYTES};
use crate::record::rings::Rings;
use crate::record::stacks::Stacks;
use crate::record::time::Instant;
use crate::signal::clock::{self, inherited::Inherited};
use crate::signal::spent::Spent;
use crate::sys::lock::{Guard, Lock};
use crate::sys::text::Buf;
use crate::{
    code::callers, process::births, process::housekeeper, process::threads, signal::bus, signal::numbers, sys,
};
use pct_format::layout::header as at;
use pct_format::{Clock, Recorder, State};
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
    /// Last part of the executable's path, where it decides whether the program is sampled; else empty.
    pub name: Buf<64>,
    /// Arguments, each with its NUL.
    pub argv: Buf<ARGV_BYTES>,
    /// Path of the file of the process that forked this one; empty = none.
    pub parent: Buf<PATH_BYTES>,
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
        }
    }
}

struct SeedCell(UnsafeCell<Seed>);

// SAFETY: written only while no session is on (constructor, or `pct_on` under START), read afterwards.
unsafe impl Sync for SeedCell {}

static SEED: SeedCell = SeedCell(UnsafeCell::new(Seed::new()));
/// Held while sampling is switched on or off.
static START: Lock<()> = Lock::new(());
/// Whether sampling was on when the process forked: said by the parent, read by the child.
static WAS_ON: AtomicBool = AtomicBool::new(false);
/// A filter on system calls is in force. Forked children inherit it, and have this with it: nothing is begun in them.
static FILTERED: AtomicBool = AtomicBool::new(false);
static SESSION: AtomicPtr<Session> = AtomicPtr::new(core::ptr::null_mut());

/// The seed.
#[must_use]
pub fn seed() -> &'static Seed {
    // SAFETY: nobody writes it while somebody reads: see SeedCell.
    unsafe { &*SEED.0.get() }
}

/// Changes the seed. Only the constructor and `pct_on` do, while nothing is sampled.
pub fn with_seed<R>(f: impl FnOnce(&mut Seed) -> R) -> Option<R> {
    let _alone = alone();
    let _guard = START.lock_patiently()?;
    if current().is_some_and(|s| s.on.load(Ordering::Relaxed)) {
        return None;
    }
    // SAFETY: START is held and no session is on, so no handler reads it.
    Some(f(unsafe { &mut *SEED.0.get() }))
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
}

/// The state of a sampled process image. All zeros is a session of nobody.
///
/// What every process touches, also one that ends without a sample, lies together on one page in the middle: from the end of
/// `log` to the first slot of `rings`. The first touch of a page costs 1 to 3 us. The large tables lie before and behind.
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
    filtered: AtomicBool,
    /// The file could not be made.
    pub failed: AtomicBool,
    /// It was said that the process ends without a sample.
    told: AtomicBool,
    /// Regions are changing and were not looked at since.
    pub changing: AtomicBool,
    /// Somebody saw a change of regions or threads: the housekeeper should come soon.
    pub stale: AtomicBool,
    /// Settings.
    pub settings: Settings,
    /// Regions, for the recorder `counts`.
    pub regions: Regions,
    /// The interpreter of the process.
    pub python: Python,
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
    /// Threads: the first slot follows at once.
    pub rings: Rings,
    /// Writer of the keep segments.
    pub keep: Lock<Chain>,
    /// What the housekeeper works with.
    pub house: Lock<House>,
    /// Where the file was asked to be: [`place_of`] of the seed; 0 = there is none yet.
    pub opened_for: AtomicU64,
    /// How often the file could not be made for a reason that may pass.
    pub tries: AtomicU32,
    /// Rules of unwinding found before.
    pub rules: Cache,
    /// Table of stacks.
    pub stacks: Stacks,
    /// Perf events that all threads inherit.
    pub inherited: Inherited,
    /// Functions of interpreted languages.
    pub codes: Codes,
    /// Allocation samples.
    pub heap: Heap,
}

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
pub struct Quiet(sys::SignalSet);

/// Blocks our signals in the calling thread: around what the host wants done and we do not want to interrupt.
#[must_use]
pub fn quiet() -> Quiet {
    let ours = current().filter(|s| s.may_call()).map_or(0, Session::signals);
    Quiet(if ours == 0 { 0 } else { ours & !sys::sigmask(sys::Mask::Block, ours) })
}

/// Blocks every signal but those of faults in the calling thread: around our own work under a lock. A handler of the host's
/// that jumped out of it (longjmp, cancellation) would leave the lock taken for good.
#[must_use]
pub fn alone() -> Quiet {
    if FILTERED.load(Ordering::Relaxed) {
        return Quiet(0);
    }
    Quiet(!sys::FAULTS & !sys::sigmask(sys::Mask::Block, !sys::FAULTS))
}

impl Drop for Quiet {
    fn drop(&mut self) {
        // Only those that we blocked: the host's own choice stays.
        if self.0 != 0 {
            sys::sigmask(sys::Mask::Unblock, self.0);
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

    /// Sampling starts again in the file that is there, and a period of `asked_ns` is asked for: gives the one to take.
    ///
    /// Segments of samples say what theirs is; counters cannot, being sums over the life of the file: its own period stays.
    fn go_on(&self, asked_ns: u64) -> u64 {
        let own = self.log.header(at::PERIOD_NS).map_or(asked_ns, |period| period.load(Ordering::Relaxed));
        if !self.counts() {
            self.log.restart(asked_ns);
            return asked_ns;
        }
        if own != asked_ns {
            crate::process::file::report(
                b"counters cannot change their rate: they go on at the rate that their file began with",
            );
        }
        own
    }

    /// Whether nobody is in it any more: it is off, and another one has been on since. (In the child of a fork what it refers to is
    /// not mapped.)
    fn is_left(&self) -> bool {
        !self.on.load(Ordering::Relaxed)
            && self.pid.load(Ordering::Relaxed) == sys::getpid()
            && self.rings.are_left()
            && self.house.try_lock().is_some()
            && self.keep.try_lock().is_some()
    }

    /// Unmaps its file and its tables; it is as fresh as from [`fresh_session`] then. [`Session::is_left`] was true.
    fn give_back(&self) {
        self.log.unmap();
        self.stacks.unmap();
        self.codes.unmap();
        self.heap.unmap();
        self.rings.unmap();
        let at = core::ptr::from_ref(self).cast_mut().cast::<u8>();
        // SAFETY: our own mapping, whose contents nobody wants any more; every field is valid as zeros, and all are atomics or cells
        // that nobody has borrowed.
        let _ = unsafe { sys::madvise(at, size_of::<Session>(), sys::MADV_DONTNEED) };
    }

    /// From now on no system call may be made, neither here nor in the children.
    pub fn forbid_calls(&self) {
        FILTERED.store(true, Ordering::SeqCst);
        self.filtered.store(true, Ordering::SeqCst);
    }

    /// Whether system calls may be made in handlers.
    #[inline(always)]
    #[must_use]
    pub fn may_call(&self) -> bool {
        !self.filtered.load(Ordering::Relaxed)
    }
}

/// Keeps others from switching sampling on or off while the answer lives.
pub(crate) fn switching() -> Option<Guard<'static, ()>> {
    START.lock_patiently()
}

/// [`switching`] for a handler, which does not wait.
pub(super) fn try_switching() -> Option<Guard<'static, ()>> {
    START.try_lock()
}

/// Starts sampling this process as the seed says. Arms the calling thread; the housekeeper finds the others.
///
/// # Errors
/// Nothing was changed in the host but unused memory of ours.
pub fn start() -> Result<&'static Session, Refused> {
    let Some(guard) = START.lock_patiently() else { return Err(Refused::Busy) };
    let session = match current() {
        Some(session) if session.on.load(Ordering::Relaxed) => return Err(Refused::AlreadyOn),
        Some(session)
            if session.log.is_open() && session.opened_for.load(Ordering::Relaxed) != place_of(seed()) =>
        {
            another_session(false)?
        }
        Some(session) => session,
        None => map_session()?,
    };
    start_in(session, &guard, false)
}

/// Starts sampling in a session that is off.
pub(super) fn start_in(
    session: &'static Session,
    _switching: &Guard<'_, ()>,
    in_handler: bool,
) -> Result<&'static Session, Refused> {
    let options = &seed().options;
    if options.clock == Clock::Wall {
        return Err(Refused::WallNeedsController);
    }
    bus::guard();
    let settings = &session.settings;
    settings.recorder.store(options.mode as u32, Ordering::Relaxed);
    settings.stack.store(options.stack as u32, Ordering::Relaxed);
    settings.depth.store(options.depth.clamp(1, 60_000) as u32, Ordering::Relaxed);
    session.pid.store(sys::getpid(), Ordering::Relaxed);
    session.due.store(0, Ordering::Relaxed);
    // What stood in the way of a file may be gone by now.
    session.failed.store(false, Ordering::Relaxed);
    session.tries.store(0, Ordering::Relaxed);
    session.told.store(false, Ordering::Relaxed);
    session.stale.store(true, Ordering::Relaxed);
    super::rotation::set_up(session, options);
    session.spent.on();
    // The whole answer lies in /proc and costs a third of a start. A debugger that comes by another way is seen later.
    let traced = sys::addresses_are_fixed() && threads::is_traced();
    settings.traced.store(traced, Ordering::Relaxed);
    heap::set_up(session);
    let mut choice = clock::first_choice(options.clock, options.hz);
    loop {
        settings.clock.store(choice.clock as u32, Ordering::Relaxed);
        settings.period_ns.store(choice.period_ns, Ordering::Relaxed);
        settings.expected_mhz.store(choice.expected_mhz, Ordering::Relaxed);
        if choice.errno != 0 && settings.clock_errno.load(Ordering::Relaxed) == 0 {
            settings.clock_errno.store(choice.errno, Ordering::Relaxed);
        }
        if choice.clock == Clock::Sigtrap
            && options.clock == Clock::Auto
            && (options.signal != 0 || seed().controller != 0 || traced)
        {
            // Another signal is asked for; or a tracer would see every trap; or we were attached, where the program cannot take
            // SIGTRAP back from us.
            choice = clock::Chosen { clock: Clock::Perf, ..choice };
            continue;
        }
        if session.log.is_open() {
            settings.period_ns.store(session.go_on(choice.period_ns), Ordering::Relaxed);
        }
        if let Err(refused) = numbers::install(session, options.signal) {
            // A program that handles SIGTRAP itself: the same event with another signal.
            choice = match choice.clock {
                Clock::Sigtrap => clock::Chosen { clock: Clock::Perf, ..choice },
                failed => clock::next_choice(options.clock, failed, options.hz, 0).ok_or(refused)?,
            };
            continue;
        }
        session.alive.store(ALIVE, Ordering::Relaxed);
        session.on.store(true, Ordering::Relaxed);
        WAS_ON.store(true, Ordering::Relaxed);
        // Release: whoever finds the session finds it ready; signals may come from here on.
        SESSION.store(core::ptr::from_ref(session).cast_mut(), Ordering::Release);
        match threads::arm_first(session, in_handler) {
            Ok(()) => break,
            Err(e) => {
                session.on.store(false, Ordering::Relaxed);
                match clock::next_choice(options.clock, choice.clock, options.hz, e.0) {
                    Some(next) => choice = next,
                    None => return Err(Refused::Clock(e)),
                }
            }
        }
    }
    if session.log.is_open() {
        session.log.header_set(at::STATE, State::Armed as u64);
    }
    heap::start(session);
    Ok(session)
}

/// Memory for a session: wiped in the child of a fork, where the same range is used again.
fn map_session() -> Result<&'static Session, Refused> {
    let old = SESSION.load(Ordering::Acquire);
    if !old.is_null() {
        // The child of a fork: the kernel wiped it.
        callers::in_child();
        // SAFETY: mapped for good, all zeros is a valid session, and nobody else lives in this process yet.
        return Ok(unsafe { &*old });
    }
    fresh_session()
}

fn fresh_session() -> Result<&'static Session, Refused> {
    let bytes = size_of::<Session>();
    let memory = sys::map_memory(bytes).map_err(Refused::Memory)?;
    // SAFETY: fresh memory of our own. Kernels before 4.14 do not wipe; then `start_in_child` is told by its pid.
    let _ = unsafe { sys::madvise(memory, bytes, sys::MADV_WIPEONFORK) };
    // SAFETY: as above. Of these megabytes most processes touch one page.
    let _ = unsafe { sys::madvise(memory, bytes, sys::MADV_NOHUGEPAGE) };
    // SAFETY: zeroed, page-aligned memory of the right size that is never unmapped; every field is valid as zeros.
    Ok(unsafe { &*memory.cast::<Session>() })
}

/// A number that tells places of files apart (FNV-1a). Each start by a controller has a file of its own: two attaches are two
/// recordings, wherever they go.
pub(crate) fn place_of(seed: &Seed) -> u64 {
    let hash = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
    let started = if seed.controller == 0 { 0 } else { seed.started.anchor().monotonic_ns };
    let place = seed.out.bytes().iter().fold(0xcbf2_9ce4_8422_2325, hash);
    started.to_ne_bytes().iter().fold(place, hash) | 1
}

/// The session before the current one, if there was one. START is held where it is touched.
static SPARE: AtomicPtr<Session> = AtomicPtr::new(core::ptr::null_mut());

/// For a start that asks for its file in another place than the last one's. The old session stays as it is: a handler that was
/// about to end may still be in it. The one before the old one is given back and begins anew: two serve any number of starts. If a
/// thread is still in it, `patient` callers try again later, others get a third.
pub(super) fn another_session(patient: bool) -> Result<&'static Session, Refused> {
    let spare = SPARE.load(Ordering::Relaxed);
    // SAFETY: once mapped, always mapped.
    let session = match unsafe { spare.as_ref() } {
        // The child of a fork: the kernel wiped it.
        Some(spare) if spare.pid.load(Ordering::Relaxed) == 0 => spare,
        Some(spare) if spare.is_left() => {
            spare.give_back();
            spare
        }
        Some(_) if patient => return Err(Refused::Busy),
        _ => fresh_session()?,
    };
    SPARE.store(SESSION.load(Ordering::Acquire), Ordering::Relaxed);
    own_path::forget();
    Ok(session)
}

/// Stops sampling: clocks are disarmed, the handlers stay and do nothing. The file stays open for another start.
pub fn stop(session: &Session, state: State) {
    let _alone = alone();
    let Some(_guard) = START.lock_patiently() else { return };
    if !session.on.swap(false, Ordering::Relaxed) {
        return;
    }
    WAS_ON.store(false, Ordering::Relaxed);
    heap::stop(session);
    {
        // A round in another thread arms clocks; later rounds see that it is off.
        let _house = session.house.lock_patiently();
        housekeeper::stop_watching(session);
        threads::disarm_all(session);
        numbers::drop_pending(session);
    }
    close(session, state);
    session.spent.off();
}

/// A filter on system calls may be set from now on in a way that nobody sees: no signal of ours may come, and no call
/// be made. True if sampling was on. [`resume`] takes it back.
pub fn pause(session: &Session) -> bool {
    if !session.on.load(Ordering::Relaxed) {
        return false;
    }
    stop(session, State::Stopped);
    // Somebody else is switching, and has not come to an end for a second.
    if session.on.load(Ordering::Relaxed) {
        return false;
    }
    numbers::release(session);
    session.forbid_calls();
    true
}

/// Ends a pause: the filter was seen, and it lets our handlers return.
pub fn resume(session: &Session) {
    FILTERED.store(false, Ordering::SeqCst);
    session.filtered.store(false, Ordering::SeqCst);
    if let Err(refused) = start()
        && refused != Refused::AlreadyOn
    {
        crate::process::file::report(b"sampling could not be resumed under the filter on system calls");
    }
}

/// Writes what is known at the end: anchors, CPU times, state. The clocks may go on.
pub fn close(session: &Session, state: State) {
    if !session.log.is_open() {
        say_without_sample(session);
        return;
    }
    if !session.may_call() {
        // Under a filter on system calls the header's state word is all that can be written.
        session.log.header_set(at::STATE, state as u64);
        return;
    }
    let _alone = alone();
    if let Some(mut house) = session.house.lock_patiently() {
        housekeeper::note_times(session, &mut house);
        session.log.header_set(at::STATE, state as u64);
    }
}

/// The process (or this image of it) ends, and no sample fell into its time.
pub(crate) fn say_without_sample(session: &Session) {
    if session.failed.load(Ordering::Relaxed)
        // Samples are in the files before this one.
        || session.rotations.load(Ordering::Relaxed) != 0
        || !session.may_call()
        || session.told.swap(true, Ordering::Relaxed)
    {
        return;
    }
    let seed = seed();
    let all = sys::rusage_ns(sys::RUSAGE_SELF);
    let (user, system) = session.spent.while_on(all);
    let used = user.saturating_add(system);
    if !seed.out_is_template {
        let all = all.0.saturating_add(all.1);
        crate::process::status::without_sample(seed.places(), seed.called(), used, all);
    }
    if used > ENOUGH_PERIODS * session.settings.period_ns.load(Ordering::Relaxed) {
        explain(session);
    }
}

/// So many periods without one sample are no chance (e^-20 for the ideal sampler).
const ENOUGH_PERIODS: u64 = 20;

/// Says why a process that used enough time ends without a sample.
fn explain(session: &Session) {
    if session.tries.load(Ordering::Relaxed) > 0 {
        crate::process::file::report(
            b"its file could not be made: no descriptor was free, or no memory, whenever it was tried",
        );
        return;
    }
    if numbers::still_ours(session) && sys::sigmask(sys::Mask::Block, 0) & session.signals() != 0 {
        crate::process::file::report(
            b"the program blocks the sampling signal all the time: it cannot be sampled",
        );
    }
}

/// Begins anew in a child that was made in a way that nobody saw (raw clone): called where the host passes by.
#[inline]
pub fn revive() {
    if current().is_none() && !SESSION.load(Ordering::Relaxed).is_null() {
        start_in_child();
    }
}

/// In the child of a fork: begins anew, with own file, rings and clocks, if forks are followed and the parent was sampled.
pub fn start_in_child() {
    let session = SESSION.load(Ordering::Relaxed);
    if session.is_null() || current().is_some() || FILTERED.load(Ordering::Relaxed) {
        return;
    }
    START.free_in_child();
    housekeeper::stack_in_child();
    // SAFETY: the only thread of a fresh process; no session is alive, so no handler reads the seed.
    let seed = unsafe { &mut *SEED.0.get() };
    own_path::take(&mut seed.parent);
    // (Not the time before that: a process that forbids itself to read the counter has switched sampling off.)
    if seed.options.follow.fork && WAS_ON.load(Ordering::Relaxed) {
        seed.started = Instant::now();
        births::in_child();
        let _ = start();
    }
}
