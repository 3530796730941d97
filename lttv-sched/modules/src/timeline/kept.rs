//! A whole timeline as bytes, for a cache file: what one pass has computed need not be computed again tomorrow.
//!
//! The bytes carry a key that the caller forms from the content of the trace. With another key, another version or a
//! damaged byte they are refused. All numbers are little-endian:
//!
//! ```text
//! "LTTVTIME"  version u32  key: length u32, bytes
//! head: length u32, JSON: base level, counts, end, lanes, names, and cells and bytes of each level of each lane
//! cells of each lane, level by level
//! checksum u64 over words of all before
//! ```

use std::sync::{Arc, Mutex};

use lttv_engine::source::Source;
use lttv_engine::time::Time;
use serde::{Deserialize, Serialize};

use super::Timeline;
use super::lanes::{Lane, Tables};
use super::pyramid::Pyramid;
use super::tile::{COARSEST, FINEST};

const MAGIC: &[u8; 8] = b"LTTVTIME";
/// Raised whenever the layout changes, or what events mean to lanes.
const VERSION: u32 = 2;

#[derive(Serialize, Deserialize)]
struct Head {
    base: u32,
    events: u64,
    untimed: u64,
    end: i64,
    lanes: Vec<Lane>,
    names: Vec<Arc<str>>,
    /// Of each lane and level: cells, and bytes that they take.
    cells: Vec<Vec<(usize, usize)>>,
}

/// FNV-1a over words. It guards against damage, not against malice: what is read is checked all the same.
fn checksum(bytes: &[u8]) -> u64 {
    bytes.chunks(8).fold(0xcbf2_9ce4_8422_2325, |sum: u64, chunk| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        (sum ^ u64::from_le_bytes(word)).wrapping_mul(0x0100_0000_01b3).rotate_left(23)
    })
}

fn write_octets(out: &mut Vec<u8>, bytes: &[u8]) -> Option<()> {
    out.extend(u32::try_from(bytes.len()).ok()?.to_le_bytes());
    out.extend_from_slice(bytes);
    Some(())
}

fn get_number(rest: &mut &[u8]) -> Option<u32> {
    let (number, after) = rest.split_first_chunk::<4>()?;
    *rest = after;
    Some(u32::from_le_bytes(*number))
}

fn get<'b>(rest: &mut &'b [u8]) -> Option<&'b [u8]> {
    let length = usize::try_from(get_number(rest)?).ok()?;
    let (bytes, after) = rest.split_at_checked(length)?;
    *rest = after;
    Some(bytes)
}

impl Timeline {
    /// The timeline as bytes; none when it is not whole.
    pub fn to_bytes(&self, key: &[u8]) -> Option<Vec<u8>> {
        // The order of locks is that of a pass: first the pass, then the tables.
        let pass = self.pass();
        if !pass.is_whole {
            return None;
        }
        let collector = &pass.collector;
        let tables = self.tables();
        let head = Head {
            base: collector.pyramid.base(),
            events: collector.events,
            untimed: collector.untimed,
            end: collector.at.ns(),
            lanes: tables.lanes().to_vec(),
            names: tables.names().to_vec(),
            cells: collector
                .pyramid
                .packed()
                .map(|levels| levels.map(|l| (l.count(), l.bytes().len())).collect())
                .collect(),
        };
        drop(tables);
        let mut out = Vec::with_capacity(collector.pyramid.size());
        out.extend_from_slice(MAGIC);
        out.extend(VERSION.to_le_bytes());
        write_octets(&mut out, key)?;
        write_octets(&mut out, &serde_json::to_vec(&head).ok()?)?;
        collector.pyramid.packed().flatten().for_each(|level| out.extend_from_slice(level.bytes()));
        let sum = checksum(&out);
        out.extend(sum.to_le_bytes());
        Some(out)
    }

    /// The timeline of a source from bytes that [`Timeline::to_bytes`] gave. None: they are damaged, of another
    /// version, or of something else than the key says.
    pub fn from_bytes(source: &Arc<dyn Source>, key: &[u8], bytes: &[u8]) -> Option<Timeline> {
        let (body, sum) = bytes.split_last_chunk::<8>()?;
        let mut rest = body.strip_prefix(MAGIC)?;
        if get_number(&mut rest)? != VERSION
            || get(&mut rest)? != key
            || u64::from_le_bytes(*sum) != checksum(body)
        {
            return None;
        }
        let head: Head = serde_json::from_slice(get(&mut rest)?).ok()?;
        if !(FINEST..=COARSEST).contains(&head.base) || head.cells.len() > head.lanes.len() {
            return None;
        }
        let pyramid = Pyramid::from_packed(head.base, &head.cells, &mut rest)?;
        if !rest.is_empty() {
            return None;
        }
        let tables = Arc::new(Mutex::new(Tables::new(head.lanes, head.names)?));
        let timeline = Timeline::with_tables(source, &tables, pyramid);
        let mut pass = timeline.pass();
        (pass.collector.events, pass.collector.untimed) = (head.events, head.untimed);
        pass.collector.at = Time(head.end);
        pass.is_whole = true;
        drop(pass);
        Some(timeline)
    }
}
