//! Making the file: its name, its header, what is recorded at once.
//!
//! The file is made when the first sample is due, in the handler, or before the host does something after
//! which it could not be made (a filter on system calls, another uid, another root).
//!
//! Signal safety: system calls and the housekeeper's try-lock.

use core::sync::atomic::{AtomicI32, Ordering};

use crate::code::walked_modules;
use crate::heap::facts::facts;
use crate::process::own_stack::on_own_stack;
use crate::process::report::report;
use crate::process::session::{self, House, Seed, Session};
use crate::process::{beside, bookkeeping, own_path, program_name, store};
use crate::record::log::PATH_BYTES;
use crate::record::time::{self, Instant};
use crate::sys;
use crate::sys::arch;
use crate::sys::text::Buf;
use pct_format::layout::{self, Text, header as at};
use pct_format::record::KernelJoin;
use pct_format::{Clock, Recorder, State};

/// Why the file could not be made when that was tried last, as an error number; 0 = it could.
static REFUSAL: AtomicI32 = AtomicI32::new(0);

/// Why the file could not be made when that was tried last.
pub(super) fn last_refusal() -> sys::Errno {
    match REFUSAL.load(Ordering::Relaxed) {
        // Not even a stack for that work could be had.
        0 => sys::Errno::ENOMEM,
        errno => sys::Errno(errno),
    }
}

/// Makes the file at once, for a controller that wants a recording of an idle process too, and the
/// reason if the file cannot be made.
///
/// # Errors
/// Why it cannot be made now.
pub fn make_now(session: &Session) -> sys::Result<()> {
    REFUSAL.store(0, Ordering::Relaxed);
    if session.log.is_open() || open_in_handler(session) {
        return Ok(());
    }
    match REFUSAL.load(Ordering::Relaxed) {
        // somebody else is making it
        0 => Ok(()),
        errno => Err(sys::Errno(errno)),
    }
}

/// Makes the file from a handler. False: it could not be made, or somebody else is at it.
#[cold]
#[inline(never)]
pub fn open_in_handler(session: &Session) -> bool {
    if session.failed.load(Ordering::Relaxed) || !session.may_call() || !session.on.load(Ordering::Relaxed) {
        return false;
    }
    let Some(mut house) = session.house.try_lock() else { return false };
    // Off: the file was changed while this thread had no processor.
    if !session.log.is_open() && session.on.load(Ordering::Relaxed) {
        on_own_stack(session, &mut house, |session, house| {
            open(session, house);
        });
    }
    session.log.is_open()
}

/// How long a wrapper waits, at most, while another thread makes the file.
const MOST_PAUSES: u32 = 4000;
const PAUSE_NS: u64 = 250_000;

/// Whether the file is there and stacks can be walked: whoever makes it opens it first and reads the code's unwind data
/// then.
pub fn is_ready(session: &Session) -> bool {
    session.log.is_open() && walked_modules::are_read(session)
}

/// Makes the file in a wrapper, which may wait while another thread makes it: a thread that did not would record a
/// stack without callers. False: there is no file. True also if the code could not be read.
#[cold]
#[inline(never)]
pub fn open_patiently(session: &Session) -> bool {
    if !session.may_call() {
        return session.log.is_open();
    }
    let _alone = session::alone();
    for _ in 0..MOST_PAUSES {
        // The second one takes the lock under which the file is made, so nobody is at it any more.
        if is_ready(session) || open_in_handler(session) || session.failed.load(Ordering::Relaxed) {
            break;
        }
        sys::sleep(PAUSE_NS);
    }
    session.log.is_open()
}

/// Makes the file, with the housekeeper's lock held. False: the cause was reported, sampling goes on without
/// trace until it is switched off.
pub fn open(session: &Session, house: &mut House) -> bool {
    time::choose_source();
    let seed = session::seed();
    let names = program_name::names(seed);
    house.list.program.clear();
    house.list.program.push(names.exe.bytes());
    let mut path = Buf::<PATH_BYTES>::new();
    let program = names.name.bytes();
    let mut made = create(session, program, seed.out.bytes(), &mut path);
    // Where the process may not write any more (another user, another root), who started it may have offered
    // a second place.
    let spare = seed.options.spare.bytes();
    if made.is_err_and(is_out_of_reach) && !seed.out_is_template && !spare.is_empty() {
        let mut second = Buf::<PATH_BYTES>::new();
        let there = create(session, program, spare, &mut second);
        if there.is_ok() {
            (made, path) = (there, second);
        }
    }
    REFUSAL.store(made.map_or_else(|e| e.0, |()| 0), Ordering::Relaxed);
    if let Err(errno) = made {
        // Samples that are due wait with their threads: nothing is lost if it works a little later.
        if errno.passes() && session.tries.fetch_add(1, Ordering::Relaxed) < MOST_TRIES {
            return false;
        }
        session.failed.store(true, Ordering::Relaxed);
        let mut cause = Buf::<1800>::new();
        cause.push(b"cannot create ").push(path.bytes()).push(b": ").push(errno.name().as_bytes());
        report(cause.bytes());
        return false;
    }
    session.opened_for.store(session::place_of(seed), Ordering::Relaxed);
    own_path::set(path.bytes());
    write_header(session, seed, names.exe.bytes(), house);
    if let Some(mut keep) = session.keep.lock_patiently(true) {
        keep.begin_keep(&session.log);
    }
    session.refusals.write(&session.log);
    bookkeeping::refresh_regions(session, house);
    bookkeeping::name_threads(session, house);
    bookkeeping::note_times(session, house);
    let keep = seed.options.keep;
    if keep != 0 && (session.rotations.load(Ordering::Relaxed) != 0 || sys::random(STORE_LOOKS) == 0) {
        store::enforce(path.bytes(), keep, house);
    }
    true
}

/// Of the processes that begin their first file, one in so many looks at the whole folder: it may hold
/// thousands of files, and a build starts thousands of processes.
const STORE_LOOKS: u64 = 16;

/// The process cannot come to that place, or may not write there.
fn is_out_of_reach(errno: sys::Errno) -> bool {
    use sys::Errno;
    matches!(errno, Errno::EACCES | Errno::EPERM | Errno::ENOENT | Errno::EROFS)
}

/// Makes the file in a directory (the template knows its own) and leaves its path.
fn create(
    session: &Session,
    program: &[u8],
    directory: &[u8],
    path: &mut Buf<PATH_BYTES>,
) -> sys::Result<()> {
    let seed = session::seed();
    let mut made = Err(sys::Errno::EEXIST);
    // Several images of one process id (exec) and ids that come again: the next free number.
    for number in 0..MOST_NAMES {
        // In a long chain of images the small numbers are all taken: a number that nobody had yet, in place
        // of a search.
        let number = if number < COUNTED_NAMES { number } else { time::monotonic_ns() };
        name(session, program, directory, number, path);
        made = session.log.create(path, seed.options.limit, 2);
        let all = seed.options.rotate_ns != 0;
        if made == Err(sys::Errno::ENOENT) && number == 0 && make_directory(path.bytes(), all) {
            made = session.log.create(path, seed.options.limit, 2);
        }
        if made != Err(sys::Errno::EEXIST) {
            break;
        }
    }
    made
}

/// The path of the file: the directory and `NAME-PID.pct`, or the template with %e %p %h %t filled in.
fn name(session: &Session, program: &[u8], directory: &[u8], number: u64, path: &mut Buf<PATH_BYTES>) {
    let seed = session::seed();
    path.clear();
    let pid = u64::from(session.pid.load(Ordering::Relaxed));
    // The suffix goes before the extension.
    let (stem, extension): (&[u8], &[u8]) = if seed.out_is_template {
        match seed.out.bytes().strip_suffix(b".pct") {
            Some(stem) => (stem, b".pct"),
            None => (seed.out.bytes(), b""),
        }
    } else {
        path.push(directory).push(b"/");
        (if seed.options.rotate_ns == 0 { b"%e-%p" } else { b"%e-%p-%t" }, b".pct")
    };
    let mut rest = stem.iter();
    while let Some(byte) = rest.next() {
        if *byte != b'%' {
            path.push(&[*byte]);
            continue;
        }
        match rest.next() {
            Some(b'e') => {
                path.push(program);
            }
            Some(b'p') => {
                path.push_number(pid);
            }
            Some(b'h') => {
                path.push(sys::host_name(&mut [0; 65]));
            }
            Some(b't') => {
                path.push_number(sys::clock_ns(sys::CLOCK_REALTIME) / 1_000_000_000);
            }
            Some(other) => {
                path.push(&[*other]);
            }
            None => {
                path.push(b"%");
            }
        }
    }
    if number > 0 {
        path.push(b"-").push_number(number + 1);
    }
    path.push(extension);
}

/// Makes the directory of `path`: one level, or all that are not there.
fn make_directory(path: &[u8], all: bool) -> bool {
    let Some(slash) = path.iter().rposition(|b| *b == b'/') else { return false };
    if all && slash > 0 {
        // Above it at most a few levels are missing; those that are there stay as they are.
        let _ = make_directory(path.get(..slash).unwrap_or(&[]), all);
    }
    let mut directory = Buf::<PATH_BYTES>::new();
    directory.push(path.get(..slash).unwrap_or(&[]));
    directory.with_nul().is_some_and(|d| sys::mkdir(d, 0o700).is_ok())
}

/// How often a file is tried that cannot be made at the moment: seconds of samples.
const MOST_TRIES: u32 = 10_000;
/// Names that are tried: first with small numbers, then with the time as a number.
const MOST_NAMES: u64 = 40;
const COUNTED_NAMES: u64 = 32;

fn write_header(session: &Session, seed: &Seed, exe: &[u8], house: &mut House) {
    let log = &session.log;
    let settings = &session.settings;
    let set = |at: usize, word: u64| log.header_set(at, word);
    set(at::BYTE_ORDER, layout::BYTE_ORDER);
    set(at::VERSION, layout::VERSION);
    set(at::HEADER_BYTES, layout::HEADER_BYTES as u64);
    set(at::BLOCK_BYTES, layout::BLOCK_BYTES as u64);
    set(at::MACHINE, arch::MACHINE);
    let (allocated, limit) = log.sizes();
    set(at::ALLOCATED, allocated);
    set(at::LIMIT, limit);
    let pid = session.pid.load(Ordering::Relaxed);
    set(at::NS_PID, u64::from(pid));
    set(at::PPID, u64::from(sys::getppid()));
    let (uid, euid) = sys::user_ids();
    set(at::UID, u64::from(uid));
    set(at::EUID, u64::from(euid));
    let (visible_pid, start_ticks) = of_stat(&mut house.buffer);
    set(at::PID, visible_pid);
    set(at::START_TICKS, start_ticks);
    for (i, word) in sys::boot_id().into_iter().enumerate() {
        set(at::BOOT_ID + i, word);
    }
    set(at::PID_NAMESPACE, sys::pid_namespace());
    set(at::HZ, sys::tick_hz());
    set(at::RECORDER, u64::from(settings.recorder.load(Ordering::Relaxed)));
    set(at::CLOCK_ASKED, seed.options.clock as u64);
    set(at::CLOCK_GOT, u64::from(settings.clock.load(Ordering::Relaxed)));
    let period = settings.period_ns.load(Ordering::Relaxed);
    let asked = if seed.options.hz == 0 {
        1_000_000_000_000u64.checked_div(period).unwrap_or(0)
    } else {
        seed.options.hz * 1000
    };
    set(at::RATE_ASKED, asked);
    set(at::RATE_GOT, settings.expected_mhz.load(Ordering::Relaxed));
    set(at::PERIOD_NS, period);
    set(at::TIME_SOURCE, time::source() as u64);
    set(at::STACK_MODE, u64::from(settings.stack.load(Ordering::Relaxed)));
    set(at::DEPTH, u64::from(settings.depth.load(Ordering::Relaxed)));
    set(at::CONTROLLER, u64::from(seed.controller));
    for (i, entry) in seed.entries.into_iter().enumerate() {
        set(at::ENTRY_ON + i, entry);
    }
    let first = seed.started.anchor();
    set(at::FIRST_ANCHOR, first.raw);
    set(at::FIRST_ANCHOR + 1, first.monotonic_ns);
    set(at::FIRST_ANCHOR + 2, first.realtime_ns);
    set(at::ARGC, seed.argc);
    set(at::ARGV_BYTES, seed.argv_bytes);
    set(at::SIGNAL, settings.signal.load(Ordering::Relaxed) as u64);
    set(at::TICK_SIGNAL, settings.tick_signal.load(Ordering::Relaxed) as u64);
    set(at::CLOCK_ERRNO, settings.clock_errno.load(Ordering::Relaxed) as u64);
    let sees_kernel = settings.kernel.load(Ordering::Relaxed)
        && settings.clock.load(Ordering::Relaxed) == Clock::Sigtrap as u32;
    set(at::KERNEL_JOIN, if sees_kernel { KernelJoin::Signal as u64 } else { 0 });
    set(at::KERNEL_ERRNO, u64::from(settings.kernel_errno.load(Ordering::Relaxed)));
    let (inherited, errno) = session.inherited.facts();
    set(at::INHERITED_EVENTS, inherited);
    set(at::INHERITED_ERRNO, errno);
    set(at::ROTATIONS, session.rotations.load(Ordering::Relaxed));
    debug_assert!(matches!(seed.options.mode, Recorder::Log | Recorder::Counts));

    let mut strings = Strings { session, at: layout::STRINGS_AT };
    strings.set_text(Text::Exe, exe);
    strings.set_text(Text::Host, sys::host_name(&mut [0; 65]));
    strings.set_text(Text::Parent, seed.parent.bytes());
    strings.set_text(Text::Options, seed.options_text.bytes());
    strings.set_text(Text::Writer, concat!("pct ", env!("CARGO_PKG_VERSION")).as_bytes());
    set(at::WAIT_DOORS, beside::doors());
    if let Some((interval, shift, dice)) = session.heap.for_header() {
        let facts = facts();
        set(at::ALLOC_INTERVAL, interval);
        set(at::ALLOC_SHIFT, shift);
        set(at::ALLOC_SEED, dice);
        set(at::ALLOC_SERVER, facts.server as u64);
        set(at::ALLOC_SOURCES, facts.sources);
        let reference = strings.add(facts.path);
        set(at::ALLOC_SERVER_PATH, reference);
    }
    if let Ok(cwd) =
        sys::readlink(sys::c(c"/proc/thread-self/cwd"), house.buffer.get_mut(..1024).unwrap_or(&mut []))
    {
        strings.set_text(Text::Cwd, cwd);
    }
    // Last: it takes what room is left.
    strings.set_text(Text::Argv, seed.argv.bytes());
    log.latest_anchor(Instant::now().anchor(), (0, 0));
    set(at::STATE, State::Armed as u64);
    // The magic number last: a file without it was never finished.
    if let Some(magic) = log.header(at::MAGIC) {
        magic.store(layout::MAGIC, Ordering::Release);
    }
}

/// Fills the strings' area of block 0.
struct Strings<'a> {
    session: &'a Session,
    at: usize,
}

impl Strings<'_> {
    fn set_text(&mut self, which: Text, text: &[u8]) {
        let reference = self.add(text);
        self.session.log.header_set(at::TEXT + which as usize, reference);
    }

    /// Adds a string, cut if there is no room for all of it: its reference.
    fn add(&mut self, text: &[u8]) -> u64 {
        let room = layout::FIRST_SEGMENT_AT.saturating_sub(self.at);
        let text = text.get(..text.len().min(room)).unwrap_or(&[]);
        for (i, byte) in text.iter().enumerate() {
            let at = self.at + i;
            if let Some(word) = self.session.log.header(at / 8) {
                word.fetch_or(u64::from(*byte) << (8 * (at % 8)), Ordering::Relaxed);
            }
        }
        let reference = (self.at as u64) << 32 | text.len() as u64;
        self.at += text.len();
        reference
    }
}

/// Fields 1 and 22 of /proc/self/stat: the process id in the namespace of this /proc, and the start in ticks;
/// 0 = not known.
fn of_stat(buffer: &mut [u8]) -> (u64, u64) {
    let Ok(stat) = sys::read_file(sys::c(c"/proc/self/stat"), buffer) else { return (0, 0) };
    let pid = stat.split(|b| *b == b' ').next().and_then(crate::sys::text::parse_number).unwrap_or(0);
    // The name, in brackets, may hold anything: fields are counted behind the last bracket.
    let Some(bracket) = stat.iter().rposition(|b| *b == b')') else { return (pid, 0) };
    let mut fields = stat.get(bracket + 2..).unwrap_or(&[]).split(|b| *b == b' ');
    (pid, fields.nth(19).and_then(crate::sys::text::parse_number).unwrap_or(0))
}
