//! The available profiles.

use super::ctx::Ctx;
use crate::display::table::{Boxing, ColumnClass, Head};
use crate::display::{Cell, Data, Display, HeadGroup, Item, Row, Table};
use crate::query::{Cmd, DiffScale, DiffWhat, Incl};
use crate::report::recordings::RecordingsReport;

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
    let head = [
        Head::text("Recording", ColumnClass::Name),
        Head::text("CPU seconds used", ColumnClass::Number).help(
            "what the system counted for all processes, where the recording has it; samples may hold less",
        ),
        Head::text("Begun", ColumnClass::Words),
        Head::text("Kind", ColumnClass::Words),
        Head::text("Command", ColumnClass::Words),
        Head::text("Compare", ColumnClass::Words),
    ];
    let mut t = Table::new(Boxing::ByPref, head.into_iter().map(HeadGroup::single).collect());
    for e in &r.entries {
        let kind = if e.running { format!("{}, still running", e.kind) } else { e.kind.clone() };
        let compare = if e.name == r.this {
            Data::text("(the one that is open)")
        } else {
            let cmd = Cmd::Diff {
                base: e.name.clone(),
                what: DiffWhat::Procs,
                incl: Incl::Own,
                scale: DiffScale::Absolute,
            };
            Data::Link(ctx.link(cmd, "what changed from this to the open one"))
        };
        t.rows.push(Row::Cells(vec![
            Cell::One(Data::Link(ctx.link(Cmd::Menu, &*e.name).into_file(&*e.name))),
            e.cpu_seconds.map_or(Cell::Empty, |s| Cell::One(Data::Seconds(s))),
            Cell::One(Data::Text(e.when.clone())),
            Cell::One(Data::Text(kind)),
            Cell::One(Data::Text(e.title.clone())),
            Cell::One(compare),
        ]));
    }
    t.flat = true;
    t
}
