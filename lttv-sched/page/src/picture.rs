//! The lanes as SVG: what is seen without script.

use std::collections::HashMap;
use std::fmt::Write as _;

use lttv_modules::timeline::lanes::LaneKind;
use lttv_modules::timeline::tile::{COARSEST, bucket_ns, level_for};
use pct_icicle::colour::Rgb;

use crate::board::{Board, bars, drawn_from, named};
use crate::search;
use crate::store::{Asker, Store};
use crate::sums::BUCKETS;
use crate::view::{LaneRef, View, tiles_of};
use crate::words::since;

/// Most rectangles of a picture; a coarser level is drawn when there would be more.
const MOST_RECTS: usize = 4000;
/// Width of the picture in its own units; the page stretches it.
const WIDTH: f64 = 1000.0;
/// Least height of a cell that is not empty, pixels; of what ran, so that it is seen before what was waited for.
const LEAST: [f64; 2] = [1.0, 2.0];

/// A picture.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Picture {
    /// The SVG element.
    pub svg: String,
    /// Nothing of it will change.
    pub is_final: bool,
}

#[derive(Clone, Copy, PartialEq, Debug)]
struct Rect {
    x: f64,
    width: f64,
    height: f64,
    colour: Rgb,
}

/// The rectangles of a lane: those behind, and those before them.
type LaneRects = [Vec<Rect>; 2];

/// Draws the lanes of a board.
pub fn draw(store: &Store, board: &Board, view: &View) -> Picture {
    let mut level = level_for(view.width().unsigned_abs(), BUCKETS);
    loop {
        let (rows, is_final) = rects(store, board, view, level);
        let count: usize = rows.iter().flatten().map(Vec::len).sum();
        if count <= MOST_RECTS || level == COARSEST {
            return Picture { svg: svg(board, &rows, &marked(store, view), view), is_final };
        }
        level += 1;
    }
}

/// The lanes with their names as a file of its own.
pub fn standing_alone(store: &Store, board: &Board, view: &View) -> String {
    const NAMES: f64 = 240.0;
    const TOP: u32 = 26;
    let origin = store.origin();
    let wide = view.width().unsigned_abs();
    let (width, height) = (NAMES + WIDTH, board.height() + TOP);
    let mut out = format!(
        r#"<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="11"><rect width="100%" height="100%" fill="white"/><text x="{NAMES}" y="16">{} s to {} s</text>"#,
        since(origin, view.from, wide),
        since(origin, view.to, wide),
    );
    let mut name = |name: &str, baseline: u32| {
        let _ = write!(out, r#"<text x="4" y="{}">"#, TOP + baseline);
        pct_icicle::text::escape_into(&mut out, &pct_icicle::text::cut(name, 38));
        out.push_str("</text>");
    };
    for (row, y) in board.places() {
        if let Some(heading) = &row.heading {
            name(&heading.process(), y.saturating_sub(7));
        }
        name(&row.name, y + row.height().min(18) - 4);
    }
    let _ = write!(
        out,
        r##"<svg x="{NAMES}" y="{TOP}" width="{WIDTH}" height="{}"><style>.lane{{fill:#f0f2f5}}.mark{{fill:#e0218a}}</style>"##,
        board.height()
    );
    out + &draw(store, board, view).svg + "</svg></svg>"
}

#[expect(clippy::cast_precision_loss, reason = "places in a picture")]
fn rects(store: &Store, board: &Board, view: &View, level: u32) -> (Vec<LaneRects>, bool) {
    let places: HashMap<LaneRef, usize> =
        board.rows.iter().enumerate().map(|(at, row)| (row.id, at)).collect();
    let mut rows: Vec<LaneRects> = vec![LaneRects::default(); board.rows.len()];
    let mut colours: HashMap<(usize, u32), Rgb> = HashMap::new();
    let (width_ns, scale) = (bucket_ns(level), WIDTH / view.width() as f64);
    let mut is_final = store.is_whole();
    // The end of the last cell of each row.
    let mut ends = vec![None; board.rows.len()];
    for trace in 0..store.traces().len() {
        for id in tiles_of(view, level) {
            let Some(tile) = store.tile(trace, id, Asker::default()) else { continue };
            is_final &= tile.is_final;
            for lane in tile.lanes {
                let Some(&at) = places.get(&LaneRef { trace, lane: lane.lane }) else { continue };
                let Some(row) = board.rows.get(at) else { continue };
                for cell in &lane.cells {
                    let end = (cell.bucket + i64::from(cell.len)) << level;
                    let (from, width_ns) = if row.kind == LaneKind::Samples {
                        let from = drawn_from(cell, width_ns, ends[at]);
                        (from, end.saturating_sub(from))
                    } else {
                        (cell.bucket << level, width_ns)
                    };
                    ends[at] = Some(end);
                    let (begin, end) = (from.saturating_sub(view.from), end.saturating_sub(view.from));
                    let (x, right) = (begin as f64 * scale, end as f64 * scale);
                    let (x, right) = (x.max(0.0), right.min(WIDTH));
                    if right <= x {
                        continue;
                    }
                    let full = f64::from(row.height());
                    let bars = bars(row.kind, cell, width_ns).into_iter().zip(LEAST);
                    for ((bar, least), to) in bars.zip(&mut rows[at]) {
                        let Some(bar) = bar else { continue };
                        let colour = *colours.entry((trace, bar.key)).or_insert_with(|| {
                            named(store, trace, bar.key).map_or(Rgb(150, 150, 150), |n| n.colour)
                        });
                        let height = (bar.height * full).round().max(least);
                        push(to, Rect { x, width: right - x, height, colour });
                    }
                }
            }
        }
    }
    (rows, is_final)
}

/// Appends a rectangle, or makes the last one wider where the two look like one.
fn push(row: &mut Vec<Rect>, rect: Rect) {
    match row.last_mut() {
        Some(last)
            if last.colour == rect.colour
                && last.height == rect.height
                && (last.x + last.width - rect.x).abs() < 1e-6 =>
        {
            last.width += rect.width;
        }
        _ => row.push(rect),
    }
}

/// Where hits of the search are.
fn marked(store: &Store, view: &View) -> HashMap<LaneRef, Vec<i64>> {
    match &*view.search {
        "" => HashMap::new(),
        text => search::marks(&search::search(store, text), view),
    }
}

#[expect(clippy::cast_precision_loss, reason = "places in a picture")]
fn svg(board: &Board, rows: &[LaneRects], marks: &HashMap<LaneRef, Vec<i64>>, view: &View) -> String {
    let height = board.height();
    let mut out = format!(
        r#"<svg xmlns="http://www.w3.org/2000/svg" class="lanes" width="100%" height="{height}" viewBox="0 0 {WIDTH} {height}" preserveAspectRatio="none" role="img" aria-label="lanes over time">"#
    );
    for ((row, y), rects) in board.places().zip(rows) {
        let bottom = f64::from(y + row.height());
        let _ = write!(out, r#"<rect class="lane" y="{y}" width="{WIDTH}" height="{}"/>"#, row.height());
        for rect in rects.iter().flatten() {
            let _ = write!(
                out,
                r#"<rect x="{:.2}" y="{}" width="{:.2}" height="{}" fill="{}"/>"#,
                rect.x,
                bottom - rect.height,
                rect.width.max(0.3),
                rect.height,
                rect.colour
            );
        }
        for time in marks.get(&row.id).into_iter().flatten() {
            let x = time.saturating_sub(view.from) as f64 * WIDTH / view.width() as f64;
            let _ =
                write!(out, r#"<rect class="mark" x="{x:.2}" y="{y}" width="1" height="{}"/>"#, row.height());
        }
    }
    if let Some(time) = view.hit.filter(|time| (view.from..view.to).contains(time)) {
        let x = time.saturating_sub(view.from) as f64 * WIDTH / view.width() as f64;
        let _ = write!(out, r#"<rect class="mark" x="{x:.2}" y="0" width="1" height="{height}"/>"#);
    }
    out.push_str("</svg>");
    out
}
