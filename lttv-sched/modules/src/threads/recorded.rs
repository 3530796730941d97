//! Threads of a recording of samples. A sample stands for CPU time that its thread has just used; between
//! samples a thread was not on a CPU, and the recording does not tell why.
//!
//! Samples come a period of CPU time apart, and the period is varied a little. A gap that is shorter than
//! what its sample stands for is part of the same stretch on the CPU.

use std::sync::Arc;

use lttv_engine::call::Event;
use lttv_engine::source::{EventId, Source, Value};
use lttv_engine::time::Time;
use rustc_hash::FxHashMap;

use super::interval::{Activity, Collected, ThreadId, ThreadInterval, ThreadState};
use crate::state::ThreadKey;

/// What an event of a recording tells.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Told {
    Sample { mode: &'static str },
    Begin,
    End,
}

/// Name of the event for a sample of code of the program.
pub const USER_SAMPLE: &str = "sample";
/// Name of the event for a sample of the kernel's work for the program.
pub const SYSTEM_SAMPLE: &str = "system_sample";

const TELLING: [(&str, Told); 4] = [
    (USER_SAMPLE, Told::Sample { mode: "user" }),
    (SYSTEM_SAMPLE, Told::Sample { mode: "syscall" }),
    ("thread_begin", Told::Begin),
    ("thread_end", Told::End),
];

fn told(name: &str) -> Option<Told> {
    TELLING.iter().find(|(known, _)| *known == name).map(|(_, told)| *told)
}

/// Whether a trace is a recording of samples.
pub fn tells_threads(source: &dyn Source) -> bool {
    let mut infos = source.tracefiles().iter();
    infos.any(|info| TELLING.iter().all(|(name, _)| info.classes.iter().any(|class| *class.name == **name)))
}

/// A thread: what it did up to `upto` has been given out, but for the stretch on a CPU from `since` on.
struct Recorded {
    id: ThreadId,
    name: Arc<str>,
    since: Option<(Time, &'static str)>,
    upto: Time,
}

pub(super) struct RecordedThreads {
    trace: usize,
    source: Arc<dyn Source>,
    kinds: Vec<Vec<Option<Told>>>,
    from: Time,
    /// By tracefile: each thread has one.
    threads: FxHashMap<usize, Recorded>,
}

impl RecordedThreads {
    pub(super) fn new(trace: usize, source: Arc<dyn Source>) -> RecordedThreads {
        let infos = source.tracefiles().iter();
        let kinds = infos.map(|info| info.classes.iter().map(|class| told(&class.name)).collect()).collect();
        RecordedThreads { trace, source, kinds, from: Time::MIN, threads: FxHashMap::default() }
    }

    fn told(&self, tracefile: usize, id: EventId) -> Option<Told> {
        *self.kinds.get(tracefile)?.get(usize::try_from(id.0).ok()?)?
    }

    /// The window begins: who has begun before and not ended is there, whether the window has an event of it or not.
    pub(super) fn begin(&mut self, from: Time) {
        self.from = from;
        for tracefile in 0..self.kinds.len() {
            self.threads.extend(self.alive(tracefile).map(|thread| (tracefile, thread)));
        }
    }

    /// The thread of a tracefile, if it is there when the window begins.
    fn alive(&self, tracefile: usize) -> Option<Recorded> {
        let mut cursor = self.source.cursor(tracefile).ok()?;
        let mut next = cursor.seek_time(Time::MIN).ok()?;
        let mut found = None;
        while let Some(head) = next.filter(|head| head.ts < self.from) {
            match self.told(tracefile, head.id) {
                Some(Told::End) => return None,
                Some(_) if found.is_none() => {
                    found = Some(self.thread(head.ts, self.from, |name| cursor.field(name)));
                }
                _ => {}
            }
            next = cursor.advance().ok()?;
        }
        found
    }

    fn thread<'v>(&self, start: Time, upto: Time, field: impl Fn(&str) -> Option<Value<'v>>) -> Recorded {
        let tid = field("vtid").and_then(|tid| tid.as_i64()).unwrap_or(-1);
        let name = field("procname").and_then(|name| name.as_str().map(Arc::from));
        let id = ThreadId { trace: self.trace, key: ThreadKey::new(tid, 0), start };
        Recorded { id, name: name.unwrap_or_else(|| "".into()), since: None, upto }
    }

    pub(super) fn event(&mut self, event: &Event<'_>, to: &mut Collected) {
        let Some(told) = self.told(event.tracefile(), event.head.id) else { return };
        let used = event.field("weight_ns").and_then(|ns| ns.as_i64()).unwrap_or(0).max(0);
        if !self.threads.contains_key(&event.tracefile()) {
            let heard = event.time.saturating_add(-used).max(self.from);
            let thread = self.thread(heard, heard, |name| event.field(name));
            self.threads.insert(event.tracefile(), thread);
        }
        let Some(thread) = self.threads.get_mut(&event.tracefile()) else { return };
        match told {
            Told::Begin => {}
            Told::End => {
                thread.idle_until(event.time, to);
                self.threads.remove(&event.tracefile());
            }
            Told::Sample { mode } => thread.ran(event.time, used, mode, to),
        }
    }

    pub(super) fn end(&mut self, end: Time, to: &mut Collected) {
        let mut left: Vec<_> = std::mem::take(&mut self.threads).into_iter().collect();
        left.sort_by_key(|(tracefile, _)| *tracefile);
        for (_, mut thread) in left {
            thread.idle_until(end, to);
        }
    }
}

impl Recorded {
    /// A sample: the thread has used so much CPU time up to now.
    fn ran(&mut self, now: Time, used: i64, mode: &'static str, to: &mut Collected) {
        let begin = now.saturating_add(-used).max(self.upto);
        if begin.since(self.upto) > used {
            self.idle_until(begin, to);
        }
        if self.since.is_none_or(|(_, running)| running != mode) {
            let begin = self.upto;
            self.run_until(begin, to);
            self.since = Some((begin, mode));
        }
        self.upto = now;
    }

    /// Ends the stretch on a CPU, if there is one, at a time.
    fn run_until(&mut self, now: Time, to: &mut Collected) {
        if let Some((since, mode)) = self.since.take() {
            self.push(since, now, Activity::Running, mode, to);
        }
    }

    /// The thread did not run from `upto` to a time.
    fn idle_until(&mut self, now: Time, to: &mut Collected) {
        let upto = self.upto;
        self.run_until(upto, to);
        self.push(upto, now, Activity::OffCpu, "", to);
        self.upto = now;
    }

    fn push(&self, from: Time, until: Time, activity: Activity, mode: &'static str, to: &mut Collected) {
        let none: Arc<str> = "".into();
        to.push(&ThreadInterval {
            thread: self.id,
            name: self.name.clone(),
            from,
            to: until,
            state: ThreadState { activity, mode, call: none.clone(), file: none, cpu: None },
            woken_by: None,
            in_doubt: false,
        });
    }
}
