//! CPU time that is in no sample: rows of the object `[not sampled]`, so that tables sum to what the kernel counted.
//!
//! The kernel tells who started the program what the whole tree used (`run.json`). Each process tells what it
//! had used when it was first sampled, what it used while it was sampled, and what it had used in all at its
//! last word: in its file, or, without a sample, in `pct.status`. From these follow, by cause:
//!
//! | row | what it is |
//! |---|---|
//! | `[start]` | exec, the dynamic loader, constructors: before the clock was on |
//! | `[sampling off]` | `pct_off()`, a signal, between two attachments |
//! | `[lost]` | samples that were due; the account has the causes |
//! | `[too short]` | processes that ended before a sample was due; the first 0.05 ms of each process |
//! | `[between samples]` | the same of processes with samples, before their last word: mostly the ends of threads |
//! | `[sampling off: ...]` | from there on no call of the sampler's was safe, so nobody noted the time either |
//! | `[exit, or not profiled]` | the rest: the end of each process after its last word, processes that said nothing |
//!
//! No clock expires in the first 0.05 ms of a process. The name of the last row has the programs that were met and
//! cannot be sampled.
//!
//! A clock's first period is random, so samples of some short processes stand for those that have none; only
//! what remains is `[too short]`. Samples have an error too: no row makes the sum larger than what the kernel
//! counted.
//!
//! Nobody measures which part of a row was user and which system time. Rows share what samples leave of both.

use super::status::UnsampledImage;
use super::times::ImageTimes;
use crate::model::{
    Account, Cell, Frame, FrameId, Function, FunctionId, LOST, Object, ObjectId, ObjectKind, Process,
    ProcessId, Profile, StackId, StackNode, Thread, ThreadId, Weight,
};
use pct_format::OffFor;
use pct_num::{float, rounded};
use rustc_hash::FxHashMap;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// What became of the tree's CPU time, as far as processes told.
#[derive(Clone, Debug, Default, PartialEq)]
struct Told {
    /// `[start]`, by process id.
    start: BTreeMap<u32, u64>,
    off_ns: u64,
    /// Used while sampled, by processes with samples.
    sampled_ns: u64,
    /// Used while sampling was on by processes without a sample, by name: how many, how much.
    short: BTreeMap<String, (u64, u64)>,
    /// Names of processes without a sample.
    names: FxHashMap<u32, String>,
}

impl Told {
    fn from_images(files: &[ImageTimes], lines: &[UnsampledImage]) -> Self {
        // By process: what its images used while sampled, what it was switched off for, what it had used at
        // its last word.
        #[derive(Default)]
        struct Sums {
            used: u64,
            off: u64,
            off_in_run: u64,
            outside: u64,
            all: u64,
            unknown: bool,
            attached: bool,
        }
        let mut told = Self::default();
        let mut sums: BTreeMap<u32, Sums> = BTreeMap::new();
        for image in files {
            let sum = sums.entry(image.pid).or_default();
            sum.used = sum.used.saturating_add(image.used_ns());
            sum.attached |= image.attached;
            sum.off = sum.off.saturating_add(image.off_ns);
            let before = image.before_ns.unwrap_or(0);
            sum.all = sum.all.max(before.saturating_add(image.used_ns()).saturating_add(image.off_ns));
            sum.unknown |= image.before_ns.is_none();
            // What was used before somebody attached, or between two attachments, is not in the kernel's sum.
            if !image.attached {
                sum.off_in_run = sum.off_in_run.saturating_add(image.off_ns);
            }
            if image.from_outside {
                sum.outside = sum.outside.saturating_add(image.used_ns());
            }
            told.sampled_ns = told.sampled_ns.saturating_add(image.used_ns());
        }
        let with_file: std::collections::BTreeSet<u32> = sums.keys().copied().collect();
        for line in lines {
            let sum = sums.entry(line.pid).or_default();
            sum.used = sum.used.saturating_add(line.used_ns);
            sum.all = sum.all.max(line.all_ns.unwrap_or(0));
            sum.unknown |= line.all_ns.is_none();
            if with_file.contains(&line.pid) {
                told.sampled_ns = told.sampled_ns.saturating_add(line.used_ns);
                continue;
            }
            // The last image is what people know the process by.
            if !line.name.is_empty() || !told.names.contains_key(&line.pid) {
                told.names.insert(line.pid, line.name.clone());
            }
        }
        for (pid, sum) in &sums {
            // One that was taken over is off inside of it, and sampled from outside.
            told.off_ns = told.off_ns.saturating_add(sum.off_in_run.saturating_sub(sum.outside));
            if !sum.unknown && !sum.attached {
                let start = sum.all.saturating_sub(sum.used).saturating_sub(sum.off);
                told.start.insert(*pid, start);
            }
            if let Some(name) = told.names.get(pid) {
                let row = told.short.entry(name.clone()).or_default();
                row.0 += 1;
                row.1 = row.1.saturating_add(sum.used);
            }
        }
        told
    }
}

/// What the rows are made of, beside the profile.
pub(super) struct Facts<'a> {
    /// Of the processes with samples.
    pub(super) files: &'a [ImageTimes],
    /// Of the images without.
    pub(super) lines: &'a [UnsampledImage],
    /// Names of programs that were met and could not be sampled.
    pub(super) not_profiled: &'a [String],
    /// Children that sampled processes made, and that left neither samples nor a line.
    pub(super) silent: &'a [u32],
}

impl Facts<'_> {
    /// The row for what no process told of.
    fn name_of_rest(&self, account: &Account) -> Cow<'static, str> {
        if account.unreadable > 0 {
            return UNREADABLE.into();
        }
        let off = self.files.iter().find_map(|file| file.off_for).map(name_of_off);
        match (off, self.not_profiled) {
            (Some(off), _) if self.is_of_one_process() => format!("[{off}]").into(),
            (None, []) => REST.into(),
            (Some(off), []) => format!("[{off}; exit, or not profiled]").into(),
            (None, names) => format!("[exit, or not profiled: {}]", names.join(" ")).into(),
            (Some(off), names) => format!("[{off}; exit, or not profiled: {}]", names.join(" ")).into(),
        }
    }

    /// Whether nobody but one process can have used what is left.
    fn is_of_one_process(&self) -> bool {
        let Some(first) = self.files.first() else { return false };
        let others = self.lines.iter().any(|line| line.pid != first.pid)
            || !self.not_profiled.is_empty()
            || !self.silent.is_empty();
        !others && self.files.iter().all(|file| file.pid == first.pid)
    }

    /// Says that children left no word, which is one cause of the rest.
    fn note_of_silent(&self) -> Option<String> {
        let (first, more) = self.silent.split_first()?;
        let who = match more.len() {
            0 => format!("process {first}"),
            n => format!("process {first} and {n} more"),
        };
        Some(format!("children that left neither samples nor a word of why: {who}"))
    }
}

/// The row's name where sampling had to end in a process that went on.
fn name_of_off(why: OffFor) -> &'static str {
    match why {
        OffFor::UnseenFilter | OffFor::Filter | OffFor::StrictMode => "sampling off: system call filter",
        OffFor::NoCounter => "sampling off: time stamp counter",
        OffFor::Dispatch => "sampling off: system call dispatch",
        OffFor::NewThreads => "threads begun under a system call filter",
        OffFor::NewChildren => "children begun under a system call filter",
        OffFor::NewThreadsAndChildren => "threads and children begun under a system call filter",
        OffFor::Taken => "sampling off: signal taken by the program",
    }
}

/// Names of the rows.
const START: &str = "[start]";
const OFF: &str = "[sampling off]";
const SHORT: &str = "[too short]";
const BETWEEN: &str = "[between samples]";
const REST: &str = "[exit, or not profiled]";
const UNREADABLE: &str = "[file not readable]";
/// The process that time of unknown processes is booked to.
pub(crate) const NOBODY: &str = "[not sampled]";

/// Whose time a row is.
#[derive(Clone, PartialEq, Eq, Hash)]
enum Whose {
    /// A process with samples.
    Sampled(u32),
    /// Processes of this name without a sample.
    Short(String),
    Nobody,
}

/// Adds cells for what is in no sample. They have no samples and lie in an object of the kind
/// [`ObjectKind::NotSampled`].
pub(super) fn add(profile: &mut Profile, facts: &Facts<'_>) {
    let Some((user, system)) = profile.account.used else { return };
    if profile.by_wall_clock() {
        return;
    }
    let sampled = profile.sampled();
    let used = user.saturating_add(system);
    let mut rest = used.saturating_sub(sampled.cpu_ns());
    if rest == 0 {
        return;
    }
    let told = Told::from_images(facts.files, facts.lines);
    let mut rows: Vec<(Cow<'static, str>, Whose, u64)> = Vec::new();
    let start = exact_sum(told.start.values().copied());
    let fits = clamped(start, rest);
    for (pid, ns) in &told.start {
        let whose = told.names.get(pid).map_or(Whose::Sampled(*pid), |name| Whose::Short(name.clone()));
        rows.push((START.into(), whose, part(*ns, fits, start)));
    }
    rest -= fits;
    let off = told.off_ns.min(rest);
    rows.push((OFF.into(), Whose::Nobody, off));
    rest -= off;
    let lost: u64 = profile.account.losses.iter().fold(0, |sum, loss| sum.saturating_add(loss.ns));
    rows.push((LOST.into(), Whose::Nobody, lost.min(rest)));
    rest -= lost.min(rest);
    let short = exact_sum(told.short.values().map(|row| row.1));
    let covered = u128::from(sampled.cpu_ns()) + u128::from(lost);
    let missing = (u128::from(told.sampled_ns) + short).saturating_sub(covered);
    let fits = clamped(short.min(missing), rest);
    for (name, (_, ns)) in &told.short {
        rows.push((SHORT.into(), Whose::Short(name.clone()), part(*ns, fits, short)));
    }
    rest -= fits;
    let firsts = FIRST_NS.saturating_mul(u64::try_from(facts.files.len()).unwrap_or(u64::MAX));
    let fits = clamped(missing.saturating_sub(short), firsts.min(rest));
    // Of few processes it is less than what the kernel's own figures are off by.
    let fits = if fits > TICK_NS { fits } else { 0 };
    rows.push((SHORT.into(), Whose::Nobody, fits));
    rest -= fits;
    // What is left may be the sampling error: a row is for what is more.
    let error = rounded(float(sampled.cpu_ns()) * 2.0 / float(sampled.samples.max(1)).sqrt());
    let told_ns = used - rest;
    let is_more = |ns: u64| ns > TICK_NS && ns > error.min(told_ns / 20);
    let between = clamped(missing.saturating_sub(short).saturating_sub(u128::from(fits)), rest);
    let between = if is_more(between) { between } else { 0 };
    rows.push((BETWEEN.into(), Whose::Nobody, between));
    rest -= between;
    if is_more(rest) {
        let name = facts.name_of_rest(&profile.account);
        let whose = match facts.files.iter().find(|file| file.off_for.is_some()) {
            Some(file) if facts.is_of_one_process() => Whose::Sampled(file.pid),
            _ => Whose::Nobody,
        };
        rows.push((name, whose, rest));
        if let Some(note) = facts.note_of_silent() {
            profile.account.note(note);
        }
    }
    rows.retain(|(_, _, ns)| *ns > 0);
    let all = exact_sum(rows.iter().map(|(_, _, ns)| *ns));
    let system = clamped(all, system.saturating_sub(sampled.system_ns));
    let mut table = Rows::new(profile, told);
    for (cause, whose, ns) in rows {
        let system_ns = part(ns, system, all);
        let weight = Weight { samples: 0, user_ns: ns - system_ns, system_ns };
        table.add(&cause, &whose, weight);
    }
}

/// The shortest time to a process's first sample.
const FIRST_NS: u64 = 50_000;

/// The kernel's own resolution in processes' CPU times where it counts by ticks.
const TICK_NS: u64 = 4_000_000;

/// `ns` of `whole`, scaled so that the whole is `fits`.
fn part(ns: u64, fits: u64, whole: u128) -> u64 {
    let scaled = u128::from(ns) * u128::from(fits) / whole.max(1);
    u64::try_from(scaled).unwrap_or(u64::MAX)
}

/// Damaged files may say any number: parts of a sum must not be larger than the sum.
fn exact_sum(numbers: impl Iterator<Item = u64>) -> u128 {
    numbers.map(u128::from).sum()
}

fn clamped(number: u128, most: u64) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX).min(most)
}

/// Makes the rows' cells, threads and processes.
struct Rows<'p> {
    profile: &'p mut Profile,
    object: ObjectId,
    root: StackId,
    causes: FxHashMap<String, StackId>,
    threads: FxHashMap<Whose, ThreadId>,
    cells: FxHashMap<(ThreadId, StackId), usize>,
    /// The last image of each process.
    processes: FxHashMap<u32, ProcessId>,
    told: Told,
}

impl<'p> Rows<'p> {
    fn new(profile: &'p mut Profile, told: Told) -> Self {
        let processes = profile.processes.enumerate().map(|(id, process)| (process.pid, id)).collect();
        let object = Object::new(NOBODY, ObjectKind::NotSampled);
        let object = profile.objects.push(object);
        let root = plain_frame(profile, object, NOBODY);
        let root = profile.stacks.push(StackNode { parent: None, frame: root });
        let (causes, threads, cells) = Default::default();
        Self { profile, object, root, causes, threads, cells, processes, told }
    }

    fn add(&mut self, cause: &str, whose: &Whose, weight: Weight) {
        let stack = match self.causes.get(cause) {
            Some(known) => *known,
            None => {
                let frame = plain_frame(self.profile, self.object, cause);
                let stack = self.profile.stacks.push(StackNode { parent: Some(self.root), frame });
                self.causes.insert(cause.to_owned(), stack);
                stack
            }
        };
        let thread = self.thread(whose);
        let cells = &mut self.profile.cells;
        let at = *self.cells.entry((thread, stack)).or_insert_with(|| {
            cells.push(Cell { thread, stack, weight: Weight::ZERO });
            cells.len() - 1
        });
        cells[at].weight += weight;
    }

    /// A thread of its own: what was not sampled is no thread's.
    fn thread(&mut self, whose: &Whose) -> ThreadId {
        if let Some(known) = self.threads.get(whose) {
            return *known;
        }
        let process = match whose {
            Whose::Sampled(pid) => match self.processes.get(pid) {
                Some(known) => *known,
                None => self.process(NOBODY, 1),
            },
            Whose::Short(name) => {
                let stands_for = self.told.short.get(name).map_or(0, |row| row.0);
                self.process(name, stands_for)
            }
            Whose::Nobody => self.process(NOBODY, 1),
        };
        let thread = self.profile.threads.push(Thread { process, tid: 0, name: NOBODY.to_owned() });
        self.threads.insert(whose.clone(), thread);
        thread
    }

    fn process(&mut self, name: &str, stands_for: u64) -> ProcessId {
        let name = if name.is_empty() { NOBODY } else { name };
        self.profile.processes.push(Process { name: name.to_owned(), stands_for, ..Process::default() })
    }
}

fn plain_frame(profile: &mut Profile, object: ObjectId, name: &str) -> FrameId {
    let function: FunctionId =
        profile.functions.push(Function { name: name.to_owned(), object, declared: None });
    profile.frames.push(Frame { function, file: None, line: 0, address: None, inlined: false })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::tests::folded;
    use proptest::prelude::*;

    const MS: u64 = 1_000_000;

    fn line(pid: u32, used_ns: u64, all_ns: u64, name: &str) -> UnsampledImage {
        UnsampledImage { pid, used_ns, all_ns: Some(all_ns), name: name.to_owned() }
    }

    fn times(pid: u32, used_ns: u64, before_ns: Option<u64>, off_ns: u64) -> ImageTimes {
        ImageTimes { pid, used: (used_ns, 0), before_ns, off_ns, ..ImageTimes::default() }
    }

    /// The rows by cause, in milliseconds.
    fn rows(profile: &Profile) -> Vec<(String, u64)> {
        let mut rows: BTreeMap<String, u64> = BTreeMap::new();
        for cell in profile.cells.iter().filter(|cell| !profile.is_sampled(cell.stack)) {
            assert_eq!(cell.weight.samples, 0);
            *rows.entry(profile.functions[profile.leaf(cell.stack)].name.clone()).or_default() +=
                cell.weight.cpu_ns() / MS;
        }
        rows.into_iter().collect()
    }

    fn facts<'a>(files: &'a [ImageTimes], lines: &'a [UnsampledImage]) -> Facts<'a> {
        Facts { files, lines, not_profiled: &[], silent: &[] }
    }

    /// A process of 100 ms in samples, and two of another program, of which each image before an exec spoke too.
    fn a_run() -> (Profile, Vec<ImageTimes>, Vec<UnsampledImage>) {
        let mut p = folded("main;a 80\nmain;[system] 20");
        p.account.used = Some((120 * MS, 60 * MS));
        let file = times(1, 100 * MS, Some(10 * MS), 5 * MS);
        let lines = vec![
            line(2, 2 * MS, 2 * MS, "sh"),
            line(2, 3 * MS, 15 * MS, "true"),
            line(3, MS, 9 * MS, "true"),
        ];
        (p, vec![file], lines)
    }

    #[test]
    fn the_table_sums_to_what_the_kernel_counted_and_each_cause_has_its_time() {
        let (mut p, files, lines) = a_run();
        p.account.lose("wrap", 4, 4 * MS);
        add(&mut p, &facts(&files, &lines));
        assert_eq!(p.total().cpu_ns(), 180 * MS);
        assert_eq!(p.sampled().cpu_ns(), 100 * MS);
        let of = |name: &str, ms: u64| (name.to_owned(), ms);
        // Of 106 ms while sampling was on samples cover 100, and 4 were lost. Start: 10 + (15 - 2 - 3) + (9 - 1).
        assert_eq!(
            rows(&p),
            [
                of("[exit, or not profiled]", 41),
                of("[lost]", 4),
                of("[sampling off]", 5),
                of("[start]", 28),
                of("[too short]", 2)
            ]
        );
        let system = p.total().system_ns;
        assert!((59 * MS..=60 * MS).contains(&system), "{system}");
        let names: Vec<_> =
            p.processes.iter().map(|process| (process.name.as_str(), process.stands_for)).collect();
        assert_eq!(names, [("prog", 0), ("true", 2), ("[not sampled]", 1)]);
        // The closing line has the same parts, and they make its sum.
        let closing = crate::text::account::closing(&p, &p.cells);
        let parts = "[exit, or not profiled] 0.041, [start] 0.028, [sampling off] 0.005, [too short] 0.002";
        let line =
            format!("accounted 0.10 of 0.18 CPU s; 0.076 s in no sample: {parts}; 4 samples lost: 4 wrap");
        assert_eq!(closing[0], line);
    }

    #[test]
    fn who_is_off_inside_and_sampled_from_outside_is_off_only_between() {
        let (mut p, mut files, _) = a_run();
        files[0].off_ns = 45 * MS;
        let outside = ImageTimes { attached: true, from_outside: true, ..times(1, 40 * MS, None, 0) };
        files.push(outside);
        add(&mut p, &facts(&files, &[]));
        assert!(rows(&p).contains(&("[sampling off]".to_owned(), 5)), "{:?}", rows(&p));
    }

    #[test]
    fn the_first_moments_of_many_processes_are_too_short_for_a_clock() {
        // 2,000 processes of 2 ms, each with samples of all but its first 0.05 ms, and some time that nobody knows of.
        let mut p = folded("main;a 3900");
        p.account.used = Some((4400 * MS, 0));
        let file = |pid| times(pid, 2 * MS, Some(1), 0);
        let files: Vec<_> = (0..2000).map(file).collect();
        add(&mut p, &facts(&files, &[]));
        assert_eq!(p.total().cpu_ns(), 4400 * MS);
        let told = rows(&p);
        assert!(told.contains(&("[too short]".to_owned(), 100)), "{told:?}");
        assert!(told.contains(&("[exit, or not profiled]".to_owned(), 399)), "{told:?}");
    }

    #[test]
    fn programs_that_cannot_be_profiled_are_named() {
        let (mut p, files, lines) = a_run();
        let names = ["busybox".to_owned(), "go".to_owned()];
        add(&mut p, &Facts { not_profiled: &names, ..facts(&files, &lines) });
        assert!(
            rows(&p).iter().any(|(name, _)| name == "[exit, or not profiled: busybox go]"),
            "{:?}",
            rows(&p)
        );
    }

    #[test]
    fn time_after_a_filter_is_the_processs_own_and_has_that_name() {
        let (mut p, mut files, lines) = a_run();
        files[0].off_for = Some(OffFor::UnseenFilter);
        add(&mut p, &facts(&files, &lines));
        let has = |p: &Profile, name: &str| rows(p).iter().any(|row| row.0 == name);
        // Others may have used it too.
        assert!(has(&p, "[sampling off: system call filter; exit, or not profiled]"), "{:?}", rows(&p));
        let (mut p, ..) = a_run();
        add(&mut p, &facts(&files, &[]));
        assert!(has(&p, "[sampling off: system call filter]"), "{:?}", rows(&p));
        let (mut p, ..) = a_run();
        files[0].off_for = Some(OffFor::NoCounter);
        add(&mut p, &facts(&files, &[]));
        assert!(has(&p, "[sampling off: time stamp counter]"), "{:?}", rows(&p));
    }

    #[test]
    fn children_without_a_word_are_named_where_time_is_missing() {
        let (mut p, files, lines) = a_run();
        add(&mut p, &Facts { silent: &[7, 8, 9], ..facts(&files, &lines) });
        assert_eq!(
            p.account.notes,
            ["children that left neither samples nor a word of why: process 7 and 2 more"]
        );
        // Nothing is missing: who was killed at once is no news.
        let (mut p, ..) = a_run();
        p.account.used = Some((100 * MS, 0));
        add(&mut p, &Facts { silent: &[7], ..facts(&[], &[]) });
        assert!(p.account.notes.is_empty(), "{:?}", p.account.notes);
    }

    #[test]
    fn what_an_attached_program_used_before_is_not_of_this_run() {
        let (mut p, mut files, lines) = a_run();
        files[0].attached = true;
        add(&mut p, &facts(&files, &lines));
        // The start of what it made since is: (15 - 2 - 3) + (9 - 1).
        assert!(rows(&p).contains(&(START.to_owned(), 18)), "{:?}", rows(&p));
        assert!(rows(&p).iter().all(|(name, _)| name != OFF), "{:?}", rows(&p));
        assert_eq!(p.total().cpu_ns(), 180 * MS);
    }

    #[test]
    fn what_sampled_processes_used_and_no_sample_stands_for_is_not_their_end() {
        let mut p = folded("main;a 100");
        p.account.used = Some((150 * MS, 0));
        // By its last word: 10 ms before it was sampled and 130 since, of which 100 are in samples. Nobody told who
        // used 10 more.
        add(&mut p, &facts(&[times(1, 130 * MS, Some(10 * MS), 0)], &[]));
        let row = |name: &str, ms: u64| (name.to_owned(), ms);
        assert_eq!(
            rows(&p),
            [row("[between samples]", 30), row("[exit, or not profiled]", 10), row("[start]", 10)]
        );
        // Less than the error of so few samples is no row.
        let mut p = folded("main;a 100");
        p.account.used = Some((104 * MS, 0));
        add(&mut p, &facts(&[times(1, 104 * MS, Some(0), 0)], &[]));
        assert_eq!(rows(&p), []);
    }

    #[test]
    fn a_sampling_error_is_no_cause() {
        let mut p = folded("main;a 100");
        p.account.used = Some((101 * MS, 0));
        add(&mut p, &facts(&[], &[]));
        assert_eq!(rows(&p), []);
        // More samples than time: nothing is missing.
        p.account.used = Some((90 * MS, 0));
        add(&mut p, &facts(&[times(1, 90 * MS, Some(MS), 0)], &[]));
        assert_eq!(rows(&p), []);
    }

    proptest! {
        /// Whatever processes say: the table never holds more than the kernel counted, and no time is told twice.
        #[test]
        fn the_sum_is_never_more_than_the_kernels(
            used in 0_u64..400, lost in 0_u64..50,
            files in proptest::collection::vec((0_u32..5, 0_u64..u64::MAX, any::<Option<u64>>(), 0_u64..u64::MAX), 0..5),
            lines in proptest::collection::vec((0_u32..9, 0_u64..9, any::<Option<u64>>(), "[a-c]?"), 0..9),
        ) {
            let mut p = folded("main;a 100\nmain;b 3");
            p.account.used = Some((used * MS, 0));
            p.account.lose("wrap", lost, lost * MS);
            let files: Vec<_> = files.into_iter()
                .map(|(pid, used_ns, before_ns, off_ns)| times(pid, used_ns, before_ns, off_ns))
                .collect();
            let lines: Vec<_> = lines.into_iter()
                .map(|(pid, used_ns, all_ns, name)| UnsampledImage { pid, used_ns, all_ns, name })
                .collect();
            add(&mut p, &facts(&files, &lines));
            prop_assert!(p.total().cpu_ns() <= (used * MS).max(103 * MS));
            prop_assert!(p.total().cpu_ns() >= 103 * MS);
            for (id, node) in p.stacks.enumerate() {
                prop_assert!(node.parent.is_none_or(|parent| parent < id));
            }
        }
    }
}
