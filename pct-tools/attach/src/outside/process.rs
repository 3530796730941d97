//! One process image that is sampled from outside: its memory, regions, walker and recording.
//!
//! The file is made at the first sample: a process that forks and executes at once leaves none.

use super::python::{self, Python, Still, Who};
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

/// One image.
pub(super) struct Process {
    pid: i32,
    memory: ProcessMemory,
    recording: Option<Recording>,
    regions: Regions,
    /// The executable ranges known, to notice a PC outside of them.
    known: Vec<(u64, u64)>,
    walker: StackWalker,
    python: Python,
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
            python: Python::new(manner.depth, manner.python),
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
                self.python.refresh(&maps.0, &self.memory, recording);
            }
        }
        self.walker.learn(self.pid, &maps.0, &self.memory);
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
        if let Some(recording) = &mut self.recording {
            self.python.look_again(&self.memory, recording);
        }
    }

    /// Interns the stack of a stopped thread.
    pub(super) fn stopped_stack(&mut self, tid: Tid, regs: &Regs) -> u32 {
        if !self.knows(regs.rip) {
            self.refresh();
        }
        self.look_again();
        self.callers.clear();
        if !self.stacks {
            return self.intern(None);
        }
        let mut cut = self.walker.walk(regs, &self.memory, &mut self.callers);
        if self.walker.wants_data() {
            self.refresh();
            self.callers.clear();
            cut = self.walker.walk(regs, &self.memory, &mut self.callers);
        }
        if !self.python.is_there() {
            return self.intern(cut);
        }
        let extended = sys::xstate(tid).ok();
        let registers = python::registers(regs, extended.as_deref());
        self.with_python((regs.rsp, regs.rip), cut, Who::ControlBlock(regs.fs_base), &registers)
    }

    /// Interns the stack of a waiting thread.
    pub(super) fn waiting_stack(&mut self, tid: Tid, sp: u64, pc: u64) -> u32 {
        if !self.knows(pc) || self.walker.wants_data() {
            self.refresh();
        }
        self.look_again();
        self.callers.clear();
        if !self.stacks {
            return self.intern(None);
        }
        let known = &self.known;
        let code = |a: u64| known.iter().any(|(from, to)| (*from..*to).contains(&a));
        let cut = waiting::walk(&mut self.walker, (sp, pc), code, &self.memory, &mut self.callers);
        match tasks::own_number(self.pid, tid.0).filter(|_| self.python.is_there()) {
            Some(number) => self.with_python((sp, pc), cut, Who::Number(number), &[]),
            None => self.intern(cut),
        }
    }

    /// Why a waiting thread waits.
    pub(super) fn cause(&self, tid: Tid, place: &Place) -> Blocked {
        cause::of_waiting(&folder_of(tid), place, &self.memory)
    }

    /// The stack with the cause for which its thread does not run.
    pub(super) fn blocked_stack(&mut self, stack: u32, blocked: Blocked) -> u32 {
        self.recording.as_mut().map_or(0, |recording| recording.stack_below(stack, Frame::Blocked(blocked)))
    }

    /// Interns the stack of a thread that may run Python.
    fn with_python(
        &mut self,
        (sp, pc): (u64, u64),
        cut: Option<CutCause>,
        thread: Who,
        registers: &[u64],
    ) -> u32 {
        let Some(recording) = &mut self.recording else { return 0 };
        self.frames.clear();
        let still = Still { pc, sp, callers: &self.callers, cut, thread, registers };
        match self.python.stack(&still, &self.memory, recording, &mut self.frames) {
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
