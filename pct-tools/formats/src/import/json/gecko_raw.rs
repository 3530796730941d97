//! The Gecko profiler's own format, as Firefox dumps it and `perf script report gecko` writes it: tables are rows of
//! numbers, whose columns a schema names.

use super::super::problem::Problem;
use super::super::samples::Samples;
use super::super::wanted::Wanted;
use super::gecko::{Head, Lane, Meta, Row, finish};
use super::parts::{Members, Number, line, parsed, problem, script};
use pct_profile::Language;
use pct_profile::model::{Frame, FrameId, Object, ObjectKind, Profile, StackId};
use serde::Deserialize;
use serde::de::IgnoredAny;
use std::collections::BTreeMap;

#[derive(Deserialize)]
struct File {
    meta: Meta,
    threads: Vec<Thread>,
    #[serde(default)]
    processes: Vec<Process>,
}

/// A process of a browser beside the first one.
#[derive(Deserialize)]
struct Process {
    #[serde(default)]
    threads: Vec<Thread>,
    #[serde(default)]
    processes: Vec<Process>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Thread {
    name: Option<String>,
    process_name: Option<String>,
    pid: Option<Number>,
    tid: Option<Number>,
    samples: Table,
    stack_table: Table,
    frame_table: Table,
    string_table: Vec<String>,
}

/// Rows, which may be shorter than the schema.
#[derive(Deserialize)]
struct Table {
    schema: BTreeMap<String, usize>,
    data: Vec<Vec<Field>>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Field {
    Number(f64),
    Other(IgnoredAny),
}

impl Table {
    /// The column of this name.
    fn column(&self, name: &str) -> impl Fn(usize) -> Option<f64> {
        let at = self.schema.get(name).copied();
        move |row| match self.data.get(row)?.get(at?)? {
            Field::Number(number) => Some(*number),
            Field::Other(_) => None,
        }
    }
    fn len(&self) -> usize {
        self.data.len()
    }
}

fn index(number: f64) -> Option<usize> {
    (number >= 0.0 && number < f64::from(u32::MAX) && number.fract() == 0.0)
        .then(|| usize::try_from(pct_num::rounded(number)).ok())
        .flatten()
}

/// Whether the tables of a file's threads have a schema.
pub(super) fn looks_like(members: &Members<'_>) -> bool {
    let threads = members.get("threads").map_or("", |threads| threads.get());
    let head = &threads[..threads.floor_char_boundary(1 << 20)];
    head.contains("\"schema\"")
}

pub(super) fn read(text: &str, wanted: Wanted<'_>) -> Result<Profile, Problem> {
    let file: File = parsed(text, "the whole file")?;
    let mut samples = Samples::new("[gecko]", wanted.timeline);
    let mut threads = file.threads;
    let mut processes = file.processes;
    while let Some(process) = processes.pop() {
        threads.extend(process.threads);
        processes.extend(process.processes);
    }
    let mut lanes = Vec::new();
    for (at, thread) in threads.into_iter().enumerate() {
        lanes.push(thread.lane(&mut samples).map_err(|what| problem(format!("thread {at}"), what))?);
    }
    finish(samples, lanes, &Head::new(file.meta), wanted)
}

impl Thread {
    fn lane(self, out: &mut Samples) -> Result<Lane, String> {
        let stacks = self.stacks(out)?;
        let table = &self.samples;
        let [stack, time, cpu] = ["stack", "time", "threadCPUDelta"].map(|name| table.column(name));
        let row = |at| Row {
            stack: stack(at).and_then(index),
            time: time(at),
            weight: 1.0,
            cpu: cpu(at).unwrap_or(0.0),
        };
        let rows = (0..table.len()).map(row).collect();
        let has_cpu = (0..table.len()).any(|at| cpu(at).is_some());
        Ok(Lane {
            rows,
            has_cpu,
            stacks,
            name: self.name.unwrap_or_default(),
            process: self.process_name.unwrap_or_default(),
            pid: self.pid,
            tid: self.tid,
            weight_type: "samples".into(),
            weighted: false,
        })
    }

    fn stacks(&self, out: &mut Samples) -> Result<Vec<StackId>, String> {
        let [location, line_of] = ["location", "line"].map(|name| self.frame_table.column(name));
        let mut frames: Vec<FrameId> = Vec::with_capacity(self.frame_table.len());
        for at in 0..self.frame_table.len() {
            let name = location(at).and_then(index).and_then(|at| self.string_table.get(at));
            let name = name.ok_or_else(|| format!("frame {at} has no location"))?;
            frames.push(frame(out, name, line(line_of(at))));
        }
        let [frame, prefix] = ["frame", "prefix"].map(|name| self.stack_table.column(name));
        let mut stacks: Vec<StackId> = Vec::with_capacity(self.stack_table.len());
        for at in 0..self.stack_table.len() {
            let caller = match prefix(at) {
                None => None,
                Some(prefix) => {
                    let caller = index(prefix).and_then(|prefix| stacks.get(prefix).copied());
                    Some(caller.ok_or_else(|| format!("stack {at} is called by stack {prefix}"))?)
                }
            };
            let known = frame(at).and_then(index).and_then(|at| frames.get(at));
            let known = known.ok_or_else(|| format!("stack {at} has no frame"))?;
            stacks.push(out.b.stack(caller, *known));
        }
        Ok(stacks)
    }
}

/// A frame of `function (in library)`, `function (https://page/script.js:12:3)` or `0x1234`.
fn frame(out: &mut Samples, location: &str, line: u32) -> FrameId {
    let inner = location.strip_suffix(')');
    if let Some((name, object)) = inner.and_then(|inner| inner.rsplit_once(" (in ")) {
        let place = out.place(object);
        let function = out.function(place, name, 0);
        return out.b.plain_frame(function);
    }
    let script = inner.and_then(|inner| inner.rsplit_once(" (")).and_then(|(name, at)| {
        let (file, declared) = script(at)?;
        Some((name, file, declared))
    });
    let Some((name, file, declared)) = script else {
        let place = out.place("");
        let function = out.function(place, location, 0);
        return out.b.plain_frame(function);
    };
    let object = out.b.object(Object::new(file, ObjectKind::Module(Language::JavaScript)));
    let file = Some(out.b.file(file));
    let function = out.function((object, file), name, declared);
    out.b.frame(Frame { function, file, line, address: None, inlined: false })
}
