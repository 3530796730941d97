//! Other profilers' files at the commands: which files they are, and what becomes of values that are no CPU time.

use anyhow::{Context as _, Result, bail};
use pct_formats::import::{Wanted, perf_data};
use pct_profile::load::Options;
use pct_profile::model::Weight;
use pct_profile::{Filter, Profile, Quantity, Unit};
use std::path::{Path, PathBuf};

/// Whether the times of samples are asked for: other profilers' files have one list of them for all threads.
fn wants_times(options: &Options) -> bool {
    options.timeline || options.by_thread
}

/// What is read of another profiler's file.
pub(crate) fn wanted(options: &Options) -> Wanted<'_> {
    let timeline = wants_times(options) || options.window.is_some();
    Wanted { timeline, sample_type: options.sample_type.as_deref() }
}

/// The part of a profile that lies in the window of time that was asked for.
pub(crate) fn in_window(mut profile: Profile, options: &Options) -> Result<Profile> {
    let Some((from, to)) = options.window else { return Ok(profile) };
    let Some(last) = profile.timeline.last().map(|sample| sample.time_ns) else {
        bail!("{}: no times of samples in it, so --from and --to have nothing to choose by", profile.title);
    };
    let all = profile.timeline.len();
    profile.cells = Filter { window: options.window, ..Filter::default() }.cells(&profile);
    profile.timeline.retain(|sample| (from..to).contains(&sample.time_ns));
    let outside = all - profile.timeline.len();
    profile.account.outside_window = (outside > 0).then_some((outside as u64, last));
    if !wants_times(options) {
        profile.timeline.clear();
    }
    Ok(profile)
}

/// Another recorder's file, when one is named alone.
pub(crate) fn imported(paths: &[PathBuf], options: &Options) -> Result<Option<Profile>> {
    let [path] = paths else {
        if let [first, ..] = paths
            && paths.iter().all(|path| foreign_head(path).is_some())
        {
            let name = first.display();
            bail!(
                "{name}: files of other profilers are read one at a time; pct diff and flame --base compare two"
            );
        }
        return Ok(None);
    };
    let Some(head) = foreign_head(path) else { return Ok(None) };
    if head.starts_with(pct_native::reading::MAGIC) {
        let profile = pct_native::reading::open(path).with_context(|| path.display().to_string())?;
        return in_window(profile, options).map(Some);
    }
    in_window(pct_formats::import_with(path, wanted(options))?, options).map(Some)
}

/// The first octets of a file that is no .pct file, or of perf's in a folder; `None` for all others.
fn foreign_head(path: &Path) -> Option<[u8; 64]> {
    use std::io::Read as _;
    let path = perf_data::folder::main_file(path)?;
    if !path.is_file() || path.extension().is_some_and(|extension| extension == "pct") {
        return None;
    }
    let mut head = [0u8; 64];
    let read = std::fs::File::open(path).and_then(|mut file| file.read(&mut head)).unwrap_or(0);
    (!is_pct(&head[..read])).then_some(head)
}

/// A .pct file begins with 0x89, and nothing else that is read here does.
pub(crate) fn is_pct(head: &[u8]) -> bool {
    head.first() == Some(&0x89)
}

/// Words of the note by [`as_cpu_time`].
pub(crate) const AS_TIMES: &str = "each sample is shown as ";

/// The same profile, weighed by CPU time. Numbers of samples are shares of a time; other amounts are refused.
pub(crate) fn as_cpu_time(profile: Profile) -> Result<Profile> {
    let Some(instead) = profile.quantity.instead_of_cpu_time() else { return Ok(profile) };
    if !profile.quantity.is_number_of_samples() || profile.total().samples == 0 {
        bail!(refused(&profile, &instead));
    }
    Ok(as_samples(profile)?.0)
}

/// The same profile, weighed by its samples as if each stood for the same CPU time, for views that say so beside each
/// sum; and in words what that is: the time between two samples where all were taken at one frequency, else 1 ms.
pub(crate) fn as_samples(mut profile: Profile) -> Result<(Profile, String)> {
    let instead = profile.quantity.instead_of_cpu_time().unwrap_or_default();
    let is_count = profile.quantity.is_number_of_samples()
        || matches!(profile.quantity, Quantity::Foreign { unit: Unit::Count, .. });
    if !is_count || profile.total().samples == 0 {
        bail!(refused(&profile, &instead));
    }
    let mut rates = profile.processes.iter().map(|process| process.hz);
    let first = rates.next().filter(|first| rates.all(|rate| rate == *first));
    let each = first.and_then(|hz| 1_000_000_000_u64.checked_div(hz)).filter(|ns| *ns > 0);
    let ns = each.unwrap_or(1_000_000);
    if profile.total().samples.checked_mul(ns).is_none() {
        bail!("{}: too many samples to be shown as times", profile.title);
    }
    for cell in &mut profile.cells {
        let samples = cell.weight.samples;
        cell.weight = Weight { samples, user_ns: samples * ns, system_ns: 0 };
    }
    for sample in &mut profile.timeline {
        sample.weight_ns = ns;
    }
    profile.quantity = Quantity::Processor;
    let words = milliseconds(ns);
    profile.account.note(format!("{instead}: {AS_TIMES}{words} of CPU time"));
    Ok((profile, words))
}

/// `0.25 ms`.
fn milliseconds(ns: u64) -> String {
    let text = format!("{:.3}", pct_num::float(ns) / 1e6);
    format!("{} ms", text.trim_end_matches('0').trim_end_matches('.'))
}

fn refused(profile: &Profile, instead: &str) -> String {
    // A note names the other types.
    let others = profile.account.notes.iter().find(|note| note.contains("--type"));
    let others = others.map(|note| format!("; {note}")).unwrap_or_default();
    format!(
        "{}: {instead}; pct report, view, flame, diff, annotate, deep and export (as pprof, folded, speedscope or \
         callgrind) take them as they are{others}",
        profile.title
    )
}

/// Refuses to compare profiles that measure different things.
///
/// # Errors
/// When they do.
pub(crate) fn same_quantity(before: (&Path, &Profile), after: &Profile) -> Result<()> {
    let named = |profile: &Profile| {
        let (name, unit) = profile.quantity.sample_type();
        format!("{name} ({unit})")
    };
    if before.1.quantity != after.quantity {
        let (before_type, after_type) = (named(before.1), named(after));
        bail!("{}: its values are {before_type}, those of the other are {after_type}", before.0.display());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use pct_profile::model::{Builder, Object, ObjectKind, Process};

    /// A profile of three samples of cycles, of processes that were sampled at these rates.
    fn cycles(rates: &[u64]) -> Profile {
        let mut b = Builder::new(false);
        let object = b.object(Object::new("x", ObjectKind::File));
        let stack = b.no_stack(object);
        for hz in rates {
            let process = b.process(Process { hz: *hz, ..Process::default() });
            let thread = b.thread(process, 1, "");
            b.add(thread, stack, Weight { samples: 3, user_ns: 700, system_ns: 0 });
        }
        b.profile_mut().quantity = Quantity::Foreign { name: "cycles".into(), unit: Unit::Count };
        b.finish()
    }

    #[test]
    fn samples_at_one_frequency_are_the_time_between_two() {
        for (rates, ns, words) in [
            (&[4_000, 4_000][..], 1_500_000, "0.25 ms"),
            (&[997], 3_009_027, "1.003 ms"),
            (&[0], 3_000_000, "1 ms"),
            (&[4_000, 0], 6_000_000, "1 ms"),
        ] {
            let (profile, each) = as_samples(cycles(rates)).expect("samples");
            assert_eq!((profile.total().cpu_ns(), each.as_str()), (ns, words), "{rates:?}");
        }
        assert!(as_cpu_time(cycles(&[4_000])).is_err());
    }
}
