//! How long things took, by name: system calls, handlers of interrupts, stretches of a process on a CPU,
//! requests of block devices, system calls by the file that they were for.
//!
//! A duration counts where it ends. One whose begin is not known (it was before the trace, or events were lost) is not
//! counted. Durations are kept as counts in buckets of relative width 1/64, so percentiles are exact to 1 %; the other
//! figures are exact.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use lttv_engine::call::Event;
use lttv_engine::hooks::{Flow, Hook, HookKey, PRIORITY_STATS_BEFORE};
use lttv_engine::request::EventsRequest;
use lttv_engine::source::EventHead;
use lttv_engine::time::Time;
use rustc_hash::FxHashMap;

use crate::files::{CallFile, OpenFiles, process_of};
use crate::state::{KernelEvent, Mode, SystemState, Thread, kind_of, softirq_name};

/// What durations are told apart by.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum By {
    /// System calls, by name.
    Syscall,
    /// Time of a process on a CPU from a switch to the next.
    Process,
    /// Handlers of interrupts, deferred interrupts and traps.
    Irq,
    /// Requests of block devices, from issue to completion.
    Device,
    /// System calls on a file descriptor, by the file it stands for.
    File,
}

impl By {
    /// Which events end such durations: a trace without them has none.
    pub fn ends(self) -> fn(KernelEvent) -> bool {
        match self {
            By::Syscall | By::File => |kind| kind == KernelEvent::SyscallExit,
            By::Process => |kind| kind == KernelEvent::Switch,
            By::Irq => {
                |kind| matches!(kind, KernelEvent::IrqExit | KernelEvent::SoftIrqExit | KernelEvent::TrapExit)
            }
            By::Device => |kind| kind == KernelEvent::BlockComplete,
        }
    }

    /// The events that tell such durations, for people.
    pub fn events(self) -> &'static str {
        match self {
            By::Syscall => "entries and exits of system calls (syscall_entry_*, syscall_exit_*)",
            By::Process => "switches (sched_switch)",
            By::Irq => "entries and exits of handlers (irq_handler_*, softirq_*, trap_*)",
            By::Device => "requests of block devices (block_rq_issue, block_rq_complete)",
            By::File => "entries and exits of system calls with their fields (fd, filename)",
        }
    }
}

/// How long something took.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Distribution {
    /// How often.
    pub count: u64,
    /// Sum, ns.
    pub total: u64,
    /// Longest, ns.
    pub max: u64,
    buckets: BTreeMap<u32, u64>,
}

/// Of a duration, so many leading bits tell its bucket.
const BITS: u32 = 7;
const WIDTH: u64 = 1 << (BITS - 1);

impl Distribution {
    /// Counts a duration.
    pub fn add(&mut self, ns: u64) {
        self.count += 1;
        self.total = self.total.saturating_add(ns);
        self.max = self.max.max(ns);
        let shift = (u64::BITS - ns.leading_zeros()).saturating_sub(BITS);
        let bucket = shift * (1 << (BITS - 1)) + u32::try_from(ns >> shift).unwrap_or(u32::MAX);
        *self.buckets.entry(bucket).or_default() += 1;
    }

    /// Mean, ns.
    pub fn mean(&self) -> u64 {
        self.total / self.count.max(1)
    }

    /// The duration (ns) that so many of a hundred did not pass, to 1 %.
    pub fn percentile(&self, percent: u64) -> u64 {
        let rank = (u128::from(self.count) * u128::from(percent)).div_ceil(100).max(1);
        let mut below = 0u128;
        for (bucket, count) in &self.buckets {
            below += u128::from(*count);
            if below >= rank {
                let bucket = u64::from(*bucket);
                let shift = (bucket / WIDTH).saturating_sub(1);
                let least = (bucket - shift * WIDTH) << shift;
                return least.saturating_add((1 << shift) / 2).min(self.max);
            }
        }
        self.max
    }
}

/// Durations of a trace by name.
pub type Durations = BTreeMap<String, Distribution>;

/// Measures what a request delivers, for each trace of its traceset, which has to use the state
/// ([`lttv_engine::engine::Engine::traceset_use_state`]).
#[derive(Clone)]
pub struct Measuring {
    inner: Arc<Mutex<Vec<Collector>>>,
}

impl Measuring {
    /// For a traceset of so many traces.
    pub fn new(by: By, traces: usize) -> Measuring {
        let collectors = (0..traces).map(|_| Collector::new(by)).collect();
        Measuring { inner: Arc::new(Mutex::new(collectors)) }
    }

    /// Adds the hook to a request. Only durations whose last event passes `wanted` are counted.
    #[must_use]
    pub fn attach(
        &self,
        mut request: EventsRequest,
        mut wanted: impl FnMut(&Event<'_>) -> bool + Send + 'static,
    ) -> EventsRequest {
        let inner = self.inner.clone();
        let hook = Hook::event(HookKey::unique(), PRIORITY_STATS_BEFORE, move |call| {
            let mut collectors = inner.lock().unwrap_or_else(PoisonError::into_inner);
            if let (Some(collector), Some(state)) =
                (collectors.get_mut(call.trace()), call.state::<SystemState>())
                && let Some((name, ns)) = collector.ended(&call.event, state)
                && wanted(&call.event)
            {
                collector.durations.entry(name).or_default().add(ns);
            }
            Flow::Go
        });
        let added = request.event.add(hook);
        debug_assert!(added.is_ok(), "a key that nobody has yet");
        request
    }

    /// What was measured in each trace.
    pub fn take_durations(&self) -> Vec<Durations> {
        let mut collectors = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        collectors.iter_mut().map(|collector| std::mem::take(&mut collector.durations)).collect()
    }
}

struct Collector {
    by: By,
    durations: Durations,
    /// Requests of block devices under way, by device and sector.
    issued: FxHashMap<(u64, u64), Time>,
    files: OpenFiles,
}

/// The time since a mode was entered that the innermost level of a thread is in.
fn stay(thread: &Thread, mode: Mode, now: Time) -> Option<(&str, u64)> {
    let top = thread.top();
    let inside = thread.stack.len() > 1 && top.mode == mode;
    inside.then(|| (&*top.submode, now.since(top.entry).unsigned_abs()))
}

impl Collector {
    fn new(by: By) -> Collector {
        Collector {
            by,
            durations: Durations::new(),
            issued: FxHashMap::default(),
            files: OpenFiles::default(),
        }
    }

    /// The duration that ends with an event, before the state knows of the event.
    fn ended(&mut self, event: &Event<'_>, state: &SystemState) -> Option<(String, u64)> {
        let (kind, call) = kind_of(event.name())?;
        let (now, cpu) = (event.time, event.head.cpu);
        if self.by == By::Device {
            return self.device(kind, event, state);
        }
        if cpu == EventHead::NO_CPU {
            return None;
        }
        let thread = state.running(cpu)?;
        match (self.by, kind) {
            (By::Syscall, KernelEvent::SyscallExit) => {
                let (name, ns) = stay(thread, Mode::Syscall, now)?;
                Some((name.to_string(), ns))
            }
            (By::Process, KernelEvent::Switch) if thread.key.tid != 0 => {
                let since = state.cpus.get(&cpu)?.last_switch?;
                Some((format!("{} {}", process_of(thread), thread.name), now.since(since).unsigned_abs()))
            }
            (By::Irq, KernelEvent::IrqExit | KernelEvent::SoftIrqExit | KernelEvent::TrapExit) => {
                let (mode, word) = match kind {
                    KernelEvent::IrqExit => (Mode::Irq, "irq"),
                    KernelEvent::SoftIrqExit => (Mode::SoftIrq, "softirq"),
                    _ => (Mode::Trap, "trap"),
                };
                let (name, ns) = stay(thread, mode, now)?;
                let name = if mode == Mode::SoftIrq { softirq_name(name) } else { name };
                Some((format!("{word} {name}"), ns))
            }
            (By::File, KernelEvent::SyscallEntry) => {
                self.files.enter(call, event, thread, state);
                None
            }
            (By::File, KernelEvent::SyscallExit) => {
                let file = match self.files.leave(event, thread)? {
                    CallFile::Path(path) => path.to_string(),
                    CallFile::Number(number) => {
                        format!("fd {number} of {} {}", process_of(thread), thread.name)
                    }
                };
                Some((file, stay(thread, Mode::Syscall, now)?.1))
            }
            _ => None,
        }
    }

    fn device(&mut self, kind: KernelEvent, event: &Event<'_>, state: &SystemState) -> Option<(String, u64)> {
        let number = |name: &str| event.field(name)?.as_u64();
        let key = (number("dev")?, number("sector")?);
        if kind == KernelEvent::BlockIssue {
            self.issued.insert(key, event.time);
        }
        if kind != KernelEvent::BlockComplete {
            return None;
        }
        let since = self.issued.remove(&key)?;
        // Major and minor number as the kernel packs them.
        let plain = || format!("{}:{}", key.0 >> 20, key.0 & 0xf_ffff);
        let name = state.device_names.get(&key.0).map_or_else(plain, |name| name.to_string());
        Some((name, event.time.since(since).unsigned_abs()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn percentiles_are_those_of_the_sorted_durations_to_one_percent(
            mut all in proptest::collection::vec(prop_oneof![0u64..300, 0u64..1_000_000_000, any::<u64>()], 1..200),
            percent in 1u64..=100,
        ) {
            let mut found = Distribution::default();
            all.iter().for_each(|ns| found.add(*ns));
            all.sort_unstable();
            let rank = (all.len() * percent as usize).div_ceil(100).max(1);
            let exact = all[rank - 1];
            let error = found.percentile(percent).abs_diff(exact);
            prop_assert!(error <= exact / 100, "{} for {}", found.percentile(percent), exact);
            prop_assert_eq!((found.count, found.max), (all.len() as u64, all[all.len() - 1]));
        }
    }
}
