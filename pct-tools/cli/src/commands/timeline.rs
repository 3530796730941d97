//! `pct view --timeline`: recordings and traces on one time axis.
//!
//! The page knows no symbols: here a recording is read, its functions are named, and it goes to the page as plain data.
//! What a range of it spent where is counted from the same profile as `pct report` counts it.

mod counted;

use crate::errors::Usage;
use crate::face::Face;
use crate::look::{self, Look};
use anyhow::{Context as _, Result};
use lttv_page::recording::{Function, Recording, Sample, Thread};
use lttv_page::{Shown, Store, TimelinePage};
use pct_profile::Profile;
use pct_profile::load::{self, Options};
use pct_profile::model::Id as _;
use pct_server::view::Served;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use counted::Counted;

/// Most things to know about a recording that the page lists.
const MOST_NOTES: usize = 50;

/// What is added to the times of traces, as typed: `-3ms`, `host=250us`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClockShift {
    /// Which trace, by its host, folder or path; none: all of them.
    trace: Option<String>,
    ns: i64,
}

impl std::str::FromStr for ClockShift {
    type Err = String;

    fn from_str(text: &str) -> Result<ClockShift, String> {
        let (trace, length) = match text.rsplit_once('=') {
            Some((name, length)) => (Some(name.to_owned()), length),
            None => (None, text),
        };
        let units = [("ns", 1), ("us", 1_000), ("ms", 1_000_000), ("s", 1_000_000_000), ("", 1)];
        let number = units
            .iter()
            .find_map(|(unit, scale)| length.strip_suffix(unit)?.parse::<i64>().ok()?.checked_mul(*scale));
        let ns = number
            .ok_or_else(|| "expected a whole number of ns, or with a unit: -3ms, host=250us".to_owned())?;
        Ok(ClockShift { trace, ns })
    }
}

/// Opens everything and begins to compute.
///
/// # Errors
/// Nothing could be opened; a filter was given; the port is taken.
pub(super) fn served(
    paths: &[PathBuf],
    look: &Look,
    shifts: &[ClockShift],
    port: u16,
    face: &Face,
) -> Result<Served> {
    let filters = [&look.focus, &look.ignore, &look.object, &look.thread, &look.process];
    if filters.iter().any(|filter| filter.is_some()) || look.window().is_some() {
        let what = "--timeline shows all samples: choose a range or a thread on the page";
        return Err(Usage(what.to_owned()).into());
    }
    let mut shown = Vec::new();
    let mut first_error = None;
    for path in look::paths(paths)? {
        for opened in open(&path, shifts, face) {
            match opened {
                Ok(trace) => shown.push(trace),
                Err(error) => {
                    if first_error.is_some() || paths.len() > 1 {
                        face.warn(format_args!("{error:#}"));
                    }
                    first_error.get_or_insert(error);
                }
            }
        }
    }
    if shown.is_empty() {
        return Err(first_error.unwrap_or_else(|| anyhow::anyhow!("nothing to show")));
    }
    let store = Store::new(shown).map_err(anyhow::Error::msg)?;
    Ok(Served::of(Arc::new(TimelinePage::new(store)), "timeline", port)?)
}

/// What lies at a path: a recording, or traces.
fn open(path: &Path, shifts: &[ClockShift], face: &Face) -> Vec<Result<Shown>> {
    let is_metadata = path.file_name().is_some_and(|name| name == "metadata");
    if !is_metadata && (!path.is_dir() || load::files_of(path).is_ok()) {
        return vec![recording(path, face)];
    }
    let of_all = shifts.iter().filter(|shift| shift.trace.is_none()).map(|shift| shift.ns);
    let of_some = shifts.iter().filter_map(|shift| Some((shift.trace.clone()?, shift.ns)));
    let options = lttv_ctf::Options {
        cache: lttv_ctf::default_folder(),
        shift_ns: of_all.sum(),
        shifts: of_some.collect(),
        ..lttv_ctf::Options::default()
    };
    let opened = lttv_sources::open(path, &options).into_iter();
    opened
        .map(|opened| {
            let opened = opened.with_context(|| path.display().to_string())?;
            let by: Vec<i64> = shifts
                .iter()
                .filter(|shift| shift.trace.as_ref().is_none_or(|name| opened.names.contains(name)))
                .map(|shift| shift.ns)
                .collect();
            let shifted = (!by.is_empty()).then(|| format!("its times are shifted by {} ns", by.iter().sum::<i64>()));
            let clock = opened.foreign_clock.map(|clock| {
                format!("its clock ({clock}) does not count from 1970: its times cannot be compared with those of others")
            });
            let name = opened.names.last().cloned().unwrap_or_else(|| path.display().to_string());
            let notes = opened.lost.iter().map(ToString::to_string).chain(clock).chain(shifted).collect();
            Ok(Shown { name, source: opened.source, recording: None, notes })
        })
        .collect()
}

fn recording(path: &Path, face: &Face) -> Result<Shown> {
    let options = Options { timeline: true, ..look::defaults() };
    let profile = look::load(&[path.to_owned()], &options, face)?;
    let total = profile.total().samples;
    anyhow::ensure!(
        !profile.timeline.is_empty() || total == 0,
        "{}: its {total} samples have no times",
        path.display()
    );
    Ok(Shown::recording(plain(path, profile)))
}

/// A profile as plain data.
fn plain(path: &Path, profile: Profile) -> Recording {
    let start = i64::try_from(profile.start_realtime_ns).unwrap_or(i64::MAX);
    let at = |time_ns: u64| start.saturating_add(i64::try_from(time_ns).unwrap_or(i64::MAX));
    let threads = profile.threads.iter().map(|thread| {
        let process = &profile.processes[thread.process];
        Thread {
            pid: process.pid,
            tid: thread.tid,
            process: process.name.clone(),
            name: thread.name.clone(),
            samples: Vec::new(),
        }
    });
    let mut threads: Vec<Thread> = threads.collect();
    for sample in &profile.timeline {
        let function = u32::try_from(profile.leaf(sample.stack).index()).unwrap_or(u32::MAX);
        threads[sample.thread.index()].samples.push(Sample {
            time_ns: at(sample.time_ns),
            weight_ns: sample.weight_ns,
            function,
        });
    }
    let functions = profile.functions.iter().map(|function| Function {
        name: function.name.clone(),
        object: profile.objects[function.object].name().to_owned(),
    });
    let functions = functions.collect();
    let account = &profile.account;
    let lost = account.losses.iter().map(|loss| format!("{} samples lost: {}", loss.samples, loss.cause));
    Recording {
        name: path.display().to_string(),
        start_ns: start,
        threads,
        functions,
        marks: profile.marks.iter().map(|mark| (at(mark.time_ns), mark.name.clone())).collect(),
        notes: lost.chain(account.notes.iter().cloned()).take(MOST_NOTES).collect(),
        windows: Arc::new(Counted::new(profile, start, path)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shifts_have_units_and_names() {
        let shift = |trace: Option<&str>, ns| Ok(ClockShift { trace: trace.map(str::to_owned), ns });
        assert_eq!("-3ms".parse(), shift(None, -3_000_000));
        assert_eq!("a=b=250us".parse(), shift(Some("a=b"), 250_000));
        assert_eq!("17".parse(), shift(None, 17));
        for bad in ["", "x", "1.5s", "h=", "99999999999s", "3m"] {
            assert!(bad.parse::<ClockShift>().is_err(), "{bad}");
        }
    }
}
