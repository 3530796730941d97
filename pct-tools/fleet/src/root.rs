//! Where files lie below a root, and how one comes to be: written aside, synced, renamed.
//!
//! `samples/date=2026-11-20/hour=7/part-HOST-HASH.parquet`, `stacks/date=.../`, `locations/`, `builds/`,
//! `hosts/date=.../`. The hash is of the contents, so a second export of the same recording writes the same
//! files again and counts nothing twice. Folders are 0700, files 0600: function names tell what a program
//! does.

use crate::columns;
use crate::columns::Table;
use crate::gather::Tables;
use crate::ids::hex;
use crate::tables::{Host, Sample, Stack};
use anyhow::{Context as _, Result};
use blake2::{Blake2b512, Digest as _};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

/// A file of a table: its path below the root, and what is in it.
pub type TableFile = (PathBuf, Vec<u8>);

/// Writes all tables below `root`. `segments` are the recordings that they are of ([`columns::SEGMENTS`]).
///
/// # Errors
/// When a folder or file cannot be written, or a time is outside of the calendar.
pub fn write(root: &Path, tables: &Tables, segments: &[String]) -> Result<Vec<PathBuf>> {
    let mut written = Vec::new();
    for (path, octets) in files(tables, segments)? {
        let path = root.join(path);
        replace_file(&path, &octets, &mut |_| {})?;
        written.push(path);
    }
    Ok(written)
}

/// The files that tables make. Samples come last: whoever finds them below a root finds all that they refer
/// to.
///
/// # Errors
/// When a time is outside of the calendar.
pub fn files(tables: &Tables, segments: &[String]) -> Result<Vec<TableFile>> {
    files_with(tables, segments, &Wanted { stack: &|_, _| true, host: &|_, _| true })
}

/// Which rows are written for a date (`2026-11-20`).
pub struct Wanted<'a> {
    /// Of a stack, by its id.
    pub stack: &'a dyn Fn(&str, &[u8]) -> bool,
    /// Of a host.
    pub host: &'a dyn Fn(&str, &Host) -> bool,
}

/// [`files`] with only those stacks and hosts that are wanted. A stack is written for each date that has
/// samples of it, so that a date can be deleted without the next one.
///
/// # Errors
/// As [`files`].
pub fn files_with(tables: &Tables, segments: &[String], wanted: &Wanted<'_>) -> Result<Vec<TableFile>> {
    let host = tables.samples.first().map_or("", |row| &row.host);
    let by_hour = by_hour(&tables.samples)?;
    let mut stacks_of: BTreeMap<&str, BTreeSet<&[u8]>> = BTreeMap::new();
    for ((date, _), rows) in &by_hour {
        stacks_of.entry(date).or_default().extend(rows.iter().map(|row| row.stack_id.as_slice()));
    }
    let mut files = Vec::new();
    for (date, ids) in &stacks_of {
        let here =
            |stack: &&Stack| ids.contains(stack.stack_id.as_slice()) && (wanted.stack)(date, &stack.stack_id);
        let stacks: Vec<Stack> = tables.stacks.iter().filter(here).cloned().collect();
        files.extend(part(&format!("stacks/date={date}"), host, &stacks, &[])?);
        let hosts: Vec<Host> = tables.hosts.iter().filter(|row| (wanted.host)(date, row)).cloned().collect();
        files.extend(part(&format!("hosts/date={date}"), host, &hosts, &[])?);
    }
    files.extend(part("locations", host, &tables.locations, &[])?);
    files.extend(part("builds", host, &tables.builds, &[])?);
    for ((date, hour), rows) in &by_hour {
        // Spark takes `07` for a number and DuckDB for text, so no zero stands in front.
        files.extend(part(&format!("samples/date={date}/hour={hour}"), host, rows, segments)?);
    }
    Ok(files)
}

/// Rows of samples by the date and hour of their partition.
///
/// # Errors
/// When a time is outside of the calendar.
pub fn by_hour(rows: &[Sample]) -> Result<BTreeMap<(String, i8), Vec<Sample>>> {
    let mut by_hour: BTreeMap<(String, i8), Vec<Sample>> = BTreeMap::new();
    for row in rows {
        by_hour.entry(date_and_hour(row.ts)?).or_default().push(row.clone());
    }
    Ok(by_hour)
}

/// The UTC date and hour of a time in microseconds since 1970.
///
/// # Errors
/// When it is outside of the calendar.
pub fn date_and_hour(ts: i64) -> Result<(String, i8)> {
    let time = Timestamp::from_microsecond(ts).with_context(|| format!("{ts} us since 1970"))?;
    let time = time.to_zoned(TimeZone::UTC);
    Ok((time.date().to_string(), time.hour()))
}

/// A file of a table; `None` without rows.
fn part<T: Table>(folder: &str, host: &str, rows: &[T], segments: &[String]) -> Result<Option<TableFile>> {
    if rows.is_empty() {
        return Ok(None);
    }
    let octets = columns::file(rows, segments).with_context(|| T::NAME)?;
    let name = format!("part-{}-{}.parquet", tame(host), content_hash(&octets));
    Ok(Some((Path::new(folder).join(name), octets)))
}

/// Folders of partitions: their values and paths, in order.
pub(crate) fn folders(folder: &Path, key: &str, problems: &mut Vec<String>) -> Vec<(String, PathBuf)> {
    let mut found = Vec::new();
    for path in entries(folder, problems) {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if let Some(value) = name.strip_prefix(key) {
            found.push((value.to_owned(), path.clone()));
        }
    }
    found
}

/// The files of a table in a folder.
pub(crate) fn parts_of(folder: &Path, problems: &mut Vec<String>) -> Vec<PathBuf> {
    let is_part = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with("part-") && name.ends_with(".parquet")
    };
    entries(folder, problems).into_iter().filter(is_part).collect()
}

fn entries(folder: &Path, problems: &mut Vec<String>) -> Vec<PathBuf> {
    let mut found = match std::fs::read_dir(folder) {
        Ok(entries) => entries.flatten().map(|entry| entry.path()).collect::<Vec<_>>(),
        Err(why) => {
            problems.push(format!("{}: {why}", folder.display()));
            Vec::new()
        }
    };
    found.sort();
    found
}

/// Seconds that a row of this root's samples sums up: as a file says, or [`crate::INTERVAL_S`].
#[must_use]
pub fn interval_s(root: &Path) -> i64 {
    interval_of_rows(root).unwrap_or(crate::INTERVAL_S)
}

/// The same; `None` if it has no file of samples.
pub(crate) fn interval_of_rows(root: &Path) -> Option<i64> {
    let mut problems = Vec::new();
    let dates = folders(&root.join(Sample::NAME), "date=", &mut problems);
    let mut hours = dates.iter().flat_map(|(_, date)| folders(date, "hour=", &mut Vec::new()));
    let file = hours.find_map(|(_, hour)| parts_of(&hour, &mut Vec::new()).into_iter().next());
    let said = columns::footer_value(&file?, columns::INTERVAL).ok().flatten();
    let said = said.and_then(|text| text.parse().ok()).filter(|interval| (1..=86_400).contains(interval));
    Some(said.unwrap_or(crate::INTERVAL_S))
}

/// A hash of a file's contents, as part of its name.
#[must_use]
pub fn content_hash(octets: &[u8]) -> String {
    short_hash(Blake2b512::new_with_prefix(octets))
}

fn short_hash(hash: Blake2b512) -> String {
    hex(hash.finalize().get(..8).unwrap_or_default())
}

/// Makes a folder that only its owner may enter, and those above it.
///
/// # Errors
/// What the system says.
pub fn make_folder(folder: &Path) -> Result<()> {
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)
        .with_context(|| folder.display().to_string())
}

/// Removes a folder with all in it, if it is there.
///
/// # Errors
/// What the system says.
pub(crate) fn remove_folder(folder: &Path) -> Result<()> {
    match std::fs::remove_dir_all(folder) {
        Err(why) if why.kind() != std::io::ErrorKind::NotFound => {
            Err(why).with_context(|| folder.display().to_string())
        }
        _ => Ok(()),
    }
}

/// Puts a file in its place, whole or not at all: written beside it, synced, renamed. `step` is told before
/// each of these.
///
/// # Errors
/// What the system says; then nothing is left of it.
pub fn replace_file(path: &Path, octets: &[u8], step: &mut dyn FnMut(&str)) -> Result<()> {
    let folder = path.parent().context("a file of a table is in a folder")?;
    replace_file_from(folder, path, octets, step)
}

/// The same; the file is written in another folder of the same file system.
///
/// # Errors
/// As [`replace_file`].
pub(crate) fn replace_file_from(
    aside: &Path,
    path: &Path,
    octets: &[u8],
    step: &mut dyn FnMut(&str),
) -> Result<()> {
    let folder = path.parent().context("a file of a table is in a folder")?;
    make_folder(folder)?;
    make_folder(aside)?;
    // Engines pass over names that begin with a dot.
    let aside = aside.join(format!(".part-{}-{}", content_hash(octets), std::process::id()));
    let mut write = || -> std::io::Result<()> {
        // What a killed process of the same id left here is of no use to anybody.
        let _ = std::fs::remove_file(&aside);
        let mut file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&aside)?;
        let (half, rest) = octets.split_at(octets.len() / 2);
        file.write_all(half)?;
        step("half of a file");
        file.write_all(rest)?;
        file.sync_all()?;
        step("a file beside its place");
        std::fs::rename(&aside, path)?;
        sync_folder(folder)?;
        step("a file in its place");
        Ok(())
    };
    write()
        .inspect_err(|_| {
            // Whatever is left of it is useless.
            let _ = std::fs::remove_file(&aside);
        })
        .with_context(|| path.display().to_string())
}

/// A file that comes into its place when it is whole, under a name with the hash of its contents.
pub(crate) struct Growing {
    file: std::io::BufWriter<std::fs::File>,
    aside: PathBuf,
    hash: Blake2b512,
}

impl Growing {
    /// Begins a file in a folder, which is made.
    ///
    /// # Errors
    /// What the system says.
    pub(crate) fn begin(folder: &Path) -> Result<Self> {
        make_folder(folder)?;
        let aside = folder.join(format!(".part-growing-{}", std::process::id()));
        // What a killed process of the same id left here is of no use to anybody.
        let _ = std::fs::remove_file(&aside);
        let file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&aside);
        let file = std::io::BufWriter::new(file.with_context(|| aside.display().to_string())?);
        Ok(Self { file, aside, hash: Blake2b512::new() })
    }

    /// Puts the file in its place; `name` makes its name of the hash. `step` is told before each change.
    ///
    /// # Errors
    /// What the system says.
    pub(crate) fn finish(
        mut self,
        name: impl FnOnce(&str) -> String,
        step: &mut dyn FnMut(&str),
    ) -> Result<()> {
        let hash = std::mem::take(&mut self.hash);
        let path = self.aside.with_file_name(name(&short_hash(hash)));
        let mut place = || -> std::io::Result<()> {
            step("a part of a file");
            self.file.flush()?;
            self.file.get_ref().sync_all()?;
            step("a file beside its place");
            std::fs::rename(&self.aside, &path)?;
            path.parent().map_or(Ok(()), sync_folder)?;
            step("a file in its place");
            Ok(())
        };
        place().with_context(|| path.display().to_string())
    }
}

impl std::io::Write for Growing {
    fn write(&mut self, octets: &[u8]) -> std::io::Result<usize> {
        let written = self.file.write(octets)?;
        self.hash.update(octets.get(..written).unwrap_or_default());
        Ok(written)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.file.flush()
    }
}

impl Drop for Growing {
    fn drop(&mut self) {
        // Half of a file is of no use to anybody; one in its place has another name.
        let _ = std::fs::remove_file(&self.aside);
    }
}

/// Waits until the names in a folder are on the disk.
///
/// # Errors
/// What the system says.
pub fn sync_folder(folder: &Path) -> std::io::Result<()> {
    std::fs::File::open(folder)?.sync_all()
}

/// A host's name as part of a file's.
#[must_use]
pub fn tame(host: &str) -> String {
    let letter = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
    host.chars().map(letter).take(64).collect()
}
