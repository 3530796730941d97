//! What a file says of waits: its records in order of time, each wait cut at the changes of hands.
//!
//! Everything here may be damaged or half written. A record that cannot be is left out and counted, and the rest is
//! used.

use super::chains::{RawChain, RawLife, RawPathWait};
use super::raw::{ROOT, RawFrame, Reading};
use super::tally::NodeIndex;
use super::waits::{Parts, RawObject, RawRow};
use crate::waits::WaitFigures;
use crate::waits::cut::{Change, Event, Interval, Whose, cut};
use crate::waits::futexes::{self, FutexWait};
use pct_format::header::wait_door;
use pct_format::layout::{Text, header as at};
use pct_format::record::{HandedOn, STILL_WAITING, Wait};
use pct_format::{Anchor, Record, SegmentKind, WaitKind};
use rustc_hash::FxHashMap;

/// A call that joins a thread and is shorter than this is not on the critical path: most such threads had ended before,
/// and when they ended is not known exactly.
const SHORT_JOIN_NS: u64 = 20_000;

/// A robust mutex whose owner has died is taken all the same.
const EOWNERDEAD: u64 = 130;

/// Who did something where: a thread and a place of the trie.
type Who = (usize, NodeIndex);

/// Reads what the file says of waits, if they were recorded.
pub(super) fn read(reading: &mut Reading<'_, '_>, process: usize, first_thread: usize) {
    let file = *reading.index.file();
    let header = file.header();
    if header.wait_doors() == 0 {
        let asked = header.text(Text::Options).split(|byte| *byte == b',').any(|option| option == b"wait=on");
        reading.raw.waits.asked_in_vain += u64::from(asked);
        return;
    }
    let mut found = FoundRecords::default();
    for segment in file.segments().filter(|segment| segment.kind() == SegmentKind::Ring) {
        for run in segment.runs() {
            for record in run.records() {
                match record {
                    Record::Waited(wait) => found.wait(reading, first_thread, &wait),
                    Record::Released(event) => found.event(reading, first_thread, &event, Change::Released),
                    Record::Taken(event) => found.event(reading, first_thread, &event, Change::Taken),
                    _ => {}
                }
            }
        }
    }
    let (written, lost) = header.wait_records();
    let damaged = found.damaged;
    let overwritten = written.saturating_sub(found.records);
    found.part_relocks();
    let mut chain = reading.keeps_times().then(|| lives(reading, &found, process, first_thread));
    found.sum_up(reading, process, &mut chain);
    let end = reading.index.timeline.anchors().last().map_or(0, |anchor| anchor.monotonic_ns);
    let start = header.header_word(at::FIRST_ANCHOR + 1);
    let window = WaitWindow::from_reading(reading);
    let pid = reading.raw.processes[process].0.pid;
    let times = reading.index.threads.iter().enumerate().filter_map(|(number, thread)| {
        let time = |raw: Option<u64>| raw.map(|raw| reading.index.timeline.monotonic_ns(raw));
        let begin = time(seen_begin(thread, pid)).unwrap_or(start);
        let end = time(thread.end).unwrap_or(end);
        // The kernel's CPU time is that of the thread's whole life.
        let cpu_ns = thread.cpu_ns.filter(|_| window == WaitWindow::ALL);
        window.overlap(begin, end.max(begin)).map(|wall_ns| (first_thread + number, wall_ns, cpu_ns))
    });
    let waits = &mut reading.raw.waits;
    waits.threads.extend(times);
    waits.recordings += 1;
    waits.with_futexes += u64::from(header.wait_doors() & wait_door::FUTEX != 0);
    waits.chains.extend(chain);
    waits.lost = waits.lost.saturating_add(lost);
    waits.overwritten = waits.overwritten.saturating_add(overwritten);
    waits.damaged += damaged;
}

/// A time by CLOCK_MONOTONIC, from its begin on and before its end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct WaitWindow {
    from: u64,
    to: u64,
}

impl WaitWindow {
    /// All the time.
    const ALL: WaitWindow = WaitWindow { from: 0, to: u64::MAX };

    /// The time of which waits of a file are wanted.
    fn from_reading(reading: &Reading<'_, '_>) -> WaitWindow {
        let Some((from, to)) = reading.raw.window_of_waits else { return WaitWindow::ALL };
        let own_start = reading.index.file().header().first_anchor().realtime_ns;
        let start = reading.raw.start.unwrap_or(own_start);
        let at = |ns: u64| monotonic_ns(reading.index.timeline.anchors(), start.saturating_add(ns));
        // What is told of the time before the recording counts at its start, as with samples.
        WaitWindow { from: if from == 0 { 0 } else { at(from) }, to: at(to) }
    }

    /// How much of an interval lies in it, nanoseconds. `None`: the interval begins after it, or ends before it.
    fn overlap(self, begin: u64, end: u64) -> Option<u64> {
        let (from, to) = (begin.max(self.from), end.min(self.to));
        let is_in = from < to || begin == end && (self.from..self.to).contains(&begin);
        is_in.then(|| to.saturating_sub(from))
    }
}

/// A wait of the file.
struct FoundWait {
    who: Who,
    interval: Interval,
    is_open: bool,
    /// The mutex that a waiter for a condition takes again; 0: none.
    mutex: u64,
}

/// What an object is, whatever it is waited for to do with it.
type Family = u64;

/// A read-write lock is one object for those who read and those who write.
fn family(kind: WaitKind) -> Family {
    if kind == WaitKind::ReadLock { WaitKind::WriteLock as u64 } else { kind as u64 }
}

/// What was found of one object.
#[derive(Default)]
struct FoundObject {
    waits: Vec<FoundWait>,
    events: Vec<Event<Who>>,
}

/// What was found in one file.
#[derive(Default)]
struct FoundRecords {
    /// By address (of a join: the id of the thread) and what is there: memory may serve one object after the other.
    objects: FxHashMap<(u64, Family), FoundObject>,
    records: u64,
    damaged: u64,
}

impl FoundRecords {
    fn wait(&mut self, reading: &mut Reading<'_, '_>, first_thread: usize, wait: &Wait) {
        self.records += 1;
        let who = who(reading, first_thread, (wait.tid, wait.stack, wait.time));
        let (Some(kind), Some(who)) = (WaitKind::from_number(wait.kind), who) else {
            self.damaged += 1;
            return;
        };
        let timeline = &reading.index.timeline;
        let begin = timeline.monotonic_ns(wait.time);
        let end = timeline.monotonic_ns(wait.time.saturating_add(wait.length)).max(begin);
        let took = matches!(wait.result, 0 | EOWNERDEAD);
        let object = self.objects.entry((wait.object, family(kind))).or_default();
        if kind.is_lock() && took {
            object.events.push(Event { time_ns: end, change: Change::Taken, who });
        }
        let is_open = wait.result == STILL_WAITING;
        let interval = Interval { kind, begin, end, took, relocks: false, proofs_only: false };
        object.waits.push(FoundWait { who, interval, is_open, mutex: wait.mutex });
    }

    fn event(
        &mut self,
        reading: &mut Reading<'_, '_>,
        first_thread: usize,
        event: &HandedOn,
        change: Change,
    ) {
        self.records += 1;
        let who = who(reading, first_thread, (event.tid, event.stack, event.time));
        let (Some(kind), Some(who)) = (WaitKind::from_number(event.kind), who) else {
            self.damaged += 1;
            return;
        };
        let time_ns = reading.index.timeline.monotonic_ns(event.time);
        let object = self.objects.entry((event.object, family(kind))).or_default();
        object.events.push(Event { time_ns, change, who });
    }

    /// Sorts the events of all objects. Whoever was woken out of a condition and found its mutex taken has waited for
    /// work up to the signal, and for the mutex then.
    fn part_relocks(&mut self) {
        for object in self.objects.values_mut() {
            object.events.sort_by_key(|event| (event.time_ns, event.change == Change::Taken));
        }
        let mut relocks = Vec::new();
        for ((address, kind), object) in &self.objects {
            if *kind != family(WaitKind::Condition) {
                continue;
            }
            for (number, wait) in object.waits.iter().enumerate() {
                let Interval { begin, end, took, .. } = wait.interval;
                let mutex = self.objects.get(&(wait.mutex, family(WaitKind::Mutex))).filter(|_| took);
                let last_release = |object: &FoundObject, from: u64| {
                    let until = object.events.partition_point(|event| event.time_ns <= end);
                    let others =
                        |event: &&Event<Who>| event.change == Change::Released && event.who.0 != wait.who.0;
                    let last = object.events[..until].iter().rev().take_while(|event| event.time_ns >= from);
                    last.clone().find(others).map(|event| event.time_ns)
                };
                if let Some(mutex) = mutex
                    && let Some(signal) = last_release(object, begin)
                    && last_release(mutex, signal).is_some()
                {
                    relocks.push(((*address, *kind), number, signal));
                }
            }
        }
        for (condition, number, signal) in relocks {
            let Some(wait) = self.objects.get_mut(&condition).and_then(|object| object.waits.get_mut(number))
            else {
                continue;
            };
            let interval = Interval { kind: WaitKind::Mutex, begin: signal, relocks: true, ..wait.interval };
            wait.interval.end = signal;
            let (who, mutex) = (wait.who, wait.mutex);
            let object = self.objects.entry((mutex, family(WaitKind::Mutex))).or_default();
            object.waits.push(FoundWait { who, interval, is_open: false, mutex: 0 });
        }
    }

    /// Cuts each wait, and adds its parts to the sums.
    fn sum_up(self, reading: &mut Reading<'_, '_>, process: usize, chain: &mut Option<RawChain>) {
        let window = WaitWindow::from_reading(reading);
        let waits = &mut reading.raw.waits;
        let mut objects: Vec<_> = self.objects.into_iter().collect();
        objects.sort_unstable_by_key(|(key, _)| *key);
        for ((address, _), mut object) in objects {
            object.waits.sort_by_key(|wait| wait.interval.begin);
            let in_window =
                |wait: &&FoundWait| window.overlap(wait.interval.begin, wait.interval.end).is_some();
            let Some(&FoundWait { who: (_, first), interval, .. }) = object.waits.iter().find(in_window)
            else {
                continue;
            };
            let number = waits.objects.len();
            waits.objects.push(RawObject { process, kind: interval.kind, address, first });
            for wait in &object.waits {
                let Interval { kind, begin, end, .. } = wait.interval;
                let (thread, node) = wait.who;
                let Some(length) = window.overlap(begin, end) else { continue };
                let row = waits.rows.entry((thread, node, number)).or_insert_with(|| RawRow {
                    kind,
                    figures: WaitFigures::default(),
                    parts: Parts::default(),
                    as_mutex: Parts::default(),
                });
                row.figures += WaitFigures {
                    waits: 1,
                    ns: length,
                    longest_ns: length,
                    open: u64::from(wait.is_open && end <= window.to),
                    ..WaitFigures::default()
                };
            }
            let intervals: Vec<Interval> = object.waits.iter().map(|wait| wait.interval).collect();
            let rows = &mut waits.rows;
            cut_each(&object.waits, &intervals, &object.events, window, |(thread, node), whose, ns| {
                // Who ended is what the object says.
                if (interval.kind, whose) != (WaitKind::Join, Whose::Unknown)
                    && let Some(row) = rows.get_mut(&(thread, node, number))
                {
                    row.parts.add(whose, ns);
                }
            });
            if interval.kind == WaitKind::Futex {
                let (intervals, events) = object.as_mutex();
                cut_each(&object.waits, &intervals, &events, window, |(thread, node), whose, ns| {
                    if let Some(row) = rows.get_mut(&(thread, node, number)) {
                        row.as_mutex.add(whose, ns);
                    }
                });
            }
            if let Some(chain) = chain {
                chain.add_waits(&object, (address, number), reading.index.timeline.anchors());
            }
        }
    }
}

impl FoundObject {
    /// A futex, read as a mutex of Rust's standard library.
    fn as_mutex(&self) -> (Vec<Interval>, Vec<Event<Who>>) {
        let wait = |wait: &FoundWait| {
            let Interval { begin, end, took, .. } = wait.interval;
            FutexWait { who: wait.who, begin, end, is_woken: took }
        };
        let waits: Vec<_> = self.waits.iter().map(wait).collect();
        futexes::as_mutex(&waits, &self.events, |one: Who, other: Who| one.0 == other.0)
    }
}

/// Cuts waits, in order of their begins, each with the interval of the same place, at the events of other threads. Of
/// the parts it gives what lies in the window.
fn cut_each(
    waits: &[FoundWait],
    intervals: &[Interval],
    events: &[Event<Who>],
    window: WaitWindow,
    mut part: impl FnMut(Who, Whose<Who>, u64),
) {
    // Events before a wait are of no use to it nor to later ones.
    let mut from = 0;
    for (wait, interval) in waits.iter().zip(intervals) {
        from += events[from..].partition_point(|event| event.time_ns < interval.begin);
        let others = events[from..].iter().copied().filter(|event| event.who.0 != wait.who.0);
        // The parts abut.
        let mut begin = interval.begin;
        cut(*interval, others, |whose, ns| {
            let end = begin + ns;
            if let Some(ns) = window.overlap(begin, end) {
                part(wait.who, whose, ns);
            }
            begin = end;
        });
    }
}

/// Raw time of a thread's begin. `None`: it is that of the process, whose first thread is seen some time later.
fn seen_begin(thread: &pct_format::Thread, pid: u32) -> Option<u64> {
    thread.begin.filter(|_| thread.tid != pid)
}

/// The threads of a file, for the critical path of its process.
fn lives(reading: &Reading<'_, '_>, found: &FoundRecords, process: usize, first_thread: usize) -> RawChain {
    let timeline = &reading.index.timeline;
    let anchors = timeline.anchors();
    let (first, last) = (anchors.first(), anchors.last());
    let begin = first.map_or(0, |anchor| anchor.realtime_ns);
    let end = last.map_or(begin, |anchor| anchor.realtime_ns);
    let pid = reading.raw.processes[process].0.pid;
    let life = |thread: &pct_format::Thread| {
        let time = |raw: Option<u64>| raw.map(|raw| timeline.realtime_ns(raw));
        let made = found.objects.get(&(u64::from(thread.tid), family(WaitKind::Start)));
        let until = thread.begin.map_or(0, |raw| timeline.monotonic_ns(raw));
        // An id may have been several threads', one after the other.
        let makes = made.and_then(|made| made.events.iter().rev().find(|event| event.time_ns <= until));
        let maker = makes.map(|event| (event.who.0, realtime_ns(anchors, event.time_ns)));
        let begin = time(seen_begin(thread, pid)).unwrap_or(begin);
        RawLife { tid: thread.tid, begin, end: time(thread.end).unwrap_or(end), maker, waits: Vec::new() }
    };
    let threads = reading.index.threads.iter().map(life).collect();
    RawChain { process, begin, end, first_thread, threads }
}

impl RawChain {
    /// Adds the waits for an object: its address, and its number.
    fn add_waits(&mut self, object: &FoundObject, (address, number): (u64, usize), anchors: &[Anchor]) {
        for wait in &object.waits {
            let Interval { kind, begin: from, end: to, took, .. } = wait.interval;
            if kind == WaitKind::Join && to - from < SHORT_JOIN_NS {
                continue;
            }
            let (begin, end) = (realtime_ns(anchors, from), realtime_ns(anchors, to));
            let (thread, node) = wait.who;
            let ended_by = if !took {
                // A timer, a signal, the end of the recording.
                None
            } else if kind == WaitKind::Join {
                let ended = self.ended_thread(address, begin, end);
                ended.map(|(thread, at)| (self.first_thread + thread, at, None))
            } else {
                let until = object.events.partition_point(|event| event.time_ns <= to);
                let in_wait = object.events[..until].iter().rev().take_while(|event| event.time_ns >= from);
                let releases =
                    |event: &&Event<Who>| event.change == Change::Released && event.who.0 != thread;
                let last = in_wait.clone().find(releases);
                last.map(|event| (event.who.0, realtime_ns(anchors, event.time_ns), Some(event.who.1)))
            };
            let Some(life) = self.threads.get_mut(thread - self.first_thread) else { continue };
            life.waits.push(RawPathWait { begin, end, node, object: number, ended_by });
        }
    }
}

/// CLOCK_REALTIME of a time by CLOCK_MONOTONIC.
fn realtime_ns(anchors: &[Anchor], monotonic_ns: u64) -> u64 {
    let at = anchors.partition_point(|anchor| anchor.monotonic_ns <= monotonic_ns).saturating_sub(1);
    let Some(anchor) = anchors.get(at) else { return monotonic_ns };
    let ns = i128::from(monotonic_ns) - i128::from(anchor.monotonic_ns) + i128::from(anchor.realtime_ns);
    u64::try_from(ns.max(0)).unwrap_or(u64::MAX)
}

/// CLOCK_MONOTONIC of a time by CLOCK_REALTIME. The end of time stays that.
fn monotonic_ns(anchors: &[Anchor], realtime_ns: u64) -> u64 {
    let at = anchors.partition_point(|anchor| anchor.realtime_ns <= realtime_ns).saturating_sub(1);
    let Some(anchor) = anchors.get(at).filter(|_| realtime_ns != u64::MAX) else { return realtime_ns };
    let ns = i128::from(realtime_ns) - i128::from(anchor.realtime_ns) + i128::from(anchor.monotonic_ns);
    u64::try_from(ns.max(0)).unwrap_or(u64::MAX)
}

/// The thread that had this id at this time, and where it was. `None`: the recording knows no such thread.
fn who(
    reading: &mut Reading<'_, '_>,
    first_thread: usize,
    (tid, stack, time): (u32, u32, u64),
) -> Option<Who> {
    let of_this_id = reading.index.threads.iter().enumerate().filter(|(_, thread)| thread.tid == tid);
    // An id may have been several threads', one after the other: the last that had begun.
    let has_begun = |begin: Option<u64>| begin.is_none_or(|begin| begin <= time);
    let mut candidates = of_this_id.rev();
    let first = candidates.clone().next_back()?;
    let (number, _) = candidates.find(|(_, thread)| has_begun(thread.begin)).unwrap_or(first);
    let node = match stack {
        0 => ROOT,
        stack => {
            let epoch = reading.epoch(time);
            reading.stack(stack, epoch, time).0
        }
    };
    let node = if node == ROOT { reading.raw.node(ROOT, RawFrame::NoStack) } else { node };
    Some((first_thread + number, node))
}
