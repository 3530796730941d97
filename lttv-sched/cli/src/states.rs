//! `lttv states`: what CPUs and threads were doing.
//!
//! The module `state` computes saved states in the background. Then the window is requested with the state brought up
//! to date. That state says what each CPU was doing at the begin of the window, so a CPU without an event in the window
//! has its row too.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use lttv_engine::call::BorderCall;
use lttv_engine::hooks::{Flow, Hook};
use lttv_engine::request::EventsRequest;
use lttv_engine::source::{EventHead, Value};
use lttv_engine::time::Time;
use lttv_modules::state::{Losses, SystemState};
use lttv_modules::threads::tells_threads;
use serde::Serialize;

use crate::args::{Format, StatesArgs};
use crate::filter::{Filter, known_columns};
use crate::output::Out;
use crate::session::{OWNER, Session};
use crate::threads;
use crate::times;
use crate::{head, line};

/// What a CPU was doing.
#[derive(Clone, PartialEq, Eq, Serialize)]
struct Doing {
    mode: String,
    tid: Option<i64>,
    name: Arc<str>,
    thread_mode: String,
    /// Events were lost and no switch followed yet, so it may have been something else.
    in_doubt: bool,
}

impl Doing {
    fn on_cpu(state: &SystemState, cpu: u32, now: Time) -> Doing {
        let thread = state.running(cpu);
        Doing {
            mode: state.cpu_mode(cpu).to_string(),
            tid: thread.map(|thread| thread.key.tid),
            name: thread.map_or_else(|| "".into(), |thread| thread.name.clone()),
            thread_mode: thread.map_or(String::new(), |thread| thread.activity().into()),
            in_doubt: state.in_doubt(cpu, now).is_some(),
        }
    }

    /// The mode for people, with a question mark if it is in doubt.
    fn shown_mode(&self) -> String {
        format!("{}{}", self.mode, if self.in_doubt { "?" } else { "" })
    }

    fn column(&self, name: &str) -> Option<Value<'_>> {
        Some(match name {
            "mode" => text(&self.mode),
            "thread_mode" => text(&self.thread_mode),
            "name" => text(&self.name),
            "tid" => Value::Signed(self.tid?),
            "in_doubt" => Value::Bool(self.in_doubt),
            _ => return None,
        })
    }
}

fn text(text: &str) -> Value<'_> {
    Value::Text(text.into())
}

/// The columns that a filter may use, for a CPU's interval and for a thread at one time.
const COLUMNS: [&str; 7] = ["trace", "cpu", "mode", "tid", "name", "thread_mode", "in_doubt"];
const THREAD_COLUMNS: [&str; 8] =
    ["trace", "tid", "name", "path", "status", "thread_mode", "submode", "in_doubt"];

/// Shows states.
///
/// # Errors
/// The engine refused a request, the filter uses a column that rows lack, or the output cannot be written.
pub fn run(s: &mut Session, args: &StatesArgs, filter: Option<Filter>) -> anyhow::Result<()> {
    let recorded = s.sources().any(|source| tells_threads(source.as_ref()));
    if recorded && !s.any_tells_states() {
        // A recording of samples has threads but no CPUs.
        return match &args.at {
            Some(t) => {
                // The last instant belongs to the interval that ends there.
                let last = s.span().map_or(Time::MAX, |(_, last)| last.saturating_add(-1));
                let t = s.time(t)?.min(last);
                threads::intervals(s, filter, threads::at(t))
            }
            None => threads::intervals(s, filter, |_| true),
        };
    }
    let all: Vec<&str> = COLUMNS.iter().chain(&THREAD_COLUMNS[3..7]).copied().collect();
    known_columns(filter.as_ref(), if args.at.is_some() { &all } else { &COLUMNS })?;
    s.require_states("states")?;
    s.compute_states()?;
    match &args.at {
        Some(t) => at(s, s.time(t)?, filter.as_ref()),
        None => intervals(s, filter),
    }
}

/// Shows everything at one time.
fn at(s: &mut Session, t: Time, filter: Option<&Filter>) -> anyhow::Result<()> {
    type Seen = Vec<Option<SystemState>>;
    let seen: Arc<Mutex<Seen>> = Arc::default();
    let (to, traces, mut first) = (seen.clone(), s.traces.len(), s.first_result());
    let mut request = EventsRequest::new(OWNER).from_time(t).count(1);
    let look = Hook::on_border(move |call| {
        let mut seen = to.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(context) = call.context.filter(|_| seen.is_empty()) {
            first();
            *seen = (0..traces).map(|trace| context.state::<SystemState>(trace).cloned()).collect();
        }
        Flow::Go
    });
    // Past the last event there is no chunk, so the hook at the end of the request is used.
    request.before_chunk_traceset.add(look.clone())?;
    request.after_request.add(look)?;
    s.submit(request)?;
    s.drive(|| None);
    let mut out = Out::new(s.format);
    let seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
    let mut any = false;
    for (trace, state) in seen.iter().enumerate() {
        if let Some(state) = state {
            any |= Snapshot { trace, name: s.label(trace), at: t, state, filter }.write(&mut out, s.format);
        }
    }
    if !any {
        s.say_nothing("CPU or thread", filter.is_some());
    }
    Ok(out.finish()?)
}

/// The state of a trace at one time, as it is printed.
struct Snapshot<'s> {
    trace: usize,
    name: &'s str,
    at: Time,
    state: &'s SystemState,
    filter: Option<&'s Filter>,
}

/// A thread at one time.
#[derive(Serialize)]
struct ThreadRow<'s> {
    kind: &'static str,
    trace: usize,
    tid: i64,
    status: String,
    mode: &'static str,
    submode: &'s str,
    name: &'s str,
    path: &'s str,
    /// When this status began.
    since_ns: i64,
    /// When this mode began.
    mode_since_ns: i64,
    in_doubt: bool,
}

impl ThreadRow<'_> {
    fn column(&self, name: &str) -> Option<Value<'_>> {
        Some(match name {
            "trace" => Value::Unsigned(self.trace as u64),
            "tid" => Value::Signed(self.tid),
            "name" => text(self.name),
            "path" => text(self.path),
            "status" => text(&self.status),
            "mode" | "thread_mode" => text(self.mode),
            "submode" => text(self.submode),
            "in_doubt" => Value::Bool(self.in_doubt),
            _ => return None,
        })
    }
}

/// A CPU at one time.
#[derive(Serialize)]
struct CpuRow<'s> {
    kind: &'static str,
    trace: usize,
    cpu: u32,
    #[serde(flatten)]
    doing: &'s Doing,
}

impl Snapshot<'_> {
    /// Writes the rows that pass the filter. Returns false if none does.
    fn write(&self, out: &mut Out, format: Format) -> bool {
        let (state, people) = (self.state, format == Format::Text);
        let mut any = false;
        if people {
            let (cpus, threads) = (state.cpus.len(), state.threads.len());
            line!(out, "{} at {}: {cpus} CPUs, {threads} threads", self.name, times::shown(self.at));
            head!(below out, "{:>6}  {:<8}  {:>8}  name", "CPU", "mode", "tid");
        }
        for cpu in state.cpus.keys() {
            let doing = Doing::on_cpu(state, *cpu, self.at);
            if !passes(self.filter, self.trace, *cpu, &doing) {
                continue;
            }
            any = true;
            if people {
                let tid = doing.tid.map_or("-".into(), |tid| tid.to_string());
                line!(out, "{cpu:>6}  {:<8}  {tid:>8}  {}", doing.shown_mode(), doing.name);
            } else {
                out.row(&CpuRow { kind: "cpu", trace: self.trace, cpu: *cpu, doing: &doing });
            }
        }
        if people {
            head!(below out, "{:>8}  {:<9}  {:<20}  {:<8}  {:<24}  name", "tid", "status", "since", "mode", "in");
        }
        for thread in state.threads.values() {
            let row = ThreadRow {
                kind: "thread",
                trace: self.trace,
                tid: thread.key.tid,
                status: thread.status.to_string(),
                mode: thread.activity(),
                submode: &thread.top().submode,
                name: &thread.name,
                path: &thread.path,
                since_ns: thread.status_since.ns(),
                mode_since_ns: thread.top().entry.ns(),
                in_doubt: state.thread_in_doubt(thread, self.at).is_some(),
            };
            if self.filter.is_some_and(|filter| !filter.matches_row(|name| row.column(name))) {
                continue;
            }
            any = true;
            if !people {
                out.row(&row);
                continue;
            }
            line!(
                out,
                "{:>8}  {:<9}  {:<20}  {:<8}  {:<24}  {}",
                row.tid,
                format!("{}{}", row.status, if row.in_doubt { "?" } else { "" }),
                times::shown(thread.status_since),
                row.mode,
                row.submode,
                row.name
            );
        }
        any
    }
}

/// Whether a row of a CPU is wanted.
fn passes(filter: Option<&Filter>, trace: usize, cpu: u32, doing: &Doing) -> bool {
    filter.is_none_or(|filter| {
        filter.matches_row(|name| match name {
            "trace" => Some(Value::Unsigned(trace as u64)),
            "cpu" => Some(Value::Unsigned(cpu.into())),
            name => doing.column(name),
        })
    })
}

/// An interval in which a CPU did one thing.
#[derive(Serialize)]
struct IntervalRow<'s> {
    trace: usize,
    cpu: u32,
    from_ns: i64,
    to_ns: i64,
    #[serde(flatten)]
    doing: &'s Doing,
}

struct Following {
    out: Out,
    at: Time,
    /// By trace and CPU.
    doing: BTreeMap<(usize, u32), (Time, Doing)>,
    format: Format,
    several: bool,
    filter: Option<Filter>,
}

impl Following {
    /// At the begin of the window, each CPU that the state knows does what the state says.
    fn begin(&mut self, call: &BorderCall<'_>, windows: &[Option<(Time, Time)>]) {
        for (trace, window) in windows.iter().enumerate() {
            let state = call.context.and_then(|context| context.state::<SystemState>(trace));
            let (Some(state), Some((from, _))) = (state, *window) else { continue };
            for cpu in state.cpus.keys() {
                self.doing.insert((trace, *cpu), (from, Doing::on_cpu(state, *cpu, from)));
            }
        }
    }

    /// Splits a CPU's interval at the first loss since its begin: from there on it is in doubt.
    fn doubt(&mut self, key: (usize, u32), now: Time, losses: &Losses) {
        let Some((from, certain)) = self.doing.get(&key).filter(|(_, doing)| !doing.in_doubt) else { return };
        if let Some(lost) = losses.between(key.1, *from, now) {
            let (from, certain) = (*from, certain.clone());
            self.doing.insert(key, (lost, Doing { in_doubt: true, ..certain.clone() }));
            self.end(key, from, lost, &certain);
        }
    }

    fn end(&mut self, (trace, cpu): (usize, u32), from: Time, to: Time, doing: &Doing) {
        if from >= to || !passes(self.filter.as_ref(), trace, cpu, doing) {
            return;
        }
        if self.format != Format::Text {
            self.out.row(&IntervalRow { trace, cpu, from_ns: from.ns(), to_ns: to.ns(), doing });
            return;
        }
        let wide = times::duration(to.since(from).unsigned_abs());
        let tid = doing.tid.map_or("-".into(), |tid| tid.to_string());
        let trace = if self.several { format!("{trace:>3} ") } else { String::new() };
        line!(
            &mut self.out,
            "{} {} {wide:>12} {trace}{cpu:>4} {:<8} {tid:>8} {} {}",
            times::shown(from),
            times::shown(to),
            doing.shown_mode(),
            doing.name,
            doing.thread_mode
        );
    }
}

/// Shows an interval for each thing that a CPU did: begin, end, duration, CPU, mode, thread.
fn intervals(s: &mut Session, filter: Option<Filter>) -> anyhow::Result<()> {
    let windows: Vec<Option<(Time, Time)>> = s.sources().map(|source| s.window_of(source.as_ref())).collect();
    let shared = Arc::new(Mutex::new(Following {
        out: Out::new(s.format),
        at: Time::MIN,
        doing: BTreeMap::new(),
        format: s.format,
        several: s.traces.len() > 1,
        filter,
    }));
    let filtered = shared.lock().unwrap_or_else(PoisonError::into_inner).filter.is_some();
    let (to, mut first) = (shared.clone(), s.first_result());
    let mut request = EventsRequest::new(OWNER).from_time(s.from.unwrap_or(Time::MIN));
    request.end_time = s.to;
    if s.from.is_some() {
        let (to, windows) = (shared.clone(), windows.clone());
        request.before_request.add(Hook::on_border(move |call| {
            to.lock().unwrap_or_else(PoisonError::into_inner).begin(call, &windows);
            Flow::Go
        }))?;
    }
    let stop = request.stop_flag.clone();
    // At the default priority, the state is the one after the event.
    let request = request.on_event(move |call| {
        let cpu = call.head.cpu;
        let mut guard = to.lock().unwrap_or_else(PoisonError::into_inner);
        let following = &mut *guard;
        following.at = call.time;
        let Some(state) = call
            .state::<SystemState>()
            .filter(|state| cpu != EventHead::NO_CPU && state.cpus.contains_key(&cpu))
        else {
            return Flow::Go;
        };
        let now = Doing::on_cpu(state, cpu, call.time);
        let key = (call.trace(), cpu);
        following.doubt(key, call.time, &state.losses);
        match following.doing.get_mut(&key) {
            Some((_, old)) if *old == now => {}
            Some(slot) => {
                let (from, old) = std::mem::replace(slot, (call.time, now));
                first();
                following.end(key, from, call.time, &old);
            }
            None => drop(following.doing.insert(key, (call.time, now))),
        }
        if following.out.closed {
            stop.set();
        }
        Flow::Go
    });
    s.submit(request)?;
    s.drive(|| Some(shared.lock().unwrap_or_else(PoisonError::into_inner).at));
    let mut guard = shared.lock().unwrap_or_else(PoisonError::into_inner);
    let following = &mut *guard;
    let losses: Vec<Losses> = s.sources().map(|source| Losses::from_source(source.as_ref())).collect();
    for key in following.doing.keys().copied().collect::<Vec<_>>() {
        let Some((_, end)) = windows[key.0] else { continue };
        following.doubt(key, end, &losses[key.0]);
        if let Some((from, doing)) = following.doing.remove(&key) {
            following.end(key, from, end, &doing);
        }
    }
    if following.out.is_empty() {
        s.say_nothing("state of a CPU", filtered);
    }
    Ok(following.out.finish()?)
}
