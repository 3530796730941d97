//! What a thread was doing in a range, state by state, and the states before and after a time: by the kernel's events,
//! or by the waits of a recording.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use lttv_engine::request::{EventsRequest, StopFlag};
use lttv_engine::time::Time;
use lttv_modules::threads::{ThreadInterval, ThreadTimes};
use serde_json::{Value, json};

use crate::board::lane_of;
use crate::recording::{Recording, lane_name};
use crate::store::Store;
use crate::view::{BadAddress, View, number, parts};
use crate::waits::EndedBy;

/// A list of the states of a thread, in order of time.
pub(crate) struct Listed {
    /// The states; the first and the last are cut at the ends of the range.
    pub(crate) rows: Vec<ThreadInterval>,
    /// There are more of them in the range.
    pub(crate) has_more: bool,
    /// Reading did not take too long.
    pub(crate) is_whole: bool,
}

/// Which of the states in a range are wanted.
#[derive(Clone, Copy)]
enum Wanted {
    First(usize),
    Last(usize),
}

/// The first states of a thread in [from, to).
pub(crate) fn of_thread(store: &Store, tid: i64, range: (i64, i64), most: usize) -> Listed {
    let (mut rows, is_whole) = collect(store, tid, range, Wanted::First(most + 1));
    let has_more = rows.len() > most;
    rows.truncate(most);
    Listed { rows, has_more, is_whole }
}

fn collect(store: &Store, tid: i64, (from, to): (i64, i64), wanted: Wanted) -> (Vec<ThreadInterval>, bool) {
    let windows = store.traces().map(|shown| {
        let (first, last) = shown.source.time_span()?;
        let (from, to) = (Time(from).max(first), Time(to).min(last));
        (from <= to).then_some((from, to))
    });
    let windows: Vec<_> = windows.collect();
    let found: Arc<Mutex<VecDeque<ThreadInterval>>> = Arc::default();
    let (stop, to_found) = (StopFlag::new(), found.clone());
    let stopped = stop.clone();
    let times = ThreadTimes::new(
        store.traces().map(|shown| &shown.source),
        windows,
        Box::new(move |interval| {
            if interval.thread.key.tid != tid || stopped.is_set() {
                return;
            }
            let mut found = to_found.lock().unwrap_or_else(PoisonError::into_inner);
            found.push_back(interval.clone());
            match wanted {
                Wanted::First(most) if found.len() >= most => stopped.set(),
                Wanted::Last(most) if found.len() > most => drop(found.pop_front()),
                _ => {}
            }
        }),
    );
    let mut request = EventsRequest::new(store.owner()).from_time(Time(from)).until_time(Time(to));
    request.stop_flag = stop;
    let is_whole = store.submit(times.attach(request));
    let rows = std::mem::take(&mut *found.lock().unwrap_or_else(PoisonError::into_inner));
    (rows.into(), is_whole)
}

/// The state that a thread comes to next after the one in which it is at a time.
fn next(store: &Store, tid: i64, time: i64) -> Option<ThreadInterval> {
    collect(store, tid, (time, store.span().1), Wanted::First(2)).0.into_iter().nth(1)
}

/// First width of the range that is searched for the state before, ns. Each further one is so many times as wide.
const FIRST_WIDTH: i64 = 1_000_000;
const WIDER: i64 = 16;

/// The state of a thread before the one in which it is at a time.
fn previous(store: &Store, tid: i64, time: i64) -> Option<ThreadInterval> {
    let begin = store.span().0;
    let mut width = FIRST_WIDTH;
    loop {
        let from = time.saturating_sub(width).max(begin);
        // The state at the time itself is the last one of the range, cut at its end.
        let (rows, is_whole) = collect(store, tid, (from, time.saturating_add(1)), Wanted::Last(2));
        // A state that the range cuts may have begun before it.
        match rows.into_iter().rev().nth(1).filter(|row| row.from.ns() > from || from == begin) {
            Some(row) => return Some(row),
            None if from == begin || !is_whole => return None,
            None => width = width.saturating_mul(WIDER),
        }
    }
}

/// The word of the lanes for the mode in which a thread has a CPU.
pub(crate) fn word_of_mode(mode: &'static str) -> &'static str {
    match mode {
        // It has a CPU, and no event has told yet what it executes.
        "unknown" => "running",
        "syscall" => "system call",
        "irq" => "interrupt",
        mode => mode,
    }
}

/// What a state is called, with what it is in.
pub(crate) fn words(row: &ThreadInterval) -> String {
    let activity = row.state.activity.to_string().replace('_', " ");
    let call = row.state.blocked_in();
    let within = match row.state.activity {
        lttv_modules::threads::Activity::Blocked => format!(" in {call}"),
        _ if row.state.call.is_empty() => format!(" ({})", row.state.mode),
        _ => format!(" in {}", row.state.call),
    };
    format!("{activity}{within}")
}

/// Answers `lane=0.12&t=..&dir=next`: the state of the lane's thread before or after the one at that time, or of a
/// recorded thread the wait.
///
/// # Errors
/// The question makes no sense.
pub(crate) fn change(store: &Store, query: &str) -> Result<Value, BadAddress> {
    let view = View::parse(query, store.span())?;
    let (mut time, mut dir) = (None, String::new());
    for (key, text) in parts(query) {
        match key {
            "t" => time = Some(number::<i64>(key, &text)?),
            "dir" => dir = text,
            _ => {}
        }
    }
    let time = time.ok_or_else(|| BadAddress("t: expected a time in ns".into()))?;
    let Some((trace, tid)) = lane_of(store, &view).and_then(|(trace, lane)| Some((trace, lane.tid()?)))
    else {
        return Ok(json!({}));
    };
    let is_next = match &*dir {
        "next" => true,
        "previous" => false,
        other => return Err(BadAddress(format!("dir={other}: expected next or previous"))),
    };
    if let Some(recording) = store.trace(trace).and_then(|shown| shown.recording.as_ref()) {
        return Ok(wait_beside(recording, tid, time, is_next).unwrap_or_else(|| json!({})));
    }
    let found = if is_next { next(store, tid, time) } else { previous(store, tid, time) };
    Ok(found.map_or_else(
        || json!({}),
        |row| {
            json!({
                "from": row.from.ns().to_string(), "to": row.to.ns().to_string(), "state": words(&row),
                "woken_by": row.woken_by.as_deref(), "cpu": row.state.cpu,
            })
        },
    ))
}

/// The first wait of a thread that begins after a time, or the last one that begins before it.
fn wait_beside(recording: &Recording, tid: i64, time: i64, is_next: bool) -> Option<Value> {
    let waits = recording.waits_of_thread(tid);
    let wait = if is_next {
        waits.filter(|wait| wait.from_ns > time).min_by_key(|wait| wait.from_ns)
    } else {
        waits.filter(|wait| wait.from_ns < time).max_by_key(|wait| wait.from_ns)
    }?;
    let visible = |text: u32| pct_text::visible(recording.waits.text(text)).into_owned();
    let ender = |who: EndedBy| {
        let thread = recording.thread(who.thread)?;
        let place =
            who.place.map_or_else(|| ", which ended".into(), |place| format!(" in {}", visible(place)));
        Some(pct_text::visible(&lane_name(thread)).into_owned() + &place)
    };
    Some(json!({
        "from": wait.from_ns.to_string(), "to": wait.to_ns.to_string(),
        "state": format!("waits for {} in {}", visible(wait.object), visible(wait.place)),
        "woken_by": wait.ended_by.and_then(ender), "ended": "ended by", "cpu": Value::Null,
    }))
}
