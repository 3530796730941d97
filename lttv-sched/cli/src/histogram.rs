//! `lttv histogram`: events over time.

use std::sync::{Arc, Mutex, PoisonError};

use lttv_engine::hooks::Flow;
use lttv_engine::time::Time;
use lttv_modules::histogram::Histogram;
use serde::Serialize;

use crate::args::{Format, HistogramArgs};
use crate::filter::Filter;
use crate::line;
use crate::output::Out;
use crate::session::Session;
use crate::times;

/// Widest bar, characters.
const BAR: u64 = 50;

/// A bucket; without bounds: the events without a time.
#[derive(Serialize)]
struct Bucket {
    from_ns: Option<i64>,
    width_ns: Option<u64>,
    events: u64,
}

/// Shows a histogram of the window.
///
/// # Errors
/// The traces have no timed event; the engine refused the request; the output cannot be written.
pub fn run(s: &mut Session, args: &HistogramArgs, filter: Option<Filter>) -> anyhow::Result<()> {
    let span = s.span().ok_or_else(|| anyhow::anyhow!("the traces have no timed event"))?;
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
    let most = h.counts().iter().copied().max().unwrap_or(0).max(1);
    if s.format == Format::Text {
        line!(&mut out, "{} events, buckets of {}", h.total(), times::duration(h.width_ns()));
    }
    for (i, n) in h.counts().iter().enumerate() {
        let start = h.bucket_start(i);
        match s.format {
            Format::Text => {
                let bar = u64::try_from(u128::from(*n) * u128::from(BAR) / u128::from(most)).unwrap_or(BAR);
                // What is there is seen, however little.
                let bar = if *n > 0 { bar.max(1) } else { 0 };
                line!(
                    &mut out,
                    "{} {n:>10} {}",
                    times::shown(start),
                    "#".repeat(usize::try_from(bar).unwrap_or(0))
                );
            }
            _ => {
                out.row(&Bucket { from_ns: Some(start.ns()), width_ns: Some(h.width_ns()), events: *n });
            }
        }
    }
    if h.outside() > 0 {
        match s.format {
            Format::Text => line!(&mut out, "{} events without a time", h.outside()),
            _ => {
                out.row(&Bucket { from_ns: None, width_ns: None, events: h.outside() });
            }
        }
    }
    Ok(out.finish()?)
}
