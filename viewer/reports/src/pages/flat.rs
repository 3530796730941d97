//! Flat tables: a rank, some columns of words, the performance columns. They are ordered and paged; the rest is summed
//! up.

use super::ctx::Ctx;
use super::perf::{self, PerfColumns, sort_by_cost};
use crate::display::table::{Boxing, Column, ColumnClass, Head, Paging};
use crate::display::{Cell, Data, HeadGroup, Label, Link, Row, Table};
use crate::query::{CostOrder, Incl, Order};
use crate::report::common::{Perf, Rest};
use std::borrow::Cow;

/// Computes a sort key of a row.
type KeyOf<'a, R, K> = Box<dyn Fn(&R) -> K + 'a>;

/// Sort keys of a flat table's rows that are not costs.
pub(crate) struct Keys<'a, R> {
    /// Displayed name.
    pub(crate) name: KeyOf<'a, R, String>,
    /// Source file and line.
    pub(crate) place: KeyOf<'a, R, (String, u32)>,
}

/// A flat table.
pub(crate) struct Flat<'a, R> {
    /// Columns between the rank and the costs.
    pub(crate) lead: Vec<Column<'a, R>>,
    /// The costs of a row.
    pub(crate) perf: fn(&R) -> &Perf,
    /// Whether there are totals, and whether they may be summed up.
    pub(crate) totals: Totals,
    /// Rows that the report itself does not list.
    pub(crate) rest: Option<&'a Rest>,
    /// A remark below the rows.
    pub(crate) note: Option<Vec<Data>>,
}

/// What the totals of a table's rows mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Totals {
    /// There are none.
    None,
    /// Totals of rows overlap. They are shown, but their sum has no meaning.
    Overlap,
    /// Totals of rows add up.
    Add,
}

impl Ctx<'_> {
    /// Orders rows by the preference; ties keep their order.
    pub(crate) fn sort<R>(&self, rows: &mut [R], keys: &Keys<'_, R>, perf: fn(&R) -> &Perf, totals: Totals) {
        match self.prefs.order {
            Order::Context => rows.sort_by_cached_key(|r| (keys.place)(r)),
            Order::Name => rows.sort_by_cached_key(|r| (keys.name)(r)),
            Order::Cost(order) => {
                let incl = if totals == Totals::None { Incl::Own } else { order.incl };
                sort_by_cost(rows, CostOrder { incl, ..order }, perf);
            }
        }
    }

    /// The rows of one page: those of the requested page, unless `shown` gives them.
    pub(crate) fn flat<R>(
        &self,
        flat: &Flat<'_, R>,
        rows: &[R],
        shown: Option<std::ops::Range<usize>>,
    ) -> Table {
        let columns = PerfColumns::new(self.cmd, &self.prefs, flat.totals != Totals::None, self.scale());
        let mut head = vec![HeadGroup::single(Head::text("Rank", ColumnClass::Rank))];
        head.extend(flat.lead.iter().map(|c| HeadGroup::single(c.head.clone())));
        let paging = match shown {
            Some(_) => None,
            None => Paging::new(self.cmd, &self.prefs, self.page, rows.len()),
        };
        let range = shown.unwrap_or_else(|| Paging::range(paging.as_ref(), rows.len()));
        head.extend(columns.heads.iter().cloned());
        let mut table = Table::new(Boxing::ByPref, head);
        for (i, row) in rows.iter().enumerate().take(range.end).skip(range.start) {
            let mut cells = vec![Cell::One(Data::count(i + 1))];
            cells.extend(flat.lead.iter().map(|c| (c.cell)(row)));
            cells.extend(columns.cells((flat.perf)(row)));
            table.rows.push(Row::Cells(cells));
        }
        // Rows that are not shown are summed up in a row of their own.
        let mut count = rows.len() - range.len();
        let mut sum: Option<Cow<'_, Perf>> = flat.rest.map(|r| Cow::Borrowed(&r.perf));
        count += flat.rest.map_or(0, |r| r.count);
        if count > 0 {
            for row in rows[..range.start].iter().chain(&rows[range.end..]) {
                let perf = (flat.perf)(row);
                match &mut sum {
                    Some(sum) => perf::add(sum.to_mut(), perf),
                    None => sum = Some(Cow::Owned(perf.clone())),
                }
            }
            let mut sum = sum.unwrap_or_default().into_owned();
            if flat.totals == Totals::Overlap {
                sum.total = None;
            }
            let label = format!("{} more, not shown here", crate::display::format::count(count));
            let mut cells = vec![Cell::Span(Data::text(label), 1 + flat.lead.len())];
            cells.extend(columns.cells(&sum));
            table.rows.push(Row::Summary(cells));
        }
        if let Some(note) = &flat.note {
            table.rows.push(Row::Note(note.clone()));
        }
        table.flat = count == 0;
        table.paging = paging;
        table
    }

    /// A head that orders by name.
    pub(crate) fn name_head(&self, text: &str) -> Head {
        perf::order_head(self.cmd, &self.prefs, text, Order::Name, ColumnClass::Name)
    }

    /// A head that orders by source position.
    pub(crate) fn place_head(&self, text: &str) -> Head {
        perf::order_head(self.cmd, &self.prefs, text, Order::Context, ColumnClass::Place)
    }

    /// "12 procedures never called are hidden: show".
    pub(crate) fn hidden_note(
        &self,
        count: usize,
        what: &str,
        show: crate::query::Prefs,
    ) -> Option<Vec<Data>> {
        (count > 0).then(|| {
            let link = Link { label: Label::plain("show"), ..Link::control(self.cmd.clone(), &show, "") };
            vec![
                Data::text(format!(
                    "{} {what} {}, hidden:",
                    crate::display::format::count(count),
                    self.words().silent
                )),
                Data::Link(link),
            ]
        })
    }
}
