//! Which lanes are shown, in which order, and how their cells look: colour and height. The picture without script and
//! the canvas are drawn by the same rules.

use std::collections::BTreeMap;

use lttv_engine::time::Time;
use lttv_modules::timeline::cells::Cell;
use lttv_modules::timeline::lanes::{BLOCKED, IDLE, Key, Lane, LaneKind, LaneOf, STATES, UNKNOWN, WAITS};
use lttv_modules::timeline::tile::{TileId, level_for};
use pct_icicle::colour::{Rgb, name_hash};

use crate::store::Store;
use crate::view::{LaneRef, View};

/// A lane on the page.
#[derive(Clone, PartialEq, Debug)]
pub struct BoardRow {
    /// Which lane.
    pub id: LaneRef,
    /// What it shows.
    pub kind: LaneKind,
    /// Of what.
    pub of: LaneOf,
    /// Its name.
    pub name: String,
    /// Items in the whole trace so far.
    pub n: u64,
    /// Weight in the whole trace so far.
    pub w: u64,
}

/// Busiest threads that are shown unless all are asked for.
const SHOWN_GROUPS: usize = 30;
/// Most lanes on a page.
const MOST_ROWS: usize = 500;
/// Space between lanes, pixels.
pub const GAP: u32 = 3;

impl BoardRow {
    /// Height in pixels.
    pub fn height(&self) -> u32 {
        match self.kind {
            LaneKind::Samples => 26,
            LaneKind::Cpu => 18,
            LaneKind::Thread | LaneKind::Events => 14,
        }
    }
}

/// The lanes of a view.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Board {
    /// Those that are shown, in order.
    pub rows: Vec<BoardRow>,
    /// Lanes that are not shown, and the samples' CPU time in them.
    pub hidden: usize,
    /// See `hidden`.
    pub hidden_ns: u64,
}

/// Lanes that belong together: those of a CPU, or of a thread in all traces.
#[derive(Default)]
struct Group {
    rows: Vec<BoardRow>,
    sampled_ns: u64,
    n: u64,
}

fn place_in_group(kind: LaneKind) -> u8 {
    match kind {
        LaneKind::Cpu => 0,
        LaneKind::Samples => 1,
        LaneKind::Thread => 2,
        LaneKind::Events => 3,
    }
}

impl Board {
    /// The lanes for a view: CPUs first, then threads, the busiest first; a thread's lanes of all traces together.
    pub fn from_store(store: &Store, view: &View) -> Board {
        // A thread is told by its number alone, so that the kernel's and the sampler's lanes meet. Other lanes are of
        // one trace.
        let mut groups: BTreeMap<(u8, usize, i64, usize), Group> = BTreeMap::new();
        for trace in 0..store.traces().len() {
            for row in rows_of(store, trace) {
                let key = match row.of {
                    LaneOf::Cpu(cpu) => (0, trace, i64::from(cpu), 0),
                    LaneOf::Thread(tid) => (1, 0, tid, 0),
                    LaneOf::Tracefile(file) => (1, trace, i64::MAX, file + 1),
                };
                let group = groups.entry(key).or_default();
                if row.kind == LaneKind::Samples {
                    group.sampled_ns += row.w;
                }
                group.n += row.n;
                group.rows.push(row);
            }
        }
        let mut groups: Vec<(u8, Group)> = groups.into_iter().map(|(key, group)| (key.0, group)).collect();
        for (_, group) in &mut groups {
            group.rows.sort_by_key(|row| (place_in_group(row.kind), row.id));
        }
        if let Some(only) = view.lane {
            groups.retain(|(_, group)| group.rows.iter().any(|row| row.id == only));
        }
        groups.sort_by(|(class, a), (other, b)| {
            let busy = |group: &Group| (group.sampled_ns, group.n);
            class.cmp(other).then_with(|| match class {
                0 => std::cmp::Ordering::Equal,
                _ => busy(b).cmp(&busy(a)),
            })
        });
        let mut board = Board::default();
        let mut threads = 0;
        for (class, group) in groups {
            threads += usize::from(class > 0);
            let room = board.rows.len() + group.rows.len() <= MOST_ROWS;
            if room && (view.all || threads <= SHOWN_GROUPS) {
                board.rows.extend(group.rows);
            } else {
                board.hidden += group.rows.len();
                board.hidden_ns += group.sampled_ns;
            }
        }
        board
    }

    /// Height of all lanes, pixels.
    pub fn height(&self) -> u32 {
        self.rows.iter().map(|row| row.height() + GAP).sum()
    }
}

/// The lanes of a trace with what they hold in all.
fn rows_of(store: &Store, trace: usize) -> Vec<BoardRow> {
    let Some(timeline) = store.timeline(trace) else { return Vec::new() };
    let lanes = timeline.lanes();
    let mut sums = vec![(0u64, 0u64); lanes.len()];
    if let Some((from, to)) = store.trace(trace).and_then(|shown| shown.source.time_span()) {
        let level = level_for(to.since(from).unsigned_abs(), 64).max(timeline.base());
        let (first, last) = (TileId::holding(from, level), TileId::holding(to, level));
        for tile in (first.index()..=last.index()).filter_map(|index| TileId::new(level, index)) {
            for lane in timeline.tile(tile).into_iter().flat_map(|tile| tile.lanes) {
                let Some(sum) = sums.get_mut(lane.lane) else { continue };
                for cell in &lane.cells {
                    sum.0 += cell.n * u64::from(cell.len);
                    sum.1 = sum.1.saturating_add(cell.w.saturating_mul(cell.len.into()));
                }
            }
        }
    }
    let rows = lanes.into_iter().enumerate().zip(sums).map(|((lane, of), (n, w))| BoardRow {
        id: LaneRef { trace, lane },
        kind: of.kind,
        of: of.of,
        name: of.name.to_string(),
        n,
        w,
    });
    // A lane without anything in it was made ahead of its events.
    rows.filter(|row| row.n > 0 || row.w > 0).collect()
}

/// Colours of the states, in the order of [`STATES`]. A test keeps them apart: what nothing is known of, an idle CPU
/// and a blocked thread must not look alike.
const STATE_COLOURS: [Rgb; STATES.len()] = [
    Rgb(190, 190, 190),
    Rgb(96, 108, 128),
    Rgb(62, 160, 92),
    Rgb(62, 124, 216),
    Rgb(128, 100, 208),
    Rgb(216, 82, 78),
    Rgb(228, 138, 58),
    Rgb(208, 178, 46),
    Rgb(232, 148, 176),
    Rgb(172, 142, 122),
];

/// The lane that a view looks at, and its trace.
pub(crate) fn lane_of(store: &Store, view: &View) -> Option<(usize, Lane)> {
    let lane = view.lane?;
    Some((lane.trace, store.lanes(lane.trace).get(lane.lane)?.clone()))
}

/// Part of the lane's height that a state fills, in the order of [`STATES`]: those that use a CPU are full.
fn state_height(key: u32) -> f64 {
    match key {
        IDLE => 0.12,
        UNKNOWN | BLOCKED => 0.25,
        WAITS => 0.55,
        _ => 1.0,
    }
}

/// Events in a bucket that fill a lane, as a power of two.
const FULL_EVENTS_LOG2: f64 = 12.0;
/// Least part of a lane's height for events.
const LEAST_EVENTS: f64 = 0.3;

/// Part of its lane's height that a cell fills, 0 to 1. `width_ns` is that of its bucket.
#[expect(clippy::cast_precision_loss, reason = "a height in pixels")]
pub fn height(kind: LaneKind, cell: &Cell, width_ns: i64) -> f64 {
    match kind {
        LaneKind::Samples => (cell.w as f64 / width_ns as f64).clamp(0.0, 1.0),
        LaneKind::Cpu | LaneKind::Thread => state_height(cell.top()),
        LaneKind::Events => ((1.0 + cell.n as f64).log2() / FULL_EVENTS_LOG2).clamp(LEAST_EVENTS, 1.0),
    }
}

/// What a key is called and how it looks.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Named {
    /// Its name.
    pub name: String,
    /// For functions: the program or library.
    pub object: String,
    /// Its colour.
    pub colour: Rgb,
}

/// The name and colour of a key in a lane of a trace.
pub fn named(store: &Store, trace: usize, key: u32) -> Option<Named> {
    let meaning = store.timeline(trace)?.meaning(key)?;
    let plain = |name: String, colour| Some(Named { name, object: String::new(), colour });
    match meaning {
        Key::State(name) => plain(name.to_owned(), colour_of_state(key)),
        Key::Name(name) => plain(name.to_string(), colour_of_event(&name)),
        Key::Function(number) => {
            let recording = store.trace(trace)?.recording.as_ref()?;
            let function = recording.functions.get(usize::try_from(number).ok()?)?;
            let colour = store.palette().of_function(&function.group, &function.name);
            Some(Named { name: function.name.clone(), object: function.object.clone(), colour })
        }
    }
}

/// The colour of a key in a lane of a trace; none where the key stands for nothing.
pub(crate) fn colour_of_key(store: &Store, trace: usize, key: u32) -> Option<Rgb> {
    match store.timeline(trace)?.meaning(key)? {
        Key::State(_) => Some(colour_of_state(key)),
        Key::Name(name) => Some(colour_of_event(&name)),
        Key::Function(number) => {
            let recording = store.trace(trace)?.recording.as_ref()?;
            let function = recording.functions.get(usize::try_from(number).ok()?)?;
            Some(store.palette().of_function(&function.group, &function.name))
        }
    }
}

/// The colour of a state.
pub fn colour_of_state(key: u32) -> Rgb {
    usize::try_from(key).ok().and_then(|at| STATE_COLOURS.get(at)).copied().unwrap_or(STATE_COLOURS[0])
}

/// The colour of events: by their name, the same everywhere and every time.
fn colour_of_event(name: &str) -> Rgb {
    let hue = f64::from(name_hash(name) % 360) / 60.0;
    let light = 0.46 + f64::from(name_hash(name) % 24) / 100.0;
    let chroma = (1.0 - (2.0 * light - 1.0).abs()) * 0.55;
    let side = chroma * (1.0 - (hue % 2.0 - 1.0).abs());
    let (r, g, b) = match hue {
        h if h < 1.0 => (chroma, side, 0.0),
        h if h < 2.0 => (side, chroma, 0.0),
        h if h < 3.0 => (0.0, chroma, side),
        h if h < 4.0 => (0.0, side, chroma),
        h if h < 5.0 => (side, 0.0, chroma),
        _ => (chroma, 0.0, side),
    };
    let dark = light - chroma / 2.0;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to 255")]
    let byte = |x: f64| ((x + dark) * 255.0).round() as u8;
    Rgb(byte(r), byte(g), byte(b))
}

/// The tiles of a level that a view shows.
pub fn tiles_of(view: &View, level: u32) -> impl Iterator<Item = TileId> {
    let (first, last) = (TileId::holding(Time(view.from), level), TileId::holding(Time(view.to - 1), level));
    (first.index()..=last.index()).filter_map(move |index| TileId::new(level, index))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_can_be_told_apart_by_their_colours() {
        for (at, a) in STATE_COLOURS.iter().enumerate() {
            for (other, b) in STATE_COLOURS.iter().enumerate().skip(at + 1) {
                let far = |x: u8, y: u8| u32::from(x.abs_diff(y)).pow(2);
                let distance = far(a.0, b.0) + far(a.1, b.1) + far(a.2, b.2);
                assert!(distance >= 40_u32.pow(2), "{} and {}", STATES[at], STATES[other]);
            }
        }
    }
}
