//! Counting while a pass runs.

use std::collections::BTreeMap;
use std::sync::Arc;

use lttv_engine::call::Event;
use lttv_engine::source::{EventHead, TracefileInfo};
use lttv_engine::time::Time;

use super::branches::Branches;
use super::counts::Stats;
use crate::state::{KernelEvent, Mode, Status, SystemState, Thread, ThreadKey, kind_of};
use rustc_hash::FxHashMap;

/// What is known of a class of events.
#[derive(Clone, Copy)]
struct Class {
    name: u32,
    kind: Option<KernelEvent>,
}

#[derive(Clone, Copy, Default)]
struct CpuAccount {
    branch: Option<usize>,
    /// Time up to which CPU time has been accounted.
    since: Option<Time>,
    /// The last switch: when, and to whom.
    switched: Option<(Time, i64)>,
}

pub(super) struct Collector {
    names: Vec<Arc<str>>,
    classes: Vec<Vec<Class>>,
    branches: Branches,
    no_submode: Arc<str>,
    cpus: BTreeMap<u32, CpuAccount>,
    run_ns: BTreeMap<(u32, i64), i64>,
    switches: BTreeMap<u32, u64>,
    span: Option<(Time, Time)>,
    /// Names of the channels, and events of each; which channel a tracefile is of.
    channels: Vec<(Arc<str>, u64)>,
    channel_of: Vec<usize>,
    in_doubt: BTreeMap<u32, i64>,
}

/// The mode that an event leaves, if it leaves one.
fn left(kind: KernelEvent) -> Option<Mode> {
    match kind {
        KernelEvent::SyscallExit => Some(Mode::Syscall),
        KernelEvent::IrqExit => Some(Mode::Irq),
        KernelEvent::SoftIrqExit => Some(Mode::SoftIrq),
        KernelEvent::TrapExit => Some(Mode::Trap),
        _ => None,
    }
}

impl Collector {
    pub(super) fn new(tracefiles: &[TracefileInfo]) -> Collector {
        let mut names: Vec<Arc<str>> = Vec::new();
        let mut known: FxHashMap<Arc<str>, u32> = FxHashMap::default();
        let mut class = |name: &Arc<str>| {
            let next = u32::try_from(names.len()).unwrap_or(u32::MAX);
            let index = *known.entry(name.clone()).or_insert_with(|| {
                names.push(name.clone());
                next
            });
            Class { name: index, kind: kind_of(name).map(|(kind, _)| kind) }
        };
        let classes = tracefiles.iter().map(|info| info.classes.iter().map(|c| class(&c.name)).collect());
        let classes = classes.collect();
        let mut channels: Vec<(Arc<str>, u64)> = Vec::new();
        let mut channel = |info: &TracefileInfo| {
            channels.iter().position(|(name, _)| *name == info.channel).unwrap_or_else(|| {
                channels.push((info.channel.clone(), 0));
                channels.len() - 1
            })
        };
        let channel_of = tracefiles.iter().map(&mut channel).collect();
        Collector {
            names,
            classes,
            branches: Branches::default(),
            no_submode: "".into(),
            cpus: BTreeMap::new(),
            run_ns: BTreeMap::new(),
            switches: BTreeMap::new(),
            span: None,
            channels,
            channel_of,
            in_doubt: BTreeMap::new(),
        }
    }

    fn class(&mut self, event: &Event<'_>) -> Class {
        let known =
            self.classes.get(event.tracefile()).and_then(|c| c.get(event.head.id.0 as usize)).copied();
        // An id outside its table has no name; it is counted all the same.
        known.unwrap_or_else(|| {
            let at = self.names.iter().position(|name| **name == *"?").unwrap_or_else(|| {
                self.names.push("?".into());
                self.names.len() - 1
            });
            Class { name: u32::try_from(at).unwrap_or(u32::MAX), kind: None }
        })
    }

    /// The branch of a CPU by the state: what runs on it, in which mode.
    fn branch_of(&mut self, cpu: Option<u32>, state: &SystemState) -> usize {
        match cpu.and_then(|cpu| state.running(cpu)) {
            Some(thread) => {
                let row = self.branches.note_thread(thread);
                let top = thread.top();
                self.branches.branch(Some(row), cpu, top.mode, &top.submode)
            }
            None => self.branches.branch(None, cpu, Mode::Unknown, &self.no_submode),
        }
    }

    /// Gives the time since the last change on a CPU to the branch that was current.
    fn settle(&mut self, cpu: u32, now: Time, state: &SystemState) {
        let account = self.cpus.entry(cpu).or_default();
        let delta = account.since.map_or(0, |since| now.since(since));
        if account.since.is_some() {
            account.since = Some(now);
        }
        if let (Some(branch), Some(_)) = (account.branch, state.running(cpu)) {
            self.branches.counted_mut(branch).on_cpu += delta;
            if delta > 0
                && let Some(since) = state.in_doubt(cpu, now)
            {
                *self.in_doubt.entry(cpu).or_default() += delta.min(now.since(since));
            }
        }
    }

    /// Before the state model sees the event.
    pub(super) fn before(&mut self, event: &Event<'_>, state: &SystemState) {
        let class = self.class(event);
        let cpu = (event.head.cpu != EventHead::NO_CPU).then_some(event.head.cpu);
        self.span = Some((self.span.map_or(event.time, |span| span.0), event.time));
        let channel = self.channel_of.get(event.tracefile()).and_then(|at| self.channels.get_mut(*at));
        channel.into_iter().for_each(|(_, events)| *events += 1);
        // CPU number u32::MAX stands for "not known" here too.
        let account = self.cpus.entry(event.head.cpu).or_default();
        let branch = match account.branch {
            Some(branch) => branch,
            None => {
                let branch = self.branch_of(cpu, state);
                self.cpus.entry(event.head.cpu).or_default().branch = Some(branch);
                branch
            }
        };
        self.branches.count(branch, class.name);
        let (Some(kind), Some(cpu)) = (class.kind, cpu) else { return };
        if kind == KernelEvent::DumpEnd {
            let cpus: Vec<u32> = self.cpus.keys().copied().collect();
            cpus.into_iter().for_each(|cpu| self.settle(cpu, event.time, state));
            return;
        }
        self.settle(cpu, event.time, state);
        if kind == KernelEvent::Switch {
            *self.switches.entry(cpu).or_default() += 1;
            if let Some((since, tid)) = self.cpus.get(&cpu).and_then(|account| account.switched) {
                *self.run_ns.entry((cpu, tid)).or_default() += event.time.since(since);
            }
        }
        if let Some(mode) = left(kind)
            && let Some(thread) = state.running(cpu).filter(|thread| thread.stack.len() > 1)
            && thread.top().mode == mode
        {
            self.close(branch, thread, thread.stack.len() - 1, event.time);
        }
    }

    /// Ends a stay in a mode: elapsed and cumulative time go to its branch.
    fn close(&mut self, branch: usize, thread: &Thread, level: usize, now: Time) {
        let entry = &thread.stack[level];
        let running = matches!(thread.status, Status::Run | Status::Exit);
        let innermost = level + 1 == thread.stack.len();
        let since =
            if running && innermost && entry.mode != Mode::Unknown { now.since(entry.change) } else { 0 };
        let counted = self.branches.counted_mut(branch);
        counted.elapsed += now.since(entry.entry);
        counted.cumulative += entry.cpu_time.saturating_add(since);
    }

    /// Whether an event changes the state.
    pub(super) fn changes(&mut self, event: &Event<'_>) -> bool {
        self.class(event).kind.is_some()
    }

    /// After the state model has seen an event that changes the state.
    pub(super) fn after(&mut self, event: &Event<'_>, state: &SystemState) {
        let class = self.class(event);
        if class.kind == Some(KernelEvent::Exit) {
            let tid = ["tid", "pid"].iter().find_map(|name| event.field(name)?.as_i64());
            let thread = tid.and_then(|tid| state.thread(ThreadKey::new(tid, event.head.cpu)));
            if let Some(thread) = thread {
                let row = self.branches.note_thread(thread);
                self.branches.thread_mut(row).end = Some(event.time);
            }
        }
        if class.kind == Some(KernelEvent::DumpEnd) {
            let cpus: Vec<u32> = self.cpus.keys().copied().collect();
            cpus.into_iter().for_each(|cpu| self.moved(cpu, state));
            return;
        }
        if event.head.cpu == EventHead::NO_CPU {
            return;
        }
        self.moved(event.head.cpu, state);
        if class.kind == Some(KernelEvent::Switch)
            && let Some(account) = self.cpus.get_mut(&event.head.cpu)
        {
            account.since = Some(event.time);
            account.switched = state.running(event.head.cpu).map(|thread| (event.time, thread.key.tid));
        }
    }

    fn moved(&mut self, cpu: u32, state: &SystemState) {
        let branch = self.branch_of((cpu != EventHead::NO_CPU).then_some(cpu), state);
        self.cpus.entry(cpu).or_default().branch = Some(branch);
    }

    /// A window begins at `from`, in this state: what runs is accounted from there on.
    pub(super) fn begin(&mut self, from: Time, state: &SystemState) {
        for cpu in state.cpus.keys().copied() {
            let branch = Some(self.branch_of(Some(cpu), state));
            let running = state.running(cpu);
            let switched = running.map(|thread| (from, thread.key.tid));
            self.cpus.insert(cpu, CpuAccount { branch, since: running.map(|_| from), switched });
        }
    }

    /// A window ends at `to`. The collector is empty after it.
    pub(super) fn end(&mut self, to: Time, state: Option<&SystemState>) -> Stats {
        if let Some(state) = state {
            let cpus: Vec<u32> = self.cpus.keys().copied().collect();
            for cpu in cpus {
                self.settle(cpu, to, state);
                if let Some((since, tid)) = self.cpus.get(&cpu).and_then(|account| account.switched) {
                    *self.run_ns.entry((cpu, tid)).or_default() += to.since(since);
                }
            }
        }
        self.result()
    }

    /// Closes what is open at the end of the trace and gives the result. The collector is empty after it.
    pub(super) fn finish(&mut self, state: Option<&SystemState>) -> Stats {
        if let (Some(state), Some((_, end))) = (state, self.span) {
            let cpus: Vec<u32> = self.cpus.keys().copied().collect();
            cpus.into_iter().for_each(|cpu| self.settle(cpu, end, state));
            for thread in state.threads.values() {
                let row = self.branches.note_thread(thread);
                for (level, entry) in thread.stack.iter().enumerate() {
                    let branch = self.branches.branch(Some(row), thread.cpu, entry.mode, &entry.submode);
                    self.close(branch, thread, level, end);
                }
            }
        }
        self.result()
    }

    fn result(&mut self) -> Stats {
        self.cpus.clear();
        Stats {
            names: std::mem::take(&mut self.names),
            branches: std::mem::take(&mut self.branches).finished(),
            run_ns: std::mem::take(&mut self.run_ns),
            switches: std::mem::take(&mut self.switches),
            span: self.span.take(),
            channels: std::mem::take(&mut self.channels).into_iter().collect(),
            in_doubt: std::mem::take(&mut self.in_doubt),
        }
    }
}
