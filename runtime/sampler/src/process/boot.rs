//! From the environment to a session: what a shell does first, in a constructor or when it is called.
//!
//! Constructor arguments are not to be trusted (musl passes none): everything starts at `environ`. Paths
//! become absolute here, since the host may change its directory or root later. fd 2 is written here and
//! nowhere else.

use core::sync::atomic::{AtomicI32, Ordering};

use crate::code::system_calls::{self, EachObject};
use crate::process::argv;
use crate::process::housekeeper;
use crate::process::life;
use crate::process::options::{self, Bad, On, Options};
use crate::process::program_name;
use crate::process::session::{self, ARGV_BYTES, Refused, Seed};
use crate::process::status;
use crate::record::time::Instant;
use crate::signal::{handler, numbers};
use crate::sys;
use crate::sys::text::Buf;
use pct_format::{Clock, answer};

/// One line for stderr, without "pct: ".
type Message = Buf<1400>;

/// Why the last start was refused, as an error number.
static REFUSAL: AtomicI32 = AtomicI32::new(0);

/// The answer to a controller whose start was refused: a negated error number. `None`: no controller asked,
/// so the message belongs on stderr.
#[must_use]
pub fn answer() -> Option<i32> {
    (session::seed().options.controller != 0).then(|| -REFUSAL.load(Ordering::Relaxed))
}

const EAGAIN: i32 = 11;
const EBUSY: i32 = 16;
const EINVAL: i32 = 22;
/// What a controller is told when sampling is on already.
pub const EALREADY: i32 = 114;

/// What came of it.
#[derive(Debug)]
pub enum Boot<'a> {
    /// No options, or none of this program's business: it runs as if we were not there.
    Idle,
    /// Set up, but sampling waits for `pct_on` or a signal.
    Waiting,
    /// Sampling.
    Sampling,
    /// It could not start.
    Refused(Why<'a>),
}

/// Why sampling did not start. (In words only when they are said: the text is large, and the stack of every
/// program that starts well would have to make room for it.)
#[derive(Clone, Copy, Debug)]
pub enum Why<'a> {
    /// An option is wrong.
    Option(Bad<'a>),
    /// The directory's path is too long once it is absolute.
    OutTooLong,
    /// It was on when the options were to be changed.
    On,
    /// The start itself was refused.
    Start(Refused),
}

impl Why<'_> {
    /// One line, without "pct: ".
    fn describe(&self, problem: &mut Message) {
        match *self {
            Why::Option(bad) => bad.describe(problem),
            Why::OutTooLong => {
                problem.push(b"option out: the path is too long");
            }
            Why::On | Why::Start(Refused::AlreadyOn) => {
                problem.push(b"sampling is already on");
            }
            Why::Start(Refused::Memory(e)) => {
                problem.push(b"no memory for the sampler: ").push(e.name().as_bytes());
            }
            Why::Start(Refused::Clock(e)) => {
                let clock = session::seed().options.clock;
                problem.push(b"clock=").push(clock.name().as_bytes()).push(b" does not work here: ");
                describe_clock(clock, e, problem);
            }
            Why::Start(Refused::WallNeedsController) => {
                problem.push(
                    b"clock=wall needs a controller (pct run --clock wall); clock=itimer-real is the notes' way",
                );
            }
            Why::Start(Refused::NoSignal) => {
                problem.push(if session::seed().options.signal >= 32 {
                    b"option signal: the perf clock needs a standard signal, below 32"
                } else {
                    b"no signal is free for the clock (pct run --signal N, or signal=N in PCT, names one)"
                });
            }
            Why::Start(Refused::Busy) => {
                problem.push(b"sampling is being switched by another thread");
            }
        }
    }
}

/// Why the kernel refused a clock, and what would help.
fn describe_clock(clock: Clock, errno: sys::Errno, problem: &mut Message) {
    match (clock, errno) {
        (Clock::Thread, sys::Errno::EAGAIN) => {
            // A timer takes one of the signals that a user may have queued.
            problem.push(b"this user has as many timers and queued signals as it may (ulimit -i: ");
            problem.push_number(sys::soft_limit(sys::RLIMIT_SIGPENDING)).push(b"); clock=auto takes another");
        }
        (Clock::Perf | Clock::Sigtrap, _) => {
            problem.push(errno.name().as_bytes());
            problem.push(b" (see /proc/sys/kernel/perf_event_paranoid; clock=auto takes another)");
        }
        _ => {
            problem.push(errno.name().as_bytes());
        }
    }
}

/// The value of a variable in an environment vector.
///
/// # Safety
/// `environ` is null or a vector of C strings that ends with null, and stays for `'a`.
#[must_use]
pub unsafe fn variable<'a>(environ: *const *const u8, name: &[u8]) -> Option<&'a [u8]> {
    if environ.is_null() {
        return None;
    }
    for i in 0..1 << 20 {
        // SAFETY: by the caller's promise; the null ends the loop.
        let string = unsafe { *environ.add(i) };
        if string.is_null() {
            return None;
        }
        // SAFETY: a C string.
        if let Some(value) = unsafe { value_of(string, name) } {
            return Some(value);
        }
    }
    None
}

/// # Safety
/// `string` is a C string.
unsafe fn value_of<'a>(string: *const u8, name: &[u8]) -> Option<&'a [u8]> {
    for (i, byte) in name.iter().chain(b"=").enumerate() {
        // SAFETY: strings end with NUL, at which this stops.
        if unsafe { *string.add(i) } != *byte {
            return None;
        }
    }
    // SAFETY: after `NAME=`, which was found.
    Some(unsafe { text(string.add(name.len() + 1)) })
}

/// # Safety
/// `string` is a C string that stays for `'a`.
#[must_use]
pub unsafe fn text<'a>(string: *const u8) -> &'a [u8] {
    let mut len = 0;
    // SAFETY: a C string ends with NUL.
    while unsafe { *string.add(len) } != 0 {
        len += 1;
    }
    // SAFETY: `len` bytes before the NUL.
    unsafe { core::slice::from_raw_parts(string, len) }
}

/// Sets up from the text of options, and starts if it says so.
///
/// # Safety
/// `environ` is the process's environment vector, as for [`variable`]; nobody changes it meanwhile.
pub unsafe fn with_options(
    text: &[u8],
    environ: *const *const u8,
    entries: [u64; 4],
    each_object: EachObject,
) -> Boot<'_> {
    REFUSAL.store(EINVAL, Ordering::Relaxed);
    numbers::set_entry(handler::entry());
    let on = session::with_seed(|seed| {
        seed.options = Options::new();
        seed.options_text.clear();
        seed.options_text.push(text);
        options::parse(text, &mut seed.options).map_err(Why::Option)?;
        seed.entries = entries;
        seed.controller = seed.options.controller;
        seed.started = Instant::now();
        seed.name.clear();
        if !seed.options.include.bytes().is_empty() || !seed.options.exclude.bytes().is_empty() {
            program_name::find(seed);
            if !seed.options.wants(seed.name.bytes()) {
                return Ok(None);
            }
        }
        // SAFETY: by the caller's promise.
        unsafe { arguments(seed, environ) };
        // SAFETY: by the caller's promise.
        if !unsafe { continuous_out(seed, environ) } && !absolute_out(seed) {
            return Err(Why::OutTooLong);
        }
        // A controller puts the library into a program that runs: searching would hold it up.
        if seed.options.controller == 0 {
            // SAFETY: by the caller's promise.
            unsafe { find_answers(seed, environ) };
            system_calls::search(each_object, seed.answers());
        }
        Ok(Some(seed.options.on))
    });
    match on {
        None => Boot::Refused(Why::On),
        Some(Err(why)) => Boot::Refused(why),
        Some(Ok(None)) => Boot::Idle,
        Some(Ok(Some(On::Start))) => begin(),
        Some(Ok(Some(_))) => Boot::Waiting,
    }
}

/// Starts.
#[must_use]
pub fn begin<'a>() -> Boot<'a> {
    let refused = match life::start() {
        Ok(_) => return Boot::Sampling,
        Err(refused) => refused,
    };
    let errno = match refused {
        Refused::Memory(e) => e.0,
        Refused::Clock(e) => answer::OF_CLOCK + e.0,
        Refused::NoSignal => EBUSY,
        Refused::Busy => EAGAIN,
        Refused::AlreadyOn => EALREADY,
        Refused::WallNeedsController => EINVAL,
    };
    REFUSAL.store(errno, Ordering::Relaxed);
    Boot::Refused(Why::Start(refused))
}

/// After a start in a process that runs already: finds its other threads at once. (The housekeeper would, but
/// only when a thread that it knows uses CPU time, and the one that called may sleep for ever.)
pub fn find_threads() {
    if let Some(session) = session::current() {
        let _alone = session::alone();
        housekeeper::on_watch(session);
    }
}

/// This program cannot be sampled, whatever the options: says so where `pct run` looks, else on stderr.
pub fn decline(text: &[u8], cause: &[u8]) {
    let said = session::with_seed(|seed| {
        seed.options = Options::new();
        let meant = options::parse(text, &mut seed.options).is_ok() && absolute_out(seed);
        program_name::find(seed);
        !meant
            || !seed.options.wants(seed.name.bytes())
            || seed.out_is_template && seed.options.controller != 0
            || !seed.out_is_template && status::report(seed.places(), cause)
    });
    if said != Some(true) {
        let mut message = Message::new();
        message.push(cause);
        say(&message);
    }
}

/// Tells why sampling did not start: where `pct run` looks, else on stderr.
#[cold]
#[inline(never)]
pub fn complain(why: &Why<'_>) {
    let mut message = Message::new();
    why.describe(&mut message);
    let mut cause = Buf::<350>::new();
    cause.push(message.bytes()).push(b": this program is not sampled");
    let told = session::with_seed(|seed| {
        !seed.out_is_template && !cause.is_cut() && status::report(seed.places(), cause.bytes())
    });
    if told != Some(true) {
        say(&message);
    }
}

/// In one line and one write.
fn say(message: &Message) {
    let mut line = Buf::<1600>::new();
    line.push(b"pct: ").push(message.bytes()).push(b"; this program runs unprofiled\n");
    sys::write_stderr(line.bytes());
}

/// # Safety
/// As for [`with_options`].
unsafe fn arguments(seed: &mut Seed, environ: *const *const u8) {
    seed.argv.clear();
    seed.argc = 0;
    seed.argv_bytes = 0;
    // SAFETY: the environment as the loader left it, or one that `below_environ` rejects by the word below it.
    let memory = unsafe { argv::Own::new() };
    if let Some(found) = argv::below_environ(&memory, environ as u64) {
        for i in 0..found.count {
            // SAFETY: `count` words that point to strings.
            let argument = unsafe { text(*((found.vector + 8 * i) as *const *const u8)) };
            seed.argv.push(argument).push(b"\0");
            seed.argv_bytes += argument.len() as u64 + 1;
        }
        seed.argc = found.count;
        return;
    }
    arguments_by_file(seed);
}

/// Where the environment is not where the kernel put it.
#[cold]
#[inline(never)]
fn arguments_by_file(seed: &mut Seed) {
    let mut buffer = [0u8; ARGV_BYTES];
    if let Ok(line) = sys::read_file(sys::c(c"/proc/thread-self/cmdline"), &mut buffer) {
        seed.argv.push(line);
        seed.argc = line.iter().filter(|b| **b == 0).count() as u64;
        seed.argv_bytes = line.len() as u64;
    }
}

#[cold]
#[inline(never)]
fn push_directory<const N: usize>(to: &mut Buf<N>) -> bool {
    let mut buffer = [0u8; 1024];
    let directory = sys::readlink(sys::c(c"/proc/thread-self/cwd"), &mut buffer);
    directory.is_ok_and(|directory| !to.push(directory).is_cut())
}

/// Finds the file in which answers about objects are kept: `pct run` makes it in the user's folder for what can be made
/// again.
///
/// # Safety
/// As for [`with_options`].
unsafe fn find_answers(seed: &mut Seed, environ: *const *const u8) {
    let absolute = |path: &&[u8]| path.starts_with(b"/");
    seed.answers.clear();
    // SAFETY: by the caller's promise.
    let (cache, home) = unsafe { (variable(environ, b"XDG_CACHE_HOME"), variable(environ, b"HOME")) };
    match (cache.filter(absolute), home.filter(absolute)) {
        (Some(cache), _) => seed.answers.push(cache).push(b"/pct/objects\0"),
        (None, Some(home)) => seed.answers.push(home).push(b"/.cache/pct/objects\0"),
        (None, None) => return,
    };
    if seed.answers.is_cut() {
        seed.answers.clear();
    }
}

/// Where continuous sampling writes if nothing was said: the user's folder for state. `pct ls` looks there
/// too. False: it is not continuous, or a folder was named, or the user has none.
///
/// # Safety
/// As for [`with_options`].
unsafe fn continuous_out(seed: &mut Seed, environ: *const *const u8) -> bool {
    if seed.options.rotate_ns == 0 || !seed.options.out.bytes().is_empty() || !seed.out.bytes().is_empty() {
        return false;
    }
    let absolute = |path: &&[u8]| path.starts_with(b"/");
    // SAFETY: by the caller's promise.
    let (state, home) = unsafe { (variable(environ, b"XDG_STATE_HOME"), variable(environ, b"HOME")) };
    match (state.filter(absolute), home.filter(absolute)) {
        (Some(state), _) => seed.out.push(state).push(b"/pct"),
        (None, Some(home)) => seed.out.push(home).push(b"/.local/state/pct"),
        (None, None) => return false,
    };
    seed.out_is_template = false;
    let fits = !seed.out.is_cut();
    if !fits {
        seed.out.clear();
    }
    fits
}

fn absolute_out(seed: &mut Seed) -> bool {
    let given = seed.options.out.bytes();
    if given.is_empty() && !seed.out.bytes().is_empty() {
        // A start by call, of a program that has said (or whose environment has said) where before.
        return true;
    }
    seed.out.clear();
    if !given.starts_with(b"/") {
        if !push_directory(&mut seed.out) {
            return false;
        }
        if !given.is_empty() {
            seed.out.push(b"/");
        }
    }
    let folder = given.strip_suffix(b"/");
    seed.out.push(folder.unwrap_or(given));
    seed.out_is_template = folder.is_none() && (given.contains(&b'%') || given.ends_with(b".pct"));
    !seed.out.is_cut()
}
