//! Recordings and traces as the timeline page takes them.

use super::counted::Counted;
use super::waited;
use crate::foreign::as_samples;
use crate::look;
use anyhow::{Context as _, Result};
use lttv_page::Shown;
use lttv_page::recording::{Function, Recording, Sample, Samples, Thread, TimeOf};
use pct_formats::flame;
use pct_formats::import::perf_data::folder::main_file;
use pct_profile::fold::{add_own_work, beginnings};
use pct_profile::load::{self, Options};
use pct_profile::model::{Cell, FunctionId, Id as _, StackId, ThreadId, Weight};
use pct_profile::text::waits::closing;
use pct_profile::{Profile, Quantity, Unit};
use rustc_hash::FxHashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

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

/// What lies at all paths, and what cannot be opened.
pub(super) fn open_all(
    paths: &[PathBuf],
    shifts: &[ClockShift],
    read: Read<'_>,
) -> (Vec<Shown>, Vec<anyhow::Error>) {
    let (mut shown, mut errors) = (Vec::new(), Vec::new());
    for opened in paths.iter().flat_map(|path| open(path, shifts, read)) {
        match opened {
            Ok(trace) => shown.push(trace),
            Err(error) => errors.push(error),
        }
    }
    (shown, errors)
}

/// Reads profiles from files.
pub(super) type Read<'a> = &'a mut dyn FnMut(&[PathBuf], &Options) -> Result<Profile>;

/// What lies at a path: a recording, or traces.
fn open(path: &Path, shifts: &[ClockShift], read: Read<'_>) -> Vec<Result<Shown>> {
    let is_metadata = path.file_name().is_some_and(|name| name == "metadata");
    if !is_metadata && (main_file(path).is_some() || load::files_of(path).is_ok()) {
        let options = Options { by_thread: true, waits: true, ..look::defaults() };
        return vec![recording(path, &[path.to_owned()], &options, read)];
    }
    let of_all = shifts.iter().filter(|shift| shift.trace.is_none()).map(|shift| shift.ns);
    let of_some = shifts.iter().filter_map(|shift| Some((shift.trace.clone()?, shift.ns)));
    let options = lttv_ctf::Options {
        cache: lttv_ctf::default_folder(),
        shift_ns: of_all.sum(),
        shifts: of_some.collect(),
        ..lttv_ctf::Options::default()
    };
    let kept = options.cache.as_deref().map(|dir| Arc::new(lttv_ctf::Folder::new(dir)) as Arc<_>);
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
            Ok(Shown { name, source: opened.source, recording: None, notes, kept: kept.clone() })
        })
        .collect()
}

/// The recording at `path`, read from its files.
pub(super) fn recording(path: &Path, files: &[PathBuf], options: &Options, read: Read<'_>) -> Result<Shown> {
    let profile = read(files, options)?;
    let total = profile.total().samples;
    anyhow::ensure!(
        !profile.timeline.is_empty() || !profile.by_thread.lists.is_empty() || total == 0,
        "{}: its {total} samples have no times",
        path.display()
    );
    Ok(Shown::recording(plain((path, files), by_time(profile)?)))
}

/// The cells of all threads together; they were loaded as sums of the threads of each file. Ranges are counted from the
/// samples, and what else asks for cells asks for sums of all threads.
fn one_for_each_stack(mut cells: Vec<Cell>) -> Vec<Cell> {
    cells.sort_unstable_by_key(|cell| (cell.stack, cell.thread));
    cells.dedup_by(|next, kept| {
        let is_same = next.stack == kept.stack;
        if is_same {
            kept.weight += next.weight;
        }
        is_same
    });
    cells.shrink_to_fit();
    cells
}

/// Which stacks each thread had, and in how many samples.
fn cells_of_threads(samples: &[Samples]) -> Vec<Cell> {
    let mut cells = Vec::new();
    let mut counts: FxHashMap<u32, u64> = FxHashMap::default();
    for (at, of_thread) in samples.iter().enumerate() {
        for sample in of_thread.iter() {
            *counts.entry(sample.stack).or_default() += 1;
        }
        cells.extend(counts.drain().map(|(stack, samples)| Cell {
            thread: ThreadId::from_index(at),
            stack: StackId::from_index(usize::try_from(stack).unwrap_or(usize::MAX)),
            weight: Weight { samples, ..Weight::ZERO },
        }));
    }
    cells
}

/// The profile, its samples weighed by a time, and what time that is.
fn by_time(profile: Profile) -> Result<(Profile, TimeOf)> {
    let time = match &profile.quantity {
        Quantity::Processor if profile.by_wall_clock() => TimeOf::Wall,
        Quantity::Processor => TimeOf::Cpu,
        Quantity::Foreign { name, unit: Unit::Time } => TimeOf::Named(pct_text::visible(name).into()),
        Quantity::Foreign { .. } => {
            let (profile, each) = as_samples(profile)?;
            return Ok((profile, TimeOf::Samples(format!("{each} a sample").into())));
        }
    };
    Ok((profile, time))
}

/// A profile as plain data. Its samples move to the page's threads: there may be many, and both need them.
fn plain((path, files): (&Path, &[PathBuf]), (mut profile, time): (Profile, TimeOf)) -> Recording {
    let start = i64::try_from(profile.start_realtime_ns).unwrap_or(i64::MAX);
    let at = |time_ns: u64| start.saturating_add(i64::try_from(time_ns).unwrap_or(i64::MAX));
    let mut samples: Vec<Samples> = vec![Samples::default(); profile.threads.len()];
    let number = |stack: StackId| u32::try_from(stack.index()).unwrap_or(u32::MAX);
    for sample in std::mem::take(&mut profile.timeline) {
        let (time_ns, stack) = (at(sample.time_ns), number(sample.stack));
        samples[sample.thread.index()].push(Sample { time_ns, weight_ns: sample.weight_ns, stack });
    }
    let mut by_thread = std::mem::take(&mut profile.by_thread);
    // Each list goes when it has been read: there is never a second copy of all.
    for (thread, list) in std::mem::take(&mut by_thread.lists) {
        for sample in list.iter() {
            let time_ns = at(sample.realtime_ns.saturating_sub(profile.start_realtime_ns));
            let stack = number(by_thread.stack(sample));
            samples[thread.index()].push(Sample { time_ns, weight_ns: sample.weight_ns, stack });
        }
    }
    let ran = cells_of_threads(&samples);
    // What runtimes do for themselves gets its stacks now: windows are counted later, when nothing changes any more.
    add_own_work(&mut profile, &ran);
    let begins = |function: Option<FunctionId>| {
        function.map(|function| profile.functions[function].name.clone()).unwrap_or_default()
    };
    let beginnings: Vec<String> = beginnings(&profile, &ran).into_iter().map(begins).collect();
    profile.cells = one_for_each_stack(std::mem::take(&mut profile.cells));
    let samples: Vec<Samples> = samples.into_iter().map(Samples::ordered).collect();
    let recorded = std::mem::take(&mut profile.waits);
    let (waits, waits_of_threads) = waited::waits(&profile, &recorded, &samples, at);
    let said = if recorded.is_empty() { Vec::new() } else { closing(&recorded) };
    drop(recorded);
    let of_threads = profile.threads.iter().zip(samples).zip(beginnings).zip(waits_of_threads);
    let threads = of_threads.map(|(((thread, samples), begins), waits)| {
        let process = &profile.processes[thread.process];
        Thread {
            pid: process.pid,
            tid: thread.tid,
            process: process.name.clone(),
            name: thread.name.clone(),
            begins,
            samples: Arc::new(samples),
            waits: waits.into(),
        }
    });
    let threads: Vec<Thread> = threads.collect();
    let mut groups: FxHashMap<&str, Arc<str>> = FxHashMap::default();
    let functions = profile.functions.enumerate().map(|(id, function)| {
        let group = profile.group(id);
        Function {
            name: function.name.clone(),
            object: profile.objects[function.object].name().to_owned(),
            group: groups.entry(group).or_insert_with(|| group.into()).clone(),
        }
    });
    let functions = functions.collect();
    let groups = flame::groups(&profile);
    let leaf = |stack| u32::try_from(profile.leaf(stack).index()).unwrap_or(u32::MAX);
    let stacks = profile.stacks.ids().map(leaf).collect();
    let account = &profile.account;
    let lost = account.losses.iter().map(|loss| format!("{} samples lost: {}", loss.samples, loss.cause));
    Recording {
        name: path.display().to_string(),
        start_ns: start,
        time,
        functions,
        stacks,
        groups,
        waits,
        marks: profile.marks.iter().map(|mark| (at(mark.time_ns), mark.name.clone())).collect(),
        notes: lost.chain(account.notes.iter().cloned()).chain(said).take(MOST_NOTES).collect(),
        windows: Arc::new(Counted::new(
            profile,
            threads.iter().map(|t| t.samples.clone()).collect(),
            (path, files),
        )),
        threads,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_with_one_stack_are_one_cell_and_nothing_is_lost() {
        use pct_profile::model::{StackId, ThreadId, Weight};
        let cell = |thread: usize, stack: usize, samples: u64| Cell {
            thread: ThreadId::from_index(thread),
            stack: StackId::from_index(stack),
            weight: Weight { samples, ..Weight::ZERO },
        };
        let cells = vec![cell(0, 1, 5), cell(0, 2, 1), cell(1, 1, 7), cell(2, 1, 11)];
        assert_eq!(one_for_each_stack(cells), [cell(0, 1, 23), cell(0, 2, 1)]);
        assert_eq!(one_for_each_stack(Vec::new()), []);
    }

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
