//! A table that fits the terminal: numbers are never cut, names are cut in the middle.

use super::Layout;
use std::fmt::Write as _;

/// How a cell stands in its column.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Align {
    /// Names.
    Left,
    /// Numbers.
    Right,
}

/// A column: its head, and how much of its cells may be cut.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Column {
    /// Head line.
    pub head: &'static str,
    /// Side.
    pub align: Align,
    /// A name may be cut down to this many characters when the table is too wide; `None` = never.
    pub cut_to: Option<usize>,
}

impl Column {
    /// A column of numbers.
    #[must_use]
    pub const fn number(head: &'static str) -> Self {
        Self { head, align: Align::Right, cut_to: None }
    }
    /// A column of names that may be cut to `least` characters.
    #[must_use]
    pub const fn name(head: &'static str, least: usize) -> Self {
        Self { head, align: Align::Left, cut_to: Some(least) }
    }
}

/// How much a row matters: colour carries rank.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Rank {
    /// Most of the time.
    High,
    /// A part that one should know.
    Middle,
    /// Ordinary.
    #[default]
    Plain,
    /// Hardly anything; sums of the rest.
    Low,
}

impl Rank {
    /// By share: at least 10 %, at least 2 %, at least 0.2 %, less.
    #[must_use]
    pub fn of(part: u64, whole: u64) -> Self {
        match part as f64 / (whole as f64).max(1.0) {
            share if share >= 0.1 => Self::High,
            share if share >= 0.02 => Self::Middle,
            share if share >= 0.002 => Self::Plain,
            _ => Self::Low,
        }
    }
    const fn escape(self) -> &'static str {
        match self {
            Self::High => "\x1b[1;31m",
            Self::Middle => "\x1b[33m",
            Self::Plain => "",
            Self::Low => "\x1b[2m",
        }
    }
}

/// Rows of text under columns.
#[derive(Clone, Debug, Default)]
pub struct Table {
    columns: Vec<Column>,
    rows: Vec<(Rank, Vec<String>)>,
}

impl Table {
    /// A table without rows.
    #[must_use]
    pub fn new(columns: Vec<Column>) -> Self {
        Self { columns, rows: Vec::new() }
    }
    /// Adds a row; missing cells are empty.
    pub fn row(&mut self, rank: Rank, cells: Vec<String>) {
        self.rows.push((rank, cells));
    }
    /// Number of rows.
    #[must_use]
    pub fn len(&self) -> usize {
        self.rows.len()
    }
    /// No rows.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The text: a head line and the rows, two spaces in front.
    #[must_use]
    pub fn render(&self, layout: &Layout) -> String {
        let widths = self.widths(layout.width);
        let mut out = String::new();
        let heads: Vec<String> = self.columns.iter().map(|column| column.head.to_owned()).collect();
        if heads.iter().any(|head| !head.is_empty()) {
            self.line(&mut out, &heads, &widths, if layout.color { "\x1b[1m" } else { "" });
        }
        for (rank, cells) in &self.rows {
            self.line(&mut out, cells, &widths, if layout.color { rank.escape() } else { "" });
        }
        out
    }

    fn widths(&self, width: Option<usize>) -> Vec<usize> {
        let mut widths: Vec<usize> = self
            .columns
            .iter()
            .enumerate()
            .map(|(at, column)| {
                let cells = self.rows.iter().filter_map(|(_, cells)| cells.get(at));
                cells.map(|cell| cell.chars().count()).max().unwrap_or(0).max(column.head.chars().count())
            })
            .collect();
        let Some(width) = width else { return widths };
        let gaps = 2 * self.columns.len();
        // The widest name that may still be cut gives way first.
        loop {
            let sum: usize = widths.iter().sum::<usize>() + gaps;
            if sum <= width {
                return widths;
            }
            let widest = (0..widths.len())
                .filter(|&at| self.columns[at].cut_to.is_some_and(|least| widths[at] > least))
                .max_by_key(|&at| widths[at]);
            let Some(at) = widest else { return widths };
            let least = self.columns[at].cut_to.unwrap_or(0);
            let next = (0..widths.len())
                .filter(|&other| other != at && self.columns[other].cut_to.is_some())
                .map(|other| widths[other])
                .filter(|&w| w < widths[at])
                .max()
                .unwrap_or(0);
            widths[at] =
                (widths[at] - (sum - width).min(widths[at])).max(next.min(widths[at] - 1)).max(least);
        }
    }

    fn line(&self, out: &mut String, cells: &[String], widths: &[usize], escape: &str) {
        let mut line = String::new();
        for (at, column) in self.columns.iter().enumerate() {
            let cell = cells.get(at).map_or("", String::as_str);
            let cell = cut_middle(cell, widths[at]);
            let _ = match column.align {
                Align::Left => write!(line, "  {cell:<width$}", width = widths[at]),
                Align::Right => write!(line, "  {cell:>width$}", width = widths[at]),
            };
        }
        let line = line.trim_end();
        if escape.is_empty() {
            let _ = writeln!(out, "{line}");
        } else {
            let _ = writeln!(out, "{escape}{line}\x1b[0m");
        }
    }
}

/// Cuts a name in its middle, where templates and paths say least: `std::collect..::insert`.
#[must_use]
pub fn cut_middle(text: &str, width: usize) -> String {
    let n = text.chars().count();
    if n <= width {
        return text.to_owned();
    }
    if width < 4 {
        return text.chars().take(width).collect();
    }
    let kept = width - 2;
    let front = kept.div_ceil(2);
    let back = kept - front;
    text.chars().take(front).chain("..".chars()).chain(text.chars().skip(n - back)).collect()
}

/// Makes text of the program safe for a terminal, by the rule of [`pct_text`].
#[must_use]
pub fn tame(text: &str) -> String {
    pct_text::visible(text).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names_are_cut_in_the_middle_and_numbers_are_not() {
        let mut table = Table::new(vec![Column::number("share"), Column::name("function", 10)]);
        table.row(Rank::High, vec!["41.2%".into(), "a_function_with_a_rather_long_name".into()]);
        let text = table.render(&Layout { width: Some(30), ..Layout::default() });
        assert_eq!(text, "  share  function\n  41.2%  a_function..long_name\n");
        let text = table.render(&Layout::default());
        assert!(text.contains("a_function_with_a_rather_long_name\n"));
        let text = table.render(&Layout { color: true, ..Layout::default() });
        assert!(text.contains("\x1b[1;31m  41.2%"));
    }

    #[test]
    fn control_characters_never_reach_a_terminal() {
        assert_eq!(tame("a\x1b[2Jb\n\u{202e}"), "a\\u{1b}[2Jb\\n\\u{202e}");
    }

    proptest! {
        #[test]
        fn rows_fit_when_they_can(names in proptest::collection::vec("[a-zé]{0,60}", 1..5), width in 30_usize..100) {
            let mut table = Table::new(vec![Column::number("n"), Column::name("f", 6), Column::name("o", 6)]);
            for name in &names {
                table.row(Rank::Plain, vec!["100.0%".into(), name.clone(), name.clone()]);
            }
            let text = table.render(&Layout { width: Some(width), ..Layout::default() });
            for line in text.lines() {
                prop_assert!(line.chars().count() <= width, "{line:?}");
            }
        }
    }
}
