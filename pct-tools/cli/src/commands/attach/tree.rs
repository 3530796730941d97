//! The account of a target and of what it makes, where the sampler lives in them (`--follow`): what the
//! kernel counted goes beside the recordings, and programs that cannot load the sampler are named.
//!
//! The target's own library does not see what the target executes. So we look who its descendants are, as
//! often as we wake: one that lives shorter than that is not named, but its time is in the account.

use crate::launch::check;
use pct_attach::{children, tasks};
use pct_profile::load::run::{self, Info};
use pct_profile::load::status;
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::time::{Instant, SystemTime};

/// A tree of processes that is sampled.
pub(super) struct Tree {
    pid: i32,
    folder: PathBuf,
    command: Vec<String>,
    began: Instant,
    stolen_before: u64,
    began_realtime: SystemTime,
    before: (u64, u64),
    now: (u64, u64),
    /// Processes that were looked at, and the program of each.
    seen: HashSet<(i32, PathBuf)>,
}

impl Tree {
    /// Sampling of `pid` begins, with recordings in `folder`.
    pub(super) fn begin(pid: i32, folder: &Path) -> Tree {
        let words = std::fs::read(tasks::folder(pid).join("cmdline")).unwrap_or_default();
        let words = words.strip_suffix(b"\0").unwrap_or(&words).split(|b| *b == 0);
        let before = children::used_with(pid).unwrap_or_default();
        Tree {
            pid,
            folder: folder.to_owned(),
            command: words.map(|word| String::from_utf8_lossy(word).into_owned()).collect(),
            began: Instant::now(),
            stolen_before: run::stolen_ns(),
            began_realtime: SystemTime::now(),
            before,
            now: before,
            seen: HashSet::new(),
        }
    }

    /// Looks at the clocks, and who is there.
    pub(super) fn refresh(&mut self) {
        if let Some(now) = children::used_with(self.pid) {
            self.now = now;
        }
        let mut left = children::living_of(self.pid);
        while let Some(pid) = left.pop() {
            left.extend(children::living_of(pid));
            let Ok(exe) = std::fs::read_link(tasks::folder(pid).join("exe")) else { continue };
            if !self.seen.insert((pid, exe.clone())) || tasks::has_mapped(pid, "libpct") {
                continue;
            }
            let found = check::inspect(&tasks::folder(pid).join("exe"));
            // between its execve and the reading of its maps it may have become another program
            let same = std::fs::read_link(tasks::folder(pid).join("exe")).is_ok_and(|now| now == exe);
            if let Some(what) = found.and_then(|found| found.obstacle).filter(|_| same) {
                // A sampled parent says so itself, before it executes the program.
                if status::has_told(&self.folder, pid) {
                    continue;
                }
                let name = exe.file_name().unwrap_or_default().to_string_lossy();
                status::tell(
                    &self.folder,
                    pid,
                    &format!("{name} is {}: not sampled (pct attach --method 6 does)", what.short()),
                );
            }
        }
    }

    /// Sampling has ended: notes what the kernel counted, in the folder where the recordings are now.
    ///
    /// # Errors
    /// The file could not be written.
    pub(super) fn end(mut self, folder: &Path) -> std::io::Result<()> {
        self.refresh();
        let ns = |time: std::time::Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let started = self.began_realtime.duration_since(SystemTime::UNIX_EPOCH).map_or(0, ns);
        let info = Info {
            command: std::mem::take(&mut self.command),
            pid: u32::try_from(self.pid).unwrap_or(0),
            started_realtime_ns: started,
            elapsed_ns: ns(self.began.elapsed()),
            user_ns: self.now.0.saturating_sub(self.before.0),
            system_ns: self.now.1.saturating_sub(self.before.1),
            stolen_ns: run::stolen_ns().saturating_sub(self.stolen_before),
            runs: 1,
            attached: true,
            alloc: Some(false),
            ..Info::default()
        };
        info.after_earlier(folder).write(folder)
    }
}
