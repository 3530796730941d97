//! The list of events of a range, one a row.

use std::collections::HashMap;

use lttv_modules::timeline::lanes::{LaneKind, LaneOf};
use maud::{Markup, html};

use crate::board::{colour_of_event, lane_of};
use crate::events::{EventRow, EventsAsk, Only};
use crate::store::Store;
use crate::view::{LaneRef, Tab, View, link};
use crate::words::{cut, duration, short, since};

/// Rows of a page of events.
const MOST_EVENTS: usize = 200;

/// The part of a trace of which the chosen lane is.
pub(super) fn only_of(store: &Store, view: &View) -> Option<Only> {
    let (trace, lane) = lane_of(store, view)?;
    let none = Only { trace, cpu: None, tid: None, tracefile: None };
    Some(match lane.of {
        LaneOf::Cpu(cpu) => Only { cpu: Some(cpu), ..none },
        LaneOf::Thread(tid) => Only { tid: Some(tid), ..none },
        LaneOf::Tracefile(file) => Only { tracefile: Some(file), ..none },
    })
}

/// Which events a view lists from a place on: a time, and events at that time that were listed before.
pub(crate) fn events_ask(store: &Store, view: &View, (from, skip): (i64, u64), most: usize) -> EventsAsk {
    let only = only_of(store, view);
    EventsAsk { from, skip, to: view.window().1, most, only, name: view.name.clone() }
}

/// The list, and the links to its other pages.
pub(super) fn markup(store: &Store, view: &View) -> Markup {
    let ((from, _), origin) = (view.window(), store.origin());
    let ask = events_ask(store, view, view.at.unwrap_or((from, 0)), MOST_EVENTS);
    let listed = store.events(&ask);
    let lanes = lanes_of_threads(store);
    let several = store.traces().len() > 1;
    let names: Vec<&str> = store.traces().map(|shown| short(&shown.name)).collect();
    // Samples do not know where they were taken.
    let has_cpus = listed.rows.iter().any(|row| row.cpu.is_some());
    html! {
        form.find action="tl" method="get" {
            @for (key, value) in crate::view::parts(&View { name: String::new(), at: None, tab: Some(Tab::Events), ..view.clone() }.query()) {
                input type="hidden" name=(key) value=(value);
            }
            input.filter type="search" name="name" value=(view.name) placeholder="name of an event" aria-label="name of an event";
            button.control { "filter" }
            a.control href={ "tl/file?" (view.query()) "&as=events" } download="events.jsonl" { "save as JSON lines" }
        }
        @if !listed.is_whole { p.warning { "This took too long; the list may lack events at its end." } }
        div.tablebox { table.data.events {
            thead { tr {
                th { "s" } th { "after" } @if several { th.l { "trace" } }
                @if has_cpus { th { "CPU" } } th.l { "thread" } th.l { "event" } th.l { "fields" }
            } }
            tbody {
                @for (at, row) in listed.rows.iter().enumerate() {
                    @let before = at.checked_sub(1).and_then(|at| listed.rows.get(at));
                    @let lane = lane_of_row(&lanes, row);
                    tr data-t=(row.time) data-lane=[lane.map(|(lane, _)| lane)] {
                        td { a href=(link(&View { hit: Some(row.time), ..view.clone() })) data-ns=(row.time) { (since(origin, row.time, 0)) } }
                        td { @if let Some(before) = before { (duration(row.time.abs_diff(before.time))) } }
                        @if several { td.l { (names.get(row.trace).copied().unwrap_or("")) } }
                        @if has_cpus { td { @if let Some(cpu) = row.cpu { (cpu) } } }
                        td.l { (thread(view, row, lane)) }
                        td.l title=(row.of) { span.swatch style={ "background:" (colour_of_event(&row.name)) } {} (row.name) }
                        @let fields = pct_text::visible(bare(&row.fields));
                        td.l.fields title=(fields) { (fields) }
                    }
                }
            }
        } }
        @if listed.rows.is_empty() { p.soft { "no event here" } }
        p.paging {
            @if view.at.is_some() { a.control href=(link(&View { at: None, ..view.clone() })) { "first" } }
            @if let Some(next) = listed.next { a.control href=(link(&View { at: Some(next), ..view.clone() })) { "next" } }
        }
    }
}

/// Lanes of threads with their names, by trace and number of the thread.
type ThreadLanes = HashMap<(usize, i64), (LaneRef, String)>;

fn lanes_of_threads(store: &Store) -> ThreadLanes {
    let mut out = ThreadLanes::new();
    for trace in 0..store.traces().len() {
        for (lane, of) in store.lanes(trace).into_iter().enumerate() {
            let LaneOf::Thread(tid) = of.of else { continue };
            if of.kind == LaneKind::Waits {
                continue;
            }
            // The lane of its states, where there is one, is the one with most to see.
            if of.kind == LaneKind::Thread || !out.contains_key(&(trace, tid)) {
                out.insert((trace, tid), (LaneRef { trace, lane }, of.name.to_string()));
            }
        }
    }
    out
}

fn lane_of_row<'l>(lanes: &'l ThreadLanes, row: &EventRow) -> Option<(LaneRef, &'l str)> {
    let (lane, name) = lanes.get(&(row.trace, row.thread?))?;
    Some((*lane, name))
}

/// The thread whose event it is, with a link to its lane alone.
fn thread(view: &View, row: &EventRow, lane: Option<(LaneRef, &str)>) -> Markup {
    html! {
        @match (row.thread, lane) {
            (Some(0), _) => span.soft { "idle" },
            (_, Some((lane, name))) => a href=(link(&View { lane: Some(lane), at: None, ..view.clone() })) { (cut(name, 30)) },
            (Some(tid), None) => (tid),
            (None, None) => {}
        }
    }
}

/// Fields without the braces around all of them.
fn bare(fields: &str) -> &str {
    let inside = fields.strip_prefix("{ ").and_then(|rest| rest.strip_suffix(" }"));
    // Of several parts each has its own.
    inside.filter(|inside| !inside.contains("}{") && !inside.contains("}, {")).unwrap_or(fields)
}
