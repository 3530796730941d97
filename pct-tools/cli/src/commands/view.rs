//! `pct view`: recordings and deep profiles in the browser, or one of their pages on the terminal.

use crate::commands::sources::{self, head, is_of_perf, is_own};
use crate::commands::timeline::{self, ClockShift};
use crate::contexts::{self, Fold};
use crate::face::Face;
use crate::look::{self, Look};
use crate::store::{self, Choice};
use anyhow::{Context as _, Result};
use pct_deep::native::Allocated;
use pct_deep::{Compensation, Contexts, Reading};
use pct_native::reading::MAGIC;
use pct_profile::Profile;
use pct_profile::load::{self, run::Info};
use pct_reports::page::{self, Request};
use pct_reports::query::{Cmd, DiffScale, DiffWhat, Incl, Part};
use pct_reports::render::text::TextOptions;
use pct_reports::sources::{Folders, Sources};
use pct_reports::subject::{ShelfEntry, Subject};
use pct_server::library::{Book, Library, LoadPart};
use pct_server::view::Served;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

/// What can be typed after `pct view`.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  pct view                                               the newest recording here, in a browser
  pct view pct-render-4711                               that recording
  pct view pct-render-4711 pct-render-4802               a list of the two, and what changed
  pct view --timeline pct-render-4711                    threads over time: zoom, select a range
  pct view --timeline pct-server-123 ~/lttng-traces/s    samples and a kernel trace on one time axis
  pct view --memory live pct-render-4711                 CPU time beside the memory that is live
  pct view --base pct-render-4711 pct-render-4802        what changed from the first to the second
  pct view Deep.data                                     a deep profile (pct deep, Mercury programs)
  pct view --text root/90 Deep.data                      from where the time divides among callees
  pct view --text top_procs/1-20/time/self/oa            the 20 procedures with most own time
  pct view --json proc/42 Deep.data                      the data of a page

A QUERY is the last part of a page's address in the browser. Each row of a text page ends with the
query of the page that it leads to.")]
pub struct Args {
    /// Recordings (a run's folder, a .pct file, folded stacks, pprof, perf script text), deep profiles (X.procrep,
    /// X.contour and X.native beside X.data are read too), or a folder of runs. The newest run here if none.
    #[arg(value_name = "DIR|FILE")]
    pub files: Vec<PathBuf>,
    /// Show what changed since this recording.
    #[arg(long, value_name = "DIR|FILE")]
    pub base: Option<PathBuf>,
    /// Show recordings and traces (CTF: LTTng, barectf) over time.
    #[arg(long, conflicts_with_all = ["base", "text", "json"])]
    pub timeline: bool,
    /// Time to add to the events of traces shown beside recordings: for all traces, or for those with this
    /// name (folder, path or host).
    #[arg(long, value_name = "[NAME=]TIME", requires = "timeline", allow_hyphen_values = true)]
    pub clock_shift: Vec<ClockShift>,
    /// Print a page as text.
    #[arg(long, value_name = "QUERY", conflicts_with = "json")]
    pub text: Option<String>,
    /// Print a page's data as JSON.
    #[arg(long, value_name = "QUERY")]
    pub json: Option<String>,
    /// Port of 127.0.0.1 to serve on; 0 takes a free one.
    #[arg(long, default_value_t = 0, value_name = "N")]
    pub port: u16,
    /// Do not start a browser.
    #[arg(long)]
    pub no_open: bool,
    /// Compensate recursion through closures as the original Mercury tool does (inexact).
    #[arg(long)]
    pub compat_compensation: bool,
    /// In a deep profile: join the contexts that a procedure has within one clique.
    #[arg(short, long)]
    pub canonical_clique: bool,
    /// What the columns of memory show, if allocations of a recording were sampled.
    #[arg(long, value_enum, default_value_t, value_name = "WHAT")]
    pub memory: ShownMemory,
    /// How contexts are made of a recording's stacks.
    #[command(flatten)]
    pub fold: Fold,
    /// Which recordings.
    #[command(flatten)]
    pub choice: Choice,
    /// Which samples of a recording.
    #[command(flatten)]
    pub look: Look,
}

/// What columns of memory show.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum ShownMemory {
    /// What was allocated since the start.
    #[default]
    Allocated,
    /// What is live at the end.
    Live,
    /// What was live when most was.
    Peak,
}

impl From<ShownMemory> for Allocated {
    fn from(shown: ShownMemory) -> Allocated {
        match shown {
            ShownMemory::Allocated => Allocated::All,
            ShownMemory::Live => Allocated::Live,
            ShownMemory::Peak => Allocated::Peak,
        }
    }
}

/// How profiles are read.
#[derive(Clone)]
struct How {
    memory: ShownMemory,
    reading: Reading,
    fold: Fold,
    choice: Choice,
    look: Look,
}

/// Shows it.
///
/// # Errors
/// A file cannot be read, the query is invalid, the page cannot be made, the port is taken.
pub fn run(args: &Args, face: &Face) -> Result<ExitCode> {
    if args.timeline && args.choice.is_made() {
        let why = "--timeline shows one recording: name it in place of --last, --service and --release";
        return Err(crate::errors::Usage(why.to_owned()).into());
    }
    if args.timeline {
        return serve(
            args,
            timeline::served(&args.files, &args.look, &args.clock_shift, args.port, face)?,
            face,
        );
    }
    let rule = if args.compat_compensation { Compensation::Compat } else { Compensation::Exact };
    let contexts = if args.canonical_clique { Contexts::Canonical } else { Contexts::Recorded };
    let how = How {
        memory: args.memory,
        reading: Reading { rule, contexts },
        fold: args.fold.clone(),
        choice: args.choice.clone(),
        look: args.look.clone(),
    };
    let ViewInput { mut paths, list } =
        match store::folder().filter(|_| args.files.is_empty() && args.choice.is_made()) {
            Some(folder) => ViewInput { paths: vec![folder], list: false },
            None => find(&args.files)?,
        };
    if let Some(base) = &args.base
        && !paths.contains(base)
    {
        paths.push(base.clone());
    }
    let here = paths[0].clone();
    let books = paths.iter().map(|path| book(path, &how)).collect();
    let library = Library::new(books);
    let name = name_of(&here);
    let first = match &args.base {
        Some(base) => Cmd::Diff {
            base: name_of(base),
            what: DiffWhat::Owners,
            incl: Incl::Own,
            scale: DiffScale::Absolute,
        },
        None if list => Cmd::Recordings,
        None => Cmd::Menu,
    };
    // The first one is read here: what is wrong with it is said on the terminal, and progress is shown.
    match subject(&here, &how, &mut |paths, options| look::load_any_quantity(paths, options, face)) {
        Ok(subject) => library.hand_over(&name, subject),
        Err(e) if !list => return Err(e),
        Err(e) => face.warn(crate::errors::chain(&e)),
    }
    let query = args.text.as_ref().or(args.json.as_ref());
    let Some(query) = query else {
        return serve(args, Served::new(library, &first, &name, args.port)?, face);
    };
    let request = Request::parse(query).map_err(anyhow::Error::msg)?;
    let subject = library.subject(&name).map_err(|e| anyhow::Error::msg(e.0))?;
    let page = if args.text.is_some() {
        let options = TextOptions { width: face.out.width, commands: true, quiet: face.quiet };
        page::text(&subject, &request, &options)
    } else {
        page::json(&subject, &request)
    };
    face.print(&page.body)?;
    Ok(if page.failure.is_some() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// What is to be shown.
struct ViewInput {
    /// The first one is opened.
    paths: Vec<PathBuf>,
    /// The list is shown first.
    list: bool,
}

/// The recordings that were typed. None: the runs here, the newest one open. A folder of runs stands for its runs.
fn find(typed: &[PathBuf]) -> Result<ViewInput> {
    if typed.is_empty() {
        let here = std::env::current_dir().context("the current folder is gone")?;
        let runs = load::runs(&here)?;
        let paths: Vec<PathBuf> =
            runs.into_iter().map(|p| p.file_name().map(PathBuf::from).unwrap_or(p)).collect();
        if paths.is_empty() {
            return Err(load::Error::NoRun.into());
        }
        return Ok(ViewInput { paths, list: false });
    }
    let mut paths: Vec<PathBuf> = Vec::new();
    for path in typed {
        let inside =
            if path.is_dir() && load::files_of(path).is_err() { load::runs(path)? } else { Vec::new() };
        if inside.is_empty() {
            paths.push(path.clone());
        } else {
            paths.extend(inside);
        }
    }
    let mut seen = std::collections::HashSet::new();
    paths.retain(|p| seen.insert(p.clone()));
    let list = paths.len() > 1;
    Ok(ViewInput { paths, list })
}

/// The name of a recording in queries.
fn name_of(path: &Path) -> String {
    let name = path.to_string_lossy();
    match name.trim_end_matches('/') {
        "" => "/".to_owned(),
        name => name.to_owned(),
    }
}

fn book(path: &Path, how: &How) -> Book {
    let (path, how) = (path.to_owned(), how.clone());
    let entry = entry(&path);
    // What can be read but once has no parts either.
    let can_be_cut = !is_deep(&path) && !load::whole::is_stream(&path);
    let beside = if is_deep(&path) { None } else { timeline::beside(&path, &how.look, &how.choice) };
    let read = move |path: &Path, how: &How| {
        let mut quietly =
            |paths: &[PathBuf], options: &load::Options| look::load_any_quantity_quietly(paths, options);
        subject(path, how, &mut quietly).map_err(|e| crate::errors::chain(&e))
    };
    let (of_part, of_whole) = ((path.clone(), how.clone()), (path, how));
    let load_part = move |part: &Part| {
        let (path, how) = &of_part;
        let look = how.look.limited_to(part).map_err(|e| crate::errors::chain(&e))?;
        read(path, &How { look, ..how.clone() })
    };
    let load_part = can_be_cut.then(|| Box::new(load_part) as LoadPart);
    Book { entry, load: Box::new(move || read(&of_whole.0, &of_whole.1)), load_part, beside }
}

/// What is known of a recording without reading it.
fn entry(path: &Path) -> ShelfEntry {
    let mut out = ShelfEntry { name: name_of(path), ..ShelfEntry::default() };
    let begun = |t: SystemTime| t.duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs());
    let modified = std::fs::metadata(path).and_then(|m| m.modified()).map_or(0, begun);
    if is_deep(path) {
        "deep profile".clone_into(&mut out.kind);
    } else {
        let own = is_own(path);
        if own { "recording" } else { "imported" }.clone_into(&mut out.kind);
        out.running = own && load::is_running(path);
        if let Some(info) = path.is_dir().then(|| Info::read(path)).flatten() {
            out.title = info.command.join(" ");
            out.cpu_seconds = Some(info.user_ns.saturating_add(info.system_ns) as f64 / 1e9);
            out.when = utc(info.started_realtime_ns / 1_000_000_000);
        }
    }
    if out.when.is_empty() && modified > 0 {
        out.when = utc(modified);
    }
    out
}

/// Seconds since 1970 as a date and time of Greenwich.
fn utc(seconds: u64) -> String {
    // Days to a date of the Gregorian calendar: eras of 400 years from March of the year 0.
    let days = (seconds / 86_400).cast_signed() + 719_468;
    let (era, day) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day_of_year = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day_of_year + 2) / 153;
    let date = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year + era * 400 + i64::from(month <= 2);
    let of_day = seconds % 86_400;
    format!("{year:04}-{month:02}-{date:02} {:02}:{:02} UTC", of_day / 3600, of_day / 60 % 60)
}

/// A deep profile begins with these octets, whatever its name. A file `X.data` without them is opened as a
/// deep profile too, so that the reader says what is wrong with it, unless it is a perf.data file.
pub(super) fn is_deep(path: &Path) -> bool {
    let head = head(path);
    head == MAGIC || path.extension().is_some_and(|e| e == "data") && !is_of_perf(&head)
}

type Read<'a> = &'a mut dyn FnMut(&[PathBuf], &load::Options) -> Result<Profile>;

/// Reads a deep profile, or makes one of a recording.
fn subject(path: &Path, how: &How, read: Read<'_>) -> Result<Subject> {
    if is_deep(path) {
        let mut subject = Subject::open(path, how.reading)?;
        subject.sources = Sources::Below(Folders { beside: sources::beside(path), ..Folders::default() });
        Ok(subject)
    } else {
        let typed = vec![path.to_owned()];
        let paths = if how.choice.is_made() { how.choice.paths(&typed)? } else { typed };
        let mut profile = read(&paths, &how.choice.narrow(contexts::options(&how.look)))?;
        let shown = sources::of_recording(path, &profile);
        let made = contexts::made(&mut profile, &how.look, &how.fold)
            .with_context(|| format!("{}: nothing to view", path.display()))?;
        drop(profile);
        let made = made.with_memory(how.memory.into());
        let recorded = made.recorded.clone();
        let mut subject = Subject::of_recording(made.profile(Compensation::Exact)?, recorded, path);
        subject.sources = shown;
        subject.part = how.look.part();
        Ok(subject)
    }
}

fn serve(args: &Args, mut served: Served, face: &Face) -> Result<ExitCode> {
    let url = served.url();
    face.print(&format!("{url}\n"))?;
    if !face.quiet {
        face.hint("open the address in a browser; it is secret and ends with Ctrl-C or `quit` on a page");
    }
    if !args.no_open
        && face.out.width.is_some()
        && let Err(e) = served.open_browser()
    {
        face.warn(format_args!("no browser is started: {e}"));
    }
    served.run()?;
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        assert_eq!(utc(0), "1970-01-01 00:00 UTC");
        assert_eq!(utc(951_782_400), "2000-02-29 00:00 UTC");
        assert_eq!(utc(1_795_389_119), "2026-11-22 23:11 UTC");
        assert_eq!(utc(4_107_542_399), "2100-02-28 23:59 UTC");
        assert_eq!(utc(4_107_542_400), "2100-03-01 00:00 UTC");
    }

    #[test]
    fn perfs_files_are_no_deep_profiles_though_they_end_in_data() {
        let dir = tempfile::tempdir().unwrap();
        let file = |name: &str, octets: &[u8]| {
            let path = dir.path().join(name);
            std::fs::write(&path, octets).unwrap();
            path
        };
        assert!(!is_deep(&file("perf.data", b"PERFILE2\x68\0\0\0\0\0\0\0")));
        assert!(is_deep(&file("Deep.data", b"Mercury deep profiler data version 8")));
        assert!(is_deep(&file("saved", b"Mercury deep profiler data version 8")));
        assert!(is_deep(&file("damaged.data", b"Merc")));
        assert!(!is_deep(&file("x.folded", b"a;b 1")));
    }

    #[test]
    fn names_have_no_slash_at_the_end() {
        assert_eq!(name_of(Path::new("pct-x-1/")), "pct-x-1");
        assert_eq!(name_of(Path::new("/")), "/");
    }
}
