//! What threads waited for in a range: sums by object and function, and the waits of one thread one by one.

use maud::{Markup, html};
use pct_num::{count, thousands};

use crate::board::lane_of;
use crate::recording::{Recording, lane_name};
use crate::store::{Shown, Store};
use crate::view::{LaneRef, View, link};
use crate::waits::{EndedBy, Wait, WaitKey, WaitSort, WaitSum, sums};
use crate::words::{cut, duration, function, share, short, since};
use lttv_modules::timeline::lanes::LaneOf;

/// Rows of a table of one sort.
const MOST_SUMS: usize = 20;
/// Most waits of a thread in a list.
const MOST_WAITS: usize = 200;
/// Most characters of a name.
const MOST_NAME: usize = 60;

/// A row of a table.
type Row = (WaitKey, WaitSum);

/// Whether a recording says what threads waited for.
pub(super) fn has_waits(shown: &Shown) -> bool {
    let threads = shown.recording.iter().flat_map(|recording| &recording.threads);
    threads.into_iter().any(|thread| !thread.waits.is_empty())
}

/// The tab.
pub(super) fn markup(store: &Store, view: &View) -> Markup {
    let chosen = lane_of(store, view).and_then(|(trace, lane)| Some((trace, lane.tid()?)));
    html! {
        @for (trace, shown) in store.traces().enumerate().filter(|(_, shown)| has_waits(shown)) {
            @if let Some(recording) = &shown.recording {
                @let of_lane = chosen.map(|(_, tid)| tid);
                (of_recording(shown, recording, of_lane, view.window()))
                @match chosen {
                    Some((of, tid)) if of == trace => (one_by_one(store, view, recording, (trace, tid))),
                    Some(_) => {}
                    None => p.soft { "A click on a thread's name shows its waits one by one." },
                }
            }
        }
    }
}

fn of_recording(shown: &Shown, recording: &Recording, tid: Option<i64>, range: (i64, i64)) -> Markup {
    let threads =
        recording.threads.iter().filter(|thread| tid.is_none_or(|tid| i64::from(thread.tid) == tid));
    let rows = sums(threads.flat_map(|thread| thread.waits.iter()), range);
    let sort = |row: &Row| {
        let name = usize::try_from(row.0.0).ok().and_then(|name| recording.waits.names.get(name));
        name.map_or(WaitSort::Unknown, |name| name.sort)
    };
    html! {
        p { b { (short(&shown.name)) } @if rows.is_empty() { ": no thread waited here" } }
        @for each in WaitSort::ALL {
            @let of_sort: Vec<&Row> = rows.iter().filter(|row| sort(row) == each).collect();
            @let whole: u64 = of_sort.iter().map(|row| row.1.ns).sum();
            @let waits: u64 = of_sort.iter().map(|row| row.1.waits).sum();
            @if !of_sort.is_empty() {
                h3 { span.swatch style={ "background:" (each.colour()) } {} "waits for " (each.words()) ": " (duration(whole)) " in " (count(waits, "wait", "waits")) }
                div.tablebox { (table(recording, &of_sort, whole)) }
            }
        }
    }
}

fn table(recording: &Recording, rows: &[&Row], whole: u64) -> Markup {
    let ended = rows.iter().any(|row| !row.1.ended_by.is_empty());
    let shown = &rows[..rows.len().min(MOST_SUMS)];
    let rest = &rows[shown.len()..];
    html! {
        table.data.waits {
            thead { tr { th { "time" } th { "share" } th { "waits" } th { "longest" } th.l { "for" } th.l { "waited in" } @if ended { th.l { "ended by" } } } }
            tbody {
                @for ((_, object, place), sum) in shown {
                    tr data-ns=(sum.ns) {
                        td { (duration(sum.ns)) }
                        td { (share(sum.ns, whole)) }
                        td { (thousands(sum.waits)) }
                        td { (duration(sum.longest_ns)) }
                        (name(recording.waits.text(*object)))
                        (name(recording.waits.text(*place)))
                        @if ended { td.l { (most_ended_by(recording, &sum.ended_by)) } }
                    }
                }
            }
        }
        @if !rest.is_empty() {
            p.soft { "... " (count(rest.len() as u64, "more row", "more rows")) ": " (duration(rest.iter().map(|row| row.1.ns).sum())) }
        }
    }
}

/// A cell with a name, whole in its title.
fn name(text: &str) -> Markup {
    html! { td.l title=(pct_text::visible(text)) { (function(text, MOST_NAME)) } }
}

/// Who ended most of the waits: the place of the longest ones' enders, and how many other places there are.
fn most_ended_by(recording: &Recording, ended_by: &[(EndedBy, u64)]) -> Markup {
    let mut places: Vec<(Option<u32>, u64)> = Vec::new();
    for (who, ns) in ended_by {
        match places.iter_mut().find(|place| place.0 == who.place) {
            Some(place) => place.1 = place.1.saturating_add(*ns),
            None => places.push((who.place, *ns)),
        }
    }
    places.sort_by_key(|place| std::cmp::Reverse(place.1));
    html! {
        @if let Some((place, _)) = places.first() {
            (place.map_or_else(|| "the thread's end".into(), |place| function(recording.waits.text(place), MOST_NAME)))
            @if places.len() > 1 { " +" (places.len() - 1) }
        }
    }
}

/// The waits of the chosen lane's thread.
fn one_by_one(store: &Store, view: &View, recording: &Recording, (trace, tid): (usize, i64)) -> Markup {
    let (from, to) = view.window();
    let mut waits: Vec<&Wait> =
        recording.waits_of_thread(tid).filter(|wait| wait.inside((from, to)) > 0).collect();
    waits.sort_by_key(|wait| wait.from_ns);
    let origin = store.origin();
    let at = |wait: &Wait| View { selection: Some((wait.from_ns, wait.to_ns)), ..view.clone() };
    let shown = &waits[..waits.len().min(MOST_WAITS)];
    html! {
        @if !shown.is_empty() {
            h3 { "one by one" }
            div.tablebox { table.data.states {
                thead { tr { th { "from, s" } th { "for" } th.l { "waits for" } th.l { "waited in" } th.l { "ended by" } } }
                tbody {
                    @for wait in shown {
                        tr data-from=(wait.from_ns) data-to=(wait.to_ns) {
                            td { a.control href=(link(&at(wait))) data-select="" { (since(origin, wait.from_ns, 0)) } }
                            td { (duration(wait.to_ns.abs_diff(wait.from_ns))) }
                            td.l title=(pct_text::visible(recording.waits.text(wait.object))) {
                                span.swatch style={ "background:" (recording.waits.sort(wait).colour()) } {} (function(recording.waits.text(wait.object), MOST_NAME))
                            }
                            (name(recording.waits.text(wait.place)))
                            td.l { @if let Some(who) = &wait.ended_by { (ended_by(store, view, recording, (trace, who))) } }
                        }
                    }
                }
            } }
        }
        @if waits.len() > shown.len() { p.soft { "These are the first " (MOST_WAITS) " of " (thousands(waits.len() as u64)) " waits of the range. Select a later one to see more." } }
    }
}

/// Who ended a wait, with a link to its lane, and where.
fn ended_by(store: &Store, view: &View, recording: &Recording, (trace, who): (usize, &EndedBy)) -> Markup {
    let thread = recording.thread(who.thread);
    let lane = thread.and_then(|thread| {
        let of = LaneOf::Thread(thread.tid.into());
        store.lanes(trace).iter().position(|lane| lane.of == of).map(|lane| LaneRef { trace, lane })
    });
    html! {
        @if let Some(thread) = thread {
            @match lane {
                Some(lane) => a href=(link(&View { lane: Some(lane), at: None, ..view.clone() })) { (cut(&lane_name(thread), 40)) },
                None => (cut(&lane_name(thread), 40)),
            }
            @if let Some(place) = who.place { " in " (function(recording.waits.text(place), MOST_NAME)) } @else { ", which ended" }
        }
    }
}
