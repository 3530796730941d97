//! Trace events (JSON), for chrome://tracing and Perfetto. A slice stands for a function call that several consecutive
//! samples share. It lasts from the first of them to the end of the last; its CPU time (`tdur`) is what they stand for.

use super::json;
use super::threads::{Event, events, path, thread_name};
use pct_profile::Profile;
use pct_profile::model::{Cell, FrameId};
use serde_json::{Value, json};
use std::collections::HashMap;

/// A gap of this many sample lengths ends all slices: the thread was waiting.
const GAP: u64 = 3;

/// A slice that is open.
struct Slice {
    frame: FrameId,
    from: u64,
    /// CPU time of the thread at its begin.
    cpu: u64,
    /// Its place among the events.
    row: usize,
}

/// The octets of the JSON file. Times are microseconds since the start.
pub fn write(profile: &Profile, cells: &[Cell]) -> Vec<u8> {
    let mut out: Vec<Value> = Vec::new();
    for process in profile.processes.iter().filter(|process| process.stands_for == 0) {
        out.push(json!({ "ph": "M", "name": "process_name", "pid": process.pid, "args": { "name": process.name } }));
    }
    // Where each thread has ended, and how much CPU time it had.
    let mut ends: HashMap<(u32, u32), (u64, u64)> = HashMap::new();
    for (thread, events) in events(profile, cells) {
        let (pid, tid) = (profile.process_of(thread).pid, profile.threads[thread].tid);
        let name = thread_name(profile, thread);
        out.push(
            json!({ "ph": "M", "name": "thread_name", "pid": pid, "tid": tid, "args": { "name": name } }),
        );
        let mut open: Vec<Slice> = Vec::new();
        // Programs that a process executed one after another are one thread here. Samples without times begin at 0.
        let (before, mut cpu) = ends.get(&(pid, tid)).copied().unwrap_or_default();
        let shift = if profile.timeline.is_empty() { before } else { 0 };
        let mut end = before;
        // Slices are written in the order of their begin: of slices that begin and end together, viewers take the first
        // for the outer one.
        let close = |out: &mut [Value], open: &mut Vec<Slice>, keep: usize, at: u64, cpu: u64| {
            while open.len() > keep {
                let Some(slice) = open.pop() else { break };
                out[slice.row]["dur"] = micros(at.saturating_sub(slice.from)).into();
                out[slice.row]["tdur"] = micros(cpu.saturating_sub(slice.cpu)).into();
            }
        };
        for event in events {
            let frames = path(profile, event.stack);
            let time_ns = event.time_ns.saturating_add(shift).max(before);
            let event = Event { time_ns, ..event };
            if event.time_ns > end.saturating_add(GAP.saturating_mul(event.weight_ns)) {
                close(&mut out, &mut open, 0, end, cpu);
            }
            let same =
                |(a, b): (&Slice, &FrameId)| profile.frames[a.frame].function == profile.frames[*b].function;
            let common = open.iter().zip(&frames).take_while(|p| same(*p)).count();
            close(&mut out, &mut open, common, event.time_ns.max(end.min(event.time_ns)), cpu);
            for &frame in &frames[common..] {
                let function = &profile.functions[profile.frames[frame].function];
                open.push(Slice { frame, from: event.time_ns, cpu, row: out.len() });
                out.push(json!({
                    "ph": "X", "name": function.name, "cat": profile.objects[function.object].name(),
                    "pid": pid, "tid": tid, "ts": micros(event.time_ns), "tts": micros(cpu),
                }));
            }
            end = event.time_ns.saturating_add(event.weight_ns);
            cpu = cpu.saturating_add(event.weight_ns);
        }
        close(&mut out, &mut open, 0, end, cpu);
        ends.insert((pid, tid), (end, cpu));
    }
    for mark in &profile.marks {
        let pid = mark.thread.map_or(0, |t| profile.process_of(t).pid);
        let tid = mark.thread.map_or(0, |t| profile.threads[t].tid);
        out.push(json!({ "ph": "i", "s": "t", "name": mark.name, "pid": pid, "tid": tid, "ts": micros(mark.time_ns) }));
    }
    let creator = concat!("pct ", env!("CARGO_PKG_VERSION"));
    json::octets(json!({ "traceEvents": out, "displayTimeUnit": "ms", "otherData": { "creator": creator } }))
}

#[expect(clippy::cast_precision_loss, reason = "microseconds with three decimals, for people")]
fn micros(ns: u64) -> f64 {
    ns as f64 / 1000.0
}
