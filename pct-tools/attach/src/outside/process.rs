//! One process image that is sampled from outside: its memory, regions, walker and recording.
//!
//! The file is made at the first sample: a process that forks and executes at once leaves none.

use super::java::JavaThread;
use super::pages::Pages;
use super::python;
use super::runtimes::Runtimes;
use super::still::{Still, Who};
use super::tracees::folder_of;
use super::waiting::Place;
use super::{cause, handler_entry, waiting};
use crate::memory::ProcessMemory;
use crate::ptrace::sys::{self, Regs, Tid};
use crate::recording::{Recording, Subject};
use crate::regions::Regions;
use crate::subject::Manner;
use crate::tasks;
use crate::unwind::Unwind as _;
use crate::unwind::{Shared, StackWalker};
use pct_format::State;
use pct_format::header::{LossCause, StackMode};
use pct_format::record::{Blocked, CutCause, Frame};
use pct_unwind::Placed;
use procfs::process::Process as ProcProcess;
use std::io;
use std::path::Path;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// Time between two looks at the maps because of code that is not known: a look takes some tenths of a millisecond.
const LOOKS_APART: Duration = Duration::from_millis(10);
/// How many times that time is doubled, up to ten seconds.
const MOST_VAIN_LOOKS: u32 = 10;

/// One image.
pub(super) struct Process {
    pid: i32,
    memory: ProcessMemory,
    recording: Option<Recording>,
    regions: Regions,
    /// The executable ranges known, to notice a PC outside of them.
    known: Vec<(u64, u64)>,
    walker: StackWalker,
    /// Looks at the maps in a row, because walks met code that is not known, that found nothing new.
    vain_looks: u32,
    next_look: Option<Instant>,
    runtimes: Runtimes,
    stacks: bool,
    callers: Vec<Placed>,
    frames: Vec<Frame>,
    /// User and system CPU nanoseconds of the process when sampling of this image began.
    before: (u64, u64),
    /// User and system CPU nanoseconds since, as the kernel told them last.
    used: (u64, u64),
    /// CPU nanoseconds that its ended threads used under our eyes.
    ended_ns: u64,
    /// Why there is no file.
    pub(super) failed: Option<io::Error>,
}

/// User and system CPU nanoseconds of a process: their sum by the scheduler, their ratio by the kernel's ticks.
fn cpu_ns(pid: i32) -> Option<(u64, u64)> {
    let stat = ProcProcess::new(pid).and_then(|p| p.stat()).ok()?;
    let tick = 1_000_000_000 / procfs::ticks_per_second().max(1);
    let ticks = stat.utime.saturating_add(stat.stime);
    let Some(all) = sys::cpu_ns(pid) else { return Some((stat.utime * tick, stat.stime * tick)) };
    let system = u128::from(all) * u128::from(stat.stime) / u128::from(ticks.max(1));
    let system = u64::try_from(system).unwrap_or(all).min(all);
    Some((all - system, system))
}

impl Process {
    /// `born`: it began under our eyes, so all its CPU time counts.
    pub(super) fn open(pid: i32, manner: &Manner, born: bool, shared: &Rc<Shared>) -> io::Result<Process> {
        Ok(Process {
            pid,
            memory: ProcessMemory::open(pid, false)?,
            recording: None,
            regions: Regions::default(),
            known: Vec::new(),
            walker: StackWalker::new(manner.depth, Rc::clone(shared)),
            vain_looks: 0,
            next_look: None,
            runtimes: Runtimes::new(manner),
            stacks: manner.stacks != StackMode::None,
            callers: Vec::new(),
            frames: Vec::new(),
            before: if born { (0, 0) } else { cpu_ns(pid).unwrap_or_default() },
            used: (0, 0),
            ended_ns: 0,
            failed: None,
        })
    }

    /// The recording, made now if there is none yet.
    pub(super) fn recording(&mut self, folder: &Path, manner: &Manner) -> Option<&mut Recording> {
        if self.recording.is_none() && self.failed.is_none() {
            match create(folder, self.pid, manner) {
                Ok(recording) => self.recording = Some(recording),
                Err(e) => self.failed = Some(e),
            }
            self.refresh();
        }
        self.recording.as_mut()
    }

    fn refresh(&mut self) {
        let Ok(maps) = tasks::maps(self.pid) else { return };
        let now = self.regions.regions_of(self.pid, &maps.0, &self.memory);
        self.known = now.iter().map(|r| (r.start, r.end)).collect();
        if let Some(recording) = &mut self.recording {
            recording.regions(&now);
            if self.stacks {
                self.runtimes.refresh(&maps.0, &self.memory, recording);
            }
        }
        self.walker.learn(self.pid, &maps.0, &self.memory, &self.runtimes.code_with_frame_pointers());
    }

    fn knows(&self, pc: u64) -> bool {
        self.known.iter().any(|(from, to)| (*from..*to).contains(&pc))
    }

    /// Writes the CPU time that the process used since we came.
    pub(super) fn anchor(&mut self) {
        if let Some((user, system)) = cpu_ns(self.pid) {
            self.used = (user.saturating_sub(self.before.0), system.saturating_sub(self.before.1));
        }
        // a process that has ended tells nothing any more, but its threads were looked at until then
        let (user, system) = self.used;
        let more = self.ended_ns.saturating_sub(user + system);
        if let Some(recording) = &mut self.recording {
            recording.anchor(user + more, system);
        }
    }

    /// The number of a thread in the recording.
    pub(super) fn serial(&mut self, tid: Tid, folder: &Path, manner: &Manner) -> Option<u32> {
        let name = std::fs::read(format!("/proc/{}/task/{tid}/comm", self.pid)).unwrap_or_default();
        Some(self.recording(folder, manner)?.thread(tid.0.cast_unsigned(), name.trim_ascii_end()))
    }

    /// The registers that a sample stands for: those of what a signal has just interrupted, else the thread's own.
    pub(super) fn interrupted(&self, regs: Regs) -> Regs {
        handler_entry::interrupted(&regs, &self.memory).unwrap_or(regs)
    }

    /// What could not be read of the process when it was seen first may be there now.
    fn look_again(&mut self) {
        if let Some(recording) = &mut self.recording
            && self.runtimes.look_again(&self.memory, recording)
        {
            self.refresh();
        }
    }

    /// Looks at the maps again if walks have met code that is not known; whether there is new code. An address without
    /// code behind it is met again and again, so after each look that found nothing new the next one has to wait twice
    /// as long.
    fn may_have_new_code(&mut self) -> bool {
        let now = Instant::now();
        if !self.walker.take_unknown() || self.next_look.is_some_and(|next| now < next) {
            return false;
        }
        let before = self.known.clone();
        self.refresh();
        let is_new = self.known != before;
        self.vain_looks = if is_new { 0 } else { (self.vain_looks + 1).min(MOST_VAIN_LOOKS) };
        self.next_look = Some(now + LOOKS_APART * (1 << self.vain_looks));
        is_new
    }

    /// Interns the stack of a stopped thread.
    pub(super) fn stopped_stack(&mut self, tid: Tid, regs: &Regs) -> u32 {
        if !self.knows(regs.rip) {
            self.refresh();
        }
        self.look_again();
        if !self.stacks {
            self.callers.clear();
            return self.intern(None);
        }
        let mut cut = self.walk_stopped(tid, regs);
        if self.walker.wants_data() {
            self.refresh();
            cut = self.walk_stopped(tid, regs);
        }
        if self.may_have_new_code() {
            cut = self.walk_stopped(tid, regs);
        }
        let extended = if self.runtimes.has_python() { sys::xstate(tid).ok() } else { None };
        let registers = python::registers(regs, extended.as_deref());
        let place = (regs.rsp, regs.rip);
        self.with_frames_of_interpreter(place, cut, Who::ControlBlock(regs.fs_base), &registers)
    }

    fn walk_stopped(&mut self, tid: Tid, regs: &Regs) -> Option<CutCause> {
        self.callers.clear();
        let thread = self.java_thread(tid, regs.rsp);
        let Process { walker, runtimes, memory, recording, callers, .. } = self;
        match (thread, recording) {
            (Some(thread), Some(recording)) => {
                let pages = &Pages::new(memory);
                runtimes.java_walks(walker, thread, pages, recording).walk(regs, memory, callers)
            }
            _ => walker.walk(regs, memory, callers),
        }
    }

    /// Interns the stack of a waiting thread.
    pub(super) fn waiting_stack(&mut self, tid: Tid, sp: u64, pc: u64) -> u32 {
        if !self.knows(pc) || self.walker.wants_data() {
            self.refresh();
        }
        self.look_again();
        if !self.stacks {
            self.callers.clear();
            return self.intern(None);
        }
        let mut cut = self.walk_waiting(tid, (sp, pc));
        if self.may_have_new_code() {
            cut = self.walk_waiting(tid, (sp, pc));
        }
        let number = if self.runtimes.has_python() { tasks::own_number(self.pid, tid.0) } else { Some(0) };
        match number {
            Some(number) => self.with_frames_of_interpreter((sp, pc), cut, Who::Number(number), &[]),
            None => self.intern(cut),
        }
    }

    fn walk_waiting(&mut self, tid: Tid, (sp, pc): (u64, u64)) -> Option<CutCause> {
        self.callers.clear();
        let thread = self.java_thread(tid, sp);
        let Process { walker, runtimes, memory, recording, callers, known, .. } = self;
        let code = |a: u64| known.iter().any(|(from, to)| (*from..*to).contains(&a));
        match (thread, recording) {
            (Some(thread), Some(recording)) => {
                let pages = &Pages::new(memory);
                let mut walks = runtimes.java_walks(walker, thread, pages, recording);
                waiting::walk(&mut walks, (sp, pc), code, memory, callers)
            }
            _ => waiting::walk(walker, (sp, pc), code, memory, callers),
        }
    }

    /// What walks of Java frames must know of a thread with this stack pointer. `None`: the process has no Java, or the
    /// thread's stack is not known.
    fn java_thread(&mut self, tid: Tid, sp: u64) -> Option<JavaThread> {
        if !self.runtimes.has_java() {
            return None;
        }
        let number = tasks::own_number(self.pid, tid.0)?;
        if self.runtimes.stack_end(sp).is_none() {
            self.refresh();
        }
        Some(JavaThread { number, stack_end: self.runtimes.stack_end(sp)? })
    }

    /// Why a waiting thread waits.
    pub(super) fn cause(&self, tid: Tid, place: &Place) -> Blocked {
        cause::of_waiting(&folder_of(tid), place, &self.memory)
    }

    /// The stack with the cause for which its thread does not run.
    pub(super) fn blocked_stack(&mut self, stack: u32, blocked: Blocked) -> u32 {
        self.recording.as_mut().map_or(0, |recording| recording.stack_below(stack, Frame::Blocked(blocked)))
    }

    /// Interns the stack of a thread that may run code of an interpreter.
    fn with_frames_of_interpreter(
        &mut self,
        (sp, pc): (u64, u64),
        cut: Option<CutCause>,
        thread: Who,
        registers: &[u64],
    ) -> u32 {
        let Some(recording) = &mut self.recording else { return 0 };
        self.frames.clear();
        let still = Still { pc, sp, callers: &self.callers, cut, thread, registers };
        match self.runtimes.stack(&still, &self.walker, &self.memory, recording, &mut self.frames) {
            Some(()) => recording.stack(&self.frames),
            None => self.intern(cut),
        }
    }

    /// Interns the native stack.
    fn intern(&mut self, cut: Option<CutCause>) -> u32 {
        self.frames.clear();
        self.frames.extend(self.callers.iter().map(|caller| Frame::decode(caller.entry)));
        self.frames.extend(cut.map(Frame::Cut));
        self.recording.as_mut().map_or(0, |r| r.stack(&self.frames))
    }

    pub(super) fn sample(&mut self, serial: u32, pc: u64, weight: u64, system: bool, stack: u32) {
        if let Some(recording) = &mut self.recording {
            recording.sample(serial, pc, weight, system, stack);
        }
    }

    /// Periods that were due and have no sample.
    pub(super) fn lose(&mut self, weight: u64) {
        if let Some(recording) = &mut self.recording {
            recording.lose(LossCause::Asleep, weight, weight);
        }
    }

    /// A thread has ended, with this much CPU time in all, of which `ours` under our eyes.
    pub(super) fn thread_end(&mut self, serial: Option<u32>, cpu_ns: u64, ours: u64) {
        self.ended_ns += ours;
        let Some(serial) = serial else { return };
        if let Some(recording) = &mut self.recording {
            recording.thread_end(serial, cpu_ns);
        }
    }

    /// Ends the recording. `Some`: there was none, and this is the CPU time that the process used.
    pub(super) fn close(mut self, state: State) -> Option<u64> {
        self.anchor();
        self.look_again();
        if state == State::Replaced
            && let Some(recording) = &mut self.recording
        {
            use std::os::unix::ffi::OsStrExt;
            let exe = std::fs::read_link(tasks::folder(self.pid).join("exe")).unwrap_or_default();
            recording.exec(exe.as_os_str().as_bytes());
        }
        match self.recording.take() {
            Some(recording) => {
                recording.close(state);
                None
            }
            None => Some(self.used.0.saturating_add(self.used.1).max(self.ended_ns)),
        }
    }
}

/// Makes `NAME-PID.pct`, or with the next free number (a process id has several images).
fn create(folder: &Path, pid: i32, manner: &Manner) -> io::Result<Recording> {
    let keep = |c: char| if c.is_alphanumeric() || "._+-".contains(c) { c } else { '_' };
    let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    let name: String = name.trim_end().chars().map(keep).collect();
    let subject = Subject::read_proc(pid, manner);
    let mut number = 1;
    loop {
        let file = match number {
            1 => format!("{name}-{pid}.pct"),
            n => format!("{name}-{pid}-{n}.pct"),
        };
        match Recording::create(&folder.join(file), &subject) {
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists && number < 1000 => number += 1,
            made => return made,
        }
    }
}
