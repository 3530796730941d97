//! A small kernel that writes a trace of itself, and knows the truth.

use std::collections::BTreeMap;
use std::sync::Arc;

use lttv_engine::engine::{Budget, Config, Engine};
use lttv_engine::ids::{OwnerId, TraceId, TracesetId};
use lttv_engine::source::Value;
use lttv_engine::synthetic::{SyntheticEvent, SyntheticFile, SyntheticTrace};

pub(crate) const CLASSES: &[&str] = &[
    "sched_switch",
    "sched_wakeup",
    "syscall_entry_read",
    "syscall_exit_read",
    "irq_handler_entry",
    "irq_handler_exit",
    "other",
    "syscall_entry_write",
    "syscall_exit_write",
    "sched_process_fork",
    "sched_process_exit",
    "sched_process_free",
    "sched_process_exec",
    "task_rename",
    "syscall_entry_execve",
    "syscall_exit_execve",
    "syscall_entry_prctl",
];

pub(crate) fn event(ts: i64, cpu: u32, class: &str, fields: &[(&str, Value<'static>)]) -> SyntheticEvent {
    let id = CLASSES.iter().position(|name| *name == class).expect("a known class");
    let fields = fields.iter().map(|(name, value)| ((*name).into(), value.clone())).collect();
    SyntheticEvent { ts, id: id as u32, cpu, fields }
}

pub(crate) fn int(n: i64) -> Value<'static> {
    Value::Signed(n)
}

pub(crate) fn text(text: &str) -> Value<'static> {
    Value::Text(text.to_string().into())
}

pub(crate) fn switch(ts: i64, cpu: u32, prev: i64, state: i64, next: i64) -> SyntheticEvent {
    let comm = |tid: i64| text(&format!("comm{tid}"));
    let fields = [
        ("prev_comm", comm(prev)),
        ("prev_tid", int(prev)),
        ("prev_state", int(state)),
        ("next_comm", comm(next)),
        ("next_tid", int(next)),
    ];
    event(ts, cpu, "sched_switch", &fields)
}

/// A trace of one tracefile for each CPU.
pub(crate) fn trace(name: &str, cpus: u32, events: &[SyntheticEvent]) -> Arc<SyntheticTrace> {
    let files = (0..cpus).map(|cpu| {
        let of_cpu = events.iter().filter(|event| event.cpu == cpu).cloned().collect();
        SyntheticFile::new("kernel", Some(cpu), CLASSES, of_cpu)
    });
    Arc::new(SyntheticTrace::new(name, files.collect()))
}

/// What really happened.
#[derive(Default, Debug, PartialEq, Eq)]
pub(crate) struct Truth {
    /// From each switch to the next on a CPU, by CPU and thread.
    pub(crate) run_ns: BTreeMap<(u32, i64), i64>,
    /// Time of the first switch of each CPU.
    pub(crate) first_switch: BTreeMap<u32, i64>,
    pub(crate) end: i64,
}

/// A random history of some CPUs: switches, system calls, interrupts, in any legal nesting. Threads never run
/// on two CPUs.
pub(crate) fn history(cpus: u32, steps: &[(u8, u8, u8)]) -> (Vec<SyntheticEvent>, Truth) {
    let mut now = 1000;
    let mut events = Vec::new();
    let mut truth = Truth::default();
    let mut running: BTreeMap<u32, (i64, i64)> = BTreeMap::new();
    let mut in_call: BTreeMap<i64, &str> = BTreeMap::new();
    let mut irqs: BTreeMap<u32, u32> = BTreeMap::new();
    for &(what, who, gap) in steps {
        // Gaps of 0 make events that share a time.
        now += i64::from(gap % 7);
        let cpu = u32::from(who) % cpus;
        let depth = irqs.get(&cpu).copied().unwrap_or(0);
        let tid = running.get(&cpu).map_or(0, |(tid, _)| *tid);
        match what % 8 {
            0..=2 if depth == 0 => {
                let next = if what % 5 == 0 { 0 } else { i64::from(cpu) * 100 + 1 + i64::from(who / 8 % 4) };
                if next == tid {
                    continue;
                }
                if let Some((_, since)) = running.get(&cpu) {
                    *truth.run_ns.entry((cpu, tid)).or_default() += now - since;
                }
                truth.first_switch.entry(cpu).or_insert(now);
                running.insert(cpu, (next, now));
                events.push(switch(now, cpu, tid, i64::from(what % 2), next));
            }
            3 if depth == 0 && tid != 0 => match in_call.remove(&tid) {
                Some(call) => events.push(event(now, cpu, &format!("syscall_exit_{call}"), &[])),
                None => {
                    let call = if who % 2 == 0 { "read" } else { "write" };
                    in_call.insert(tid, call);
                    events.push(event(now, cpu, &format!("syscall_entry_{call}"), &[]));
                }
            },
            4 if depth < 3 => {
                *irqs.entry(cpu).or_default() += 1;
                events.push(event(now, cpu, "irq_handler_entry", &[("irq", int(i64::from(depth) + 7))]));
            }
            5 | 6 if depth > 0 => {
                *irqs.entry(cpu).or_default() -= 1;
                events.push(event(now, cpu, "irq_handler_exit", &[("irq", int(i64::from(depth) + 6))]));
            }
            7 => {
                let tid = i64::from(who / 8 % 4) + i64::from(cpu) * 100 + 1;
                events.push(event(now, cpu, "sched_wakeup", &[("tid", int(tid)), ("comm", text("woken"))]));
            }
            _ => events.push(event(now, cpu, "other", &[])),
        }
    }
    truth.end = now.max(events.last().map_or(0, |event| event.ts));
    truth.end = events.last().map_or(0, |event| event.ts);
    (events, truth)
}

/// An engine with all modules and one traceset of the trace.
pub(crate) fn engine(config: Config, trace: &Arc<SyntheticTrace>) -> (Engine, TracesetId, TraceId) {
    let mut engine = Engine::new(config);
    lttv_modules::register_all(&mut engine).unwrap();
    let id = engine.open_source(trace.clone());
    let traceset = engine.traceset_new();
    engine.traceset_add(traceset, id).unwrap();
    (engine, traceset, id)
}

pub(crate) fn compute(engine: &mut Engine, trace: TraceId, module: &str) {
    engine.request(trace, module, OwnerId(9)).unwrap();
    run(engine);
}

pub(crate) fn run(engine: &mut Engine) -> u64 {
    let mut read = 0;
    for _ in 0..1_000_000 {
        let progress = engine.step(Budget::chunks(1));
        engine.check().unwrap();
        assert_eq!(progress.diagnostics, []);
        read += progress.events_read;
        if progress.idle {
            return read;
        }
    }
    panic!("not idle");
}
