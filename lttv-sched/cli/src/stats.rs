//! `lttv stats`: counts by event, CPU and channel; events and CPU time by mode, CPU time by thread (of whole traces).
//!
//! Without a window or filter these are the results of the module `stats`, computed by one background pass. With one, a
//! request counts the events of the window. If a trace gives states of CPUs and nothing is filtered, states are first
//! computed in the background, so that the window's time by mode and thread is right from its first instant on.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use lttv_engine::background::BackgroundNotify;
use lttv_engine::call::{Cause, Event};
use lttv_engine::hooks::{Flow, Hook};
use lttv_engine::ids::TraceId;
use lttv_engine::source::EventHead;
use lttv_engine::time::Time;
use lttv_modules::stats::{self, Stats, WindowStats};
use pct_num::thousands;
use serde::Serialize;

use crate::args::{Format, StatsArgs};
use crate::filter::Filter;
use crate::output::Out;
use crate::session::{OWNER, Session};
use crate::times;
use crate::{head, line};

/// Counts of a trace, in whichever way they were made.
#[derive(Default)]
struct Counts {
    total: u64,
    by_name: BTreeMap<Arc<str>, u64>,
    by_cpu: BTreeMap<Option<u32>, u64>,
    by_channel: BTreeMap<Arc<str>, u64>,
    /// What was done -> events, CPU time in ns.
    by_activity: BTreeMap<&'static str, (u64, i64)>,
    span: Option<(Time, Time)>,
    /// (thread number, name) -> CPU time, ns.
    threads: BTreeMap<(i64, Arc<str>), i64>,
    /// CPU -> CPU time that is in doubt because events were lost, ns.
    in_doubt: BTreeMap<u32, i64>,
}

impl Counts {
    fn from_stats(stats: &Stats) -> Counts {
        let mut counts = Counts {
            total: stats.total(),
            by_name: stats.by_name(),
            by_cpu: stats.by_cpu(),
            by_channel: stats.channels.clone(),
            by_activity: stats.by_activity(),
            span: stats.span,
            threads: BTreeMap::new(),
            in_doubt: stats.in_doubt.clone(),
        };
        for (thread, ns) in stats.cpu_time_by_thread().filter(|(_, ns)| *ns > 0) {
            *counts.threads.entry((thread.key.tid, thread.name.clone())).or_default() += ns;
        }
        // Rows without information are removed.
        counts.in_doubt.retain(|_, ns| *ns > 0);
        counts.by_cpu.retain(|_, events| *events > 0);
        counts.by_channel.retain(|_, events| *events > 0);
        counts.by_activity.retain(|_, (events, ns)| *events > 0 || *ns > 0);
        // If a trace does not have modes, the only one is "unknown".
        if counts.by_activity.keys().all(|activity| *activity == "unknown") {
            counts.by_activity.clear();
        }
        counts
    }

    fn add(&mut self, event: &Event<'_>) {
        self.total += 1;
        match self.by_name.get_mut(event.name()) {
            Some(count) => *count += 1,
            None => drop(self.by_name.insert(event.name().into(), 1)),
        }
        *self.by_cpu.entry((event.head.cpu != EventHead::NO_CPU).then_some(event.head.cpu)).or_default() += 1;
        match self.by_channel.get_mut(&*event.info().channel) {
            Some(count) => *count += 1,
            None => drop(self.by_channel.insert(event.info().channel.clone(), 1)),
        }
        if event.head.ts != Time::UNTIMED {
            self.span = joined(self.span, Some((event.head.ts, event.head.ts)));
        }
    }
}

/// The span that covers both.
fn joined(first: Option<(Time, Time)>, second: Option<(Time, Time)>) -> Option<(Time, Time)> {
    match (first, second) {
        (Some(first), Some(second)) => Some((first.0.min(second.0), first.1.max(second.1))),
        (first, second) => first.or(second),
    }
}

/// Shows statistics.
///
/// # Errors
/// The engine refused a request, or the output cannot be written.
pub fn run(s: &mut Session, args: &StatsArgs, filter: Option<Filter>) -> anyhow::Result<()> {
    let filtered = filter.is_some();
    let counts = match filter {
        None if s.from.is_none() && s.to.is_none() => whole(s)?,
        None if s.any_tells_states() => window_with_states(s)?,
        filter => window(s, filter)?,
    };
    let table = Table { counts: &counts, labels: s.labels() };
    if table.total() == 0 {
        s.say_nothing("event", filtered);
    }
    let mut out = Out::new(s.format);
    match s.format {
        Format::Text => table.text(&mut out, args.rows),
        _ => table.rows(&mut out),
    }
    Ok(out.finish()?)
}

/// Statistics from the background module.
fn whole(s: &mut Session) -> anyhow::Result<Vec<Counts>> {
    lttv_modules::register_all(&mut s.engine)?;
    let failed = Arc::new(Mutex::new(false));
    for trace in s.traces.clone() {
        let (failed, mut first) = (failed.clone(), s.first_result());
        let told = Hook::on_border(move |call| {
            first();
            if call.cause == Some(Cause::Aborted) {
                *failed.lock().unwrap_or_else(PoisonError::into_inner) = true;
            }
            Flow::Go
        });
        s.engine.request_and_notify(trace, BackgroundNotify::new(OWNER, stats::NAME, told))?;
    }
    s.drive(|| None);
    anyhow::ensure!(
        !*failed.lock().unwrap_or_else(PoisonError::into_inner),
        "the statistics could not be computed"
    );
    s.keep_all_states();
    let result = |trace: &TraceId| s.engine.trace(*trace)?.data().result::<Stats>(stats::NAME);
    Ok(s.traces
        .iter()
        .map(|trace| result(trace).map(|stats| Counts::from_stats(&stats)).unwrap_or_default())
        .collect())
}

/// Statistics from a request for a window, with the states of the traces.
fn window_with_states(s: &mut Session) -> anyhow::Result<Vec<Counts>> {
    s.compute_states()?;
    let (first, last) = s.span().unwrap_or((Time::MIN, Time::MIN));
    let from = s.from.unwrap_or(first).max(first).min(last);
    let to = s.to.unwrap_or(last).min(last).max(from);
    let stats = WindowStats::new(s.sources());
    let mut first_result = s.first_result();
    let request = s.window(None, move |_| {
        first_result();
        Flow::Go
    });
    s.submit(stats.attach(request, from, to))?;
    s.drive(|| Some(stats.at()));
    Ok(stats.take_stats().iter().map(Counts::from_stats).collect())
}

/// Statistics from a request for a window.
fn window(s: &mut Session, filter: Option<Filter>) -> anyhow::Result<Vec<Counts>> {
    let empty: Vec<Counts> = s.traces.iter().map(|_| Counts::default()).collect();
    let shared = Arc::new(Mutex::new((empty, Time::MIN)));
    let (to, mut first) = (shared.clone(), s.first_result());
    let request = s.window(filter, move |event| {
        first();
        let mut guard = to.lock().unwrap_or_else(PoisonError::into_inner);
        guard.1 = event.time;
        if let Some(counts) = guard.0.get_mut(event.trace()) {
            counts.add(event);
        }
        Flow::Go
    });
    s.submit(request)?;
    s.drive(|| Some(shared.lock().unwrap_or_else(PoisonError::into_inner).1));
    let mut guard = shared.lock().unwrap_or_else(PoisonError::into_inner);
    Ok(std::mem::take(&mut guard.0))
}

/// The printed tables. Events and channels are summed over all traces; CPUs, modes and threads belong to one host each.
struct Table<'s> {
    counts: &'s [Counts],
    labels: &'s [String],
}

/// A row of a machine's table.
#[derive(Default, Serialize)]
struct Row<'s> {
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    trace: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'s str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mode: Option<&'s str>,
    /// Set in rows of CPUs; null there if the CPU is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    cpu: Option<Option<u32>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tid: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    events: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cpu_ns: Option<i64>,
    /// Set in the row of totals; null there if no event has a time.
    #[serde(skip_serializing_if = "Option::is_none")]
    first_ns: Option<Option<i64>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_ns: Option<Option<i64>>,
}

impl<'s> Table<'s> {
    fn total(&self) -> u64 {
        self.counts.iter().map(|counts| counts.total).sum()
    }

    fn span(&self) -> Option<(Time, Time)> {
        self.counts.iter().fold(None, |span, counts| joined(span, counts.span))
    }

    /// Sums over all traces.
    fn summed(&self, of: fn(&Counts) -> &BTreeMap<Arc<str>, u64>) -> BTreeMap<&'s str, u64> {
        let mut sums = BTreeMap::new();
        for (name, count) in self.counts.iter().flat_map(of) {
            *sums.entry(&**name).or_default() += count;
        }
        sums
    }

    /// Rows of those tables that exist once per trace.
    fn by_trace<T>(&self, of: impl Fn(&'s Counts) -> Vec<T>) -> impl Iterator<Item = (usize, T)> {
        let rows = self.counts.iter().enumerate().map(move |(trace, counts)| (trace, of(counts)));
        rows.flat_map(|(trace, rows)| rows.into_iter().map(move |row| (trace, row)))
    }

    /// The text after a row of a trace if there are several traces.
    fn of_trace(&self, trace: usize) -> String {
        match self.labels.get(trace).filter(|_| self.counts.len() > 1) {
            Some(label) => format!("  in {label}"),
            None => String::new(),
        }
    }

    fn text(&self, out: &mut Out, rows: usize) {
        let total = self.total();
        match self.span() {
            Some((first, last)) => {
                let wide = i128::from(last.ns()) - i128::from(first.ns());
                let wide = times::duration(u64::try_from(wide).unwrap_or(0));
                let (first, last) = (times::shown(first), times::shown(last));
                line!(out, "{} events in {wide}, from {first} to {last}", thousands(total));
            }
            None => line!(out, "{} events", thousands(total)),
        }
        #[expect(clippy::cast_precision_loss, reason = "shown with one digit after the point")]
        let share = |count: u64| count as f64 * 100.0 / total.max(1) as f64;
        let names = self.summed(|counts| &counts.by_name);
        let mut names: Vec<(&str, u64)> = names.into_iter().collect();
        names.sort_by_key(|(name, count)| (std::cmp::Reverse(*count), *name));
        head!(below out, "{:>15}  {:>6}  event", "count", "share");
        for (name, count) in names.iter().take(rows) {
            line!(out, "{:>15}  {:>5.1}%  {name}", thousands(*count), share(*count));
        }
        if names.len() > rows {
            let rest: u64 = names[rows..].iter().map(|(_, count)| count).sum();
            line!(out, "{:>15}  {:>5.1}%  {} more", thousands(rest), share(rest), names.len() - rows);
        }
        if self.counts.iter().any(|counts| counts.by_cpu.keys().any(Option::is_some)) {
            head!(below out, "{:>15}  {:>6}  CPU", "count", "share");
            for (trace, (cpu, count)) in self.by_trace(|counts| counts.by_cpu.iter().collect()) {
                let cpu = cpu.map_or("-".into(), |cpu| cpu.to_string());
                let (count, share) = (thousands(*count), share(*count));
                line!(out, "{count:>15}  {share:>5.1}%  {cpu}{}", self.of_trace(trace));
            }
        }
        let channels = self.summed(|counts| &counts.by_channel);
        if channels.len() > 1 {
            head!(below out, "{:>15}  {:>6}  channel", "count", "share");
            for (channel, count) in channels {
                line!(out, "{:>15}  {:>5.1}%  {channel}", thousands(count), share(count));
            }
        }
        if self.counts.iter().any(|counts| !counts.by_activity.is_empty()) {
            head!(below out, "{:>15}  {:>15}  mode", "count", "CPU time");
            for (trace, (activity, (count, ns))) in
                self.by_trace(|counts| counts.by_activity.iter().collect())
            {
                let (count, time) = (thousands(*count), times::duration(ns.unsigned_abs()));
                line!(out, "{count:>15}  {time:>15}  {activity}{}", self.of_trace(trace));
            }
        }
        if self.counts.iter().any(|counts| !counts.in_doubt.is_empty()) {
            head!(
                below out,
                "{:>15}  CPU: events were lost, what ran in this part of its time is not sure",
                "in doubt"
            );
            for (trace, (cpu, ns)) in self.by_trace(|counts| counts.in_doubt.iter().collect()) {
                line!(out, "{:>15}  {cpu}{}", times::duration(ns.unsigned_abs()), self.of_trace(trace));
            }
        }
        let mut threads: Vec<_> = self.by_trace(|counts| counts.threads.iter().collect()).collect();
        if !threads.is_empty() {
            threads.sort_by_key(|(trace, (thread, ns))| (std::cmp::Reverse(**ns), *trace, *thread));
            head!(below out, "{:>15}  {:>8}  thread", "CPU time", "tid");
            for (trace, ((tid, name), ns)) in threads.iter().take(rows) {
                let time = times::duration(ns.unsigned_abs());
                line!(out, "{time:>15}  {tid:>8}  {name}{}", self.of_trace(*trace));
            }
            if threads.len() > rows {
                let rest: u64 = threads[rows..].iter().map(|(_, (_, ns))| ns.unsigned_abs()).sum();
                line!(out, "{:>15}  {:>8}  {} more", times::duration(rest), "", threads.len() - rows);
            }
        }
    }

    fn rows(&self, out: &mut Out) {
        let span = self.span();
        out.row(&Row {
            kind: "total",
            events: Some(self.total()),
            first_ns: Some(span.map(|span| span.0.ns())),
            last_ns: Some(span.map(|span| span.1.ns())),
            ..Row::default()
        });
        for (name, count) in self.summed(|counts| &counts.by_name) {
            out.row(&Row { kind: "event", name: Some(name), events: Some(count), ..Row::default() });
        }
        for (trace, (cpu, count)) in self.by_trace(|counts| counts.by_cpu.iter().collect()) {
            let (trace, events) = (Some(trace), Some(*count));
            out.row(&Row { kind: "cpu", trace, cpu: Some(*cpu), events, ..Row::default() });
        }
        for (name, count) in self.summed(|counts| &counts.by_channel) {
            out.row(&Row { kind: "channel", name: Some(name), events: Some(count), ..Row::default() });
        }
        for (trace, (mode, (count, ns))) in self.by_trace(|counts| counts.by_activity.iter().collect()) {
            let (trace, events, cpu_ns) = (Some(trace), Some(*count), Some(*ns));
            out.row(&Row { kind: "mode", trace, mode: Some(mode), events, cpu_ns, ..Row::default() });
        }
        for (trace, (cpu, ns)) in self.by_trace(|counts| counts.in_doubt.iter().collect()) {
            let (trace, cpu) = (Some(trace), Some(Some(*cpu)));
            out.row(&Row { kind: "in_doubt", trace, cpu, cpu_ns: Some(*ns), ..Row::default() });
        }
        for (trace, ((tid, name), ns)) in self.by_trace(|counts| counts.threads.iter().collect()) {
            let (trace, tid, cpu_ns) = (Some(trace), Some(*tid), Some(*ns));
            out.row(&Row { kind: "thread", trace, tid, name: Some(name), cpu_ns, ..Row::default() });
        }
    }
}
