//! The available profiles.

use super::ctx::Ctx;
use crate::display::table::{Boxing, Column, ColumnClass, Head};
use crate::display::{Cell, Data, Display, HeadGroup, Item, Row, Table};
use crate::query::{Cmd, DiffScale, DiffWhat, Incl};
use crate::report::recordings::RecordingsReport;
use crate::subject::ShelfEntry;

pub(super) fn display(ctx: &Ctx<'_>, r: &RecordingsReport) -> Display {
    let mut d = Display::new("Recordings");
    if r.entries.is_empty() {
        d.items.push(Item::Text("This is the only one.".to_owned()));
    } else {
        d.items.push(Item::Table(table(ctx, r)));
    }
    d.crumbs = ctx.crumbs(vec![ctx.link(Cmd::Recordings, "Recordings")]);
    d.controls = vec![ctx.general_controls()];
    d
}

fn table(ctx: &Ctx<'_>, r: &RecordingsReport) -> Table {
    // The number is beside the name and the long command comes last, so that a narrow window shows what matters.
    let mut columns: Vec<Column<'_, ShelfEntry>> =
        vec![Column::new(Head::text("Recording", ColumnClass::Name), |e: &ShelfEntry| {
            Cell::One(Data::Link(ctx.link(Cmd::Menu, &*e.name).into_file(&*e.name)))
        })];
    let others = r.entries.iter().any(|e| e.amount.is_some());
    if !others || r.entries.iter().any(|e| e.cpu_seconds.is_some()) {
        let head = Head::text("CPU seconds used", ColumnClass::Number).help(
            "what the system counted for all processes, where the recording has it; samples may hold less",
        );
        columns.push(Column::new(head, |e: &ShelfEntry| {
            e.cpu_seconds.map_or(Cell::Empty, |s| Cell::One(Data::Seconds(s)))
        }));
    }
    if others {
        let head = Head::text("Other amount", ColumnClass::Number)
            .help("what is no CPU time, of those that were read");
        columns.push(Column::new(head, |e: &ShelfEntry| {
            e.amount.clone().map_or(Cell::Empty, |amount| Cell::One(Data::Text(amount)))
        }));
    }
    columns.push(Column::new(Head::text("Begun", ColumnClass::Words), |e: &ShelfEntry| {
        Cell::One(Data::Text(e.when.clone()))
    }));
    columns.push(Column::new(Head::text("Kind", ColumnClass::Words), |e: &ShelfEntry| {
        Cell::One(Data::Text(if e.running { format!("{}, still running", e.kind) } else { e.kind.clone() }))
    }));
    columns.push(Column::new(Head::text("Command", ColumnClass::Words), |e: &ShelfEntry| {
        Cell::One(Data::Text(e.title.clone()))
    }));
    columns.push(Column::new(Head::text("Compare", ColumnClass::Words), |e: &ShelfEntry| {
        if e.name == r.this {
            return Cell::One(Data::text("(the one that is open)"));
        }
        let cmd = Cmd::Diff {
            base: e.name.clone(),
            what: DiffWhat::Owners,
            incl: Incl::Own,
            scale: DiffScale::Absolute,
        };
        Cell::One(Data::Link(ctx.link(cmd, "what changed from this to the open one")))
    }));
    let head = columns.iter().map(|c| HeadGroup::single(c.head.clone())).collect();
    let mut t = Table::new(Boxing::ByPref, head);
    for e in &r.entries {
        t.rows.push(Row::Cells(columns.iter().map(|c| (c.cell)(e)).collect()));
    }
    t.flat = true;
    t
}
