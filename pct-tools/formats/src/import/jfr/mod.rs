//! Recordings of Java Flight Recorder. The JDK writes them, and other profilers of Java do.
//!
//! Each type of events that have stacks is a kind of samples, and one is read: the one that was asked for, else the
//! first of [`DEFAULTS`] that has events, else the one with most. What an event is worth is a field of it: the CPU time
//! that it stands for, bytes, or how long it took. Samples at intervals of which the file does not say what they are
//! worth are counted.
//!
//! Why no crate: `jfrs` (0.2.5) reserves memory by numbers of the file before it checks them.

mod chunk;
mod fields;
mod stacks;
mod types;
mod values;

use super::problem::Problem;
use super::samples::{Sample, Samples};
use super::types::{SampleType, chosen};
use super::wanted::Wanted;
use chunk::{Chunk, Event};
use pct_num::{count, float, rounded};
use pct_profile::Profile;
use stacks::Stacks;
use std::collections::BTreeMap;
use types::{Class, Measure};
use values::Value;

/// What each chunk begins with.
pub(super) const MAGIC: &[u8; 4] = b"FLR\0";

/// What is shown if nothing was asked for.
const DEFAULTS: &[&str] = &["jdk.CPUTimeSample", "jdk.ExecutionSample", "profiler.WallClockSample"];
/// Events that are samples at intervals.
const SAMPLERS: &[&str] = &["jdk.ExecutionSample", "jdk.NativeMethodSample", "profiler.WallClockSample"];
/// Fields with the bytes that an event stands for.
const BYTES: &[&str] = &["weight", "tlabSize", "allocationSize"];
const CPU_TIME: &str = "jdk.CPUTimeSample";

/// A type of events that have stacks.
#[derive(Default)]
struct Kind {
    events: u64,
    has_stacks: bool,
    /// The field with what an event is worth, and its unit; `None`: each is worth one.
    amount: Option<(&'static str, &'static str)>,
    has_amounts: bool,
}

impl Kind {
    fn sample_type(&self, name: &str) -> SampleType {
        match self.amount.filter(|_| self.has_amounts) {
            Some((_, unit)) => SampleType::new(name, unit),
            None if SAMPLERS.contains(&name) => SampleType::new(name, "samples"),
            None => SampleType::new(name, "count"),
        }
    }
}

/// The field with what an event of this type is worth, and its unit.
fn amount(class: &Class) -> Option<(&'static str, &'static str)> {
    let measure =
        |name: &str| class.fields.iter().find(|field| field.name == name).and_then(|field| field.measure);
    let is_time = |name| measure(name).is_some_and(|measure| measure != Measure::Bytes);
    if class.name == CPU_TIME && is_time("samplingPeriod") {
        return Some(("samplingPeriod", "nanoseconds"));
    }
    if let Some(field) = BYTES.iter().find(|field| measure(field) == Some(Measure::Bytes)) {
        return Some((field, "bytes"));
    }
    (is_time("duration") && !SAMPLERS.contains(&class.name.as_str())).then_some(("duration", "nanoseconds"))
}

pub(super) fn read(bytes: &[u8], wanted: Wanted<'_>) -> Result<Profile, Problem> {
    let mut chunks = Vec::new();
    let mut rest = bytes;
    let mut notes = Vec::new();
    while !rest.is_empty() {
        let place = bytes.len() - rest.len();
        if !rest.starts_with(MAGIC) {
            notes.push(format!("octet {place}: {} octets that are no chunk were left out", rest.len()));
            break;
        }
        match Chunk::read(rest, place) {
            Ok((chunk, behind)) => {
                rest = behind;
                chunks.push(chunk);
            }
            Err(problem) if chunks.is_empty() => return Err(problem),
            Err(Problem { place, problem }) => {
                notes.push(format!("{place}: {problem}; what is before it was read"));
                break;
            }
        }
    }
    let kinds = kinds(&chunks);
    let (names, all): (Vec<&str>, Vec<SampleType>) =
        kinds.iter().map(|(name, kind)| (*name, kind.sample_type(name))).unzip();
    let of_default = DEFAULTS.iter().find_map(|name| names.iter().position(|known| known == name));
    let most = || (0..names.len()).max_by_key(|at| kinds[names[*at]].events);
    let Some(default) = of_default.or_else(most) else {
        let events = chunks.iter().map(|chunk| chunk.events.len() as u64).sum();
        let problem = format!("no event with a stack among its {}", count(events, "event", "events"));
        return Err(Problem { place: "the whole file".into(), problem });
    };
    let (shown, note) = chosen(&all, default, wanted.sample_type)?;
    let mut profile = samples(&chunks, names[shown], &kinds[names[shown]], &all[shown], wanted.timeline)?;
    if let Some(note) = note {
        profile.account.note(note);
    }
    for line in notes.into_iter().chain(chunks.iter().flat_map(|chunk| chunk.notes.clone())) {
        profile.account.note_gap(line);
    }
    let bytes = rounded(sum_of(&chunks, "jdk.DataLoss", "amount"));
    if bytes > 0 {
        let bytes = pct_num::thousands(bytes);
        profile.account.note_gap(format!("the recorder lost events: {bytes} bytes (jdk.DataLoss)"));
    }
    let samples = rounded(sum_of(&chunks, "jdk.CPUTimeSamplesLost", "lostSamples"));
    if samples > 0 && names[shown] == CPU_TIME {
        profile.account.lose("lost by the recorder (jdk.CPUTimeSamplesLost)", samples, 0);
    }
    Ok(profile)
}

/// The types of events that have stacks, by their names.
fn kinds<'c>(chunks: &'c [Chunk<'_>]) -> BTreeMap<&'c str, Kind> {
    let mut kinds: BTreeMap<&str, Kind> = BTreeMap::new();
    for chunk in chunks {
        let of_chunk: BTreeMap<i64, &Class> = chunk.classes.with_field("stackTrace").collect();
        for event in &chunk.events {
            let Some(class) = of_chunk.get(&event.class) else { continue };
            let kind = kinds.entry(class.name.as_str()).or_default();
            kind.events += 1;
            kind.has_stacks |=
                matches!(chunk.key(event, "stackTrace"), Some(Value::Constant { key: 1.., .. }));
            kind.amount = kind.amount.or_else(|| amount(class));
            kind.has_amounts = kind.has_amounts
                || kind
                    .amount
                    .and_then(|(field, _)| chunk.measured(event, field))
                    .is_some_and(|amount| amount > 0.0);
        }
    }
    kinds.retain(|_, kind| kind.has_stacks);
    kinds
}

/// The samples of one kind.
fn samples(
    chunks: &[Chunk<'_>],
    name: &str,
    kind: &Kind,
    sample_type: &SampleType,
    timeline: bool,
) -> Result<Profile, Problem> {
    let shown = |chunk: &Chunk<'_>, event: &Event| {
        chunk.classes.class(event.class).is_some_and(|class| class.name == name)
    };
    let start = |chunk: &Chunk<'_>, event: &Event| match chunk.key(event, "startTime") {
        Some(Value::Number(ticks)) => Some(chunk.time_ns(ticks)),
        _ => None,
    };
    let all = || chunks.iter().flat_map(|chunk| chunk.events.iter().map(move |event| (chunk, event)));
    let first = all()
        .filter(|(chunk, event)| shown(chunk, event))
        .filter_map(|(chunk, event)| start(chunk, event))
        .min();
    let mut out = Samples::new("[native]", timeline);
    let (pid, title) = all().find_map(|(chunk, event)| jvm(chunk, event)).unwrap_or_default();
    let process = out.process(pid, &title);
    let nobody = out.b.thread(process, 0, "");
    let (mut cut, mut all_stacks, mut unread) = (0u64, 0u64, 0u64);
    for chunk in chunks {
        let mut stacks = Stacks::new(chunk);
        for event in chunk.events.iter().filter(|event| shown(chunk, event)) {
            let found = stacks.stack(&mut out, event);
            let thread = stacks.thread(&mut out, process, nobody, event);
            // One event may stand for several samples.
            let samples = match chunk.key(event, "samples") {
                Some(Value::Number(samples @ 1..)) if SAMPLERS.contains(&name) => samples.unsigned_abs(),
                _ => 1,
            };
            let amount = match kind.amount.filter(|_| kind.has_amounts) {
                Some((field, _)) => chunk.measured(event, field).filter(|amount| *amount >= 0.0),
                None => Some(float(samples)),
            };
            let Some(amount) = amount else {
                unread += 1;
                continue;
            };
            let time_ns =
                start(chunk, event).zip(first).and_then(|(at, first)| u64::try_from(at - first).ok());
            all_stacks += u64::from(found.stack.is_some());
            cut += u64::from(found.is_cut);
            out.add(Sample { thread, stack: found.stack, amount, samples, time_ns });
        }
    }
    let cpu_time = SampleType::new("cpu", "nanoseconds");
    let is_cpu_time = name == CPU_TIME && kind.has_amounts;
    let mut profile = out.finish(if is_cpu_time { &cpu_time } else { sample_type })?;
    profile.account.whole_stacks = all_stacks - cut;
    if unread > 0 {
        let events = count(unread, "event was left out", "events were left out");
        profile.account.note_gap(format!("{events}: without an amount, or with one below 0"));
    }
    if cut > 0 {
        profile.account.cut("more frames than the JVM keeps (its option stackdepth)", cut);
    }
    Ok(profile)
}

/// Process id and program of the JVM.
fn jvm(chunk: &Chunk<'_>, event: &Event) -> Option<(u32, String)> {
    chunk.classes.class(event.class).filter(|class| class.name == "jdk.JVMInformation")?;
    let pid = match chunk.key(event, "pid") {
        Some(Value::Number(pid)) => u32::try_from(pid).unwrap_or(0),
        _ => 0,
    };
    let arguments = chunk.key(event, "javaArguments").and_then(|text| chunk.text(&text)).unwrap_or_default();
    let program = arguments.split_ascii_whitespace().next().unwrap_or("java");
    Some((pid, program.to_owned()))
}

/// The sum of a field of all events of a type.
fn sum_of(chunks: &[Chunk<'_>], name: &str, field: &str) -> f64 {
    let of_chunk = |chunk: &Chunk<'_>| -> f64 {
        let Some(id) = chunk.classes.id_of(name) else { return 0.0 };
        let events = chunk.events.iter().filter(|event| event.class == id);
        events.filter_map(|event| chunk.measured(event, field)).sum()
    };
    chunks.iter().map(of_chunk).sum()
}
