//! Profiles in JSON: speedscope's files, V8's `.cpuprofile`, the Gecko profiler's forms and Chrome's trace events.
//!
//! Which of them a file is, its outermost keys say. A file that is cut short is refused with the place of its end; only
//! lists of trace events may lack their last bracket, as their format says.

mod cpu_profile;
mod gecko;
mod gecko_raw;
mod global_samples;
mod parts;
mod slices;
mod speedscope;
mod trace_events;

use super::problem::Problem;
use super::wanted::Wanted;
use parts::{Members, parsed, problem};
use pct_profile::Profile;

/// Whether a text is a JSON object with members, or a list of such.
pub(super) fn looks_like(text: &str) -> bool {
    let mut signs = text.chars().filter(|c| !c.is_whitespace());
    match signs.next() {
        Some('{') => signs.next() == Some('"'),
        Some('[') => signs.next() == Some('{') && signs.next() == Some('"'),
        _ => false,
    }
}

pub(super) fn read(text: &str, wanted: Wanted<'_>) -> Result<Profile, Problem> {
    let whole = "the whole file";
    if text.trim_start().starts_with('[') {
        return trace_events::read_list(text, wanted).map_err(|why| in_form("a list of trace events", why));
    }
    let members: Members<'_> = parsed(text, whole).map_err(|why| in_form(seems(text), why))?;
    let has = |key: &str| members.contains_key(key);
    if has("traceEvents") {
        return trace_events::read(text, wanted).map_err(|why| in_form("trace events", why));
    }
    if has("profiles") && (has("shared") || has("$schema")) {
        return speedscope::read(text, wanted).map_err(|why| in_form("speedscope's JSON", why));
    }
    if has("nodes") && (has("samples") || has("startTime")) && !has("snapshot") {
        return cpu_profile::read(text, wanted).map_err(|why| in_form("V8's .cpuprofile", why));
    }
    if has("meta") && has("threads") {
        let raw = gecko_raw::looks_like(&members);
        let read = if raw { gecko_raw::read(text, wanted) } else { gecko::read(text, wanted) };
        return read.map_err(|why| in_form("JSON of the Gecko profiler", why));
    }
    // Firefox's developer tools put a profile into a frame of their own.
    if let Some(inner) = members.get("profile").map(|inner| inner.get()).filter(|inner| looks_like(inner)) {
        return read(inner, wanted);
    }
    let what = seems(text);
    Err(problem(whole, format!("{what}, which cannot be read as a profile")))
}

/// Members of JSON files that are no profile here: all of a row must be in the file's first part.
const OTHERS: &[(&[&str], &str)] = &[
    (&["\"head\"", "\"selfSize\""], "V8's sampling heap profile (Chrome's developer tools show it)"),
    (&["\"head\"", "\"callUID\""], "V8's .cpuprofile of an old form (Chrome's developer tools show it)"),
    (&["\"snapshot\"", "\"node_fields\""], "V8's heap snapshot (Chrome's developer tools show it)"),
    (
        &["\"raw\"", "\"missed_samples\""],
        "stackprof's JSON (stackprof --stackcollapse makes folded text of it)",
    ),
    (&["\"traceEvents\""], "trace events"),
    (&["\"$schema\"", "speedscope"], "speedscope's JSON"),
    (&["\"nodes\"", "\"callFrame\""], "V8's .cpuprofile"),
    (
        &["\"root_frame\"", "\"sample_count\""],
        "pyinstrument's session (pyinstrument -r speedscope makes another form of it)",
    ),
    (&["\"dhatFileVersion\""], "dhat's file (dh_view.html shows it)"),
    (&["\"cost_centres\"", "\"profile\""], "GHC's profile as JSON"),
    (&["\"meta\"", "\"threads\""], "JSON of the Gecko profiler"),
    (&["\"meta\"", "\"libs\""], "JSON of the Gecko profiler"),
    (&["\"resourceProfiles\""], "OpenTelemetry's profiles as JSON"),
    (&["\"flamebearer\""], "Pyroscope's flamebearer (its pprof or folded download can be read)"),
];

/// What a text in JSON seems to be.
fn seems(text: &str) -> &'static str {
    let head = &text[..text.floor_char_boundary(1 << 16)];
    let found = OTHERS.iter().find(|(words, _)| words.iter().all(|word| head.contains(word)));
    found.map_or("JSON of a form that is not known", |(_, what)| what)
}

/// A problem of a file whose form is known.
fn in_form(what: &str, Problem { place, problem }: Problem) -> Problem {
    if place == "--type" {
        return Problem { place, problem };
    }
    Problem { place, problem: format!("{problem} (it seems to be {what})") }
}
