//! Tables: columns are declared once, header and rows are both made from the declaration.

use super::{Cell, Data, Label, Link};
use crate::query::{Cmd, Prefs};

/// What a column holds: decides alignment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnClass {
    /// Names, places, words: flush left.
    Words,
    /// Numbers: flush right.
    Number,
}

/// Which way the rows are ordered by a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sorted {
    /// The largest first.
    Descending,
    /// The first in the alphabet, or in the file, first.
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
    /// Set if the rows are ordered by it.
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

/// Columns that belong together.
#[derive(Clone, Debug)]
pub struct HeadGroup {
    /// Title above the heads; `None`: the one head stands for itself.
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
    /// The same, but what it sums up stands elsewhere: set apart and never sorted.
    Summary(Vec<Cell>),
    /// An empty line.
    Separator,
    /// A headline across all columns.
    Section(Data),
    /// A remark across all columns.
    Note(Vec<Data>),
    /// Only for developers.
    Developer(Box<Row>),
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
    /// Whether rows are independent and all there: a browser may sort and filter them.
    pub flat: bool,
    /// Links to the other pages of a long table.
    pub paging: Option<Paging>,
}

/// Where in a long table a page is.
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
    /// First, previous, next, last: those that are other pages.
    pub links: Vec<Link>,
}

/// Rows of one page where the page's kind has no bunches of its own.
pub const PAGE_ROWS: usize = 200;

impl Paging {
    /// The rows of `page` (the last one, if it is past the end) of a table of `total` rows; `None`: all fit.
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
    pub fn new(boxing: Boxing, head: Vec<HeadGroup>) -> Table {
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
            if let Row::Cells(cells) | Row::Summary(cells) = row {
                let span: usize = cells
                    .iter()
                    .map(|c| match c {
                        Cell::Span(_, n) => *n,
                        Cell::One(_) | Cell::Empty => 1,
                    })
                    .sum();
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
                Row::Cells(cells) | Row::Summary(cells) => {
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

/// One column of a table of `R`s: declared once, its head and its cells cannot disagree.
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
}
