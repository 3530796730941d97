//! What the state of a system is made of: plain data, as it is written to files.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use lttv_engine::time::Time;
use serde::{Deserialize, Serialize};

use super::losses::Losses;

/// What a thread is executing.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
pub enum Mode {
    /// Not known: it was there before the trace began.
    #[default]
    Unknown,
    /// Its own code.
    User,
    /// A system call; for kernel threads, their work.
    Syscall,
    /// A trap, such as a page fault.
    Trap,
    /// An interrupt handler on its time.
    Irq,
    /// A deferred interrupt handler on its time.
    SoftIrq,
}

impl Mode {
    /// Its name, for people.
    pub fn name(self) -> &'static str {
        match self {
            Mode::Unknown => "unknown",
            Mode::User => "user",
            Mode::Syscall => "syscall",
            Mode::Trap => "trap",
            Mode::Irq => "irq",
            Mode::SoftIrq => "softirq",
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Most bytes of a command name in the kernel, without the zero at its end.
pub const COMM_LEN: usize = 15;

/// Where a thread stands with the scheduler.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
pub enum Status {
    /// Not known.
    #[default]
    Unnamed,
    /// Made, never run yet.
    WaitFork,
    /// Could run, waits for a CPU.
    WaitCpu,
    /// Has begun to exit.
    Exit,
    /// Has exited and left its CPU.
    Zombie,
    /// Waits for something.
    Wait,
    /// Runs on a CPU.
    Run,
    /// Gone.
    Dead,
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Status::Unnamed => "unnamed",
            Status::WaitFork => "wait_fork",
            Status::WaitCpu => "wait_cpu",
            Status::Exit => "exit",
            Status::Zombie => "zombie",
            Status::Wait => "wait",
            Status::Run => "run",
            Status::Dead => "dead",
        })
    }
}

/// User or kernel thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub enum ThreadKind {
    /// Not known.
    #[default]
    Unknown,
    /// Runs a program.
    User,
    /// Part of the kernel.
    Kernel,
}

/// One level of what a thread is executing.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Execution {
    /// The mode.
    pub mode: Mode,
    /// Name of the system call, number of the trap or interrupt; empty when there is none.
    pub submode: Arc<str>,
    /// When it was entered.
    pub entry: Time,
    /// When CPU time was last accounted to it: its entry, a return to it, or a switch to its thread.
    pub change: Time,
    /// CPU time spent in it and in what it was interrupted by, up to `change`, in ns.
    pub cpu_time: i64,
}

/// Identity of a thread: its number; the idle threads all have 0 and are told apart by their CPU.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct ThreadKey {
    /// Thread number as the kernel sees it.
    pub tid: i64,
    /// The CPU for number 0, else 0.
    pub cpu: u32,
}

impl ThreadKey {
    /// The key of a thread seen on a CPU.
    pub fn new(tid: i64, cpu: u32) -> ThreadKey {
        ThreadKey { tid, cpu: if tid == 0 { cpu } else { 0 } }
    }
}

/// A thread.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Thread {
    /// Its identity.
    pub key: ThreadKey,
    /// The process it belongs to, where known.
    pub tgid: Option<i64>,
    /// Its parent, where known.
    pub ppid: Option<i64>,
    /// When it was made; absent when that was before the trace began.
    pub created: Option<Time>,
    /// When it was first seen.
    pub inserted: Time,
    /// Its command name, as the event that told it last has it; at most [`COMM_LEN`] bytes where the kernel wrote it.
    pub name: Arc<str>,
    /// The file it has executed, where an event told; empty when none did.
    pub path: Arc<str>,
    /// The file that its running call of `execve` names: its path once the call succeeds.
    pub exec_file: Option<Arc<str>>,
    /// User or kernel.
    pub kind: ThreadKind,
    /// The CPU on which it runs or ran last.
    pub cpu: Option<u32>,
    /// Where it stands with the scheduler.
    pub status: Status,
    /// Since when it stands there.
    pub status_since: Time,
    /// What it is executing, innermost last. Never empty.
    pub stack: Vec<Execution>,
    /// Open files by number, as far as the state dump tells.
    pub files: BTreeMap<u32, Arc<str>>,
    /// The free event was seen.
    pub freed: bool,
    /// It has exited and its last switch was seen.
    pub switched_out: bool,
}

/// Name of what a thread does in a mode, for people: work of the kernel that is no system call is told apart
/// from one (system calls have names), and so is idling.
pub fn activity(mode: Mode, submode: &str, tid: i64) -> &'static str {
    match mode {
        Mode::Syscall if tid == 0 => "idle",
        Mode::Syscall if submode.is_empty() => "kernel",
        mode => mode.name(),
    }
}

impl Thread {
    /// Name of what it does, for people; see [`activity`].
    pub fn activity(&self) -> &'static str {
        activity(self.top().mode, &self.top().submode, self.key.tid)
    }

    /// What it is executing.
    pub fn top(&self) -> &Execution {
        self.stack.last().expect("the bottom of a stack is never popped")
    }
}

/// What a CPU is doing.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub enum CpuMode {
    /// Not known.
    #[default]
    Unknown,
    /// The idle thread runs.
    Idle,
    /// A thread runs.
    Busy,
    /// An interrupt handler runs.
    Irq,
    /// A deferred interrupt handler runs.
    SoftIrq,
    /// A trap is handled.
    Trap,
}

impl fmt::Display for CpuMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            CpuMode::Unknown => "unknown",
            CpuMode::Idle => "idle",
            CpuMode::Busy => "busy",
            CpuMode::Irq => "irq",
            CpuMode::SoftIrq => "softirq",
            CpuMode::Trap => "trap",
        })
    }
}

/// A CPU.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Cpu {
    /// What it is doing, innermost last. Never empty.
    pub modes: Vec<CpuMode>,
    /// The thread that runs on it, once a switch was seen.
    pub running: Option<ThreadKey>,
    /// Numbers of the interrupts being handled.
    pub irqs: Vec<u32>,
    /// Numbers of the deferred interrupts being handled.
    pub softirqs: Vec<u32>,
    /// Numbers of the traps being handled.
    pub traps: Vec<u32>,
    /// When the first switch on it was seen.
    pub first_switch: Option<Time>,
    /// When the last switch on it was seen.
    pub last_switch: Option<Time>,
}

impl Cpu {
    /// What it is doing.
    pub fn mode(&self) -> CpuMode {
        self.modes.last().copied().unwrap_or_default()
    }
}

/// Deferred interrupts of one number, over all CPUs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct SoftIrq {
    /// Raised and not yet begun.
    pub pending: u32,
    /// Being handled.
    pub running: u32,
}

/// What a block device is doing.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum DeviceMode {
    /// Nothing.
    Idle,
    /// Reads for somebody.
    BusyReading,
    /// Writes for somebody.
    BusyWriting,
}

/// Things that did not fit what was known.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Oddities {
    /// Exits from a mode that was not entered.
    pub unmatched_exits: u64,
    /// Forks of a thread that exists.
    pub children_known: u64,
    /// Switches away from a thread that was not running there.
    pub wrong_previous: u64,
}

/// The state of a system at a point of its trace.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct SystemState {
    /// CPUs by number.
    pub cpus: BTreeMap<u32, Cpu>,
    /// Threads by identity. Copies of a state share those that have not changed.
    #[serde(with = "as_list")]
    pub threads: BTreeMap<ThreadKey, Arc<Thread>>,
    /// For each interrupt number, how many handlers run.
    pub irqs: BTreeMap<u32, u32>,
    /// Deferred interrupts by number.
    pub softirqs: BTreeMap<u32, SoftIrq>,
    /// For each trap number, how many are being handled.
    pub traps: BTreeMap<u32, u32>,
    /// What each block device is doing, by device number; innermost last, empty when idle.
    pub devices: BTreeMap<u64, Vec<DeviceMode>>,
    /// Names of interrupts.
    pub irq_names: BTreeMap<u32, Arc<str>>,
    /// Names of block devices.
    pub device_names: BTreeMap<u64, Arc<str>>,
    /// Things that did not fit.
    pub oddities: Oddities,
    /// What was lost in the whole trace. Not part of what is written to files: the model knows it from its source.
    #[serde(skip)]
    pub losses: Losses,
}

impl SystemState {
    /// The thread that runs on a CPU.
    pub fn running(&self, cpu: u32) -> Option<&Thread> {
        self.thread(self.cpus.get(&cpu)?.running?)
    }

    /// A thread.
    pub fn thread(&self, key: ThreadKey) -> Option<&Thread> {
        self.threads.get(&key).map(Arc::as_ref)
    }

    /// What a CPU is doing.
    pub fn cpu_mode(&self, cpu: u32) -> CpuMode {
        self.cpus.get(&cpu).map_or(CpuMode::Unknown, Cpu::mode)
    }

    /// Since when what is said of a CPU is in doubt at the time `now` (the state's own): events of it were
    /// lost, and no switch has been seen on it since.
    pub fn in_doubt(&self, cpu: u32, now: Time) -> Option<Time> {
        self.losses.since(cpu, self.cpus.get(&cpu).and_then(|cpu| cpu.last_switch), now)
    }

    /// Since when what is said of a thread is in doubt: events of the CPU where it was last seen were lost since.
    pub fn thread_in_doubt(&self, thread: &Thread, now: Time) -> Option<Time> {
        let seen = thread.top().change.max(thread.inserted);
        self.losses.since(thread.cpu?, Some(seen), now)
    }
}

/// Threads as a list: their keys are not text.
mod as_list {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use serde::{Deserialize, Deserializer, Serializer};

    use super::{Thread, ThreadKey};

    type Threads = BTreeMap<ThreadKey, Arc<Thread>>;

    pub(super) fn serialize<S: Serializer>(threads: &Threads, to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(threads.values())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Threads, D::Error> {
        let list: Vec<Arc<Thread>> = Vec::deserialize(from)?;
        Ok(list.into_iter().map(|thread| (thread.key, thread)).collect())
    }
}
