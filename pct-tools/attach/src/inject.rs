//! Methods 1, 2 and 3: the sampler runs in the target, and the controller leaves.
//!
//! ```text
//! find a thread at a safe point -> map a scratch -> try malloc -> dlopen (method 2) -> pct_on -> setenv for children
//!                               -> unmap the scratch -> give the thread back
//! ```
//!
//! Whatever fails, the thread is given back as it was. A library that was loaded stays loaded but idle, because
//! dlclose is riskier.

use crate::children::{self, Functions};
use crate::delays::tell;
pub use crate::delays::{DELAYED, PATIENCE};
use crate::dispatch;
use crate::facts::{self, Target};
use crate::image::{Image, PctNote};
pub use crate::inject_error::InjectError;
use crate::inject_error::text;
use crate::memory::{Memory, ProcessMemory};
use crate::ptrace::borrow::Borrowed;
use crate::ptrace::call::c_int;
use crate::ptrace::error::CallError;
use crate::ptrace::stop::{STOP, in_own_thread, let_late_go};
use crate::ptrace::sys::ChildSignal;
use crate::safe::{Candidates, SafePoints, any_call};
use crate::tasks;
use crate::turn::Turn;
use procfs::process::MemoryMap;
use std::time::{Duration, Instant};

/// Limit for one call.
const CALL: Duration = Duration::from_secs(2);
/// Limit for a call of the sampler's own functions, or one that maps memory. Such a call waits for no lock of the
/// target, but a busy disk may delay it: to unmap a removed recording is to delete the file.
pub(crate) const OWN_CALL: Duration = Duration::from_secs(30);
/// Limit for a dlopen. The library may not be in the page cache.
const DLOPEN: Duration = Duration::from_secs(5);
/// Limit for malloc, which either returns at once or waits for a lock.
const CANARY: Duration = Duration::from_millis(300);
/// Limit for the whole search for a safe point.
const SEARCH: Duration = Duration::from_secs(5);
/// Limit for the whole search if no thread stops at all. On a busy disk or processor a thread may need seconds to
/// reach a stop. The target runs on meanwhile.
const SEARCH_FOR_A_STOP: Duration = Duration::from_secs(30);
/// Which code of the target a call enters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// None: only pct's own code runs.
    Nothing,
    /// malloc and setenv.
    Allocator,
    /// malloc, setenv and the loader.
    Loader,
}

impl Need {
    /// The code in words, for messages.
    fn what(self) -> &'static str {
        match self {
            Need::Loader => "dlopen",
            Need::Allocator => "malloc",
            Need::Nothing => "the sampler",
        }
    }
}

/// What an injection did.
#[derive(Debug, Clone, Copy)]
pub struct Done {
    /// How long the borrowed thread was stopped in total.
    pub stopped: Duration,
    /// How many threads were stopped before and found unsafe.
    pub tries: u32,
    /// The sampler's entry points.
    pub note: PctNote,
    /// Whether the programs and processes that the target makes will be sampled.
    pub children: bool,
}

/// Borrows a thread at a point that is safe for `need`, and lets `work` use it.
///
/// # Errors
/// When no thread is found in time, and the errors of `work`.
pub fn at_safe_point<R: Send>(
    target: &Target,
    memory: &ProcessMemory,
    need: Need,
    work: impl FnMut(&mut Borrowed<'_>) -> Result<R, InjectError> + Send,
) -> Result<(R, Duration, u32), InjectError> {
    let pid = target.facts.pid;
    let turn = Turn::wait_for_turn(pid)?;
    let now = turn.read_again(target)?;
    let target = &now;
    in_own_thread(move || Search { target, memory, need, maps: target.maps.clone() }.run(work))
}

/// One search for a safe point.
struct Search<'t> {
    target: &'t Target,
    memory: &'t ProcessMemory,
    need: Need,
    maps: Vec<MemoryMap>,
}

impl Search<'_> {
    fn run<R>(
        mut self,
        mut work: impl FnMut(&mut Borrowed<'_>) -> Result<R, InjectError>,
    ) -> Result<(R, Duration, u32), InjectError> {
        let Search { target, memory, need, .. } = self;
        // blocked once for all waits of the search, as each wait would block and unblock it
        let _signal = ChildSignal::block();
        let pid = target.facts.pid;
        let mut safe = (need != Need::Nothing).then(|| SafePoints::find_in(target, memory));
        let mut planted = target.gadgets.plant(target.padding, memory).map_err(CallError::Memory)?;
        let start = Instant::now();
        let mut tries = 0;
        let mut last = "no thread could be stopped".to_owned();
        let mut told = false;
        let mut none_stops = false;
        while start.elapsed() < if none_stops { SEARCH_FOR_A_STOP } else { SEARCH } {
            if !told && start.elapsed() > PATIENCE {
                told = true;
                tell(format_args!(
                    "looking in process {pid} for a moment at which {} may be called; {last}",
                    need.what()
                ));
            }
            let Candidates { threads, in_vfork } = Candidates::of_process(pid, memory, need == Need::Nothing);
            let only_vfork = threads.is_empty() && !in_vfork.is_empty();
            if let Some(tid) = in_vfork.first().filter(|_| only_vfork) {
                last = format!("thread {tid} waits in vfork until its child executes or ends");
            }
            none_stops = !threads.is_empty();
            for tid in threads {
                let late = let_late_go();
                if late.contains(&tid) {
                    continue;
                }
                let mut thread = match Borrowed::stop(pid, tid, memory, &planted.gadgets, STOP, &self.maps) {
                    Ok(t) => t,
                    Err(e) if is_of_this_thread(pid, &e) => {
                        none_stops &= matches!(e, CallError::NoStop(..));
                        last = e.to_string();
                        tries += 1;
                        continue;
                    }
                    Err(e) => return Err(e.into()),
                };
                none_stops = false;
                if facts::start_time(pid) != Some(target.start_time) {
                    return Err(InjectError::Reused(pid));
                }
                let verdict =
                    any_call(tid, thread.regs(), &self.maps, memory).and_then(|()| match &mut safe {
                        Some(s) => s.judge(thread.regs(), memory, need == Need::Loader),
                        None => Ok(()),
                    });
                if let Err(why) = verdict {
                    last = format!("thread {tid}: {why}");
                    tries += 1;
                    thread.give_back()?;
                    continue;
                }
                match work(&mut thread) {
                    Ok(r) => {
                        thread.unmap_scratch(OWN_CALL)?;
                        let stopped = thread.stopped_at();
                        thread.give_back()?;
                        return Ok((r, stopped.elapsed(), tries));
                    }
                    // it waits for a lock and has done nothing yet: restoring it is harmless, and another thread may
                    // serve
                    Err(InjectError::Call(CallError::Timeout { waits: true, .. })) if thread.is_probing() => {
                        last = format!("thread {tid}: malloc waits for a lock");
                        tries += 1;
                        thread.unmap_scratch(OWN_CALL)?;
                        thread.give_back()?;
                    }
                    // it is in the loader with its lock, or in the sampler: it must run to its end, and does so alone
                    Err(e @ InjectError::Call(CallError::Timeout { .. })) => {
                        thread.let_run();
                        planted.keep();
                        return Err(e);
                    }
                    Err(e) => {
                        let _ = thread.unmap_scratch(OWN_CALL);
                        thread.give_back()?;
                        return Err(e);
                    }
                }
            }
            // try again later: the threads have moved on a little, and there may be new ones
            let pause = if only_vfork { 5000 } else { 100 + u64::from(tries % 10) * 100 };
            std::thread::sleep(Duration::from_micros(pause));
            if let Ok(now) = tasks::maps(pid) {
                self.maps = now.0;
            }
        }
        let helps = need == Need::Loader && !Candidates::of_process(pid, memory, true).threads.is_empty();
        let help = if helps { "; --method 4 needs none" } else { "" };
        Err(InjectError::NoSafePoint { pid, what: need.what(), last, help })
    }
}

/// Whether the error concerns only this thread at this moment, so that another thread or a later attempt may succeed.
fn is_of_this_thread(pid: i32, error: &CallError) -> bool {
    match error {
        CallError::Gone(_) | CallError::NoStop(..) | CallError::NoRoom => true,
        // the thread is about to end, or a killed controller, which no longer has its turn, is about to release it
        CallError::Request { what: "seize", tid, .. } => {
            let status = std::fs::read_to_string(format!("/proc/{pid}/task/{tid}/status"));
            status.map_or(true, |status| {
                let traced = |l: &str| l.starts_with("TracerPid:") && !l.ends_with("\t0");
                let ended = |l: &str| l.starts_with("State:\tZ") || l.starts_with("State:\tX");
                status.lines().any(|l| traced(l) || ended(l))
            })
        }
        _ => false,
    }
}

fn symbol(target: &Target, memory: &ProcessMemory, name: &'static str) -> Result<u64, InjectError> {
    let found = target.images.iter().find_map(|(_, i)| i.symbol(memory, name));
    found.ok_or(InjectError::Missing(name))
}

/// Calls malloc and free. If their lock is held by a thread that waits for this one, the call blocks, and no harm
/// is done yet.
fn canary(thread: &mut Borrowed<'_>, malloc: u64, free: u64) -> Result<(), InjectError> {
    // a size beyond the thread's cache and below mmap's threshold
    thread.probing(true);
    let p = thread.call(malloc, [3000, 0, 0, 0, 0, 0], CANARY)?;
    thread.call(free, [p, 0, 0, 0, 0, 0], CANARY)?;
    thread.probing(false);
    Ok(())
}

/// Method 2: loads `library` with the target's own dlopen and turns it on. With `follow` the programs and processes
/// that the target makes later are sampled too.
///
/// # Errors
/// When no safe point is found, or the loader or the sampler refuses.
pub fn by_dlopen(
    target: &Target,
    memory: &ProcessMemory,
    library: &str,
    options: &str,
    follow: bool,
) -> Result<Done, InjectError> {
    dispatch::check(target)?;
    const RTLD_NOW: u64 = 2;
    const RTLD_NODELETE: u64 = 0x1000;
    let (dlopen, flags) = target.dlopen.ok_or(InjectError::Missing("dlopen"))?;
    let malloc = symbol(target, memory, "malloc")?;
    let free = symbol(target, memory, "free")?;
    let dlerror = symbol(target, memory, "dlerror").ok();
    let path = text(library, "the library's path")?;
    let functions = Functions::find_in(target, memory);
    let before = children::variable(target, memory, "LD_PRELOAD");
    let preload = children::preload(before.as_deref(), library);
    let ((note, children), stopped, tries) = at_safe_point(target, memory, Need::Loader, |thread| {
        thread.map_scratch(OWN_CALL)?;
        canary(thread, malloc, free)?;
        let name = thread.write_data(0, &path)?;
        let handle = thread.call(dlopen, [name, RTLD_NOW | RTLD_NODELETE | flags, 0, 0, 0, 0], DLOPEN)?;
        if handle == 0 {
            let words = dlerror.and_then(|f| thread.call(f, [0; 6], CALL).ok()).filter(|p| *p != 0);
            let why = words.and_then(|p| memory.string(p, 512).ok()).unwrap_or_default();
            let why = String::from_utf8_lossy(&why).into_owned();
            return Err(InjectError::Dlopen { path: library.to_owned(), why });
        }
        let (image, note) =
            loaded_library(target, memory).ok_or(InjectError::NoNote { path: library.to_owned() })?;
        turn_on(thread, &note, options)?;
        let children = match follow {
            true => children::arm(thread, memory, &functions, &image, (&preload, options))?,
            false => false,
        };
        Ok((note, children))
    })?;
    Ok(Done { stopped, tries, note, children })
}

/// Methods 1 and 3: the sampler is in the target already. This turns it on.
///
/// # Errors
/// As [`by_dlopen`].
pub fn by_note(target: &Target, memory: &ProcessMemory, options: &str) -> Result<Done, InjectError> {
    dispatch::check(target)?;
    let note = target.note.ok_or(InjectError::Missing("sampler's note"))?;
    let ((), stopped, tries) = at_safe_point(target, memory, Need::Nothing, |thread| {
        thread.map_scratch(OWN_CALL)?;
        if c_int(thread.call(note.stat, [0; 6], OWN_CALL)?) == 1 {
            return Err(InjectError::Already(target.facts.pid));
        }
        turn_on(thread, &note, options)
    })?;
    Ok(Done { stopped, tries, note, children: false })
}

/// `pct off`: turns the target's sampler off. If children are sampled too, `PCT` and pct's part of `LD_PRELOAD` are
/// removed from its environment, so that programs that it executes later are not sampled. That needs a point where it
/// may be done.
///
/// # Errors
/// As [`by_dlopen`].
pub fn off(target: &Target, memory: &ProcessMemory) -> Result<Duration, InjectError> {
    let note = target.note.ok_or(InjectError::Missing("sampler's note"))?;
    let ((), stopped, _) = at_safe_point(target, memory, Need::Nothing, |thread| {
        thread.map_scratch(OWN_CALL)?;
        let answer = thread.call(note.off, [0; 6], OWN_CALL)?;
        match c_int(answer) {
            0 | 1 => Ok(()), // 1: it was already off
            _ => result(answer),
        }
    })?;
    if let Some(before) = children::Environment::find_in(target, memory) {
        let _ = at_safe_point(target, memory, Need::Allocator, |thread| {
            thread.map_scratch(OWN_CALL)?;
            before.set_back(thread)
        })?;
    }
    Ok(stopped)
}

pub(crate) fn turn_on(thread: &mut Borrowed<'_>, note: &PctNote, options: &str) -> Result<(), InjectError> {
    // the sampler answers pct and does not write to the target's stderr
    let options = text(&format!("{options},controller={}", std::process::id()), "the options")?;
    let options = thread.write_data(8192, &options)?;
    result(thread.call(note.on, [options, 0, 0, 0, 0, 0], OWN_CALL)?)
}

/// Reads the result of a C function that returns `int`: 0, or a negated errno. Errors of the file and of the clock
/// are above a fixed number.
pub(crate) fn result(value: u64) -> Result<(), InjectError> {
    use pct_format::answer::{OF_CLOCK, OF_FILE};
    let number = c_int(value).saturating_abs();
    let error = |above| std::io::Error::from_raw_os_error(number - above);
    match number {
        0 => Ok(()),
        e if e > OF_CLOCK => Err(InjectError::Clock(error(OF_CLOCK))),
        e if e > OF_FILE => Err(InjectError::File(error(OF_FILE))),
        _ => Err(InjectError::On(error(0))),
    }
}

/// Finds the library with the note: first in what was not mapped at the first reading, then everywhere. (A thread
/// is stopped meanwhile, and a program may have hundreds of libraries.)
fn loaded_library(target: &Target, memory: &ProcessMemory) -> Option<(Image, PctNote)> {
    let maps = tasks::maps(target.facts.pid).ok()?.0;
    let starts = maps.iter().filter(|map| map.offset == 0 && map.inode != 0).map(|map| map.address.0);
    let known = |start: &u64| target.maps.iter().any(|map| map.address.0 == *start);
    let (old, new): (Vec<u64>, Vec<u64>) = starts.partition(known);
    let mut images = new.into_iter().chain(old).filter_map(|start| Image::at_header(memory, start).ok());
    images.find_map(|image| image.pct_note(memory).map(|note| (image, note)))
}
