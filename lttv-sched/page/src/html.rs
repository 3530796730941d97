//! The page: frame, lanes, and what is shown of a range. The same parts are given alone to the page's script.

use maud::{DOCTYPE, Markup, PreEscaped, html};
use pct_icicle::{Direction, Options, svg};
use pct_num::thousands;
use pct_server::answer::{Form, Response};
use serde_json::{Value, json};

use lttv_engine::time::Time;
use lttv_modules::stats::Stats;
use lttv_modules::timeline::lanes::{LaneKind, LaneOf, STATES};

use crate::board::{Board, BoardRow, GAP, colour_of_state};
use crate::density;
use crate::events::{EventsAsk, Only};
use crate::picture;
use crate::recording::{Recording, Window, WindowSums};
use crate::store::{Shown, Store};
use crate::view::{Tab, View};
use crate::words::{duration, seconds, share, since};

const STYLE: &str = include_str!("assets/timeline.css");
const SCRIPT: &str = include_str!("assets/timeline.js");

/// Rows of a table before the rest becomes one row.
const MOST_ROWS: usize = 60;
/// Levels of a flame graph.
const MOST_LEVELS: u32 = 200;
/// Rows of a page of events.
const MOST_EVENTS: usize = 200;
/// Most losses that are drawn.
const MOST_LOSSES: usize = 500;
/// Parts of the span in the strip of what was recorded when.
const DENSITY_SLOTS: usize = 200;
/// Ticks of the axis, about.
const TICKS: i64 = 8;

fn link(view: &View) -> String {
    format!("tl?{}", view.query())
}

/// A name cut in its middle, where what tells two names apart is seldom.
fn cut(name: &str, most: usize) -> String {
    let count = name.chars().count();
    if count <= most {
        return name.to_owned();
    }
    let head: String = name.chars().take(most * 2 / 3).collect();
    let tail: String = name.chars().skip(count - most / 3).collect();
    format!("{head}\u{2026}{tail}")
}

/// A page that says something and leads back.
pub(crate) fn message(status: u16, text: &str) -> Response {
    let body = html! {
        (DOCTYPE)
        html lang="en" {
            head { meta charset="utf-8"; title { "timeline" } style { (PreEscaped(STYLE)) } }
            body { main { p.warning { (text) } @if status != 200 { p { a href="tl" { "the whole timeline" } } } } }
        }
    };
    Response { status, ..Response::page(Form::Html, body.into_string()) }
}

/// The whole page.
pub(crate) fn page(store: &Store, view: &View, nonce: &str) -> String {
    let board = Board::of(store, view);
    let drawn = picture::draw(store, &board, view);
    let span = store.span();
    let boot = json!({
        "span": [span.0.to_string(), span.1.to_string()], "from": view.from.to_string(), "to": view.to.to_string(),
        "a": view.selection.map(|s| s.0.to_string()), "b": view.selection.map(|s| s.1.to_string()),
        "lane": view.lane.map(|lane| lane.to_string()), "tab": tab_of(store, view).map(word),
        "all": view.all, "name": view.name, "whole": store.is_whole(), "gap": GAP,
    });
    // The text stands in a script element: what could end that must not be there.
    let boot = boot.to_string().replace('<', "\\u003c");
    let names: Vec<&str> = store.traces().map(|shown| short(&shown.name)).collect();
    let title = names.join(", ");
    html! {
        (DOCTYPE)
        html lang="en" data-state="painted" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width,initial-scale=1";
                title { "timeline: " (cut(&title, 80)) }
                @if !drawn.is_final { noscript { meta http-equiv="refresh" content="2"; } }
                style { (PreEscaped(STYLE)) }
            }
            body {
                header.top {
                    a.brand href="tl" { "pct" }
                    span.program title=(title) { (cut(&title, 60)) }
                    span.facts { (facts(store, span)) }
                    button.theme type="button" id="theme" hidden { "light / dark" }
                }
                main {
                    (notes(store))
                    (steering(view, span))
                    div id="axis" aria-hidden="true" { (axis(view, span.0)) }
                    (recorded(store, view))
                    (losses(store, view))
                    div.board {
                        div id="lanes" { (lanes_markup(&board, view)) }
                        div id="plot" style={ "height:" (board.height()) "px" } {
                            (PreEscaped(&drawn.svg))
                            (selection(view))
                        }
                    }
                    @if !drawn.is_final { p.soft id="progress" { "The traces are still being read; what is here is not all yet." } }
                    (legend(&board))
                    p id="details" aria-live="polite" { "\u{a0}" }
                    div id="window" { (window_markup(store, view, Some(nonce))) }
                }
                dialog id="help" { (help()) }
                footer { a href="tl/meta" { "json" } a href="deep?quit" { "quit" } span { "times are seconds after " (span.0) " ns" } }
                script id="boot" type="application/json" nonce=(nonce) { (PreEscaped(boot)) }
                script nonce=(nonce) { (PreEscaped(SCRIPT)) }
            }
        }
    }
    .into_string()
}

/// The last part of a path.
fn short(name: &str) -> &str {
    name.trim_end_matches('/').rsplit('/').next().filter(|part| !part.is_empty()).unwrap_or(name)
}

fn facts(store: &Store, span: (i64, i64)) -> Markup {
    let events: u64 = (0..store.traces().len()).filter_map(|t| Some(store.timeline(t)?.events().0)).sum();
    html! {
        span { (duration(span.1.abs_diff(span.0))) }
        span id="events" {
            (thousands(events)) @if store.traces().all(|t| t.recording.is_some()) { " samples and marks" } @else { " events" }
            @if !store.is_whole() { " so far" }
        }
    }
}

fn notes(store: &Store) -> Markup {
    let own = store
        .traces()
        .flat_map(|shown| shown.notes.iter().map(|note| format!("{}: {note}", short(&shown.name))));
    let notes: Vec<String> = own.chain(store.said()).collect();
    let lost: u64 =
        store.traces().flat_map(|shown| shown.source.losses()).map(|loss| loss.count.unwrap_or(1)).sum();
    let empty = store.traces().all(|shown| shown.source.time_span().is_none());
    html! {
        @if empty { p.warning { "There is no sample and no event with a time in it." } }
        @if lost > 0 { p.warning.lost { "Lost while recording: " (thousands(lost)) " events or samples; they are in no lane." } }
        @if !notes.is_empty() {
            details.notes { summary { (notes.len()) " notes" } ul { @for note in &notes { li { (note) } } } }
        }
    }
}

/// Links that zoom and pan: all there is without script.
fn steering(view: &View, span: (i64, i64)) -> Markup {
    let whole = View { from: span.0, to: span.1, ..view.clone() };
    let fit = view.selection.map(|(from, to)| View { from, to, ..view.clone() });
    let none = View { selection: None, ..view.clone() };
    html! {
        nav.steer aria-label="zoom" {
            span.range { (since(span.0, view.from, view.width().unsigned_abs())) " s to "
                (since(span.0, view.to, view.width().unsigned_abs())) " s, " (duration(view.width().unsigned_abs())) " wide" }
            a.control href=(link(&whole)) { "whole" }
            a.control href=(link(&view.moved(-4, 16))) { "out" }
            a.control href=(link(&view.moved(-4, 8))) { "left" }
            a.control href=(link(&view.moved(4, 8))) { "right" }
            span.places { "zoom in at "
                @for place in 0..8 { a.control href=(link(&view.moved(place, 2).clamped(span))) { (place + 1) } }
            }
            @if let Some(fit) = fit { a.control href=(link(&fit)) { "zoom to selection" } a.control href=(link(&none)) { "drop selection" } }
            @if view.lane.is_some() { a.control href=(link(&View { lane: None, ..view.clone() })) { "all lanes" } }
        }
    }
}

/// The nearest step of 1, 2 or 5 times a power of ten.
fn tick_step(width: i64) -> i64 {
    let least = (width / TICKS).max(1);
    let mut step = 1;
    loop {
        for factor in [1, 2, 5] {
            if step * factor >= least {
                return step * factor;
            }
        }
        match step.checked_mul(10).filter(|step| *step < i64::MAX / 10) {
            Some(next) => step = next,
            None => return step,
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "a place in percent")]
fn percent(view: &View, time: i64) -> String {
    let part = time.saturating_sub(view.from) as f64 / view.width() as f64;
    format!("{:.3}%", (part * 100.0).clamp(-10.0, 110.0))
}

fn axis(view: &View, origin: i64) -> Markup {
    let (width, step) = (view.width(), tick_step(view.width()));
    let first = view.from.saturating_sub(origin).div_euclid(step) + 1;
    let ticks = (first..first + TICKS * 2).filter_map(|k| origin.checked_add(k.checked_mul(step)?));
    html! {
        @for time in ticks.take_while(|time| *time < view.to) {
            span style={ "left:" (percent(view, time)) } { (since(origin, time, width.unsigned_abs())) }
        }
    }
}

/// How much traces have when, by their packets: true from the start, before any event is read.
fn recorded(store: &Store, view: &View) -> Markup {
    let span = store.span();
    let sources = store.traces().map(|shown| shown.source.as_ref());
    let slots = density::slots(sources, span, DENSITY_SLOTS);
    let most = slots.iter().map(|slot| slot.bytes).max().unwrap_or(0);
    html! {
        @if most > 0 {
            div id="recorded" aria-hidden="true" {
                @for slot in slots.iter().filter(|slot| slot.bytes > 0) {
                    span data-from=(slot.from) data-to=(slot.to)
                        style={ "left:" (percent(view, slot.from)) ";right:calc(100% - " (percent(view, slot.to)) ");height:" (height_of(slot.bytes, most)) }
                        title={ "recorded here: " (pct_num::bytes(pct_num::float(slot.bytes))) } {}
                }
            }
        }
    }
}

/// The height of a slot; what is not empty is seen.
fn height_of(bytes: u64, most: u64) -> String {
    format!("{:.0}%", pct_num::percent(bytes, most).max(8.0))
}

/// Where events or samples were lost, and how many.
fn losses(store: &Store, view: &View) -> Markup {
    let of = |shown: &Shown| {
        let infos = shown.source.tracefiles();
        let named = |file: usize| infos.get(file).map_or_else(String::new, |info| info.name.to_string());
        let losses = shown.source.losses().into_iter().filter(|loss| loss.to != Time::UNTIMED);
        losses
            .map(|loss| (loss.from.ns(), loss.to.ns(), loss.count, named(loss.tracefile)))
            .collect::<Vec<_>>()
    };
    let all: Vec<_> = store.traces().flat_map(of).take(MOST_LOSSES).collect();
    html! {
        @if !all.is_empty() {
            div id="losses" {
                @for (from, to, count, name) in &all {
                    span data-from=(from) data-to=(to) style={ "left:" (percent(view, *from)) ";right:calc(100% - " (percent(view, *to)) ")" }
                        title={ @match count { Some(n) => (thousands(*n)), None => "some" } " lost in " (name) } {}
                }
            }
        }
    }
}

fn selection(view: &View) -> Markup {
    html! {
        @if let Some((a, b)) = view.selection {
            div id="selected" style={ "left:" (percent(view, a)) ";right:calc(100% - " (percent(view, b)) ")" } {}
        }
    }
}

fn amount(row: &BoardRow) -> String {
    match row.kind {
        LaneKind::Samples => format!("{} s", seconds(row.w)),
        LaneKind::Events => thousands(row.n),
        LaneKind::Cpu | LaneKind::Thread => String::new(),
    }
}

fn lanes_markup(board: &Board, view: &View) -> Markup {
    html! {
        @for row in &board.rows {
            @let alone = View { lane: Some(row.id), ..view.clone() };
            div class={ "row " (row.kind.name()) } data-id=(row.id) data-kind=(row.kind.name()) data-h=(row.height())
                style={ "height:" (row.height()) "px;margin-bottom:" (GAP) "px" } {
                a href=(link(&alone)) title=(row.name) { (cut(&row.name, 30)) }
                span.amount { (amount(row)) }
            }
        }
        @if board.rows.is_empty() { p.soft { "no lane yet" } }
        @if board.hidden > 0 {
            p.more { a href=(link(&View { all: true, ..view.clone() })) {
                (thousands(board.hidden as u64)) " more lanes" @if board.hidden_ns > 0 { ", " (seconds(board.hidden_ns)) " s" }
            } }
        }
    }
}

/// The list of lanes alone.
pub(crate) fn lanes(_store: &Store, board: &Board, view: &View) -> String {
    lanes_markup(board, view).into_string()
}

fn legend(board: &Board) -> Markup {
    let states = board.rows.iter().any(|row| matches!(row.kind, LaneKind::Cpu | LaneKind::Thread));
    let samples = board.rows.iter().any(|row| row.kind == LaneKind::Samples);
    html! {
        ul.legend {
            @if states {
                @for (key, name) in (0..).zip(STATES) {
                    li { span.swatch style={ "background:" (colour_of_state(key)) } {} (name) }
                }
            }
            @if samples { li { "samples: height = mean share of a CPU, colour = object (hue) and function (lightness) with most time" } }
        }
    }
}

/// The tab that is shown: the one asked for, else the flame graph where there are samples.
fn tab_of(store: &Store, view: &View) -> Option<Tab> {
    let sampled = store.traces().any(|shown| shown.recording.is_some());
    match view.tab {
        None if sampled => Some(Tab::Flame),
        None if view.selection.is_some() => Some(Tab::Statistics),
        tab => tab,
    }
}

fn word(tab: Tab) -> &'static str {
    Tab::ALL.iter().find(|row| row.0 == tab).map_or("", |row| row.1)
}

/// What is shown of the range, alone.
pub(crate) fn window(store: &Store, view: &View) -> String {
    window_markup(store, view, None).into_string()
}

fn window_markup(store: &Store, view: &View, nonce: Option<&str>) -> Markup {
    let ((from, to), origin) = (view.window(), store.span().0);
    let width = to.abs_diff(from);
    let tab = tab_of(store, view);
    html! {
        h2 { @if view.selection.is_some() { "selected " } @else { "seen " }
            (since(origin, from, width)) " s to " (since(origin, to, width)) " s (" (duration(width)) " wall)"
            @if let Some(name) = lane_name(store, view) { ", " (name) }
        }
        nav.tabs {
            @for (each, _, title) in Tab::ALL {
                @let there = View { tab: Some(each), at: None, ..view.clone() };
                @if tab == Some(each) { span.current { (title) } } @else { a.control href=(link(&there)) data-tab=(word(each)) { (title) } }
            }
        }
        @match tab {
            Some(Tab::Flame) => (samples(store, view, false, nonce)),
            Some(Tab::Inverted) => (samples(store, view, true, nonce)),
            Some(Tab::Statistics) => (statistics(store, from, to)),
            Some(Tab::Events) => (events(store, view)),
            None => p.soft { "Drag over the lanes to select a range, or choose what to see of it." },
        }
    }
}

fn lane_of(store: &Store, view: &View) -> Option<(usize, lttv_modules::timeline::lanes::Lane)> {
    let lane = view.lane?;
    Some((lane.trace, store.lanes(lane.trace).get(lane.lane)?.clone()))
}

fn lane_name(store: &Store, view: &View) -> Option<String> {
    lane_of(store, view).map(|(_, lane)| lane.name.to_string())
}

/// The sums of each recording in the range, of the thread that is looked at.
fn sums<'s>(store: &'s Store, view: &View, inverted: bool) -> Vec<(&'s Shown, WindowSums)> {
    let (from_ns, to_ns) = view.window();
    let tid = lane_of(store, view).and_then(|(_, lane)| lane.tid());
    let recordings = store.traces().filter_map(|shown| Some((shown, shown.recording.as_ref()?)));
    let of = |recording: &Recording| {
        let threads = tid.map(|tid| {
            let of_tid = recording.threads.iter().enumerate().filter(|(_, t)| i64::from(t.tid) == tid);
            of_tid.map(|(at, _)| at).collect()
        });
        recording.windows.sums(&Window { from_ns, to_ns, threads, inverted })
    };
    recordings.map(|(shown, recording)| (shown, of(recording))).collect()
}

fn samples(store: &Store, view: &View, inverted: bool, nonce: Option<&str>) -> Markup {
    let sums = sums(store, view, inverted);
    html! {
        @if sums.is_empty() {
            p.soft { "None of these has samples with functions. (pct view --timeline reads a recording's functions.)" }
        }
        @for (shown, sums) in &sums {
            p { b { (short(&shown.name)) } ": " (thousands(sums.samples)) " samples, " (seconds(sums.cpu_ns)) " CPU s"
                span.soft { " the same here: " code { (report(shown, view)) } } }
            @if sums.samples > 0 {
                figure.picture { (PreEscaped(flame(sums, inverted, nonce))) }
                (functions(sums))
            }
        }
    }
}

/// The command that reports the same range.
fn report(shown: &Shown, view: &View) -> String {
    let start = shown.recording.as_ref().map_or(0, |recording| recording.start_ns);
    let at = |time: i64| {
        let ns = time.saturating_sub(start).max(0);
        format!("{}.{:09}", ns / 1_000_000_000, ns % 1_000_000_000)
    };
    let (from, to) = view.window();
    format!("pct report --from {} --to {} {}", at(from), at(to), shown.name)
}

fn flame(sums: &WindowSums, inverted: bool, nonce: Option<&str>) -> String {
    let options = Options {
        title: if inverted { "callers of what ran" } else { "call tree" }.into(),
        unit: "us of CPU time".into(),
        direction: Direction::Icicle,
        max_depth: MOST_LEVELS,
        nonce: nonce.map(str::to_owned),
        ..Options::default()
    };
    svg(&sums.tree, &options)
}

fn functions(sums: &WindowSums) -> Markup {
    let rest = sums.functions.get(MOST_ROWS..).unwrap_or_default();
    html! {
        table.data {
            thead { tr { th { "self" } th { "total" } th { "CPU s" } th { "samples" } th.l { "function" } th.l { "object" } } }
            tbody {
                @for row in sums.functions.iter().take(MOST_ROWS) {
                    tr data-own=(row.own_ns) data-total=(row.total_ns) {
                        td { (share(row.own_ns, sums.cpu_ns)) } td { (share(row.total_ns, sums.cpu_ns)) }
                        td { (seconds(row.own_ns)) } td { (thousands(row.samples)) }
                        td.l title=(row.name) { (cut(&row.name, 80)) } td.l { (row.object) }
                    }
                }
                @if !rest.is_empty() {
                    tr { td { (share(rest.iter().map(|row| row.own_ns).sum(), sums.cpu_ns)) } td {}
                        td { (seconds(rest.iter().map(|row| row.own_ns).sum())) } td {}
                        td.l { (thousands(rest.len() as u64)) " more" } td {} }
                }
            }
        }
    }
}

fn statistics(store: &Store, from: i64, to: i64) -> Markup {
    let Some(all) = store.statistics(from, to) else {
        return html! { p.warning { "There are too many events in this range to count them in ten seconds. Select a shorter one." } };
    };
    html! {
        @for (shown, stats) in store.traces().zip(&all) {
            h3 { (short(&shown.name)) ": " (thousands(stats.total())) " events" }
            div.columns { (by_name(stats)) (by_activity(stats)) (by_thread(stats)) }
        }
    }
}

fn by_name(stats: &Stats) -> Markup {
    let total = stats.total();
    let mut names: Vec<_> = stats.by_name().into_iter().collect();
    names.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(&b.0)));
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

fn by_activity(stats: &Stats) -> Markup {
    let rows = stats.by_activity();
    html! {
        @if rows.values().any(|(_, ns)| *ns > 0) {
            table.data {
                thead { tr { th { "CPU time" } th { "events" } th.l { "mode" } } }
                tbody { @for (mode, (count, ns)) in &rows {
                    tr { td { (duration(ns.unsigned_abs())) } td { (thousands(*count)) } td.l { (mode) } }
                } }
            }
        }
    }
}

fn by_thread(stats: &Stats) -> Markup {
    let mut rows: Vec<_> =
        stats.cpu_time_by_thread().filter(|(thread, ns)| *ns > 0 && thread.key.tid != 0).collect();
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

fn events(store: &Store, view: &View) -> Markup {
    let ((from, to), origin) = (view.window(), store.span().0);
    let (begin, skip) = view.at.unwrap_or((from, 0));
    let only = lane_of(store, view).map(|(trace, lane)| {
        let none = Only { trace, cpu: None, tid: None, tracefile: None };
        match lane.of {
            LaneOf::Cpu(cpu) => Only { cpu: Some(cpu), ..none },
            LaneOf::Thread(tid) => Only { tid: Some(tid), ..none },
            LaneOf::Tracefile(file) => Only { tracefile: Some(file), ..none },
        }
    });
    let ask = EventsAsk { from: begin, skip, to, most: MOST_EVENTS, only, name: view.name.clone() };
    let listed = store.events(&ask);
    let several = store.traces().len() > 1;
    let names: Vec<&str> = store.traces().map(|shown| short(&shown.name)).collect();
    html! {
        form.find action="tl" method="get" {
            @for (key, value) in crate::view::parts(&View { name: String::new(), at: None, tab: Some(Tab::Events), ..view.clone() }.query()) {
                input type="hidden" name=(key) value=(value);
            }
            input.filter type="search" name="name" value=(view.name) placeholder="name of an event" aria-label="name of an event";
            button.control { "filter" }
        }
        @if !listed.is_whole { p.warning { "This took too long; the list may lack events at its end." } }
        table.data.events {
            thead { tr { th { "s" } @if several { th.l { "trace" } } th { "CPU" } th.l { "of" } th.l { "event" } th.l { "fields" } } }
            tbody {
                @for row in &listed.rows {
                    tr data-t=(row.time) {
                        td { (since(origin, row.time, 0)) }
                        @if several { td.l { (names.get(row.trace).copied().unwrap_or("")) } }
                        td { @if let Some(cpu) = row.cpu { (cpu) } } td.l { (cut(&row.of, 30)) } td.l { (row.name) }
                        td.l.fields { (pct_text::visible(&row.fields)) }
                    }
                }
            }
        }
        @if listed.rows.is_empty() { p.soft { "no event here" } }
        p.paging {
            @if view.at.is_some() { a.control href=(link(&View { at: None, ..view.clone() })) { "first" } }
            @if let Some(next) = listed.next { a.control href=(link(&View { at: Some(next), ..view.clone() })) { "next" } }
        }
    }
}

fn help() -> Markup {
    let keys = [
        ("w s + -", "zoom in and out at the pointer"),
        ("a d arrows", "pan"),
        ("j k", "next and previous lane"),
        ("Enter", "the marked lane alone"),
        ("m", "select what is seen"),
        ("z", "zoom to the selection"),
        ("Escape", "drop the selection"),
        ("f i t e", "flame graph, inverted, statistics, events of the range"),
        ("0", "the whole span"),
        ("wheel", "pan; with Ctrl: zoom"),
        ("drag", "select; with Shift: pan"),
        ("?", "this help"),
    ];
    html! {
        h2 { "Keys" }
        dl { @for (key, what) in keys { dt { (key) } dd { (what) } } }
        form method="dialog" { button.control { "close" } }
    }
}

/// The table of functions of the range as JSON, and the number of samples, for each recording.
pub(crate) fn window_json(store: &Store, view: &View) -> Value {
    let (from, to) = view.window();
    let recordings = sums(store, view, false).into_iter().map(|(shown, sums)| {
        let functions = sums.functions.iter().map(|row| {
            json!({
                "name": row.name, "object": row.object, "own_ns": row.own_ns, "total_ns": row.total_ns,
                "samples": row.samples,
            })
        });
        let functions: Vec<Value> = functions.collect();
        json!({"name": shown.name, "samples": sums.samples, "cpu_ns": sums.cpu_ns, "functions": functions})
    });
    let recordings: Vec<Value> = recordings.collect();
    json!({"v": 1, "from": from.to_string(), "to": to.to_string(), "recordings": recordings})
}
