//! Accessors of a module.

use super::ctx::Ctx;
use super::perf::{PerfColumns, cost_key};
use crate::display::table::{Boxing, ColumnClass, Head};
use crate::display::{Cell, Data, Display, HeadGroup, Item, Label, Row, Table};
use crate::query::{Cmd, Order};
use crate::report::getters_setters::{Accessor, Field, GettersSettersReport};

pub(super) fn display(ctx: &Ctx<'_>, r: &GettersSettersReport) -> Display {
    let mut d = Display::new(format!("Getters and setters of {}", r.module));
    d.items.push(Item::Link(ctx.link(Cmd::Module(r.module.clone()), "the module")));
    if r.structures.is_empty() {
        d.items.push(Item::Text("The module has no getters or setters.".to_owned()));
    } else {
        d.items.push(Item::Table(table(ctx, r)));
    }
    d.crumbs = ctx.crumbs(vec![
        ctx.link(Cmd::ProgramModules, "Modules"),
        ctx.link(Cmd::Module(r.module.clone()), &*r.module),
        ctx.link(ctx.cmd.clone(), "getters and setters"),
    ]);
    d.controls = ctx.controls_of_rows();
    d
}

fn table(ctx: &Ctx<'_>, r: &GettersSettersReport) -> Table {
    let columns = PerfColumns::new(ctx.cmd, &ctx.prefs, true, ctx.scale());
    let mut head = vec![
        HeadGroup::single(Head::text("Rank", ColumnClass::Number)),
        HeadGroup::single(ctx.name_head("Field")),
        HeadGroup::single(Head::text("Accessor", ColumnClass::Words)),
    ];
    head.extend(columns.heads.iter().cloned());
    let mut t = Table::new(Boxing::ByPref, head);
    for structure in &r.structures {
        let name = if structure.name.is_empty() { "(no structure named)" } else { structure.name.as_str() };
        t.rows.push(Row::Section(Data::Label(Label::bold(name))));
        let mut fields: Vec<&Field> = structure.fields.iter().collect();
        if let Order::Cost(order) = ctx.prefs.order {
            let key = |f: &Field| cost_key(&f.summary, order);
            fields.sort_by(|a, b| {
                let (a, b) = (key(a), key(b));
                b.0.total_cmp(&a.0).then(b.1.total_cmp(&a.1))
            });
        }
        for (i, field) in fields.into_iter().enumerate() {
            t.rows.push(Row::Separator);
            let rank = || Cell::One(Data::count(i + 1));
            let name = || Cell::One(Data::text(&*field.name));
            let mut push = |rank: Cell, name: Cell, what: Data, perf: &crate::report::common::Perf| {
                let mut cells = vec![rank, name, Cell::One(what)];
                cells.extend(columns.cells(perf));
                t.rows.push(Row::Cells(cells));
            };
            let link = |what: &str, a: &Accessor| match a.procs.as_slice() {
                [one] => {
                    Data::Link(ctx.link(Cmd::Proc(i64::from(one.ps)), what).hint(one.qualified_name.clone()))
                }
                many => Data::text(format!("{what}, {} procedures", many.len())),
            };
            match (&field.getter, &field.setter) {
                (Some(g), Some(s)) => {
                    push(rank(), name(), Data::text("both"), &field.summary);
                    push(Cell::Empty, Cell::Empty, link("getter", g), &g.perf);
                    push(Cell::Empty, Cell::Empty, link("setter", s), &s.perf);
                }
                (Some(g), None) => push(rank(), name(), link("getter", g), &g.perf),
                (None, Some(s)) => push(rank(), name(), link("setter", s), &s.perf),
                (None, None) => {}
            }
        }
    }
    t
}
