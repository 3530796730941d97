//! How much each lane holds of what is seen, and how much all lanes hold when. Both come from the cells that the lanes
//! are drawn of, so a number beside a lane, the strip above the lanes and the lanes themselves cannot differ.

use std::collections::HashMap;

use lttv_modules::timeline::cells::Cell;
use lttv_modules::timeline::lanes::LaneKind;
use lttv_modules::timeline::tile::{COARSEST, TILE_BITS, TileId, level_for};

use crate::density::{self, Slot};
use crate::store::{Asker, Store};
use crate::view::{LaneRef, View, tiles_of};

/// Most buckets of the picture that a view is counted and drawn by, if there are few cells.
pub(crate) const BUCKETS: u64 = 700;
/// Buckets of a slot of the strip, as a power of two.
const SLOT_BITS: u32 = 2;
/// Parts of the span by which the strip is shown while traces are still being read.
const PACKET_SLOTS: usize = 200;

/// What a lane holds of a range.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LaneSum {
    /// Items that begin in it.
    pub n: u64,
    /// Weight: ns of CPU time for samples, ns for states, the number of events.
    pub w: u64,
    /// ns in states in which a thread has a CPU.
    pub running: u64,
}

/// What is counted in a slot of the strip.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SlotUnit {
    /// Samples and events of all lanes.
    Items,
    /// Bytes of packets: not all events were read yet.
    Bytes,
}

/// What all lanes hold of a view.
pub(crate) struct ViewSums {
    of: HashMap<LaneRef, LaneSum>,
    /// How much there is when.
    pub(crate) strip: Vec<Slot>,
    /// In what.
    pub(crate) unit: SlotUnit,
}

/// Whether items of a lane are counted in the strip: each event and each sample is in one such lane.
pub(crate) fn is_counted(kind: LaneKind) -> bool {
    kind.is_of_samples() || kind == LaneKind::Events
}

/// What a cell has of [from, to). Of a bucket that reaches over an end it is as much as its part inside: nothing finer
/// is known of it.
fn part_inside(cell: &Cell, level: u32, (from, to): (i64, i64)) -> LaneSum {
    let begin = i128::from(cell.bucket) << level;
    let whole = i128::from(cell.len) << level;
    let inside = (begin + whole).min(to.into()) - begin.max(from.into());
    let part = |amount: u64| {
        let all = i128::from(amount) * i128::from(cell.len);
        let part = if inside >= whole { all } else { all * inside.max(0) / whole };
        u64::try_from(part).unwrap_or(u64::MAX)
    };
    LaneSum { n: part(cell.n), w: part(cell.w), running: part(cell.running().ns) }
}

/// The range of a view in which cells are counted. Where the view reaches to an end of the traces there is no end:
/// nothing is left out that lies in the last bucket.
fn counted_range(view: &View, span: (i64, i64)) -> (i64, i64) {
    let from = if view.from <= span.0 { i64::MIN } else { view.from };
    let to = if view.to >= span.1 { i64::MAX } else { view.to };
    (from, to)
}

impl ViewSums {
    /// Counts what is seen.
    pub(crate) fn of_view(store: &Store, view: &View) -> ViewSums {
        let level = level_for(view.width().unsigned_abs(), BUCKETS);
        let range = counted_range(view, store.span());
        let mut of: HashMap<LaneRef, LaneSum> = HashMap::new();
        let bits = SLOT_BITS.min(COARSEST - level);
        // Buckets of the view's tiles, a slot each.
        let first = tiles_of(view, level).next().map_or(0, TileId::first_bucket) >> bits;
        let mut slots = vec![0_u64; tiles_of(view, level).count() << (TILE_BITS - bits)];
        for trace in 0..store.traces().len() {
            let lanes = store.lanes(trace);
            for tile in tiles_of(view, level).filter_map(|id| store.tile(trace, id, Asker::default())) {
                for lane in &tile.lanes {
                    let sum = of.entry(LaneRef { trace, lane: lane.lane }).or_default();
                    let counted = lanes.get(lane.lane).is_some_and(|lane| is_counted(lane.kind));
                    for cell in &lane.cells {
                        let part = part_inside(cell, level, range);
                        sum.n = sum.n.saturating_add(part.n);
                        sum.w = sum.w.saturating_add(part.w);
                        sum.running = sum.running.saturating_add(part.running);
                        let place = usize::try_from((cell.bucket >> bits) - first).ok().filter(|_| counted);
                        if let Some(slot) = place.and_then(|place| slots.get_mut(place)) {
                            *slot = slot.saturating_add(cell.n);
                        }
                    }
                }
            }
        }
        let time = |bucket: i64| bucket.saturating_mul(1 << (level + bits));
        let of_items = |(bucket, amount): (i64, u64)| Slot {
            from: time(bucket),
            to: time(bucket.saturating_add(1)),
            amount,
        };
        let (strip, unit) = if store.is_whole() {
            ((first..).zip(slots).map(of_items).collect(), SlotUnit::Items)
        } else {
            let sources = store.traces().map(|shown| shown.source.as_ref());
            (density::slots(sources, store.span(), PACKET_SLOTS), SlotUnit::Bytes)
        };
        ViewSums { of, strip, unit }
    }

    /// What a lane holds.
    pub(crate) fn of_lane(&self, lane: LaneRef) -> LaneSum {
        self.of.get(&lane).copied().unwrap_or_default()
    }
}
