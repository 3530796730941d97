//! The file `pct.status` in a run's folder: what sampled processes, and who looks after them, tell while it runs.
//!
//! Each line is one append, so lines of several processes do not mix.

use std::borrow::Cow;
use std::collections::HashSet;
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

/// Name of the file that sampled processes append lines to: `PID cause`, and when one ends without a sample,
/// `PID<TAB>NANOSECONDS` of CPU time, which may be followed by `<TAB>ALL<TAB>NAME` ([`UnsampledImage`]). A
/// controller that has taken over a process adds `PID<TAB>outside`, and a process whose sampling paused
/// `PID<TAB>resumed`. Who starts them makes it.
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

/// Adds to the status file that `pid` is sampled from outside, because of what was told of it.
pub fn tell_taken_over(folder: &Path, pid: i32) {
    append(folder, &format!("{pid}\t{OUTSIDE}\n"));
}

/// Second field of the line about a process that was taken over.
const OUTSIDE: &str = "outside";
/// And of one that is sampled again after a pause.
const RESUMED: &str = "resumed";
/// What a process says when its sampling pauses, beside why.
const PAUSES: &str = "sampling pauses until its filter on system calls is seen";

/// From when on a process can be sampled from outside that cannot be sampled from inside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beyond {
    /// From now on.
    Now,
    /// From the program on that it is about to execute.
    NextProgram,
}

/// What the library says of programs, up to its `: sampling ends there` or `: not sampled`, that can be sampled from
/// outside from then on.
const BEYOND: [(&str, Beyond); 4] = [
    ("the program took the sampling signal for itself and no other is free", Beyond::Now),
    ("the program's filter on system calls forbids the return from a signal handler", Beyond::Now),
    (" is a static program, which no library can be preloaded into", Beyond::NextProgram),
    (" runs under another root, where ", Beyond::Now),
];

/// What the library says beside such a cause, and what is not so any more when the process is sampled from outside.
const OVER: [&str; 2] = [PAUSES, "what it executes from then on is not sampled"];

/// Where the part of a cause begins that says what is not sampled for it.
fn consequence_at(cause: &str) -> Option<usize> {
    cause.find(": sampling ends there").or_else(|| cause.find(": not sampled"))
}

impl Beyond {
    /// Whether the process that `cause` was told of can be sampled from outside. `None`: it cannot, or need not.
    #[must_use]
    pub fn find_in(cause: &str) -> Option<Beyond> {
        let what = cause.get(..consequence_at(cause)?)?;
        BEYOND.iter().find(|(part, _)| what.contains(part)).map(|(_, beyond)| *beyond)
    }
}

/// More than this of it is not read: each process writes a line or two.
const MOST_STATUS: u64 = 64 << 20;

/// Causes that sampled processes left in the folder's status file, each once, with who said it. Not those of processes
/// that are sampled from outside for them ([`taken_over`]).
#[must_use]
pub fn causes(folder: &Path) -> Vec<String> {
    let text = status_text(folder);
    let outside = pids_outside(&text);
    let resumed = pids_resumed(&text);
    let lines = text.lines().filter_map(|line| line.split_once(' '));
    let is_past = |told: &(&str, &str)| {
        is_taken_over(told, &outside)
            || is_over(told, &outside)
            || resumed.contains(told.0) && told.1.contains(PAUSES)
    };
    each_once(lines.filter(|told| !is_past(told)).map(|(pid, cause)| (pid, without_file(cause))))
}

/// Why processes are sampled from outside from some time on, each cause once, with whose it was.
#[must_use]
pub fn taken_over(folder: &Path) -> Vec<String> {
    let text = status_text(folder);
    let outside = pids_outside(&text);
    let lines = text.lines().filter_map(|line| line.split_once(' '));
    each_once(lines.filter(|told| is_taken_over(told, &outside)).map(|(pid, cause)| {
        let what = consequence_at(cause).and_then(|at| cause.get(..at)).unwrap_or(cause);
        (pid, Cow::Owned(format!("{what}: sampled from outside from there on")))
    }))
}

/// Processes that a controller has taken over.
fn pids_outside(text: &str) -> HashSet<&str> {
    text.lines()
        .filter_map(|line| line.split_once('\t'))
        .filter(|told| told.1 == OUTSIDE)
        .map(|told| told.0)
        .collect()
}

/// Processes that have said last of pauses that sampling goes on.
fn pids_resumed(text: &str) -> HashSet<&str> {
    let mut resumed = HashSet::new();
    for line in text.lines() {
        if let Some((pid, RESUMED)) = line.split_once('\t') {
            resumed.insert(pid);
        } else if let Some((pid, cause)) = line.split_once(' ')
            && cause.contains(PAUSES)
        {
            resumed.remove(pid);
        }
    }
    resumed
}

fn is_taken_over((pid, cause): &(&str, &str), outside: &HashSet<&str>) -> bool {
    outside.contains(pid) && Beyond::find_in(cause).is_some()
}

/// Whether `told` was so until its process was sampled from outside.
fn is_over((pid, cause): &(&str, &str), outside: &HashSet<&str>) -> bool {
    outside.contains(pid) && OVER.iter().any(|part| cause.contains(part))
}

fn each_once<'a>(told: impl Iterator<Item = (&'a str, Cow<'a, str>)>) -> Vec<String> {
    let mut causes: Vec<(Cow<'a, str>, Vec<&str>)> = Vec::new();
    for (pid, cause) in told {
        match causes.iter_mut().find(|(known, _)| *known == cause) {
            Some((_, pids)) if pids.last() == Some(&pid) => {}
            Some((_, pids)) => pids.push(pid),
            None => causes.push((cause, vec![pid])),
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
    let text = status_text(folder);
    let outside = pids_outside(&text);
    let name = |line: &str| {
        let told = line.split_once(' ')?;
        let (name, why) = told.1.split_once(" is ")?;
        let missed = why.contains(": not sampled") && !is_taken_over(&told, &outside);
        (missed && !name.contains(' ')).then(|| name.to_owned())
    };
    let names: std::collections::BTreeSet<String> = text.lines().filter_map(name).collect();
    names.into_iter().collect()
}

/// What a run's processes have told, as they do.
#[derive(Debug)]
pub struct Tellings {
    file: std::fs::File,
    /// The beginning of a line whose end has not come yet.
    part: Vec<u8>,
}

impl Tellings {
    /// Of the folder's status file, from its `from`th octet on ([`told_octets`]).
    ///
    /// # Errors
    /// The file cannot be opened.
    pub fn after(folder: &Path, from: u64) -> io::Result<Tellings> {
        let mut file = std::fs::File::open(folder.join(STATUS))?;
        file.seek(io::SeekFrom::Start(from))?;
        Ok(Tellings { file, part: Vec::new() })
    }

    /// Causes that were told since the last call, with whom they are of.
    pub fn read(&mut self) -> Vec<(i32, String)> {
        // what cannot be read now may be at the next call
        let _ = (&mut self.file).take(MOST_STATUS).read_to_end(&mut self.part);
        let whole = self.part.iter().rposition(|octet| *octet == b'\n').map_or(0, |at| at + 1);
        let whole: Vec<u8> = self.part.drain(..whole).collect();
        let cause = |line: &str| {
            let (pid, cause) = line.split_once(' ')?;
            Some((pid.parse().ok()?, cause.to_owned()))
        };
        String::from_utf8_lossy(&whole).lines().filter_map(cause).collect()
    }
}

/// The size of the folder's status file, in octets. It is 0 if there is no such file yet.
#[must_use]
pub fn told_octets(folder: &Path) -> u64 {
    std::fs::metadata(folder.join(STATUS)).map_or(0, |meta| meta.len())
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
    fn each_cause_is_told_once() {
        let dir = std::env::temp_dir().join(format!("pct-status-{}", std::process::id()));
        std::fs::create_dir_all(&dir).expect("made");
        let text = "1 disk full\n2 disk full\n3 no clock\nnonsense\n4\t700\n5\t20\t900\ttrue x\n4\t1\n6\t9\n7\tx\n\
                    8 busybox is a static program, which no library can be preloaded into: not sampled (-)\n";
        std::fs::write(dir.join(STATUS), text).expect("written");
        let lines = causes(&dir);
        assert_eq!(lines[..2], ["disk full (process 1 and 1 more)", "no clock (process 3)"]);
        let images = unsampled_images(&dir);
        assert_eq!(without_sample(&images, &HashSet::from([6])), (2, 721));
        let truth = UnsampledImage { pid: 5, used_ns: 20, all_ns: Some(900), name: "true x".into() };
        assert_eq!(images[1], truth);
        assert_eq!(not_profiled(&dir), ["busybox"]);
        assert_eq!(heard_of(&dir), HashSet::from([1, 2, 3, 4, 5, 6, 7, 8]));
        assert_eq!([1, 3, 4, 9, 30].map(|pid| has_told(&dir, pid)), [true, true, false, false, false]);
        std::fs::remove_dir_all(&dir).expect("removed");
        assert!(causes(&dir).is_empty());
    }

    #[test]
    fn files_that_could_not_be_made_in_one_folder_are_one_cause() {
        let dir = tempfile::tempdir().expect("a folder");
        let text = "1 cannot create /x/a-1.pct: ENOSPC\n2 cannot create /x/b-2.pct: ENOSPC\n3 cannot create /y/b-2.pct: ENOSPC\n\
                    4 cannot create\n5 cannot create a: b\n";
        std::fs::write(dir.path().join(STATUS), text).expect("written");
        assert_eq!(
            causes(dir.path()),
            [
                "cannot create files in /x: ENOSPC (process 1 and 1 more)",
                "cannot create files in /y: ENOSPC (process 3)",
                "cannot create (process 4)",
                "cannot create a: b (process 5)",
            ]
        );
    }

    fn folder_with(text: &str) -> tempfile::TempDir {
        let dir = tempfile::tempdir().expect("a folder");
        std::fs::write(dir.path().join(STATUS), text).expect("written");
        dir
    }

    #[test]
    fn who_is_sampled_from_outside_is_no_gap() {
        let taken =
            "the program took the sampling signal for itself and no other is free: sampling ends there";
        let of_static = "is a static program, which no library can be preloaded into: not sampled (-)";
        let pauses =
            "it gives up new privileges: sampling pauses until its filter on system calls is seen, or so";
        let executes = "its filter on system calls would kill a sampled program: what it executes from then on is not sampled";
        let text = format!(
            "1 {pauses}\n1 {executes}\n1 {taken}\n1 disk full\n2 {taken}\n3 a {of_static}\n4 b {of_static}\n"
        );
        let dir = folder_with(&text);
        assert!(taken_over(dir.path()).is_empty());
        assert_eq!(causes(dir.path()).len(), 6);
        assert_eq!(not_profiled(dir.path()), ["a", "b"]);
        tell_taken_over(dir.path(), 1);
        tell_taken_over(dir.path(), 4);
        assert_eq!(
            taken_over(dir.path()),
            [
                "the program took the sampling signal for itself and no other is free: sampled from outside from there on \
                 (process 1)",
                "b is a static program, which no library can be preloaded into: sampled from outside from there on (process 4)",
            ]
        );
        let left = causes(dir.path());
        let whose: Vec<_> =
            left.iter().filter_map(|line| line.rsplit_once(" (process ")).map(|told| told.1).collect();
        assert_eq!(whose, ["1)", "2)", "3)"], "{left:?}");
        assert_eq!(not_profiled(dir.path()), ["a"]);
        assert!(unsampled_images(dir.path()).is_empty());
    }

    #[test]
    fn a_pause_that_is_over_is_no_gap() {
        let pauses =
            "it gives up new privileges: sampling pauses until its filter on system calls is seen, or so";
        let text = format!(
            "1 {pauses}\n2 {pauses}\n1\tresumed\n3 {pauses}\n3\tresumed\n3 {pauses}\n1 disk full\n4\tresumed\n"
        );
        let dir = folder_with(&text);
        assert_eq!(
            causes(dir.path()),
            [format!("{pauses} (process 2 and 1 more)"), "disk full (process 1)".into()]
        );
        assert!(unsampled_images(dir.path()).is_empty());
    }

    #[test]
    fn what_the_library_says_tells_whether_the_outside_is_left() {
        let of = |cause: &str| Beyond::find_in(cause);
        assert_eq!(of("x runs under another root, where /l is not: not sampled (-)"), Some(Beyond::Now));
        assert_eq!(
            of("x is a static program, which no library can be preloaded into: not sampled (-)"),
            Some(Beyond::NextProgram)
        );
        for no in [
            "x is a 32-bit program, which no library can be preloaded into: not sampled (-)",
            "the program uses the itimer's signal itself: sampling by clock=itimer ends there (-)",
            "the program took the sampling signal for itself and no other is free",
            "disk full",
            "",
        ] {
            assert_eq!(of(no), None, "{no}");
        }
    }

    #[test]
    fn tellings_come_once_and_whole() {
        let dir = folder_with("1 of a run before\n");
        let mut tellings = Tellings::after(dir.path(), told_octets(dir.path())).expect("opened");
        assert!(tellings.read().is_empty());
        append(dir.path(), "2 one\n3\t700\nnonsense\n4 tw");
        assert_eq!(tellings.read(), [(2, "one".to_owned())]);
        assert!(tellings.read().is_empty());
        append(dir.path(), "o\n");
        assert_eq!(tellings.read(), [(4, "two".to_owned())]);
        assert_eq!(told_octets(Path::new("/nowhere")), 0);
    }
}
