//! Trace events (JSON), for chrome://tracing and Perfetto. A slice stands for a function call that several consecutive
//! samples share.

use super::json;
use super::threads::{events, path, thread_name};
use pct_profile::Profile;
use pct_profile::model::{Cell, FrameId};
use serde_json::{Value, json};

/// A gap of this many sample lengths ends all slices: the thread was waiting.
const GAP: u64 = 3;

/// The octets of the JSON file. Times are microseconds since the start.
pub fn write(profile: &Profile, cells: &[Cell]) -> Vec<u8> {
    let mut out: Vec<Value> = Vec::new();
    for process in profile.processes.iter().filter(|process| process.stands_for == 0) {
        out.push(json!({ "ph": "M", "name": "process_name", "pid": process.pid, "args": { "name": process.name } }));
    }
    for (thread, events) in events(profile, cells) {
        let (pid, tid) = (profile.process_of(thread).pid, profile.threads[thread].tid);
        let name = thread_name(profile, thread);
        out.push(
            json!({ "ph": "M", "name": "thread_name", "pid": pid, "tid": tid, "args": { "name": name } }),
        );
        let mut open: Vec<(FrameId, u64)> = Vec::new();
        let mut end = 0u64;
        let mut close = |open: &mut Vec<(FrameId, u64)>, keep: usize, at: u64| {
            while open.len() > keep {
                let Some((frame, from)) = open.pop() else { break };
                let function = &profile.functions[profile.frames[frame].function];
                out.push(json!({
                    "ph": "X", "name": function.name, "cat": profile.objects[function.object].name(),
                    "pid": pid, "tid": tid, "ts": micros(from), "dur": micros(at.saturating_sub(from)),
                }));
            }
        };
        for event in events {
            let frames = path(profile, event.stack);
            if event.time_ns > end.saturating_add(GAP.saturating_mul(event.weight_ns)) {
                close(&mut open, 0, end);
            }
            let same = |(a, b): (&(FrameId, u64), &FrameId)| {
                profile.frames[a.0].function == profile.frames[*b].function
            };
            let common = open.iter().zip(&frames).take_while(|p| same(*p)).count();
            close(&mut open, common, event.time_ns.max(end.min(event.time_ns)));
            open.extend(frames[common..].iter().map(|f| (*f, event.time_ns)));
            end = event.time_ns.saturating_add(event.weight_ns);
        }
        close(&mut open, 0, end);
    }
    for mark in &profile.marks {
        let pid = mark.thread.map_or(0, |t| profile.process_of(t).pid);
        let tid = mark.thread.map_or(0, |t| profile.threads[t].tid);
        out.push(json!({ "ph": "i", "s": "t", "name": mark.name, "pid": pid, "tid": tid, "ts": micros(mark.time_ns) }));
    }
    json::octets(json!({ "traceEvents": out, "displayTimeUnit": "ms" }))
}

#[expect(clippy::cast_precision_loss, reason = "microseconds with three decimals, for people")]
fn micros(ns: u64) -> f64 {
    ns as f64 / 1000.0
}
