//! The Firefox Profiler's processed format, as its page saves it and samply and other importers write it:
//! <https://github.com/firefox-devtools/profiler/blob/main/src/types/profile.ts>. Tables are of each thread, in newer
//! versions of the whole file.

use super::super::problem::Problem;
use super::super::samples::{Sample, Samples};
use super::super::types::{SampleType, chosen};
use super::super::wanted::Wanted;
use super::parts::{Number, line, parsed, problem, without_number};
use pct_num::rounded;
use pct_profile::Language;
use pct_profile::model::{Frame, FrameId, Object, ObjectKind, ProcessId, Profile, StackId, ThreadId};
use rustc_hash::FxHashMap;
use serde::Deserialize;
use std::borrow::Cow;

#[derive(Deserialize)]
struct File<'t> {
    meta: Meta,
    #[serde(borrow)]
    threads: Vec<Part<'t>>,
    #[serde(borrow)]
    shared: Option<Part<'t>>,
    #[serde(default)]
    libs: Vec<Lib>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Meta {
    start_time: Option<f64>,
    product: Option<String>,
    imported_from: Option<String>,
    symbolicated: Option<bool>,
    sample_units: Option<SampleUnits>,
}

#[derive(Deserialize)]
struct SampleUnits {
    #[serde(rename = "threadCPUDelta")]
    cpu: Option<String>,
}

/// A program or library.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Lib {
    pub(super) path: Option<String>,
    pub(super) name: Option<String>,
}

/// A thread, or the tables that all threads share.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Part<'t> {
    name: Option<String>,
    process_name: Option<String>,
    pid: Option<Number>,
    tid: Option<Number>,
    samples: Option<SampleTable>,
    stack_table: Option<StackTable>,
    frame_table: Option<FrameTable>,
    func_table: Option<FunctionTable>,
    resource_table: Option<ResourceTable>,
    sources: Option<SourceTable>,
    #[serde(borrow)]
    string_array: Option<Vec<Cow<'t, str>>>,
    #[serde(borrow)]
    string_table: Option<Vec<Cow<'t, str>>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SampleTable {
    stack: Vec<Option<usize>>,
    time: Option<Vec<f64>>,
    time_deltas: Option<Vec<f64>>,
    weight: Option<Vec<f64>>,
    weight_type: Option<String>,
    #[serde(rename = "threadCPUDelta")]
    cpu: Option<Vec<Option<f64>>>,
}

#[derive(Deserialize)]
struct StackTable {
    frame: Vec<usize>,
    prefix: Vec<Option<usize>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct FrameTable {
    func: Vec<usize>,
    line: Option<Vec<Option<f64>>>,
    inline_depth: Option<Vec<Option<u32>>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct FunctionTable {
    name: Vec<usize>,
    resource: Option<Vec<Option<i64>>>,
    file_name: Option<Vec<Option<usize>>>,
    source: Option<Vec<Option<usize>>>,
    line_number: Option<Vec<Option<f64>>>,
    #[serde(rename = "isJS")]
    is_js: Option<Vec<bool>>,
}

#[derive(Deserialize)]
struct ResourceTable {
    name: Vec<usize>,
    lib: Option<Vec<Option<usize>>>,
}

#[derive(Deserialize)]
struct SourceTable {
    filename: Vec<usize>,
}

/// What of a file is no table.
pub(super) struct Head {
    ours: bool,
    cpu_unit: Option<String>,
    start_ms: f64,
    without_names: bool,
    product: String,
}

impl Head {
    pub(super) fn new(meta: Meta) -> Self {
        Self {
            ours: meta.imported_from.as_deref() == Some("pct"),
            cpu_unit: meta.sample_units.and_then(|units| units.cpu),
            start_ms: meta.start_time.unwrap_or(0.0),
            without_names: meta.symbolicated == Some(false),
            product: meta.product.unwrap_or_default(),
        }
    }
}

/// A thread of a file, in either format.
pub(super) struct Lane {
    pub(super) name: String,
    pub(super) process: String,
    pub(super) pid: Option<Number>,
    pub(super) tid: Option<Number>,
    /// One for each row of samples.
    pub(super) rows: Vec<Row>,
    /// What weights are of: `samples`, `tracing-ms`, `bytes`.
    pub(super) weight_type: String,
    /// Whether samples have a weight of their own.
    pub(super) weighted: bool,
    /// Whether samples say how much CPU time passed.
    pub(super) has_cpu: bool,
    pub(super) stacks: Vec<StackId>,
}

/// A row of samples.
#[derive(Clone, Copy)]
pub(super) struct Row {
    pub(super) stack: Option<usize>,
    /// Milliseconds.
    pub(super) time: Option<f64>,
    pub(super) weight: f64,
    /// CPU time since the sample before.
    pub(super) cpu: f64,
}

pub(super) fn read(text: &str, wanted: Wanted<'_>) -> Result<Profile, Problem> {
    let file: File<'_> = parsed(text, "the whole file")?;
    let mut samples = Samples::new("[gecko]", wanted.timeline);
    let mut lanes = Vec::new();
    for (at, thread) in file.threads.iter().enumerate() {
        let lane = thread.lane(&mut samples, file.shared.as_ref(), &file.libs);
        lanes.push(lane.map_err(|what| problem(format!("threads[{at}]"), what))?);
    }
    finish(samples, lanes, &Head::new(file.meta), wanted)
}

impl Part<'_> {
    fn lane(&self, out: &mut Samples, shared: Option<&Part<'_>>, libs: &[Lib]) -> Result<Lane, String> {
        let Some(table) = &self.samples else { return Err("no samples".into()) };
        let stacks = if table.stack.iter().any(Option::is_some) {
            Whole::new(self, shared)?.stacks(out, libs)?
        } else {
            Vec::new()
        };
        let rows = table.stack.len();
        for (what, len) in [
            ("times", table.time.as_ref().map(Vec::len)),
            ("times", table.time_deltas.as_ref().map(Vec::len)),
            ("weights", table.weight.as_ref().map(Vec::len)),
            ("times of CPU", table.cpu.as_ref().map(Vec::len)),
        ] {
            if let Some(len) = len.filter(|len| *len != rows) {
                return Err(format!("{rows} samples, but {len} {what}"));
            }
        }
        let mut passed = 0.0;
        let row = |at: usize| {
            passed += table.time_deltas.as_ref().map_or(0.0, |deltas| deltas[at]);
            let absolute = table.time.as_ref().map(|times| times[at]);
            Row {
                stack: table.stack[at],
                time: absolute.or(table.time_deltas.is_some().then_some(passed)),
                weight: table.weight.as_ref().map_or(1.0, |weights| weights[at]),
                cpu: table.cpu.as_ref().and_then(|cpu| cpu[at]).unwrap_or(0.0),
            }
        };
        Ok(Lane {
            name: self.name.clone().unwrap_or_default(),
            process: self.process_name.clone().unwrap_or_default(),
            pid: self.pid.clone(),
            tid: self.tid.clone(),
            rows: (0..rows).map(row).collect(),
            weight_type: table.weight_type.clone().unwrap_or_else(|| "samples".into()),
            weighted: table.weight.is_some(),
            has_cpu: table.cpu.is_some(),
            stacks,
        })
    }
}

/// The tables of a thread, or those of the file where it has none of its own.
struct Whole<'f> {
    stacks: &'f StackTable,
    frames: &'f FrameTable,
    functions: &'f FunctionTable,
    resources: Option<&'f ResourceTable>,
    sources: Option<&'f SourceTable>,
    strings: &'f [Cow<'f, str>],
}

impl<'f> Whole<'f> {
    fn new(own: &'f Part<'f>, shared: Option<&'f Part<'f>>) -> Result<Self, String> {
        fn find<'f, T>(
            own: &'f Part<'f>,
            shared: Option<&'f Part<'f>>,
            part: impl Fn(&'f Part<'f>) -> Option<&'f T>,
        ) -> Option<&'f T> {
            part(own).or_else(|| shared.and_then(part))
        }
        let missing = |name: &str| format!("no {name}");
        let strings = find(own, shared, |t| t.string_array.as_ref().or(t.string_table.as_ref()));
        Ok(Self {
            stacks: find(own, shared, |t| t.stack_table.as_ref()).ok_or_else(|| missing("stackTable"))?,
            frames: find(own, shared, |t| t.frame_table.as_ref()).ok_or_else(|| missing("frameTable"))?,
            functions: find(own, shared, |t| t.func_table.as_ref()).ok_or_else(|| missing("funcTable"))?,
            resources: find(own, shared, |t| t.resource_table.as_ref()),
            sources: find(own, shared, |t| t.sources.as_ref()),
            strings: strings.ok_or_else(|| missing("stringArray"))?,
        })
    }

    fn string(&self, at: usize) -> Result<&'f str, String> {
        let all = self.strings.len();
        self.strings.get(at).map(AsRef::as_ref).ok_or_else(|| format!("string {at} of {all}"))
    }

    fn stacks(&self, out: &mut Samples, libs: &[Lib]) -> Result<Vec<StackId>, String> {
        let mut frames: Vec<Option<FrameId>> = vec![None; self.frames.func.len()];
        let mut stacks: Vec<StackId> = Vec::with_capacity(self.stacks.frame.len());
        for (at, (frame, prefix)) in self.stacks.frame.iter().zip(&self.stacks.prefix).enumerate() {
            let caller = match prefix {
                None => None,
                Some(prefix) => Some(
                    *stacks.get(*prefix).ok_or_else(|| format!("stack {at} is called by stack {prefix}"))?,
                ),
            };
            let known =
                frames.get(*frame).copied().ok_or_else(|| format!("frame {frame} of {}", frames.len()))?;
            let id = match known {
                Some(id) => id,
                None => self.frame(out, *frame, libs)?,
            };
            frames[*frame] = Some(id);
            stacks.push(out.b.stack(caller, id));
        }
        Ok(stacks)
    }

    fn frame(&self, out: &mut Samples, at: usize, libs: &[Lib]) -> Result<FrameId, String> {
        let function = self.frames.func[at];
        let all = self.functions.name.len();
        let name =
            self.functions.name.get(function).ok_or_else(|| format!("function {function} of {all}"))?;
        let file = self.file(function)?;
        let is_js = self.functions.is_js.as_ref().is_some_and(|js| js.get(function) == Some(&true));
        let place = match self.object(function, libs)? {
            Some(object) if !is_js => {
                let (object, own) = out.place(&object);
                (object, file.map(|file| out.b.file(file)).or(own))
            }
            _ => match file {
                Some(file) if is_js => {
                    let module = Object::new(file, ObjectKind::Module(Language::JavaScript));
                    (out.b.object(module), Some(out.b.file(file)))
                }
                file => out.place(file.unwrap_or_default()),
            },
        };
        let declared = line(column(self.functions.line_number.as_ref(), function));
        let function = out.function(place, self.string(*name)?, declared);
        let line = line(column(self.frames.line.as_ref(), at));
        let inlined = column(self.frames.inline_depth.as_ref(), at).is_some_and(|depth| depth > 0);
        Ok(out.b.frame(Frame { function, file: place.1, line, address: None, inlined }))
    }

    fn file(&self, function: usize) -> Result<Option<&'f str>, String> {
        let source = column(self.functions.source.as_ref(), function);
        let name = source.and_then(|source| self.sources?.filename.get(source).copied());
        let name = name.or_else(|| column(self.functions.file_name.as_ref(), function));
        name.map(|name| self.string(name)).transpose()
    }

    /// The program or library of a function.
    fn object(&self, function: usize, libs: &[Lib]) -> Result<Option<String>, String> {
        let resource = column(self.functions.resource.as_ref(), function);
        let Some(resource) = resource.and_then(|resource| usize::try_from(resource).ok()) else {
            return Ok(None);
        };
        let Some(resources) = self.resources else { return Ok(None) };
        let lib = column(resources.lib.as_ref(), resource).and_then(|lib| libs.get(lib));
        if let Some(path) = lib.and_then(|lib| lib.path.clone().or_else(|| lib.name.clone())) {
            return Ok(Some(path));
        }
        let name = resources.name.get(resource).map(|name| self.string(*name)).transpose()?;
        Ok(name.map(str::to_owned))
    }
}

/// A cell of a column that may be absent, or shorter than its table.
fn column<T: Copy>(column: Option<&Vec<Option<T>>>, at: usize) -> Option<T> {
    column.and_then(|column| column.get(at).copied().flatten())
}

/// The profile of all threads.
pub(super) fn finish(
    mut out: Samples,
    lanes: Vec<Lane>,
    head: &Head,
    wanted: Wanted<'_>,
) -> Result<Profile, Problem> {
    let lanes: Vec<Lane> = lanes.into_iter().filter(|lane| !lane.rows.is_empty()).collect();
    let weight = |lane: &Lane| match &*lane.weight_type {
        "tracing-ms" if head.ours => SampleType::new("cpu", "milliseconds"),
        "tracing-ms" => SampleType::new("time", "milliseconds"),
        "bytes" => SampleType::new("memory", "bytes"),
        _ => SampleType::new("samples", "count"),
    };
    let mut all: Vec<SampleType> = Vec::new();
    for kind in lanes.iter().map(weight) {
        if !all.contains(&kind) {
            all.push(kind);
        }
    }
    if all.is_empty() {
        return Err(problem("threads", "no sample in it"));
    }
    let cpu_unit = head.cpu_unit.as_deref().filter(|unit| ["ns", "µs"].contains(unit));
    if let Some(unit) = cpu_unit.filter(|_| lanes.iter().all(|lane| lane.has_cpu) && !head.ours) {
        all.push(SampleType::new("cpu", unit));
    }
    let (shown, note) = chosen(&all, 0, wanted.sample_type)?;
    let by_delta = all[shown].name() == "cpu" && !head.ours;
    let times = lanes.iter().flat_map(|lane| &lane.rows).filter_map(|row| row.time);
    let start = times.fold(f64::INFINITY, f64::min);
    let mut processes: FxHashMap<(String, String), ProcessId> = FxHashMap::default();
    for lane in lanes.iter().filter(|lane| by_delta || weight(lane) == all[shown]) {
        let thread = thread(&mut out, &mut processes, lane, head);
        for row in &lane.rows {
            let stack = match row.stack {
                None => None,
                Some(at) => Some(
                    *lane
                        .stacks
                        .get(at)
                        .ok_or_else(|| problem("samples", format!("stack {at} of {}", lane.stacks.len())))?,
                ),
            };
            let samples = match (&*lane.weight_type, lane.weighted) {
                (_, false) => 1,
                ("samples", true) => rounded(row.weight.max(0.0)),
                _ => 0,
            };
            let amount = if by_delta { row.cpu } else { row.weight };
            let time_ns = row.time.map(|time| rounded((time - start).max(0.0) * 1e6));
            out.add(Sample { thread, stack, amount, samples, time_ns });
        }
    }
    let mut profile = out.finish(&all[shown])?;
    profile.start_realtime_ns = rounded(head.start_ms.max(0.0) * 1e6);
    profile.account.notes.extend(note);
    if head.without_names {
        profile.account.note(
            "the file says that its functions are not looked up; the page that shows it (samply load FILE) does that, and \
             saves a file with names",
        );
    }
    Ok(profile)
}

fn thread(
    out: &mut Samples,
    processes: &mut FxHashMap<(String, String), ProcessId>,
    lane: &Lane,
    head: &Head,
) -> ThreadId {
    let [pid, tid] = [&lane.pid, &lane.tid].map(|number| number.as_ref().map_or(0, Number::value));
    let name = [&lane.process, &head.product].into_iter().find(|name| !name.is_empty());
    let name = name.map_or("process", String::as_str);
    let key = (lane.pid.as_ref().map(Number::key).unwrap_or_default(), name.to_owned());
    let process = *processes.entry(key).or_insert_with(|| out.process(pid, name));
    let name = if head.ours { without_number(&lane.name, tid) } else { &lane.name };
    out.b.thread(process, tid, name)
}
