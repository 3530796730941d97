//! Many small files become few: merged, written beside the root's tables, and put in their place in one step.
//!
//! A folder of a table (an hour of samples, a day of stacks) is replaced as a whole: its successor is made in
//! `ROOT/.pct-work`, where no engine looks, and the two change places (`RENAME_EXCHANGE`). So no listing has
//! a row twice, or none of them. A query that listed the files before finds them gone and must be repeated.
//!
//! Shippers go on meanwhile. A file that arrived after the folder was listed is moved into the successor; one
//! that was being written fails to be renamed, and its shipper tries again. `.pct-work/NAME.merged` names the
//! files whose rows are in the successor. It is written first, so that a compaction that was killed can be
//! cleared up by the next one: before the exchange the work is thrown away, after it what was not merged is
//! moved.

use crate::columns::{self, Table as _, Writer};
use crate::merge::samples::{How, Samples};
use crate::merge::{Failure, InMemory, Merger};
use crate::root::{self, Growing, interval_s, parts_of};
use crate::tables::{Build, Host, Location, Sample, Stack};
use anyhow::{Context as _, Result, bail};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use std::collections::BTreeSet;
use std::fs::TryLockError;
use std::path::{Path, PathBuf};

/// Folder of what is being made.
const WORK: &str = ".pct-work";
/// Folder in it of files from a debuginfod server.
pub(crate) const DOWNLOADS: &str = "debuginfod";
/// In a folder that has not taken its place yet.
const UNFINISHED: &str = ".unfinished";

/// Called before each change, as [`crate::ship::Steps`].
pub type Steps<'a> = &'a mut dyn FnMut(&str);

/// What was done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Folders that were replaced.
    pub folders: u64,
    /// Files before and after, in these.
    pub files: (u64, u64),
    /// Rows of samples that were taken out.
    pub removed: u64,
    /// Files that were left as they are or left out, and why.
    pub problems: Vec<String>,
}

/// Merges the files of all folders that begin before `before` (microseconds since 1970) and have several.
///
/// # Errors
/// When the root cannot be written, or somebody else compacts it.
pub fn compact(root: &Path, before: i64, step: Steps<'_>) -> Result<Outcome> {
    let mut work = Work::open(root)?;
    let interval = interval_s(root) * 1_000_000;
    let how = || How { interval, ..How::default() };
    for folder in hours(root, &mut work.outcome.problems) {
        if begin(&folder).is_some_and(|begin| begin + 3_600_000_000 <= before) {
            work.replace(&folder, Samples::new(how()), Why::FewerFiles, step)?;
        }
    }
    for table in [Stack::NAME, Host::NAME] {
        for folder in dates(&root.join(table), &mut work.outcome.problems) {
            if begin(&folder).is_none_or(|begin| begin + 86_400_000_000 > before) {
                continue;
            }
            if table == Stack::NAME {
                work.replace(&folder, InMemory::<Stack>::new(&|_| true), Why::FewerFiles, step)?;
            } else {
                work.replace(&folder, InMemory::<Host>::new(&|_| true), Why::FewerFiles, step)?;
            }
        }
    }
    let locations = InMemory::<Location>::new(&|_| true);
    work.replace(&root.join(Location::NAME), locations, Why::FewerFiles, step)?;
    let builds = InMemory::<Build>::new(&|_| true);
    work.replace(&root.join(Build::NAME), builds, Why::FewerFiles, step)?;
    Ok(work.outcome)
}

/// Rewrites all samples and hosts without the rows that `is_forgotten` says yes to: to a service and a host.
///
/// # Errors
/// As [`compact`].
pub fn forget(root: &Path, is_forgotten: &dyn Fn(&str, &str) -> bool, step: Steps<'_>) -> Result<Outcome> {
    let mut work = Work::open(root)?;
    let interval = interval_s(root) * 1_000_000;
    let how = || How { interval, ..How::default() };
    let keep = |service: &str, host: &str| !is_forgotten(service, host);
    for folder in hours(root, &mut work.outcome.problems) {
        let samples = Samples::new(How { keep: &keep, ..how() });
        work.replace(&folder, samples, Why::FewerRows, step)?;
    }
    for folder in dates(&root.join(Host::NAME), &mut work.outcome.problems) {
        let keep = |row: &Host| !is_forgotten(&row.service, &row.host);
        work.replace(&folder, InMemory::new(&keep), Why::FewerRows, step)?;
    }
    Ok(work.outcome)
}

/// The folders of hours, in order.
pub(crate) fn hours(root: &Path, problems: &mut Vec<String>) -> Vec<PathBuf> {
    let dates = dates(&root.join(Sample::NAME), problems);
    dates.iter().flat_map(|date| subfolders(date, "hour=", problems)).collect()
}

/// The folders of dates of a table, in order.
pub(crate) fn dates(table: &Path, problems: &mut Vec<String>) -> Vec<PathBuf> {
    subfolders(table, "date=", problems)
}

fn subfolders(folder: &Path, key: &str, problems: &mut Vec<String>) -> Vec<PathBuf> {
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        // A table without any row has no folder.
        Err(why) if why.kind() == std::io::ErrorKind::NotFound => return Vec::new(),
        Err(why) => {
            problems.push(format!("{}: {why}", folder.display()));
            return Vec::new();
        }
    };
    let is_one = |path: &PathBuf| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(key)) && path.is_dir()
    };
    let mut found: Vec<_> = entries.flatten().map(|entry| entry.path()).filter(is_one).collect();
    found.sort();
    found
}

/// When a partition begins, in microseconds since 1970.
pub(crate) fn begin(folder: &Path) -> Option<i64> {
    let value = |path: &Path, key: &str| Some(path.file_name()?.to_str()?.strip_prefix(key)?.to_owned());
    let (date, hour) = match value(folder, "hour=") {
        Some(hour) => (value(folder.parent()?, "date=")?, hour),
        None => (value(folder, "date=")?, "0".to_owned()),
    };
    Some(format!("{date}T{hour:0>2}:00:00Z").parse::<jiff::Timestamp>().ok()?.as_microsecond())
}

/// What a folder is replaced for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Why {
    /// If it has several.
    FewerFiles,
    /// If some are left out.
    FewerRows,
}

/// A root that is being changed, by nobody else.
pub(crate) struct Work<'a> {
    root: &'a Path,
    folder: PathBuf,
    pub(crate) outcome: Outcome,
    _lock: std::fs::File,
}

impl<'a> Work<'a> {
    /// Takes the lock, and clears up behind a compaction that was killed.
    pub(crate) fn open(root: &'a Path) -> Result<Self> {
        if !root.is_dir() {
            bail!("{}: it is not there", root.display());
        }
        let folder = root.join(WORK);
        root::make_folder(&folder)?;
        let path = folder.join("lock");
        let lock = std::fs::OpenOptions::new().create(true).truncate(false).write(true).open(&path);
        let lock = lock.with_context(|| path.display().to_string())?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => bail!("{}: somebody else changes this root", path.display()),
            Err(TryLockError::Error(why)) => return Err(why).with_context(|| path.display().to_string()),
        }
        let mut work = Self { root, folder, outcome: Outcome::default(), _lock: lock };
        work.clear_up()?;
        Ok(work)
    }

    pub(crate) fn root(&self) -> &'a Path {
        self.root
    }

    /// The folder of what is being made.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    fn clear_up(&mut self) -> Result<()> {
        root::remove_folder(&self.folder.join(DOWNLOADS))?;
        for entry in std::fs::read_dir(&self.folder).with_context(|| self.folder.display().to_string())? {
            let list = entry?.path();
            // A list that was being written: nothing was begun by it.
            if list.file_name().is_some_and(|name| name.to_string_lossy().starts_with(".part-")) {
                std::fs::remove_file(&list).with_context(|| list.display().to_string())?;
                continue;
            }
            if list.extension().is_none_or(|extension| extension != "merged") {
                continue;
            }
            let text = std::fs::read_to_string(&list).with_context(|| list.display().to_string())?;
            let mut lines = text.lines();
            let place = self.root.join(lines.next().unwrap_or_default());
            let merged: BTreeSet<String> = lines.map(str::to_owned).collect();
            let aside = list.with_extension("");
            if !aside.join(UNFINISHED).exists() && aside.exists() {
                self.finish(&aside, &place, &merged)?;
            }
            root::remove_folder(&aside)?;
            // A successor that took its place and was not told so yet.
            let _ = std::fs::remove_file(place.join(UNFINISHED));
            std::fs::remove_file(&list).with_context(|| list.display().to_string())?;
        }
        Ok(())
    }

    /// Moves what arrived meanwhile into the folder's successor.
    fn finish(&self, old: &Path, place: &Path, merged: &BTreeSet<String>) -> Result<()> {
        let mut problems = Vec::new();
        for path in parts_of(old, &mut problems) {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if !merged.contains(&name) {
                std::fs::rename(&path, place.join(&name)).with_context(|| path.display().to_string())?;
            }
        }
        if let Some(problem) = problems.pop() {
            bail!(problem);
        }
        root::sync_folder(place).with_context(|| place.display().to_string())
    }

    /// Replaces a folder by one with all its rows, or those that are kept, in one file.
    fn replace<M: Merger>(&mut self, place: &Path, mut merger: M, why: Why, step: Steps<'_>) -> Result<()> {
        if !place.is_dir() {
            return Ok(());
        }
        let files = parts_of(place, &mut self.outcome.problems);
        if why == Why::FewerFiles && files.len() < 2 {
            return Ok(());
        }
        let taken = self.take_files(&files, &mut merger);
        if why == Why::FewerRows && merger.removed() == 0 || taken.names.is_empty() {
            return Ok(());
        }
        let footer = Footer { segments: taken.segments, interval_s: interval_s(self.root), sources: None };
        self.put_in_place(place, merger, &taken.names, &footer, step)
    }

    /// Gives the merger all files that can be read and whose recordings no other file before has.
    pub(crate) fn take_files<M: Merger>(&mut self, files: &[PathBuf], merger: &mut M) -> Taken {
        let mut taken = Taken::default();
        for file in files {
            let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let segments = match self.claims(file, &taken.segments) {
                Claims::New(segments) => segments,
                Claims::AllKnown => {
                    self.outcome
                        .problems
                        .push(format!("{}: its recordings are in another file: left out", file.display()));
                    taken.names.insert(name);
                    continue;
                }
                Claims::SomeKnown => {
                    self.outcome.problems.push(format!(
                        "{}: some of its recordings are in another file: left as it is",
                        file.display()
                    ));
                    continue;
                }
                Claims::Unreadable(why) => {
                    self.outcome.problems.push(format!("{why}: left as it is"));
                    continue;
                }
            };
            if let Err(why) = merger.add(file) {
                self.outcome.problems.push(format!("{why}: left as it is"));
                continue;
            }
            taken.segments.extend(segments);
            taken.names.insert(name);
        }
        taken
    }

    /// Puts a folder with what the merger has in the place of one, of which the files `merged` are left out.
    pub(crate) fn put_in_place<M: Merger>(
        &mut self,
        place: &Path,
        merger: M,
        merged: &BTreeSet<String>,
        footer: &Footer,
        step: Steps<'_>,
    ) -> Result<()> {
        let before = parts_of(place, &mut self.outcome.problems).len() as u64;
        let removed = merger.removed();
        let name = place.strip_prefix(self.root).unwrap_or(place).to_string_lossy().into_owned();
        let aside = self.folder.join(name.replace('/', "~"));
        let list = self.folder.join(format!("{}.merged", name.replace('/', "~")));
        root::remove_folder(&aside)?;
        let lines: String = std::iter::once(&name).chain(merged).map(|line| format!("{line}\n")).collect();
        root::replace_file(&list, lines.as_bytes(), step)?;
        root::replace_file(&aside.join(UNFINISHED), &[], step)?;
        if merger.kept() > 0 {
            let segments: Vec<String> = footer.segments.iter().cloned().collect();
            let to = Growing::begin(&aside)?;
            let writer = Writer::with_keys(to, &segments, footer.interval_s, footer.sources.as_deref());
            let mut writer = writer.with_context(|| name.clone())?;
            match merger.write(&mut writer) {
                Ok(()) => {}
                Err(Failure::Output(why)) => return Err(why).with_context(|| name.clone()),
                Err(why) => {
                    drop(writer);
                    self.outcome.problems.push(format!("{name}: {why}: left as it is"));
                    root::remove_folder(&aside)?;
                    return std::fs::remove_file(&list).with_context(|| list.display().to_string());
                }
            }
            let file = writer.finish().with_context(|| name.clone())?;
            file.finish(|hash| format!("part-merged-{hash}.parquet"), step)?;
        }
        step("before the exchange");
        renameat_with(CWD, &aside, CWD, place, RenameFlags::EXCHANGE).with_context(|| name.clone())?;
        step("after the exchange");
        std::fs::remove_file(place.join(UNFINISHED)).with_context(|| name.clone())?;
        step("a folder in its place");
        self.finish(&aside, place, merged)?;
        step("moved what arrived meanwhile");
        root::remove_folder(&aside)?;
        std::fs::remove_file(&list).with_context(|| list.display().to_string())?;
        let after = parts_of(place, &mut Vec::new()).len() as u64;
        self.outcome.folders += 1;
        self.outcome.files.0 += before;
        self.outcome.files.1 += after;
        if M::Row::NAME == Sample::NAME {
            self.outcome.removed += removed;
        }
        Ok(())
    }

    fn claims(&self, file: &Path, claimed: &BTreeSet<String>) -> Claims {
        let segments = match columns::segments_of(file) {
            Ok(segments) => segments,
            Err(why) => return Claims::Unreadable(format!("{}: {why}", file.display())),
        };
        let known = segments.iter().filter(|segment| claimed.contains(*segment)).count();
        match known {
            0 => Claims::New(segments),
            known if known == segments.len() => Claims::AllKnown,
            _ => Claims::SomeKnown,
        }
    }
}

/// What a merger was given.
#[derive(Default)]
pub(crate) struct Taken {
    /// Names of the files, and of those whose recordings are in others.
    pub(crate) names: BTreeSet<String>,
    /// The recordings that they are of.
    pub(crate) segments: BTreeSet<String>,
}

/// What the footer of a merged file says.
pub(crate) struct Footer {
    /// The recordings that its rows are of.
    pub(crate) segments: BTreeSet<String>,
    /// Seconds that a row sums up.
    pub(crate) interval_s: i64,
    /// A hash of the files that it was made of, where these stay.
    pub(crate) sources: Option<String>,
}

/// Whether a file's recordings are in others that were read before.
enum Claims {
    New(Vec<String>),
    AllKnown,
    SomeKnown,
    Unreadable(String),
}
