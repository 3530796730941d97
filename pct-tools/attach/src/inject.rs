//! Methods 1, 2 and 3: the sampler runs in the target, and the controller leaves.
//!
//! ```text
//! find a thread at a safe point -> map a scratch -> try malloc -> dlopen (method 2) -> pct_on -> setenv for children
//!                               -> unmap the scratch -> give the thread back
//! ```
//!
//! Whatever fails, the thread is given back as it was. A library that was loaded stays loaded, idle: dlclose is riskier.

use crate::children::{self, Functions};
use crate::choose::Refusal;
use crate::facts::{self, Target};
use crate::image::{Image, PctNote};
pub use crate::inject_error::InjectError;
use crate::inject_error::text;
use crate::memory::{Memory, ProcessMemory};
use crate::ptrace::borrow::Borrowed;
use crate::ptrace::error::CallError;
use crate::ptrace::stop::let_late_go;
use crate::ptrace::sys::ChildSignal;
use crate::safe::{Candidates, SafePoints, any_call};
use crate::tasks;
use procfs::process::MemoryMap;
use std::fs::TryLockError;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// How long one call may take.
const CALL: Duration = Duration::from_secs(2);
/// dlopen of a library that is not in the page cache.
const DLOPEN: Duration = Duration::from_secs(5);
/// malloc either returns at once or waits for a lock.
const CANARY: Duration = Duration::from_millis(300);
/// The whole search for a safe point.
const SEARCH: Duration = Duration::from_secs(5);
/// What takes longer is told.
const PATIENCE: Duration = Duration::from_secs(1);
/// So long another controller is waited for.
const TURN: Duration = Duration::from_secs(10);
/// A thread that does not stop in this time is left for another.
const STOP: Duration = Duration::from_millis(200);

/// What code a call needs to be safe from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// Only our own code runs.
    Nothing,
    /// malloc and setenv.
    Allocator,
    /// The loader too.
    Loader,
}

impl Need {
    /// In words.
    fn what(self) -> &'static str {
        match self {
            Need::Loader => "dlopen",
            Need::Allocator => "malloc",
            Need::Nothing => "the sampler",
        }
    }
}

/// Told in a line what a controller waits for when it waits for long, when set.
pub static DELAYED: OnceLock<fn(&str)> = OnceLock::new();

fn tell(line: std::fmt::Arguments<'_>) {
    if let Some(told) = DELAYED.get() {
        told(&line.to_string());
    }
}

/// What an injection did.
#[derive(Debug, Clone, Copy)]
pub struct Done {
    /// How long the borrowed thread was stopped in all.
    pub stopped: Duration,
    /// How many threads were stopped and found unsafe before.
    pub tries: u32,
    /// The sampler's entry points.
    pub note: PctNote,
    /// What the target forks and executes will be sampled.
    pub children: bool,
}

/// Borrows a thread at a point that is safe for `need`, and lets `work` use it.
///
/// # Errors
/// When none is found in time, or what `work` says.
pub fn at_safe_point<R: Send>(
    target: &Target,
    memory: &ProcessMemory,
    need: Need,
    work: impl FnMut(&mut Borrowed<'_>) -> Result<R, InjectError> + Send,
) -> Result<(R, Duration, u32), InjectError> {
    let pid = target.facts.pid;
    let turn = Turn::take(pid)?;
    let now = turn.look(target)?;
    let target = &now;
    // A thread that did not stop in time does so later, and stays stopped until its tracer ends; a tracer is a thread. The signal
    // that tells of stops is blocked in all of ours: the kernel drops it else.
    let _signal = ChildSignal::block();
    std::thread::scope(|scope| {
        let search =
            scope.spawn(move || Search { target, memory, need, maps: target.maps.clone() }.run(work));
        search.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
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
        let pid = target.facts.pid;
        let mut safe = (need != Need::Nothing).then(|| SafePoints::of(target, memory));
        let mut planted = target.gadgets.plant(target.padding, memory).map_err(CallError::Memory)?;
        let start = Instant::now();
        let mut tries = 0;
        let mut last = "no thread could be stopped".to_owned();
        let mut told = false;
        while start.elapsed() < SEARCH {
            if !told && start.elapsed() > PATIENCE {
                told = true;
                tell(format_args!(
                    "process {pid} is being sought a moment at which {} may be called; {last}",
                    need.what()
                ));
            }
            let Candidates { threads, in_vfork } = Candidates::of(pid, memory);
            let only_vfork = threads.is_empty() && !in_vfork.is_empty();
            if let Some(tid) = in_vfork.first().filter(|_| only_vfork) {
                last = format!("thread {tid} waits in vfork until its child executes or ends");
            }
            for tid in threads {
                let late = let_late_go();
                if late.contains(&tid) {
                    continue;
                }
                let stopped = Instant::now();
                let mut thread = match Borrowed::stop(pid, tid, memory, &planted.gadgets, STOP, &self.maps) {
                    Ok(t) => t,
                    Err(e) if is_of_this_thread(pid, &e) => {
                        last = e.to_string();
                        tries += 1;
                        continue;
                    }
                    Err(e) => return Err(e.into()),
                };
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
                        thread.unmap_scratch(CALL)?;
                        thread.give_back()?;
                        return Ok((r, stopped.elapsed(), tries));
                    }
                    // blocked on a lock with nothing of ours done yet: harmless to set back, another thread may do
                    Err(InjectError::Call(CallError::Timeout { waits: true, .. })) if thread.is_probing() => {
                        last = format!("thread {tid}: malloc waits for a lock");
                        tries += 1;
                        thread.unmap_scratch(CALL)?;
                        thread.give_back()?;
                    }
                    // inside the loader with its lock, or in the sampler: it must run to its end, and does so by itself
                    Err(e @ InjectError::Call(CallError::Timeout { .. })) => {
                        thread.let_run();
                        planted.keep();
                        return Err(e);
                    }
                    Err(e) => {
                        let _ = thread.unmap_scratch(CALL);
                        thread.give_back()?;
                        return Err(e);
                    }
                }
            }
            // another moment: the threads have moved on a little, and there may be new ones
            let pause = if only_vfork { 5000 } else { 100 + u64::from(tries % 10) * 100 };
            std::thread::sleep(Duration::from_micros(pause));
            if let Ok(now) = tasks::maps(pid) {
                self.maps = now.0;
            }
        }
        let helps = need == Need::Loader && !Candidates::of(pid, memory).threads.is_empty();
        let help = if helps { "; --method 4 needs none" } else { "" };
        Err(InjectError::NoSafePoint { pid, what: need.what(), last, help })
    }
}

/// Another thread of the process, or the same one later, may do.
fn is_of_this_thread(pid: i32, error: &CallError) -> bool {
    match error {
        CallError::Gone(_) | CallError::NoStop(..) | CallError::NoRoom => true,
        // it is about to end, or a controller that was killed, whose turn has ended, is about to let it go
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

/// The right to borrow threads of one process, of which one controller at a time has it: two would write their frames to the same
/// place. It ends with the controller.
pub(crate) struct Turn {
    process: i32,
    _locked: std::fs::File,
}

impl Turn {
    /// Waits for it.
    pub(crate) fn take(pid: i32) -> Result<Turn, InjectError> {
        let gone = |_| InjectError::Facts(facts::FactsError::NoSuchProcess(pid));
        let folder = std::fs::File::open(format!("/proc/{pid}")).map_err(gone)?;
        let start = Instant::now();
        let mut told = false;
        loop {
            match folder.try_lock() {
                Ok(()) => return Ok(Turn { process: pid, _locked: folder }),
                Err(TryLockError::WouldBlock) if start.elapsed() < TURN => {
                    if !told && start.elapsed() > PATIENCE {
                        told = true;
                        tell(format_args!("another pct is at work in process {pid}: waiting for it"));
                    }
                    std::thread::sleep(Duration::from_millis(1));
                }
                Err(TryLockError::WouldBlock) => return Err(InjectError::Busy(pid)),
                // a kernel without such locks: as if nobody else were there
                Err(TryLockError::Error(_)) => return Ok(Turn { process: pid, _locked: folder }),
            }
        }
    }

    /// The target as it is now: another controller may have been there since it was looked at, or was at work at that moment. (What
    /// its maps say is not enough: a sampler that was being loaded then is in them, and was not taken for one.)
    fn look(&self, target: &Target) -> Result<Target, InjectError> {
        let mut now = facts::read(self.process)?;
        // a controller that was killed lets its thread go in a moment
        let start = Instant::now();
        while now.facts.tracer != 0 && start.elapsed() < PATIENCE {
            std::thread::sleep(Duration::from_millis(1));
            now = facts::read(self.process)?;
        }
        if (now.start_time, now.start_stack) != (target.start_time, target.start_stack) {
            return Err(InjectError::Reused(self.process));
        }
        if now.facts.tracer != 0 {
            let refusal = Refusal::Traced { pid: self.process, tracer: now.facts.tracer };
            return Err(InjectError::Refused(refusal));
        }
        if now.note.is_some() && target.note.is_none() {
            return Err(InjectError::Already(self.process));
        }
        Ok(now)
    }
}

fn symbol(target: &Target, memory: &ProcessMemory, name: &'static str) -> Result<u64, InjectError> {
    let found = target.images.iter().find_map(|(_, i)| i.symbol(memory, name));
    found.ok_or(InjectError::Missing(name))
}

/// Calls malloc and free: when a lock is held by somebody who waits for us, this blocks, and nothing is lost yet.
fn canary(thread: &mut Borrowed<'_>, malloc: u64, free: u64) -> Result<(), InjectError> {
    // beyond the thread's cache, below mmap's threshold
    thread.probing(true);
    let p = thread.call(malloc, [3000, 0, 0, 0, 0, 0], CANARY)?;
    thread.call(free, [p, 0, 0, 0, 0, 0], CANARY)?;
    thread.probing(false);
    Ok(())
}

/// Method 2: loads `library` with the target's own dlopen and turns it on. With `follow` what the target forks and executes
/// later is sampled too.
///
/// # Errors
/// When no safe point turns up, the loader refuses, or the sampler does.
pub fn by_dlopen(
    target: &Target,
    memory: &ProcessMemory,
    library: &str,
    options: &str,
    follow: bool,
) -> Result<Done, InjectError> {
    const RTLD_NOW: u64 = 2;
    const RTLD_NODELETE: u64 = 0x1000;
    let (dlopen, flags) = target.dlopen.ok_or(InjectError::Missing("dlopen"))?;
    let malloc = symbol(target, memory, "malloc")?;
    let free = symbol(target, memory, "free")?;
    let dlerror = symbol(target, memory, "dlerror").ok();
    let path = text(library, "the library's path")?;
    let functions = Functions::of(target, memory);
    let before = children::variable(target, memory, "LD_PRELOAD");
    let preload = children::preload(before.as_deref(), library);
    let ((note, children), stopped, tries) = at_safe_point(target, memory, Need::Loader, |thread| {
        thread.map_scratch(CALL)?;
        canary(thread, malloc, free)?;
        let name = thread.put(0, &path)?;
        let handle = thread.call(dlopen, [name, RTLD_NOW | RTLD_NODELETE | flags, 0, 0, 0, 0], DLOPEN)?;
        if handle == 0 {
            let words = dlerror.and_then(|f| thread.call(f, [0; 6], CALL).ok()).filter(|p| *p != 0);
            let why = words.and_then(|p| memory.string(p, 512).ok()).unwrap_or_default();
            let why = String::from_utf8_lossy(&why).into_owned();
            return Err(InjectError::Dlopen { path: library.to_owned(), why });
        }
        let (image, note) = loaded_library(target.facts.pid, memory)
            .ok_or(InjectError::NoNote { path: library.to_owned() })?;
        turn_on(thread, &note, options)?;
        let children = match follow {
            true => children::arm(thread, memory, &functions, &image, (&preload, options))?,
            false => false,
        };
        Ok((note, children))
    })?;
    Ok(Done { stopped, tries, note, children })
}

/// Methods 1 and 3: the sampler is in the target already; it is turned on.
///
/// # Errors
/// As [`by_dlopen`].
pub fn by_note(target: &Target, memory: &ProcessMemory, options: &str) -> Result<Done, InjectError> {
    let note = target.note.ok_or(InjectError::Missing("sampler's note"))?;
    let ((), stopped, tries) = at_safe_point(target, memory, Need::Nothing, |thread| {
        thread.map_scratch(CALL)?;
        if thread.call(note.stat, [0; 6], CALL)? as u32 == 1 {
            return Err(InjectError::Already(target.facts.pid));
        }
        turn_on(thread, &note, options)
    })?;
    Ok(Done { stopped, tries, note, children: false })
}

/// `pct off`: turns the sampler off that is in the target. What it executes later is not sampled any more either, where that
/// was asked for: `PCT` and our part of `LD_PRELOAD` are taken out of its environment, if it comes to a point where that may be done.
///
/// # Errors
/// As [`by_dlopen`].
pub fn off(target: &Target, memory: &ProcessMemory) -> Result<Duration, InjectError> {
    let note = target.note.ok_or(InjectError::Missing("sampler's note"))?;
    let ((), stopped, _) = at_safe_point(target, memory, Need::Nothing, |thread| {
        thread.map_scratch(CALL)?;
        match thread.call(note.off, [0; 6], CALL)? as u32 as i32 {
            0 | 1 => Ok(()), // 1: it was off
            e => result(e as u64),
        }
    })?;
    if let Some(before) = children::Environment::of(target, memory) {
        let _ = at_safe_point(target, memory, Need::Allocator, |thread| {
            thread.map_scratch(CALL)?;
            before.set_back(thread)
        })?;
    }
    Ok(stopped)
}

pub(crate) fn turn_on(thread: &mut Borrowed<'_>, note: &PctNote, options: &str) -> Result<(), InjectError> {
    // the sampler answers us and not the target's stderr
    let options = text(&format!("{options},controller={}", std::process::id()), "the options")?;
    let options = thread.put(8192, &options)?;
    result(thread.call(note.on, [options, 0, 0, 0, 0, 0], CALL)?)
}

/// A C `int`: 0, or a negated errno, those of the file and of the clock above a number.
pub(crate) fn result(value: u64) -> Result<(), InjectError> {
    use pct_format::answer::{OF_CLOCK, OF_FILE};
    let number = (value as u32 as i32).saturating_abs();
    let error = |above| std::io::Error::from_raw_os_error(number - above);
    match number {
        0 => Ok(()),
        e if e > OF_CLOCK => Err(InjectError::Clock(error(OF_CLOCK))),
        e if e > OF_FILE => Err(InjectError::File(error(OF_FILE))),
        _ => Err(InjectError::On(error(0))),
    }
}

/// A library with the note that was not there when the target was looked at.
fn loaded_library(pid: i32, memory: &ProcessMemory) -> Option<(Image, PctNote)> {
    let maps = tasks::maps(pid).ok()?;
    maps.0
        .iter()
        .filter(|m| m.offset == 0 && m.inode != 0)
        .filter_map(|m| Image::at_header(memory, m.address.0).ok())
        .find_map(|i| i.pct_note(memory).map(|note| (i, note)))
}
