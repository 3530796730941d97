//! The events of a perf.data file: which there are, and which is read.
//!
//! Names are those that the recorder wrote (feature 12); without them an event has the name that perf gives to its
//! numbers. Events that are there only for other purposes (`dummy`, hardware traces) have no samples.

use super::super::problem::Problem;
use super::file::{Attr, PerfData, bit, kind};
use pct_num::count;
use pct_profile::{Quantity, Unit};

const HARDWARE: &[&str] = &[
    "cycles",
    "instructions",
    "cache-references",
    "cache-misses",
    "branches",
    "branch-misses",
    "bus-cycles",
    "stalled-cycles-frontend",
    "stalled-cycles-backend",
    "ref-cycles",
];
const SOFTWARE: &[&str] = &[
    "cpu-clock",
    "task-clock",
    "page-faults",
    "context-switches",
    "cpu-migrations",
    "minor-faults",
    "major-faults",
    "alignment-faults",
    "emulation-faults",
    "dummy",
    "bpf-output",
    "cgroup-switches",
];

/// An event with samples.
struct Event {
    /// Index of the attribute.
    attr: usize,
    name: String,
    samples: u64,
    is_clock: bool,
}

/// The events with samples, in the order of the file.
pub(super) struct Events(Vec<Event>);

impl Events {
    pub(super) fn in_file(data: &PerfData<'_>) -> Self {
        let mut samples = vec![0u64; data.attrs.len()];
        for record in data.records.iter().filter(|record| record.kind == kind::SAMPLE) {
            if let Some(count) = samples.get_mut(record.attr) {
                *count += 1;
            }
        }
        let events = data.attrs.iter().zip(samples).enumerate().map(|(at, (attr, samples))| {
            let written = data.event_names.get(at).filter(|name| !name.is_empty());
            let name =
                written.map_or_else(|| by_number(attr), |name| String::from_utf8_lossy(name).into_owned());
            Event { attr: at, name, samples, is_clock: attr.is_clock() }
        });
        Self(events.filter(|event| event.samples > 0).collect())
    }

    /// The event of this name, else the first that counts CPU time, else the one with most samples.
    pub(super) fn choose(&self, data: &PerfData<'_>, name: Option<&str>) -> Result<Choice, Problem> {
        let most = || self.0.iter().rev().max_by_key(|event| event.samples);
        let chosen = match name {
            Some(name) => self.0.iter().find(|event| event.name == name),
            None => self.0.iter().find(|event| event.is_clock).or_else(most),
        };
        let event = chosen.ok_or_else(|| match name {
            Some(name) if !self.0.is_empty() => {
                let problem = format!("no event {name:?} with samples in it; it has {}", self.words(None));
                Problem { place: "--type".into(), problem }
            }
            _ => {
                let why = data.notes.first().map(|note| format!(" ({note})")).unwrap_or_default();
                Problem { place: "octet 0".into(), problem: format!("no sample in it{why}") }
            }
        })?;
        let worth = Worth::of_samples(&data.attrs[event.attr]);
        Ok(Choice { attr: event.attr, name: event.name.clone(), worth })
    }

    /// What is to be said of the choice, if there was any.
    pub(super) fn note(&self, chosen: usize) -> Option<String> {
        let (shown, others): (Vec<&Event>, Vec<&Event>) =
            self.0.iter().partition(|event| event.attr == chosen);
        let shown = shown.first().filter(|_| !others.is_empty())?;
        let others = self.words(Some(chosen));
        Some(format!("{} is shown; also in the file: {others} (--type NAME shows it)", words(shown)))
    }

    fn words(&self, without: Option<usize>) -> String {
        let all: Vec<String> =
            self.0.iter().filter(|event| Some(event.attr) != without).take(20).map(words).collect();
        all.join(", ")
    }
}

/// What a sample of an event is worth.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Worth {
    /// Its period in nanoseconds of CPU time.
    Clock,
    /// Its period: how often the event happened.
    Count,
    /// Not known; samples are counted.
    Sample,
}

impl Worth {
    fn of_samples(attr: &Attr) -> Self {
        match attr.format & bit::PERIOD {
            _ if attr.is_clock() => Self::Clock,
            0 if attr.by_frequency => Self::Sample,
            _ => Self::Count,
        }
    }
}

/// The event that is read.
pub(super) struct Choice {
    /// Index of its attribute.
    pub(super) attr: usize,
    name: String,
    worth: Worth,
}

impl Choice {
    pub(super) fn is_cpu_time(&self) -> bool {
        self.worth == Worth::Clock
    }

    /// What its samples were taken by.
    pub(super) fn clock(&self) -> &str {
        if self.is_cpu_time() { "perf" } else { &self.name }
    }

    pub(super) fn quantity(&self) -> Quantity {
        let unit = match self.worth {
            Worth::Clock => return Quantity::Processor,
            Worth::Count => Unit::Count,
            Worth::Sample => Unit::Other("samples".into()),
        };
        Quantity::Foreign { name: self.name.clone(), unit }
    }

    /// What a sample of this period is worth in that quantity; without its own period it has that of its event.
    pub(super) fn amount(&self, period: u64, attr: &Attr) -> u64 {
        match self.worth {
            Worth::Clock | Worth::Count if period > 0 => period,
            Worth::Clock | Worth::Count => attr.period,
            Worth::Sample => 1,
        }
    }
}

fn words(event: &Event) -> String {
    format!("{} ({})", pct_text::visible(&event.name), count(event.samples, "sample", "samples"))
}

/// The name of an event by its numbers. On processors with two kinds of cores the kind's number is in the upper half.
fn by_number(attr: &Attr) -> String {
    let names = match attr.kind {
        0 => HARDWARE,
        1 => SOFTWARE,
        _ => &[],
    };
    let (unit, number) = (attr.config >> 32, attr.config & 0xffff_ffff);
    match usize::try_from(number).ok().and_then(|number| names.get(number)) {
        Some(name) if unit == 0 => (*name).to_owned(),
        Some(name) => format!("pmu{unit}/{name}/"),
        None => format!("type{}/config={:#x}/", attr.kind, attr.config),
    }
}
