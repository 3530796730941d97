//! `lttv histogram`: events over time.

use std::sync::{Arc, Mutex, PoisonError};

use lttv_engine::hooks::Flow;
use lttv_engine::time::Time;
use lttv_modules::histogram::Histogram;
use serde::Serialize;

use crate::args::{Format, HistogramArgs};
use crate::filter::Filter;
use crate::output::Out;
use crate::session::Session;
use crate::times;
use crate::{head, line};

/// Widest bar, characters.
const BAR: u64 = 50;

/// A bucket. Without bounds: the events without a time.
#[derive(Serialize)]
struct Bucket {
    from_ns: Option<i64>,
    width_ns: Option<u64>,
    events: u64,
}

/// Shows a histogram of the window.
///
/// # Errors
/// The engine refused the request; the output cannot be written.
pub fn run(s: &mut Session, args: &HistogramArgs, filter: Option<Filter>) -> anyhow::Result<()> {
    let filtered = filter.is_some();
    // Without a timed event any window will do: events without a time are outside of it, and are counted.
    let span = s.span().unwrap_or((Time(0), Time(0)));
    let from = s.from.unwrap_or(span.0);
    let to = s.to.unwrap_or(span.1.saturating_add(1));
    let empty = Histogram::new(from, to, args.buckets as usize);
    let shared = Arc::new(Mutex::new((empty, Time::MIN)));
    let (counts, mut first) = (shared.clone(), s.first_result());
    let request = s.window(filter, move |e| {
        first();
        let mut guard = counts.lock().unwrap_or_else(PoisonError::into_inner);
        guard.0.add(e.time);
        guard.1 = e.time;
        Flow::Go
    });
    s.submit(request)?;
    s.drive(|| Some(shared.lock().unwrap_or_else(PoisonError::into_inner).1));
    let guard = shared.lock().unwrap_or_else(PoisonError::into_inner);
    let h = &guard.0;
    let mut out = Out::new(s.format);
    if h.total() == 0 && h.outside() == 0 {
        s.say_nothing("event", filtered);
    }
    match s.format {
        Format::Text => text(&mut out, h),
        _ if s.span().is_some() => rows(&mut out, h),
        _ => {}
    }
    if h.outside() > 0 {
        match s.format {
            Format::Text => line!(&mut out, "{} events without a time", h.outside()),
            _ => out.row(&Bucket { from_ns: None, width_ns: None, events: h.outside() }),
        }
    }
    Ok(out.finish()?)
}

/// A bar for each bucket. Nothing if no bucket has an event.
fn text(out: &mut Out, h: &Histogram) {
    let most = h.counts().iter().copied().max().unwrap_or(0);
    if most == 0 {
        return;
    }
    line!(out, "{} events, buckets of {}", h.total(), times::duration(h.width_ns()));
    let width = times::shown(h.start()).to_string().chars().count();
    head!(out, "{:width$} {:>10}", "from", "events");
    for (i, n) in h.counts().iter().enumerate() {
        let bar = u64::try_from(u128::from(*n) * u128::from(BAR) / u128::from(most)).unwrap_or(BAR);
        // A bucket with any event has a visible bar.
        let bar = if *n > 0 { bar.max(1) } else { 0 };
        let bar = "#".repeat(usize::try_from(bar).unwrap_or(0));
        line!(out, "{} {n:>10} {bar}", times::shown(h.bucket_start(i)));
    }
}

fn rows(out: &mut Out, h: &Histogram) {
    for (i, n) in h.counts().iter().enumerate() {
        let from_ns = Some(h.bucket_start(i).ns());
        out.row(&Bucket { from_ns, width_ns: Some(h.width_ns()), events: *n });
    }
}
