//! A procedure's page.

use super::clique::site_kind_label;
use super::controls::Hideable;
use super::ctx::{Ctx, hidden, place};
use super::flat::{Flat, Keys, Totals};
use super::perf::{PerfColumns, sort_by_cost};
use crate::display::table::{Boxing, Column, ColumnClass, Head, Paging};
use crate::display::{
    Cell, Data, Display, HeadGroup, Item, Label, Link, List, ListClass, Row, Table, format,
};
use crate::query::{Cmd, Order, Prefs, Summarise};
use crate::report::common::{Perf, Rest};
use crate::report::proc::{ProcCallee, ProcReport, ProcSite};

pub(super) fn display(ctx: &Ctx<'_>, r: &ProcReport) -> Display {
    let mut d = Display::new(format!("{} {}", ctx.words().proc, r.desc.qualified_name));
    let mut facts = Vec::new();
    if !r.desc.file.is_empty() {
        let whole = place(&r.desc.file, r.desc.line);
        facts.push(match ctx.place_data(&r.desc.file, r.desc.line) {
            Data::Link(link) => Item::Link(Link { label: Label::plain(whole), ..link }),
            _ => Item::Text(whole),
        });
    }
    if ctx.subject.profile.is_native() && !r.desc.module.is_empty() {
        facts.push(Item::Link(ctx.link(Cmd::Module(r.desc.module.clone()), &*r.desc.module)));
    }
    let contexts = if r.contexts == 1 { "context" } else { "contexts" };
    facts.push(Item::Text(format!("\u{b7} {} call {contexts}", format::count(r.contexts))));
    d.items.push(Item::List(List { class: ListClass::Horizontal, title: None, items: facts }));
    if let Some(around) = &r.neighbours {
        d.items.push(Item::Heading("Callers".to_owned()));
        d.items.push(neighbours(ctx, &around.callers, around.callers_rest.as_ref(), "Nothing calls it."));
        d.items.push(Item::Heading("Callees".to_owned()));
        d.items.push(neighbours(ctx, &around.callees, around.callees_rest.as_ref(), "It calls nothing."));
        d.items.push(Item::Heading("Lines that call".to_owned()));
    } else {
        d.items.push(ctx.caller_controls(r.desc.ps));
    }
    d.items.push(Item::Table(table(ctx, r)));
    d.crumbs = ctx.crumbs(vec![
        ctx.link(Cmd::ProgramModules, ctx.modules_title()),
        ctx.link(Cmd::Module(r.desc.module.clone()), &*r.desc.module),
        ctx.link(ctx.cmd.clone(), &*r.desc.name),
    ]);
    if ctx.subject.profile.module_id(&r.desc.module).is_none()
        || r.desc.module == crate::report::modules::RUNTIME
    {
        d.crumbs = ctx.crumbs(vec![ctx.link(ctx.cmd.clone(), &*r.desc.name)]);
    }
    if r.neighbours.is_some() {
        d.controls.push(ctx.caller_controls(r.desc.ps));
    }
    d.controls.extend([
        ctx.summarise_controls(),
        ctx.inactive_controls(Hideable::Sites),
        ctx.qualify_controls(),
    ]);
    d.controls.extend(ctx.controls_of_rows());
    d
}

/// Most callers or callees that the page lists.
const NEIGHBOURS: usize = 30;

/// A table of functions that call or are called.
fn neighbours(ctx: &Ctx<'_>, rows: &[ProcCallee], rest: Option<&Rest>, none: &str) -> Item {
    if rows.is_empty() {
        return Item::Text(none.to_owned());
    }
    let mut rows: Vec<&ProcCallee> = rows.iter().collect();
    let keys = Keys {
        name: Box::new(|row: &&ProcCallee| ctx.name(&row.desc, None)),
        place: Box::new(|row: &&ProcCallee| (row.desc.file.clone(), row.desc.line)),
    };
    ctx.sort(&mut rows, &keys, |row| &row.perf, Totals::Add);
    let flat = Flat {
        lead: vec![
            Column::new(ctx.name_head(ctx.words().proc), |row: &&ProcCallee| {
                Cell::One(Data::Link(ctx.proc_link(&row.desc, None)))
            }),
            Column::new(Head::text(ctx.words().module, ColumnClass::Place), |row: &&ProcCallee| {
                Cell::One(Data::Link(ctx.link(Cmd::Module(row.desc.module.clone()), &*row.desc.module)))
            }),
        ],
        perf: |row: &&ProcCallee| &row.perf,
        totals: Totals::Add,
        rest,
        note: None,
    };
    let shown = rows.len().min(NEIGHBOURS);
    Item::Table(ctx.flat(&flat, &rows, Some(0..shown)))
}

/// A line of the table of call sites, with its call site.
enum Line<'a> {
    Site(&'a ProcSite),
    Callee(&'a ProcSite, &'a ProcCallee),
    Rest(&'a ProcSite, &'a Rest),
}

fn table(ctx: &Ctx<'_>, r: &ProcReport) -> Table {
    let current = Some(r.desc.module.as_str());
    let columns = PerfColumns::new(ctx.cmd, &ctx.prefs, true, ctx.scale());
    let mut head =
        vec![HeadGroup::single(ctx.place_head("Source")), HeadGroup::single(ctx.name_head(ctx.words().proc))];
    head.extend(columns.heads.iter().cloned());
    let mut t = Table::new(Boxing::ByPref, head);
    let row = |lead: Vec<Cell>, perf: &Perf| {
        let mut cells = lead;
        cells.extend(columns.cells(perf));
        Row::Cells(cells)
    };
    let c = &r.callers;
    let from = format!(
        "Calls from {} other procedures, {} call sites, {} call edges",
        format::count(c.procs),
        format::count(c.csss),
        format::count(c.csds)
    );
    t.rows.push(Row::Developer(Box::new(row(vec![Cell::Span(Data::text(from), 2)], &c.perf))));
    t.rows.push(Row::Developer(Box::new(Row::Separator)));
    let name = Data::Label(Label::bold(ctx.name(&r.desc, current)));
    t.rows.push(row(vec![Cell::Span(name, 2)], &r.perf));
    t.rows.push(Row::Separator);

    let mut sites: Vec<&ProcSite> = r
        .sites
        .iter()
        .filter(|s| !(s.kind == "normal" && hidden(!s.callees.is_empty(), ctx.prefs.inactive_sites)))
        .collect();
    let silent = r.sites.len() - sites.len();
    match ctx.prefs.order {
        Order::Context => sites.sort_by_cached_key(|s| (s.site.file.clone(), s.site.line, s.site.slot)),
        // Sites without a fixed callee come first.
        Order::Name => sites.sort_by_cached_key(|s| match &s.site.callee {
            None => (false, String::new()),
            Some(callee) => (true, ctx.name(callee, current)),
        }),
        Order::Cost(order) => sort_by_cost(&mut sites, order, |s| &s.summary),
    }
    // All lines are collected first, to cut the page out of them. Only the page's lines become rows.
    let mut lines: Vec<Line<'_>> = Vec::new();
    for s in sites {
        lines.push(Line::Site(s));
        if s.site.callee.is_some() || ctx.prefs.summarise == Summarise::Sum {
            continue;
        }
        let mut callees: Vec<&ProcCallee> = s.callees.iter().collect();
        match ctx.prefs.order {
            Order::Context => callees.sort_by_cached_key(|c| (c.desc.file.clone(), c.desc.line)),
            Order::Name => callees.sort_by_cached_key(|c| ctx.name(&c.desc, current)),
            Order::Cost(order) => sort_by_cost(&mut callees, order, |c| &c.perf),
        }
        lines.extend(callees.into_iter().map(|c| Line::Callee(s, c)));
        lines.extend(s.rest.as_ref().map(|rest| Line::Rest(s, rest)));
    }
    let paging = Paging::new(ctx.cmd, &ctx.prefs, ctx.page, lines.len());
    let range = Paging::range(paging.as_ref(), lines.len());
    let site_row = |s: &ProcSite| {
        let source = ctx.place_cell(&s.site.file, s.site.line);
        let name = match &s.site.callee {
            Some(callee) => {
                let mut name = ctx.name(callee, current);
                if !s.type_subst.is_empty() {
                    name.push_str(&format!(" [{}]", s.type_subst));
                }
                Data::Link(ctx.link(Cmd::Proc(i64::from(callee.ps)), name))
            }
            None => {
                let kind = site_kind_label(ctx, s.kind);
                Data::Text(if s.callees.is_empty() {
                    format!("{kind} (no calls made)")
                } else {
                    kind.to_owned()
                })
            }
        };
        row(vec![source, Cell::One(name)], &s.summary)
    };
    // A page that begins among the callees of a call site names that site.
    if let Some(Line::Callee(s, _) | Line::Rest(s, _)) = lines.get(range.start) {
        t.rows.push(site_row(s));
    }
    for line in &lines[range] {
        t.rows.push(match line {
            Line::Site(s) => site_row(s),
            Line::Callee(_, callee) => {
                let link = Data::Link(ctx.proc_link(&callee.desc, current));
                row(vec![Cell::Empty, Cell::One(link)], &callee.perf)
            }
            Line::Rest(_, rest) => {
                let label = format!("{} more callees", format::count(rest.count));
                row(vec![Cell::Empty, Cell::One(Data::text(label))], &rest.perf)
            }
        });
    }
    t.paging = paging;
    let show = Prefs { inactive_sites: crate::query::Inactive::Show, ..ctx.prefs };
    t.rows.extend(ctx.hidden_note(silent, "call sites", show).map(Row::Note));
    t
}
