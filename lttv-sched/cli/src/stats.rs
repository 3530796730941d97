//! `lttv stats`: counts by event, CPU and channel; events and CPU time by mode, CPU time by thread (of whole traces).
//!
//! Without a window or filter these are the results of the module `stats`, computed by one background pass. With one, events
//! of the window are counted by a request. Where a trace tells what CPUs do and nothing is filtered, states are computed behind
//! first, so that the time of a window by mode and thread is right from its first instant on.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use lttv_engine::background::BackgroundNotify;
use lttv_engine::call::Cause;
use lttv_engine::hooks::{Flow, Hook};
use lttv_engine::source::{EventHead, Source};
use lttv_engine::time::Time;
use lttv_modules::state::{Mode, kind_of};
use lttv_modules::stats::{self, Stats, WindowStats};
use pct_num::thousands;

use crate::args::{Format, StatsArgs};
use crate::fields::quoted;
use crate::filter::Filter;
use crate::line;
use crate::session::{OWNER, Out, Session};
use crate::times;

/// Counts of events, however they were made.
#[derive(Default)]
struct Counts {
    total: u64,
    by_name: BTreeMap<String, u64>,
    by_cpu: BTreeMap<Option<u32>, u64>,
    by_channel: BTreeMap<String, u64>,
    /// Mode -> events, CPU time in ns.
    by_mode: BTreeMap<Mode, (u64, i64)>,
    /// Of the mode of system calls: that of idle CPUs.
    idle: (u64, i64),
    span: Option<(Time, Time)>,
    /// (thread number, name) -> CPU time, ns.
    threads: BTreeMap<(i64, Arc<str>), i64>,
    /// CPU -> CPU time that is in doubt because events were lost, ns.
    in_doubt: BTreeMap<u32, i64>,
}

impl Counts {
    /// Adds the statistics of a trace.
    fn add(&mut self, r: &Stats) {
        self.total += r.total();
        r.by_name().into_iter().for_each(|(n, v)| *self.by_name.entry(n.to_string()).or_default() += v);
        r.by_cpu().into_iter().for_each(|(n, v)| *self.by_cpu.entry(n).or_default() += v);
        r.channels
            .iter()
            .filter(|(_, n)| **n > 0)
            .for_each(|(n, v)| *self.by_channel.entry(n.to_string()).or_default() += v);
        for (mode, (events, ns)) in r.by_mode() {
            let sum = self.by_mode.entry(mode).or_default();
            *sum = (sum.0 + events, sum.1 + ns);
        }
        self.stretch(r.span);
        for (thread, ns) in r.cpu_time_by_thread().filter(|(_, ns)| *ns > 0) {
            *self.threads.entry((thread.key.tid, thread.name.clone())).or_default() += ns;
        }
        let (events, ns) = r.idle();
        self.idle = (self.idle.0 + events, self.idle.1 + ns);
        r.in_doubt.iter().for_each(|(cpu, ns)| *self.in_doubt.entry(*cpu).or_default() += ns);
    }

    /// Modes by name, the idle CPUs as one of their own.
    fn modes(&self) -> Vec<(String, u64, i64)> {
        let mut modes = Vec::new();
        for (mode, (events, ns)) in &self.by_mode {
            let idle = if *mode == Mode::Syscall { self.idle } else { (0, 0) };
            modes.push((mode.to_string(), events - idle.0.min(*events), ns - idle.1));
        }
        if !modes.is_empty() {
            modes.push(("idle".into(), self.idle.0, self.idle.1));
        }
        modes.retain(|(_, events, ns)| *events > 0 || *ns > 0);
        modes
    }

    /// Without what says nothing.
    fn tidied(mut self) -> Counts {
        self.threads.retain(|_, ns| *ns > 0);
        self.in_doubt.retain(|_, ns| *ns > 0);
        self.by_cpu.retain(|_, events| *events > 0);
        // A trace that says nothing of modes has one only.
        self.by_mode.retain(|_, (events, ns)| *events > 0 || *ns > 0);
        if self.by_mode.keys().all(|mode| *mode == Mode::Unknown) {
            self.by_mode.clear();
        }
        self
    }

    fn stretch(&mut self, span: Option<(Time, Time)>) {
        self.span = match (self.span, span) {
            (Some(a), Some(b)) => Some((a.0.min(b.0), a.1.max(b.1))),
            (a, b) => a.or(b),
        };
    }
}

/// Shows statistics.
///
/// # Errors
/// The engine refused a request, or the output cannot be written.
pub fn run(s: &mut Session, args: &StatsArgs, filter: Option<Filter>) -> anyhow::Result<()> {
    let counts = match filter {
        None if s.from.is_none() && s.to.is_none() => whole(s)?,
        None if s.sources().any(|source| tells_states(source.as_ref())) => window_with_states(s)?,
        filter => window(s, filter)?,
    };
    let mut out = Out::new();
    match s.format {
        Format::Text => text(&mut out, &counts, args.rows),
        Format::Json => json(&mut out, &counts),
    }
    Ok(out.finish()?)
}

/// By the background module.
fn whole(s: &mut Session) -> anyhow::Result<Counts> {
    lttv_modules::register_all(&mut s.engine)?;
    let failed = Arc::new(Mutex::new(false));
    for t in s.traces.clone() {
        let (failed, mut first) = (failed.clone(), s.first_result());
        let told = Hook::on_border(move |call| {
            first();
            if call.cause == Some(Cause::Aborted) {
                *failed.lock().unwrap_or_else(PoisonError::into_inner) = true;
            }
            Flow::Go
        });
        s.engine.request_and_notify(t, BackgroundNotify::new(OWNER, stats::NAME, told))?;
    }
    s.drive(|| None);
    anyhow::ensure!(
        !*failed.lock().unwrap_or_else(PoisonError::into_inner),
        "the statistics could not be computed"
    );
    let mut c = Counts::default();
    for t in &s.traces {
        let Some(r) = s.engine.trace(*t).and_then(|t| t.data().result::<Stats>(stats::NAME)) else {
            continue;
        };
        c.add(&r);
    }
    Ok(c.tidied())
}

/// Whether a trace has events that change what CPUs and threads are known to do.
fn tells_states(source: &dyn Source) -> bool {
    let mut classes = source.tracefiles().iter().flat_map(|info| info.classes.iter());
    classes.any(|class| kind_of(&class.name).is_some())
}

/// By a request for a window, with the states of the traces.
fn window_with_states(s: &mut Session) -> anyhow::Result<Counts> {
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
    let mut c = Counts::default();
    stats.take().iter().for_each(|of_trace| c.add(of_trace));
    Ok(c.tidied())
}

/// By a request for a window.
fn window(s: &mut Session, filter: Option<Filter>) -> anyhow::Result<Counts> {
    let shared = Arc::new(Mutex::new((Counts::default(), Time::MIN)));
    let (to, mut first) = (shared.clone(), s.first_result());
    let request = s.window(filter, move |e| {
        first();
        let mut guard = to.lock().unwrap_or_else(PoisonError::into_inner);
        let (c, at) = &mut *guard;
        *at = e.time;
        c.total += 1;
        match c.by_name.get_mut(e.name()) {
            Some(n) => *n += 1,
            None => drop(c.by_name.insert(e.name().into(), 1)),
        }
        *c.by_cpu.entry((e.head.cpu != EventHead::NO_CPU).then_some(e.head.cpu)).or_default() += 1;
        match c.by_channel.get_mut(&*e.info().channel) {
            Some(n) => *n += 1,
            None => drop(c.by_channel.insert(e.info().channel.to_string(), 1)),
        }
        if e.head.ts != Time::UNTIMED {
            c.stretch(Some((e.head.ts, e.head.ts)));
        }
        Flow::Go
    });
    s.submit(request)?;
    s.drive(|| Some(shared.lock().unwrap_or_else(PoisonError::into_inner).1));
    let mut guard = shared.lock().unwrap_or_else(PoisonError::into_inner);
    Ok(std::mem::take(&mut guard.0))
}

fn text(out: &mut Out, c: &Counts, rows: usize) {
    match c.span {
        Some((a, b)) => {
            let wide = times::duration(u64::try_from(i128::from(b.ns()) - i128::from(a.ns())).unwrap_or(0));
            line!(
                out,
                "{} events in {wide}, from {} to {}",
                thousands(c.total),
                times::shown(a),
                times::shown(b)
            );
        }
        None => line!(out, "{} events", thousands(c.total)),
    }
    #[expect(clippy::cast_precision_loss, reason = "shown with one digit after the point")]
    let share = |n: u64| n as f64 * 100.0 / c.total.max(1) as f64;
    let mut names: Vec<(&String, &u64)> = c.by_name.iter().collect();
    names.sort_by_key(|(name, n)| (std::cmp::Reverse(**n), *name));
    line!(out, "\n{:>15}  {:>6}  event", "count", "share");
    for (name, n) in names.iter().take(rows) {
        line!(out, "{:>15}  {:>5.1}%  {name}", thousands(**n), share(**n));
    }
    if names.len() > rows {
        let rest: u64 = names[rows..].iter().map(|n| n.1).sum();
        line!(out, "{:>15}  {:>5.1}%  {} more", thousands(rest), share(rest), names.len() - rows);
    }
    if c.by_cpu.keys().any(Option::is_some) {
        line!(out, "\n{:>15}  {:>6}  CPU", "count", "share");
        for (cpu, n) in &c.by_cpu {
            line!(
                out,
                "{:>15}  {:>5.1}%  {}",
                thousands(*n),
                share(*n),
                cpu.map_or("-".into(), |c| c.to_string())
            );
        }
    }
    if c.by_channel.len() > 1 {
        line!(out, "\n{:>15}  {:>6}  channel", "count", "share");
        for (channel, n) in &c.by_channel {
            line!(out, "{:>15}  {:>5.1}%  {channel}", thousands(*n), share(*n));
        }
    }
    if !c.by_mode.is_empty() {
        line!(out, "\n{:>15}  {:>15}  mode", "count", "CPU time");
        for (mode, n, ns) in c.modes() {
            line!(out, "{:>15}  {:>15}  {mode}", thousands(n), times::duration(ns.unsigned_abs()));
        }
    }
    if !c.in_doubt.is_empty() {
        line!(
            out,
            "\n{:>15}  CPU: events were lost, what ran in this part of its time is not sure",
            "in doubt"
        );
        for (cpu, ns) in &c.in_doubt {
            line!(out, "{:>15}  {cpu}", times::duration(ns.unsigned_abs()));
        }
    }
    if !c.threads.is_empty() {
        let mut threads: Vec<_> = c.threads.iter().collect();
        threads.sort_by_key(|(k, ns)| (std::cmp::Reverse(**ns), *k));
        line!(out, "\n{:>15}  {:>8}  thread", "CPU time", "tid");
        for ((tid, name), ns) in threads.iter().take(rows) {
            line!(out, "{:>15}  {tid:>8}  {name}", times::duration(ns.unsigned_abs()));
        }
        if threads.len() > rows {
            let rest: u64 = threads[rows..].iter().map(|t| t.1.unsigned_abs()).sum();
            line!(out, "{:>15}  {:>8}  {} more", times::duration(rest), "", threads.len() - rows);
        }
    }
}

fn json(out: &mut Out, c: &Counts) {
    let (a, b) = c.span.map_or(("null".into(), "null".into()), |(a, b)| (a.to_string(), b.to_string()));
    line!(out, "{{\"kind\":\"total\",\"events\":{},\"first_ns\":{a},\"last_ns\":{b}}}", c.total);
    for (name, n) in &c.by_name {
        out.line.push_str("{\"kind\":\"event\",\"name\":");
        quoted(&mut out.line, name);
        line!(out, ",\"events\":{n}}}");
    }
    for (cpu, n) in &c.by_cpu {
        line!(
            out,
            "{{\"kind\":\"cpu\",\"cpu\":{},\"events\":{n}}}",
            cpu.map_or("null".into(), |c| c.to_string())
        );
    }
    for (channel, n) in &c.by_channel {
        out.line.push_str("{\"kind\":\"channel\",\"name\":");
        quoted(&mut out.line, channel);
        line!(out, ",\"events\":{n}}}");
    }
    for (mode, n, ns) in c.modes() {
        line!(out, "{{\"kind\":\"mode\",\"mode\":\"{mode}\",\"events\":{n},\"cpu_ns\":{ns}}}");
    }
    for (cpu, ns) in &c.in_doubt {
        line!(out, "{{\"kind\":\"in_doubt\",\"cpu\":{cpu},\"cpu_ns\":{ns}}}");
    }
    for ((tid, name), ns) in &c.threads {
        let _ = std::fmt::Write::write_fmt(
            &mut out.line,
            format_args!("{{\"kind\":\"thread\",\"tid\":{tid},\"name\":"),
        );
        quoted(&mut out.line, name);
        line!(out, ",\"cpu_ns\":{ns}}}");
    }
}
