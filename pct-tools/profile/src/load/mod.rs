//! From .pct files to a [`Profile`].
//!
//! Two passes, so that each distinct address is translated once however many files and samples have it: [`raw`]
//! reads each file into sums over a trie of *addresses* that all files share and lets go of the file's bytes; then
//! all addresses are resolved in one batch, and [`resolve`] turns the trie of addresses into one of frames.
//!
//! A file that cannot be read is a note in the account, and the others are still loaded. Only when nothing at all
//! could be read is it an error.

mod alive;
mod allocators;
mod blocked;
mod chains;
pub mod copies;
mod heap;
mod images;
mod kernel;
pub mod kernel_refusal;
pub mod live;
mod memory;
mod nameless_code;
mod objects;
mod options;
mod over_time;
pub mod pcs;
mod process;
mod raw;
pub mod recordings;
mod refused;
mod resolve;
pub mod run;
mod spoken;
pub mod status;
mod stripped;
mod tally;
mod times;
mod unsampled;
mod wait_records;
mod waits;
pub mod whole;

pub use objects::{address_in_object, object_info, start_of_process};
pub use options::{Error, Options, WantedMemory};
pub(crate) use unsampled::NOBODY;

use crate::fold;
use crate::model::{Account, Profile};
use pct_symbols::Symbolizer;
use std::io;
use std::path::{Path, PathBuf};

/// Told about the progress of long work: what, done, of.
pub type Progress<'a> = &'a mut dyn FnMut(&str, u64, u64);

/// Loads files and run folders into one profile.
///
/// # Errors
/// When none of the paths gave a profile: the first path's error. Otherwise what failed is in the account's notes.
pub fn load(paths: &[PathBuf], options: &Options) -> Result<Profile, Error> {
    load_with(paths, options, &mut |_, _, _| {})
}

/// [`load`], telling about its progress.
///
/// # Errors
/// As [`load`].
pub fn load_with(paths: &[PathBuf], options: &Options, progress: Progress<'_>) -> Result<Profile, Error> {
    load_from(paths, options, progress, &mut |path| whole::read(path))
}

/// [`load_with`] where `read` has the bytes of each file: of a stream, which can be read but once.
///
/// # Errors
/// As [`load`].
pub fn load_from(
    paths: &[PathBuf],
    options: &Options,
    progress: Progress<'_>,
    read: &mut dyn FnMut(&Path) -> io::Result<Vec<u8>>,
) -> Result<Profile, Error> {
    let cache = options.cache.as_ref().map(pct_symbols::Cache::new);
    let symbols = pct_symbols::Options { lines: options.lines, cache, ..pct_symbols::Options::default() };
    let mut account = Account::default();
    let mut symbols = with_archive(Symbolizer::new(symbols), paths, &mut account);
    let mut title = String::new();
    let mut first_error = None;
    let mut files = Vec::new();
    let mut runs = Vec::new();
    for path in paths {
        match files_of(path) {
            Ok(found) => {
                if path.is_dir() {
                    runs.push(path.clone());
                }
                files.extend(found);
            }
            Err(error) => note_or_first(&mut first_error, &mut account, error),
        }
    }
    each_once(&mut files);
    each_once(&mut runs);
    let mut raw = raw::Raw::new(options)
        .with_memory(heap::reader(options.memory))
        .with_waits(options.waits.then_some(wait_records::read))
        .with_start(options.window.and_then(|_| start_of_recording(&files)));
    let count = files.len() as u64;
    for (done, file) in files.iter().enumerate() {
        progress("reading", done as u64, count);
        match raw.read(file, read(file), &mut symbols, &mut account) {
            Ok(_) => {}
            Err(error) => note_or_first(&mut first_error, &mut account, error),
        }
    }
    if raw.is_empty()
        && let Some(error) = first_error
    {
        return Err(error);
    }
    if let Some(error) = first_error {
        note(&mut account, &error);
    }
    let (mut infos, mut images, mut not_profiled) = (Vec::new(), Vec::new(), Vec::new());
    let mut heard_of = raw.pids();
    for run in &runs {
        if let Some(info) = run::Info::read(run) {
            info.close(&mut account);
            if title.is_empty() {
                title = info.command.join(" ");
            }
            infos.push(info);
        }
        let of_run = status::unsampled_images(run);
        let (processes, used) = status::without_sample(&of_run, &raw.pids());
        images.extend(of_run);
        not_profiled.extend(status::not_profiled(run));
        heard_of.extend(status::heard_of(run));
        account.without_sample += processes;
        account.without_sample_ns = account.without_sample_ns.saturating_add(used);
        for line in status::causes(run) {
            account.note_gap(line);
        }
        for line in status::taken_over(run) {
            account.note(line);
        }
    }
    // Of a tree that pct did not start the kernel's sum is in what its processes said.
    let attached = paths.len() == 1 && runs.len() == 1 && infos.iter().all(|info| info.attached);
    let tree = if attached { times::of_attached(&raw.times, &images) } else { None };
    if let Some(tree) = tree {
        account.used = Some(times::larger(account.used.unwrap_or_default(), tree));
    }
    if options.window.is_some() || options.since_realtime_ns != 0 {
        // What the whole run used says nothing about a part of it.
        (account.used, account.used_by_files_ns) = (None, None);
    }
    if options.symbols {
        progress("symbols", 0, 1);
        symbols.resolve(raw.queries());
        kernel::find_system_calls(&raw.nodes, &mut symbols);
        for note in symbols.notes().iter().filter(|note| !nameless_code::is_about_it(note)) {
            account.note_without_names(note.to_string());
        }
    }
    progress("tree", 0, 1);
    let times = std::mem::take(&mut raw.times);
    let mut silent: Vec<u32> = raw.children().difference(&heard_of).copied().collect();
    silent.sort_unstable();
    let mut profile = resolve::profile(raw, &symbols, options);
    allocators::find(&mut profile);
    account.whole_stacks += profile.account.whole_stacks;
    account.outside_window = profile.account.outside_window;
    account.languages = std::mem::take(&mut profile.account.languages);
    profile.account = account;
    let mut profile = fold::fold(profile, options.frames);
    stripped::note(&mut profile, symbols.stripped());
    let about_code = symbols.notes().iter().filter(|note| nameless_code::is_about_it(note));
    nameless_code::note(&mut profile, about_code.map(ToString::to_string));
    if infos.is_empty()
        && profile
            .account
            .used
            .is_some_and(|(user, system)| profile.sampled().exceeds(user.saturating_add(system)))
    {
        // Last words are as old as a process's last note: one that was killed, or ended by _exit, wrote none
        // at its end.
        profile.account.used = None;
    }
    // What the kernel counted is of whole runs: of other files beside them nobody told.
    if infos.len() == paths.len() || attached {
        let (files, lines, not_profiled) = (&times, &images, &not_profiled);
        let facts = unsampled::Facts { files, lines, not_profiled, silent: &silent };
        unsampled::add(&mut profile, &facts);
    }
    profile.title = if title.is_empty() { default_title(&profile, paths) } else { title };
    Ok(profile)
}

/// When the first of these files began, in nanoseconds since 1970. `None`: no header can be read without the file.
fn start_of_recording(files: &[PathBuf]) -> Option<u64> {
    // What can be read but once is left to those who read it.
    let files = files.iter().filter(|file| !whole::is_stream(file));
    let headers = files.filter_map(|file| recordings::Recording::read(file).ok());
    headers.map(|header| header.start_ns).filter(|start| *start != 0).min()
}

/// Names come from the archive beside the profiles, if one was made: then it does not matter what became of the
/// programs since. An archive that cannot be read is a note.
fn with_archive(symbols: Symbolizer, paths: &[PathBuf], account: &mut Account) -> Symbolizer {
    let mut dirs: Vec<PathBuf> = Vec::new();
    for path in paths {
        let dir = if path.is_dir() { Some(path.as_path()) } else { path.parent() };
        let dir = dir.map(|dir| if dir.as_os_str().is_empty() { Path::new(".") } else { dir });
        dirs.extend(dir.filter(|dir| dir.join(pct_symbols::archive::FILE_NAME).exists()).map(Path::to_owned));
    }
    dirs.dedup();
    let Some(first) = dirs.first() else { return symbols };
    for other in &dirs[1..] {
        account.note(format!("{}: its archive of names is not used: one at a time", other.display()));
    }
    match pct_symbols::archive::Archive::read(first) {
        Ok(_) => {}
        Err(why) => {
            account.note(why.to_string());
            return symbols;
        }
    }
    symbols.with_archive(first).unwrap_or_default()
}

/// Stores names, lines and build-ids of everything sampled in a run's folder in an archive beside the data.
///
/// # Errors
/// [`Error`] when the folder has no readable file; [`Error::Archive`] when the archive cannot be written.
pub fn archive(dir: &Path, progress: Progress<'_>) -> Result<PathBuf, Error> {
    archive_of_root(dir, None, progress)
}

/// The same of processes whose files lie below `root`: what they call `/lib/x` is looked for there too.
///
/// # Errors
/// As [`archive`].
pub fn archive_of_root(dir: &Path, root: Option<&Path>, progress: Progress<'_>) -> Result<PathBuf, Error> {
    let mut account = Account::default();
    let mut symbols = with_archive(Symbolizer::default(), &[dir.to_owned()], &mut account);
    let mut raw = raw::Raw::new(&Options::default()).with_root(root);
    let mut first_error = None;
    let files = files_of(dir)?;
    for (done, file) in files.iter().enumerate() {
        progress("reading", done as u64, files.len() as u64);
        if let Err(error) = raw.read(file, whole::read(file), &mut symbols, &mut account) {
            note_or_first(&mut first_error, &mut account, error);
        }
    }
    match first_error {
        Some(error) if raw.is_empty() => return Err(error),
        _ => {}
    }
    progress("symbols", 0, 1);
    symbols.resolve(raw.queries());
    kernel::find_system_calls(&raw.nodes, &mut symbols);
    symbols.write_archive(dir).map_err(|why| Error::Archive { why })
}

fn note_or_first(first: &mut Option<Error>, account: &mut Account, error: Error) {
    match first {
        None => *first = Some(error),
        Some(_) => note(account, &error),
    }
}

/// Says that a file was left out. One whose making was never finished holds no sample: nothing failed to be read.
fn note(account: &mut Account, error: &Error) {
    if !matches!(error, Error::Bad { why, .. } if why.is_of_unfinished()) {
        account.unreadable += 1;
    }
    account.note(error.to_string());
}

fn default_title(profile: &Profile, paths: &[PathBuf]) -> String {
    let process = profile.processes.iter().next().map(|process| process.command.join(" "));
    process
        .filter(|command| !command.is_empty())
        .unwrap_or_else(|| paths.first().map(|path| path.display().to_string()).unwrap_or_default())
}

/// The .pct files of a path: itself, or those in the folder, in order of their names.
///
/// # Errors
/// [`Error::Unreadable`], or [`Error::Empty`] for a folder without any.
pub fn files_of(path: &Path) -> Result<Vec<PathBuf>, Error> {
    let unreadable = |why| Error::Unreadable { path: path.to_owned(), why };
    if path == Path::new(whole::STDIN) {
        return Ok(vec![path.to_owned()]);
    }
    if !std::fs::metadata(path).map_err(unreadable)?.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut files = Vec::new();
    for entry in std::fs::read_dir(path).map_err(unreadable)? {
        let file = entry.map_err(unreadable)?.path();
        // A pipe, a device or a folder of that name is no recording; a link to nowhere is one that is missing.
        let other = std::fs::metadata(&file).is_ok_and(|meta| !meta.is_file());
        if file.extension().is_some_and(|extension| extension == "pct") && !other {
            files.push(file);
        }
    }
    files.sort();
    if files.is_empty() {
        let hint = run::Info::read(path).map(|info| info.why_empty()).unwrap_or_default();
        return Err(Error::Empty { path: path.to_owned(), hint });
    }
    Ok(files)
}

/// Leaves the first of those that are the same file: named twice, it was still recorded once.
fn each_once(files: &mut Vec<PathBuf>) {
    use std::os::unix::fs::MetadataExt as _;
    let mut seen = std::collections::HashSet::new();
    files.retain(|file| std::fs::metadata(file).map_or(true, |meta| seen.insert((meta.dev(), meta.ino()))));
}

/// Whether a recording (a run's folder or a .pct file) is still being written, told without reading it. Of a
/// run of very many processes the first thousand are asked.
#[must_use]
pub fn is_running(path: &Path) -> bool {
    files_of(path).unwrap_or_default().iter().take(1000).any(|file| alive::is_running(file))
}

/// The newest `pct-NAME-PID` folder in `dir`.
///
/// # Errors
/// [`Error::NoRun`] when there is none.
pub fn newest_run(dir: &Path) -> Result<PathBuf, Error> {
    runs(dir)?.into_iter().next().ok_or(Error::NoRun)
}

/// The `pct-NAME-PID` folders in `dir`, the newest first.
///
/// # Errors
/// [`Error::Unreadable`] when it cannot be listed.
pub fn runs(dir: &Path) -> Result<Vec<PathBuf>, Error> {
    let is_run = |name: &str| {
        name.strip_prefix("pct-").and_then(|rest| rest.rsplit_once('-')).is_some_and(|(name, number)| {
            !name.is_empty() && !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
        })
    };
    let entries = std::fs::read_dir(dir).map_err(|why| Error::Unreadable { path: dir.to_owned(), why })?;
    let mut found: Vec<_> = entries
        .filter_map(Result::ok)
        .filter(|entry| entry.file_name().to_str().is_some_and(is_run))
        .filter_map(|entry| {
            let meta = entry.metadata().ok()?;
            meta.is_dir().then_some((meta.modified().ok()?, entry.path()))
        })
        .collect();
    found.sort_by(|a, b| b.cmp(a));
    Ok(found.into_iter().map(|(_, path)| path).collect())
}
