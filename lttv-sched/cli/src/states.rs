//! `lttv states`: what CPUs and threads were doing.
//!
//! The module `state` computes saved states behind; then the window is asked for with the state brought up to date, so that it
//! is right from its first event on, wherever it lies.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use lttv_engine::hooks::{Flow, Hook};
use lttv_engine::request::EventsRequest;
use lttv_engine::source::EventHead;
use lttv_engine::time::Time;
use lttv_modules::state::{Losses, SystemState};

use crate::args::{Format, StatesArgs};
use crate::fields::quoted;
use crate::line;
use crate::session::{OWNER, Out, Session};
use crate::times;

/// What a CPU was doing, and since when.
#[derive(Clone, PartialEq, Eq)]
struct Doing {
    mode: String,
    tid: Option<i64>,
    name: Arc<str>,
    thread_mode: String,
    /// Events were lost and no switch was seen since: it may have been something else.
    in_doubt: bool,
}

impl Doing {
    fn of(s: &SystemState, cpu: u32, now: Time) -> Doing {
        let thread = s.running(cpu);
        Doing {
            mode: s.cpu_mode(cpu).to_string(),
            tid: thread.map(|t| t.key.tid),
            name: thread.map_or_else(|| "".into(), |t| t.name.clone()),
            thread_mode: thread.map_or(String::new(), |t| t.top().mode.to_string()),
            in_doubt: s.in_doubt(cpu, now).is_some(),
        }
    }

    /// The mode for people: a question mark where it is in doubt.
    fn shown_mode(&self) -> String {
        format!("{}{}", self.mode, if self.in_doubt { "?" } else { "" })
    }
}

/// Shows states.
///
/// # Errors
/// The engine refused a request, or the output cannot be written.
pub fn run(s: &mut Session, args: &StatesArgs) -> anyhow::Result<()> {
    s.compute_states()?;
    match &args.at {
        Some(t) => at(s, s.time(t)?),
        None => intervals(s),
    }
}

/// Everything at one time.
fn at(s: &mut Session, t: Time) -> anyhow::Result<()> {
    type Seen = Vec<Option<SystemState>>;
    let seen: Arc<Mutex<Seen>> = Arc::default();
    let (to, traces, mut first) = (seen.clone(), s.traces.len(), s.first_result());
    let mut r = EventsRequest::new(OWNER).from_time(t).count(1);
    let look = Hook::on_border(move |call| {
        let mut seen = to.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(c) = call.context.filter(|_| seen.is_empty()) {
            first();
            *seen = (0..traces).map(|i| c.state::<SystemState>(i).cloned()).collect();
        }
        Flow::Go
    });
    // Past the last event there is no chunk: the end of the request tells.
    r.before_chunk_traceset.add(look.clone())?;
    r.after_request.add(look)?;
    s.submit(r)?;
    s.drive(|| None);
    let mut out = Out::new();
    let seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
    for (i, state) in seen.iter().enumerate() {
        if let Some(state) = state {
            snapshot(&mut out, s.format, i, t, state);
        }
    }
    Ok(out.finish()?)
}

fn snapshot(out: &mut Out, format: Format, trace: usize, t: Time, s: &SystemState) {
    if format == Format::Text {
        line!(
            out,
            "trace {trace} at {}: {} CPUs, {} threads",
            times::shown(t),
            s.cpus.len(),
            s.threads.len()
        );
        line!(out, "\n{:>6}  {:<8}  {:>8}  name", "CPU", "mode", "tid");
    }
    for cpu in s.cpus.keys() {
        let d = Doing::of(s, *cpu, t);
        if format == Format::Text {
            let tid = d.tid.map_or("-".into(), |t| t.to_string());
            line!(out, "{cpu:>6}  {:<8}  {tid:>8}  {}", d.shown_mode(), d.name);
        } else {
            let _ = std::fmt::Write::write_fmt(
                &mut out.line,
                format_args!("{{\"kind\":\"cpu\",\"trace\":{trace},\"cpu\":{cpu},\"mode\":\"{}\",", d.mode),
            );
            running(out, &d);
            out.end_line();
        }
    }
    if format == Format::Text {
        line!(out, "\n{:>8}  {:<9}  {:<8}  {:<24}  since", "tid", "status", "mode", "in");
    }
    for thread in s.threads.values() {
        let top = thread.top();
        let in_doubt = s.thread_in_doubt(thread, t).is_some();
        if format == Format::Text {
            let since = times::shown(top.entry);
            line!(
                out,
                "{:>8}  {:<9}  {:<8}  {:<24}  {since}  {}",
                thread.key.tid,
                format!("{}{}", thread.status, if in_doubt { "?" } else { "" }),
                top.mode.to_string(),
                top.submode,
                thread.name
            );
        } else {
            let _ = std::fmt::Write::write_fmt(
                &mut out.line,
                format_args!(
                    "{{\"kind\":\"thread\",\"trace\":{trace},\"tid\":{},\"status\":\"{}\",\"mode\":\"{}\",\"submode\":",
                    thread.key.tid, thread.status, top.mode
                ),
            );
            quoted(&mut out.line, &top.submode);
            out.line.push_str(",\"name\":");
            quoted(&mut out.line, &thread.name);
            line!(out, ",\"since_ns\":{},\"in_doubt\":{in_doubt}}}", top.entry);
        }
    }
}

/// The end of a JSON object: what runs.
fn running(out: &mut Out, d: &Doing) {
    let tid = d.tid.map_or("null".into(), |t| t.to_string());
    let _ = std::fmt::Write::write_fmt(&mut out.line, format_args!("\"tid\":{tid},\"name\":"));
    quoted(&mut out.line, &d.name);
    let _ = std::fmt::Write::write_fmt(
        &mut out.line,
        format_args!(",\"thread_mode\":\"{}\",\"in_doubt\":{}}}", d.thread_mode, d.in_doubt),
    );
}

struct Following {
    out: Out,
    at: Time,
    /// By trace and CPU.
    doing: BTreeMap<(usize, u32), (Time, Doing)>,
    json: bool,
}

impl Following {
    /// Cuts what a CPU was doing where the first loss since began: from there on it is in doubt.
    fn doubt(&mut self, key: (usize, u32), now: Time, losses: &Losses) {
        let Some((from, certain)) = self.doing.get(&key).filter(|(_, doing)| !doing.in_doubt) else { return };
        if let Some(lost) = losses.between(key.1, *from, now) {
            let (from, certain) = (*from, certain.clone());
            self.doing.insert(key, (lost, Doing { in_doubt: true, ..certain.clone() }));
            self.end(key, from, lost, &certain);
        }
    }

    fn end(&mut self, (trace, cpu): (usize, u32), from: Time, to: Time, d: &Doing) {
        if from == to {
            return;
        }
        if self.json {
            let _ = std::fmt::Write::write_fmt(
                &mut self.out.line,
                format_args!(
                    "{{\"trace\":{trace},\"cpu\":{cpu},\"from_ns\":{from},\"to_ns\":{to},\"mode\":\"{}\",",
                    d.mode
                ),
            );
            running(&mut self.out, d);
            self.out.end_line();
        } else {
            let wide = times::duration(to.since(from).unsigned_abs());
            let tid = d.tid.map_or("-".into(), |t| t.to_string());
            line!(
                &mut self.out,
                "{} {} {wide:>12} {cpu:>4} {:<8} {tid:>8} {} {}",
                times::shown(from),
                times::shown(to),
                d.shown_mode(),
                d.name,
                d.thread_mode
            );
        }
    }
}

/// An interval for each thing that a CPU did: begin, end, duration, CPU, mode, thread.
fn intervals(s: &mut Session) -> anyhow::Result<()> {
    let json = s.format == Format::Json;
    let shared =
        Arc::new(Mutex::new(Following { out: Out::new(), at: Time::MIN, doing: BTreeMap::new(), json }));
    let (to, mut first) = (shared.clone(), s.first_result());
    let mut r = EventsRequest::new(OWNER).from_time(s.from.unwrap_or(Time::MIN));
    r.end_time = s.to;
    let stop = r.stop_flag.clone();
    // At the default priority the state is that after the event.
    let r = r.on_event(move |call| {
        let cpu = call.head.cpu;
        let mut guard = to.lock().unwrap_or_else(PoisonError::into_inner);
        let f = &mut *guard;
        f.at = call.time;
        let Some(state) =
            call.state::<SystemState>().filter(|s| cpu != EventHead::NO_CPU && s.cpus.contains_key(&cpu))
        else {
            return Flow::Go;
        };
        let now = Doing::of(state, cpu, call.time);
        let key = (call.trace(), cpu);
        f.doubt(key, call.time, &state.losses);
        match f.doing.get_mut(&key) {
            Some((_, old)) if *old == now => {}
            Some(slot) => {
                let (from, old) = std::mem::replace(slot, (call.time, now));
                first();
                f.end(key, from, call.time, &old);
            }
            None => drop(f.doing.insert(key, (call.time, now))),
        }
        if f.out.closed {
            stop.set();
        }
        Flow::Go
    });
    s.submit(r)?;
    s.drive(|| Some(shared.lock().unwrap_or_else(PoisonError::into_inner).at));
    let mut guard = shared.lock().unwrap_or_else(PoisonError::into_inner);
    let f = &mut *guard;
    let end = s.to.unwrap_or(f.at).min(f.at);
    let losses: Vec<Losses> = s.sources().map(|source| Losses::of(source.as_ref())).collect();
    for key in f.doing.keys().copied().collect::<Vec<_>>() {
        losses.get(key.0).into_iter().for_each(|losses| f.doubt(key, end, losses));
    }
    for (key, (from, d)) in std::mem::take(&mut f.doing) {
        f.end(key, from, end, &d);
    }
    Ok(f.out.finish()?)
}
