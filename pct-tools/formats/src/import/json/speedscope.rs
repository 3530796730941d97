//! speedscope's files: <https://www.speedscope.app/file-format-schema.json>. py-spy, rbspy, dotnet-trace, pyinstrument
//! and others write them.
//!
//! A file has several profiles, often one for each thread, and each has a unit. Those of one unit are read together, as
//! threads: the unit of the profile that the file shows first, or the one that was asked for.
//! The number of samples is known only where all weights are equal: writers merge equal stacks.

use super::super::problem::Problem;
use super::super::samples::{Sample, Samples};
use super::super::types::{SampleType, chosen};
use super::super::wanted::Wanted;
use super::parts::{line, parsed, problem};
use pct_num::{count, rounded};
use pct_profile::Unit;
use pct_profile::model::{Frame, FrameId, ProcessId, Profile, StackId, ThreadId};
use rustc_hash::{FxHashMap, FxHashSet};
use serde::Deserialize;
use std::borrow::Cow;

#[derive(Deserialize)]
#[serde(bound(deserialize = "'de: 't"))]
struct File<'t> {
    shared: Shared<'t>,
    profiles: Vec<One<'t>>,
    #[serde(rename = "activeProfileIndex")]
    active: Option<usize>,
    #[serde(borrow, default)]
    exporter: Option<Cow<'t, str>>,
}

#[derive(Deserialize)]
struct Shared<'t> {
    #[serde(borrow)]
    frames: Vec<Named<'t>>,
}

#[derive(Deserialize)]
struct Named<'t> {
    #[serde(borrow)]
    name: Cow<'t, str>,
    #[serde(borrow)]
    file: Option<Cow<'t, str>>,
    line: Option<f64>,
}

/// One profile of a file.
#[derive(Deserialize)]
struct One<'t> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'t, str>,
    #[serde(borrow)]
    name: Cow<'t, str>,
    #[serde(borrow)]
    unit: Cow<'t, str>,
    #[serde(rename = "startValue", default)]
    start: f64,
    #[serde(rename = "endValue", default)]
    end: f64,
    #[serde(default)]
    samples: Vec<Vec<usize>>,
    #[serde(default)]
    weights: Vec<f64>,
    #[serde(borrow, default)]
    events: Vec<Event<'t>>,
}

#[derive(Deserialize)]
struct Event<'t> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'t, str>,
    frame: usize,
    at: f64,
}

pub(super) fn read(text: &str, wanted: Wanted<'_>) -> Result<Profile, Problem> {
    let file: File<'_> = parsed(text, "the whole file")?;
    let exporter = file.exporter.as_deref().unwrap_or_default();
    let kinds: Vec<SampleType> = file.profiles.iter().map(|one| kind(exporter, &one.unit)).collect();
    let mut all: Vec<SampleType> = Vec::new();
    for kind in &kinds {
        if !all.iter().any(|known| same(known, kind)) {
            all.push(kind.clone());
        }
    }
    let active = kinds.get(file.active.unwrap_or(0)).or(kinds.first());
    let Some(active) = active else { return Err(problem("profiles", "no profile in it")) };
    let default = all.iter().position(|kind| same(kind, active)).unwrap_or(0);
    let (shown, note) = chosen(&all, default, wanted.sample_type)?;
    let is_shown = |(one, kind): &(&One<'_>, &SampleType)| same(kind, &all[shown]) && one.kind == "sampled";
    let weights = file.profiles.iter().zip(&kinds).filter(is_shown).flat_map(|(one, _)| &one.weights);
    let mut read = Read::new(&file, wanted.timeline);
    read.are_counted = are_equal(weights);
    for (at, (one, kind)) in file.profiles.iter().zip(&kinds).enumerate() {
        if same(kind, &all[shown]) {
            // Factors of one file may differ: amounts are given in the unit of the type that is shown.
            let factor = pct_num::float(kind.factor()) / pct_num::float(all[shown].factor());
            read.profile(one, kind, factor).map_err(|what| problem(format!("profiles[{at}]"), what))?;
        }
    }
    let crossed = read.crossed;
    let mut profile = read.samples.finish(&all[shown])?;
    profile.account.notes.extend(note);
    if crossed > 0 {
        let frames = count(crossed, "frame that was closed", "frames that were closed");
        profile.account.note(format!("{frames} while a callee was open: the callee was closed with it"));
    }
    Ok(profile)
}

/// What the weights of a profile are: our own files say it in the exporter's name, of others only the unit is known.
fn kind(exporter: &str, unit: &str) -> SampleType {
    let ours = exporter.strip_prefix("pct ").and_then(|rest| rest.split_once(": ")?.1.split_once(" in "));
    if let Some((name, spelling)) = ours {
        return SampleType::new(name, spelling);
    }
    let unit = if unit == "none" { "" } else { unit };
    let kind = SampleType::new("time", unit);
    match kind.unit() {
        Unit::Time => kind,
        Unit::Bytes => SampleType::new("memory", unit),
        Unit::Count | Unit::Other(_) => SampleType::new("weight", unit),
    }
}

fn same(a: &SampleType, b: &SampleType) -> bool {
    a.name() == b.name() && a.unit() == b.unit()
}

struct Read<'f> {
    samples: Samples,
    frames: Vec<FrameId>,
    process: ProcessId,
    /// Our own files have a thread's number behind its name.
    ours: bool,
    stacks: FxHashMap<&'f [usize], Option<StackId>>,
    /// Whether each row is one sample.
    are_counted: bool,
    /// Frames that were closed while a callee was open.
    crossed: u64,
}

impl<'f> Read<'f> {
    fn new(file: &'f File<'_>, timeline: bool) -> Self {
        let mut samples = Samples::new("[speedscope]", timeline);
        let declared = lines_are_of_declarations(&file.shared.frames);
        let frames = file.shared.frames.iter().map(|named| {
            let place = samples.place(named.file.as_deref().unwrap_or_default());
            let line = line(named.line);
            let function = samples.function(place, &named.name, if declared { line } else { 0 });
            let line = if declared { 0 } else { line };
            samples.b.frame(Frame { function, file: place.1, line, address: None, inlined: false })
        });
        let frames = frames.collect();
        let process = samples.process(0, "speedscope");
        let exporter = file.exporter.as_deref().unwrap_or_default();
        Self {
            samples,
            frames,
            process,
            ours: exporter.starts_with("pct "),
            stacks: FxHashMap::default(),
            are_counted: false,
            crossed: 0,
        }
    }

    fn profile(&mut self, one: &'f One<'_>, kind: &SampleType, factor: f64) -> Result<(), String> {
        let thread = match one.name.rsplit_once(' ').filter(|_| self.ours) {
            Some((name, tid)) => self.samples.b.thread(self.process, tid.parse().unwrap_or(0), name),
            None => self.samples.b.thread(self.process, 0, &one.name),
        };
        // The moment of the file at which the profile begins is no time of the day.
        let is_time = *kind.unit() == Unit::Time;
        let ns = |value: f64| is_time.then(|| rounded(value * pct_num::float(kind.factor())));
        match &*one.kind {
            "sampled" => self.sampled(one, thread, factor, &ns),
            "evented" => self.evented(one, thread, factor, &ns),
            other => Err(format!("type {other:?}, expected \"sampled\" or \"evented\"")),
        }
    }

    fn sampled(
        &mut self,
        one: &'f One<'_>,
        thread: ThreadId,
        factor: f64,
        ns: &dyn Fn(f64) -> Option<u64>,
    ) -> Result<(), String> {
        let (samples, weights) = (&one.samples, &one.weights);
        if samples.len() != weights.len() {
            return Err(format!("{} samples, but {} weights", samples.len(), weights.len()));
        }
        let mut at = 0.0;
        for (stack, &weight) in samples.iter().zip(weights) {
            let stack = self.stack(stack)?;
            let samples = u64::from(self.are_counted);
            self.samples.add(Sample { thread, stack, amount: weight * factor, samples, time_ns: ns(at) });
            at += weight;
        }
        Ok(())
    }

    fn stack(&mut self, functions: &'f [usize]) -> Result<Option<StackId>, String> {
        if let Some(known) = self.stacks.get(functions) {
            return Ok(*known);
        }
        let mut at = None;
        for frame in functions {
            let frame = self.frame(*frame)?;
            at = Some(self.samples.b.stack(at, frame));
        }
        self.stacks.insert(functions, at);
        Ok(at)
    }

    fn frame(&self, at: usize) -> Result<FrameId, String> {
        let all = self.frames.len();
        self.frames.get(at).copied().ok_or_else(|| format!("frame {at} of {all} frames"))
    }

    fn evented(
        &mut self,
        one: &One<'_>,
        thread: ThreadId,
        factor: f64,
        ns: &dyn Fn(f64) -> Option<u64>,
    ) -> Result<(), String> {
        let mut open: Vec<(usize, StackId)> = Vec::new();
        let mut last = one.start;
        let mut pass = |samples: &mut Samples, open: &[(usize, StackId)], at: f64| {
            if at < last {
                return Err(format!("an event at {at} behind one at {last}"));
            }
            if let Some((_, stack)) = open.last().filter(|_| at > last) {
                let (amount, time_ns) = ((at - last) * factor, ns(last - one.start));
                samples.add(Sample { thread, stack: Some(*stack), amount, samples: 0, time_ns });
            }
            last = at;
            Ok(())
        };
        for event in &one.events {
            pass(&mut self.samples, &open, event.at)?;
            match &*event.kind {
                "O" => {
                    let frame = self.frame(event.frame)?;
                    let stack = self.samples.b.stack(open.last().map(|(_, stack)| *stack), frame);
                    open.push((event.frame, stack));
                }
                "C" => {
                    let found = open.iter().rposition(|(frame, _)| *frame == event.frame);
                    let found =
                        found.ok_or_else(|| format!("frame {} is closed and not open", event.frame))?;
                    self.crossed += u64::from(found + 1 < open.len());
                    open.truncate(found);
                }
                other => return Err(format!("an event of type {other:?}, expected \"O\" or \"C\"")),
            }
        }
        // Frames that are open at the end last until then.
        pass(&mut self.samples, &open, one.end.max(one.events.last().map_or(one.end, |event| event.at)))
    }
}

/// Whether there are several weights and all are equal.
fn are_equal<'w>(mut weights: impl Iterator<Item = &'w f64>) -> bool {
    let Some(first) = weights.next() else { return false };
    let mut rest = weights.peekable();
    rest.peek().is_some() && rest.all(|weight| weight.to_bits() == first.to_bits())
}

/// Whether the lines of frames are where functions are declared. The format does not say what they are: a function of
/// a file that has several lines shows that they are places in it.
fn lines_are_of_declarations(frames: &[Named<'_>]) -> bool {
    let mut seen = FxHashSet::default();
    let named = |frame: &&Named<'_>| !frame.name.is_empty() && !frame.name.starts_with(['<', '(', '[']);
    frames.iter().filter(named).all(|frame| seen.insert((&*frame.name, frame.file.as_deref())))
}
