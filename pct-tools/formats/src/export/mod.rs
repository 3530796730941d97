//! Writes a profile in the format of another tool.

pub mod callgrind;
pub mod chrome;
pub mod firefox;
pub mod folded;
mod json;
#[cfg(feature = "otlp")]
pub mod otlp;
pub mod pprof;
pub mod speedscope;
mod strings;
pub(crate) mod threads;

use pct_profile::Profile;
use pct_profile::model::Cell;

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
    /// All formats with the names that people type.
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

    /// Whether the format wants single samples in order of time, if the recording has them.
    pub fn wants_timeline(self) -> bool {
        matches!(self, Format::Speedscope | Format::Chrome | Format::Firefox)
    }

    /// Whether the format can hold something else than CPU time.
    pub fn holds_any_quantity(self) -> bool {
        matches!(self, Format::Folded | Format::Pprof | Format::Speedscope | Format::Callgrind)
    }

    /// The suffix of a file in this format.
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

/// Writes the profile's `cells` in a format.
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
