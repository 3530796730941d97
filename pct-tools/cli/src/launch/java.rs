//! Asks the Java programs of a run for the names of the functions that they have compiled, unless their samples carry
//! the functions themselves: the recording says so.
//!
//! A JVM cannot be asked when it has ended, and it frees code while it runs. So a thread asks again and again,
//! the less often the longer the program runs: what was compiled since the last question, at most an eighth of
//! the program's life and at most ten seconds, may have no names. A question costs the program some
//! milliseconds; it is asked so rarely that this stays below a twentieth of a processor in the worst case.

use super::snapshots::Snapshots;
use pct_attach::facts;
use pct_attach::hotspot::{self, Jvm, JvmState};
use pct_format::layout::header as at;
use pct_format::record::InterpreterState;
use pct_format::{Recorder, StackMode};
use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};

/// Between two questions, or two looks whether a process is a JVM by now: at least and at most.
const SOONEST: Duration = Duration::from_millis(250);
const LATEST: Duration = Duration::from_secs(10);
/// The part of a process's life that may pass between two questions.
const PART_OF_LIFE: u32 = 8;
/// How many times the duration of a question passes before the next one.
const REST: u32 = 20;
/// How long a JVM may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// A JVM that gave no answer so many times in a row is not asked again.
const MOST_FAILURES: u32 = 3;
/// Octets of the thread's stack.
const STACK: usize = 256 << 10;

/// The thread that asks.
pub(super) struct Asker {
    /// Processes to look at: number, start in clock ticks since boot, recording. Dropped, it ends the thread.
    processes: Sender<(u32, u64, PathBuf)>,
    ends: Arc<AtomicBool>,
    thread: JoinHandle<HashMap<u32, JavaNames>>,
}

/// What one process was asked.
#[derive(Default)]
pub(super) struct JavaNames {
    pub maps: Snapshots,
    /// Why there are no names, in words, if it is a JVM that did not give any.
    pub trouble: Option<String>,
}

impl Asker {
    /// `None` if there can be no thread.
    pub(super) fn begin() -> Option<Asker> {
        let (processes, found) = channel();
        let ends = Arc::new(AtomicBool::new(false));
        let work = {
            let ends = Arc::clone(&ends);
            move || ask_all(&found, &ends)
        };
        let thread = std::thread::Builder::new().name("pct-java".into()).stack_size(STACK).spawn(work);
        Some(Asker { processes, ends, thread: thread.ok()? })
    }

    /// A process that writes a recording; `start` in clock ticks since boot says which of those that had its number.
    pub(super) fn add(&self, pid: u32, start: u64, recording: PathBuf) {
        let _ = self.processes.send((pid, start, recording));
    }

    /// Asks those that still run once more and ends the thread. What it learned, by number of process.
    pub(super) fn end(self) -> HashMap<u32, JavaNames> {
        self.ends.store(true, Ordering::Relaxed);
        drop(self.processes);
        self.thread.join().unwrap_or_default()
    }
}

/// A process and what is known of it.
struct Asked {
    pid: i32,
    start: u64,
    recording: PathBuf,
    since: Instant,
    /// `None`: it is not looked at again.
    next: Option<Instant>,
    jvm: Option<Box<Jvm>>,
    failures: u32,
    names: JavaNames,
}

fn ask_all(found: &Receiver<(u32, u64, PathBuf)>, ends: &AtomicBool) -> HashMap<u32, JavaNames> {
    let mut all: HashMap<u32, Asked> = HashMap::new();
    loop {
        let next = all.values().filter_map(|asked| asked.next).min();
        let pause = next.map_or(LATEST, |at| at.saturating_duration_since(Instant::now()));
        match found.recv_timeout(pause) {
            Ok((pid, start, recording)) => {
                all.insert(pid, Asked::new(pid, start, recording));
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
        let now = Instant::now();
        for asked in all.values_mut().filter(|asked| asked.next.is_some_and(|at| at <= now)) {
            asked.ask(&|| ends.load(Ordering::Relaxed));
        }
    }
    let ended = |(pid, mut asked): (u32, Asked)| {
        // It may run on, where pct was only attached to it for a while.
        if asked.next.is_some() {
            asked.ask(&|| false);
        }
        asked.jvm.iter().for_each(|jvm| jvm.remove_map());
        (pid, asked.names)
    };
    all.into_iter().map(ended).collect()
}

impl Asked {
    fn new(pid: u32, start: u64, recording: PathBuf) -> Asked {
        let now = Instant::now();
        let pid = i32::try_from(pid).unwrap_or(0);
        let (next, names) = (Some(now), JavaNames::default());
        Asked { pid, start, recording, since: now, next, jvm: None, failures: 0, names }
    }

    /// Asks, if it can be asked, and decides when to ask again.
    fn ask(&mut self, stop: &dyn Fn() -> bool) {
        let began = Instant::now();
        self.next = None;
        if facts::start_time(self.pid) != Some(self.start) {
            return;
        }
        match told(&self.recording) {
            Some(Told::Frames) => return,
            Some(Told::NotYet) => return self.rest(began),
            Some(Told::NoFrames) | None => {}
        }
        if self.jvm.is_none() {
            match hotspot::examine(self.pid) {
                JvmState::Absent | JvmState::Starting => {}
                JvmState::Closed(why) => {
                    self.names.trouble = Some(why.to_string());
                    return;
                }
                JvmState::Open(jvm) => self.jvm = Some(jvm),
            }
        }
        match self.jvm.as_mut().map(|jvm| jvm.perf_map(PATIENCE, stop)) {
            None => {}
            Some(Ok(map)) => {
                let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
                self.names.maps.add(&map, u64::try_from(now.as_nanos()).unwrap_or(u64::MAX));
                self.names.trouble = None;
                self.failures = 0;
            }
            // It ended meanwhile, or pct does.
            Some(Err(why)) if why.is_end() || stop() => {}
            Some(Err(why)) => {
                self.names.trouble = Some(why.to_string());
                self.failures += 1;
                if self.failures == MOST_FAILURES {
                    return;
                }
            }
        }
        self.rest(began);
    }

    /// Decides when to look again, after what began at `began`.
    fn rest(&mut self, began: Instant) {
        let now = Instant::now();
        let rest = (now - self.since) / PART_OF_LIFE;
        self.next = Some(now + rest.clamp(SOONEST, LATEST).max((now - began) * REST));
    }
}

/// What a recording tells of the Java virtual machine of its process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Told {
    /// Samples carry its functions.
    Frames,
    /// Samples do not carry its functions.
    NoFrames,
    /// The process has no Java virtual machine so far, or it is still starting.
    NotYet,
}

/// `None`: nothing of the recording can be read.
fn told(recording: &Path) -> Option<Told> {
    let file = File::open(recording).ok()?;
    let word = |index: usize| {
        let mut octets = [0; 8];
        file.read_exact_at(&mut octets, 8 * u64::try_from(index).ok()?).ok()?;
        Some(u64::from_le_bytes(octets))
    };
    // Who walks its stacks says what is found.
    let walks =
        word(at::RECORDER)? == Recorder::Log as u64 && word(at::STACK_MODE)? != StackMode::None as u64;
    Some(match word(at::JAVA)? {
        _ if !walks => Told::NoFrames,
        0 => Told::NotYet,
        state if state == InterpreterState::Read as u64 => Told::Frames,
        _ => Told::NoFrames,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use pct_format::builder::Builder;

    #[test]
    fn a_recording_tells_whether_java_is_to_be_asked() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("x.pct");
        let told_with = |words: &[(usize, u64)]| {
            let mut recording = Builder::new();
            let usual = [(at::RECORDER, Recorder::Log as u64), (at::STACK_MODE, StackMode::Auto as u64)];
            for (index, word) in usual.iter().chain(words) {
                recording.set_header_word(*index, *word);
            }
            std::fs::write(&path, recording.finish()).expect("written");
            told(&path)
        };
        let read = (at::JAVA, InterpreterState::Read as u64);
        assert_eq!(told_with(&[]), Some(Told::NotYet));
        assert_eq!(told_with(&[read]), Some(Told::Frames));
        assert_eq!(told_with(&[(at::JAVA, InterpreterState::SwitchedOff as u64)]), Some(Told::NoFrames));
        // Without stacks and with counters there are no frames, whatever is found.
        let without = [(at::RECORDER, Recorder::Counts as u64), (at::STACK_MODE, StackMode::None as u64)];
        for word in without {
            assert_eq!(told_with(&[word]), Some(Told::NoFrames));
            assert_eq!(told_with(&[read, word]), Some(Told::NoFrames));
        }
        std::fs::write(&path, b"short").expect("written");
        assert_eq!(told(&path), None);
        assert_eq!(told(&folder.path().join("none")), None);
    }
}
