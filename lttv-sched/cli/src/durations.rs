//! `lttv stats --by`: how long system calls, interrupts and requests of devices took.

use lttv_engine::call::Event;
use lttv_engine::hooks::Flow;
use lttv_modules::durations::{By, Distribution, Measuring};
use pct_num::thousands;
use pct_text::complain;
use serde::Serialize;

use crate::args::{self, Format, StatsArgs};
use crate::filter::Filter;
use crate::output::Out;
use crate::session::Session;
use crate::times;
use crate::{head, line};

/// A row of the table, times in ns.
#[derive(Serialize)]
struct Row<'s> {
    kind: &'static str,
    trace: usize,
    name: &'s str,
    count: u64,
    total_ns: u64,
    mean_ns: u64,
    p50_ns: u64,
    p99_ns: u64,
    max_ns: u64,
}

/// Shows durations.
///
/// # Errors
/// No trace has events that give states; the engine refused a request; the output cannot be written.
pub fn run(s: &mut Session, args: &StatsArgs, by: args::By, filter: Option<Filter>) -> anyhow::Result<()> {
    let (by, kind) = match by {
        args::By::Syscall => (By::Syscall, "syscall"),
        args::By::Process => (By::Process, "process"),
        args::By::Irq => (By::Irq, "irq"),
        args::By::Device => (By::Device, "device"),
        args::By::File => (By::File, "file"),
        args::By::Function => anyhow::bail!(args::Usage("functions have samples, no durations".into())),
    };
    s.require_states("stats --by")?;
    s.use_states()?;
    let measuring = Measuring::new(by, s.traces.len());
    let mut first = s.first_result();
    let request = s.window(None, move |_| {
        first();
        Flow::Go
    });
    let filtered = filter.is_some();
    let wanted = move |event: &Event<'_>| filter.as_ref().is_none_or(|filter| filter.matches(event));
    s.submit(measuring.attach(request, wanted))?;
    s.drive(|| None);
    let known = (0..s.traces.len()).any(|trace| s.knows_events(trace, by.ends()));
    let measured = measuring.take_durations();
    let mut rows: Vec<(usize, &String, &Distribution)> = measured
        .iter()
        .enumerate()
        .flat_map(|(trace, of)| of.iter().map(move |(name, distribution)| (trace, name, distribution)))
        .collect();
    rows.sort_by_key(|(trace, name, found)| (std::cmp::Reverse(found.total), *trace, *name));
    if rows.is_empty() && known {
        s.say_nothing(&format!("{kind} whose begin and end are known"), filtered);
    } else if rows.is_empty() {
        let lacks = if s.traces.len() == 1 { "the trace has" } else { "the traces have" };
        complain!("lttv: nothing to show: {kind} needs {}, and {lacks} no such events", by.events());
    }
    let mut out = Out::new(s.format);
    if s.format != Format::Text {
        for (trace, name, found) in rows {
            let (p50_ns, p99_ns) = (found.percentile(50), found.percentile(99));
            out.row(&Row {
                kind,
                trace,
                name,
                count: found.count,
                total_ns: found.total,
                mean_ns: found.mean(),
                p50_ns,
                p99_ns,
                max_ns: found.max,
            });
        }
        return Ok(out.finish()?);
    }
    head!(
        &mut out,
        "{:>12}  {:>10}  {:>10}  {:>10}  {:>10}  {:>10}  {kind}",
        "count",
        "total",
        "mean",
        "p50",
        "p99",
        "max"
    );
    for (trace, name, found) in rows.iter().take(args.rows) {
        let times = [found.total, found.mean(), found.percentile(50), found.percentile(99), found.max];
        let [total, mean, p50, p99, max] = times.map(times::duration);
        let host = if s.traces.len() > 1 { format!("  in {}", s.label(*trace)) } else { String::new() };
        let count = thousands(found.count);
        line!(
            &mut out,
            "{count:>12}  {total:>10}  {mean:>10}  {p50:>10}  {p99:>10}  {max:>10}  {name}{host}"
        );
    }
    if rows.len() > args.rows {
        line!(&mut out, "{} more", rows.len() - args.rows);
    }
    Ok(out.finish()?)
}
