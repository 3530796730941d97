//! A run's folder beside its .pct files: `run.json`, what `pct run` knows that no sampled process can.
//!
//! ```json
//! {"version": 1, "command": ["./render", "scene.json"], "pid": 4711, "started_realtime_ns": 1, "elapsed_ns": 2,
//!  "user_ns": 3, "system_ns": 4, "status": 0, "signal": null, "obstacle": null, "runs": 1,
//!  "attached": false}
//! ```
//!
//! CPU times are the kernel's, of the program and all children that were waited for. `obstacle` is the line that
//! says why the program could not be sampled, if so. Unknown members are ignored.

use crate::model::Account;
use pct_num::float;
use serde_json::{Value, json};
use std::borrow::Cow;
use std::collections::HashSet;
use std::io::{self, Read as _, Write as _};
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
            "attached": self.attached,
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

/// Name of the file that sampled processes append lines to: `PID cause`, and when one ends without a sample,
/// `PID<TAB>NANOSECONDS` of CPU time, which may be followed by `<TAB>ALL<TAB>NAME` ([`UnsampledImage`]). Who
/// starts them makes it.
pub const STATUS: &str = "pct.status";
/// Adds to the status file that `pid` was not sampled, and why. (A line more or less is not worth failing for.)
pub fn tell(folder: &Path, pid: i32, cause: &str) {
    append(folder, &format!("{pid} {}\n", cause.replace(['\n', '\t'], "?")));
}

/// Whether the status file says already why `pid` was not sampled.
#[must_use]
pub fn has_told(folder: &Path, pid: i32) -> bool {
    let prefix = format!("{pid} ");
    status_text(folder).lines().any(|line| line.starts_with(&prefix))
}

/// Adds to the status file what CPU time a process used that has no samples (any more).
pub fn tell_used(folder: &Path, pid: i32, ns: u64) {
    append(folder, &format!("{pid}\t{ns}\n"));
}

fn append(folder: &Path, line: &str) {
    let mut options = std::fs::OpenOptions::new();
    options.append(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
    if let Ok(mut file) = options.open(folder.join(STATUS)) {
        let _ = file.write_all(line.as_bytes());
    }
}

/// More than this of it is not read: each process writes a line or two.
const MOST_STATUS: u64 = 64 << 20;

/// Causes that sampled processes left in the folder's status file, each once, with who said it.
#[must_use]
pub fn status_lines(folder: &Path) -> Vec<String> {
    let mut causes: Vec<(String, Vec<String>)> = Vec::new();
    for line in status_text(folder).lines() {
        let Some((pid, cause)) = line.split_once(' ') else { continue };
        let cause = without_file(cause);
        match causes.iter_mut().find(|(known, _)| *known == cause) {
            Some((_, pids)) => pids.push(pid.to_owned()),
            None => causes.push((cause.into_owned(), vec![pid.to_owned()])),
        }
    }
    causes
        .into_iter()
        .map(|(cause, pids)| match pids.len() {
            1 => format!("{cause} (process {})", pids[0]),
            n => format!("{cause} (process {} and {} more)", pids[0], n - 1),
        })
        .collect()
}

/// A full disk has one cause, however many processes could not make their file there.
fn without_file(cause: &str) -> Cow<'_, str> {
    let parts = cause.strip_prefix("cannot create ").and_then(|rest| rest.split_once(": "));
    match parts.and_then(|(path, why)| Some((path.rsplit_once('/')?.0, why))) {
        Some((folder, why)) if !folder.is_empty() => {
            Cow::Owned(format!("cannot create files in {folder}: {why}"))
        }
        _ => Cow::Borrowed(cause),
    }
}

/// What an image of a process said that ended without a sample.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnsampledImage {
    /// Process id.
    pub pid: u32,
    /// CPU time while sampling was on, nanoseconds.
    pub used_ns: u64,
    /// CPU time of the process since its birth, nanoseconds, where it said so.
    pub all_ns: Option<u64>,
    /// What the program was called by; may be empty.
    pub name: String,
}

/// What images of processes said that ended without a sample, in the order in which they did.
#[must_use]
pub fn unsampled_images(folder: &Path) -> Vec<UnsampledImage> {
    let image = |line: &str| {
        let mut fields = line.splitn(4, '\t');
        Some(UnsampledImage {
            pid: fields.next()?.parse().ok()?,
            used_ns: fields.next()?.parse().ok()?,
            all_ns: fields.next().and_then(|all| all.parse().ok()),
            name: fields.next().unwrap_or_default().to_owned(),
        })
    };
    status_text(folder).lines().filter_map(image).collect()
}

/// Process ids of all that left a line in the folder's status file, of whatever kind.
#[must_use]
pub fn heard_of(folder: &Path) -> HashSet<u32> {
    let pid = |line: &str| line.split([' ', '\t']).next()?.parse().ok();
    status_text(folder).lines().filter_map(pid).collect()
}

/// Processes that ended without a sample, and the CPU time that they used, nanoseconds. Those in `sampled`
/// left samples as another program before or after, and are not among them.
#[must_use]
pub fn without_sample(images: &[UnsampledImage], sampled: &HashSet<u32>) -> (u64, u64) {
    let mut pids = HashSet::new();
    let mut used = 0_u64;
    for image in images.iter().filter(|image| !sampled.contains(&image.pid)) {
        pids.insert(image.pid);
        used = used.saturating_add(image.used_ns);
    }
    (pids.len() as u64, used)
}

/// Names of programs that processes executed and that could not be sampled, each once, in order.
#[must_use]
pub fn not_profiled(folder: &Path) -> Vec<String> {
    // `NAME is a static program, which ...: not sampled (...)`
    let name = |line: &str| {
        let (_, cause) = line.split_once(' ')?;
        let (name, why) = cause.split_once(" is ")?;
        (why.contains(": not sampled") && !name.contains(' ')).then(|| name.to_owned())
    };
    let names: std::collections::BTreeSet<String> = status_text(folder).lines().filter_map(name).collect();
    names.into_iter().collect()
}

fn status_text(folder: &Path) -> String {
    let mut text = Vec::new();
    let path = folder.join(STATUS);
    if !path.is_file() {
        return String::new();
    }
    let Ok(file) = std::fs::File::open(path) else { return String::new() };
    match file.take(MOST_STATUS).read_to_end(&mut text) {
        Ok(_) => String::from_utf8_lossy(&text).into_owned(),
        Err(_) => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_of_several_runs_has_their_sum() {
        let dir = tempfile::tempdir().expect("a folder");
        for n in 1..4 {
            let once = Info { user_ns: 3, system_ns: 2, elapsed_ns: 7, runs: 1, ..Info::default() };
            let info = once.after_earlier(dir.path());
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
    fn each_cause_is_told_once() {
        let dir = std::env::temp_dir().join(format!("pct-status-{}", std::process::id()));
        std::fs::create_dir_all(&dir).expect("made");
        let text = "1 disk full\n2 disk full\n3 no clock\nnonsense\n4\t700\n5\t20\t900\ttrue x\n4\t1\n6\t9\n7\tx\n\
                    8 busybox is a static program, which no library can be preloaded into: not sampled (-)\n";
        std::fs::write(dir.join(STATUS), text).expect("written");
        let lines = status_lines(&dir);
        assert_eq!(lines[..2], ["disk full (process 1 and 1 more)", "no clock (process 3)"]);
        let images = unsampled_images(&dir);
        assert_eq!(without_sample(&images, &HashSet::from([6])), (2, 721));
        let truth = UnsampledImage { pid: 5, used_ns: 20, all_ns: Some(900), name: "true x".into() };
        assert_eq!(images[1], truth);
        assert_eq!(not_profiled(&dir), ["busybox"]);
        assert_eq!(heard_of(&dir), HashSet::from([1, 2, 3, 4, 5, 6, 7, 8]));
        assert_eq!([1, 3, 4, 9, 30].map(|pid| has_told(&dir, pid)), [true, true, false, false, false]);
        std::fs::remove_dir_all(&dir).expect("removed");
        assert!(status_lines(&dir).is_empty());
    }

    #[test]
    fn files_that_could_not_be_made_in_one_folder_are_one_cause() {
        let dir = tempfile::tempdir().expect("a folder");
        let text = "1 cannot create /x/a-1.pct: ENOSPC\n2 cannot create /x/b-2.pct: ENOSPC\n3 cannot create /y/b-2.pct: ENOSPC\n\
                    4 cannot create\n5 cannot create a: b\n";
        std::fs::write(dir.path().join(STATUS), text).expect("written");
        assert_eq!(
            status_lines(dir.path()),
            [
                "cannot create files in /x: ENOSPC (process 1 and 1 more)",
                "cannot create files in /y: ENOSPC (process 3)",
                "cannot create (process 4)",
                "cannot create a: b (process 5)",
            ]
        );
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
