//! Whose time it was.

use super::ctx::Ctx;
use crate::display::table::{Boxing, Column, ColumnClass, Head, Paging, Sorted};
use crate::display::{Cell, Data, Display, HeadGroup, Item, Row, Table};
use crate::query::{Cmd, Cost, Incl, Limit};
use crate::report::common::ProcDesc;
use crate::report::owners::{CalleeRow, OwnerRow, OwnersReport};

pub(super) fn display(ctx: &Ctx<'_>, r: &OwnersReport) -> Display {
    let mut d = Display::new(title(ctx));
    let spent = ctx.spent();
    d.items.push(Item::Text(format!(
        "A function here has its own {spent} and that of what worked for it: library functions that it called, the C \
         library, allocators, the kernel. What it called is below it where that was more than a tenth of its {spent}.",
    )));
    let machine = Cmd::top(Limit::Ranks(1, 100), Cost::Time, Incl::Own);
    d.items.push(Item::Link(ctx.link(machine, "each function by itself, libraries and kernel too")));
    let paging = Paging::new(ctx.cmd, &ctx.prefs, ctx.page, r.rows.len());
    let range = Paging::range(paging.as_ref(), r.rows.len());
    let is_last = range.end == r.rows.len();
    let mut table = table(ctx, &r.rows[range]);
    table.paging = paging;
    if is_last && r.not_listed > 0 {
        table.rows.push(more(ctx, r.not_listed, r.seconds_not_listed));
    }
    d.items.push(Item::Table(table));
    d.crumbs = ctx.crumbs(vec![ctx.link(Cmd::Owners, title(ctx))]);
    d.controls = vec![ctx.general_controls()];
    d
}

/// The title of the table of owners.
pub(super) fn title(ctx: &Ctx<'_>) -> String {
    match ctx.measured() {
        measured if measured.is_time() => "Whose time it was".to_owned(),
        measured => format!("Who has the {}", measured.name()),
    }
}

/// The first rows, for the overview, and a row for the rest: at most `rows` owners, each with what it
/// spent most in, in at most `most_lines` lines.
pub(super) fn first(ctx: &Ctx<'_>, r: &OwnersReport, rows: usize, most_lines: usize) -> Item {
    let brief =
        |row: &OwnerRow| OwnerRow { callees: row.callees.iter().take(1).cloned().collect(), ..row.clone() };
    let brief: Vec<OwnerRow> = r.rows.iter().take(rows).map(brief).collect();
    let lines = brief.iter().scan(0, |sum, row| {
        *sum += 1 + row.callees.len();
        Some(*sum)
    });
    let fitting = lines.take_while(|lines| *lines <= most_lines).count().max(1);
    let (_, rest) = r.rows.split_at(r.rows.len().min(fitting));
    let mut table = table(ctx, &brief[..brief.len().min(fitting)]);
    let count = r.not_listed.saturating_add(rest.len() as u64);
    if count > 0 {
        let seconds = rest.iter().map(|row| row.seconds).sum::<f64>() + r.seconds_not_listed;
        table.rows.push(more(ctx, count, seconds));
    }
    Item::Table(table)
}

fn more(ctx: &Ctx<'_>, count: u64, seconds: f64) -> Row {
    let rows = pct_num::count(count, "more row", "more rows");
    Row::Note(vec![Data::Text(format!("{rows} with {}", ctx.cost_in_words(seconds)))])
}

/// A row of the table: an owner, or what it called.
struct Line<'a> {
    name: &'a str,
    function: Option<&'a ProcDesc>,
    own: (f64, f64),
    /// What was called has none here: its row is about one caller.
    total: Option<(f64, f64)>,
}

impl Line<'_> {
    fn name(&self, ctx: &Ctx<'_>) -> Cell {
        Cell::One(match self.function {
            Some(desc) => Data::Link(ctx.proc_link(desc, None)),
            None if ctx.subject.profile.module_id(self.name).is_some() => {
                Data::Link(ctx.link(Cmd::Module(self.name.to_owned()), self.name))
            }
            None => Data::text(self.name),
        })
    }

    /// Its source position, or else its object.
    fn place(&self, ctx: &Ctx<'_>) -> Cell {
        match self.function {
            Some(desc) if !desc.file.is_empty() => ctx.place_cell(&desc.file, desc.line),
            Some(desc) => Cell::One(Data::Link(ctx.link(Cmd::Module(desc.module.clone()), &*desc.module))),
            None => Cell::Empty,
        }
    }
}

fn table(ctx: &Ctx<'_>, rows: &[OwnerRow]) -> Table {
    let number = |text: &str| Head::text(text, ColumnClass::Number);
    let total = |line: &Line<'_>, data: &dyn Fn((f64, f64)) -> Data| match line.total {
        Some(total) => Cell::One(data(total)),
        None => Cell::Empty,
    };
    let columns: Vec<Column<'_, Line<'_>>> = vec![
        Column::new(ctx.name_head(ctx.words().proc), |line: &Line<'_>| line.name(ctx)),
        Column::new(Head::text("Where", ColumnClass::Place), |line: &Line<'_>| line.place(ctx)),
        Column::new(Head { sorted: Some(Sorted::Descending), ..number("Self") }, |line: &Line<'_>| {
            Cell::One(ctx.cost(line.own.0))
        }),
        Column::new(number("%"), |line: &Line<'_>| Cell::One(Data::Percent(line.own.1))),
        Column::new(number("Total"), move |line: &Line<'_>| total(line, &|(s, _)| ctx.cost(s))),
        Column::new(number("%"), move |line: &Line<'_>| total(line, &|(_, share)| Data::Percent(share))),
    ];
    let (lead, figures) = columns.split_at(2);
    let mut head: Vec<HeadGroup> = lead.iter().map(|c| HeadGroup::single(c.head.clone())).collect();
    head.push(HeadGroup {
        title: Some(ctx.measured().heading()),
        heads: figures.iter().map(|c| c.head.clone()).collect(),
        coloured: true,
    });
    let mut table = Table::new(Boxing::ByPref, head);
    let lines: Vec<(bool, Line<'_>)> = rows.iter().flat_map(lines).collect();
    for (is_part, line) in &lines {
        let cells = columns.iter().map(|c| (c.cell)(line)).collect();
        table.rows.push(if *is_part { Row::Part(cells) } else { Row::Cells(cells) });
    }
    table
}

/// An owner, and what it called. The latter are parts of it.
fn lines<'a>(row: &'a OwnerRow) -> impl Iterator<Item = (bool, Line<'a>)> {
    let owner = Line {
        name: &row.name,
        function: row.function.as_ref(),
        own: (row.seconds, row.share),
        total: Some((row.total_seconds, row.total_share)),
    };
    let callee = |callee: &'a CalleeRow| Line {
        name: &callee.name,
        function: callee.function.as_ref(),
        own: (callee.seconds, callee.share),
        total: None,
    };
    let callees = row.callees.iter().map(move |row| (true, callee(row)));
    std::iter::once((false, owner)).chain(callees)
}
