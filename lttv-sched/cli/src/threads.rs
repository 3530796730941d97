//! `lttv threads`: what each thread did in a window, as sums or interval by interval.

use pct_text::complain;
use std::sync::{Arc, Mutex, PoisonError};

use lttv_engine::hooks::Flow;
use lttv_engine::source::Value;
use lttv_engine::time::Time;
use lttv_modules::state::KernelEvent;
use lttv_modules::threads::{
    Activity, NOT_KNOWN, OnInterval, ThreadId, ThreadInterval, ThreadSums, ThreadTimes, tells_threads,
};
use pct_num::thousands;
use serde::Serialize;

use crate::args::{Format, ThreadsArgs};
use crate::filter::{Filter, known_columns};
use crate::output::Out;
use crate::session::Session;
use crate::times;
use crate::{head, line};
use rustc_hash::FxHashSet;

/// The columns that a filter may use, for the sums of a thread and for an interval.
const COLUMNS: [&str; 3] = ["trace", "tid", "name"];
const INTERVAL_COLUMNS: [&str; 10] =
    ["trace", "tid", "name", "state", "mode", "call", "file", "cpu", "woken_by", "in_doubt"];

/// Shows threads.
///
/// # Errors
/// No trace says what threads do; the filter uses a column that rows lack; the engine refused a request; the output
/// cannot be written.
pub fn run(s: &mut Session, args: &ThreadsArgs, filter: Option<Filter>) -> anyhow::Result<()> {
    anyhow::ensure!(
        s.any_tells_states() || s.sources().any(|source| tells_threads(source.as_ref())),
        "threads: none of these traces tells what threads did: they have neither events of the kernel's scheduler \
         (sched_switch and the like) nor samples of threads"
    );
    if !args.thread.is_empty() {
        let wanted: FxHashSet<i64> = args.thread.iter().copied().collect();
        return intervals(s, filter, move |interval| wanted.contains(&interval.thread.key.tid));
    }
    known_columns(filter.as_ref(), &COLUMNS)?;
    let filtered = filter.is_some();
    let times = collect(s, Box::new(|_| {}))?;
    let mut sums = times.take_sums();
    // Idle threads only wait for others.
    sums.retain(|(thread, sums)| {
        thread.key.tid != 0
            && filter
                .as_ref()
                .is_none_or(|filter| filter.matches_row(|name| column(thread, &sums.name, name)))
    });
    sums.sort_by_key(|(thread, sums)| (std::cmp::Reverse(sums.on_cpu()), *thread));
    if sums.is_empty() {
        s.say_nothing("thread", filtered);
    }
    let mut out = Out::new(s.format);
    match s.format {
        Format::Text => text(s, &mut out, &sums, args.rows),
        _ => sums.iter().for_each(|(thread, sums)| out.row(&SumsRow::new(thread, sums))),
    }
    Ok(out.finish()?)
}

/// Reads the window and passes on each interval when it ends.
fn collect(s: &mut Session, on_interval: OnInterval) -> anyhow::Result<ThreadTimes> {
    if s.any_tells_states() {
        s.use_states()?;
    }
    let windows = s.sources().map(|source| s.window_of(source.as_ref())).collect();
    let times = ThreadTimes::new(s.sources(), windows, on_interval);
    let mut first = s.first_result();
    let request = s.window(None, move |_| {
        first();
        Flow::Go
    });
    s.submit(times.attach(request))?;
    s.drive(|| Some(times.at()));
    Ok(times)
}

/// Lists the intervals of the requested threads, in the order of their ends.
///
/// # Errors
/// The filter uses a column that rows lack; the engine refused a request; the output cannot be written.
pub fn intervals(
    s: &mut Session,
    filter: Option<Filter>,
    wanted: impl Fn(&ThreadInterval) -> bool + Send + 'static,
) -> anyhow::Result<()> {
    known_columns(filter.as_ref(), &INTERVAL_COLUMNS)?;
    let filtered = filter.is_some();
    let out = Arc::new(Mutex::new(Out::new(s.format)));
    let (to, format, several) = (out.clone(), s.format, s.traces.len() > 1);
    collect(
        s,
        Box::new(move |interval| {
            let passes = |filter: &Filter| filter.matches_row(|name| interval_column(interval, name));
            if wanted(interval) && filter.as_ref().is_none_or(passes) {
                let mut out = to.lock().unwrap_or_else(PoisonError::into_inner);
                match format {
                    Format::Text => interval_line(&mut out, interval, several),
                    _ => out.row(&IntervalRow::new(interval)),
                }
            }
        }),
    )?;
    let mut out = out.lock().unwrap_or_else(PoisonError::into_inner);
    if out.is_empty() {
        s.say_nothing("state of these threads", filtered);
    }
    Ok(out.finish()?)
}

/// A column of the table of sums: its head, its figure, and whether it is shown if it is 0 everywhere.
struct Column {
    head: &'static str,
    ns: fn(&ThreadSums) -> i64,
    always: bool,
}

/// Time on a CPU in code of the program.
fn user(sums: &ThreadSums) -> i64 {
    sums.running.get("user").copied().unwrap_or(0)
}

/// Time on a CPU for which it is unknown whether it was in code of the program.
fn unknown_mode(sums: &ThreadSums) -> i64 {
    sums.running.get("unknown").copied().unwrap_or(0)
}

const TABLE: [Column; 8] = [
    Column { head: "running", ns: ThreadSums::on_cpu, always: true },
    Column { head: "user", ns: user, always: false },
    Column { head: "kernel", ns: |sums| sums.on_cpu() - user(sums) - unknown_mode(sums), always: false },
    Column { head: "waits for CPU", ns: |sums| sums.waits_for_cpu, always: false },
    Column { head: "blocked", ns: |sums| sums.blocked, always: false },
    Column { head: "off CPU", ns: |sums| sums.off_cpu, always: false },
    Column { head: "unknown", ns: |sums| sums.unknown, always: false },
    Column { head: "in doubt", ns: |sums| sums.in_doubt, always: false },
];

/// What a thread was blocked in, the longest first.
fn blocked_in(sums: &ThreadSums) -> Vec<BlockedIn<'_>> {
    let stays = sums.blocked_in.iter();
    let mut stays: Vec<_> = stays
        .map(|((call, file), stays)| BlockedIn { call, file, count: stays.count, ns: stays.ns })
        .collect();
    stays.sort_by_key(|stays| (std::cmp::Reverse(stays.ns), stays.call, stays.file));
    stays
}

fn text(s: &Session, out: &mut Out, sums: &[(ThreadId, ThreadSums)], rows: usize) {
    let shown = |column: &&Column| column.always || sums.iter().any(|(_, sums)| (column.ns)(sums) != 0);
    let columns: Vec<&Column> = TABLE.iter().filter(shown).collect();
    // If a trace has no events of system calls, it only says that a thread was blocked in an interrupt.
    let known = |stays: &BlockedIn<'_>| stays.call != NOT_KNOWN;
    let blocks = sums.iter().any(|(_, sums)| blocked_in(sums).iter().any(known));
    let silent: Vec<usize> = (0..s.traces.len())
        .filter(|trace| !s.knows_events(*trace, |kind| kind == KernelEvent::SyscallEntry))
        .filter(|trace| sums.iter().any(|(thread, sums)| thread.trace == *trace && sums.blocked != 0))
        .collect();
    for column in &columns {
        out.line.push_str(&format!("{:>13}  ", column.head));
    }
    head!(out, "{:>8}  thread{}", "tid", if blocks { "  (blocked longest in)" } else { "" });
    for (thread, sums) in sums.iter().take(rows) {
        for column in &columns {
            let ns = (column.ns)(sums);
            let time = if ns == 0 { "-".into() } else { times::duration(ns.unsigned_abs()) };
            out.line.push_str(&format!("{time:>13}  "));
        }
        let host = if s.traces.len() > 1 { format!("  in {}", s.label(thread.trace)) } else { String::new() };
        let stays = blocked_in(sums);
        let longest = stays.first().filter(|longest| known(longest) || !silent.contains(&thread.trace));
        let longest = longest.map_or(String::new(), |longest| {
            let (time, count) = (times::duration(longest.ns.unsigned_abs()), thousands(longest.count));
            let file = if longest.file.is_empty() { String::new() } else { format!(" {}", longest.file) };
            let call = if known(longest) { longest.call } else { "not known in what" };
            format!("  ({call}{file}: {time}, {count} times)")
        });
        line!(out, "{:>8}  {}{longest}{host}", thread.key.tid, sums.name);
    }
    if sums.len() > rows {
        line!(out, "{} more threads", sums.len() - rows);
    }
    for trace in silent {
        let which = if s.traces.len() > 1 { s.label(trace) } else { "the trace" };
        complain!(
            "lttv: in what threads were blocked is not known: {which} has no events of system calls (syscall_entry_*)"
        );
    }
}

fn column<'v>(thread: &ThreadId, thread_name: &'v str, name: &str) -> Option<Value<'v>> {
    Some(match name {
        "trace" => Value::Unsigned(thread.trace as u64),
        "tid" => Value::Signed(thread.key.tid),
        "name" => Value::Text(thread_name.into()),
        _ => return None,
    })
}

fn interval_column<'v>(interval: &'v ThreadInterval, name: &str) -> Option<Value<'v>> {
    let state = &interval.state;
    let text = |text: &'v str| Value::Text(text.into());
    Some(match name {
        "state" => Value::Text(state.activity.to_string().into()),
        "mode" => text(state.mode),
        "call" => text(&state.call),
        "file" => text(&state.file),
        "cpu" => Value::Unsigned(state.cpu?.into()),
        "woken_by" => text(interval.woken_by.as_ref()?),
        "in_doubt" => Value::Bool(interval.in_doubt),
        name => return column(&interval.thread, &interval.name, name),
    })
}

/// The sums of a thread for programs.
#[derive(Serialize)]
struct SumsRow<'s> {
    trace: usize,
    tid: i64,
    name: &'s str,
    start_ns: i64,
    running_ns: i64,
    user_ns: i64,
    kernel_ns: i64,
    waits_for_cpu_ns: i64,
    blocked_ns: i64,
    off_cpu_ns: i64,
    unknown_ns: i64,
    in_doubt_ns: i64,
    blocked_in: Vec<BlockedIn<'s>>,
}

/// What a thread was blocked in: a system call, or else a mode.
#[derive(Serialize)]
struct BlockedIn<'s> {
    call: &'s str,
    file: &'s str,
    count: u64,
    ns: i64,
}

impl<'s> SumsRow<'s> {
    fn new(thread: &ThreadId, sums: &'s ThreadSums) -> SumsRow<'s> {
        let user_ns = user(sums);
        SumsRow {
            trace: thread.trace,
            tid: thread.key.tid,
            name: &sums.name,
            start_ns: thread.start.ns(),
            running_ns: sums.on_cpu(),
            user_ns,
            kernel_ns: sums.on_cpu() - user_ns - unknown_mode(sums),
            waits_for_cpu_ns: sums.waits_for_cpu,
            blocked_ns: sums.blocked,
            off_cpu_ns: sums.off_cpu,
            unknown_ns: sums.unknown,
            in_doubt_ns: sums.in_doubt,
            blocked_in: blocked_in(sums),
        }
    }
}

/// An interval for programs.
#[derive(Serialize)]
struct IntervalRow<'s> {
    trace: usize,
    tid: i64,
    name: &'s str,
    from_ns: i64,
    to_ns: i64,
    state: String,
    mode: &'s str,
    call: &'s str,
    file: &'s str,
    cpu: Option<u32>,
    woken_by: Option<&'s str>,
    in_doubt: bool,
}

impl<'s> IntervalRow<'s> {
    fn new(interval: &'s ThreadInterval) -> IntervalRow<'s> {
        let state = &interval.state;
        IntervalRow {
            trace: interval.thread.trace,
            tid: interval.thread.key.tid,
            name: &interval.name,
            from_ns: interval.from.ns(),
            to_ns: interval.to.ns(),
            state: state.activity.to_string(),
            mode: state.mode,
            call: &state.call,
            file: &state.file,
            cpu: state.cpu,
            woken_by: interval.woken_by.as_deref(),
            in_doubt: interval.in_doubt,
        }
    }
}

fn interval_line(out: &mut Out, interval: &ThreadInterval, several: bool) {
    let state = &interval.state;
    let words = match state.activity {
        Activity::Running => format!("running {}", state.mode),
        Activity::WaitsForCpu => "waits for a CPU".into(),
        Activity::Blocked if state.call.is_empty() && &*state.blocked_in() != NOT_KNOWN => {
            format!("blocked ({})", state.blocked_in())
        }
        Activity::Blocked => "blocked".into(),
        Activity::OffCpu => "off CPU".into(),
        other => other.to_string(),
    };
    let doubt = if interval.in_doubt { "?" } else { "" };
    let call = match (&*state.call, &*state.file) {
        ("", _) => String::new(),
        (call, "") => format!(" in {call}"),
        (call, file) => format!(" in {call} {file}"),
    };
    let cpu = state.cpu.map_or(String::new(), |cpu| format!(" on CPU {cpu}"));
    let woken = interval.woken_by.as_ref().map_or(String::new(), |waker| format!(", woken by {waker}"));
    let wide = times::duration(interval.ns().unsigned_abs());
    let trace = if several { format!("{:>3} ", interval.thread.trace) } else { String::new() };
    line!(
        out,
        "{} {} {wide:>12} {trace}{:>8} {} {words}{doubt}{call}{cpu}{woken}",
        times::shown(interval.from),
        times::shown(interval.to),
        interval.thread.key.tid,
        interval.name
    );
}

/// Keeps the intervals that contain a time.
pub fn at(time: Time) -> impl Fn(&ThreadInterval) -> bool + Send + 'static {
    move |interval| interval.from <= time && time < interval.to
}
