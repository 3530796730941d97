//! Tables. Columns are declared once; the header and the rows are both made from the declaration.

use super::data::{Cell, Data, Label, Link};
use crate::query::{Cmd, Prefs};

/// What a column contains. It decides the alignment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnClass {
    /// Words: flush left.
    Words,
    /// What the row is about: aligned left, and visible however narrow the window is.
    Name,
    /// A source position or the like: aligned left, and left out first if there is no room.
    Place,
    /// Numbers: flush right.
    Number,
    /// The row's rank: aligned right, left out if there is no room.
    Rank,
}

impl ColumnClass {
    /// Whether the column is aligned left.
    #[must_use]
    pub fn is_words(self) -> bool {
        matches!(self, ColumnClass::Words | ColumnClass::Name | ColumnClass::Place)
    }
}

/// The direction in which the rows are ordered by a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sorted {
    /// The largest first.
    Descending,
    /// The first in the alphabet, or in the file, comes first.
    Ascending,
}

/// The head of a column.
#[derive(Clone, Debug)]
pub struct Head {
    /// Text, or a link that orders by the column.
    pub data: Data,
    /// What the column holds.
    pub class: ColumnClass,
    /// What the column means, shown when pointed at.
    pub help: Option<&'static str>,
    /// Set if the rows are ordered by this column.
    pub sorted: Option<Sorted>,
}

impl Head {
    /// A head that says `text`.
    #[must_use]
    pub fn text(text: &str, class: ColumnClass) -> Head {
        Head { data: Data::text(text), class, help: None, sorted: None }
    }

    /// A head that leads to the same page ordered by it.
    #[must_use]
    pub fn link(link: Link, class: ColumnClass) -> Head {
        Head { data: Data::Link(link), class, help: None, sorted: None }
    }

    /// The same head with an explanation.
    #[must_use]
    pub fn help(mut self, help: &'static str) -> Head {
        self.help = Some(help);
        self
    }
}

/// A group of columns.
#[derive(Clone, Debug)]
pub struct HeadGroup {
    /// Title above the heads; `None`: the only head needs no title.
    pub title: Option<String>,
    /// The columns.
    pub heads: Vec<Head>,
    /// Whether it takes part in the alternating shade.
    pub coloured: bool,
}

impl HeadGroup {
    /// A column by itself, without shade.
    #[must_use]
    pub fn single(head: Head) -> HeadGroup {
        HeadGroup { title: None, heads: vec![head], coloured: false }
    }
}

/// One line of a table.
#[derive(Clone, Debug)]
pub enum Row {
    /// Cells that span all columns together.
    Cells(Vec<Cell>),
    /// A sum over rows that are elsewhere: set apart and never sorted.
    Summary(Vec<Cell>),
    /// A part of the row above: it belongs there and counts nowhere else.
    Part(Vec<Cell>),
    /// An empty line.
    Separator,
    /// A headline across all columns.
    Section(Data),
    /// A remark across all columns.
    Note(Vec<Data>),
    /// Only for developers.
    Developer(Box<Row>),
}

impl Row {
    /// Its cells, if it has cells of its own.
    #[must_use]
    pub fn cells(&self) -> Option<&[Cell]> {
        match self {
            Row::Cells(cells) | Row::Summary(cells) | Row::Part(cells) => Some(cells),
            Row::Developer(inner) => inner.cells(),
            Row::Separator | Row::Section(_) | Row::Note(_) => None,
        }
    }

    fn cells_mut(&mut self) -> Option<&mut Vec<Cell>> {
        match self {
            Row::Cells(cells) | Row::Summary(cells) | Row::Part(cells) => Some(cells),
            Row::Developer(inner) => inner.cells_mut(),
            Row::Separator | Row::Section(_) | Row::Note(_) => None,
        }
    }
}

/// Removes columns, given in ascending order, from a row.
fn remove_columns(cells: &mut Vec<Cell>, gone: &[usize]) {
    let mut column = 0;
    cells.retain_mut(|cell| {
        let columns = column..column + cell.columns();
        column = columns.end;
        let lost = gone.iter().filter(|c| columns.contains(c)).count();
        match cell {
            Cell::Span(_, n) => {
                *n -= lost;
                *n > 0
            }
            Cell::One(_) | Cell::Empty => lost == 0,
        }
    });
}

/// When a table has lines around it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Boxing {
    /// Never: a list of facts.
    Never,
    /// Always.
    Always,
    /// By preference.
    ByPref,
}

/// A table.
#[derive(Clone, Debug)]
pub struct Table {
    /// Lines around it.
    pub boxing: Boxing,
    /// Column heads; `None`: a table without header of this many columns.
    pub head: Option<Vec<HeadGroup>>,
    /// Number of columns.
    pub columns: usize,
    /// The lines.
    pub rows: Vec<Row>,
    /// Whether rows are independent and complete, so that a browser may sort and filter them.
    pub flat: bool,
    /// Links to the other pages of a long table.
    pub paging: Option<Paging>,
}

/// The position of a page in a long table.
#[derive(Clone, Debug)]
pub struct Paging {
    /// This page, from 1.
    pub page: u32,
    /// Number of pages.
    pub pages: u32,
    /// First row shown, from 1.
    pub first: usize,
    /// Last row shown.
    pub last: usize,
    /// Rows of all pages.
    pub total: usize,
    /// Links to the first, previous, next and last page, without this page.
    pub links: Vec<Link>,
}

/// Rows per page, if the kind of page does not have its own division.
pub const PAGE_ROWS: usize = 200;

impl Paging {
    /// The rows of `page` (the last one, if it is past the end) in a table of `total` rows; `None`: all rows fit.
    #[must_use]
    pub fn new(cmd: &Cmd, prefs: &Prefs, page: u32, total: usize) -> Option<Paging> {
        if total <= PAGE_ROWS {
            return None;
        }
        let pages = u32::try_from(total.div_ceil(PAGE_ROWS)).unwrap_or(u32::MAX);
        let page = page.clamp(1, pages);
        let first = (page as usize - 1) * PAGE_ROWS + 1;
        let last = (first + PAGE_ROWS - 1).min(total);
        let to = |n: u32, label: &str| Link { page: n, ..Link::control(cmd.clone(), prefs, label) };
        let mut links = Vec::new();
        if page > 1 {
            links.push(to(1, "first"));
            links.push(to(page - 1, "previous"));
        }
        if page < pages {
            links.push(to(page + 1, "next"));
            links.push(to(pages, "last"));
        }
        Some(Paging { page, pages, first, last, total, links })
    }

    /// The positions of the rows shown among `total`.
    #[must_use]
    pub fn range(paging: Option<&Paging>, total: usize) -> std::ops::Range<usize> {
        paging.map_or(0..total, |p| p.first - 1..p.last)
    }
}

impl Table {
    /// A table with these columns.
    #[must_use]
    pub fn new(boxing: Boxing, mut head: Vec<HeadGroup>) -> Table {
        // Each row is about something: if no column says so, it is the first column of words.
        let mut heads: Vec<&mut Head> = head.iter_mut().flat_map(|g| &mut g.heads).collect();
        if heads.iter().all(|h| h.class != ColumnClass::Name)
            && let Some(first) = heads.iter_mut().find(|h| h.class == ColumnClass::Words)
        {
            first.class = ColumnClass::Name;
        }
        let columns = head.iter().map(|g| g.heads.len()).sum();
        Table { boxing, head: Some(head), columns, rows: Vec::new(), flat: false, paging: None }
    }

    /// Facts: two columns without header.
    #[must_use]
    pub fn facts(rows: Vec<(&str, Data)>) -> Table {
        Table {
            boxing: Boxing::Never,
            head: None,
            columns: 2,
            rows: rows
                .into_iter()
                .map(|(name, data)| {
                    Row::Cells(vec![Cell::One(Data::Label(Label::plain(name))), Cell::One(data)])
                })
                .collect(),
            flat: false,
            paging: None,
        }
    }

    /// The classes of the columns, in order; empty without header.
    #[must_use]
    pub fn classes(&self) -> Vec<ColumnClass> {
        self.head.iter().flatten().flat_map(|g| g.heads.iter().map(|h| h.class)).collect()
    }

    /// Removes cost columns in which everything is zero, except the one that the rows are ordered by, and names them in
    /// a row of its own.
    pub fn without_zeros(&mut self) {
        let mut seen: Vec<bool> = vec![false; self.columns];
        let mut rows = 0;
        for row in &self.rows {
            let Some(cells) = row.cells() else { continue };
            rows += 1;
            let mut column = 0;
            for cell in cells {
                let is_seen = match cell {
                    Cell::One(data) => !data.is_zero(),
                    Cell::Span(..) => true,
                    Cell::Empty => false,
                };
                seen.iter_mut().skip(column).take(cell.columns()).for_each(|any| *any |= is_seen);
                column += cell.columns();
            }
        }
        let Some(groups) = self.head.as_mut().filter(|_| rows > 0) else { return };
        let (mut column, mut gone, mut names) = (0, Vec::new(), Vec::new());
        for group in groups.iter_mut() {
            let mut heads_gone = Vec::new();
            group.heads.retain(|head| {
                let is_zero = group.coloured && head.sorted.is_none() && !seen[column];
                if is_zero {
                    gone.push(column);
                    heads_gone.push(super::format::data(&head.data));
                }
                column += 1;
                !is_zero
            });
            // Shares and quotients are removed with the column to which they refer.
            heads_gone.retain(|name| name != "%" && name != "/call");
            match (&group.title, heads_gone.as_slice()) {
                (_, []) => {}
                (Some(title), _) if group.heads.is_empty() => names.push(title.clone()),
                (Some(title), heads) => names.push(format!("{title} ({})", heads.join(", "))),
                (None, heads) => names.push(heads.join(", ")),
            }
        }
        if gone.is_empty() {
            return;
        }
        groups.retain(|group| !group.heads.is_empty());
        self.columns -= gone.len();
        for row in &mut self.rows {
            if let Some(cells) = row.cells_mut() {
                remove_columns(cells, &gone);
            }
        }
        if !names.is_empty() {
            let text = format!("Columns of zeros are left out: {}.", names.join("; "));
            self.rows.push(Row::Note(vec![Data::Text(text)]));
        }
    }

    /// Whether every row spans all columns.
    ///
    /// # Errors
    /// The first row that does not, by its position from 0.
    pub fn check(&self) -> Result<(), usize> {
        for (i, row) in self.rows.iter().enumerate() {
            let mut row = row;
            while let Row::Developer(inner) = row {
                row = inner;
            }
            if let Row::Cells(cells) | Row::Summary(cells) | Row::Part(cells) = row {
                let span: usize = cells.iter().map(Cell::columns).sum();
                if span != self.columns {
                    return Err(i);
                }
            }
        }
        Ok(())
    }

    pub(super) fn links<'a>(&'a self, out: &mut Vec<&'a Link>) {
        fn of_data<'a>(data: &'a Data, out: &mut Vec<&'a Link>) {
            if let Data::Link(link) = data {
                out.push(link);
            }
        }
        for head in self.head.iter().flatten().flat_map(|g| &g.heads) {
            of_data(&head.data, out);
        }
        for row in &self.rows {
            let mut row = row;
            while let Row::Developer(inner) = row {
                row = inner;
            }
            match row {
                Row::Cells(cells) | Row::Summary(cells) | Row::Part(cells) => {
                    for cell in cells {
                        if let Cell::One(data) | Cell::Span(data, _) = cell {
                            of_data(data, out);
                        }
                    }
                }
                Row::Section(data) => of_data(data, out),
                Row::Note(parts) => parts.iter().for_each(|d| of_data(d, out)),
                Row::Separator | Row::Developer(_) => {}
            }
        }
        if let Some(paging) = &self.paging {
            out.extend(&paging.links);
        }
    }
}

/// One column of a table of `R`s. It is declared once, so its head and its cells cannot disagree.
pub struct Column<'a, R> {
    /// Its head.
    pub head: Head,
    /// Its cell for a row.
    pub cell: Box<dyn Fn(&R) -> Cell + 'a>,
}

impl<'a, R> Column<'a, R> {
    /// A column.
    pub fn new(head: Head, cell: impl Fn(&R) -> Cell + 'a) -> Self {
        Column { head, cell: Box::new(cell) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_past_the_end_is_the_last() {
        let prefs = Prefs::default_for(true);
        let p = Paging::new(&Cmd::Menu, &prefs, 9, 401).expect("more than a page");
        assert_eq!((p.page, p.pages, p.first, p.last), (3, 3, 401, 401));
        assert_eq!(p.links.len(), 2);
        assert!(Paging::new(&Cmd::Menu, &prefs, 1, 200).is_none());
        let p = Paging::new(&Cmd::Menu, &prefs, 1, 201).expect("more than a page");
        assert_eq!(Paging::range(Some(&p), 201), 0..200);
    }

    #[test]
    fn a_row_that_does_not_span_the_columns_is_found() {
        let mut t = Table::facts(vec![("a", Data::Int(1))]);
        assert_eq!(t.check(), Ok(()));
        t.rows.push(Row::Developer(Box::new(Row::Cells(vec![Cell::Empty]))));
        assert_eq!(t.check(), Err(1));
    }

    fn group(title: &str, heads: &[&str]) -> HeadGroup {
        HeadGroup {
            title: Some(title.to_owned()),
            heads: heads.iter().map(|h| Head::text(h, ColumnClass::Number)).collect(),
            coloured: true,
        }
    }

    #[test]
    fn columns_of_zeros_are_left_out_and_named() {
        let name = HeadGroup::single(Head::text("Procedure", ColumnClass::Words));
        let mut time = group("Time", &["Self", "%"]);
        time.heads[0].sorted = Some(Sorted::Descending);
        let mut t = Table::new(
            Boxing::Always,
            vec![name, time, group("Ports", &["Calls", "Fails", "Redos"]), group("Memory", &["Self", "%"])],
        );
        assert_eq!(t.classes()[0], ColumnClass::Name);
        let one = |n| Cell::One(Data::Int(n));
        let row = |calls| {
            let mut cells =
                vec![Cell::One(Data::text("p")), one(0), Cell::One(Data::Percent(0.0)), one(calls)];
            cells.extend([one(0), one(0), one(0), Cell::One(Data::Percent(0.0))]);
            cells
        };
        t.rows = vec![
            Row::Cells(row(7)),
            Row::Developer(Box::new(Row::Summary(row(0)))),
            Row::Cells(vec![
                Cell::Span(Data::text("a name over two"), 2),
                Cell::Empty,
                Cell::Empty,
                Cell::Empty,
                Cell::Span(Data::text("x"), 3),
            ]),
        ];
        t.without_zeros();
        assert_eq!(t.check(), Ok(()));
        // The column that rows are ordered by stays; words and non-zero numbers stay.
        let heads: Vec<String> = t
            .head
            .iter()
            .flatten()
            .flat_map(|g| &g.heads)
            .map(|h| super::super::format::data(&h.data))
            .collect();
        assert_eq!(heads, ["Procedure", "Self", "Calls", "Redos", "Self", "%"]);
        let Some(Row::Note(note)) = t.rows.last() else { panic!("a note") };
        assert_eq!(super::super::format::data(&note[0]), "Columns of zeros are left out: Ports (Fails).");
        // There is nothing more to leave out. A table without rows keeps its heads.
        let rows = t.rows.len();
        t.without_zeros();
        assert_eq!(t.rows.len(), rows);
        let mut empty = Table::new(Boxing::Always, vec![group("Ports", &["Calls"])]);
        empty.without_zeros();
        assert_eq!(empty.columns, 1);
    }
}
