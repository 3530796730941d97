//! From recordings that no process writes any more to a batch.

use super::config::{Config, Outcome, Target};
use super::spool::NewBatch;
use super::state::{Manifest, Progress, State, image_id};
use super::sum::Sum;
use crate::gather::{Origin, Tables, gather};
use crate::ids::{self, NO_STACK, hex};
use crate::root;
use crate::tables::{Host, Sample};
use anyhow::Result;
use pct_format::State as FileState;
use pct_profile::load::recordings::{ImageKey, Recording};
use pct_profile::load::{self, Error, Options};
use rustc_hash::FxHashMap;
use std::collections::{BTreeMap, BTreeSet};

/// Recordings of a batch at most, so that memory and what a crash repeats are bounded.
const MOST: usize = 64;
/// A process goes on in the next file while its threads may still store a sample into the last one. For so
/// long after its end, in nanoseconds, a file is left alone.
const GRACE_NS: u64 = 60_000_000_000;
/// A file that was not ended and whose process is not seen: it was killed, or it is in a container with
/// process ids of its own. For so long after the last note in it, in nanoseconds, it is left alone. A process
/// that was idle for longer begins another file when it goes on.
const ABANDONED_NS: u64 = 3_600_000_000_000;

/// The ids and images of all recordings that lie in the folders now.
pub(super) fn listed(config: &Config) -> Vec<(String, ImageKey)> {
    let (recordings, _) = recordings(config);
    recordings.into_iter().map(|recording| (segment_id(&recording), recording.image)).collect()
}

/// What a recording is called in footers.
#[must_use]
pub fn segment_id(recording: &Recording) -> String {
    let image = &recording.image;
    ids::segment_id(&image.boot_id, image.pid, image.start_ticks, recording.start_ns, recording.number)
}

/// All recordings, in order of their begin, and why others could not be read.
fn recordings(config: &Config) -> (Vec<Recording>, Vec<String>) {
    let (mut found, mut problems) = (Vec::new(), Vec::new());
    for folder in &config.from {
        let files = match load::files_of(folder) {
            Ok(files) => files,
            // Nothing was recorded yet.
            Err(Error::Empty { .. }) => continue,
            Err(why) => {
                problems.push(why.to_string());
                continue;
            }
        };
        for path in files {
            match Recording::read(&path) {
                Ok(recording) => found.push(recording),
                // Deleted since the folder was listed.
                Err(_) if !path.exists() => {}
                Err(why) => problems.push(format!("{}: {why}", path.display())),
            }
        }
    }
    found.sort_by(|a, b| (a.start_ns, a.number, &a.path).cmp(&(b.start_ns, b.number, &b.path)));
    (found, problems)
}

/// Whether nobody writes a recording any more. `is_followed`: its process has begun another file since.
fn is_closed(recording: &Recording, is_followed: bool, now_ns: u64) -> bool {
    let age_ns = now_ns.saturating_sub(recording.end_ns);
    match recording.state {
        FileState::Closed => true,
        FileState::Stopped | FileState::Replaced if is_followed => age_ns >= GRACE_NS,
        // A process that switched sampling off may switch it on again.
        _ => !recording.process_lives && age_ns >= ABANDONED_NS,
    }
}

/// The next batch of recordings that `taken` does not know. Returns `None` after the last one.
///
/// # Errors
/// When tables cannot be made of what was read. Recordings that cannot be read are in the outcome's problems.
pub(super) fn next(
    config: &Config,
    taken: &State,
    now_ns: u64,
    outcome: &mut Outcome,
) -> Result<Option<NewBatch>> {
    let (recordings, problems) = recordings(config);
    for problem in problems {
        if !outcome.problems.contains(&problem) {
            outcome.problems.push(problem);
        }
    }
    let mut batch = Collected {
        manifest: Manifest { made_ns: now_ns, ..Manifest::default() },
        tables: Tables::default(),
    };
    let mut newest: FxHashMap<ImageKey, u64> = FxHashMap::default();
    for recording in &recordings {
        let number = newest.entry(recording.image.clone()).or_default();
        *number = recording.number.max(*number);
    }
    outcome.open = 0;
    for recording in recordings {
        let id = segment_id(&recording);
        if taken.segments.contains(&id) {
            continue;
        }
        let is_followed = newest.get(&recording.image).is_some_and(|newest| *newest > recording.number);
        if !is_closed(&recording, is_followed, now_ns) {
            outcome.open += 1;
            continue;
        }
        if batch.manifest.segments.len() >= MOST {
            break;
        }
        batch.add(config, taken, &recording, id, outcome);
    }
    if batch.manifest.segments.is_empty() {
        return Ok(None);
    }
    outcome.recordings += batch.manifest.segments.len() as u64;
    outcome.rows += batch.tables.samples.len() as u64;
    match config.to {
        Target::Root(_) => batch.finish(taken).map(Some),
        // Each batch is a root of its own: it has all that its samples refer to.
        Target::Receiver(_) => {
            let mut batch = batch.finish(&State::default())?;
            (batch.manifest.stacks, batch.manifest.hosts) = Default::default();
            Ok(Some(batch))
        }
    }
}

struct Collected {
    manifest: Manifest,
    tables: Tables,
}

impl Collected {
    /// Adds a recording, or notes why it cannot be.
    fn add(
        &mut self,
        config: &Config,
        taken: &State,
        recording: &Recording,
        id: String,
        outcome: &mut Outcome,
    ) {
        let origin = Origin {
            service: recording.service.clone(),
            version: recording.version.clone(),
            host: config.host.clone(),
            env: config.env.clone(),
            without_threads: config.without_threads,
        };
        let options = Options { timeline: true, cache: config.symbol_cache.clone(), ..Options::default() };
        let image = image_id(&recording.image);
        let known = self.manifest.images.get(&image).or_else(|| taken.images.get(&image));
        let mut lost = gap_ns(recording, known, taken.begun);
        match load::load(std::slice::from_ref(&recording.path), &options) {
            Ok(profile) => self.tables.add(gather(&profile, &origin)),
            // Its process died before it wrote anything.
            Err(Error::Bad { why: pct_format::Error::Unfinished, .. }) => {}
            // The file is damaged and stays so: what its process used meanwhile is lost.
            Err(why @ Error::Bad { .. }) => {
                outcome.problems.push(why.to_string());
                if recording.cpu_at_start_ns != 0 {
                    lost += recording.cpu_at_end_ns.saturating_sub(recording.cpu_at_start_ns);
                }
            }
            Err(why) => {
                // Deleted meanwhile: the gap is found when the process's next file is taken. Else it is tried
                // again later.
                if recording.path.exists() {
                    outcome.problems.push(why.to_string());
                }
                return;
            }
        }
        if lost > 0 {
            outcome.lost_ns = outcome.lost_ns.saturating_add(lost);
            let row = lost_row(&origin, recording.start_ns, lost);
            self.tables.add(Tables { samples: vec![row], ..Tables::default() });
        }
        let cpu_ns = match recording.cpu_at_end_ns {
            // It did not come to note it.
            0 => recording.cpu_at_start_ns,
            noted => noted,
        };
        let progress = Progress { next: recording.number + 1, cpu_ns, pid: recording.pid };
        self.manifest.images.insert(image, progress);
        self.manifest.segments.push(id);
    }

    /// Leaves out the stacks that the root has of that date, and makes the files.
    fn finish(mut self, taken: &State) -> Result<NewBatch> {
        let mut wanted: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        let mut hosts: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for row in self.tables.samples.iter().filter(|row| row.stack_id != NO_STACK) {
            let (date, _) = root::date_and_hour(row.ts)?;
            hosts.entry(date.clone()).or_default();
            let id = hex(&row.stack_id);
            if !taken.stacks.get(&date).is_some_and(|known| known.contains(&id)) {
                wanted.entry(date).or_default().insert(id);
            }
        }
        self.tables.keep_stacks(|id| wanted.values().any(|ids| ids.contains(&hex(id))));
        for (date, keys) in &mut hosts {
            let known = taken.hosts.get(date);
            let new = self.tables.hosts.iter().map(host_key);
            keys.extend(new.filter(|key| known.is_none_or(|known| !known.contains(key))));
        }
        let has = |of: &BTreeMap<String, BTreeSet<String>>, date: &str, key: &str| {
            of.get(date).is_some_and(|keys| keys.contains(key))
        };
        let is_wanted = root::Wanted {
            stack: &|date, id| has(&wanted, date, &hex(id)),
            host: &|date, row| has(&hosts, date, &host_key(row)),
        };
        let files = root::files_with(&self.tables, &self.manifest.segments, &is_wanted)?;
        self.manifest.stacks = wanted;
        self.manifest.hosts = hosts;
        self.manifest.sums = sums(&self.tables.samples);
        Ok(NewBatch { manifest: self.manifest, files })
    }
}

/// CPU time between the last file that was taken and this one: of files that were deleted before, of what was
/// written to the last one after it was taken, and of the change from one file to the next.
fn gap_ns(recording: &Recording, known: Option<&Progress>, begun: bool) -> u64 {
    match known {
        _ if recording.number == 0 || recording.cpu_at_start_ns == 0 => 0,
        Some(last) if last.next > recording.number => 0,
        Some(last) => recording.cpu_at_start_ns.saturating_sub(last.cpu_ns),
        // All files before it are gone. Where nothing was ever shipped from here, nothing was promised for
        // them.
        None if begun => recording.cpu_at_start_ns,
        None => 0,
    }
}

/// What a row of `hosts` says that is not said again on the same date.
fn host_key(row: &Host) -> String {
    format!("{}/{}/{}/{}", row.service, row.clock, row.hz_asked, row.hz)
}

fn lost_row(origin: &Origin, at_ns: u64, lost_ns: u64) -> Sample {
    Sample {
        service: origin.service.clone(),
        version: origin.version.clone(),
        stack_id: NO_STACK,
        host: origin.host.clone(),
        ts: crate::gather::interval_of(at_ns),
        thread: String::new(),
        kind: "cpu".to_owned(),
        env: origin.env.clone(),
        samples: 0,
        value: 0,
        lost: i64::try_from(lost_ns).unwrap_or(i64::MAX),
    }
}

/// What is lost if these rows never arrive.
fn sums(rows: &[Sample]) -> Vec<Sum> {
    let mut sums: BTreeMap<_, i64> = BTreeMap::new();
    for row in rows {
        let key = (&row.service, &row.version, &row.host, &row.env, &row.kind, row.ts);
        let sum = sums.entry(key).or_default();
        *sum = sum.saturating_add(row.value).saturating_add(row.lost);
    }
    let sum = |((service, version, host, env, kind, ts), ns): (
        (&String, &String, &String, &String, &String, i64),
        i64,
    )| Sum {
        service: service.clone(),
        version: version.clone(),
        host: host.clone(),
        env: env.clone(),
        kind: kind.clone(),
        ts,
        ns,
    };
    sums.into_iter().map(sum).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recording(number: u64, start: u64, end: u64) -> Recording {
        let image = ImageKey { boot_id: [1; 16], pid: 7, start_ticks: 5, exe: b"/bin/a".to_vec() };
        Recording {
            path: "a.pct".into(),
            service: "a".into(),
            version: String::new(),
            pid: 7,
            image,
            number,
            start_ns: 0,
            end_ns: 10 * GRACE_NS,
            cpu_at_start_ns: start,
            cpu_at_end_ns: end,
            bytes: 0,
            running: false,
            state: FileState::Stopped,
            process_lives: true,
        }
    }

    #[test]
    fn a_gap_between_files_has_the_size_of_what_was_used_meanwhile() {
        let last = Progress { next: 3, cpu_ns: 500, pid: 7 };
        assert_eq!(gap_ns(&recording(3, 500, 700), Some(&last), true), 0);
        assert_eq!(gap_ns(&recording(5, 900, 950), Some(&last), true), 400);
        assert_eq!(
            gap_ns(&recording(3, 520, 700), Some(&last), true),
            20,
            "written after the file was taken"
        );
        assert_eq!(gap_ns(&recording(0, 20, 950), Some(&last), true), 0, "another image");
        assert_eq!(gap_ns(&recording(5, 900, 950), None, true), 900);
        assert_eq!(gap_ns(&recording(5, 900, 950), None, false), 0, "nothing was promised");
    }

    #[test]
    fn files_that_a_process_may_still_write_are_left_alone() {
        let ended = 10 * GRACE_NS;
        let stopped = recording(0, 0, 0);
        assert!(!is_closed(&stopped, true, ended + GRACE_NS - 1));
        assert!(is_closed(&stopped, true, ended + GRACE_NS));
        assert!(!is_closed(&stopped, false, ended + 9 * ABANDONED_NS), "switched off, and perhaps on again");
        assert!(is_closed(&Recording { state: FileState::Closed, ..stopped.clone() }, false, ended));
        // Not ended, and its process is not seen.
        let armed = Recording { state: FileState::Armed, process_lives: false, ..stopped };
        assert!(!is_closed(&armed, false, ended + ABANDONED_NS - 1));
        assert!(is_closed(&armed, false, ended + ABANDONED_NS));
        assert!(!is_closed(&Recording { process_lives: true, ..armed }, false, ended + 9 * ABANDONED_NS));
    }
}
