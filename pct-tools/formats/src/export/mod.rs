//! A profile in the format of another tool.

pub mod callgrind;
pub mod chrome;
pub mod firefox;
pub mod folded;
#[cfg(feature = "otlp")]
pub mod otlp;
pub mod pprof;
pub mod speedscope;
mod strings;

use pct_profile::Profile;
use pct_profile::model::{Cell, FrameId, StackId};

/// The formats that can be written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Format {
    /// `a;b;c 123` lines, numbers of samples: flamegraph.pl, inferno, speedscope.
    Folded,
    /// gzip'd protobuf: `go tool pprof`, Grafana Pyroscope, Parca.
    Pprof,
    /// JSON of <https://www.speedscope.app>.
    Speedscope,
    /// Text of callgrind_annotate and KCachegrind.
    Callgrind,
    /// Trace events of chrome://tracing and Perfetto.
    Chrome,
    /// JSON of <https://profiler.firefox.com>, processed format.
    Firefox,
    /// OpenTelemetry's profiles, `v1development`.
    #[cfg(feature = "otlp")]
    Otlp,
}

impl Format {
    /// All of them with the names that people type.
    pub const ALL: &[(&'static str, Format)] = &[
        ("folded", Format::Folded),
        ("pprof", Format::Pprof),
        ("speedscope", Format::Speedscope),
        ("callgrind", Format::Callgrind),
        ("chrome", Format::Chrome),
        ("firefox", Format::Firefox),
        #[cfg(feature = "otlp")]
        ("otlp", Format::Otlp),
    ];

    /// Samples one by one in order of time are wanted, where the recording has them.
    pub fn wants_timeline(self) -> bool {
        matches!(self, Format::Speedscope | Format::Chrome | Format::Firefox)
    }

    /// What a file of this format is called after the name of the recording.
    pub fn suffix(self) -> &'static str {
        match self {
            Format::Folded => "folded",
            Format::Pprof => "pb.gz",
            Format::Speedscope => "speedscope.json",
            Format::Callgrind => "callgrind",
            Format::Chrome => "trace.json",
            Format::Firefox => "firefox.json",
            #[cfg(feature = "otlp")]
            Format::Otlp => "otlp.pb",
        }
    }
}

/// The profile's `cells` in a format.
pub fn export(profile: &Profile, cells: &[Cell], format: Format) -> Vec<u8> {
    match format {
        Format::Folded => folded::write(profile, cells).into_bytes(),
        Format::Pprof => pprof::write(profile, cells),
        Format::Speedscope => speedscope::write(profile, cells),
        Format::Callgrind => callgrind::write(profile, cells).into_bytes(),
        Format::Chrome => chrome::write(profile, cells),
        Format::Firefox => firefox::write(profile, cells),
        #[cfg(feature = "otlp")]
        Format::Otlp => otlp::write(profile, cells),
    }
}

/// A stack's frames, outermost first.
pub(crate) fn path(profile: &Profile, stack: StackId) -> Vec<FrameId> {
    let mut frames: Vec<FrameId> = profile.outwards(stack).map(|(id, _)| profile.stacks[id].frame).collect();
    frames.reverse();
    frames
}

/// A sample for the formats that want an order: what was recorded in order of time, or the cells one after another.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Event {
    pub(crate) time_ns: u64,
    pub(crate) weight_ns: u64,
    pub(crate) stack: StackId,
}

/// Each thread's samples, in order.
pub(crate) fn events(profile: &Profile, cells: &[Cell]) -> Vec<(pct_profile::model::ThreadId, Vec<Event>)> {
    let mut threads: Vec<_> = profile.threads.ids().map(|id| (id, Vec::new())).collect();
    let index = |t: pct_profile::model::ThreadId| pct_profile::model::Id::index(t);
    if profile.timeline.is_empty() {
        for cell in cells {
            let events = &mut threads[index(cell.thread)].1;
            let time_ns = events.last().map_or(0, |e: &Event| e.time_ns.saturating_add(e.weight_ns));
            events.push(Event { time_ns, weight_ns: cell.weight.cpu_ns(), stack: cell.stack });
        }
    } else {
        // only what the cells hold: a filter may have left stacks out
        let kept: std::collections::HashSet<_> = cells.iter().map(|c| (c.thread, c.stack)).collect();
        for s in profile.timeline.iter().filter(|s| kept.contains(&(s.thread, s.stack))) {
            let event = Event { time_ns: s.time_ns, weight_ns: s.weight_ns, stack: s.stack };
            threads[index(s.thread)].1.push(event);
        }
    }
    threads.retain(|(_, events)| !events.is_empty());
    threads
}

/// "name (tid)" of a thread, with its process when there are several.
pub(crate) fn thread_name(profile: &Profile, id: pct_profile::model::ThreadId) -> String {
    let thread = &profile.threads[id];
    let process = profile.process_of(id);
    let name = if thread.name.is_empty() { &process.name } else { &thread.name };
    if profile.processes.len() > 1 {
        format!("{} {}: {name} {}", process.name, process.pid, thread.tid)
    } else {
        format!("{name} {}", thread.tid)
    }
}
