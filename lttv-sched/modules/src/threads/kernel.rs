//! Threads of a kernel trace: the state model says what each does, and an event changes that of a few threads only.

use std::sync::Arc;

use lttv_engine::call::Event;
use lttv_engine::source::{EventHead, TracefileInfo};
use lttv_engine::time::Time;
use rustc_hash::FxHashMap;

use super::interval::{Activity, Collected, ThreadId, ThreadInterval, ThreadState};
use crate::files::{CallFile, OpenFiles};
use crate::state::{
    CpuMode, KernelEvent, Mode, Status, SystemState, Thread, ThreadKey, kind_of, softirq_name,
};

/// What the events of a class tell, and the name of the system call.
type ClassKind = (KernelEvent, Arc<str>);

/// What a thread has been doing since `from`.
struct Under {
    start: Time,
    from: Time,
    state: ThreadState,
    name: Arc<str>,
    /// The CPU where it was last seen.
    cpu: Option<u32>,
    woken_by: Option<Arc<str>>,
}

pub(super) struct KernelThreads {
    trace: usize,
    /// By tracefile and event class.
    kinds: Vec<Vec<Option<ClassKind>>>,
    threads: FxHashMap<ThreadKey, Under>,
    files: OpenFiles,
    /// The threads whose state the event under way may change.
    touched: Vec<ThreadKey>,
}

/// Fields in which an event names threads that it may change, besides the one that runs on its CPU.
fn thread_fields(kind: KernelEvent) -> &'static [&'static str] {
    match kind {
        KernelEvent::Switch => &["next_tid", "next_pid", "prev_tid", "prev_pid"],
        KernelEvent::Fork => &["child_tid", "child_pid"],
        KernelEvent::Wakeup
        | KernelEvent::Exit
        | KernelEvent::Free
        | KernelEvent::Rename
        | KernelEvent::Exec
        | KernelEvent::DumpProcess => &["tid", "pid"],
        _ => &[],
    }
}

impl KernelThreads {
    pub(super) fn new(trace: usize, tracefiles: &[TracefileInfo]) -> KernelThreads {
        let kind = |name: &str| kind_of(name).map(|(kind, call)| (kind, call.into()));
        let kinds =
            tracefiles.iter().map(|info| info.classes.iter().map(|class| kind(&class.name)).collect());
        KernelThreads {
            trace,
            kinds: kinds.collect(),
            threads: FxHashMap::default(),
            files: OpenFiles::default(),
            touched: Vec::new(),
        }
    }

    fn kind(&self, event: &Event<'_>) -> Option<ClassKind> {
        let class = usize::try_from(event.head.id.0).ok()?;
        self.kinds.get(event.tracefile())?.get(class)?.clone()
    }

    /// The window begins: each thread that the state knows does what the state says.
    pub(super) fn begin(&mut self, from: Time, state: &SystemState) {
        for thread in state.threads.values() {
            let under = self.under(from, thread);
            self.threads.insert(thread.key, under);
        }
    }

    fn under(&self, from: Time, thread: &Thread) -> Under {
        Under {
            start: thread.created.unwrap_or(thread.inserted),
            from,
            state: self.state_of(thread),
            name: thread.name.clone(),
            cpu: thread.cpu,
            woken_by: None,
        }
    }

    fn state_of(&self, thread: &Thread) -> ThreadState {
        let activity = match thread.status {
            Status::Run | Status::Exit => Activity::Running,
            Status::WaitCpu | Status::WaitFork => Activity::WaitsForCpu,
            Status::Wait => Activity::Blocked,
            Status::Zombie | Status::Dead => Activity::Exited,
            Status::Unnamed => Activity::Unknown,
        };
        let calls = thread.stack.iter().rev();
        let call = calls.filter(|level| level.mode == Mode::Syscall && !level.submode.is_empty());
        let call = call.map(|level| level.submode.clone()).next().unwrap_or_else(|| "".into());
        let file = match self.files.of_call(thread.key.tid) {
            Some(CallFile::Path(path)) if !call.is_empty() => path.clone(),
            Some(CallFile::Number(number)) if !call.is_empty() => format!("fd {number}").into(),
            _ => "".into(),
        };
        let cpu = thread.cpu.filter(|_| activity == Activity::Running);
        ThreadState { activity, mode: thread.activity(), call, file, cpu }
    }

    /// Before the state model sees the event: who may change, who wakes whom, which file a call is for.
    pub(super) fn before(&mut self, event: &Event<'_>, state: &SystemState) {
        self.touched.clear();
        let Some((kind, call)) = self.kind(event) else { return };
        let cpu = event.head.cpu;
        let running = if cpu == EventHead::NO_CPU { None } else { state.running(cpu) };
        self.touched.extend(running.map(|thread| thread.key));
        for name in thread_fields(kind) {
            if let Some(tid) = event.field(name).and_then(|tid| tid.as_i64()) {
                self.touched.push(ThreadKey::new(tid, cpu));
            }
        }
        match (kind, running) {
            (KernelEvent::Wakeup, running) => self.wakeup(event, running, state),
            (KernelEvent::SyscallEntry, Some(thread)) => self.files.enter(&call, event, thread, state),
            (KernelEvent::SyscallExit, Some(thread)) => drop(self.files.leave(event, thread)),
            _ => {}
        }
    }

    /// Notes who wakes a blocked thread. The first to wake it counts.
    fn wakeup(&mut self, event: &Event<'_>, running: Option<&Thread>, state: &SystemState) {
        let tid = ["tid", "pid"].iter().find_map(|name| event.field(name)?.as_i64());
        let Some(tid) = tid else { return };
        let woken = self.threads.get_mut(&ThreadKey::new(tid, event.head.cpu));
        if let Some(woken) = woken.filter(|under| under.state.activity == Activity::Blocked)
            && woken.woken_by.is_none()
        {
            woken.woken_by = waker(event.head.cpu, running, state);
        }
    }

    /// After the state model has seen the event: what changed ends an interval.
    pub(super) fn after(&mut self, event: &Event<'_>, state: &SystemState, to: &mut Collected) {
        let Some((kind, _)) = self.kind(event) else { return };
        if kind == KernelEvent::DumpEnd {
            self.touched = state.threads.keys().copied().collect();
        }
        for key in std::mem::take(&mut self.touched) {
            self.changed(key, event.time, state, to);
        }
    }

    fn changed(&mut self, key: ThreadKey, now: Time, state: &SystemState, to: &mut Collected) {
        let Some(thread) = state.thread(key) else {
            if let Some(gone) = self.threads.remove(&key) {
                self.close(key, &gone, now, state, to);
            }
            return;
        };
        let next = self.under(now, thread);
        match self.threads.get_mut(&key) {
            Some(under) if under.start == next.start && under.state == next.state => {
                (under.name, under.cpu) = (next.name, next.cpu);
            }
            _ => {
                if let Some(old) = self.threads.insert(key, next) {
                    self.close(key, &old, now, state, to);
                }
            }
        }
    }

    fn close(&self, key: ThreadKey, under: &Under, now: Time, state: &SystemState, to: &mut Collected) {
        let lost = |cpu: u32| state.losses.between(cpu, under.from, now).is_some();
        to.push(&ThreadInterval {
            thread: ThreadId { trace: self.trace, key, start: under.start },
            name: under.name.clone(),
            from: under.from,
            to: now,
            state: under.state.clone(),
            woken_by: under.woken_by.clone(),
            in_doubt: under.cpu.is_some_and(lost),
        });
    }

    /// The window ends.
    pub(super) fn end(&mut self, end: Time, state: &SystemState, to: &mut Collected) {
        let mut left: Vec<_> = std::mem::take(&mut self.threads).into_iter().collect();
        left.sort_by_key(|(key, _)| *key);
        for (key, under) in left {
            self.close(key, &under, end, state, to);
        }
    }
}

/// Who wakes a thread on a CPU: the interrupt that is being handled there, else the thread that runs there.
fn waker(cpu: u32, running: Option<&Thread>, state: &SystemState) -> Option<Arc<str>> {
    let of_cpu = state.cpus.get(&cpu)?;
    match of_cpu.mode() {
        CpuMode::Irq => {
            let number = of_cpu.irqs.last()?;
            let name = state.irq_names.get(number);
            Some(name.map_or_else(|| format!("irq {number}"), |name| format!("irq {name}")).into())
        }
        CpuMode::SoftIrq => {
            let number = of_cpu.softirqs.last()?.to_string();
            Some(format!("softirq {}", softirq_name(&number)).into())
        }
        _ => running.map(|thread| format!("{} {}", thread.key.tid, thread.name).into()),
    }
}
