//! Which lanes are shown, in which order, and how their cells look: colours and heights. The picture without script and
//! the canvas are drawn by the same rules.

use std::collections::{BTreeMap, HashMap};

use lttv_modules::timeline::cells::Cell;
use lttv_modules::timeline::lanes::{BLOCKED, IDLE, Key, Lane, LaneKind, LaneOf, STATES, WAITS};
use lttv_modules::timeline::tile::{TileId, level_for};
use pct_icicle::colour::{Rgb, name_hash};

use crate::recording::{TimeOf, main_threads};
use crate::store::Store;
use crate::sums::{LaneSum, ViewSums};
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
    /// What its samples are amounts of.
    pub time: TimeOf,
    /// What it holds of the range that is seen, as far as that was read.
    pub sum: LaneSum,
    /// The process above whose lanes it stands first.
    pub heading: Option<ProcessHeading>,
    /// Whether it stands below the heading of its process, so that its name need not say which that is.
    pub is_below_heading: bool,
}

/// What stands above the lanes of a process with several of them.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ProcessHeading {
    /// Name of the process.
    pub name: String,
    /// Its number.
    pub pid: u32,
    /// Threads with lanes, and how many of them are shown.
    pub threads: usize,
    /// Those of them that are shown.
    pub shown: usize,
}

/// Busiest threads that are shown unless all are asked for.
const SHOWN_GROUPS: usize = 30;
/// A thread with less than this part of the samples' time is shown only when all lanes are asked for, unless it is one
/// of the first [`LEAST_SHOWN`].
const SMALL_PART: u64 = 200;
/// Threads that are shown however little they did.
const LEAST_SHOWN: usize = 3;
/// Most lanes on a page.
const MOST_ROWS: usize = 500;
/// Space between lanes, pixels.
pub const GAP: u32 = 3;
/// Height of a process's name above its lanes, pixels.
pub const HEADING: u32 = 20;

impl ProcessHeading {
    /// Which process it is: `python3 (13241)`.
    #[must_use]
    pub fn process(&self) -> String {
        format!("{} ({})", self.name, self.pid)
    }

    /// How many of its threads have lanes here: `5 threads`, or `2 of 5 threads`.
    #[must_use]
    pub fn lanes(&self) -> String {
        let shown = if self.shown < self.threads { format!("{} of ", self.shown) } else { String::new() };
        format!("{shown}{} threads", self.threads)
    }
}

impl BoardRow {
    /// Height in pixels.
    pub fn height(&self) -> u32 {
        match self.kind {
            LaneKind::Samples | LaneKind::Ran => 26,
            LaneKind::Cpu => 18,
            LaneKind::Thread | LaneKind::Events => 14,
            LaneKind::Waits => 12,
        }
    }

    /// What stands above it, pixels.
    pub fn above(&self) -> u32 {
        if self.heading.is_some() { HEADING } else { 0 }
    }
}

/// The lanes of a view.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Board {
    /// Those that are shown, in order.
    pub rows: Vec<BoardRow>,
    /// Lanes that are not shown.
    pub hidden: usize,
    /// Time of their samples in the range that is seen, ns.
    pub hidden_ns: u64,
}

/// Lanes that belong together: those of a CPU, or of a thread in all traces.
#[derive(Default)]
struct Group {
    rows: Vec<BoardRow>,
    /// The recording and the number of the process that samples are of.
    process: Option<(usize, u32)>,
    /// Whether its lanes are on the page.
    is_shown: bool,
    /// CPU time in the whole traces: by samples, and by states.
    sampled_ns: u64,
    running_ns: u64,
    n: u64,
}

fn place_in_group(kind: LaneKind) -> u8 {
    match kind {
        LaneKind::Cpu => 0,
        LaneKind::Samples | LaneKind::Ran => 1,
        LaneKind::Waits => 2,
        LaneKind::Thread => 3,
        LaneKind::Events => 4,
    }
}

impl Board {
    /// The lanes for a view: CPUs first, then threads by their processes. What is the busiest in the whole traces comes
    /// first, so that no lane changes its place while one zooms. A thread's lanes of all traces stand together.
    pub fn from_store(store: &Store, view: &View) -> Board {
        // Of a view of everything, what is seen is what the lanes hold in all.
        let part = (!view.is_whole(store.span())).then(|| ViewSums::of_view(store, view));
        Board::from_sums(store, view, part.as_ref())
    }

    /// The same, where what is seen has been counted; none: everything is seen.
    pub(crate) fn from_sums(store: &Store, view: &View, sums: Option<&ViewSums>) -> Board {
        // A thread is told by its number alone, so that the kernel's and the sampler's lanes meet. Other lanes are of
        // one trace.
        let mut groups: BTreeMap<(u8, usize, i64, usize), Group> = BTreeMap::new();
        for trace in 0..store.traces().len() {
            let processes = processes_of(store, trace);
            for row in rows_of(store, trace) {
                let key = match row.of {
                    LaneOf::Cpu(cpu) => (0, trace, i64::from(cpu), 0),
                    LaneOf::Thread(tid) => (1, 0, tid, 0),
                    LaneOf::Tracefile(file) => (1, trace, i64::MAX, file + 1),
                };
                let group = groups.entry(key).or_default();
                match row.kind {
                    LaneKind::Samples | LaneKind::Ran => group.sampled_ns += row.sum.w,
                    LaneKind::Cpu | LaneKind::Thread => group.running_ns += row.sum.running,
                    LaneKind::Events | LaneKind::Waits => {}
                }
                if let LaneOf::Thread(tid) = row.of {
                    let pid = u32::try_from(tid).ok().and_then(|tid| processes.get(&tid));
                    group.process = group.process.or(pid.map(|(pid, _)| (trace, *pid)));
                }
                group.n += row.sum.n;
                let sum = sums.map_or(row.sum, |sums| sums.of_lane(row.id));
                group.rows.push(BoardRow { sum, ..row });
            }
        }
        let mut groups: Vec<(u8, Group)> = groups.into_iter().map(|(key, group)| (key.0, group)).collect();
        for (_, group) in &mut groups {
            group.rows.sort_by_key(|row| (place_in_group(row.kind), row.id));
        }
        if let Some(only) = view.lane {
            // Another lane of the same thread may be all that it has.
            let of = lane_of(store, view).map(|(trace, lane)| (trace, lane.of));
            let is_of = |row: &BoardRow| row.id == only || Some((row.id.trace, row.of)) == of;
            groups.retain(|(_, group)| group.rows.iter().any(is_of));
        }
        groups.sort_by(|(class, a), (other, b)| {
            class.cmp(other).then_with(|| match class {
                0 => std::cmp::Ordering::Equal,
                _ => b.busy().cmp(&a.busy()),
            })
        });
        choose_shown(&mut groups, view);
        by_process(&mut groups);
        Board::from_groups(store, groups)
    }

    fn from_groups(store: &Store, groups: Vec<(u8, Group)>) -> Board {
        let mut threads: HashMap<(usize, u32), (usize, usize)> = HashMap::new();
        for (_, group) in &groups {
            if let Some(process) = group.process {
                let (all, shown) = threads.entry(process).or_default();
                *all += 1;
                *shown += usize::from(group.is_shown);
            }
        }
        let mut board = Board::default();
        let mut last = None;
        for (_, group) in groups {
            if !group.is_shown {
                board.hidden += group.rows.len();
                let sampled = group.rows.iter().filter(|row| row.kind.is_of_samples());
                board.hidden_ns += sampled.map(|row| row.sum.w).sum::<u64>();
                continue;
            }
            let first = board.rows.len();
            board.rows.extend(group.rows);
            let Some(process) = group.process else { continue };
            let Some(&(threads, shown @ 2..)) = threads.get(&process) else { continue };
            board.rows[first..].iter_mut().for_each(|row| row.is_below_heading = true);
            // Each process has its name above the first of its lanes.
            if last.replace(process) != Some(process) {
                let name = processes_of(store, process.0).into_values().find(|(pid, _)| *pid == process.1);
                let name = name.map(|(_, name)| name.to_owned()).unwrap_or_default();
                let heading = ProcessHeading { name, pid: process.1, threads, shown };
                board.rows[first].heading = Some(heading);
            }
        }
        board
    }

    /// Height of all lanes, pixels.
    pub fn height(&self) -> u32 {
        self.rows.iter().map(|row| row.above() + row.height() + GAP).sum()
    }

    /// The lanes with their upper edges, pixels.
    pub fn places(&self) -> impl Iterator<Item = (&BoardRow, u32)> {
        let mut below = 0;
        self.rows.iter().map(move |row| {
            let top = below + row.above();
            below = top + row.height() + GAP;
            (row, top)
        })
    }
}

impl Group {
    fn busy(&self) -> (u64, u64) {
        (self.sampled_ns.max(self.running_ns), self.n)
    }
}

/// Marks what has room on the page. `groups` are in order, the busiest first.
fn choose_shown(groups: &mut [(u8, Group)], view: &View) {
    let sampled_ns: u64 = groups.iter().map(|(_, group)| group.sampled_ns).sum();
    let (mut threads, mut rows) = (0, 0);
    for (class, group) in groups {
        threads += usize::from(*class > 0);
        let room = rows + group.rows.len() <= MOST_ROWS;
        // What took next to nothing of the samples' time is not looked for among the lanes.
        let is_small = group.sampled_ns > 0 && group.sampled_ns < sampled_ns / SMALL_PART;
        let is_busy = threads <= SHOWN_GROUPS && !(is_small && threads > LEAST_SHOWN);
        group.is_shown = room && (view.all || view.lane.is_some() || is_busy);
        rows += if group.is_shown { group.rows.len() } else { 0 };
    }
}

/// Puts the lanes of each process together, the busiest process first. Within one they keep their order.
fn by_process(groups: &mut [(u8, Group)]) {
    let mut sums: HashMap<(usize, u32), (u64, u64)> = HashMap::new();
    for (_, group) in groups.iter() {
        let Some(process) = group.process else { continue };
        let (sum, busy) = (sums.entry(process).or_default(), group.busy());
        *sum = (sum.0.saturating_add(busy.0), sum.1.saturating_add(busy.1));
    }
    let busy = |group: &Group| match group.process {
        Some(process) => sums.get(&process).copied().unwrap_or_default(),
        None => group.busy(),
    };
    groups.sort_by(|(class, a), (other, b)| {
        class.cmp(other).then_with(|| match class {
            0 => std::cmp::Ordering::Equal,
            // Two processes that are as busy as each other stay apart.
            _ => busy(b).cmp(&busy(a)).then_with(|| a.process.cmp(&b.process)),
        })
    });
}

/// The process of each thread of a recording, by the thread's number: its number and name.
fn processes_of(store: &Store, trace: usize) -> BTreeMap<u32, (u32, &str)> {
    let recording = store.trace(trace).and_then(|shown| shown.recording.as_ref());
    let threads = recording.map(|recording| main_threads(&recording.threads)).unwrap_or_default();
    threads.into_iter().map(|(tid, thread)| (tid, (thread.pid, &*thread.process))).collect()
}

/// The lanes of a trace with what the whole trace holds of them.
fn rows_of(store: &Store, trace: usize) -> Vec<BoardRow> {
    let Some(timeline) = store.timeline(trace) else { return Vec::new() };
    let lanes = timeline.lanes();
    let mut sums = vec![LaneSum::default(); lanes.len()];
    if let Some((from, to)) = store.trace(trace).and_then(|shown| shown.source.time_span()) {
        let level = level_for(to.since(from).unsigned_abs(), 64).max(timeline.base());
        let (first, last) = (TileId::holding(from, level), TileId::holding(to, level));
        for tile in (first.index()..=last.index()).filter_map(|index| TileId::new(level, index)) {
            for lane in timeline.tile(tile).into_iter().flat_map(|tile| tile.lanes) {
                let Some(sum) = sums.get_mut(lane.lane) else { continue };
                for cell in &lane.cells {
                    sum.n += cell.n * u64::from(cell.len);
                    sum.w = sum.w.saturating_add(cell.w.saturating_mul(cell.len.into()));
                    sum.running =
                        sum.running.saturating_add(cell.running().ns.saturating_mul(cell.len.into()));
                }
            }
        }
    }
    let recording = store.trace(trace).and_then(|shown| shown.recording.as_ref());
    let time = recording.map_or(TimeOf::Cpu, |recording| recording.time_in_lanes());
    let rows = lanes.into_iter().enumerate().zip(sums).map(|((lane, of), sum)| BoardRow {
        id: LaneRef { trace, lane },
        kind: of.kind,
        of: of.of,
        name: of.name.to_string(),
        time: time.clone(),
        sum,
        heading: None,
        is_below_heading: false,
    });
    // A lane without anything in it was made ahead of its events.
    rows.filter(|row| row.sum.n > 0 || row.sum.w > 0).collect()
}

/// Colours of the states, in the order of [`STATES`]. A test keeps them apart: what nothing is known of, an idle CPU
/// and a blocked thread must not look alike.
const STATE_COLOURS: [Rgb; STATES.len()] = [
    Rgb(190, 190, 190),
    Rgb(96, 108, 128),
    Rgb(150, 208, 140),
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

/// Part of the lane's height at which a state is drawn in which a thread has no CPU, or a CPU no thread.
pub(crate) fn waiting_height(key: u32) -> f64 {
    match key {
        IDLE => 0.12,
        BLOCKED => 0.15,
        WAITS => 0.55,
        _ => 0.25,
    }
}

/// Events in a bucket that fill a lane, as a power of two.
const FULL_EVENTS_LOG2: f64 = 12.0;
/// Least part of a lane's height for events.
const LEAST_EVENTS: f64 = 0.3;

/// What a cell is drawn as: a bar that stands on the bottom of its lane.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Bar {
    /// Part of the lane's height, 0 to 1.
    pub height: f64,
    /// The key whose colour it has.
    pub key: u32,
}

/// The bars of a cell; the second stands before the first. `width_ns` is the time over which each of its buckets is
/// drawn. Lanes of states have both bars. The one behind is the state without a CPU, at a height that only says which
/// state it is. The one before it is what ran, as high as its share of the time.
#[expect(clippy::cast_precision_loss, reason = "a height in pixels")]
pub fn bars(kind: LaneKind, cell: &Cell, width_ns: i64) -> [Option<Bar>; 2] {
    let one = |height: f64| [Some(Bar { height, key: cell.top() }), None];
    match kind {
        LaneKind::Samples | LaneKind::Ran | LaneKind::Waits => {
            one((cell.w as f64 / width_ns as f64).clamp(0.0, 1.0))
        }
        LaneKind::Events => one(((1.0 + cell.n as f64).log2() / FULL_EVENTS_LOG2).clamp(LEAST_EVENTS, 1.0)),
        LaneKind::Cpu | LaneKind::Thread => {
            let running = cell.running();
            let ran = (running.ns as f64 / width_ns as f64).clamp(0.0, 1.0);
            let behind = running.rest.map(|key| Bar { height: waiting_height(key), key });
            [behind, (running.ns > 0).then_some(Bar { height: ran, key: running.top })]
        }
    }
}

/// Most periods of a sample's CPU time over which it is drawn.
const MOST_PERIODS: f64 = 8.0;

/// Where a cell of samples begins to be drawn, ns. A sample stands for CPU time since the sample before it; buckets may
/// be finer than that, and a lane of ticks with nothing between them would say that the thread stood still there. So
/// the cell's time is drawn as a share of all the time since the end of the cell before, of [`MOST_PERIODS`] at most.
/// The first cell is drawn over one period, because its thread may have begun then.
#[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, reason = "a place in pixels")]
pub fn drawn_from(cell: &Cell, width_ns: i64, before: Option<i64>) -> i64 {
    let (begin, period) = (cell.bucket.saturating_mul(width_ns), cell.w as f64 / cell.n.max(1) as f64);
    let most = (period * before.map_or(1.0, |_| MOST_PERIODS)) as i64;
    let earliest = begin.saturating_add(width_ns).saturating_sub(most);
    before.map_or(earliest, |before| before.max(earliest)).min(begin)
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
        Key::Name(name) => plain(name.to_string(), colour_of_name(store, trace, &name)),
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
        Key::Name(name) => Some(colour_of_name(store, trace, &name)),
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

/// The colour of what has a name in a lane: a wait, or an event.
fn colour_of_name(store: &Store, trace: usize, name: &str) -> Rgb {
    let recording = store.trace(trace).and_then(|shown| shown.recording.as_ref());
    let wait = recording.and_then(|recording| recording.waits.named(name));
    wait.map_or_else(|| colour_of_event(name), |wait| wait.colour())
}

/// The colour of events: by their name, the same everywhere and every time.
pub(crate) fn colour_of_event(name: &str) -> Rgb {
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
