//! A table that fits the terminal: numbers are never cut, names are cut in the middle.
//!
//! A file or pipe has no width. Names are then whole up to [`LONGEST_NAME`], but a few long ones do not push
//! the columns to their right out of sight: no name is padded to more than [`MOST_PADDED`] characters.
//!
//! Names of functions beyond [`MOST_UNELIDED`] characters are shown without template arguments, in the form of
//! [`pct_text::elided()`], unless the layout is wide.

use super::Layout;
use pct_num::float;
use std::borrow::Cow;
use std::fmt::Write as _;

/// Characters of a name that a table shows, however much room there is.
pub const LONGEST_NAME: usize = 1000;
/// Characters that names are padded to where the output has no width.
pub const MOST_PADDED: usize = 80;
/// Characters of a function's name that are shown whatever they are. Of longer names template arguments are left out.
pub const MOST_UNELIDED: usize = 60;

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
    /// Its cells are names of functions: long ones are shown without template arguments.
    pub elided: bool,
}

impl Column {
    /// A column of numbers.
    #[must_use]
    pub const fn number(head: &'static str) -> Self {
        Self { head, align: Align::Right, cut_to: None, elided: false }
    }
    /// A column of names that may be cut to `least` characters. Long names of functions are elided.
    #[must_use]
    pub const fn name(head: &'static str, least: usize) -> Self {
        Self { elided: true, ..Self::text(head, least) }
    }
    /// A column of text that may be cut to `least` characters, such as lines of source.
    #[must_use]
    pub const fn text(head: &'static str, least: usize) -> Self {
        Self { head, align: Align::Left, cut_to: Some(least), elided: false }
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
    pub fn from_share(part: u64, whole: u64) -> Self {
        match float(part) / float(whole).max(1.0) {
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
    pub fn row(&mut self, rank: Rank, mut cells: Vec<String>) {
        for cell in &mut cells {
            if let Cow::Owned(visible) = pct_text::visible(cell) {
                *cell = visible;
            }
        }
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
        let elide = |column: &Column, cell: &str| -> String {
            if column.elided { name_in(layout, cell).into_owned() } else { cell.to_owned() }
        };
        let rows = self.rows.iter().map(|(rank, cells)| {
            (*rank, self.columns.iter().zip(cells).map(|(column, cell)| elide(column, cell)).collect())
        });
        let rows: Vec<(Rank, Vec<String>)> = rows.collect();
        let widths = self.widths(&rows, layout);
        // Where there is no width, a name may be longer than its column.
        let longest = if layout.width.is_some() { 0 } else { longest_name(layout) };
        let mut out = String::new();
        let heads: Vec<String> = self.columns.iter().map(|column| column.head.to_owned()).collect();
        if heads.iter().any(|head| !head.is_empty()) {
            self.line(&mut out, &heads, (&widths, longest), if layout.color { "\x1b[1m" } else { "" });
        }
        for (rank, cells) in &rows {
            self.line(&mut out, cells, (&widths, longest), if layout.color { rank.escape() } else { "" });
        }
        out
    }

    fn widths(&self, rows: &[(Rank, Vec<String>)], layout: &Layout) -> Vec<usize> {
        let width = layout.width;
        let mut widths: Vec<usize> = self
            .columns
            .iter()
            .enumerate()
            .map(|(at, column)| {
                let cells = rows.iter().filter_map(|(_, cells)| cells.get(at));
                let widest = cells.map(|cell| cell.chars().count()).max().unwrap_or(0);
                let most = match (column.cut_to, width) {
                    (None, _) => usize::MAX,
                    (Some(_), Some(_)) => longest_name(layout),
                    (Some(_), None) => MOST_PADDED,
                };
                widest.min(most).max(column.head.chars().count())
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
            // Columns that are equally wide share what is too much.
            let equal = (0..widths.len())
                .filter(|&other| self.columns[other].cut_to.is_some() && widths[other] == widths[at])
                .count();
            let part = (sum - width).div_ceil(equal);
            widths[at] = (widths[at] - part.min(widths[at])).max(next.min(widths[at] - 1)).max(least);
        }
    }

    fn line(&self, out: &mut String, cells: &[String], (widths, longest): (&[usize], usize), escape: &str) {
        let mut line = String::new();
        for (at, column) in self.columns.iter().enumerate() {
            let cell = cells.get(at).map_or("", String::as_str);
            let cell = if column.cut_to.is_some() {
                cut_middle(cell, widths[at].max(longest))
            } else {
                cell.to_owned()
            };
            // Not by `{:width$}`, which panics above 65,535.
            let padding = " ".repeat(widths[at].saturating_sub(cell.chars().count()));
            let (before, after) = match column.align {
                Align::Left => ("", padding.as_str()),
                Align::Right => (padding.as_str(), ""),
            };
            let _ = write!(line, "  {before}{cell}{after}");
        }
        let line = line.trim_end();
        if escape.is_empty() {
            let _ = writeln!(out, "{line}");
        } else {
            let _ = writeln!(out, "{escape}{line}\x1b[0m");
        }
    }
}

/// The name of a function as a layout shows it.
#[must_use]
pub fn name_in<'a>(layout: &Layout, name: &'a str) -> Cow<'a, str> {
    if layout.wide { Cow::Borrowed(name) } else { pct_text::elided(name, MOST_UNELIDED) }
}

const fn longest_name(layout: &Layout) -> usize {
    if layout.wide { usize::MAX } else { LONGEST_NAME }
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
    fn long_names_share_the_room_that_there_is() {
        let columns = ["one", "two", "three"].map(|head| Column::name(head, 5));
        let mut table = Table::new(columns.to_vec());
        table.row(Rank::Plain, vec!["a".repeat(40), "b".repeat(50), "c".repeat(60)]);
        let text = table.render(&Layout { width: Some(66), ..Layout::default() });
        let row = text.lines().nth(1).expect("a row");
        let widths: Vec<usize> = row.split_whitespace().map(str::len).collect();
        assert_eq!(widths, [20, 20, 20], "{text}");
    }

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
    fn long_names_are_whole_only_in_a_wide_layout() {
        let name = format!("std::vector<{}>::push_back(int)", "x".repeat(2 * LONGEST_NAME));
        let mut table = Table::new(vec![Column::name("function", 10), Column::text("line", 10)]);
        table.row(Rank::Plain, vec![name.clone(), "n".into()]);
        table.row(Rank::Plain, vec!["std::vector<int, std::allocator<int> >::at".into(), "n".into()]);
        let source = format!("if (a < b) return std::max<int>(a, b); // {}", "x".repeat(80));
        table.row(Rank::Plain, vec!["f".into(), source.clone()]);
        let text = table.render(&Layout::default());
        assert!(text.contains("  std::vector<...>::push_back(int)            n\n"), "{text}");
        assert!(
            text.contains("  std::vector<int, std::allocator<int> >::at  n\n"),
            "up to 60 characters: {text}"
        );
        assert!(text.contains(&source), "lines of source are no names: {text}");
        let text = table.render(&Layout { wide: true, ..Layout::default() });
        assert!(text.contains(&name), "{text}");
    }

    #[test]
    fn control_characters_never_reach_a_terminal() {
        assert_eq!(tame("a\x1b[2Jb\n\u{202e}"), "a\\u{1b}[2Jb\\n\\u{202e}");
    }

    #[test]
    fn a_name_of_any_length_is_a_row() {
        let mut table = Table::new(vec![Column::name("function", 10), Column::name("object", 10)]);
        table.row(Rank::Plain, vec!["x".repeat(70_000), "libx.so".into()]);
        table.row(Rank::Plain, vec!["y".repeat(300), "libx.so".into()]);
        table.row(Rank::Plain, vec!["short".into(), "libx.so".into()]);
        let text = table.render(&Layout::default());
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[1].len(), 2 + LONGEST_NAME + 2 + "libx.so".len());
        assert!(lines[2].contains(&"y".repeat(300)), "whole in a pipe");
        assert_eq!(lines[3].len(), 2 + MOST_PADDED + 2 + "libx.so".len());
        let text = table.render(&Layout { width: Some(1_000_000), ..Layout::default() });
        assert!(text.lines().all(|line| line.len() < 1100), "wide terminals too");
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
