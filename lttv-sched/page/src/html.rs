//! The page: frame and lanes. What is shown of a range is in [`range`] and [`workbench`]. The same parts are
//! given alone to the page's script.

mod axis;
mod call_tree;
mod chart;
pub(crate) mod event_list;
mod part;
pub(crate) mod range;
mod waits;
pub(crate) mod workbench;

use maud::{DOCTYPE, Markup, PreEscaped, html};
use pct_icicle::page_head;
use pct_num::thousands;
use pct_server::answer::{Form, Response};
use serde_json::json;

use lttv_engine::time::Time;
use lttv_modules::timeline::lanes::{LaneKind, STATES, runs};

use crate::Recording;
use crate::board::{Board, BoardRow, GAP, HEADING, colour_of_state, waiting_height};
use crate::picture;
use crate::search;
use crate::store::{Shown, Store};
use crate::sums::{SlotUnit, ViewSums};
use crate::view::{Tab, View, link};
use crate::waits::WaitSort;
use crate::words::{cut, duration, seconds, share, short, since};
use part::part_in_address;
use range::{tab_of, window_markup};
use std::borrow::Cow;

const STYLE: &str = include_str!("assets/timeline.css");
const SCRIPT: &str = include_str!("assets/timeline.js");

/// Most losses that are drawn.
const MOST_LOSSES: usize = 500;

/// A page that says something and leads back.
pub(crate) fn message(status: u16, text: &str) -> Response {
    let body = html! {
        (DOCTYPE)
        html lang="en" {
            (page_head("timeline", STYLE, None, &html! {}))
            body { main { p.warning { (text) } @if status != 200 { p { a href="tl" { "the whole timeline" } } } } }
        }
    };
    let body = pct_text::visible_lines(&body.into_string()).into_owned();
    Response { status, ..Response::page(Form::Html, body) }
}

/// Where the page leads besides itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Links {
    /// The program whose only recording is shown.
    pub program: Option<String>,
    /// To the other pages about the same recording, each with its name; the first is the first page.
    pub parts: Vec<(String, String)>,
    /// Whether such an address can be followed by the part of the recording that is seen here.
    pub takes_part: bool,
    /// To the end of the server.
    pub quit: String,
}

impl Default for Links {
    fn default() -> Links {
        Links { program: None, parts: Vec::new(), takes_part: false, quit: "deep?quit".into() }
    }
}

/// What a page is made with besides its traces and what is seen of them.
pub(crate) struct PageParts<'a> {
    pub(crate) links: &'a Links,
    /// Counts how often the traces were opened.
    pub(crate) revision: u64,
    pub(crate) is_written: bool,
    /// What is to be said about that; empty: nothing.
    pub(crate) news: String,
    /// What is made of the range comes later if there is much of it, so that the lanes are there at once.
    pub(crate) may_defer: bool,
    pub(crate) nonce: &'a str,
}

/// The whole page.
pub(crate) fn page(store: &Store, view: &View, frame: &PageParts<'_>) -> String {
    let (links, nonce) = (frame.links, frame.nonce);
    let is_deferred = frame.may_defer && is_long(store, view);
    let sums = ViewSums::of_view(store, view);
    let board = Board::from_sums(store, view, Some(&sums));
    // Asked before the lanes are drawn: what is not whole then is asked for until it is.
    let is_whole = store.is_whole();
    let drawn = picture::draw(store, &board, view);
    let span = store.span();
    // Of each state the height at which it is drawn; 0: as high as its share of the time.
    let heights = (0..).zip(STATES).map(|(key, _)| if runs(key) { 0.0 } else { waiting_height(key) });
    let heights: Vec<f64> = heights.collect();
    let boot = json!({
        "origin": store.origin().to_string(), "span": [span.0.to_string(), span.1.to_string()], "from": view.from.to_string(), "to": view.to.to_string(),
        "a": view.selection.map(|s| s.0.to_string()), "b": view.selection.map(|s| s.1.to_string()),
        "lane": view.lane.map(|lane| lane.to_string()), "tab": tab_of(store, view).map(Tab::as_word),
        "all": view.all, "name": view.name, "whole": is_whole, "gap": GAP, "revision": frame.revision,
        "deferred": is_deferred, "states": heights,
    });
    // The text stands in a script element: what could end that must not be there.
    let boot = pct_text::visible_json(&boot.to_string()).replace('<', "\\u003c");
    let names: Vec<&str> = store.traces().map(|shown| short(&shown.name)).collect();
    let title = names.join(", ");
    let part = if links.takes_part { part_in_address(store, view) } else { String::new() };
    html! {
        (DOCTYPE)
        html lang="en" data-state="painted" {
            (page_head(&format!("timeline: {}", cut(&title, 80)), STYLE, None, &html! {
                @if is_deferred { noscript { meta http-equiv="refresh" content={ "1;url=" (link(view)) "&part=1" }; } }
                @else if !drawn.is_final || frame.is_written { noscript { meta http-equiv="refresh" content="2"; } }
            }))
            body {
                header.top {
                    a.brand href=(links.parts.first().map_or("tl", |part| &part.1)) { "pct" }
                    span.program title=(title) { (cut(links.program.as_ref().unwrap_or(&title), 60)) }
                    span.facts { (facts(store, span)) }
                    button.theme type="button" id="theme" hidden { "light / dark" }
                }
                @if !links.parts.is_empty() {
                    nav.sections aria-label="the program" data-takes-part[links.takes_part] {
                        @for (name, address) in &links.parts { a href={ (address) (part) } data-whole=(address) { (name) } }
                        span aria-current="page" { "timeline" }
                    }
                }
                main {
                    p.warning id="news" role="status" hidden[frame.news.is_empty()] { (frame.news) }
                    (notes(store))
                    (steering(view, span, store.origin()))
                    div id="search" { (search::markup(store, view)) }
                    div id="axis" aria-hidden="true" { (axis::axis((view.from, view.to), store.origin())) }
                    (strip(&sums, view))
                    (losses(store, view))
                    div.board {
                        div id="lanes" { (lanes_markup(&board, view, span)) }
                        div id="plot" style={ "height:" (board.height()) "px" } {
                            (PreEscaped(&drawn.svg))
                            (selection(view))
                        }
                    }
                    @if !drawn.is_final { p.soft id="progress" { "The traces are still being read; what is here is not all yet." } }
                    (legend(&board))
                    p id="details" aria-live="polite" { "\u{a0}" }
                    div id="window" {
                        @if is_deferred { p.soft { "The samples of this range are being counted." } }
                        @else { (window_markup(store, view, Some(nonce))) }
                    }
                }
                dialog id="help" { (help()) }
                footer { a href={ "tl/file?" (view.query()) "&as=lanes" } download="lanes.svg" data-view="lanes" { "lanes as SVG" } a href="tl/meta" { "json" } a href=(links.quit) { "quit" } span { "times are seconds after " (store.origin()) " ns" } }
                script id="boot" type="application/json" nonce=(nonce) { (PreEscaped(boot)) }
                script nonce=(nonce) { (PreEscaped(SCRIPT)) }
            }
        }
    }
    .into_string()
}

/// Events of all traces that were counted so far.
pub(crate) fn events(store: &Store) -> u64 {
    (0..store.traces().len()).filter_map(|trace| Some(store.timeline(trace)?.events().0)).sum()
}

/// Samples of a range whose flame graph is made after the page.
const LONG: u64 = 300_000;

/// Whether it takes long to make what the range's samples are shown as.
fn is_long(store: &Store, view: &View) -> bool {
    let (from, to) = view.window();
    let recordings = store.traces().filter_map(|shown| shown.recording.as_ref());
    recordings.map(|recording| recording.windows.samples(from, to)).sum::<u64>() > LONG
}

/// What the events of the traces are: samples and the marks of programs, or other events.
fn what_is_counted(store: &Store, events: u64) -> &'static str {
    let recordings: Option<Vec<&Recording>> =
        store.traces().map(|shown| shown.recording.as_deref()).collect();
    match (recordings, events) {
        (None, 1) => "event",
        (None, _) => "events",
        (Some(all), _) if all.iter().any(|recording| !recording.marks.is_empty()) => "samples and marks",
        (Some(_), 1) => "sample",
        (Some(_), _) => "samples",
    }
}

fn facts(store: &Store, span: (i64, i64)) -> Markup {
    let events = events(store);
    html! {
        span { (duration(span.1.abs_diff(span.0))) }
        span id="events" {
            (thousands(events)) " " (what_is_counted(store, events))
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
            details.notes { summary { (pct_num::count(notes.len() as u64, "note", "notes")) } ul { @for note in &notes { li { (note) } } } }
        }
    }
}

/// Links that zoom and pan: all there is without script.
fn steering(view: &View, span: (i64, i64), origin: i64) -> Markup {
    let whole = View { from: span.0, to: span.1, ..view.clone() };
    let fit = view.selection.map(|(from, to)| View { from, to, ..view.clone() });
    let none = View { selection: None, ..view.clone() };
    html! {
        nav.steer aria-label="zoom" {
            span.range { (since(origin, view.from, view.width().unsigned_abs())) " s to "
                (since(origin, view.to, view.width().unsigned_abs())) " s, " (duration(view.width().unsigned_abs())) " wide" }
            a.control href=(link(&whole)) { "whole" }
            a.control href=(link(&view.moved(-4, 16))) { "out" }
            a.control href=(link(&view.moved(-4, 8))) { "left" }
            a.control href=(link(&view.moved(4, 8))) { "right" }
            span.places { "zoom in at "
                @for place in 0..8 { a.control href=(link(&view.moved(place, 2).clamped(span))) { (place + 1) } }
            }
            @if let Some(fit) = fit { a.control href=(link(&fit)) { "zoom to selection" } a.control href=(link(&none)) { "drop selection" } }
            @if view.lane.is_some() { a.control href=(link(&View { lane: None, ..view.clone() })) { "all lanes" } }
            button.control type="button" id="keys" hidden { "keys" }
        }
    }
}

/// Where a time lies in what is seen.
fn percent(view: &View, time: i64) -> String {
    axis::percent((view.from, view.to), time)
}

/// How much there is when, in all lanes together. While traces are still being read it is told by their packets.
fn strip(sums: &ViewSums, view: &View) -> Markup {
    let most = sums.strip.iter().map(|slot| slot.amount).max().unwrap_or(0);
    // Numbers of events differ by orders of magnitude, so theirs is by the logarithm, as in the lanes of events.
    let height = |amount: u64| match sums.unit {
        SlotUnit::Items => height_of(pct_num::float(amount).ln_1p(), pct_num::float(most).ln_1p()),
        SlotUnit::Bytes => height_of(pct_num::float(amount), pct_num::float(most)),
    };
    let words = |amount: u64, ns: u64| match sums.unit {
        SlotUnit::Items => format!("{} samples and events in {}", thousands(amount), duration(ns)),
        SlotUnit::Bytes => format!("recorded here: {}", pct_num::bytes(pct_num::float(amount))),
    };
    html! {
        div id="recorded" aria-hidden="true" {
            @for slot in sums.strip.iter().filter(|slot| slot.amount > 0) {
                span data-from=(slot.from) data-to=(slot.to)
                    style={ "left:" (percent(view, slot.from)) ";right:calc(100% - " (percent(view, slot.to)) ");height:" (height(slot.amount)) }
                    title=(words(slot.amount, slot.to.abs_diff(slot.from))) {}
            }
        }
    }
}

/// The height of a slot; what is not empty is seen.
fn height_of(amount: f64, most: f64) -> String {
    format!("{:.0}%", (amount * 100.0 / most).max(8.0))
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

/// A time in the unit that a range of so many ns needs.
fn time(part: u64, whole: u64) -> String {
    if whole < 1_000_000_000 {
        return format!("{:.1} ms", pct_num::float(part) / 1e6);
    }
    format!("{} s", seconds(part))
}

/// The share of the time in which something ran; nothing where it never did.
fn ran(part: u64, whole: u64) -> String {
    match part {
        0 => String::new(),
        part if part.saturating_mul(1000) < whole => "<0.1%".into(),
        part => share(part, whole),
    }
}

/// What a lane holds of what is seen, and what that number is. `ns` is the time that is seen.
fn amount(row: &BoardRow, ns: u64) -> (String, Cow<'static, str>) {
    match row.kind {
        LaneKind::Samples | LaneKind::Ran => (time(row.sum.w, ns), row.time.in_lane().into()),
        LaneKind::Events => (thousands(row.sum.n), "events in what is seen".into()),
        LaneKind::Waits => (time(row.sum.w, ns), "waiting in what is seen".into()),
        LaneKind::Cpu => (ran(row.sum.running, ns), "of the time that is seen this CPU ran something".into()),
        LaneKind::Thread => (ran(row.sum.running, ns), "of the time that is seen this thread ran".into()),
    }
}

/// The name of a lane and, where it ends with one, its number in parentheses. Often only the number tells threads
/// apart, so it is not cut where there is little room.
fn parted(name: &str) -> (&str, &str) {
    match name.rfind(" (") {
        Some(at) if name.ends_with(')') => (&name[..at], &name[at + 1..]),
        _ => (name, ""),
    }
}

/// The name of a lane without that of its process, where that stands above.
fn own_name<'n>(row: &BoardRow, name: &'n str) -> &'n str {
    let own = name.rsplit_once(" \u{b7} ").filter(|_| row.is_below_heading);
    own.map_or(name, |(own, _)| own)
}

/// Whether a lane of waits stands below the samples of its thread, whose name it need not have then.
fn belongs_below(row: &BoardRow, above: &BoardRow) -> bool {
    let is_one_thread = row.of == above.of && row.id.trace == above.id.trace;
    row.kind == LaneKind::Waits && above.kind.is_of_samples() && is_one_thread
}

fn lanes_markup(board: &Board, view: &View, span: (i64, i64)) -> Markup {
    let ns = view.to.min(span.1).saturating_sub(view.from.max(span.0)).max(0).unsigned_abs();
    html! {
        @for (at, row) in board.rows.iter().enumerate() {
            @let is_below_samples = at > 0 && belongs_below(row, &board.rows[at - 1]);
            @let alone = View { lane: Some(row.id), ..view.clone() };
            @let (name, number) = parted(&row.name);
            @let name = own_name(row, name);
            @let (amount, meaning) = amount(row, ns);
            @if let Some(heading) = &row.heading {
                div.process style={ "height:" (HEADING) "px" } {
                    span.what title=(heading.process()) { span.name { (heading.name) } span.number { "(" (heading.pid) ")" } }
                    span.amount title="threads of this process with lanes here" { (heading.lanes()) }
                }
            }
            div class={ "row " (row.kind.name()) @if row.is_below_heading { " inner" } } data-id=(row.id) data-kind=(row.kind.name()) data-h=(row.height()) data-above=(row.above()) data-clock=(row.time.after_unit())
                style={ "height:" (row.height()) "px;margin-bottom:" (GAP) "px" } {
                @if is_below_samples {
                    a href=(link(&alone)) title={ (row.name) ", waits" } { span.name { "waits" } }
                } @else {
                    a href=(link(&alone)) title=(row.name) { span.name { (cut(name, 40)) } span.number { (number) } }
                }
                span.amount title=(meaning) { (amount) }
            }
        }
        @if board.rows.is_empty() { p.soft { "no lane yet" } }
        @if board.hidden > 0 {
            p.more { a href=(link(&View { all: true, ..view.clone() })) {
                (thousands(board.hidden as u64)) " more lanes" @if board.hidden_ns > 0 { ", " (time(board.hidden_ns, ns)) }
            } }
        }
    }
}

/// The list of lanes alone.
pub(crate) fn lanes(store: &Store, view: &View) -> String {
    lanes_markup(&Board::from_store(store, view), view, store.span()).into_string()
}

fn legend(board: &Board) -> Markup {
    let states = board.rows.iter().any(|row| matches!(row.kind, LaneKind::Cpu | LaneKind::Thread));
    let mut heights: Vec<&str> = Vec::new();
    for row in board.rows.iter().filter(|row| row.kind.is_of_samples()) {
        if !heights.contains(&row.time.height()) {
            heights.push(row.time.height());
        }
    }
    let waits = board.rows.iter().any(|row| row.kind == LaneKind::Waits);
    html! {
        ul.legend {
            li.hint { "drag over the lanes to select a range, click a name to see its thread alone" }
            @if states {
                @for (key, name) in (0..).zip(STATES) {
                    li { span.swatch style={ "background:" (colour_of_state(key)) } {} (name) }
                }
            }
            @if !heights.is_empty() { li { "samples: height = " (heights.join(", or ")) ", colour = language, program or library with most time" } }
            @if waits {
                @for sort in WaitSort::ALL { li { span.swatch style={ "background:" (sort.colour()) } {} "waits for " (sort.words()) } }
            }
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
        ("f v h i c", "flame graph, stack chart, left-heavy, inverted, call tree of the range"),
        ("x y b t e g", "sandwich, source, waits, statistics, events, states"),
        ("[ ]", "previous and next state or wait of the marked or chosen thread"),
        ("/ n p", "search, next and previous hit"),
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
