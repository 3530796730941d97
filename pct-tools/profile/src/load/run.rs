//! A run's folder beside its .pct files: `run.json`, what `pct run` knows that no sampled process can.
//!
//! ```json
//! {"version": 1, "command": ["./render", "scene.json"], "pid": 4711, "started_realtime_ns": 1, "elapsed_ns": 2,
//!  "user_ns": 3, "system_ns": 4, "status": 0, "signal": null, "obstacle": null, "runs": 1,
//!  "attached": false, "alloc": true}
//! ```
//!
//! CPU times are the kernel's, of the program and all children that were waited for. `obstacle` is the line that
//! says why the program could not be sampled, if so. `alloc` says whether allocations were to be sampled. Unknown
//! members are ignored.

use crate::model::Account;
use pct_num::float;
use serde_json::{Value, json};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

/// Name of the file.
pub const FILE: &str = "run.json";

/// What `pct run` noted down.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Info {
    /// The command line.
    pub command: Vec<String>,
    /// Process id of the program.
    pub pid: u32,
    /// Start, nanoseconds since 1970.
    pub started_realtime_ns: u64,
    /// From start to end.
    pub elapsed_ns: u64,
    /// User CPU time of the process tree.
    pub user_ns: u64,
    /// System CPU time of the process tree.
    pub system_ns: u64,
    /// Processor time that the machine's host took meanwhile ([`stolen_ns`]).
    pub stolen_ns: u64,
    /// Exit status, when it exited.
    pub status: Option<i64>,
    /// Signal's number, when one ended it.
    pub signal: Option<i64>,
    /// Why it could not be sampled.
    pub obstacle: Option<String>,
    /// The program ran before it was sampled: its CPU times are those since then.
    pub attached: bool,
    /// Allocations were to be sampled. `None` = not known.
    pub alloc: Option<bool>,
    /// How many runs the folder holds: times are their sums, the rest is of the last one.
    pub runs: u64,
}

/// Nanoseconds for which the host of this virtual machine has run something else, summed over the processors, since
/// the machine started; 0 on a real machine and where /proc/stat is hidden. In steps of a hundredth of a second
/// (proc_stat(5), *steal*).
#[must_use]
pub fn stolen_ns() -> u64 {
    std::fs::read_to_string("/proc/stat").map_or(0, |stat| stolen_in(&stat))
}

fn stolen_in(stat: &str) -> u64 {
    const STEAL: usize = 8;
    const NS_PER_TICK: u64 = 10_000_000;
    let all = stat.lines().find(|line| line.starts_with("cpu "));
    let ticks = all.and_then(|all| all.split_whitespace().nth(STEAL)?.parse::<u64>().ok());
    ticks.unwrap_or(0).saturating_mul(NS_PER_TICK)
}

impl Info {
    /// Writes `run.json` into the folder, replacing an older one.
    ///
    /// # Errors
    /// What the file system says.
    pub fn write(&self, folder: &Path) -> io::Result<()> {
        let text = json!({
            "version": 1, "command": self.command, "pid": self.pid,
            "started_realtime_ns": self.started_realtime_ns, "elapsed_ns": self.elapsed_ns,
            "user_ns": self.user_ns, "system_ns": self.system_ns,
            "stolen_ns": self.stolen_ns,
            "status": self.status, "signal": self.signal, "obstacle": self.obstacle, "runs": self.runs,
            "attached": self.attached, "alloc": self.alloc,
        });
        let path = folder.join(FILE);
        let temporary = folder.join(format!(".{FILE}.{}", std::process::id()));
        let mut file =
            std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary)?;
        let written = writeln!(file, "{text}").and_then(|()| std::fs::rename(&temporary, &path));
        written.inspect_err(|_| drop(std::fs::remove_file(&temporary)))
    }

    /// Reads `run.json`; `None` when there is none or it makes no sense (the samples are still good without it).
    #[must_use]
    pub fn read(folder: &Path) -> Option<Self> {
        let path = folder.join(FILE);
        let meta = std::fs::metadata(&path).ok()?;
        // Larger than any command line the kernel takes; a pipe would keep us waiting.
        if !meta.is_file() || meta.len() > 16 << 20 {
            return None;
        }
        let value: Value = serde_json::from_slice(&std::fs::read(path).ok()?).ok()?;
        let number = |name: &str| value.get(name).and_then(Value::as_u64);
        Some(Self {
            command: value
                .get("command")?
                .as_array()?
                .iter()
                .map(|word| word.as_str().unwrap_or_default().to_owned())
                .collect(),
            pid: number("pid").and_then(|n| u32::try_from(n).ok()).unwrap_or(0),
            started_realtime_ns: number("started_realtime_ns").unwrap_or(0),
            elapsed_ns: number("elapsed_ns")?,
            user_ns: number("user_ns")?,
            system_ns: number("system_ns")?,
            stolen_ns: number("stolen_ns").unwrap_or(0),
            status: value.get("status").and_then(Value::as_i64),
            signal: value.get("signal").and_then(Value::as_i64),
            obstacle: value.get("obstacle").and_then(Value::as_str).map(str::to_owned),
            attached: value.get("attached").and_then(Value::as_bool).unwrap_or(false),
            alloc: value.get("alloc").and_then(Value::as_bool),
            runs: number("runs").unwrap_or(1),
        })
    }

    /// A folder that was named again holds the samples of several runs: then what they used is a sum too.
    #[must_use]
    pub fn after_earlier(self, folder: &Path) -> Self {
        let Some(before) = Self::read(folder) else { return self };
        Self {
            started_realtime_ns: before.started_realtime_ns.min(self.started_realtime_ns),
            elapsed_ns: before.elapsed_ns.saturating_add(self.elapsed_ns),
            user_ns: before.user_ns.saturating_add(self.user_ns),
            system_ns: before.system_ns.saturating_add(self.system_ns),
            stolen_ns: before.stolen_ns.saturating_add(self.stolen_ns),
            runs: before.runs.saturating_add(1),
            // No run with them means none.
            alloc: before.alloc.zip(self.alloc).map(|(before, now)| before || now),
            ..self
        }
    }

    /// Puts what the run used into the account; of several runs the sums.
    pub fn close(&self, account: &mut Account) {
        let (user, system) = account.used.unwrap_or_default();
        account.used = Some((user.saturating_add(self.user_ns), system.saturating_add(self.system_ns)));
        account.stolen_ns = account.stolen_ns.saturating_add(self.stolen_ns);
        account.elapsed_ns = Some(account.elapsed_ns.unwrap_or(0).saturating_add(self.elapsed_ns));
        if let Some(line) = &self.obstacle {
            account.note(line.clone());
        }
    }

    /// Why a run has no .pct file: a hint that starts with `: `, or nothing.
    #[must_use]
    pub fn why_empty(&self) -> String {
        match &self.obstacle {
            Some(line) => format!(": {line}"),
            None => format!(
                ": {} used {:.3} CPU s and left no sample",
                self.command.first().map_or("the program", String::as_str),
                float(self.user_ns + self.system_ns) / 1e9
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_of_several_runs_has_their_sum() {
        let dir = tempfile::tempdir().expect("a folder");
        for n in 1..4 {
            let alloc = Some(n == 2);
            let once = Info { user_ns: 3, system_ns: 2, elapsed_ns: 7, runs: 1, alloc, ..Info::default() };
            let info = once.after_earlier(dir.path());
            assert_eq!(info.alloc, Some(n >= 2), "one of them is enough");
            assert_eq!((info.user_ns, info.system_ns, info.elapsed_ns, info.runs), (3 * n, 2 * n, 7 * n, n));
            info.write(dir.path()).expect("written");
        }
    }

    #[test]
    fn stolen_time_is_the_eighth_number_of_all_processors() {
        let stat = "cpu  658 1 625 24276 105 2 7 61 3 0\ncpu0 1 1 1 1 1 1 1 9 0 0\n";
        assert_eq!(stolen_in(stat), 610_000_000);
        // Kernels before 2.6.11 have seven numbers.
        for none in ["cpu  658 1 625 24276 105 2 7\n", "cpu0 1 1 1 1 1 1 1 9 0 0\n", ""] {
            assert_eq!(stolen_in(none), 0);
        }
    }

    #[test]
    fn run_json_survives_the_round_trip_and_bad_ones_are_none() {
        let dir = std::env::temp_dir().join(format!("pct-run-json-{}", std::process::id()));
        std::fs::create_dir_all(&dir).expect("made");
        let info = Info {
            command: vec!["a b".into(), "\"é".into()],
            pid: 7,
            elapsed_ns: 5,
            stolen_ns: 3,
            signal: Some(9),
            obstacle: Some("is static".into()),
            alloc: Some(true),
            ..Info::default()
        };
        info.write(&dir).expect("written");
        assert_eq!(Info::read(&dir), Some(info));
        for bad in
            ["", "{}", "[1]", "{\"command\":3,\"elapsed_ns\":1,\"user_ns\":1,\"system_ns\":1}", "\u{0}"]
        {
            std::fs::write(dir.join(FILE), bad).expect("written");
            assert_eq!(Info::read(&dir), None, "{bad}");
        }
        std::fs::remove_dir_all(&dir).expect("removed");
    }
}
