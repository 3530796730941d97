//! What is shown of a range, below the lanes: tabs, statistics of traces, states. The list of events is in
//! [`super::event_list`], what is made of samples in [`super::workbench`].

use std::collections::BTreeMap;

use maud::{Markup, html};
use pct_num::thousands;

use lttv_modules::stats::{Branch, Stats};
use lttv_modules::threads::ThreadInterval;

use super::part::part_in_address;
use super::{event_list, waits, workbench};
use crate::board::lane_of;
use crate::events::Only;
use crate::states;
use crate::store::{ByName, Store};
use crate::view::{Tab, View, link};
use crate::words::{MOST_ROWS, duration, share, short, since};
use event_list::only_of;

/// The tab that is shown: the one asked for, if it has something to show, else the flame graph where there are samples.
pub(super) fn tab_of(store: &Store, view: &View) -> Option<Tab> {
    let sampled = store.traces().any(|shown| shown.recording.is_some());
    match view.tab.filter(|tab| sampled || !tab.is_of_samples()) {
        None if sampled => Some(Tab::Flame),
        None if view.selection.is_some() => Some(Tab::Statistics),
        tab => tab,
    }
}

/// The tabs that have something to show: without samples there is no flame graph, and recordings of samples alone have
/// no states.
fn tabs(store: &Store, shown: Option<Tab>) -> impl Iterator<Item = (Tab, &'static str, &'static str)> {
    let sampled = store.traces().any(|shown| shown.recording.is_some());
    let traced = store.traces().any(|shown| shown.recording.is_none());
    let waits = store.traces().any(waits::has_waits);
    let has_something = move |tab: Tab| match tab {
        Tab::States => traced,
        Tab::Waits => waits,
        tab => sampled || !tab.is_of_samples(),
    };
    Tab::ALL.into_iter().filter(move |(tab, ..)| has_something(*tab) || shown == Some(*tab))
}

/// What is shown of the range, alone.
pub(crate) fn window(store: &Store, view: &View) -> String {
    window_markup(store, view, None).into_string()
}

pub(super) fn window_markup(store: &Store, view: &View, nonce: Option<&str>) -> Markup {
    let ((from, to), origin) = (view.window(), store.origin());
    let width = to.abs_diff(from);
    let tab = tab_of(store, view);
    html! {
        h2 data-part=(part_in_address(store, view)) { @if view.selection.is_some() { "selected " } @else { "seen " }
            (since(origin, from, width)) " s to " (since(origin, to, width)) " s (" (duration(width)) " wall)"
            @if let Some(name) = lane_name(store, view) { ", " (name) }
        }
        nav.tabs {
            @for (each, _, title) in tabs(store, tab) {
                @let there = View { tab: Some(each), at: None, ..view.clone() };
                @if tab == Some(each) { span.current { (title) } } @else { a.control href=(link(&there)) data-tab=(each.as_word()) { (title) } }
            }
        }
        @match tab {
            Some(Tab::Statistics) => (statistics(store, view)),
            Some(Tab::Events) => (event_list::markup(store, view)),
            Some(Tab::States) => (thread_states(store, view)),
            Some(Tab::Waits) => (waits::markup(store, view)),
            Some(tab) => (workbench::section(store, view, tab, nonce)),
            None => p.soft { "Drag over the lanes to select a range, or choose what to see of it." },
        }
    }
}

fn lane_name(store: &Store, view: &View) -> Option<String> {
    lane_of(store, view).map(|(_, lane)| lane.name.to_string())
}

fn statistics(store: &Store, view: &View) -> Markup {
    let (from, to) = view.window();
    let only = only_of(store, view);
    let Some((all, of_lane)) = store.statistics_of(from, to, only) else {
        return html! { p.warning { "There are too many events in this range to count them in ten seconds. Select a shorter one." } };
    };
    let counted = |trace: usize, stats: &Stats| match only {
        Some(only) if only.trace == trace => Some(of_lane.clone()),
        Some(_) => None,
        None => Some(stats.by_name().into_iter().map(|(name, count)| (Box::from(&*name), count)).collect()),
    };
    html! {
        @for (trace, (shown, stats)) in store.traces().zip(&all).enumerate() {
            @if let Some(by_name) = counted(trace, stats) {
                @let total = by_name.values().sum();
                @let branches = |branch: &Branch<'_>| only.is_none_or(|only| is_of(stats, branch, only));
                h3 { (short(&shown.name)) @if let Some(name) = lane_name(store, view) { ", " (name) } ": " (thousands(total)) " events" }
                div.columns {
                    div.tablebox { (names_table(by_name, total)) }
                    div.tablebox { (activities(stats, branches)) }
                    @if only.is_some_and(|only| only.tid.is_some()) { div.tablebox { (by_cpu(stats, branches)) } }
                    @else { div.tablebox { (by_thread(stats, branches)) } }
                }
            }
        }
    }
}

/// Whether what was counted in a branch is of a part of the trace. Nothing is known by tracefile.
fn is_of(stats: &Stats, branch: &Branch<'_>, only: Only) -> bool {
    let tid = || branch.thread.and_then(|row| stats.branches.threads().get(row)).map(|thread| thread.key.tid);
    only.tracefile.is_none()
        && only.cpu.is_none_or(|cpu| branch.cpu == Some(cpu))
        && only.tid.is_none_or(|wanted| tid() == Some(wanted))
}

fn names_table(by_name: ByName, total: u64) -> Markup {
    let mut names: Vec<(Box<str>, u64)> = by_name.into_iter().collect();
    names.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    html! {
        table.data {
            thead { tr { th { "count" } th { "share" } th.l { "event" } } }
            tbody {
                @for (name, count) in names.iter().take(MOST_ROWS) {
                    tr data-count=(count) { td { (thousands(*count)) } td { (share(*count, total)) } td.l { (name) } }
                }
            }
        }
    }
}

/// Events and CPU time by what was done.
fn activities(stats: &Stats, wanted: impl Fn(&Branch<'_>) -> bool) -> Markup {
    let rows = stats.by_activity_of(wanted);
    html! {
        @if rows.values().any(|(_, ns)| *ns > 0) {
            table.data {
                thead { tr { th { "CPU time" } th { "events" } th.l { "state" } } }
                tbody { @for (mode, (count, ns)) in &rows {
                    tr { td { (duration(ns.unsigned_abs())) } td { (thousands(*count)) } td.l { (states::word_of_mode(mode)) } }
                } }
            }
        }
    }
}

fn by_thread(stats: &Stats, wanted: impl Fn(&Branch<'_>) -> bool) -> Markup {
    let mut rows: Vec<_> =
        stats.cpu_time_by_thread_of(wanted).filter(|(thread, ns)| *ns > 0 && thread.key.tid != 0).collect();
    rows.sort_by_key(|(thread, ns)| (std::cmp::Reverse(*ns), thread.key));
    html! {
        @if !rows.is_empty() {
            table.data {
                thead { tr { th { "CPU time" } th { "thread" } th.l { "name" } } }
                tbody { @for (thread, ns) in rows.iter().take(MOST_ROWS) {
                    tr { td { (duration(ns.unsigned_abs())) } td { (thread.key.tid) } td.l { (thread.name) } }
                } }
            }
        }
    }
}

/// Where a thread ran.
fn by_cpu(stats: &Stats, wanted: impl Fn(&Branch<'_>) -> bool) -> Markup {
    let mut rows: BTreeMap<u32, (u64, i64)> = BTreeMap::new();
    for branch in stats.branches.iter().filter(|branch| wanted(branch)) {
        let Some(cpu) = branch.cpu else { continue };
        let row = rows.entry(cpu).or_default();
        *row = (row.0 + branch.total(), row.1 + branch.cpu_time + branch.unknown_time);
    }
    html! {
        @if rows.values().any(|(_, ns)| *ns > 0) {
            table.data {
                thead { tr { th { "CPU time" } th { "events" } th { "CPU" } } }
                tbody { @for (cpu, (count, ns)) in &rows {
                    tr { td { (duration(ns.unsigned_abs())) } td { (thousands(*count)) } td { (cpu) } }
                } }
            }
        }
    }
}

/// Most states of a thread in a list.
const MOST_STATES: usize = 200;

/// The states of the chosen lane's thread, one a row.
fn thread_states(store: &Store, view: &View) -> Markup {
    let Some(tid) = lane_of(store, view).and_then(|(_, lane)| lane.tid()) else {
        return html! { p.soft { "Choose the lane of a thread: a click on its name." } };
    };
    let (from, to) = view.window();
    let listed = states::of_thread(store, tid, (from, to), MOST_STATES);
    let origin = store.origin();
    let of = |row: &ThreadInterval| View { selection: Some((row.from.ns(), row.to.ns())), ..view.clone() };
    html! {
        @if !listed.is_whole { p.warning { "This took too long; the list may lack states at its end. Select a shorter range." } }
        div.tablebox { table.data.states {
            thead { tr { th { "from, s" } th { "for" } th.l { "state" } th.l { "file" } th { "CPU" } th.l { "woken by" } } }
            tbody {
                @for row in &listed.rows {
                    tr data-from=(row.from.ns()) data-to=(row.to.ns()) {
                        td { a.control href=(link(&of(row))) data-select="" { (since(origin, row.from.ns(), 0)) } }
                        td { (duration(row.ns().unsigned_abs())) }
                        td.l { (states::words(row)) @if row.in_doubt { " (events were lost here)" } }
                        td.l { (row.state.file) }
                        td { @if let Some(cpu) = row.state.cpu { (cpu) } }
                        td.l { (row.woken_by.as_deref().unwrap_or("")) }
                    }
                }
            }
        } }
        @if listed.has_more { p.soft { "These are the first " (MOST_STATES) " states of the range. Select a later one to see more." } }
        @if listed.rows.is_empty() && listed.is_whole { p.soft { "No event of the kernel tells what thread " (tid) " did here." } }
    }
}
