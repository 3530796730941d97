//! Top lists.

use super::ctx::Ctx;
use super::flat::{Flat, Keys, Totals};
use crate::display::table::{Column, ColumnClass, Head};
use crate::display::{Cell, Data, Display, Item, format};
use crate::query::{
    AllocFields, Cmd, Cost, CostOrder, Fields, Incl, Limit, MemFields, Order, PortFields, Prefs, Scope,
    TimeFields,
};
use crate::report::top_procs::{TopProc, TopProcsReport, create};

pub(super) fn display(ctx: &Ctx<'_>, r: &TopProcsReport) -> Display {
    let mut d = Display::new(title(ctx, r));
    let procs = ctx.words().procs;
    if r.procs.is_empty() {
        d.items.push(Item::Text(match (r.with_cost, ctx.cmd) {
            (0, Cmd::TopProcs { limit: Limit::Ranks(..), .. }) => format!("None of the {procs} has any."),
            (1, Cmd::TopProcs { limit: Limit::Ranks(..), .. }) => format!("Only one of the {procs} has any."),
            (n, Cmd::TopProcs { limit: Limit::Ranks(..), .. }) => {
                format!("Only {} {procs} have any.", format::count(n))
            }
            _ => format!("None of the {procs} meets the limit."),
        }));
    } else {
        if matches!(ctx.cmd, Cmd::TopProcs { limit: Limit::Ranks(_, hi), .. } if r.with_cost < usize::try_from(*hi).unwrap_or(0))
        {
            d.items.push(Item::Text(format!("No other of the {procs} has any.")));
        }
        // How the rows differ from the figure at the top of the page.
        if r.outside_first > 0 && !ctx.subject.profile.is_native() {
            d.items.push(Item::Text(format!(
                "The program has {} {} more than {}: the runtime calls other {procs} before and after it. The root of \
                 the call graph lists them all.",
                format::int(r.outside_first),
                unit(r.cost),
                ctx.name(&r.procs[0].desc, None),
            )));
        }
        let mut rows: Vec<&TopProc> = r.procs.iter().collect();
        let keys: Keys<'_, &TopProc> = Keys {
            name: Box::new(|p| ctx.name(&p.desc, None)),
            place: Box::new(|p| (p.desc.file.clone(), p.desc.line)),
        };
        ctx.sort(&mut rows, &keys, |p| &p.perf, Totals::Overlap);
        let note = (r.not_listed > 0).then(|| {
            vec![Data::text(format!("{} more {procs} meet the limit.", format::count(r.not_listed)))]
        });
        let mut table = ctx.flat(&columns(ctx, note), &rows, None);
        // A browser that sorted a part of the procedures would give them ranks that are others'. (The root has no row.)
        table.flat &= rows.len() + 1 >= ctx.subject.profile.ps_count();
        d.items.push(Item::Table(table));
    }
    d.crumbs = ctx.crumbs(vec![ctx.link(ctx.cmd.clone(), format!("Top {procs}"))]);
    d.controls = vec![ctx.top_controls()];
    d.controls.extend(ctx.controls_of_procedures());
    d
}

fn columns<'a>(ctx: &'a Ctx<'_>, note: Option<Vec<Data>>) -> Flat<'a, &'a TopProc> {
    let mut lead = vec![
        Column::new(ctx.place_head("Source"), |p: &&TopProc| ctx.place_cell(&p.desc.file, p.desc.line)),
        Column::new(ctx.name_head(ctx.words().proc), |p: &&TopProc| {
            Cell::One(Data::Link(ctx.proc_link(&p.desc, None)))
        }),
    ];
    if ctx.subject.profile.is_native() {
        lead.push(Column::new(Head::text("Object", ColumnClass::Place), |p: &&TopProc| {
            Cell::One(Data::Link(ctx.link(Cmd::Module(p.desc.module.clone()), &*p.desc.module)))
        }));
    }
    Flat { lead, perf: |p| &p.perf, totals: Totals::Overlap, rest: None, note }
}

fn unit(cost: Cost) -> &'static str {
    match cost {
        Cost::Time => "clock ticks",
        Cost::Callseqs => "call sequence numbers",
        Cost::Allocs => "allocations",
        Cost::Words => "words",
        Cost::Calls => "calls",
        Cost::Redos => "redos",
    }
}

fn title(ctx: &Ctx<'_>, r: &TopProcsReport) -> String {
    let mut by = if r.cost == Cost::Time { ctx.spent() } else { r.cost.label() }.to_owned();
    if !matches!(r.cost, Cost::Calls | Cost::Redos) {
        by.push_str(match r.incl {
            Incl::Own => ", self",
            Incl::Total => ", self and descendants",
        });
        if r.scope == Scope::PerCall {
            by.push_str(", per call");
        }
    }
    let words = ctx.words();
    // A list may end before the requested ranks do, so the title counts the listed ones.
    let listed = r.procs.len() + r.not_listed;
    match ctx.cmd {
        Cmd::TopProcs { limit: Limit::Ranks(lo, _), .. } if *lo <= 1 => match listed {
            0 => format!("Top {} by {by}", words.procs),
            1 => format!("Top {} by {by}", words.proc.to_lowercase()),
            n => format!("Top {} {} by {by}", format::count(n), words.procs),
        },
        Cmd::TopProcs { limit: Limit::Ranks(lo, _), .. } => match listed {
            0 => format!("{}s from rank {} on, by {by}", words.proc, format::int(*lo)),
            1 => format!("{} ranked {} by {by}", words.proc, format::int(*lo)),
            n => {
                let last = lo.saturating_add(i64::try_from(n - 1).unwrap_or(i64::MAX));
                format!("{}s ranked {} to {} by {by}", words.proc, format::int(*lo), format::int(last))
            }
        },
        Cmd::TopProcs { limit: Limit::Percent(p), .. } => {
            format!("{}s above {p}% of the program, by {by}", ctx.words().proc)
        }
        Cmd::TopProcs { limit: Limit::Value(v), .. } => format!("{}s above {v}, by {by}", ctx.words().proc),
        _ => format!("{}s by {by}", ctx.words().proc),
    }
}

/// The procedures with the highest cost of their own, for the menu.
pub(super) fn hottest(ctx: &Ctx<'_>, cost: Cost, rows: i64) -> Item {
    let cmd = Cmd::top(Limit::Ranks(1, 100), cost, Incl::Own);
    let order = Order::Cost(CostOrder { cost, incl: Incl::Own, scope: Scope::Overall });
    // It has only a few columns: the table is a first answer, and its links lead to more.
    let fields = Fields { port: PortFields::None, allocs: AllocFields::None, ..ctx.prefs.fields };
    let fields = match cost {
        Cost::Words => Fields { time: TimeFields::None, memory: MemFields::Bytes, ..fields },
        _ => Fields { memory: MemFields::None, ..fields },
    };
    let inner = Ctx { subject: ctx.subject, cmd: &cmd, page: 1, prefs: Prefs { order, fields, ..ctx.prefs } };
    match create(&ctx.subject.profile, Limit::Ranks(1, rows), cost, Incl::Own, Scope::Overall) {
        Ok(r) if !r.procs.is_empty() => {
            let rows: Vec<&TopProc> = r.procs.iter().collect();
            let mut shown = columns(&inner, None);
            if cost == Cost::Words {
                // Memory stands beside another table, where there is room for names alone.
                shown.lead.retain(|column| column.head.class == ColumnClass::Name);
            }
            let mut table = inner.flat(&shown, &rows, None);
            table.flat = false;
            Item::Table(table)
        }
        _ => Item::Text(format!("None of the {} has any cost.", ctx.words().procs)),
    }
}
