//! The stack chart of a thread: what it called when. Time goes to the right, and callers stand above what they call.

use maud::{Markup, PreEscaped, html};
use pct_icicle::{Click, NodeId, Options, Order, Palette, Tree, svg};
use pct_num::{count, thousands};

use super::axis::axis;
use crate::recording::{Recording, lane_name};
use crate::view::{View, choose, encoded};
use crate::windows::{ChartSize, StackChart, Window};
use crate::words::{cut, duration, since};

/// Columns of a chart: two pixels or so for each. They can be halved some times.
const COLUMNS: usize = 640;
/// Most calls of a chart.
const MOST_CALLS: usize = 16_000;
/// Most levels of a chart.
const MOST_LEVELS: usize = 200;

/// How much of a chart is shown.
const SIZE: ChartSize = ChartSize { columns: COLUMNS, levels: MOST_LEVELS, calls: MOST_CALLS };

/// The name of the thread that is drawn.
fn thread_of(recording: &Recording, chart: &StackChart) -> String {
    recording.threads.get(chart.thread).map(lane_name).unwrap_or_default()
}

/// The calls as a picture's tree as wide as the range, with gaps where nothing was called. With a view calls are links
/// that choose a function.
fn picture_tree(
    chart: &StackChart,
    title: &str,
    range: (i64, i64),
    view: Option<&View>,
    style: &ChartStyle<'_>,
) -> Tree {
    let mut tree = Tree::new(title);
    tree.set_palette(style.palette.clone());
    let base = view.map(|view| choose(view, ""));
    // Each node with the time up to which it is filled, and its end. The root is the first.
    let mut filled: Vec<(NodeId, i64, i64)> = vec![(tree.root(), range.0, range.1)];
    for call in &chart.calls {
        let above = &mut filled[call.parent.map_or(0, |parent| parent + 1)];
        let (parent, gap) = (above.0, call.from_ns.abs_diff(above.1));
        above.1 = call.to_ns;
        if gap > 0 {
            tree.push_gap(parent, gap);
        }
        let id = tree.push(parent, &call.name);
        tree.set_group(id, &call.object);
        tree.set_detail(
            id,
            &format!("from {} s", since(style.origin, call.from_ns, range.1.abs_diff(range.0))),
        );
        if let Some(base) = &base {
            tree.set_link(id, &format!("{base}{}", encoded(&call.name)));
        }
        filled.push((id, call.from_ns, call.to_ns));
    }
    for (id, to, end) in filled {
        if end > to {
            tree.push_gap(id, end.abs_diff(to));
        }
    }
    tree
}

/// What a picture of a chart is drawn with.
pub(super) struct ChartStyle<'a> {
    pub(super) palette: &'a Palette,
    pub(super) nonce: Option<&'a str>,
    /// Time from which times on the page count, ns since 1970.
    pub(super) origin: i64,
}

/// The chart of a window of a recording.
pub(super) fn markup(recording: &Recording, window: &Window, view: &View, style: &ChartStyle<'_>) -> Markup {
    let chart = match recording.windows.stack_chart(window, SIZE) {
        Err(why) => return html! { p.warning { (why) } },
        Ok(None) => return html! {},
        Ok(Some(found)) => found,
    };
    let range = (window.from_ns, window.to_ns);
    let name = thread_of(recording, &chart);
    let tree = picture_tree(&chart, &name, range, Some(view), style);
    let options = Options {
        nonce: style.nonce.map(str::to_owned),
        frame: false,
        click: Click::Link,
        ..options(format!("stack chart of {name}"))
    };
    html! {
        @if window.threads.is_none() {
            p.soft { "This is the thread that ran most here: " b { (cut(&name, 60)) } ". A click on the name of a lane chooses another one." }
        }
        figure.picture.chart data-from=(range.0) data-to=(range.1) {
            div.axis aria-hidden="true" { (axis(range, style.origin)) }
            (PreEscaped(svg(&tree, &options)))
        }
        p.details { "\u{a0}" }
        p.soft.key { (key(&chart, range)) }
    }
}

/// What the picture shows, in words.
fn key(chart: &StackChart, range: (i64, i64)) -> Markup {
    let number = |n: usize| thousands(n as u64);
    let column_ns = range.1.abs_diff(range.0) / (chart.columns as u64).max(1);
    html! {
        "Each column stands for " (duration(column_ns)) "; it is empty where the thread has no sample. "
        @if chart.mixed > 0 {
            "In " (number(chart.mixed)) " of " (number(chart.filled)) " columns there was more than one stack: shown is the one of the calls with most time. A shorter range tells them apart. "
        }
        @if chart.cut > 0 { "In " (count(chart.cut as u64, "column", "columns")) " the stack has more than " (MOST_LEVELS) " levels, of which the outermost are shown. " }
        span.hint { "Drag to select a range; a click on a call chooses its function, and a double-click selects the call's time." }
    }
}

fn options(title: String) -> Options {
    Options {
        title,
        weight: duration,
        order: Order::AsAdded,
        // Columns have no width that is too small, and levels are counted already.
        min_width: 0.0,
        max_depth: u32::MAX,
        ..Options::default()
    }
}

/// The picture alone, for a file.
///
/// # Errors
/// A filter is no regular expression.
pub(super) fn file(recording: &Recording, window: &Window, palette: &Palette) -> Result<String, String> {
    let Some(chart) = recording.windows.stack_chart(window, SIZE)? else {
        return Ok(svg(&Tree::new("no sample"), &options("stack chart".to_owned())));
    };
    let (name, range) = (thread_of(recording, &chart), (window.from_ns, window.to_ns));
    let style = ChartStyle { palette, nonce: None, origin: recording.start_ns };
    let tree = picture_tree(&chart, &name, range, None, &style);
    Ok(svg(&tree, &options(format!("stack chart of {name}"))))
}
