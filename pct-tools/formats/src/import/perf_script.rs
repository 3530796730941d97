//! The text of `perf script`: a header line per sample, then its frames, innermost first, then an empty line.
//!
//! ```text
//! prog  4711/4712  123.456789:    1000000 cpu-clock:u:
//!         55d0c0de1234 inner+0x14 (/bin/prog)
//!         55d0c0de2345 main+0x20 (/bin/prog)
//! ```
//!
//! The period is read as nanoseconds for the software clocks. For other events each sample stands for 1 ms,
//! since the text does not say what an event is worth.

use super::problem::Problem;
use pct_profile::model::{
    Builder, Object, ObjectKind, Process, ProcessId, Profile, StackId, ThreadId, Weight,
};
use std::collections::HashMap;

const MS: u64 = 1_000_000;

struct Header<'a> {
    name: &'a str,
    pid: u32,
    tid: u32,
    weight_ns: u64,
}

pub(super) fn looks_like(text: &str) -> bool {
    text.lines().filter(|l| !l.is_empty() && !l.starts_with('#')).take(5).any(|l| header(l).is_some())
}

/// Parses `comm tid time: [period] event:`, also with `pid/tid`. The name may contain spaces.
fn header(line: &str) -> Option<Header<'_>> {
    if line.starts_with([' ', '\t']) && !line.trim_start().contains(": ") {
        return None;
    }
    let colon = line.find(": ").or_else(|| line.find(":\t"))?;
    let (before, after) = line.split_at(colon);
    let time = before.split_whitespace().next_back()?;
    time.parse::<f64>().ok()?;
    let mut words: Vec<&str> = before.split_whitespace().collect();
    words.pop();
    if words.last().is_some_and(|w| w.starts_with('[')) {
        words.pop(); // the processor
    }
    let ids = words.pop()?;
    let (pid, tid) = match ids.split_once('/') {
        Some((p, t)) => (p.parse().ok()?, t.parse().ok()?),
        None => (ids.parse().ok()?, ids.parse().ok()?),
    };
    let end = before.find(ids)?;
    let name = before[..end].trim();
    let mut rest = after[1..].split_whitespace();
    let first = rest.next()?;
    let (period, event) = match first.parse::<u64>() {
        Ok(n) => (Some(n), rest.next().unwrap_or("")),
        Err(_) => (None, first),
    };
    let clock = event.starts_with("cpu-clock") || event.starts_with("task-clock");
    let weight_ns = period.filter(|_| clock).unwrap_or(MS);
    Some(Header { name, pid, tid, weight_ns })
}

pub(super) fn read(text: &str) -> Result<Profile, Problem> {
    let mut b = Builder::new(false);
    let mut processes: HashMap<u32, ProcessId> = HashMap::new();
    let mut threads: HashMap<(u32, u32), ThreadId> = HashMap::new();
    let mut bad = 0u64;
    let mut first_bad = 0;
    let mut current: Option<(ThreadId, u64)> = None;
    let mut frames: Vec<(String, String)> = Vec::new();
    let lines = text.lines().enumerate().map(|(i, l)| (i + 1, l)).chain(std::iter::once((0, "")));
    for (number, line) in lines {
        if line.trim().is_empty() {
            if let Some((thread, ns)) = current.take() {
                add(&mut b, thread, ns, &frames);
            }
            frames.clear();
        } else if line.starts_with('#') {
        } else if let Some(h) = header(line).filter(|_| current.is_none()) {
            let process = *processes.entry(h.pid).or_insert_with(|| {
                b.process(Process {
                    pid: h.pid,
                    name: h.name.into(),
                    clock: "perf".into(),
                    ..Process::default()
                })
            });
            let thread = *threads.entry((h.pid, h.tid)).or_insert_with(|| b.thread(process, h.tid, h.name));
            current = Some((thread, h.weight_ns));
        } else if let Some(frame) = frame(line).filter(|_| current.is_some()) {
            frames.push(frame);
        } else {
            bad += 1;
            first_bad = if first_bad == 0 { number } else { first_bad };
        }
    }
    if bad > 0 {
        b.profile_mut()
            .account
            .note(format!("line {first_bad}: neither sample nor frame; {bad} such lines left out"));
    }
    let profile = b.finish();
    if profile.cells.is_empty() {
        return Err(Problem { place: "line 1".into(), problem: "no sample in it".into() });
    }
    Ok(profile)
}

/// Parses `ADDRESS symbol+0xOFFSET (object)`.
fn frame(line: &str) -> Option<(String, String)> {
    let (address, rest) = line.trim_start().split_once(' ')?;
    u64::from_str_radix(address, 16).ok()?;
    let (symbol, object) = match rest.rsplit_once(" (") {
        Some((s, o)) => (s, o.trim_end().trim_end_matches(')')),
        None => (rest, "[unknown]"),
    };
    let symbol = match symbol.rsplit_once("+0x") {
        Some((name, offset)) if offset.bytes().all(|b| b.is_ascii_hexdigit()) => name,
        _ => symbol,
    };
    Some((symbol.trim().to_owned(), object.to_owned()))
}

fn add(b: &mut Builder, thread: ThreadId, ns: u64, frames: &[(String, String)]) {
    let mut at: Option<StackId> = None;
    let mut system = false;
    for (symbol, path) in frames.iter().rev() {
        let kind = match path.as_str() {
            p if p.contains("[kernel") || p.ends_with(".ko") => ObjectKind::Kernel,
            "[unknown]" => ObjectKind::Unknown,
            p if p.starts_with('[') || p.starts_with("//anon") => ObjectKind::Anonymous,
            _ => ObjectKind::File,
        };
        system = kind == ObjectKind::Kernel;
        let object = b.object(Object { path: path.clone(), build_id: None, kind });
        let name = if symbol == "[unknown]" { "[no symbol]" } else { symbol };
        let function = b.function(object, name);
        let frame = b.plain_frame(function);
        at = Some(b.stack(at, frame));
    }
    let stack = at.unwrap_or_else(|| {
        let object = b.unknown_object();
        let function = b.function(object, "[no stack]");
        let frame = b.plain_frame(function);
        b.stack(None, frame)
    });
    let (user_ns, system_ns) = if system { (0, ns) } else { (ns, 0) };
    b.add(thread, stack, Weight { samples: 1, user_ns, system_ns });
}
