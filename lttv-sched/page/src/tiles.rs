//! Tiles and names as JSON, and questions for them as addresses ask them.

use std::fmt::Write as _;

use lttv_modules::timeline::lanes::Lane;
use lttv_modules::timeline::tile::{BUCKETS, TileId};
use lttv_modules::timeline::{LaneTile, Tile};
use serde_json::{Value, json};

use crate::board::{colour_of_key, named};
use crate::packed;
use crate::store::{Asker, Store};
use crate::sums::is_counted;
use crate::view::{BadAddress, LaneRef, number, parts};

/// Most lanes that a tile is asked for at once.
const MOST_LANES: usize = 1000;
/// Most names that are asked for at once.
const MOST_NAMES: usize = 500;

/// A question for a tile.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TileAsk {
    /// Which tile.
    pub id: TileId,
    /// For whom.
    pub asker: Asker,
    /// Of which lanes; none: all.
    pub lanes: Option<Vec<LaneRef>>,
    /// Cells as text in few characters instead of lists of numbers: the form of the page's script.
    pub is_packed: bool,
}

impl TileAsk {
    /// What a query asks for.
    ///
    /// # Errors
    /// It makes no sense.
    pub fn parse(query: &str) -> Result<TileAsk, BadAddress> {
        let (mut level, mut index, mut asker, mut lanes) = (None, None, Asker::default(), None);
        let mut is_packed = false;
        for (key, text) in parts(query) {
            match key {
                "l" => level = Some(number::<u32>(key, &text)?),
                "i" => index = Some(number::<i64>(key, &text)?),
                "g" => asker.generation = number(key, &text)?,
                "page" => asker.page = number(key, &text)?,
                "packed" => is_packed = text == "1",
                "lanes" => lanes = Some(lane_list(&text)?),
                _ => {}
            }
        }
        let id = level.zip(index).and_then(|(level, index)| TileId::new(level, index));
        let id =
            id.ok_or_else(|| BadAddress("l and i: expected a level from 3 to 45 and a tile of it".into()))?;
        Ok(TileAsk { id, asker, lanes, is_packed })
    }
}

fn lane_list(text: &str) -> Result<Vec<LaneRef>, BadAddress> {
    if text.split(',').count() > MOST_LANES {
        return Err(BadAddress(format!("lanes: at most {MOST_LANES} at once")));
    }
    let lanes = text.split(',').filter(|lane| !lane.is_empty());
    lanes.map(|lane| lane.parse().map_err(|()| BadAddress(format!("lanes: {lane}: expected 0.12")))).collect()
}

/// A tile of all traces as JSON:
/// `{"v","l","i","g","final","partial","sum":{"n","w"},"strip":[..],"lanes":{"0.12":{"n","w","c":[..]}}}`. Each cell is
/// nine numbers in `c`: bucket (from the begin of the tile), length in buckets, items, weight, key, weight of the key;
/// a key below 0 is -1 - key and not sure; then ns in which a thread had a CPU, the heaviest state of those, and the
/// heaviest other state or -1. With `packed=1` there is a text `p` instead of `c`, of few characters. `strip` is of all
/// lanes, whichever are asked for: buckets, each followed by its samples and events. None: the page that asks has moved
/// on.
pub fn tile(store: &Store, ask: &TileAsk) -> Option<String> {
    let mut lanes = String::new();
    let (mut is_final, mut is_partial, mut sum) = (true, false, (0u64, 0u64));
    let mut counts = vec![0_u64; usize::try_from(BUCKETS).unwrap_or(0)];
    for trace in 0..store.traces().len() {
        let tile = store.tile(trace, ask.id, ask.asker)?;
        is_final &= tile.is_final;
        is_partial |= tile.is_partial;
        count_items(&mut counts, &store.lanes(trace), &tile);
        let (n, w) = write_lanes(&mut lanes, trace, &tile, ask);
        sum = (sum.0 + n, sum.1.saturating_add(w));
    }
    let (l, i, g) = (ask.id.level(), ask.id.index(), ask.asker.generation);
    let strip = counts.iter().enumerate().filter(|(_, n)| **n > 0);
    let strip: Vec<String> = strip.map(|(bucket, n)| format!("{bucket},{n}")).collect();
    Some(format!(
        r#"{{"v":2,"l":{l},"i":{i},"g":{g},"final":{is_final},"partial":{is_partial},"sum":{{"n":{},"w":{}}},"strip":[{}],"lanes":{{{lanes}}}}}"#,
        sum.0,
        sum.1,
        strip.join(",")
    ))
}

/// Adds the samples and events of a trace to those of each bucket of a tile.
fn count_items(counts: &mut [u64], lanes: &[Lane], tile: &Tile) {
    let counted = |lane: &&LaneTile| lanes.get(lane.lane).is_some_and(|lane| is_counted(lane.kind));
    for cell in tile.lanes.iter().filter(counted).flat_map(|lane| &lane.cells).filter(|cell| cell.n > 0) {
        let place = usize::try_from(cell.bucket - tile.id.first_bucket()).ok();
        let count = place.and_then(|place| counts.get_mut(place));
        count.into_iter().for_each(|count| *count = count.saturating_add(cell.n));
    }
}

fn write_lanes(out: &mut String, trace: usize, tile: &Tile, ask: &TileAsk) -> (u64, u64) {
    let mut all = (0u64, 0u64);
    for lane in &tile.lanes {
        let id = LaneRef { trace, lane: lane.lane };
        if ask.lanes.as_ref().is_some_and(|wanted| !wanted.contains(&id)) {
            continue;
        }
        let len = |cell: &lttv_modules::timeline::cells::Cell| u64::from(cell.len);
        let n: u64 = lane.cells.iter().map(|cell| cell.n * len(cell)).sum();
        let w: u64 = lane.cells.iter().map(|cell| cell.w.saturating_mul(len(cell))).sum();
        all = (all.0 + n, all.1.saturating_add(w));
        let comma = if out.is_empty() { "" } else { "," };
        let _ = write!(out, r#"{comma}"{id}":{{"n":{n},"w":{w},"#);
        if ask.is_packed {
            out.push_str(r#""p":""#);
            packed::write_cells(out, &lane.cells, ask.id.first_bucket());
            out.push_str("\"}");
            continue;
        }
        out.push_str(r#""c":["#);
        for (at, cell) in lane.cells.iter().enumerate() {
            let comma = if at == 0 { "" } else { "," };
            let key = i64::from(cell.top());
            let key = if cell.is_approximate() { -1 - key } else { key };
            let bucket = cell.bucket - ask.id.first_bucket();
            let running = cell.running();
            let (ns, top, rest) = (running.ns, running.top, running.rest.map_or(-1, i64::from));
            let (len, n, w, tw) = (cell.len, cell.n, cell.w, cell.tw);
            let _ = write!(out, "{comma}{bucket},{len},{n},{w},{key},{tw},{ns},{top},{rest}");
        }
        out.push_str("]}");
    }
    all
}

/// Names and colours of keys: `k=0.17,1.4` of traces 0 and 1.
///
/// # Errors
/// The question makes no sense.
pub fn names(store: &Store, query: &str) -> Result<Value, BadAddress> {
    let mut out = serde_json::Map::new();
    for (_, text) in parts(query).filter(|(key, _)| *key == "k") {
        if text.split(',').count() > MOST_NAMES {
            return Err(BadAddress(format!("k: at most {MOST_NAMES} at once")));
        }
        for word in text.split(',').filter(|word| !word.is_empty()) {
            let key: LaneRef = word.parse().map_err(|()| BadAddress(format!("k: {word}: expected 0.17")))?;
            let found = u32::try_from(key.lane).ok().and_then(|number| named(store, key.trace, number));
            if let Some(found) = found {
                let colour = found.colour.to_string();
                out.insert(
                    word.to_owned(),
                    json!({"name": pct_text::visible(&found.name), "object": pct_text::visible(&found.object), "color": colour}),
                );
            }
        }
    }
    Ok(Value::Object(out))
}

/// Keys of a block of colours.
const BLOCK: u32 = 4096;

/// The colours of a block of keys, `block=0.17`: block 17 of trace 0, six hexadecimal digits for each key. Keys at the
/// end of the block that stand for nothing are left out.
///
/// # Errors
/// The question makes no sense.
pub fn colours(store: &Store, query: &str) -> Result<String, BadAddress> {
    let mut text = String::new();
    for (_, word) in parts(query).filter(|(key, _)| *key == "block") {
        let bad = || BadAddress(format!("block: {word}: expected 0.17"));
        let block: LaneRef = word.parse().map_err(|()| bad())?;
        let first = u32::try_from(block.lane).ok().and_then(|block| block.checked_mul(BLOCK));
        let first = first.ok_or_else(bad)?;
        let keys = first..=first.saturating_add(BLOCK - 1);
        for colour in keys.map_while(|key| colour_of_key(store, block.trace, key)) {
            let _ = write!(text, "{:02x}{:02x}{:02x}", colour.0, colour.1, colour.2);
        }
    }
    Ok(format!(r#"{{"colours":"{text}"}}"#))
}
