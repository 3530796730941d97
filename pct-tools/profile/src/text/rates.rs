//! What is live and how fast it grows, between two looks at a recording, as a table.

use super::Layout;
use super::memory_words::interval;
use super::numbers::bytes;
use super::table::{Column, Rank, Table, tame};
use crate::memory::{GrowthRow, RateRow, Rates};
use pct_num::{Estimate, rounded};

/// What a table of rates shows.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Shown {
    /// Rows at most.
    pub rows: usize,
    /// Seconds between the two looks; `None` = there was one look, so nothing is known of growth.
    pub seconds: Option<f64>,
    /// What grows fastest comes first, not what is largest.
    pub by_growth: bool,
    /// There is room for what was allocated a second.
    pub wide: bool,
    /// A row is a place in code, not a process.
    pub sites: bool,
}

/// The table for people.
#[must_use]
pub fn table(rates: &Rates, shown: &Shown, layout: &Layout) -> String {
    let mut columns = vec![Column::number("live"), Column::number("95 % interval")];
    if shown.seconds.is_some() {
        columns.extend([Column::number("growth/s"), Column::number("95 % interval")]);
        if shown.wide {
            columns.extend([Column::number("allocated/s"), Column::number("95 % interval")]);
        }
    }
    if shown.sites {
        columns.extend([Column::name("site", 16), Column::text("object", 8)]);
    } else {
        columns.push(Column::text("process", 12));
    }
    let mut table = Table::new(columns);
    let mut rows: Vec<&RateRow> = rates.rows.iter().collect();
    let key = |row: &RateRow| match shown.by_growth {
        true => row.live.growth.amount,
        false => row.live.after.amount,
    };
    rows.sort_by(|a, b| {
        let allocated = b.allocated.amount.total_cmp(&a.allocated.amount);
        key(b).total_cmp(&key(a)).then(allocated).then_with(|| a.live.name.cmp(&b.live.name))
    });
    let whole = rounded(rates.total.live.after.amount);
    for row in rows.into_iter().take(shown.rows) {
        let live = &row.live;
        let mut cells = vec![bytes(live.after.amount), interval(&live.after)];
        if let Some(seconds) = shown.seconds {
            cells.extend(growth(live, seconds));
            if shown.wide {
                let each = row.allocated.in_units_of(seconds);
                cells.extend([bytes(each.amount), interval(&each)]);
            }
        }
        cells.push(tame(&live.name));
        if shown.sites {
            cells.push(tame(&live.object));
        }
        table.row(Rank::from_share(rounded(live.after.amount), whole), cells);
    }
    table.render(layout)
}

/// What grew a second, and its interval.
fn growth(row: &GrowthRow, seconds: f64) -> [String; 2] {
    let limits = row.growth.interval;
    [
        signed(row.growth.amount / seconds),
        format!("{} .. {}", signed(limits.low / seconds), signed(limits.high / seconds)),
    ]
}

/// Octets with their sign.
fn signed(amount: f64) -> String {
    let text = bytes(amount);
    if text.starts_with('-') || amount < 0.5 { text } else { format!("+{text}") }
}

/// The sum over all rows, as the head line says it: live, growth a second, allocated a second.
#[must_use]
pub fn headline(rates: &Rates, seconds: Option<f64>) -> String {
    let with_limits = |estimate: &Estimate| format!("{} ({})", bytes(estimate.amount), interval(estimate));
    let mut text = format!("live {}", with_limits(&rates.total.live.after));
    if let Some(seconds) = seconds {
        let [amount, limits] = growth(&rates.total.live, seconds);
        text += &format!("  {amount}/s ({limits})");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use pct_num::Growth;

    fn row(name: &str, before: u64, after: u64) -> RateRow {
        let blocks = |n: u64| (0..n).map(|_| Estimate::of_bytes(64, 1 << 16)).sum::<Estimate>();
        let (gone, new) = (blocks(before.saturating_sub(after)), blocks(after.saturating_sub(before)));
        let live = GrowthRow {
            name: name.into(),
            object: "victim".into(),
            before: blocks(before),
            after: blocks(after),
            growth: Growth::between(&gone, &new),
        };
        RateRow { live, allocated: blocks(before + after) }
    }

    #[test]
    fn rows_are_ranked_by_what_is_live_or_by_what_grows() {
        let rates =
            Rates { rows: vec![row("cache", 100, 99), row("leak", 10, 40)], total: row("", 110, 139) };
        let shown = Shown { rows: 10, seconds: Some(2.0), by_growth: false, wide: true, sites: true };
        let order = |text: &str| text.find("cache") < text.find("leak");
        let text = table(&rates, &shown, &Layout::default());
        assert!(order(&text), "{text}");
        // 30 samples of 64 KiB in 2 s.
        assert!(text.contains("+984 kB") && text.contains("allocated/s"), "{text}");
        let text = table(&rates, &Shown { by_growth: true, ..shown }, &Layout::default());
        assert!(!order(&text), "{text}");
        let text = table(&rates, &Shown { seconds: None, ..shown }, &Layout::default());
        assert!(!text.contains("growth") && !text.contains("allocated"), "{text}");
        assert!(headline(&rates, Some(2.0)).contains("+951 kB/s ("), "{}", headline(&rates, Some(2.0)));
    }
}
