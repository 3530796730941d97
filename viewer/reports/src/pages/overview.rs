//! The first page of a native program's recording: where the time went, which threads used it, and the account.

use super::ctx::Ctx;
use crate::display::table::{Boxing, Column, ColumnClass, Head};
use crate::display::{
    Cell, Data, Display, HeadGroup, Item, Label, List, ListClass, MemUnit, Row, Table, format,
};
use crate::query::{Cmd, Cost, Incl, Limit, PartFilter, WaitsOf};
use crate::report::flame;
use crate::report::menu::MenuReport;
use crate::report::overview::{OverviewReport, ThreadRow};
use crate::report::owners;
use crate::report::waits;
use pct_deep::measured::Measured;
use pct_deep::native::Allocated;

/// Levels of the flame graph on this page. Its own page shows all.
const LEVELS: u32 = 13;
/// Owners on this page. Their own page shows all.
const OWNERS: usize = 10;
/// Lines of owners and of what they called: so many fit into a window of 900 pixels.
const LINES: usize = 13;
/// Locks on this page. Their own page shows more.
const LOCKS: usize = 3;
/// Functions by their memory on this page.
const MEMORY: i64 = 4;
/// Threads on this page. The timeline shows all.
const THREADS: usize = 5;

pub(super) fn display(ctx: &Ctx<'_>, r: &MenuReport) -> Display {
    // The bar at the top has the program's name.
    let mut d = Display { title: None, ..Display::new("") };
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
                "{} are in call contexts that were folded into one for each function: there are too many.",
                ctx.cost_in_words(o.folded_seconds)
            )));
        }
    }
    if let Some(over_time) = r.recording.as_ref().and_then(|o| o.over_time.as_ref()) {
        d.items.push(super::over_time::picture(ctx, over_time));
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
    let mut answer = Vec::new();
    match owners::create(ctx.subject) {
        Ok(owners) => {
            answer.push(Item::Heading(super::owners::title(ctx)));
            answer.push(super::owners::first(ctx, &owners, OWNERS, LINES));
        }
        Err(_) => {
            answer.push(Item::Heading(format!("Functions with most {} of their own", ctx.spent())));
            answer.push(super::top_procs::hottest(ctx, Cost::Time, 10));
        }
    }
    let mut beside = Vec::new();
    if let Ok(waits) = waits::create(ctx.subject, WaitsOf::Locks) {
        beside.push(Item::Heading(super::waits::TITLE.to_owned()));
        beside.extend(super::waits::first(ctx, &waits, LOCKS));
    }
    if ctx.subject.memory().is_some() {
        beside.push(Item::Heading("Functions with most memory of their own".to_owned()));
        beside.push(super::top_procs::hottest(ctx, Cost::Words, MEMORY));
    }
    beside.extend(r.recording.as_ref().and_then(|o| used_by(ctx, o)).into_iter().flatten());
    d.items.push(Item::Columns(vec![answer, beside]));
    let mut facts = facts(ctx, r);
    facts.extend(ways(ctx, r, stacked));
    d.items.push(Item::Columns(vec![r.recording.as_ref().map_or_else(Vec::new, account), facts]));
    d.controls = vec![ctx.general_controls(), ctx.developer_controls()];
    d
}

/// The profile's figures.
fn facts(ctx: &Ctx<'_>, r: &MenuReport) -> Vec<Item> {
    let size = |n: usize| Data::Int(i64::try_from(n).unwrap_or(i64::MAX));
    let heading = ctx.measured().heading();
    let mut facts = vec![(heading.as_str(), ctx.cost(r.total_seconds))];
    if let Some(o) = &r.recording {
        if o.samples > 0 && !ctx.measured().is_number_of_samples() {
            facts.push(("Samples", Data::Int(i64::try_from(o.samples).unwrap_or(i64::MAX))));
        }
        if o.rate_hz > 0 {
            let head = match ctx.measured() {
                Measured::Cpu => "Samples a CPU second",
                _ => "Samples a second of each thread",
            };
            facts.push((head, Data::Int(i64::try_from(o.rate_hz).unwrap_or(i64::MAX))));
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
    vec![Item::Heading("The profile".to_owned()), Item::Table(Table::facts(facts))]
}

/// Links to what is no tab.
fn ways(ctx: &Ctx<'_>, r: &MenuReport, stacked: bool) -> Vec<Item> {
    let ranks = Limit::Ranks(1, 100);
    let mut items = Vec::new();
    let mut add = |cmd: Cmd, label: &str| items.push(Item::Link(ctx.link(cmd, label)));
    if stacked {
        add(Cmd::Root(Some(90)), "where the action starts: the call tree from there on");
    }
    add(Cmd::top(ranks, Cost::Time, Incl::Own), "each function by itself, libraries and kernel too");
    if stacked {
        let label = format!("functions by all {} in and below them", ctx.spent());
        add(Cmd::top(ranks, Cost::Time, Incl::Total), &label);
    }
    if let Some(memory) = ctx.subject.memory() {
        if stacked {
            let root = i64::from(ctx.subject.profile.root_clique().number());
            add(Cmd::CliqueTree(root, Cost::Words), "the call graph by memory in place of time");
        }
        let what = match memory {
            Allocated::All => "allocated",
            Allocated::Live => "allocated and that is live",
            Allocated::Peak => "allocated and that was live at the peak",
        };
        add(Cmd::top(ranks, Cost::Words, Incl::Own), &format!("functions by the memory that they {what}"));
        let label = format!("functions by the memory that they and their callees {what}");
        add(Cmd::top(ranks, Cost::Words, Incl::Total), &label);
    }
    if r.others > 0 {
        add(Cmd::Recordings, "other recordings, and what changed");
    }
    vec![
        Item::Heading("See also".to_owned()),
        Item::List(List { class: ListClass::Bullets, title: None, items }),
    ]
}

/// Who used the time, if there are several.
fn used_by(ctx: &Ctx<'_>, o: &OverviewReport) -> Option<[Item; 2]> {
    let several = o.threads.iter().filter(|t| t.tid != 0).count() > 1 || o.processes > 1;
    several.then(|| [Item::Heading("Threads".to_owned()), Item::Table(threads(ctx, o))])
}

/// What was accounted for.
fn account(o: &OverviewReport) -> Vec<Item> {
    if o.account.is_empty() {
        return Vec::new();
    }
    let items = o.account.iter().map(|line| Item::Text(line.clone())).collect();
    vec![
        Item::Heading("What was accounted for".to_owned()),
        Item::List(List { class: ListClass::Bullets, title: None, items }),
    ]
}

fn threads(ctx: &Ctx<'_>, o: &OverviewReport) -> Table {
    let several = o.processes > 1;
    let number = |text: &str| Head::text(text, ColumnClass::Number);
    let mut columns: Vec<Column<'_, ThreadRow>> = vec![
        Column::new(Head::text("Thread", ColumnClass::Name), |t: &ThreadRow| {
            let name = if t.name.is_empty() { "(no name)" } else { &t.name };
            let file = ctx.subject.part_named(|part| part.with(PartFilter::Thread, &t.tid.to_string()));
            // Time in no sample is no thread's.
            let link = file.filter(|_| t.tid != 0).map(|file| ctx.link(Cmd::Menu, name).into_file(file));
            Cell::One(
                link.map_or_else(|| Data::text(name), |link| Data::Link(link.hint("this thread alone"))),
            )
        }),
        Column::new(number(&ctx.measured().heading()), |t: &ThreadRow| Cell::One(ctx.cost(t.seconds))),
        Column::new(number("%"), |t: &ThreadRow| Cell::One(Data::Percent(t.share))),
    ];
    columns.push(Column::new(number("Id"), |t: &ThreadRow| {
        // Time in no sample is no thread's.
        if t.tid == 0 { Cell::Empty } else { Cell::One(Data::Text(t.tid.to_string())) }
    }));
    if several {
        columns.push(Column::new(Head::text("Process", ColumnClass::Place), |t: &ThreadRow| {
            if t.pid == 0 {
                return Cell::Empty;
            }
            Cell::One(Data::Text(format!("{} ({})", t.process, t.pid)))
        }));
    }
    let mut table =
        Table::new(Boxing::ByPref, columns.iter().map(|c| HeadGroup::single(c.head.clone())).collect());
    let (shown, rest) = o.threads.split_at(o.threads.len().min(THREADS));
    for t in shown {
        table.rows.push(Row::Cells(columns.iter().map(|c| (c.cell)(t)).collect()));
    }
    table.flat = true;
    let more = rest.len() + o.threads_not_listed.0;
    let seconds = rest.iter().map(|t| t.seconds).sum::<f64>() + o.threads_not_listed.1;
    if more > 0 {
        table.flat = false;
        table.rows.push(Row::Note(vec![Data::Label(Label::plain(format!(
            "{} more threads with {}",
            format::count(more),
            ctx.cost_in_words(seconds)
        )))]));
    }
    table
}
