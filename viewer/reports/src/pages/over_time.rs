//! A picture of what was spent when, for the overview.

use super::ctx::Ctx;
use crate::display::{Dragged, Item, TimePicture, format};
use crate::query::Cmd;
use crate::report::over_time::OverTimeReport;
use pct_deep::measured::Measured;
use pct_icicle::colour::Rgb;
use pct_icicle::{Area, Areas, Slice};

/// Parts of the picture that say more of themselves.
const SLICES: usize = 40;
/// Numbers in the line for those who see no pictures.
const NUMBERS: usize = 10;
/// Groups that a part of the picture names.
const NAMED: usize = 3;
/// The colour of all groups that are not listed.
const REST: Rgb = Rgb(178, 178, 184);

/// A range that stands for any, and its form in a name.
const RANGE: (u64, u64) = (0, 1);
const RANGE_IN_WORDS: &str = "0..0.000000001";

/// The picture.
pub(super) fn picture(ctx: &Ctx<'_>, r: &OverTimeReport) -> Item {
    let what = match ctx.measured() {
        Measured::Cpu => "CPUs in use",
        _ => "threads that ran or waited",
    };
    let palette = ctx.subject.colours().palette();
    let areas = r
        .groups
        .iter()
        .map(|group| Area {
            colour: if group.name.is_empty() { REST } else { palette.of_group(&group.name) },
            heights: group.spent_ns.clone(),
        })
        .collect();
    let at = |column: usize| r.since_start(column);
    let seconds = |column: usize| at(column) as f64 / 1e9;
    let slice = |columns: std::ops::Range<usize>| {
        let (from, to) = (seconds(columns.start), seconds(columns.end));
        let title = format!(
            "{} s to {} s: {} {what}{}",
            format::float(from, 3),
            format::float(to, 3),
            format::float(r.busy(columns.clone()), 2),
            most_in(r, columns.clone())
        );
        Slice { columns, title, link: None }
    };
    let most = (0..r.columns).map(|at| r.busy(at..at + 1)).fold(0.0, f64::max);
    let part = r.window.map(|(from, to)| {
        let length = r.length_ns().max(1) as f64;
        let share = |time: u64| ((time as f64 - at(0) as f64) / length).clamp(0.0, 1.0);
        (share(from), share(to))
    });
    let link = |range: (u64, u64)| {
        let file = ctx.subject.part_named(|part| part.in_range(Some(range)))?;
        Some(ctx.link(Cmd::Menu, "").into_file(file))
    };
    let since = |column: usize| u64::try_from(at(column)).unwrap_or(0);
    let click = if ctx.subject.whole.is_some() { "; click or drag to see that time alone" } else { "" };
    let numbers = slices(r.columns, NUMBERS).map(|columns| format::float(r.busy(columns), 2));
    let numbers: Vec<String> = numbers.collect();
    let words = format!(
        "{what} in each {} s: {}",
        format::float(r.column_ns as f64 * r.columns.div_ceil(NUMBERS) as f64 / 1e9, 3),
        numbers.join(" ")
    );
    Item::TimePicture(Box::new(TimePicture {
        caption: format!("{what}, at most {}{click}", format::float(most, 2)),
        words,
        areas: Areas {
            label: format!("{what} over time"),
            begin_ns: at(0),
            length_ns: r.length_ns(),
            columns: r.columns,
            areas,
            part,
            slices: slices(r.columns, SLICES).map(slice).collect(),
        },
        links: slices(r.columns, SLICES)
            .filter_map(|columns| link((since(columns.start), since(columns.end))))
            .collect(),
        dragged: link(RANGE)
            .map(|link| Dragged { ends: (seconds(0), seconds(r.columns)), link: (link, RANGE_IN_WORDS) }),
    }))
}

/// At most `most` parts of equal length; the last one may be shorter.
fn slices(columns: usize, most: usize) -> impl Iterator<Item = std::ops::Range<usize>> {
    let step = columns.div_ceil(most).max(1);
    (0..columns).step_by(step).map(move |from| from..(from + step).min(columns))
}

/// The groups that spent most in some columns.
fn most_in(r: &OverTimeReport, columns: std::ops::Range<usize>) -> String {
    let mut of: Vec<(&str, f64)> = r
        .groups
        .iter()
        .filter(|group| !group.name.is_empty())
        .map(|group| (&*group.name, group.spent(columns.clone())))
        .filter(|(_, spent)| *spent > 0.0)
        .collect();
    of.sort_by(|a, b| b.1.total_cmp(&a.1));
    let whole: f64 = r.groups.iter().map(|group| group.spent(columns.clone())).sum();
    let named: Vec<String> = of
        .iter()
        .take(NAMED)
        .map(|(name, spent)| format!("{name} {}%", format::percent(spent / whole)))
        .collect();
    if named.is_empty() { String::new() } else { format!(", most in {}", named.join(", ")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::over_time::GroupRow;

    fn report() -> OverTimeReport {
        let group =
            |name: &str, spent_ns: [u64; 3]| GroupRow { name: name.into(), spent_ns: spent_ns.to_vec() };
        OverTimeReport {
            begin_realtime_ns: 7,
            start_realtime_ns: 3,
            column_ns: 1_000,
            columns: 3,
            window: None,
            groups: vec![group("libz.so", [1000, 0, 500]), group("", [0, 0, 500])],
        }
    }

    #[test]
    fn slices_cover_all_columns_once() {
        for columns in [0, 1, 39, 40, 41, 280] {
            let covered: Vec<usize> = slices(columns, SLICES).flatten().collect();
            assert_eq!(covered, (0..columns).collect::<Vec<_>>());
            assert!(slices(columns, SLICES).count() <= SLICES);
        }
    }

    #[test]
    fn a_part_names_what_spent_most_in_it() {
        assert_eq!(most_in(&report(), 0..3), ", most in libz.so 75.00%");
        assert_eq!(most_in(&report(), 1..2), "");
        assert!((report().busy(0..3) - 2.0 / 3.0).abs() < 1e-9);
        assert_eq!(report().length_ns(), 3_000);
    }
}
