//! Perf maps of the run's processes, watched while they grow and copied beside the recordings.
//!
//! Runtimes write `/tmp/perf-PID.map` as they compile, and put new code where old code was. So which line
//! holds for a sample depends on when the line was written, and the map does not say. Here a thread looks at
//! the length of each map again and again; what it saw goes into `perf-PID.times` beside the copy
//! (docs/pct-format.md). Without maps it looks ten times a second, with maps fifty times, and two hundred
//! times where one grew lately. It holds maps open, so that a program may take its map away at its end.
//!
//! The same looks hold programs and libraries open (`held_objects`). Java programs are asked for their names
//! (`java`), unless the user forbids it.

use super::held_objects::HeldObjects;
use super::java::{Asker, JavaNames};
use nix::fcntl::OFlag;
use nix::sys::resource::{RLIM_INFINITY, Resource, getrlimit};
use nix::sys::signal::{SigSet, SigmaskHow};
use pct_profile::load;
use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};

/// Between two looks for new processes and maps.
const IDLE: Duration = Duration::from_millis(100);
/// Between two looks at maps that do not grow.
const STEADY: Duration = Duration::from_millis(20);
/// Between two looks at maps of which one grew lately.
const BUSY: Duration = Duration::from_millis(5);
/// So long ago is lately.
const LATELY: Duration = Duration::from_secs(1);
/// Maps that are held open; others are copied at the end, if they are still there.
const MOST_OPEN: usize = 200;
/// Octets of the thread's stack.
const STACK: usize = 256 << 10;
/// Larger maps are not copied.
const MOST_OCTETS: u64 = 256 << 20;

/// The watch; [`Watch::end`] ends it.
pub struct Watch {
    stop: Sender<()>,
    thread: JoinHandle<Watched>,
}

impl Watch {
    /// Of the processes that record into this folder. `None` if there can be no thread, or if memory is
    /// limited: memory that runs out would end pct, and with it the program's status. Then no maps are
    /// copied.
    #[must_use]
    pub fn begin(folder: &Path, ask_java: bool) -> Option<Watch> {
        if getrlimit(Resource::RLIMIT_AS).is_ok_and(|(soft, _)| soft != RLIM_INFINITY) {
            return None;
        }
        let (stop, stopped) = channel();
        // Signals are for the thread that waits for the program.
        let before = SigSet::all().thread_swap_mask(SigmaskHow::SIG_BLOCK).ok()?;
        let asker = ask_java.then(Asker::begin).flatten();
        let mut watched = Watched { folder: folder.to_owned(), asker, ..Watched::default() };
        let work = move || {
            watched.until(&stopped);
            watched
        };
        let thread = std::thread::Builder::new().name("pct-maps".into()).stack_size(STACK).spawn(work);
        let _ = before.thread_set_mask();
        Some(Watch { stop, thread: thread.ok()? })
    }

    /// Ends the thread; `None` if it failed. What was seen is to be copied.
    #[must_use]
    pub fn end(self) -> Option<Watched> {
        let _ = self.stop.send(());
        let mut watched = self.thread.join().ok()?;
        watched.java = watched.asker.take().map(Asker::end).unwrap_or_default();
        Some(watched)
    }
}

/// A map and how long it was when.
struct Map {
    file: File,
    inode: u64,
    /// Nanoseconds since 1970, octets; at growth, and at the look before.
    looks: Vec<(u64, u64)>,
    last_look_ns: u64,
}

/// What a recording says of its process.
#[derive(Clone, Copy)]
struct Process {
    /// As it sees itself: maps are named by that.
    ns_pid: u32,
    uid: u32,
    /// Clock ticks after boot.
    start_ticks: u64,
    since_realtime_ns: Option<u64>,
}

/// What was seen of a run's maps.
#[derive(Default)]
pub struct Watched {
    folder: PathBuf,
    /// Recordings whose process is known, with its number.
    recordings: HashMap<PathBuf, u32>,
    /// By process id.
    maps: HashMap<u32, (Process, Option<Map>)>,
    objects: HeldObjects,
    /// When copies of objects were made last.
    copied_at: Option<Instant>,
    asker: Option<Asker>,
    /// What Java programs were asked, by process id, once the asker has ended.
    java: HashMap<u32, JavaNames>,
}

impl Watched {
    fn until(&mut self, stopped: &Receiver<()>) {
        let mut grew = None::<Instant>;
        let mut find_at = Instant::now();
        loop {
            let now = Instant::now();
            if now >= find_at {
                self.find();
                self.copy_early();
                // Of thousands of processes no more than a part of a processor's time.
                find_at = Instant::now() + IDLE.max(now.elapsed() * 50);
            }
            if self.note_lengths() {
                grew = Some(now);
            }
            let pause = match grew {
                Some(at) if at.elapsed() < LATELY => BUSY,
                Some(_) => STEADY,
                None => IDLE,
            };
            if stopped.recv_timeout(pause) != Err(RecvTimeoutError::Timeout) {
                return;
            }
        }
    }

    /// New processes, new maps, and maps that were made anew.
    fn find(&mut self) {
        let entries = std::fs::read_dir(&self.folder).into_iter().flatten().filter_map(Result::ok);
        for path in
            entries.map(|entry| entry.path()).filter(|path| path.extension().is_some_and(|e| e == "pct"))
        {
            let known = self.recordings.get(&path).copied();
            let pid = known.or_else(|| {
                let (pid, process) = process_of(&path)?;
                self.recordings.insert(path.clone(), pid);
                self.maps.insert(pid, (process, None));
                self.asker.iter().for_each(|asker| asker.add(pid, process.start_ticks, path.clone()));
                Some(pid)
            });
            if let Some(pid) = pid {
                self.objects.note_mappings(&path, pid);
            }
        }
        let mut open = self.maps.values().filter(|(_, map)| map.is_some()).count();
        for (process, map) in self.maps.values_mut() {
            let path = PathBuf::from(format!("/tmp/perf-{}.map", process.ns_pid));
            let Ok(meta) = std::fs::symlink_metadata(&path) else { continue };
            if map.as_ref().is_some_and(|map| map.inode == meta.ino()) || open >= MOST_OPEN {
                continue;
            }
            open += 1;
            *map = Map::open(&path, *process).or(map.take());
        }
    }

    /// Copies what is gone while the program runs: pct may be killed. What fails is tried again at the end. A folder
    /// in the target's file system is no place for copies.
    fn copy_early(&mut self) {
        let is_due = self.copied_at.is_none_or(|at| at.elapsed() >= Duration::from_secs(1));
        if is_due && !self.folder.starts_with("/proc") {
            let _ = self.objects.copy(&self.folder);
            self.copied_at = Some(Instant::now());
        }
    }

    /// Notes lengths; whether one has changed.
    fn note_lengths(&mut self) -> bool {
        let mut grew = false;
        for map in self.maps.values_mut().filter_map(|(_, map)| map.as_mut()) {
            grew |= map.note_length();
        }
        grew
    }

    /// Looks once more, and copies the maps into `folder`, in which the recordings are by now.
    ///
    /// # Errors
    /// The first copy that could not be written.
    pub fn copy(&mut self, folder: &Path) -> io::Result<()> {
        self.find();
        self.note_lengths();
        self.java.retain(|_, names| !names.maps.text().is_empty() || names.trouble.is_some());
        for (pid, names) in self.java.iter_mut().filter(|(_, names)| !names.maps.text().is_empty()) {
            if let Some((_, Some(map))) = self.maps.get_mut(pid) {
                map.add_to(names);
            }
        }
        for (pid, names) in self.java.iter().filter(|(_, names)| !names.maps.text().is_empty()) {
            self.maps.remove(pid);
            write(folder, *pid, &mut names.maps.text(), names.maps.lengths())?;
        }
        for (pid, (_, map)) in &mut self.maps {
            let Some(map) = map else { continue };
            let length = map.file.metadata()?.len();
            if length == 0 || length > MOST_OCTETS {
                continue;
            }
            map.file.rewind()?;
            write(folder, *pid, &mut (&map.file).take(MOST_OCTETS), &map.looks)?;
        }
        Ok(())
    }

    /// Copies programs and libraries that were deleted or replaced meanwhile into `folder`, in which the recordings
    /// are by now. Returns a line for each that could not be kept, with the reason.
    ///
    /// # Errors
    /// The first copy that could not be written.
    pub fn copy_objects(&mut self, folder: &Path) -> io::Result<&[String]> {
        self.objects.copy(folder)?;
        Ok(self.objects.remarks())
    }

    /// The Java programs that gave no names: a line for each, with the reason.
    pub fn java_without_names(&self) -> impl Iterator<Item = String> {
        self.java.iter().filter(|(_, names)| names.maps.text().is_empty()).filter_map(|(pid, names)| {
            let why = names.trouble.as_ref()?;
            Some(format!("process {pid}: Java was not asked for the names of its compiled functions: {why}"))
        })
    }
}

/// Writes a copy of a process's map, and how long it was when.
fn write(folder: &Path, pid: u32, map: &mut dyn io::Read, looks: &[(u64, u64)]) -> io::Result<()> {
    let path = folder.join(format!("perf-{pid}.map"));
    io::copy(map, &mut anew(&path)?)?;
    let looks: String = looks.iter().map(|(at, octets)| format!("{at} {octets}\n")).collect();
    anew(&path.with_extension(pct_symbols::jit::TIMES))?.write_all(looks.as_bytes())
}

impl Map {
    /// Only one that the process's user or root wrote, and since it began: another may have had its number.
    fn open(path: &Path, process: Process) -> Option<Map> {
        let flags = (OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK).bits();
        let file = OpenOptions::new().read(true).custom_flags(flags).open(path).ok()?;
        let meta = file.metadata().ok()?;
        let written = u64::try_from(meta.mtime()).unwrap_or(0);
        let since = process.since_realtime_ns.map_or(0, |ns| ns / 1_000_000_000);
        let fits = meta.is_file() && (meta.uid() == process.uid || meta.uid() == 0) && written >= since;
        fits.then(|| Map { inode: meta.ino(), file, looks: Vec::new(), last_look_ns: 0 })
    }

    /// A map that a JVM wrote at its end, as some options demand, has the names that it was not asked for.
    fn add_to(&mut self, names: &mut JavaNames) {
        let mut octets = Vec::new();
        let read = self.file.rewind().and_then(|()| (&self.file).take(MOST_OCTETS).read_to_end(&mut octets));
        if read.is_ok() {
            let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
            names.maps.add(&octets, u64::try_from(now.as_nanos()).unwrap_or(u64::MAX));
        }
    }

    fn note_length(&mut self) -> bool {
        let Ok(octets) = self.file.metadata().map(|meta| meta.len()) else { return false };
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let now = u64::try_from(now.as_nanos()).unwrap_or(u64::MAX);
        let before = self.looks.last().map_or(0, |(_, octets)| *octets);
        let last = std::mem::replace(&mut self.last_look_ns, now);
        if octets < before {
            // Begun anew: what was seen of the old contents says nothing.
            self.looks.clear();
        }
        if octets == before {
            return false;
        }
        // What is new was not there at the last look, which may be long after it grew before.
        if octets > before && self.looks.last().is_some_and(|(at, _)| *at < last) {
            self.looks.push((last, before));
        }
        self.looks.push((now, octets));
        true
    }
}

/// The process of a recording, by the header that it begins with.
fn process_of(path: &Path) -> Option<(u32, Process)> {
    let mut octets = Vec::new();
    File::open(path).ok()?.take(pct_format::layout::BLOCK_BYTES as u64).read_to_end(&mut octets).ok()?;
    let file = pct_format::File::parse(&octets).ok()?;
    let header = file.header();
    let process = Process {
        ns_pid: header.ns_pid(),
        uid: header.uid(),
        start_ticks: header.start_ticks(),
        since_realtime_ns: load::start_of_process(&header),
    };
    Some((header.pid(), process)).filter(|(pid, _)| *pid != 0)
}

/// A file of the folder, made anew: an earlier run's has the same name only if it was of a process of the same number.
fn anew(path: &Path) -> io::Result<File> {
    let _ = std::fs::remove_file(path);
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use pct_format::builder::Builder;
    use pct_format::layout::header;

    /// A map of a process that there is not, since its number is larger than any.
    struct Shared(PathBuf);

    impl Drop for Shared {
        fn drop(&mut self) {
            let _ = std::fs::remove_file(&self.0);
        }
    }

    #[test]
    fn a_map_that_grows_is_copied_with_the_times_of_its_looks() {
        let dir = tempfile::tempdir().expect("a folder");
        let pid = (1 << 30) + std::process::id();
        let map = Shared(PathBuf::from(format!("/tmp/perf-{pid}.map")));
        let mut recording = Builder::new();
        let uid = u64::from(nix::unistd::geteuid().as_raw());
        recording
            .set_header_word(header::PID, u64::from(pid))
            .set_header_word(header::NS_PID, u64::from(pid))
            .set_header_word(header::UID, uid);
        std::fs::write(dir.path().join("x.pct"), recording.finish()).expect("written");
        std::fs::write(&map.0, "1000 10 a\n").expect("written");
        let mut watched = Watched { folder: dir.path().to_owned(), ..Watched::default() };
        watched.find();
        assert!(watched.note_lengths() && !watched.note_lengths());
        // The last look before it grows again is written down too.
        std::fs::write(&map.0, "1000 10 a\n1000 10 b\n").expect("written");
        assert!(watched.note_lengths());
        // What the program takes away at its end is held open.
        std::fs::remove_file(&map.0).expect("removed");
        watched.copy(dir.path()).expect("copied");
        let copy = dir.path().join(format!("perf-{pid}.map"));
        assert_eq!(std::fs::read_to_string(&copy).expect("read"), "1000 10 a\n1000 10 b\n");
        let times = std::fs::read_to_string(copy.with_extension("times")).expect("read");
        let lengths: Vec<&str> = times.lines().filter_map(|line| line.split(' ').nth(1)).collect();
        assert_eq!(lengths, ["10", "10", "20"]);
    }

    #[test]
    fn a_map_of_somebody_else_or_of_an_earlier_process_is_not_taken() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("map");
        std::fs::write(&path, "1000 10 a\n").expect("written");
        let uid = nix::unistd::geteuid().as_raw();
        let process = Process { ns_pid: 7, uid, start_ticks: 0, since_realtime_ns: None };
        assert!(Map::open(&path, process).is_some());
        assert!(uid == 0 || Map::open(&path, Process { uid: uid + 1, ..process }).is_none());
        let later = Process { since_realtime_ns: Some(u64::MAX), ..process };
        assert!(Map::open(&path, later).is_none());
        let link = dir.path().join("link");
        std::os::unix::fs::symlink(&path, &link).expect("linked");
        assert!(Map::open(&link, process).is_none());
    }
}
