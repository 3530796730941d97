//! What the threads of a recording waited for.

use super::ctx::Ctx;
use crate::display::table::{Boxing, Column, ColumnClass, Head, Paging, Sorted};
use crate::display::{Cell, Data, Display, HeadGroup, Item, Picture, PictureNode, Row, Table, format};
use crate::query::Cmd;
use crate::report::waits::{WaitNode, WaitedLock, WaitsReport};

/// The title of the page, and of its part on the overview.
pub(super) const TITLE: &str = "What threads waited for";

pub(super) fn display(ctx: &Ctx<'_>, r: &WaitsReport) -> Display {
    let mut d = Display::new(TITLE);
    let paging = Paging::new(ctx.cmd, &ctx.prefs, ctx.page, r.locks.len());
    let range = Paging::range(paging.as_ref(), r.locks.len());
    let is_last = range.end == r.locks.len();
    let mut table = table(&r.locks[range]);
    table.paging = paging;
    if is_last {
        table.rows.extend(more(r.not_listed));
    }
    d.items.extend(in_words(r));
    if !r.locks.is_empty() {
        d.items.push(Item::Table(table));
    }
    if !r.nodes.is_empty() {
        d.items.push(Item::Heading("Where threads waited for locks".to_owned()));
        d.items.push(picture(ctx, r));
    }
    d.crumbs = ctx.crumbs(vec![ctx.link(Cmd::Waits, "waits")]);
    d.controls = vec![ctx.general_controls()];
    d
}

/// The first rows, for the overview, and a link to the page.
pub(super) fn first(ctx: &Ctx<'_>, r: &WaitsReport, rows: usize) -> Vec<Item> {
    let mut out = in_words(r);
    let (shown, rest) = r.locks.split_at(r.locks.len().min(rows));
    if !shown.is_empty() {
        let mut table = table(shown);
        table.rows.extend(more(r.not_listed.saturating_add(rest.len() as u64)));
        out.push(Item::Table(table));
        out.push(Item::Link(ctx.link(Cmd::Waits, "all of them, and a flame graph of where threads waited")));
    }
    out
}

/// How much was waited for locks, and for what else.
fn in_words(r: &WaitsReport) -> Vec<Item> {
    let locks = match r.lock_waits {
        0 => "No thread waited for a lock.".to_owned(),
        waits => format!(
            "Waits for locks: {} s in {}.",
            format::data(&Data::Seconds(r.lock_seconds)),
            pct_num::count(waits, "wait", "waits")
        ),
    };
    let capital = |line: &str| {
        let (first, rest) = line.split_at(line.chars().next().map_or(0, char::len_utf8));
        format!("{}{rest}.", first.to_uppercase())
    };
    std::iter::once(locks).chain(r.work.as_deref().map(capital)).map(Item::Text).collect()
}

fn more(count: u64) -> Option<Row> {
    (count > 0).then(|| Row::Note(vec![Data::Text(pct_num::count(count, "more lock", "more locks"))]))
}

fn table(locks: &[WaitedLock]) -> Table {
    let number = |text: &str| Head::text(text, ColumnClass::Number);
    let words = |text: &str| Head::text(text, ColumnClass::Words);
    let columns: Vec<Column<'_, WaitedLock>> = vec![
        Column::new(Head::text("Lock", ColumnClass::Name), |lock: &WaitedLock| {
            Cell::One(Data::text(&*lock.what))
        }),
        Column::new(Head { sorted: Some(Sorted::Descending), ..number("Seconds") }, |lock: &WaitedLock| {
            Cell::One(Data::Seconds(lock.seconds))
        }),
        Column::new(number("%"), |lock: &WaitedLock| Cell::One(Data::Percent(lock.share))),
        Column::new(number("Waits"), |lock: &WaitedLock| {
            Cell::One(Data::Int(i64::try_from(lock.waits).unwrap_or(i64::MAX)))
        }),
        Column::new(words("Waited for in"), |lock: &WaitedLock| Cell::One(Data::text(&*lock.waited_in))),
        Column::new(words("Held by"), |lock: &WaitedLock| Cell::One(Data::text(&*lock.held_by))),
    ];
    let heads = columns.iter().map(|column| HeadGroup::single(column.head.clone())).collect();
    let mut table = Table::new(Boxing::ByPref, heads);
    table.rows = locks
        .iter()
        .map(|lock| Row::Cells(columns.iter().map(|column| (column.cell)(lock)).collect()))
        .collect();
    table
}

/// The stacks that waited for locks.
fn picture(ctx: &Ctx<'_>, r: &WaitsReport) -> Item {
    let mut caption =
        "width: time of waiting for locks; a callee lies below its caller; click to zoom".to_owned();
    if r.left_out > 0 {
        caption.push_str(&format!("; {} small branches left out", format::count(r.left_out)));
    }
    let node = |node: &WaitNode| PictureNode {
        parent: node.parent,
        name: super::tree::shown_name(ctx, &node.name),
        total: node.total_ns,
        before: 0,
        group: Some(node.group.clone()).filter(|group| !group.is_empty()),
        link: (node.ps != 0).then(|| Cmd::Proc(i64::from(node.ps))),
    };
    Item::Picture(Picture {
        caption,
        unit: "s".to_owned(),
        seconds: true,
        compares: None,
        zooms: true,
        levels: 400,
        nodes: r.nodes.iter().map(node).collect(),
        // Those of the whole recording would be CPU time.
        groups: None,
        palette: Some(ctx.subject.colours().palette().clone()),
        here: None,
        large: true,
    })
}
