//! pprof: profile.proto, with the same fields as the writer ([`crate::export::pprof`]).
//!
//! The value in nanoseconds (`cpu`, `time`) is used, or else the last one, each unit as a million nanoseconds (a
//! sample of 1 ms). Indices without a target are counted and left out.

use super::problem::Problem;
use crate::protobuf::{Fields, Value, numbers};
use pct_profile::model::{Builder, Object, ObjectId, ObjectKind, Process, Profile, Weight};
use std::collections::HashMap;

#[derive(Default)]
struct Line {
    function: u64,
    line: u64,
}

#[derive(Default)]
struct Location {
    mapping: u64,
    address: u64,
    lines: Vec<Line>,
}

#[derive(Default)]
struct Tables<'a> {
    types: Vec<(u64, u64)>,
    samples: Vec<&'a [u8]>,
    mappings: HashMap<u64, (u64, u64)>,
    locations: HashMap<u64, Location>,
    functions: HashMap<u64, (u64, u64, u64)>,
    strings: Vec<String>,
    time_ns: u64,
    duration_ns: u64,
    broken: Option<usize>,
}

pub(super) fn read(bytes: &[u8]) -> Result<Profile, Problem> {
    let t = tables(bytes);
    if t.samples.is_empty() {
        let at = t.broken.unwrap_or(0);
        return Err(Problem { place: format!("octet {at}"), problem: "no pprof sample in it".into() });
    }
    let mut build = Build {
        t: &t,
        b: Builder::new(false),
        objects: HashMap::new(),
        threads: HashMap::new(),
        dangling: 0,
    };
    let unit = |i: &(u64, u64)| t.strings.get(usize::try_from(i.1).ok()?).map(String::as_str);
    let value = t.types.iter().position(|ty| unit(ty) == Some("nanoseconds"));
    let which = value.unwrap_or(t.types.len().saturating_sub(1));
    let scale = if value.is_some() { 1 } else { 1_000_000 };
    for sample in &t.samples {
        build.sample(sample, which, scale);
    }
    let dangling = build.dangling;
    let profile = build.b.profile_mut();
    profile.start_realtime_ns = t.time_ns;
    profile.account.elapsed_ns = (t.duration_ns > 0).then_some(t.duration_ns);
    if let Some(at) = t.broken {
        profile.account.note(format!("octet {at}: cut short or damaged; what is before it was read"));
    }
    if dangling > 0 {
        profile
            .account
            .note(format!("{dangling} references to locations or functions that are not in the file"));
    }
    Ok(build.b.finish())
}

fn tables(bytes: &[u8]) -> Tables<'_> {
    let mut t = Tables::default();
    let mut fields = Fields::new(bytes);
    for (field, value) in fields.by_ref() {
        match (field, value) {
            (1, Value::Bytes(m)) => {
                let f = by_number(m);
                t.types.push((f(1), f(2)));
            }
            (2, Value::Bytes(m)) => t.samples.push(m),
            (3, Value::Bytes(m)) => {
                let f = by_number(m);
                t.mappings.insert(f(1), (f(5), f(6)));
            }
            (4, Value::Bytes(m)) => {
                let f = by_number(m);
                let lines = Fields::new(m).filter_map(|(n, v)| match (n, v) {
                    (4, Value::Bytes(l)) => {
                        let l = by_number(l);
                        Some(Line { function: l(1), line: l(2) })
                    }
                    _ => None,
                });
                let location = Location { mapping: f(2), address: f(3), lines: lines.collect() };
                t.locations.insert(f(1), location);
            }
            (5, Value::Bytes(m)) => {
                let f = by_number(m);
                t.functions.insert(f(1), (f(2), f(4), f(5)));
            }
            (6, Value::Bytes(m)) => t.strings.push(String::from_utf8_lossy(m).into_owned()),
            (9, Value::Number(n)) => t.time_ns = n,
            (10, Value::Number(n)) => t.duration_ns = n,
            _ => {}
        }
    }
    t.broken = fields.broken;
    t
}

/// Access to a message's number fields by field number; 0 if absent.
fn by_number(message: &[u8]) -> impl Fn(u64) -> u64 + '_ {
    move |wanted| {
        let found = Fields::new(message).find_map(|(n, v)| match v {
            Value::Number(value) if n == wanted => Some(value),
            _ => None,
        });
        found.unwrap_or(0)
    }
}

struct Build<'a> {
    t: &'a Tables<'a>,
    b: Builder,
    objects: HashMap<u64, ObjectId>,
    threads: HashMap<(u64, u64, String), pct_profile::model::ThreadId>,
    dangling: u64,
}

impl Build<'_> {
    fn text(&self, id: u64) -> &str {
        usize::try_from(id).ok().and_then(|i| self.t.strings.get(i)).map_or("", String::as_str)
    }

    fn sample(&mut self, message: &[u8], which: usize, scale: u64) {
        let (mut locations, mut values, mut labels) = (Vec::new(), Vec::new(), Vec::new());
        for (field, value) in Fields::new(message) {
            match field {
                1 => locations.extend(numbers(value)),
                2 => values.extend(numbers(value)),
                3 => labels.extend(match value {
                    Value::Bytes(l) => Some(l),
                    Value::Number(_) => None,
                }),
                _ => {}
            }
        }
        let thread = self.thread(&labels);
        let mut at = None;
        for id in locations.iter().rev() {
            let Some(location) = self.t.locations.get(id) else {
                self.dangling += 1;
                continue;
            };
            let object = self.object(location.mapping);
            let outer = location.lines.len().saturating_sub(1);
            if location.lines.is_empty() {
                let function = self.b.function(object, &format!("0x{:x}", location.address));
                let frame = self.b.plain_frame(function);
                at = Some(self.b.stack(at, frame));
            }
            for (i, line) in location.lines.iter().enumerate().rev() {
                let Some((name, file, start)) = self.t.functions.get(&line.function).copied() else {
                    self.dangling += 1;
                    continue;
                };
                let name = self.text(name).to_owned();
                let path = self.text(file).to_owned();
                let function = self.b.function(object, if name.is_empty() { "[no symbol]" } else { &name });
                let file = (!path.is_empty()).then(|| self.b.file(&path));
                if let Some(file) = file {
                    self.b.declare(function, file, u32::try_from(start).unwrap_or(0));
                }
                let frame = pct_profile::model::Frame {
                    function,
                    file,
                    line: u32::try_from(line.line).unwrap_or(0),
                    address: (location.address != 0).then_some(location.address),
                    inlined: i != outer,
                };
                let frame = self.b.frame(frame);
                at = Some(self.b.stack(at, frame));
            }
        }
        let ns = values.get(which).copied().unwrap_or(0).saturating_mul(scale);
        if let Some(stack) = at {
            let samples = if values.len() > 1 { values[0] } else { 1 };
            self.b.add(thread, stack, Weight { samples, user_ns: ns, system_ns: 0 });
        }
    }

    fn thread(&mut self, labels: &[&[u8]]) -> pct_profile::model::ThreadId {
        let (mut pid, mut tid, mut name) = (0, 0, String::new());
        for label in labels {
            let f = by_number(label);
            match self.text(f(1)) {
                "pid" => pid = f(3),
                "tid" => tid = f(3),
                "thread" => name = self.text(f(2)).to_owned(),
                _ => {}
            }
        }
        let key = (pid, tid, name);
        if let Some(id) = self.threads.get(&key) {
            return *id;
        }
        let number = |n: u64| u32::try_from(n).unwrap_or(0);
        let known =
            self.b.profile().processes.enumerate().find(|(_, p)| p.pid == number(pid)).map(|(id, _)| id);
        let process = known.unwrap_or_else(|| {
            self.b.process(Process {
                pid: number(pid),
                name: "pprof".into(),
                clock: "imported".into(),
                ..Process::default()
            })
        });
        let id = self.b.thread(process, number(tid), &key.2);
        self.threads.insert(key, id);
        id
    }

    fn object(&mut self, mapping: u64) -> ObjectId {
        if let Some(id) = self.objects.get(&mapping) {
            return *id;
        }
        let (path, build_id) = self.t.mappings.get(&mapping).copied().unwrap_or_default();
        let (path, build_id) = (self.text(path).to_owned(), self.text(build_id).to_owned());
        let kind = match path.as_str() {
            "" | "[unknown]" => ObjectKind::Unknown,
            "kernel" => ObjectKind::Kernel,
            p if p.starts_with('[') => ObjectKind::Anonymous,
            _ => ObjectKind::File,
        };
        let path = if path.is_empty() { "[unknown]".to_owned() } else { path };
        let build_id = (!build_id.is_empty()).then_some(build_id);
        let id = self.b.object(Object { path, build_id, kind });
        self.objects.insert(mapping, id);
        id
    }
}
