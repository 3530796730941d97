//! Events to items of lanes, in a pass and in a window alike.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lttv_engine::call::Event;
use lttv_engine::source::{EventHead, Source};
use lttv_engine::time::Time;
use rustc_hash::FxHashMap;

use super::lanes::{
    BLOCKED, FUNCTIONS, IDLE, INTERRUPT, KERNEL, LaneKind, LaneOf, RUNNING, SOFTIRQ, SYSTEM_CALL, TRAP,
    Tables, UNKNOWN, USER, WAITS,
};
use super::pyramid::Pyramid;
use crate::state::{CpuMode, KernelEvent, Mode, Status, SystemState, Thread, ThreadKey, kind_of};

/// What is done with the events of a class.
#[derive(Clone, Copy)]
struct ClassRule {
    /// A sample of a thread; else an event that is only counted.
    is_sample: bool,
    /// What it changes in the state, if it does.
    changes: Option<KernelEvent>,
    /// Key of its name.
    key: u32,
}

struct FileRule {
    classes: Vec<ClassRule>,
    name: Arc<str>,
    cpu: Option<u32>,
    /// Its samples, if it had one.
    samples: Option<usize>,
    /// Its events without a CPU and thread, if it had one.
    events: Option<usize>,
    /// Its events may tell their thread, which is looked at where they change no state.
    by_thread: bool,
}

struct ThreadLane {
    lane: usize,
    name: Arc<str>,
}

/// Puts what events say into the lanes of a [`Pyramid`].
pub(super) struct Collector {
    tables: Arc<Mutex<Tables>>,
    pub(super) pyramid: Pyramid,
    files: Vec<FileRule>,
    cpus: BTreeMap<u32, usize>,
    cpu_events: BTreeMap<u32, usize>,
    thread_events: FxHashMap<i64, usize>,
    threads: FxHashMap<i64, ThreadLane>,
    running: BTreeMap<u32, ThreadKey>,
    /// Time of the last event.
    pub(super) at: Time,
    /// Events so far, and those of them without a time, which are in no lane.
    pub(super) events: u64,
    pub(super) untimed: u64,
}

/// Names of the events that are samples.
const SAMPLES: [&str; 2] = ["sample", "system_sample"];

/// The name of a lane whose thread's name no event has told.
const UNNAMED: &str = "thread";

fn tid_field(event: &Event<'_>, names: &[&str]) -> Option<i64> {
    names.iter().find_map(|name| event.field(name)?.as_i64())
}

impl Collector {
    /// For a trace.
    pub(super) fn new(source: &dyn Source, tables: &Arc<Mutex<Tables>>, pyramid: Pyramid) -> Collector {
        let has_threads = source.field_names().is_none_or(|names| names.contains("vtid"));
        let mut guard = tables.lock().unwrap_or_else(PoisonError::into_inner);
        let files = source.tracefiles().iter().map(|info| {
            let classes = info.classes.iter().map(|class| ClassRule {
                is_sample: SAMPLES.contains(&&*class.name) && *info.channel == *"samples",
                changes: kind_of(&class.name).map(|(kind, _)| kind),
                key: guard.key(&class.name),
            });
            let classes: Vec<ClassRule> = classes.collect();
            let by_thread = has_threads && classes.iter().all(|class| class.changes.is_none());
            FileRule {
                classes,
                name: info.name.clone(),
                cpu: info.cpu,
                samples: None,
                events: None,
                by_thread,
            }
        });
        let files: Vec<FileRule> = files.collect();
        drop(guard);
        Collector {
            tables: tables.clone(),
            pyramid,
            files,
            cpus: BTreeMap::new(),
            cpu_events: BTreeMap::new(),
            thread_events: FxHashMap::default(),
            threads: FxHashMap::default(),
            running: BTreeMap::new(),
            at: Time::MIN,
            events: 0,
            untimed: 0,
        }
    }

    /// States of CPUs that nothing tells are unknown from here on.
    pub(super) fn begin_unknown(&mut self, from: Time) {
        let of_kernel = self.files.iter().filter(|f| f.classes.iter().any(|c| c.changes.is_some()));
        let cpus: Vec<u32> = of_kernel.filter_map(|file| file.cpu).collect();
        for cpu in cpus {
            let lane = self.cpu_lane(cpu);
            self.pyramid.state(lane, from, Some(UNKNOWN), 0);
        }
    }

    fn tables(&self) -> MutexGuard<'_, Tables> {
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn cpu_lane(&mut self, cpu: u32) -> usize {
        if let Some(lane) = self.cpus.get(&cpu) {
            return *lane;
        }
        let lane = self.tables().lane(LaneKind::Cpu, LaneOf::Cpu(cpu), || format!("CPU {cpu}").into());
        self.cpus.insert(cpu, lane);
        lane
    }

    /// What is known at the begin of a window: all that goes on there began before.
    pub(super) fn begin(&mut self, state: &SystemState, from: Time) {
        let cpus: Vec<u32> = state.cpus.keys().copied().collect();
        for cpu in cpus {
            self.update_cpu(state, cpu, from, 0);
        }
        for thread in state.threads.values() {
            self.update_thread(state, thread, from, 0);
        }
    }

    /// An event, with the state after it.
    pub(super) fn event(&mut self, event: &Event<'_>, state: Option<&SystemState>) {
        self.events += 1;
        if event.time == Time::UNTIMED {
            self.untimed += 1;
            return;
        }
        self.at = event.time;
        let (tracefile, id) = (event.tracefile(), event.head.id.0 as usize);
        let rule = self.files.get(tracefile).and_then(|file| file.classes.get(id)).copied();
        // An id outside its table has no name; it is counted all the same.
        let rule = rule.unwrap_or_else(|| {
            let key = self.tables().key(&Arc::from("?"));
            ClassRule { is_sample: false, changes: None, key }
        });
        if rule.is_sample {
            self.sample(event, tracefile);
        } else {
            let lane = self.events_lane(event, tracefile);
            self.pyramid.point(lane, event.time, rule.key, 1);
        }
        if let (Some(kind), Some(state)) = (rule.changes, state) {
            self.changed(event, kind, state);
        }
    }

    fn sample(&mut self, event: &Event<'_>, tracefile: usize) {
        let known = self.files[tracefile].samples;
        let lane = known.unwrap_or_else(|| {
            let of = match tid_field(event, &["vtid"]) {
                Some(tid) => LaneOf::Thread(tid),
                None => LaneOf::Tracefile(tracefile),
            };
            let name = self.files[tracefile].name.clone();
            let lane = self.tables().lane(LaneKind::Samples, of, || name);
            self.files[tracefile].samples = Some(lane);
            lane
        });
        let weight = event.field("weight_ns").and_then(|w| w.as_u64()).unwrap_or(0);
        let function = event.field("function").and_then(|f| f.as_u64());
        let key = match function.and_then(|f| u32::try_from(f).ok()?.checked_add(FUNCTIONS)) {
            Some(key) => key.min(i32::MAX.unsigned_abs()),
            None => {
                let object = event.field("region");
                let object = object.as_ref().and_then(|o| o.as_str()).unwrap_or("[unknown]");
                self.tables().key(&Arc::from(object))
            }
        };
        self.pyramid.point(lane, event.time, key, weight);
    }

    fn events_lane(&mut self, event: &Event<'_>, tracefile: usize) -> usize {
        let Some(file) = self.files.get(tracefile) else { return 0 };
        if file.by_thread
            && let Some(tid) = tid_field(event, &["vtid"])
        {
            if let Some(lane) = self.thread_events.get(&tid) {
                return *lane;
            }
            let comm = event.field("procname");
            let comm = comm.as_ref().and_then(|name| name.as_str()).unwrap_or(UNNAMED);
            let name = || format!("{comm} ({tid})").into();
            let lane = self.tables().lane(LaneKind::Events, LaneOf::Thread(tid), name);
            self.thread_events.insert(tid, lane);
            return lane;
        }
        let cpu = if event.head.cpu == EventHead::NO_CPU { file.cpu } else { Some(event.head.cpu) };
        if let Some(cpu) = cpu {
            if let Some(lane) = self.cpu_events.get(&cpu) {
                return *lane;
            }
            let name = || format!("events of CPU {cpu}").into();
            let lane = self.tables().lane(LaneKind::Events, LaneOf::Cpu(cpu), name);
            self.cpu_events.insert(cpu, lane);
            return lane;
        }
        if let Some(lane) = file.events {
            return lane;
        }
        let name = file.name.clone();
        let lane = self.tables().lane(LaneKind::Events, LaneOf::Tracefile(tracefile), || name);
        self.files[tracefile].events = Some(lane);
        lane
    }

    /// Brings the lanes up to date that an event may have changed.
    fn changed(&mut self, event: &Event<'_>, kind: KernelEvent, state: &SystemState) {
        let (now, cpu) = (event.time, event.head.cpu);
        if kind == KernelEvent::DumpEnd {
            for thread in state.threads.values() {
                self.update_thread(state, thread, now, 1);
            }
        }
        // A field is found by reading the event from its begin, so none is asked for that the state tells too.
        let tids = match kind {
            // The next thread is the one that runs on the CPU from now on: see below.
            KernelEvent::Switch if cpu != EventHead::NO_CPU => {
                [tid_field(event, &["prev_tid", "prev_pid"]), None]
            }
            KernelEvent::Switch => {
                [tid_field(event, &["prev_tid", "prev_pid"]), tid_field(event, &["next_tid", "next_pid"])]
            }
            KernelEvent::Fork => [tid_field(event, &["child_tid", "child_pid"]), None],
            KernelEvent::Wakeup
            | KernelEvent::Exit
            | KernelEvent::Free
            | KernelEvent::Rename
            | KernelEvent::Exec
            | KernelEvent::DumpProcess => [tid_field(event, &["tid", "pid"]), None],
            _ => [None, None],
        };
        for tid in tids.into_iter().flatten() {
            self.update_tid(state, ThreadKey::new(tid, cpu), now);
        }
        if cpu != EventHead::NO_CPU {
            // Who ran here until now, by the state, and who runs here from now on.
            let running = state.cpus.get(&cpu).and_then(|cpu| cpu.running);
            let before = match running {
                Some(running) => self.running.insert(cpu, running),
                None => self.running.get(&cpu).copied(),
            };
            if let Some(before) = before.filter(|before| Some(*before) != running) {
                self.update_tid(state, before, now);
            }
            if let Some(running) = running {
                self.update_tid(state, running, now);
            }
            self.update_cpu(state, cpu, now, 1);
        }
    }

    fn update_tid(&mut self, state: &SystemState, key: ThreadKey, now: Time) {
        match state.thread(key) {
            Some(thread) => self.update_thread(state, thread, now, 1),
            None => {
                // It is gone; from now on there is nothing to know of it.
                if let Some(thread) = self.threads.get(&key.tid) {
                    self.pyramid.state(thread.lane, now, None, 0);
                }
            }
        }
    }

    fn update_thread(&mut self, state: &SystemState, thread: &Thread, now: Time, n: u64) {
        let tid = thread.key.tid;
        if tid == 0 {
            return;
        }
        let name = || {
            let name = if thread.name.is_empty() { UNNAMED } else { &*thread.name };
            format!("{name} ({tid})").into()
        };
        let lane = match self.threads.get_mut(&tid) {
            Some(known) => {
                let lane = known.lane;
                if !Arc::ptr_eq(&known.name, &thread.name) && known.name != thread.name {
                    known.name = thread.name.clone();
                    self.tables().rename(lane, name());
                }
                lane
            }
            None => {
                let lane = self.tables().lane(LaneKind::Thread, LaneOf::Thread(tid), name);
                self.threads.insert(tid, ThreadLane { lane, name: thread.name.clone() });
                lane
            }
        };
        self.pyramid.state(lane, now, thread_state(state, thread), n);
    }

    fn update_cpu(&mut self, state: &SystemState, cpu: u32, now: Time, n: u64) {
        let lane = self.cpu_lane(cpu);
        let key = match state.cpu_mode(cpu) {
            CpuMode::Unknown => UNKNOWN,
            CpuMode::Idle => IDLE,
            CpuMode::Busy => state.running(cpu).map_or(UNKNOWN, state_of_running),
            CpuMode::Irq => INTERRUPT,
            CpuMode::SoftIrq => SOFTIRQ,
            CpuMode::Trap => TRAP,
        };
        self.pyramid.state(lane, now, Some(key), n);
    }
}

/// The state of a thread that runs: [`Thread::activity`] as a key.
fn state_of_running(thread: &Thread) -> u32 {
    let top = thread.top();
    match top.mode {
        Mode::Syscall if thread.key.tid == 0 => IDLE,
        Mode::Syscall if top.submode.is_empty() => KERNEL,
        Mode::Syscall => SYSTEM_CALL,
        Mode::Unknown if thread.key.tid == 0 => IDLE,
        Mode::Unknown => RUNNING,
        Mode::User => USER,
        Mode::Trap => TRAP,
        Mode::Irq => INTERRUPT,
        Mode::SoftIrq => SOFTIRQ,
    }
}

/// The state of a thread; none when it has exited.
fn thread_state(state: &SystemState, thread: &Thread) -> Option<u32> {
    match thread.status {
        Status::Run | Status::Exit => {
            // A dump of all threads calls those running that no event has told of yet.
            let runs = thread.cpu.and_then(|cpu| state.cpus.get(&cpu)?.running) == Some(thread.key);
            Some(if runs { state_of_running(thread) } else { UNKNOWN })
        }
        Status::WaitCpu | Status::WaitFork => Some(WAITS),
        Status::Wait => Some(BLOCKED),
        Status::Unnamed => Some(UNKNOWN),
        Status::Zombie | Status::Dead => None,
    }
}
