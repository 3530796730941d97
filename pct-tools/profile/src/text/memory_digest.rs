//! Memory in a few lines, for the end of a run: the peak, what is live at the end, and the sites that have most of it.

use super::Layout;
use super::memory_words::{interval, is_sure, is_the_peak};
use super::numbers::{bytes, share};
use super::table::{cut_middle, name_in, tame};
use crate::flat::{Flat, Order};
use crate::memory::{Figures, Measure, MemoryCell, Selection};
use crate::model::Profile;
use crate::tree::{By, Split};
use pct_num::{Estimate, float, rounded};

/// Sites that are named at most.
const MOST_SITES: usize = 3;
/// Characters of a site's name at most.
const LONGEST_NAME: usize = 40;

/// What is said of a recording with allocation samples: one to three lines.
#[must_use]
pub fn lines(profile: &Profile, layout: &Layout) -> Vec<String> {
    let memory = &profile.memory;
    let [peak, live] = [Measure::Peak, Measure::Live]
        .map(|by| (by, Selection { by, ..Selection::default() }.cells(profile, memory)));
    let total = |(by, cells): &(Measure, Vec<MemoryCell>)| -> Estimate {
        let sum: Estimate = cells.iter().map(|cell| *cell.figures.estimate(*by)).sum();
        sum + Estimate::nothing(float(memory.interval()))
    };
    let with_limits = |estimate: &Estimate| format!("{} ({})", bytes(estimate.amount), interval(estimate));
    let (peak_total, live_total) = (total(&peak), total(&live));
    let at_end = is_the_peak(live_total.amount, peak_total.amount);
    let many = memory.processes.len();
    let levels = match (many, at_end) {
        (0, _) => return vec!["memory: the allocations of no process were sampled".to_owned()],
        (1, true) => format!("{} live at the end, which is the peak", with_limits(&live_total)),
        (_, true) => {
            format!(
                "{} live at the ends of {many} processes, which are their peaks",
                with_limits(&live_total)
            )
        }
        (1, false) => {
            format!("peak {}, live at the end {}", with_limits(&peak_total), with_limits(&live_total))
        }
        // Each process has its own instant.
        (_, false) => format!(
            "peaks of {many} processes {} in sum, live at their ends {}",
            with_limits(&peak_total),
            with_limits(&live_total)
        ),
    };
    let mut lines =
        vec![format!("memory: {levels}; one sample per {}", pct_num::bytes_binary(memory.interval_asked()))];
    let of_peak = (!at_end).then_some((&peak, "at the peak"));
    for (side, what) in of_peak.into_iter().chain([(&live, "live at the end")]) {
        let sites = largest(profile, side, layout);
        if !sites.is_empty() {
            lines.push(format!("  {what}: {}", sites.join(", ")));
        }
    }
    lines
}

/// The largest functions that are known well enough, with their shares of the whole.
fn largest(profile: &Profile, (by, cells): &(Measure, Vec<MemoryCell>), layout: &Layout) -> Vec<String> {
    let flat: Flat<Figures> =
        Flat::count_cells(profile, cells, Some(By::Function), Split::Merged, Order::Own);
    let whole = flat.total.estimate(*by).amount;
    let longest = layout.width.map_or(LONGEST_NAME, |width| (width / MOST_SITES).clamp(16, LONGEST_NAME));
    let sure = flat.rows.iter().filter(|row| is_sure(row.own.estimate(*by)));
    sure.take(MOST_SITES)
        .map(|row| {
            let name = row.label.map(|label| label.name(profile)).unwrap_or_default();
            let part = share(rounded(row.own.estimate(*by).amount), rounded(whole));
            format!("{part} {}", cut_middle(&name_in(layout, &tame(&name)), longest))
        })
        .collect()
}
