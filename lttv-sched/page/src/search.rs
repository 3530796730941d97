//! Search over all traces: functions on the stacks of samples, names of events, values of fields.
//!
//! A text is looked for once in everything; marks in lanes, numbers of hits, the next and the previous one
//! come from what was found.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use lttv_engine::call::Event;
use lttv_modules::state::SystemState;
use lttv_modules::timeline::lanes::{LaneKind, LaneOf};
use maud::{Markup, html};
use pct_num::thousands;
use serde_json::{Value, json};

use crate::events::EventRow;
use crate::hits::{Hits, MOST};
use crate::store::Store;
use crate::view::{LaneRef, View, link};

/// Most marks of a lane in one answer: more than a lane has pixels say nothing.
const MOST_MARKS: i64 = 2000;

/// The lanes of each trace, by what they are of.
type LanesOf = Vec<HashMap<LaneOf, Vec<(LaneKind, LaneRef)>>>;

fn lanes_of(store: &Store) -> LanesOf {
    let of = |trace: usize| {
        let mut lanes: HashMap<LaneOf, Vec<(LaneKind, LaneRef)>> = HashMap::new();
        for (lane, of) in store.lanes(trace).into_iter().enumerate() {
            lanes.entry(of.of).or_default().push((of.kind, LaneRef { trace, lane }));
        }
        lanes
    };
    (0..store.traces().len()).map(of).collect()
}

/// Looks for a text in everything.
pub fn search(store: &Store, text: &str) -> Arc<Hits> {
    if let Some(known) = store.searches().find(text) {
        return known;
    }
    let is_whole = store.is_whole();
    let mut hits = in_events(store, text);
    in_samples(store, text, &mut hits);
    hits.times.sort_unstable();
    hits.lanes.values_mut().for_each(|times| times.sort_unstable());
    let hits = Arc::new(hits);
    // Lanes that are not known yet would stay without marks.
    if is_whole {
        store.searches().keep(text, &hits);
    }
    hits
}

/// Samples with a matching function on the stack: a regular expression.
fn in_samples(store: &Store, text: &str, hits: &mut Hits) {
    let lanes = lanes_of(store);
    for (trace, shown) in store.traces().enumerate() {
        let Some(recording) = &shown.recording else { continue };
        let (found, total) = match recording.windows.hits(text, MOST) {
            Ok(found) => found,
            Err(why) => {
                hits.problems.push(format!("{}: {why}", shown.name));
                continue;
            }
        };
        let before = hits.total;
        for (time, thread) in found {
            let tid = recording.threads.get(thread).map(|thread| LaneOf::Thread(thread.tid.into()));
            let of_thread = tid.and_then(|of| lanes.get(trace)?.get(&of)).into_iter().flatten();
            let of_thread = of_thread.filter(|(kind, _)| kind.is_of_samples());
            hits.add(time, of_thread.map(|(_, lane)| *lane));
        }
        hits.total = before + total;
    }
}

/// Events with the text in their name or in their fields, `ret = -1` say.
fn in_events(store: &Store, text: &str) -> Hits {
    let lanes = lanes_of(store);
    // The samples of recordings are searched by their stacks; their marks have names.
    let marks: Vec<Option<usize>> =
        store.traces().map(|shown| shown.recording.as_ref().map(|r| r.threads.len())).collect();
    let wanted = text.to_owned();
    let found: Arc<Mutex<Hits>> = Arc::default();
    let to = found.clone();
    let is_whole = store.each_event(move |event, state| {
        let is_sample =
            marks.get(event.trace()).copied().flatten().is_some_and(|marks| event.tracefile() != marks);
        if is_sample || !(event.name().contains(&*wanted) || EventRow::fields_of(event).contains(&*wanted)) {
            return;
        }
        let of_event = lanes.get(event.trace()).into_iter().flat_map(|lanes| places((event, state), lanes));
        to.lock().unwrap_or_else(PoisonError::into_inner).add(event.time.ns(), of_event);
    });
    let mut hits = std::mem::take(&mut *found.lock().unwrap_or_else(PoisonError::into_inner));
    if !is_whole {
        let last = hits.times.last().copied().unwrap_or(store.origin());
        let seconds = crate::words::since(store.origin(), last, 1_000_000_000);
        hits.problems
            .push(format!("there are too many events to look at all of them; found up to {seconds} s"));
    }
    hits
}

/// The lanes in which an event is marked: those of its thread, its CPU and its tracefile.
fn places<'l>(
    (event, state): (&Event<'_>, &SystemState),
    lanes: &'l HashMap<LaneOf, Vec<(LaneKind, LaneRef)>>,
) -> impl Iterator<Item = LaneRef> + 'l {
    let tid = state.thread_of_event(event);
    let of = [
        Some(LaneOf::Cpu(event.head.cpu)),
        Some(LaneOf::Tracefile(event.tracefile())),
        tid.map(LaneOf::Thread),
    ];
    let all = of.into_iter().flatten().filter_map(|of| lanes.get(&of)).flatten();
    all.filter(|(kind, _)| !kind.is_of_samples() && *kind != LaneKind::Waits).map(|(_, lane)| *lane)
}

/// The marks of each lane in what is seen, one for a pixel at most.
pub(crate) fn marks(hits: &Hits, view: &View) -> HashMap<LaneRef, Vec<i64>> {
    let step = (view.width() / MOST_MARKS).max(1);
    let of_lane = |times: &Vec<i64>| {
        let from = times.partition_point(|time| *time < view.from);
        let mut out: Vec<i64> = times[from..].iter().copied().take_while(|time| *time < view.to).collect();
        out.dedup_by_key(|time| time.div_euclid(step));
        out
    };
    hits.lanes.iter().map(|(lane, times)| (*lane, of_lane(times))).collect()
}

/// The time from which the next and the previous hit are counted.
fn place(view: &View) -> i64 {
    view.hit.unwrap_or_else(|| view.from.midpoint(view.to))
}

/// How many there are, and links to the next and the previous one.
fn hits_markup(hits: &Hits, view: &View) -> Markup {
    let (next, previous) = hits.beside(place(view));
    let there = |time: i64| {
        let half = view.width() / 2;
        let from = time.saturating_sub(half);
        View { from, to: from.saturating_add(view.width()), hit: Some(time), ..view.clone() }
    };
    let more = if hits.total > hits.times.len() as u64 { "; the first of them are marked" } else { "" };
    html! {
        b { (thousands(hits.total)) " hits" } (more) ", " (thousands(hits.count(view.from, view.to) as u64)) " in what is seen "
        @if let Some(time) = previous { a.control rel="prev" data-ns=(time) href=(link(&there(time))) { "previous" } }
        @if let Some(time) = next { a.control rel="next" data-ns=(time) href=(link(&there(time))) { "next" } }
        @for problem in &hits.problems { span.warning { (problem) } }
    }
}

/// The search box, and what was found.
pub(crate) fn markup(store: &Store, view: &View) -> Markup {
    let none = View { search: String::new(), hit: None, ..view.clone() };
    html! {
        form.search action="tl" method="get" {
            @for (key, value) in crate::view::parts(&none.query()) { input type="hidden" name=(key) value=(value); }
            input.filter type="search" name="q" value=(view.search) placeholder="function, event, field"
                title="a regular expression for the name of a function or event, or a value of a field"
                aria-label="search for a function, an event or a field's value";
            button.control { "search" }
            @if !view.search.is_empty() {
                span.hits { (hits_markup(&search(store, &view.search), view)) }
                a.control href=(link(&none)) { "no marks" }
            }
        }
    }
}

/// The same with the marks, for the page's script: times are ns after the begin of the span.
pub(crate) fn json_of(store: &Store, view: &View) -> Value {
    // The script puts these parts into the page as they are.
    let part = |markup: Markup| pct_text::visible_lines(&markup.into_string()).into_owned();
    if view.search.is_empty() {
        return json!({"v": 1, "total": 0, "html": part(markup(store, view)), "hits": "", "marks": {}});
    }
    let hits = search(store, &view.search);
    let origin = store.origin();
    let of_lane = |(lane, times): (LaneRef, Vec<i64>)| {
        let times: Vec<i64> = times.into_iter().map(|time| time.saturating_sub(origin)).collect();
        (lane.to_string(), json!(times))
    };
    let marks: serde_json::Map<String, Value> = marks(&hits, view).into_iter().map(of_lane).collect();
    let (next, previous) = hits.beside(place(view));
    json!({
        "v": 1, "total": hits.total, "seen": hits.count(view.from, view.to), "problems": hits.problems,
        "next": next.map(|time| time.to_string()), "previous": previous.map(|time| time.to_string()),
        "html": part(markup(store, view)), "hits": part(hits_markup(&hits, view)), "marks": marks,
    })
}
