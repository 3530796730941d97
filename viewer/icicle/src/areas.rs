//! Draws how much was spent when: areas upon each other along an axis of time, as one SVG text.
//!
//! The picture is as wide as its place and needs no script. All its positions along the axis are in percent, so that
//! the letters keep their shape at any width.

use crate::colour::Rgb;
use crate::text::escape_into;
use std::fmt::Write as _;

/// Height of the areas in pixels.
const HEIGHT: u32 = 64;
/// Height of the axis below them.
const AXIS: u32 = 16;
/// About so many times stand at the axis.
const TIMES: f64 = 8.0;

/// What is drawn.
#[derive(Clone, Debug, Default)]
pub struct Areas {
    /// What the picture is of, for those who hear it.
    pub label: String,
    /// The time at the left end in nanoseconds, as the axis tells it.
    pub begin_ns: i64,
    /// Length of all columns together in nanoseconds.
    pub length_ns: u64,
    /// Number of columns.
    pub columns: usize,
    /// The areas, the lowest first.
    pub areas: Vec<Area>,
    /// The part of the width, in 0 to 1, that the page is about, if it is not about all. The rest is dimmed.
    pub part: Option<(f64, f64)>,
    /// Parts of the picture that say more and lead somewhere.
    pub slices: Vec<Slice>,
}

/// One area.
#[derive(Clone, Debug)]
pub struct Area {
    /// Its colour.
    pub colour: Rgb,
    /// Its height in each column. What is missing is 0.
    pub heights: Vec<u64>,
}

/// Some columns together.
#[derive(Clone, Debug)]
pub struct Slice {
    /// The columns.
    pub columns: std::ops::Range<usize>,
    /// What is said of it.
    pub title: String,
    /// Where a click leads; `None`: nowhere.
    pub link: Option<String>,
}

impl Areas {
    /// The sum of the areas in a column.
    fn sum(&self, column: usize) -> u64 {
        let heights = self.areas.iter().map(|area| area.heights.get(column).copied().unwrap_or(0));
        heights.fold(0, u64::saturating_add)
    }

    /// The picture.
    #[must_use]
    pub fn svg(&self) -> String {
        let whole = HEIGHT + AXIS;
        let mut out = format!(
            r#"<svg xmlns="http://www.w3.org/2000/svg" class="areas" width="100%" height="{whole}" role="img" aria-label=""#
        );
        escape_into(&mut out, &self.label);
        let columns = self.columns.max(1);
        let _ = write!(
            out,
            r#""><svg width="100%" height="{HEIGHT}" viewBox="0 0 {columns} {HEIGHT}" preserveAspectRatio="none">"#
        );
        self.write_areas(&mut out);
        if let Some((from, to)) = self.part {
            let width = columns as f64;
            for (x, end) in [(0.0, from), (to, 1.0)] {
                let wide = (end - x).max(0.0) * width;
                let _ = write!(
                    out,
                    r#"<rect class="outside" x="{:.2}" width="{wide:.2}" height="{HEIGHT}" fill="white" fill-opacity=".7"/>"#,
                    x * width
                );
            }
        }
        out.push_str("</svg>");
        self.write_axis(&mut out);
        for slice in &self.slices {
            write_slice(&mut out, slice, columns);
        }
        out.push_str("</svg>");
        out
    }

    fn write_areas(&self, out: &mut String) {
        let full = (0..self.columns).map(|column| self.sum(column)).max().unwrap_or(0).max(1);
        let height = |sum: u64| f64::from(HEIGHT) * (1.0 - (sum as f64 / full as f64).min(1.0));
        let mut below = vec![0_u64; self.columns];
        for area in &self.areas {
            let above: Vec<u64> = (below.iter().enumerate())
                .map(|(column, low)| low.saturating_add(area.heights.get(column).copied().unwrap_or(0)))
                .collect();
            let _ = write!(out, r#"<path d="M0 {HEIGHT}"#);
            // Along the upper border, and back along the lower one.
            write_steps(out, above.iter().map(|sum| height(*sum)).zip(1..));
            write_steps(out, below.iter().map(|sum| height(*sum)).enumerate().map(|(at, y)| (y, at)).rev());
            let _ = write!(out, r#"Z" fill="{}"/>"#, area.colour);
            below = above;
        }
    }

    fn write_axis(&self, out: &mut String) {
        let length = self.length_ns as f64 / 1e9;
        let step = step(length);
        let digits = decimals(step);
        let _ = write!(
            out,
            r#"<g class="axis" font-size="11" fill="currentColor" stroke="none"><line x1="0" x2="100%" y1="{HEIGHT}" y2="{HEIGHT}" stroke="currentColor" stroke-opacity=".3"/>"#
        );
        let begin = self.begin_ns as f64 / 1e9;
        // A time at the right end would be cut.
        let end = begin + length * 0.96;
        let times = (0..).map(|at| ((begin / step).ceil() + f64::from(at)) * step);
        for time in times.take_while(|time| step > 0.0 && *time <= end) {
            let percent = (time - begin) / length * 100.0;
            let _ = write!(
                out,
                r#"<line x1="{percent:.2}%" x2="{percent:.2}%" y1="0" y2="{}" stroke="currentColor" stroke-opacity=".15"/><text x="{percent:.2}%" dx="3" y="{}">{time:.digits$} s</text>"#,
                HEIGHT + AXIS,
                HEIGHT + 12
            );
        }
        out.push_str("</g>");
    }
}

/// Lines at heights, each up to a place. Lines of one height are one.
fn write_steps(out: &mut String, steps: impl Iterator<Item = (f64, usize)>) {
    let mut steps = steps.peekable();
    while let Some((y, mut end)) = steps.next() {
        while let Some((_, next)) = steps.next_if(|(next, _)| (next - y).abs() < 0.05) {
            end = next;
        }
        let _ = write!(out, "V{y:.1}H{end}");
    }
}

fn write_slice(out: &mut String, slice: &Slice, columns: usize) {
    let percent = |column: usize| column as f64 * 100.0 / columns as f64;
    let (x, end) = (percent(slice.columns.start), percent(slice.columns.end));
    if let Some(link) = &slice.link {
        out.push_str(r#"<a href=""#);
        escape_into(out, link);
        out.push_str(r#"">"#);
    }
    let _ = write!(
        out,
        r#"<rect class="slice" x="{x:.2}%" width="{:.2}%" height="{HEIGHT}" fill-opacity="0"><title>"#,
        (end - x).max(0.0)
    );
    escape_into(out, &slice.title);
    out.push_str("</title></rect>");
    if slice.link.is_some() {
        out.push_str("</a>");
    }
}

/// The distance of times at the axis in seconds: 1, 2 or 5 of a power of ten; 0: there is no length.
fn step(length: f64) -> f64 {
    let about = length / TIMES;
    if !about.is_normal() || about < 0.0 {
        return 0.0;
    }
    let power = 10_f64.powf(about.log10().floor());
    let times = [1.0, 2.0, 5.0].into_iter().find(|times| times * power >= about);
    times.unwrap_or(10.0) * power
}

/// How many digits behind the point a multiple of a step needs.
fn decimals(step: f64) -> usize {
    (0..9)
        .find(|digits| step * 10_f64.powi(*digits) >= 0.999)
        .map_or(9, |digits| usize::try_from(digits).unwrap_or(9))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn two() -> Areas {
        let area =
            |colour: u8, heights: &[u64]| Area { colour: Rgb(colour, 0, 0), heights: heights.to_vec() };
        Areas {
            label: "CPUs <in use>".into(),
            length_ns: 4_000_000_000,
            columns: 4,
            areas: vec![area(16, &[1, 1, 0, 2]), area(32, &[0, 1, 0, 2])],
            ..Areas::default()
        }
    }

    #[test]
    fn areas_lie_upon_each_other_and_the_highest_column_is_full() {
        let svg = two().svg();
        // The first: a quarter, a quarter, nothing, half. Equal heights are one line.
        assert!(svg.contains(r##"<path d="M0 64V48.0H2V64.0H3V32.0H4V64.0H0Z" fill="#100000"/>"##), "{svg}");
        // The second lies upon it: its lower border is the upper one of the first.
        assert!(svg.contains("M0 64V48.0H1V32.0H2V64.0H3V0.0H4V32.0H3V64.0H2V48.0H0Z"), "{svg}");
        assert!(svg.contains("CPUs &lt;in use&gt;"), "{svg}");
        assert_eq!(two().sum(3), 4);
    }

    #[test]
    fn slices_say_what_they_are_and_lead_somewhere() {
        let mut areas = two();
        areas.slices = vec![
            Slice { columns: 0..2, title: "<a>".into(), link: Some("of/0/tl?a=1&b=2".into()) },
            Slice { columns: 2..4, title: "b".into(), link: None },
        ];
        let svg = areas.svg();
        assert!(
            svg.contains(
                r#"<a href="of/0/tl?a=1&amp;b=2"><rect class="slice" x="0.00%" width="50.00%" height="64" fill-opacity="0"><title>&lt;a&gt;</title></rect></a>"#
            ),
            "{svg}"
        );
        assert_eq!(svg.matches("<a ").count(), 1);
    }

    #[test]
    fn what_is_outside_of_the_part_is_dimmed() {
        let svg = Areas { part: Some((0.25, 0.5)), ..two() }.svg();
        assert!(svg.contains(r#"class="outside" x="0.00" width="1.00""#), "{svg}");
        assert!(svg.contains(r#"class="outside" x="2.00" width="2.00""#), "{svg}");
    }

    #[test]
    fn times_at_the_axis_are_round_and_few() {
        for (length, step_wanted, digits) in
            [(4.0, 0.5, 1), (6.1, 1.0, 0), (0.03, 0.005, 3), (86_400.0, 20_000.0, 0), (0.9, 0.2, 1)]
        {
            let found = step(length);
            assert!((found - step_wanted).abs() < 1e-9, "{length}: {found}");
            assert_eq!(decimals(found), digits, "{length}");
        }
        assert!(two().svg().contains(r#"<text x="12.50%" dx="3" y="76">0.5 s</text>"#), "{}", two().svg());
        let later = Areas { begin_ns: 600_000_000, ..two() }.svg();
        assert!(later.contains(r#"<text x="10.00%" dx="3" y="76">1.0 s</text>"#), "{later}");
        assert!(!later.contains("0.5 s") && later.contains("4.0 s"), "{later}");
        assert_eq!(step(0.0).to_bits(), 0);
    }

    #[test]
    fn nothing_is_drawn_of_nothing() {
        let svg = Areas::default().svg();
        assert!(svg.starts_with("<svg") && svg.ends_with("</svg>"), "{svg}");
        assert!(!svg.contains("NaN"), "{svg}");
    }
}
