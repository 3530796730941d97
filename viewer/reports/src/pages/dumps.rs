//! Raw dumps.

use super::ctx::{Ctx, place};
use super::perf::PerfColumns;
use crate::display::table::{Boxing, ColumnClass, Head};
use crate::display::{Cell, Data, Display, HeadGroup, Item, Row, Table, format};
use crate::query::Cmd;
use crate::report::dumps::{DumpClique, DumpCsd, DumpCss, DumpPd, DumpPs};

fn page(ctx: &Ctx<'_>, title: String) -> Display {
    let mut d = Display::new(&*title);
    d.crumbs = ctx.crumbs(vec![ctx.link(ctx.cmd.clone(), title)]);
    d.controls = vec![ctx.general_controls()];
    d
}

fn yes(b: bool) -> Data {
    Data::text(if b { "yes" } else { "no" })
}

fn link(ctx: &Ctx<'_>, cmd: Cmd, label: String) -> Data {
    Data::Link(ctx.link(cmd, label))
}

fn ps_link(ctx: &Ctx<'_>, n: u32) -> Data {
    link(ctx, Cmd::DumpPs(i64::from(n)), format!("ps {n}"))
}

fn pd_link(ctx: &Ctx<'_>, n: u32) -> Data {
    link(ctx, Cmd::DumpPd(i64::from(n)), format!("pd {n}"))
}

fn csd_link(ctx: &Ctx<'_>, n: u32) -> Data {
    link(ctx, Cmd::DumpCsd(i64::from(n)), format!("csd {n}"))
}

fn css_link(ctx: &Ctx<'_>, n: u32) -> Data {
    link(ctx, Cmd::DumpCss(i64::from(n)), format!("css {n}"))
}

fn heads(names: &[(&str, ColumnClass)]) -> Vec<HeadGroup> {
    names.iter().map(|(n, c)| HeadGroup::single(Head::text(n, *c))).collect()
}

pub(super) fn ps(ctx: &Ctx<'_>, r: &DumpPs) -> Display {
    let mut d = page(ctx, format!("Procedure static {}", r.desc.ps));
    d.items.push(Item::Table(Table::facts(vec![
        ("raw name", Data::text(&*r.raw_name)),
        ("refined name", Data::text(&*r.desc.name)),
        ("qualified name", link(ctx, Cmd::Proc(i64::from(r.desc.ps)), r.desc.qualified_name.clone())),
        ("source", Data::Text(place(&r.desc.file, r.desc.line))),
        ("in its module's interface", yes(r.in_interface)),
        ("call sites", Data::count(r.sites)),
        ("coverage points", Data::count(r.coverage_points)),
    ])));
    d
}

pub(super) fn pd(ctx: &Ctx<'_>, r: &DumpPd) -> Display {
    let mut d = page(ctx, format!("Procedure dynamic {}", r.pd));
    d.items.push(Item::Table(Table::facts(vec![
        ("procedure static", ps_link(ctx, r.desc.ps)),
        ("raw name", Data::text(&*r.raw_name)),
        ("declaring module", Data::text(&*r.desc.module)),
        ("refined name", Data::text(&*r.desc.name)),
        ("qualified name", link(ctx, Cmd::Proc(i64::from(r.desc.ps)), r.desc.qualified_name.clone())),
        ("clique", link(ctx, Cmd::Clique(i64::from(r.clique)), format!("clique {}", r.clique))),
    ])));
    if r.has_coverage {
        d.items.push(Item::Link(
            ctx.link(Cmd::DynamicCoverage(i64::from(r.pd)), "text with the counts of this context"),
        ));
    }
    if !r.slots.is_empty() {
        let mut t = Table::new(
            Boxing::Always,
            heads(&[
                ("Slot", ColumnClass::Number),
                ("Call site", ColumnClass::Words),
                ("Kind", ColumnClass::Words),
                ("Call site dynamics", ColumnClass::Words),
            ]),
        );
        for (i, slot) in r.slots.iter().enumerate() {
            let lead = vec![
                Cell::One(Data::count(i + 1)),
                Cell::One(css_link(ctx, slot.css)),
                Cell::One(Data::Text(slot.kind.replace('_', " "))),
            ];
            let row =
                |last: Data, lead: Vec<Cell>| Row::Cells(lead.into_iter().chain([Cell::One(last)]).collect());
            if slot.kind == "normal" {
                let last = slot.csds.first().map_or_else(|| Data::text("none"), |&c| csd_link(ctx, c));
                t.rows.push(row(last, lead));
                continue;
            }
            let zeroed = if slot.zeroed { "zeroed" } else { "not zeroed" };
            let text = format!("multi, {} csds ({zeroed})", format::count(slot.count));
            t.rows.push(row(Data::Text(text), lead));
            for &csd in &slot.csds {
                t.rows.push(row(csd_link(ctx, csd), vec![Cell::Empty, Cell::Empty, Cell::Empty]));
            }
        }
        d.items.push(Item::Heading("Call sites".to_owned()));
        d.items.push(Item::Table(t));
    }
    if !r.coverage.is_empty() {
        let mut t = Table::new(
            Boxing::Always,
            heads(&[
                ("Goal path", ColumnClass::Words),
                ("Counts", ColumnClass::Words),
                ("Times", ColumnClass::Number),
            ]),
        );
        for p in &r.coverage {
            t.rows.push(Row::Cells(vec![
                Cell::One(Data::text(&*p.goal_path)),
                Cell::One(Data::Text(p.kind.replace('_', " "))),
                Cell::One(Data::Int(i64::try_from(p.count).unwrap_or(i64::MAX))),
            ]));
        }
        d.items.push(Item::Heading("Coverage points".to_owned()));
        d.items.push(Item::Table(t));
    }
    d
}

pub(super) fn css(ctx: &Ctx<'_>, r: &DumpCss) -> Display {
    let mut d = page(ctx, format!("Call site static {}", r.site.css));
    let mut facts = vec![
        ("in procedure static", ps_link(ctx, r.site.container.ps)),
        ("its name", Data::text(&*r.site.container.qualified_name)),
        ("slot", Data::count(r.site.slot + 1)),
        ("source", Data::Text(place(&r.site.file, r.site.line))),
        ("goal path", Data::text(&*r.site.goal_path)),
        ("kind", Data::Text(r.kind.replace('_', " "))),
    ];
    if let Some(callee) = &r.site.callee {
        facts.push(("callee", ps_link(ctx, callee.ps)));
        facts.push(("callee's name", Data::text(&*callee.qualified_name)));
    }
    if !r.type_subst.is_empty() {
        facts.push(("type specialisation", Data::text(&*r.type_subst)));
    }
    d.items.push(Item::Table(Table::facts(facts)));
    d
}

pub(super) fn csd(ctx: &Ctx<'_>, r: &DumpCsd) -> Display {
    let mut d = page(ctx, format!("Call site dynamic {}", r.csd));
    d.items.push(Item::Table(Table::facts(vec![
        ("caller", pd_link(ctx, r.caller)),
        ("its procedure", Data::text(&*r.caller_proc.qualified_name)),
        ("callee", pd_link(ctx, r.callee)),
        ("its procedure", Data::text(&*r.callee_proc.qualified_name)),
        ("call site", css_link(ctx, r.site.css)),
    ])));
    let columns = PerfColumns::new(ctx.cmd, &ctx.prefs, true, ctx.scale());
    let mut head = heads(&[("Source", ColumnClass::Words), ("Call site", ColumnClass::Words)]);
    head.extend(columns.heads.iter().cloned());
    let mut t = Table::new(Boxing::Always, head);
    let name = format!("{} @ {} #{}", r.site.container.qualified_name, r.site.goal_path, r.site.slot + 1);
    let mut cells =
        vec![Cell::One(Data::Text(place(&r.site.file, r.site.line))), Cell::One(Data::Text(name))];
    cells.extend(columns.cells(&r.perf));
    t.rows.push(Row::Cells(cells));
    d.items.push(Item::Table(t));
    d
}

pub(super) fn clique(ctx: &Ctx<'_>, r: &DumpClique) -> Display {
    let mut d = page(ctx, format!("Clique {}, raw", r.clique));
    d.items.push(Item::Table(Table::facts(vec![
        ("entered by", r.entry.map_or_else(|| Data::text("nothing: the root's"), |n| csd_link(ctx, n))),
        ("contexts", Data::count(r.count)),
    ])));
    let mut t = Table::new(
        Boxing::Always,
        heads(&[("Member", ColumnClass::Words), ("Procedure", ColumnClass::Words)]),
    );
    for m in &r.members {
        t.rows.push(Row::Cells(vec![
            Cell::One(pd_link(ctx, m.pd)),
            Cell::One(Data::text(&*m.desc.qualified_name)),
        ]));
    }
    if r.members.len() < r.count {
        t.rows.push(Row::Note(vec![Data::text(format!("{} more", r.count - r.members.len()))]));
    }
    d.items.push(Item::Table(t));
    d
}
