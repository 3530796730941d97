//! Where files lie below a root, and how one comes to be: written aside, synced, renamed.
//!
//! `samples/date=2026-11-20/hour=7/part-HOST-HASH.parquet`, `stacks/date=.../`, `locations/`, `hosts/date=.../`. The hash is of the
//! contents, so a second export of the same recording writes the same files again and counts nothing twice. Folders are 0700,
//! files 0600: function names tell what a program does.

use crate::columns;
use crate::columns::Table;
use crate::gather::Tables;
use crate::tables::Sample;
use anyhow::{Context as _, Result};
use blake2::{Blake2b512, Digest as _};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use std::collections::BTreeMap;
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

/// Writes all tables below `root`.
///
/// # Errors
/// When a folder or file cannot be written, or a time is outside of the calendar.
pub fn write(root: &Path, tables: &Tables) -> Result<Vec<PathBuf>> {
    let mut written = Vec::new();
    let mut by_hour: BTreeMap<(String, i8), Vec<Sample>> = BTreeMap::new();
    for row in &tables.samples {
        by_hour.entry(date_and_hour(row.ts)?).or_default().push(row.clone());
    }
    let host = tables.samples.first().map_or("", |row| &row.host);
    // Stacks and hosts of a recording go to the day of its first row.
    let Some((day, _)) = by_hour.keys().next().cloned() else { return Ok(written) };
    for ((date, hour), rows) in by_hour {
        // Spark takes `07` for a number and DuckDB for text, so no zero stands in front.
        written.push(part(&root.join(format!("samples/date={date}/hour={hour}")), host, &rows)?);
    }
    written.push(part(&root.join(format!("stacks/date={day}")), host, &tables.stacks)?);
    written.push(part(&root.join("locations"), host, &tables.locations)?);
    written.push(part(&root.join(format!("hosts/date={day}")), host, &tables.hosts)?);
    Ok(written)
}

fn date_and_hour(ts: i64) -> Result<(String, i8)> {
    let time = Timestamp::from_microsecond(ts).with_context(|| format!("{ts} us since 1970"))?;
    let time = time.to_zoned(TimeZone::UTC);
    Ok((time.date().to_string(), time.hour()))
}

/// Writes one file of a table.
fn part<T: Table>(folder: &Path, host: &str, rows: &[T]) -> Result<PathBuf> {
    let octets = columns::file(rows).with_context(|| T::NAME)?;
    let digest = Blake2b512::digest(&octets);
    let hash: String = digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    let path = folder.join(format!("part-{}-{hash}.parquet", tame(host)));
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)
        .with_context(|| folder.display().to_string())?;
    // Engines pass over names that begin with a dot.
    let aside = folder.join(format!(".part-{hash}-{}", std::process::id()));
    let write = || -> std::io::Result<()> {
        let mut file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&aside)?;
        file.write_all(&octets)?;
        file.sync_all()?;
        std::fs::rename(&aside, &path)
    };
    write()
        .inspect_err(|_| {
            // Whatever is left of it is useless.
            let _ = std::fs::remove_file(&aside);
        })
        .with_context(|| path.display().to_string())?;
    Ok(path)
}

/// A host's name as part of a file's.
fn tame(host: &str) -> String {
    let letter = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
    host.chars().map(letter).take(64).collect()
}
