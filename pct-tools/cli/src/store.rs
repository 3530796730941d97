//! The folder that continuous sampling writes to, and which of its recordings are read.
//!
//! A recording says itself what it is of: its header has the options (service, version), the process and the
//! times. Headers alone are read to choose, so a folder of thousands costs milliseconds.

use crate::look::{self, span};
use anyhow::{Context as _, Result, bail};
use pct_profile::load;
use pct_profile::load::Options;
use pct_profile::load::recordings::Recording;
pub use pct_profile::load::recordings::folder;
use std::io;
use std::path::PathBuf;
use std::time::SystemTime;

/// Which recordings of continuous sampling are read.
#[derive(clap::Args, Clone, Debug, Default)]
#[command(next_help_heading = "Continuous")]
pub struct Choice {
    /// Only what continuous sampling recorded in this time up to now, e.g. 1h, 30m or 2d.
    #[arg(long, value_name = "TIME", value_parser = span, conflicts_with_all = ["from", "to"])]
    pub last: Option<u64>,
    /// Only recordings of this service (pct ls lists them).
    #[arg(long, value_name = "NAME")]
    pub service: Option<String>,
    /// Only recordings of this version of the service.
    #[arg(long, value_name = "VERSION")]
    pub release: Option<String>,
}

impl Choice {
    /// Whether anything was chosen.
    #[must_use]
    pub fn is_made(&self) -> bool {
        self.last.is_some() || self.service.is_some() || self.release.is_some()
    }

    /// How to load for it.
    #[must_use]
    pub fn narrow(&self, options: Options) -> Options {
        Options { since_realtime_ns: self.since_ns(), ..options }
    }

    /// When the first sample that counts may have been taken, in nanoseconds since 1970; 0 = at any time.
    fn since_ns(&self) -> u64 {
        self.last.map_or(0, |last| now_ns().saturating_sub(last))
    }

    /// What is to be read: as [`look::paths`]; if recordings are chosen, those files, by default of [`folder`].
    ///
    /// # Errors
    /// As [`look::paths`], or when no recording is left.
    pub fn paths(&self, typed: &[PathBuf]) -> Result<Vec<PathBuf>> {
        if !self.is_made() {
            return look::paths(typed);
        }
        let since = self.since_ns();
        let (recordings, _) = recordings(typed)?;
        let wanted = |recording: &Recording| {
            self.service.as_ref().is_none_or(|name| *name == recording.service)
                && self.release.as_ref().is_none_or(|version| *version == recording.version)
                && (recording.running || recording.end_ns >= since)
        };
        let count = recordings.len();
        let paths: Vec<PathBuf> = recordings.into_iter().filter(wanted).map(|r| r.path).collect();
        if paths.is_empty() {
            bail!(
                "none of {} is of that service, version and time (pct ls shows what there is)",
                pct_num::count(count as u64, "recording", "recordings")
            );
        }
        Ok(paths)
    }
}

/// Nanoseconds since 1970.
#[must_use]
pub fn now_ns() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
}

/// The recordings in folders and files, by default in [`folder`], the oldest first; and why others could not be read.
///
/// # Errors
/// When a folder cannot be listed or has no recording.
pub fn recordings(typed: &[PathBuf]) -> Result<(Vec<Recording>, Vec<String>)> {
    let folders = match typed {
        [] => vec![own_folder(folder())?],
        typed => typed.to_vec(),
    };
    let (mut found, mut failed) = (Vec::new(), Vec::new());
    for folder in &folders {
        for path in load::files_of(folder)? {
            match Recording::read(&path) {
                Ok(recording) => found.push(recording),
                // Deleted since the folder was listed: it is too old.
                Err(_) if !path.exists() => {}
                Err(why) => failed.push(format!("{}: {}", path.display(), why)),
            }
        }
    }
    found.sort_by(|a, b| (a.start_ns, &a.path).cmp(&(b.start_ns, &b.path)));
    Ok((found, failed))
}

/// The user's own folder, if anything was recorded there.
fn own_folder(folder: Option<PathBuf>) -> Result<PathBuf> {
    let folder = folder.context("no home, so no folder of recordings")?;
    match load::files_of(&folder) {
        Err(load::Error::Unreadable { why, .. }) if why.kind() == io::ErrorKind::NotFound => {}
        Err(load::Error::Empty { .. }) => {}
        _ => return Ok(folder),
    }
    bail!(
        "{}: nothing is recorded there yet; begin by: pct run --continuous --service NAME -- COMMAND",
        folder.display()
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use pct_format::builder::Builder;
    use pct_format::header::State;
    use pct_format::layout::Text;
    use pct_format::layout::header as at;
    use std::path::Path;

    fn write(folder: &Path, name: &str, options: &[u8], start_ns: u64) {
        let mut builder = Builder::new();
        builder.text(Text::Exe, b"/usr/bin/shopd").text(Text::Options, options);
        builder
            .set_header_word(at::FIRST_ANCHOR + 2, start_ns)
            .set_header_word(at::STATE, State::Stopped as u64);
        std::fs::write(folder.join(name), builder.finish()).expect("written");
    }

    #[test]
    fn who_has_recorded_nothing_yet_reads_how_to_begin() {
        let home = tempfile::tempdir().expect("a folder");
        let folder = home.path().join("pct");
        let told = |folder: &Path| own_folder(Some(folder.to_owned())).map_err(|why| why.to_string());
        let missing = told(&folder).expect_err("it is not there");
        assert!(missing.ends_with("begin by: pct run --continuous --service NAME -- COMMAND"), "{missing}");
        std::fs::create_dir(&folder).expect("made");
        assert_eq!(told(&folder), Err(missing), "it is empty");
        write(&folder, "a.pct", b"continuous,out=/x", 1);
        assert_eq!(told(&folder), Ok(folder.clone()));
        assert!(own_folder(None).is_err());
    }

    #[test]
    fn recordings_are_chosen_by_service_version_and_time() {
        let folder = tempfile::tempdir().expect("a folder");
        const HOUR: u64 = 3_600_000_000_000;
        let now = now_ns();
        write(folder.path(), "a.pct", b"continuous,service=shop,version=1,out=/x", now - 5 * HOUR);
        write(folder.path(), "b.pct", b"continuous,service=shop,version=2,out=/x", now);
        write(folder.path(), "c.pct", b"continuous,out=/x", now);
        std::fs::write(folder.path().join("d.pct"), b"no recording").expect("written");
        let names = |choice: Choice| {
            let paths = choice.paths(&[folder.path().to_owned()]).map_err(|why| why.to_string())?;
            let name = |path: &PathBuf| path.file_name().expect("a name").to_string_lossy().into_owned();
            Ok::<_, String>(paths.iter().map(name).collect::<Vec<_>>())
        };
        let service = |name: &str| Choice { service: Some(name.to_owned()), ..Choice::default() };
        let all = [folder.path().to_owned()];
        assert_eq!(recordings(&all).expect("listed").1.len(), 1, "what is no recording is named");
        assert_eq!(names(service("shop")), Ok(vec!["a.pct".into(), "b.pct".into()]));
        assert_eq!(names(service("shopd")), Ok(vec!["c.pct".into()]));
        assert_eq!(names(Choice { last: Some(HOUR), ..service("shop") }), Ok(vec!["b.pct".into()]));
        assert_eq!(names(Choice { release: Some("1".into()), ..service("shop") }), Ok(vec!["a.pct".into()]));
        let none = names(Choice { last: Some(HOUR), release: Some("1".into()), ..service("shop") });
        assert!(none.as_ref().is_err_and(|why| why.contains("pct ls")), "{none:?}");
    }
}
