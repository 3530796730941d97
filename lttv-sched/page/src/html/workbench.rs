//! The workbench: what is made of the samples of a range. Pictures, tables, trees and files, with filters and
//! transforms that stand in the address. Each control is a link or a form, so all of it works without script.

use maud::{Markup, PreEscaped, html};
use pct_icicle::{Direction, GroupWeights, Options, Order, Palette, Tree, svg};
use pct_num::thousands;
use rustc_hash::FxHashMap;
use serde_json::{Value, json};

use super::chart::ChartStyle;
use super::{call_tree, chart};
use crate::board::lane_of;
use crate::recording::{Recording, TimeOf};
use crate::store::{Shown, Store};
use crate::view::{FunctionOrder, Tab, View, choose, encoded, link};
use crate::windows::{
    CallNode, Filters, FunctionRow, Listing, Listings, SampledTime, Transform, TransformKind, Trees, Window,
    WindowSums,
};
use crate::words::{MOST_ROWS, cut, duration, function, seconds, share, short};

/// Levels of a flame graph.
const MOST_LEVELS: u32 = 200;
/// Narrowest frames of a picture in the page, in pixels of its width of some 1,200: with less, the picture of
/// a program with many stacks has tens of megabytes. What is left out is said below it, and "only below it"
/// leads there.
const NARROWEST_PX: f64 = 1.0;
/// Frames below one part in so many of the whole are too narrow to be drawn, so they have no link.
const NARROWEST: u64 = 1500;
/// The same for pictures that are saved: their narrowest frames have 0.3 pixels.
const NARROWEST_IN_FILES: u64 = 5000;

/// What is asked of a recording for a view.
pub(crate) fn window_of(store: &Store, view: &View, recording: &Recording) -> Window {
    let (from_ns, to_ns) = view.window();
    let tid = lane_of(store, view).and_then(|(_, lane)| lane.tid());
    let threads = tid.map(|tid| {
        let of_tid = recording.threads.iter().enumerate().filter(|(_, t)| i64::from(t.tid) == tid);
        of_tid.map(|(at, _)| at).collect()
    });
    Window { from_ns, to_ns, threads, filters: view.filters.clone(), transforms: view.transforms.clone() }
}

/// The recordings with what each answers about the view.
fn asked<'s, T>(
    store: &'s Store,
    view: &View,
    ask: impl Fn(&Recording, &Window) -> Result<T, String>,
) -> Vec<(&'s Shown, Result<T, String>)> {
    let recordings = store.traces().filter_map(|shown| Some((shown, shown.recording.as_ref()?)));
    recordings.map(|(shown, recording)| (shown, ask(recording, &window_of(store, view, recording)))).collect()
}

/// The part of the page about samples.
pub(super) fn section(store: &Store, view: &View, tab: Tab, nonce: Option<&str>) -> Markup {
    let style = PictureStyle { palette: store.palette(), nonce };
    let hottest = of_one_function(tab, view).then(|| with_hottest(store, view)).flatten();
    let view = hottest.as_ref().unwrap_or(view);
    html! {
        (filters(view))
        (chips(view))
        div id="chosen" { (chosen_bar(store, view)) }
        @if hottest.is_some() { p.soft { "This is the function with most time here. Others are chosen by a click: in a table, or in a picture." } }
        @if !store.traces().any(|shown| shown.recording.is_some()) {
            p.soft { "None of these has samples with functions. (pct view --timeline reads a recording's functions.)" }
        } @else if of_one_function(tab, view) {
            (each(store, view, &Trees::None, |shown, sums| functions(shown, sums, view)))
        } @else {
            @match tab {
                Tab::Source => @for (shown, found) in asked(store, view, |r, w| r.windows.listings(w, &view.function)) {
                    @match found {
                        Ok(found) => (listings(shown, &found)),
                        Err(why) => p.warning { (why) },
                    }
                },
                Tab::Sandwich => (each(store, view, &Trees::Sandwich(view.function.clone()), |shown, sums| sandwich(shown, sums, view, &style))),
                Tab::Tree => (each(store, view, &Trees::Calls, |_, sums| call_tree::markup(sums, view))),
                Tab::Chart => (each(store, view, &Trees::None, |shown, _| stack_chart(store, shown, view, &style))),
                Tab::Inverted => (each(store, view, &Trees::Inverted, |shown, sums| flame(shown, sums, view, tab, &style))),
                _ => (each(store, view, &Trees::Calls, |shown, sums| flame(shown, sums, view, tab, &style))),
            }
        }
    }
}

/// Whether a tab is about one function, and none is chosen.
fn of_one_function(tab: Tab, view: &View) -> bool {
    matches!(tab, Tab::Sandwich | Tab::Source) && view.function.is_empty()
}

/// The view with the function chosen that owns most of the range; `None` where there is no sample.
fn with_hottest(store: &Store, view: &View) -> Option<View> {
    let sums = asked(store, view, |r, w| r.windows.sums(w, &Trees::None)).into_iter();
    let sums: Vec<WindowSums> = sums.filter_map(|(_, sums)| sums.ok()).collect();
    let first = sums.iter().filter_map(|sums| ordered(sums, FunctionOrder::Owner).into_iter().next());
    let hottest = first.max_by_key(|row| row.owned)?;
    Some(View { function: hottest.name.clone(), ..view.clone() })
}

/// What the samples of a recording are amounts of.
fn time_in(shown: &Shown) -> TimeOf {
    shown.recording.as_ref().map_or(TimeOf::Cpu, |recording| recording.time.clone())
}

/// Each recording's head, and what is made of its sums.
fn each(store: &Store, view: &View, trees: &Trees, make: impl Fn(&Shown, &WindowSums) -> Markup) -> Markup {
    html! {
        @for (at, (shown, sums)) in asked(store, view, |r, w| r.windows.sums(w, trees)).into_iter().enumerate() {
            @match sums {
                Err(why) => p.warning { (why) },
                Ok(sums) => {
                    p { b { (short(&shown.name)) } ": " (thousands(sums.samples)) @if sums.samples == 1 { " sample, " } @else { " samples, " } (seconds(sums.cpu_ns)) " " (time_in(shown).unit())
                        span.soft { " the same here: " code { (report(store, shown, view)) } } }
                    (files(view, at, shown.recording.as_ref().and_then(|recording| recording.windows.archive_name())))
                    @if sums.samples > 0 { (make(shown, &sums)) }
                }
            }
        }
    }
}

/// The command that reports the same samples. Transforms have no options there.
fn report(store: &Store, shown: &Shown, view: &View) -> String {
    let start = shown.recording.as_ref().map_or(0, |recording| recording.start_ns);
    let at = |time: i64| {
        let ns = time.saturating_sub(start).max(0);
        format!("{}.{:09}", ns / 1_000_000_000, ns % 1_000_000_000)
    };
    let (from, to) = view.window();
    let mut out = format!("pct report --from {} --to {}", at(from), at(to));
    if let Some(tid) = lane_of(store, view).and_then(|(_, lane)| lane.tid()) {
        out += &format!(" --thread {tid}");
    }
    for (_, option, text) in view.filters.rows().iter().filter(|row| !row.2.is_empty()) {
        out += &format!(" {option} '{}'", text.replace('\'', r"'\''"));
    }
    format!("{out} {}", shown.name)
}

/// The range as files.
fn files(view: &View, recording: usize, archive: Option<&str>) -> Markup {
    let query = view.query();
    html! {
        p.files { "save these samples: "
            @for (word, title, name) in [("folded", "folded", "window.folded"), ("pprof", "pprof", "window.pb.gz"), ("jsonl", "JSON lines", "window.jsonl"), ("flame", "SVG", "window.svg")] {
                a.control href={ "tl/file?" (query) "&as=" (word) "&r=" (recording) } download=(name) { (title) }
            }
            @if let Some(name) = archive {
                a.control href={ "tl/file?" (query) "&as=archive&r=" (recording) } download=(name) title="all samples of this range, of all threads, as a recording for pct report" { "recording" }
            }
        }
    }
}

/// Which samples are counted.
fn filters(view: &View) -> Markup {
    let rest = View { filters: Filters::default(), at: None, ..view.clone() };
    html! {
        form.filters action="tl" method="get" {
            @for (key, value) in crate::view::parts(&rest.query()) { input type="hidden" name=(key) value=(value); }
            @for (word, option, text) in view.filters.rows() {
                label { (word) " " input.filter type="search" name=(word) value=(text) placeholder="regexp" title={ "as " (option) " of pct report" }; }
            }
            button.control { "filter" }
        }
    }
}

/// Filters and transforms that hold, each with a link that takes it away.
fn chips(view: &View) -> Markup {
    let chip = |text: String, without: View| {
        html! {
            a.chip href=(link(&without)) aria-label={ "take away: " (text) } { (cut(&text, 70)) " \u{d7}" }
        }
    };
    html! {
        @if !view.transforms.is_empty() || !view.filters.is_empty() {
            p.chips {
                @for (word, _, text) in view.filters.rows().iter().filter(|row| !row.2.is_empty()) {
                    (chip(format!("{word} {text}"), View { filters: view.filters.without(word), ..view.clone() }))
                }
                @for (at, transform) in view.transforms.iter().enumerate() {
                    @let kept = view.transforms.iter().enumerate().filter(|(i, _)| *i != at).map(|(_, t)| t.clone());
                    (chip(format!("{} {}", transform.kind.title(), transform.name), View { transforms: kept.collect(), ..view.clone() }))
                }
            }
        }
    }
}

/// What can be done with the chosen function.
pub(crate) fn chosen_bar(store: &Store, view: &View) -> Markup {
    let name = &view.function;
    let there = |tab: Tab| View { tab: Some(tab), ..view.clone() };
    let with = |kind: TransformKind, name: &str| {
        let mut transforms = view.transforms.clone();
        transforms.push(Transform { kind, name: name.to_owned() });
        View { transforms, ..view.clone() }
    };
    html! {
        @if !name.is_empty() {
            p.chosen {
                b title=(name) { (function(name, 80)) } " "
                a.control href=(link(&there(Tab::Sandwich))) { "sandwich" }
                a.control href=(link(&there(Tab::Source))) { "source" }
                a.control href=(link(&View { search: format!("^{}$", regex_of(name)), ..view.clone() })) { "mark in lanes" }
                a.control href=(link(&with(TransformKind::Focus, name))) { "only below it" }
                a.control href=(link(&with(TransformKind::Ignore, name))) { "without it" }
                a.control href=(link(&with(TransformKind::Merge, name))) { "merge into callers" }
                a.control href=(link(&with(TransformKind::Recursion, name))) { "collapse recursion" }
                @for object in objects_of(store, name) {
                    a.control href=(link(&with(TransformKind::Object, object))) { "collapse " (object) }
                }
                a.control href=(link(&View { function: String::new(), ..view.clone() })) aria-label="choose no function" { "\u{d7}" }
            }
        }
    }
}

/// A regular expression that only this text matches.
fn regex_of(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if !c.is_alphanumeric() && c.is_ascii() && c != '_' && c != ' ' {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

/// The objects that functions of a name lie in; a few at most.
fn objects_of<'s>(store: &'s Store, name: &str) -> Vec<&'s str> {
    let recordings = store.traces().filter_map(|shown| shown.recording.as_ref());
    let functions = recordings.flat_map(|recording| &recording.functions);
    let mut objects: Vec<&str> = functions.filter(|f| f.name == name).map(|f| f.object.as_str()).collect();
    objects.sort_unstable();
    objects.dedup();
    objects.truncate(3);
    objects
}

/// Which way a picture's tree goes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    /// From callers to what they call: time was spent where stacks end.
    Calls,
    /// From what ran to its callers: time was spent in the roots.
    Callers,
}

/// Nodes as a picture's tree. A single root is the picture's root. With a view frames are links that choose a function.
/// The legend is of where time was spent.
fn picture_tree(nodes: &[CallNode], way: Way, view: Option<&View>, palette: &Palette) -> Tree {
    let mut roots = nodes.iter().filter(|node| node.parent.is_none());
    let only = roots.next().filter(|_| roots.next().is_none());
    let mut tree = Tree::new(only.map_or("all", |node| &node.name));
    let whole: u64 = nodes.iter().filter(|node| node.parent.is_none()).map(|node| node.total_ns).sum();
    // What lies below a frame that is too narrow to be drawn is the frame's own.
    let mut ids = Vec::with_capacity(nodes.len());
    let mut groups: FxHashMap<&str, u64> = FxHashMap::default();
    // All but the function's name is the same in all links.
    let base = view.map(|view| choose(view, ""));
    let narrowest = if view.is_some() { NARROWEST } else { NARROWEST_IN_FILES };
    for node in nodes {
        *groups.entry(&node.object).or_default() += match (way, node.parent) {
            (Way::Calls, _) => node.ends_ns,
            (Way::Callers, None) => node.total_ns,
            (Way::Callers, Some(_)) => 0,
        };
        let parent = match node.parent {
            None => Some(tree.root()),
            Some(at) => ids.get(at).copied().flatten(),
        };
        let Some(parent) = parent else {
            ids.push(None);
            continue;
        };
        let id = match node.parent {
            None if only.is_some() => tree.root(),
            _ => tree.push(parent, &node.name),
        };
        let is_drawn = node.total_ns.saturating_mul(narrowest) >= whole;
        tree.add(id, if is_drawn { node.ends_ns } else { node.total_ns });
        tree.set_group(id, &node.object);
        if let Some(base) = base.as_ref().filter(|_| is_drawn) {
            tree.set_link(id, &format!("{base}{}", encoded(&node.name)));
        }
        ids.push(is_drawn.then_some(id));
    }
    let of = groups.into_iter().map(|(name, weight)| (name.to_owned(), weight)).collect();
    tree.set_group_weights(GroupWeights { whole, of });
    tree.set_palette(palette.clone());
    tree
}

/// How pictures look.
struct PictureStyle<'a> {
    palette: &'a Palette,
    nonce: Option<&'a str>,
}

fn picture(nodes: &[CallNode], view: &View, shape: Shape, style: &PictureStyle<'_>) -> Markup {
    let Shape { title, direction, order, way } = shape;
    let options = Options {
        title: title.into(),
        weight: duration,
        direction,
        order,
        max_depth: MOST_LEVELS,
        min_width: NARROWEST_PX,
        nonce: style.nonce.map(str::to_owned),
        ..Options::default()
    };
    html! {
        figure.picture { (PreEscaped(svg(&picture_tree(nodes, way, Some(view), style.palette), &options))) }
        p.details { "\u{a0}" }
    }
}

/// What a picture is of, and how it is drawn.
#[derive(Clone, Copy)]
struct Shape {
    title: &'static str,
    direction: Direction,
    order: Order,
    way: Way,
}

impl Shape {
    const CALLS: Shape =
        Shape { title: "flame graph", direction: Direction::Icicle, order: Order::Name, way: Way::Calls };
    const HEAVY: Shape =
        Shape { title: "flame graph, heaviest on the left", order: Order::Weight, ..Shape::CALLS };
    const INVERTED: Shape =
        Shape { title: "what ran, and its callers below it", way: Way::Callers, ..Shape::CALLS };
    const CALLEES: Shape = Shape { title: "callees", order: Order::Weight, ..Shape::CALLS };
    /// Above those that they call.
    const CALLERS: Shape =
        Shape { title: "callers", direction: Direction::Flame, way: Way::Callers, ..Shape::CALLEES };

    /// The picture of a tab.
    fn from_tab(tab: Tab) -> Shape {
        match tab {
            Tab::Inverted => Shape::INVERTED,
            Tab::Heavy => Shape::HEAVY,
            _ => Shape::CALLS,
        }
    }
}

fn flame(shown: &Shown, sums: &WindowSums, view: &View, tab: Tab, style: &PictureStyle<'_>) -> Markup {
    html! {
        @for nodes in &sums.trees { (picture(nodes, view, Shape::from_tab(tab), style)) }
        (functions(shown, sums, view))
    }
}

fn stack_chart(store: &Store, shown: &Shown, view: &View, style: &PictureStyle<'_>) -> Markup {
    let style = ChartStyle { palette: style.palette, nonce: style.nonce, origin: store.origin() };
    let recording = shown.recording.as_deref();
    let drawn = |recording| chart::markup(recording, &window_of(store, view, recording), view, &style);
    recording.map_or_else(Markup::default, drawn)
}

fn sandwich(shown: &Shown, sums: &WindowSums, view: &View, style: &PictureStyle<'_>) -> Markup {
    let total: u64 = sums
        .trees
        .first()
        .map_or(0, |nodes| nodes.iter().filter(|node| node.parent.is_none()).map(|node| node.total_ns).sum());
    html! {
        @if total == 0 {
            p.soft { "No sample of this range has " (function(&view.function, 80)) " on its stack." }
        } @else {
            p { (function(&view.function, 80)) ": " (share(total, sums.cpu_ns)) " of the range, " (duration(total)) " with what it calls" }
            @for (nodes, shape) in sums.trees.iter().zip([Shape::CALLERS, Shape::CALLEES]) {
                (picture(nodes, view, shape, style))
            }
        }
        (functions(shown, sums, view))
    }
}

/// The picture of a view alone, for a file.
pub(crate) fn flame_file(recording: &Recording, window: &Window, view: &View) -> Result<String, String> {
    let tab = view.tab.unwrap_or_default();
    let palette = Palette::from_weights(&recording.groups);
    if tab == Tab::Chart {
        return chart::file(recording, window, &palette);
    }
    let trees = if tab == Tab::Inverted { Trees::Inverted } else { Trees::Calls };
    let sums = recording.windows.sums(window, &trees)?;
    let Shape { title, direction, order, way } = Shape::from_tab(tab);
    let options = Options { title: title.into(), weight: duration, direction, order, ..Options::default() };
    let nodes = sums.trees.into_iter().next().unwrap_or_default();
    Ok(svg(&picture_tree(&nodes, way, None, &palette), &options))
}

/// The time that a table in this order is about.
fn time_of(row: &FunctionRow, by: FunctionOrder) -> SampledTime {
    match by {
        FunctionOrder::Owner => row.owned,
        FunctionOrder::Leaf => row.leaf,
        FunctionOrder::Total => row.total,
    }
}

/// The functions, the heaviest first.
fn ordered(sums: &WindowSums, by: FunctionOrder) -> Vec<&FunctionRow> {
    let mut rows: Vec<&FunctionRow> = sums.functions.iter().collect();
    rows.sort_by(|a, b| {
        let all = |row: &FunctionRow| (time_of(row, by), row.owned, row.leaf, row.total);
        all(b).cmp(&all(a)).then_with(|| a.name.cmp(&b.name))
    });
    rows
}

fn functions(of: &Shown, sums: &WindowSums, view: &View) -> Markup {
    let mut rows = ordered(sums, view.by);
    rows.retain(|row| time_of(row, view.by).ns > 0);
    let (shown, rest) = rows.split_at(rows.len().min(MOST_ROWS));
    let base = choose(view, "");
    // Totals overlap: they have no sum.
    let rest_of = |by: FunctionOrder| {
        (by != FunctionOrder::Total).then(|| rest.iter().map(|row| time_of(row, by).ns).sum::<u64>())
    };
    html! {
        div.tablebox { table.data {
            thead { tr {
                @for (by, word, meaning) in FunctionOrder::ALL {
                    th title=(meaning) aria-sort=[(by == view.by).then_some("descending")] {
                        @if by == view.by { (word) } @else { a href=(link(&View { by, ..view.clone() })) { (word) } }
                    }
                }
                th { (time_in(of).unit()) } th { "samples" } th.l { "function" } th.l { "object" }
            } }
            tbody {
                @for row in shown {
                    tr.picked[row.name == view.function] data-owned=(row.owned.ns) data-own=(row.leaf.ns) data-total=(row.total.ns) {
                        @for (by, ..) in FunctionOrder::ALL { td { (share(time_of(row, by).ns, sums.cpu_ns)) } }
                        td { (seconds(time_of(row, view.by).ns)) } td { (thousands(time_of(row, view.by).samples)) }
                        td.l { a.fn href={ (base) (encoded(&row.name)) } title=(row.name) { (function(&row.name, 80)) } } td.l { (row.object) }
                    }
                }
                @if !rest.is_empty() {
                    tr { @for (by, ..) in FunctionOrder::ALL { td { @if let Some(ns) = rest_of(by) { (share(ns, sums.cpu_ns)) } } }
                        td { @if let Some(ns) = rest_of(view.by) { (seconds(ns)) } } td {}
                        td.l { (thousands(rest.len() as u64)) " more" } td {} }
                }
            }
        } }
    }
}

/// Source lines, then instructions, each with its time.
fn listings(shown: &Shown, found: &Listings) -> Markup {
    html! {
        p { b { (short(&shown.name)) } ": " (duration(found.own_ns)) " in the function (" (share(found.own_ns, found.whole_ns)) "), "
            (duration(found.total_ns)) " with what it calls (" (share(found.total_ns, found.whole_ns)) ")" }
        @for remark in &found.remarks { p.soft { (remark) } }
        @for listing in &found.listings { (listing_table(listing, found.whole_ns)) }
    }
}

fn listing_table(listing: &Listing, whole_ns: u64) -> Markup {
    let most = listing.lines.iter().map(|line| line.own_ns).max().unwrap_or(0);
    let cell = |ns: u64, heat: bool| {
        html! {
            @if ns == 0 { td {} } @else {
                td style=[heat.then(|| format!("background:rgba(232,90,20,{:.2})", pct_num::percent(ns, most) * 0.006))] { (share(ns, whole_ns)) }
            }
        }
    };
    html! {
        h3 { (listing.title) }
        div.tablebox { table.data.listing {
            thead { tr { th { "self" } @if listing.has_totals { th { "total" } } th { @if listing.has_totals { "line" } @else { "address" } } th.l {} } }
            tbody {
                @for line in &listing.lines {
                    tr data-line=(line.place) {
                        (cell(line.own_ns, true)) @if listing.has_totals { (cell(line.total_ns, false)) }
                        td.soft { (line.place) } td.l { code { (line.text) } }
                    }
                }
            }
        } }
    }
}

/// The table of functions of the range as JSON, and the number of samples, for each recording.
///
/// # Errors
/// A filter is no regular expression.
pub(crate) fn json_of(store: &Store, view: &View) -> Result<Value, String> {
    let (from, to) = view.window();
    let mut recordings: Vec<Value> = Vec::new();
    for (shown, sums) in asked(store, view, |r, w| r.windows.sums(w, &Trees::None)) {
        let sums = sums?;
        let functions = ordered(&sums, view.by).into_iter().map(|row| {
            json!({
                "name": row.name, "object": row.object, "owned_ns": row.owned.ns, "own_ns": row.leaf.ns,
                "total_ns": row.total.ns, "owned_samples": row.owned.samples, "samples": row.leaf.samples,
            })
        });
        let functions: Vec<Value> = functions.collect();
        recordings.push(
            json!({"name": shown.name, "samples": sums.samples, "cpu_ns": sums.cpu_ns, "clock": time_in(shown).name(), "functions": functions}),
        );
    }
    Ok(json!({"v": 1, "from": from.to_string(), "to": to.to_string(), "recordings": recordings}))
}
