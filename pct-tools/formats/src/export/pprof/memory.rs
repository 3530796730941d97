//! Writes memory as a heap profile of pprof, with the types of Go's and gperftools' (what was allocated and what is
//! in use) and additionally what was in use at the peak. Values are estimates already, so readers must not scale them.

use super::{Label, Writer};
use pct_num::round_to_sum;
use pct_profile::Profile;
use pct_profile::memory::{Figures, MemoryCell};
use pct_profile::text::table::tame;

/// Name, unit, and the figure that the value shows.
type Value = (&'static str, &'static str, fn(&Figures) -> f64);

const VALUES: &[Value] = &[
    ("alloc_objects", "count", |f| f.allocated.blocks.amount),
    ("alloc_space", "bytes", |f| f.allocated.bytes.amount),
    ("inuse_objects", "count", |f| f.live.blocks.amount),
    ("inuse_space", "bytes", |f| f.live.bytes.amount),
    ("peak_objects", "count", |f| f.peak.blocks.amount),
    ("peak_space", "bytes", |f| f.peak.bytes.amount),
];

/// The octets of a `.pb.gz` file.
pub fn write(profile: &Profile, cells: &[MemoryCell]) -> Vec<u8> {
    let types: Vec<_> = VALUES.iter().map(|(name, unit, _)| (*name, *unit)).collect();
    let mut out = Writer::new(profile, &types);
    // Whole numbers that add up to the sums of the estimates.
    let columns: Vec<Vec<u64>> = VALUES
        .iter()
        .map(|(_, _, figure)| {
            let amounts: Vec<f64> = cells.iter().map(|cell| figure(&cell.figures)).collect();
            round_to_sum(&amounts)
        })
        .collect();
    for (at, cell) in cells.iter().enumerate() {
        let values: Vec<u64> = columns.iter().map(|column| column[at]).collect();
        let process = &profile.processes[cell.process];
        let name = tame(&process.name);
        let labels = [("process", Label::Text(&name)), ("pid", Label::Number(u64::from(process.pid)))];
        out.sample(cell.stack, &values, &labels);
    }
    out.finish(("space", "bytes"), profile.memory.interval_asked(), "inuse_space")
}
