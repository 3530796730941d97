//! What all commands that read profiles share: which files, which part of them, in which form.

use crate::errors::Usage;
use crate::face::Face;
use crate::foreign::{as_cpu_time, imported, in_window, is_pct, wanted};
use anyhow::{Context as _, Result};
use pct_profile::load::{self, Options, whole};
use pct_profile::model::{Account, Cell, Weight};
use pct_profile::text::numbers::in_words;
use pct_profile::{Filter, Frames, Latency, Pattern, Profile, wait_views};
use pct_reports::query::{Part, PartFilter};
use rustc_hash::FxHashSet;
use std::path::PathBuf;
use std::process::ExitCode;

/// Which part of a profile is looked at.
#[derive(clap::Args, Clone, Debug, Default)]
#[command(next_help_heading = "Which samples")]
pub struct Look {
    /// Only samples with a matching function on the stack.
    #[arg(long, value_name = "REGEX")]
    pub focus: Option<Pattern>,
    /// No samples with a matching function on the stack.
    #[arg(long, value_name = "REGEX")]
    pub ignore: Option<Pattern>,
    /// Only samples taken in a matching object (program or library).
    #[arg(long, value_name = "REGEX")]
    pub object: Option<Pattern>,
    /// Only threads of this id or a matching name.
    #[arg(long, value_name = "TID|REGEX")]
    pub thread: Option<Pattern>,
    /// Only processes of this id or a matching name.
    #[arg(long, value_name = "PID|REGEX")]
    pub process: Option<Pattern>,
    /// Only from this time after the start, e.g. 1.5 or 200ms.
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub from: Option<u64>,
    /// Only up to this time after the start.
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub to: Option<u64>,
    /// Of another profiler's file: the sample type (pprof: wall, inuse_space) or event (perf: cycles) that is
    /// shown [default: the file's own].
    #[arg(long = "type", value_name = "NAME")]
    pub sample_type: Option<String>,
    /// Which frames of programs in Python, Java or JavaScript are shown.
    #[arg(long, value_name = "WHICH", value_enum, default_value = "mixed")]
    pub frames: ShownFrames,
}

/// Which frames of programs of interpreted languages are shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, clap::ValueEnum)]
pub enum ShownFrames {
    /// All that were recorded.
    All,
    /// Machine code alone.
    Native,
    /// Functions of these languages alone (also `java`, `javascript`).
    #[value(alias = "java", alias = "javascript", alias = "js")]
    Python,
    /// Both, without the interpreter's own frames that only pass calls on.
    #[default]
    Mixed,
}

impl From<ShownFrames> for Frames {
    fn from(typed: ShownFrames) -> Frames {
        match typed {
            ShownFrames::All => Frames::All,
            ShownFrames::Native => Frames::Native,
            ShownFrames::Python => Frames::Python,
            ShownFrames::Mixed => Frames::Mixed,
        }
    }
}

/// A number of rows, levels, lines.
///
/// # Errors
/// Says what was expected.
pub fn number(text: &str) -> Result<usize, String> {
    text.parse().map_err(|_| "expected a whole number".to_owned())
}

/// A process id.
///
/// # Errors
/// Says what was expected.
pub fn pid(text: &str) -> Result<i32, String> {
    text.parse()
        .ok()
        .filter(|pid| *pid > 0)
        .ok_or_else(|| "expected a process id, a number above 0".to_owned())
}

/// A parser of whole numbers in a range, which says what would be one.
pub fn within(range: std::ops::RangeInclusive<u32>) -> impl Fn(&str) -> Result<u32, String> + Clone {
    move |text| {
        let (least, most) = (range.start(), range.end());
        text.parse()
            .ok()
            .filter(|number| range.contains(number))
            .ok_or_else(|| format!("expected a whole number from {least} to {most}"))
    }
}

/// A share in percent, 0 to 100, with or without a percent sign, as a fraction of 1.
///
/// # Errors
/// Says what was expected.
pub fn percent(text: &str) -> Result<f64, String> {
    let number: f64 = text.trim_end_matches('%').parse().map_err(|_| "expected a number".to_owned())?;
    if (0.0..=100.0).contains(&number) { Ok(number / 100.0) } else { Err("expected 0 to 100".into()) }
}

/// A time after the start, in nanoseconds: `1.5`, `200ms`, `2m`.
///
/// # Errors
/// Says what was expected.
pub fn time(text: &str) -> Result<u64, String> {
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let scale = match unit {
        "" | "s" => 1e9,
        "ms" => 1e6,
        "us" => 1e3,
        "m" | "min" => 60e9,
        _ => return Err("expected a time such as 1.5, 200ms or 2m".into()),
    };
    let number: f64 = number.parse().map_err(|_| "expected a time such as 1.5, 200ms or 2m".to_owned())?;
    let ns = number * scale;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "looked at just before")]
    if ns.is_finite() && (0.0..=9e18).contains(&ns) { Ok(ns as u64) } else { Err("out of range".into()) }
}

/// A length of time in nanoseconds: a whole number with ms, s, m, h or d.
///
/// # Errors
/// Says what was expected.
pub fn span(text: &str) -> Result<u64, String> {
    const UNITS: [(&str, u64); 5] = [
        ("ms", 1_000_000),
        ("s", 1_000_000_000),
        ("m", 60_000_000_000),
        ("h", 3_600_000_000_000),
        ("d", 86_400_000_000_000),
    ];
    let found = UNITS.iter().find_map(|(name, ns)| Some((text.strip_suffix(name)?, ns)));
    let ns = found.and_then(|(digits, ns)| digits.parse::<u64>().ok()?.checked_mul(*ns));
    ns.filter(|ns| *ns > 0).ok_or_else(|| "expected a time such as 30m, 1h or 2d".to_owned())
}

impl Look {
    /// The window of time, if one was typed.
    #[must_use]
    pub fn window(&self) -> Option<(u64, u64)> {
        (self.from.is_some() || self.to.is_some())
            .then(|| (self.from.unwrap_or(0), self.to.unwrap_or(u64::MAX)))
    }
    /// What is looked at, as addresses of pages have it.
    #[must_use]
    pub fn part(&self) -> Part {
        let part = Part::default().in_range(self.window());
        let typed = self.filters().into_iter().filter_map(|(filter, text)| Some((filter, text.as_ref()?)));
        typed.fold(part, |part, (filter, text)| part.with(filter, text.as_str()))
    }
    /// The same limited to a part: its range and filters stand in place of those that were typed.
    ///
    /// # Errors
    /// A filter is no regular expression.
    pub fn limited_to(&self, part: &Part) -> Result<Look> {
        let mut look = self.clone();
        if let Some((from, to)) = part.range {
            (look.from, look.to) = (Some(from), Some(to));
        }
        for (filter, text) in part.filters() {
            *look.filter_mut(filter) = Some(Pattern::parse(text)?);
        }
        Ok(look)
    }
    fn filters(&self) -> [(PartFilter, &Option<Pattern>); 5] {
        [
            (PartFilter::Thread, &self.thread),
            (PartFilter::Process, &self.process),
            (PartFilter::Object, &self.object),
            (PartFilter::Function, &self.focus),
            (PartFilter::Without, &self.ignore),
        ]
    }
    fn filter_mut(&mut self, filter: PartFilter) -> &mut Option<Pattern> {
        match filter {
            PartFilter::Thread => &mut self.thread,
            PartFilter::Process => &mut self.process,
            PartFilter::Object => &mut self.object,
            PartFilter::Function => &mut self.focus,
            PartFilter::Without => &mut self.ignore,
        }
    }
    /// Whether no sample is left out.
    #[must_use]
    pub fn is_everything(&self) -> bool {
        !self.has_filters() && self.window().is_none()
    }
    /// Whether functions, objects, threads or processes are chosen.
    #[must_use]
    pub fn has_filters(&self) -> bool {
        self.filters().iter().any(|(_, filter)| filter.is_some())
    }
    /// How to load for it.
    #[must_use]
    pub fn options(&self) -> Options {
        Options {
            window: self.window(),
            frames: self.frames.into(),
            sample_type: self.sample_type.clone(),
            ..defaults()
        }
    }
    /// The cells that it leaves. The window was applied when loading.
    #[must_use]
    pub fn cells(&self, profile: &Profile) -> Vec<Cell> {
        self.filter().cells(profile)
    }
    /// Leaves the waits of the threads and stacks that were asked for.
    pub(crate) fn retain_waits(&self, profile: &mut Profile) {
        if !self.has_filters() || profile.waits.is_empty() {
            return;
        }
        let of_cpu = std::mem::replace(&mut profile.cells, wait_views::cells(&profile.waits));
        let cells = self.cells(profile);
        profile.cells = of_cpu;
        wait_views::retain(&mut profile.waits, &cells);
    }
    /// Leaves of what was spent when the threads and stacks that were asked for. The window does not limit it.
    pub(crate) fn retain_over_time(&self, profile: &mut Profile) {
        if !self.has_filters() {
            return;
        }
        let Some(mut sums) = profile.over_time.take() else { return };
        let rows: FxHashSet<_> = sums.cells.iter().map(|cell| (cell.thread, cell.stack)).collect();
        let row = |(thread, stack)| Cell { thread, stack, weight: Weight::ZERO };
        let mut kept: Vec<Cell> = rows.into_iter().map(row).collect();
        self.filter().keep(profile, &mut kept);
        let kept: FxHashSet<_> = kept.into_iter().map(|cell| (cell.thread, cell.stack)).collect();
        sums.cells.retain(|cell| kept.contains(&(cell.thread, cell.stack)));
        profile.over_time = Some(sums);
    }
    /// The filter that was typed, without the window.
    #[must_use]
    pub fn filter(&self) -> Filter {
        Filter {
            focus: self.focus.clone(),
            ignore: self.ignore.clone(),
            object: self.object.clone(),
            thread: self.thread.clone(),
            process: self.process.clone(),
            window: None,
        }
    }
}

/// Output format.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, clap::ValueEnum)]
pub enum Format {
    /// For people.
    #[default]
    Text,
    /// Comma-separated, with a header line.
    Csv,
    /// JSON.
    Json,
}

/// How the commands load: as the library does, with a memory for names.
#[must_use]
pub fn defaults() -> Options {
    Options { cache: crate::runlib::cache().map(|dir| dir.join("symbols")), ..Options::default() }
}

/// The paths that were typed, or the newest run in the current folder.
///
/// # Errors
/// When nothing was typed and there is no run here.
pub fn paths(typed: &[PathBuf]) -> Result<Vec<PathBuf>> {
    if !typed.is_empty() {
        return Ok(typed.to_vec());
    }
    let newest = load::newest_run(&std::env::current_dir().context("the current folder is gone")?)?;
    Ok(vec![newest.file_name().map(PathBuf::from).unwrap_or(newest)])
}

/// Loads profiles of CPU time, with a progress bar if it takes long. Another profiler's file whose values are counts of
/// samples is read as if each stood for 1 ms, and a note says so.
///
/// # Errors
/// When none of the paths could be read, or the values are memory, another time or of an unknown unit; [`Usage`] when
/// the window of time is invalid.
pub fn load(paths: &[PathBuf], options: &Options, face: &Face) -> Result<Profile> {
    as_cpu_time(load_any_quantity(paths, options, face)?)
}

/// Like [`load()`], but of whatever quantity: for views that show amounts in the profile's own unit.
///
/// # Errors
/// When none of the paths could be read; [`Usage`] when the window of time is invalid.
pub fn load_any_quantity(paths: &[PathBuf], options: &Options, face: &Face) -> Result<Profile> {
    let mut progress = face.progress();
    load_telling(paths, options, &mut |what, done, all| progress.step(what, done, all))
}

fn load_telling(paths: &[PathBuf], options: &Options, progress: load::Progress<'_>) -> Result<Profile> {
    if let Some((from, to)) = options.window
        && from >= to
    {
        return Err(Usage("--from must be before --to".into()).into());
    }
    // A stream can be read but once, so its bytes are looked at before it is known what they are.
    if let [path] = paths
        && whole::is_stream(path)
    {
        let bytes = whole::read(path).with_context(|| path.display().to_string())?;
        if !bytes.is_empty() && !is_pct(&bytes) {
            let profile = pct_formats::import::parse_with(&bytes, path, wanted(options))?;
            return in_window(profile, options);
        }
        let mut bytes = Some(bytes);
        let mut read = |_: &std::path::Path| Ok(bytes.take().unwrap_or_default());
        return Ok(load::load_from(paths, options, progress, &mut read)?);
    }
    if let Some(imported) = imported(paths, options)? {
        return Ok(imported);
    }
    if options.sample_type.is_some() {
        let why = "--type chooses among the sample types of one file by another profiler";
        return Err(Usage(why.into()).into());
    }
    Ok(load::load_with(paths, options, progress)?)
}

/// [`load_any_quantity`] without a progress bar.
///
/// # Errors
/// As [`load_any_quantity`].
pub fn load_any_quantity_quietly(paths: &[PathBuf], options: &Options) -> Result<Profile> {
    load_telling(paths, options, &mut |_, _, _| {})
}

/// The cells weighed by latency.
///
/// # Errors
/// When the recording has no times of samples (recorder `counts`, folded text).
pub fn latency(profile: &Profile, cells: &[Cell]) -> Result<Latency> {
    Latency::weigh(profile, cells).with_context(|| {
        format!("{}: no times of samples in it, so nothing says what ran at once", profile.title)
    })
}

/// The functions that a word means: the one of exactly this name if there is one, else all that match.
///
/// # Errors
/// When there is none.
pub fn functions_named<'a>(
    profile: &'a Profile,
    pattern: &'a Pattern,
) -> Result<impl Fn(pct_profile::model::FunctionId) -> bool + use<'a>> {
    let exact = profile.functions.iter().any(|function| function.name == pattern.as_str());
    let hit = move |id: pct_profile::model::FunctionId| {
        let name = &profile.functions[id].name;
        if exact { name == pattern.as_str() } else { pattern.matches(name) }
    };
    if !profile.functions.ids().any(&hit) {
        return Err(no_function(profile, pattern));
    }
    Ok(hit)
}

/// No function is called so: with why functions have no names, if some have none.
#[must_use]
pub fn no_function(profile: &Profile, pattern: &Pattern) -> anyhow::Error {
    let missing = profile.account.without_names.iter().map(|line| format!("; {}", in_words(line)));
    anyhow::anyhow!("no function {:?} in this profile{}", pattern.as_str(), missing.collect::<String>())
}

/// 1 when a file could not be read (the others were).
#[must_use]
pub fn status(account: &Account) -> ExitCode {
    if account.unreadable == 0 { ExitCode::SUCCESS } else { ExitCode::from(1) }
}

#[cfg(test)]
mod tests {
    use super::{Options, load_any_quantity_quietly, number, time, within};
    use crate::errors::Usage;

    #[test]
    fn numbers_that_are_none_say_what_would_be_one() {
        assert_eq!(number("12"), Ok(12));
        assert_eq!(within(1..=20_000)("20000"), Ok(20_000));
        for bad in ["0", "20001", "-5", "0.5", "1e3", "", "x"] {
            let why = within(1..=20_000)(bad).expect_err("refused");
            assert_eq!(why, "expected a whole number from 1 to 20000", "{bad}");
        }
        assert!(number("-1").is_err());
    }

    #[test]
    fn a_window_that_ends_before_it_begins_is_wrong_usage() {
        let options = Options { window: Some((2, 1)), ..Options::default() };
        let why = load_any_quantity_quietly(&["/nonexistent".into()], &options).expect_err("refused");
        assert!(why.is::<Usage>(), "{why:#}");
    }

    #[test]
    fn times_have_units() {
        assert_eq!(time("1.5"), Ok(1_500_000_000));
        assert_eq!(time("200ms"), Ok(200_000_000));
        assert_eq!(time("2m"), Ok(120_000_000_000));
        for bad in ["", "x", "1h", "-1", "1e9", "99999999999999999999"] {
            assert!(time(bad).is_err(), "{bad}");
        }
    }
}
