//! The first page of a native program's recording: where the time went, which threads used it, and the account.

use super::ctx::Ctx;
use crate::display::table::{Boxing, Column, ColumnClass, Head};
use crate::display::{
    Cell, Data, Display, HeadGroup, Item, Label, List, ListClass, MemUnit, Row, Table, format,
};
use crate::query::{Cmd, Cost, Incl, Limit};
use crate::report::flame;
use crate::report::menu::MenuReport;
use crate::report::overview::{OverviewReport, ThreadRow};
use pct_deep::native::Allocated;

/// Levels of the flame graph on this page. Its own page shows all.
const LEVELS: u32 = 28;

pub(super) fn display(ctx: &Ctx<'_>, r: &MenuReport) -> Display {
    let mut d = Display::new(r.program.clone());
    d.items.extend(r.warnings.iter().map(|w| Item::Warning(w.clone())));
    if let Some(o) = &r.recording {
        if !o.headline.is_empty() {
            d.items.push(Item::Text(o.headline.clone()));
        }
        if !o.stacks_known {
            d.items.push(Item::Warning(
                "This recording has no stacks: who called whom is not known, the tables are flat. \
                 `pct run -- COMMAND` records stacks unless it is told --stack none."
                    .to_owned(),
            ));
        }
        if o.folded_seconds > 0.0 {
            d.items.push(Item::Warning(format!(
                "{} CPU s are in call contexts that were folded into one for each function: there are too many.",
                format::float(o.folded_seconds, 3)
            )));
        }
    }
    let stacked = r.recording.as_ref().is_none_or(|o| o.stacks_known);
    let flame = flame::create(ctx.subject).ok().filter(|_| stacked);
    match &flame {
        Some(f) => d.items.push(super::flame::picture(ctx, f, LEVELS, false)),
        None if stacked => {
            d.items.push(super::tree::overview(ctx, ctx.subject.profile.root_clique(), Cost::Time));
        }
        None => {}
    }
    d.items.push(ways(ctx, r, flame.is_some(), stacked));
    d.items.push(Item::Heading("Functions with most time of their own".to_owned()));
    d.items.push(super::top_procs::hottest(ctx, Cost::Time, 15));
    if let Some(o) = &r.recording {
        recording(o, &mut d);
    }
    let size = |n: usize| Data::Int(i64::try_from(n).unwrap_or(i64::MAX));
    d.items.push(Item::Heading("The profile".to_owned()));
    let mut facts = vec![("CPU seconds", Data::Seconds(r.total_seconds))];
    if let Some(o) = &r.recording {
        facts.push(("Samples", Data::Int(i64::try_from(o.samples).unwrap_or(i64::MAX))));
        if o.rate_hz > 0 {
            facts.push(("Samples a CPU second", Data::Int(i64::try_from(o.rate_hz).unwrap_or(i64::MAX))));
        }
    }
    if let Some(memory) = ctx.subject.memory() {
        let whole = ctx.subject.profile.root_total();
        let scale = f64::from(ctx.subject.profile.header().bytes_per_word);
        facts.push((super::perf::blocks_head(memory), Data::Int(whole.allocs)));
        facts.push((
            super::perf::bytes_head(memory),
            Data::Memory(whole.words as f64 * scale, MemUnit::Bytes, 0),
        ));
    }
    facts.extend([
        ("Functions", size(r.pss.saturating_sub(1))),
        ("Objects", size(r.modules)),
        ("Call sites", size(r.csss)),
        ("Call contexts: a function with those that called it", size(r.pds)),
    ]);
    d.items.push(Item::Table(Table::facts(facts)));
    d.controls = vec![ctx.general_controls(), ctx.developer_controls()];
    d
}

fn ways(ctx: &Ctx<'_>, r: &MenuReport, flame: bool, stacked: bool) -> Item {
    let ranks = Limit::Ranks(1, 100);
    let list = |title: &str, items: Vec<Item>| {
        Item::List(List { class: ListClass::Bullets, title: Some(title.to_owned()), items })
    };
    let mut out = Vec::new();
    if stacked {
        out.push(Item::Link(ctx.link(Cmd::Root(None), "from the program down, call by call")));
        out.push(Item::Link(ctx.link(Cmd::Root(Some(90)), "where the action starts")));
    }
    if flame {
        out.push(Item::Link(ctx.link(Cmd::Flame, "the whole flame graph")));
    }
    if stacked {
        let root = i64::from(ctx.subject.profile.root_clique().number());
        out.push(Item::Link(ctx.link(Cmd::CliqueTree(root, Cost::Time), "the call graph, recursion folded")));
        if ctx.subject.memory().is_some() {
            let label = "the call graph by memory in place of time";
            out.push(Item::Link(ctx.link(Cmd::CliqueTree(root, Cost::Words), label)));
        }
    }
    let mut lists = Vec::new();
    let mut tables =
        vec![Item::Link(ctx.link(Cmd::top(ranks, Cost::Time, Incl::Own), "functions by their own time"))];
    if stacked {
        tables.push(Item::Link(
            ctx.link(Cmd::top(ranks, Cost::Time, Incl::Total), "functions by all time in and below them"),
        ));
        lists.push(list("Who calls whom", out));
    }
    if let Some(memory) = ctx.subject.memory() {
        let what = match memory {
            Allocated::All => "allocated",
            Allocated::Live => "allocated and that is live",
            Allocated::Peak => "allocated and that was live at the peak",
        };
        for (incl, label) in [
            (Incl::Own, format!("functions by the memory that they {what}")),
            (Incl::Total, format!("functions by the memory that they and their callees {what}")),
        ] {
            tables.push(Item::Link(ctx.link(Cmd::top(ranks, Cost::Words, incl), label)));
        }
    }
    tables.push(Item::Link(ctx.link(Cmd::ProgramModules, "objects: programs and libraries")));
    if r.others > 0 {
        tables.push(Item::Link(ctx.link(Cmd::Recordings, "other recordings, and what changed")));
    }
    lists.push(list("Tables", tables));
    Item::Columns(lists)
}

fn recording(o: &OverviewReport, d: &mut Display) {
    if o.threads.len() > 1 || o.processes > 1 {
        d.items.push(Item::Heading("Threads".to_owned()));
        d.items.push(Item::Table(threads(o)));
    }
    if !o.account.is_empty() {
        d.items.push(Item::Heading("What was accounted for".to_owned()));
        d.items.push(Item::List(List {
            class: ListClass::Bullets,
            title: None,
            items: o.account.iter().map(|line| Item::Text(line.clone())).collect(),
        }));
    }
}

fn threads(o: &OverviewReport) -> Table {
    let several = o.processes > 1;
    let mut columns: Vec<Column<'_, ThreadRow>> = vec![
        Column::new(Head::text("Thread", ColumnClass::Words), |t: &ThreadRow| {
            Cell::One(Data::Text(if t.name.is_empty() { "(no name)".to_owned() } else { t.name.clone() }))
        }),
        Column::new(Head::text("Id", ColumnClass::Number), |t: &ThreadRow| {
            Cell::One(Data::Text(t.tid.to_string()))
        }),
    ];
    if several {
        columns.push(Column::new(Head::text("Process", ColumnClass::Words), |t: &ThreadRow| {
            Cell::One(Data::Text(format!("{} ({})", t.process, t.pid)))
        }));
    }
    columns.extend([
        Column::new(Head::text("CPU seconds", ColumnClass::Number), |t: &ThreadRow| {
            Cell::One(Data::Seconds(t.seconds))
        }),
        Column::new(Head::text("%", ColumnClass::Number), |t: &ThreadRow| Cell::One(Data::Percent(t.share))),
        Column::new(Head::text("Samples", ColumnClass::Number), |t: &ThreadRow| {
            Cell::One(Data::Int(i64::try_from(t.samples).unwrap_or(i64::MAX)))
        }),
    ]);
    let mut table =
        Table::new(Boxing::ByPref, columns.iter().map(|c| HeadGroup::single(c.head.clone())).collect());
    for t in &o.threads {
        table.rows.push(Row::Cells(columns.iter().map(|c| (c.cell)(t)).collect()));
    }
    table.flat = true;
    let (more, seconds) = o.threads_not_listed;
    if more > 0 {
        table.flat = false;
        table.rows.push(Row::Note(vec![Data::Label(Label::plain(format!(
            "{} more threads with {} CPU s",
            format::count(more),
            format::float(seconds, 3)
        )))]));
    }
    table
}
