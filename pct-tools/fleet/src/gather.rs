//! From a profile to rows of the tables.

use crate::INTERVAL_S;
use crate::ids::{self, CodePlace, ENDS, Kind, NO_STACK, STACK_ID};
use crate::private;
use crate::tables::{Build, Host, Location, Sample, Stack};
use pct_profile::Profile;
use pct_profile::model::{Id as _, Loss, ObjectId, ObjectKind, StackId, ThreadId};
use rustc_hash::{FxHashMap, FxHashSet};
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::Path;

/// Frames of a stack at most; deeper ones are cut, and their outermost frame says so.
pub const DEEPEST: usize = 512;
/// Nanoseconds in a microsecond.
const NS_IN_US: u64 = 1000;

/// What the profile does not know of itself.
#[derive(Clone, Debug, Default)]
pub struct Origin {
    /// The service; empty: each process's name.
    pub service: String,
    /// Its version.
    pub version: String,
    /// The host.
    pub host: String,
    /// Environment.
    pub env: String,
    /// Write no names of threads.
    pub without_threads: bool,
}

/// Rows of all tables, each sorted and without doubles.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tables {
    /// Sums by interval and stack.
    pub samples: Vec<Sample>,
    /// The stacks.
    pub stacks: Vec<Stack>,
    /// Functions at places in code.
    pub locations: Vec<Location>,
    /// Files of code.
    pub builds: Vec<Build>,
    /// How it was sampled.
    pub hosts: Vec<Host>,
}

impl Tables {
    /// Adds the rows of other tables.
    pub fn add(&mut self, other: Self) {
        self.samples.extend(other.samples);
        self.stacks.extend(other.stacks);
        self.locations.extend(other.locations);
        self.builds.extend(other.builds);
        self.hosts.extend(other.hosts);
        self.tidy();
    }

    /// Keeps only these stacks, and the locations and builds that they name.
    pub fn keep_stacks(&mut self, is_kept: impl Fn(&[u8]) -> bool) {
        self.stacks.retain(|stack| is_kept(&stack.stack_id));
        let frames = self.stacks.iter().flat_map(|stack| &stack.frames);
        let places: FxHashSet<(Vec<u8>, i64)> =
            frames.map(|frame| (frame.build_id.clone(), frame.addr)).collect();
        let builds: FxHashSet<&[u8]> = places.iter().map(|(build, _)| build.as_slice()).collect();
        self.builds.retain(|row| builds.contains(row.build_id.as_slice()));
        self.locations.retain(|row| places.contains(&(row.build_id.clone(), row.addr)));
    }

    /// Sorts all rows; what differs in nothing but numbers becomes one row.
    fn tidy(&mut self) {
        self.samples = merge_samples(std::mem::take(&mut self.samples));
        self.stacks.sort_by_key(|stack| (stack.stack_id, stack.first_seen));
        self.stacks.dedup_by_key(|stack| stack.stack_id);
        self.locations.sort();
        self.locations.dedup();
        self.builds.sort_by(|a, b| (&a.build_id, a.first_seen).cmp(&(&b.build_id, b.first_seen)));
        self.builds.dedup_by(|later, first| {
            let same = later.build_id == first.build_id;
            if same && first.symbols == "none" {
                first.symbols.clone_from(&later.symbols);
            }
            same
        });
        let whose =
            |row: &Host| (row.host.clone(), row.service.clone(), row.clock.clone(), row.hz_asked, row.hz);
        self.hosts.sort();
        self.hosts.dedup_by(|later, first| whose(later) == whose(first));
    }
}

/// Makes the rows. The profile must have been loaded with its timeline; samples without a time are counted at
/// its start.
#[must_use]
pub fn gather(profile: &Profile, origin: &Origin) -> Tables {
    let mut tables = Tables::default();
    let start = microseconds(profile.start_realtime_ns);
    let mut places = Places { profile, start, builds: FxHashMap::default(), tables: &mut tables };
    let mut ids: Vec<Option<[u8; STACK_ID]>> = vec![None; profile.stacks.len()];
    let mut sums: FxHashMap<Key, (u64, u64)> = FxHashMap::default();
    for (key, samples, ns) in counted(profile, start) {
        let stack_id = *ids[key.stack.index()].get_or_insert_with(|| places.stack(key.stack, key.interval));
        let sum = sums.entry(Key { stack_id, ..key }).or_default();
        sum.0 += samples;
        sum.1 += ns;
    }
    let kind = if profile.by_wall_clock() { "wall" } else { "cpu" };
    let row = |thread: Option<ThreadId>, interval: i64| {
        let process = thread.map(|thread| profile.process_of(thread));
        Sample {
            service: service(origin, process.map_or("", |process| &process.name)),
            version: origin.version.clone(),
            stack_id: NO_STACK,
            host: origin.host.clone(),
            ts: interval,
            thread: thread.map_or_else(String::new, |thread| thread_name(profile, thread, origin)),
            kind: kind.to_owned(),
            env: origin.env.clone(),
            samples: 0,
            value: 0,
            lost: 0,
        }
    };
    let mut samples: Vec<Sample> = sums
        .into_iter()
        .map(|(key, (samples, ns))| Sample {
            stack_id: key.stack_id,
            samples: i32::try_from(samples).unwrap_or(i32::MAX),
            value: i64::try_from(ns).unwrap_or(i64::MAX),
            ..row(Some(key.thread), key.interval)
        })
        .collect();
    let lost = lost_ns(profile);
    if lost > 0 {
        let first = profile.threads.ids().next();
        samples.push(Sample { lost, thread: String::new(), ..row(first, interval(start)) });
    }
    tables.samples = samples;
    tables.hosts = profile
        .processes
        .iter()
        .map(|process| Host {
            host: origin.host.clone(),
            service: service(origin, &process.name),
            clock: process.clock.clone(),
            hz_asked: i32::try_from(process.hz_asked).unwrap_or(i32::MAX),
            hz: i32::try_from(process.hz).unwrap_or(i32::MAX),
            first_seen: start,
            pct: env!("CARGO_PKG_VERSION").to_owned(),
        })
        .collect();
    tables.tidy();
    tables
}

/// What a sum is of. `stack` is not part of it: two stacks of a profile can be one in the tables.
#[derive(Clone, Copy)]
struct Key {
    interval: i64,
    thread: ThreadId,
    stack: StackId,
    stack_id: [u8; STACK_ID],
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        (self.interval, self.thread, self.stack_id) == (other.interval, other.thread, other.stack_id)
    }
}
impl Eq for Key {}
impl std::hash::Hash for Key {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        (self.interval, self.thread, self.stack_id).hash(state);
    }
}

/// All that was measured: what has a time at its time, the rest at the start. The sum is exactly that of the
/// profile's cells.
fn counted(profile: &Profile, start: i64) -> Vec<(Key, u64, u64)> {
    let key = |interval, thread, stack| Key { interval, thread, stack, stack_id: NO_STACK };
    let mut rest: FxHashMap<(ThreadId, StackId), (u64, u64)> = profile
        .cells
        .iter()
        .map(|cell| ((cell.thread, cell.stack), (cell.weight.samples, cell.weight.cpu_ns())))
        .collect();
    let mut all = Vec::with_capacity(profile.timeline.len());
    for sample in &profile.timeline {
        let Some(left) = rest.get_mut(&(sample.thread, sample.stack)) else { continue };
        let samples = left.0.min(1);
        let ns = sample.weight_ns.min(left.1);
        *left = (left.0 - samples, left.1 - ns);
        let at = start.saturating_add(microseconds(sample.time_ns));
        all.push((key(interval(at), sample.thread, sample.stack), samples, ns));
    }
    let left = rest.into_iter().filter(|(_, left)| *left != (0, 0));
    all.extend(
        left.map(|((thread, stack), (samples, ns))| (key(interval(start), thread, stack), samples, ns)),
    );
    all
}

/// Rows that differ in nothing but their numbers become one.
pub(crate) fn merge_samples(mut samples: Vec<Sample>) -> Vec<Sample> {
    samples.sort();
    let mut rows: Vec<Sample> = Vec::with_capacity(samples.len());
    for row in samples {
        let same = |last: &Sample| {
            Sample { samples: 0, value: 0, lost: 0, ..last.clone() }
                == Sample { samples: 0, value: 0, lost: 0, ..row.clone() }
        };
        match rows.last_mut().filter(|last| same(last)) {
            Some(last) => {
                last.samples = last.samples.saturating_add(row.samples);
                last.value = last.value.saturating_add(row.value);
                last.lost = last.lost.saturating_add(row.lost);
            }
            None => rows.push(row),
        }
    }
    rows
}

fn microseconds(ns: u64) -> i64 {
    i64::try_from(ns / NS_IN_US).unwrap_or(i64::MAX)
}

/// The start, in microseconds since 1970, of the interval that a time in nanoseconds since 1970 lies in.
#[must_use]
pub fn interval_of(ns: u64) -> i64 {
    interval(microseconds(ns))
}

/// The start of the interval that a time lies in; both in microseconds.
fn interval(at: i64) -> i64 {
    let length = INTERVAL_S * 1_000_000;
    at - at.rem_euclid(length)
}

fn service(origin: &Origin, process: &str) -> String {
    if origin.service.is_empty() { process.to_owned() } else { origin.service.clone() }
}

/// The name with runs of digits cut: `worker-17` is `worker-#`, so that threads of a kind are one.
fn thread_name(profile: &Profile, thread: ThreadId, origin: &Origin) -> String {
    if origin.without_threads {
        return String::new();
    }
    let mut name = String::new();
    for letter in profile.threads[thread].name.chars() {
        match letter {
            '0'..='9' if name.ends_with('#') => {}
            '0'..='9' => name.push('#'),
            other => name.push(other),
        }
    }
    name
}

/// Time that was due and is in no row. What no time is known of counts by the mean weight of a sample.
fn lost_ns(profile: &Profile) -> i64 {
    let total = profile.total();
    let mean = total.cpu_ns().checked_div(total.samples).unwrap_or(0);
    let ns = |loss: &Loss| if loss.ns == 0 { loss.samples.saturating_mul(mean) } else { loss.ns };
    let lost = profile.account.losses.iter().map(ns).fold(0, u64::saturating_add);
    i64::try_from(lost).unwrap_or(i64::MAX)
}

/// Places in code as all hosts name them; their functions go into the tables.
struct Places<'a> {
    profile: &'a Profile,
    /// Microseconds since 1970.
    start: i64,
    builds: FxHashMap<ObjectId, Vec<u8>>,
    tables: &'a mut Tables,
}

impl Places<'_> {
    /// Notes a stack and gives its id.
    fn stack(&mut self, stack: StackId, first_seen: i64) -> [u8; STACK_ID] {
        let mut frames = Vec::new();
        let mut at = Some(stack);
        while let Some(id) = at {
            if frames.len() == DEEPEST {
                frames.push(self.name("[deeper frames cut]", "", "", 0));
                break;
            }
            let (frame, above) = self.frame(id);
            frames.push(frame);
            at = above;
        }
        let stack_id = ids::stack_id(&frames);
        self.tables.stacks.push(Stack { stack_id, frames, first_seen });
        stack_id
    }

    /// The place of a stack's innermost frame, with the functions inlined there, and the stack above.
    fn frame(&mut self, stack: StackId) -> (CodePlace, Option<StackId>) {
        let profile = self.profile;
        let frame = profile.frames[profile.stacks[stack].frame];
        let object = profile.functions[frame.function].object;
        let base = private::object(&profile.objects[object].path);
        let source = |frame: pct_profile::model::Frame| {
            let path = frame.file.map_or("", |file| &profile.files[file]);
            path.rsplit('/').next().unwrap_or_default().to_owned()
        };
        let (ObjectKind::File, Some(address)) = (profile.objects[object].kind, frame.address) else {
            let function = private::function(&profile.functions[frame.function].name);
            let place = self.name(&function, &base, &source(frame), frame.line);
            return (place, profile.stacks[stack].parent);
        };
        let build_id = self.build(object);
        self.note_symbols(&build_id, frame);
        let addr = address.cast_signed();
        let mut at = stack;
        for depth in 0.. {
            let frame = profile.frames[profile.stacks[at].frame];
            self.tables.locations.push(Location {
                build_id: build_id.clone(),
                addr,
                depth,
                function: private::function(&profile.functions[frame.function].name),
                object: base.clone(),
                file: source(frame),
                line: i32::try_from(frame.line).unwrap_or(0),
            });
            match profile.stacks[at].parent.filter(|_| frame.inlined) {
                Some(parent) => at = parent,
                None => break,
            }
        }
        (CodePlace { build_id, addr, kind: Kind::Native }, profile.stacks[at].parent)
    }

    /// Code that has only a name.
    fn name(&mut self, function: &str, object: &str, file: &str, line: u32) -> CodePlace {
        let build_id = ids::name_id(function, if file.is_empty() { object } else { file });
        self.tables.locations.push(Location {
            build_id: build_id.clone(),
            addr: i64::from(line),
            depth: 0,
            function: function.to_owned(),
            object: object.to_owned(),
            file: file.to_owned(),
            line: i32::try_from(line).unwrap_or(0),
        });
        CodePlace { build_id, addr: i64::from(line), kind: Kind::Name }
    }

    /// The build that an object is of; it is a row of `builds`.
    fn build(&mut self, object: ObjectId) -> Vec<u8> {
        if let Some(known) = self.builds.get(&object) {
            return known.clone();
        }
        let object_row = &self.profile.objects[object];
        let path = Path::new(&object_row.path);
        let name = private::object(&object_row.path);
        let said = octets(object_row.build_id.as_deref());
        let build_id = said.or_else(|| id_by_ends(path)).unwrap_or_else(|| ids::name_id("", &name));
        let size = std::fs::metadata(path).map_or(0, |meta| i64::try_from(meta.len()).unwrap_or(0));
        self.tables.builds.push(Build {
            build_id: build_id.clone(),
            name,
            arch: std::env::consts::ARCH.to_owned(),
            size,
            first_seen: self.start,
            symbols: NO_SYMBOLS.to_owned(),
        });
        self.builds.insert(object, build_id.clone());
        build_id
    }

    /// What a frame tells of its build's symbols: lines are better than names, names better than nothing.
    fn note_symbols(&mut self, build_id: &[u8], frame: pct_profile::model::Frame) {
        let named = !self.profile.functions[frame.function].name.starts_with('[');
        let Some(row) = self.tables.builds.iter_mut().rfind(|row| row.build_id == build_id) else { return };
        if frame.line != 0 {
            row.symbols = "dwarf".to_owned();
        } else if named && row.symbols == NO_SYMBOLS {
            row.symbols = "table".to_owned();
        }
    }
}

/// Of a build no function has a name.
const NO_SYMBOLS: &str = "none";

/// A hexadecimal build-id as octets.
fn octets(hex: Option<&str>) -> Option<Vec<u8>> {
    let hex = hex.filter(|hex| !hex.is_empty() && hex.len().is_multiple_of(2) && hex.is_ascii())?;
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).ok()).collect()
}

/// The id of a file without a build-id, if it can be read.
pub(crate) fn id_by_ends(path: &Path) -> Option<Vec<u8>> {
    let mut file =
        std::fs::File::open(path).ok().filter(|file| file.metadata().is_ok_and(|m| m.is_file()))?;
    let len = file.metadata().ok()?.len();
    let ends = u64::try_from(ENDS).ok()?;
    let (mut head, mut tail) = (Vec::new(), Vec::new());
    file.by_ref().take(ends).read_to_end(&mut head).ok()?;
    file.seek(SeekFrom::Start(len.saturating_sub(ends))).ok()?;
    file.take(ends).read_to_end(&mut tail).ok()?;
    Some(ids::file_id(&head, &tail, len))
}
