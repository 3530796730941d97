//! What the threads of a recording waited for.

use super::ctx::Ctx;
use crate::display::table::{Boxing, Column, ColumnClass, Head, Paging, Sorted};
use crate::display::{Cell, Data, Display, HeadGroup, Item, Picture, PictureNode, Row, Table, format};
use crate::query::{Cmd, WaitsOf};
use crate::report::waits::{WaitNode, WaitedObject, WaitsReport};

/// The title of the page, and of its part on the overview.
pub(super) const TITLE: &str = "What threads waited for";

pub(super) fn display(ctx: &Ctx<'_>, r: &WaitsReport) -> Display {
    let mut d = Display::new(TITLE);
    let paging = Paging::new(ctx.cmd, &ctx.prefs, ctx.page, r.rows.len());
    let range = Paging::range(paging.as_ref(), r.rows.len());
    let is_last = range.end == r.rows.len();
    let mut table = table(r.of, &r.rows[range]);
    table.paging = paging;
    if is_last {
        table.rows.extend(more(r.of, r.not_listed));
    }
    d.items.extend(match r.of {
        WaitsOf::Locks => vec![Item::Text(of_locks(r))],
        WaitsOf::Work => of_work(r).into_iter().map(Item::Text).collect(),
    });
    if !r.rows.is_empty() {
        d.items.push(Item::Table(table));
    }
    if !r.nodes.is_empty() {
        d.items.push(Item::Heading(format!("Where threads waited {}", r.of.label())));
        d.items.push(picture(ctx, r));
    }
    d.crumbs = ctx.crumbs(vec![ctx.link(ctx.cmd.clone(), "waits")]);
    d.controls = vec![ctx.general_controls()];
    d
}

/// The first locks, for the overview, and links to the pages.
pub(super) fn first(ctx: &Ctx<'_>, r: &WaitsReport, rows: usize) -> Vec<Item> {
    let mut out = vec![Item::Text(of_locks(r))];
    let (shown, rest) = r.rows.split_at(r.rows.len().min(rows));
    if !shown.is_empty() {
        let mut table = table(r.of, shown);
        table.rows.extend(more(r.of, r.not_listed.saturating_add(rest.len() as u64)));
        out.push(Item::Table(table));
        let label = "all locks, and a flame graph of where threads waited for them";
        out.push(Item::Link(ctx.link(Cmd::Waits(WaitsOf::Locks), label)));
    }
    if let Some(work) = of_work(r) {
        out.push(Item::Text(work));
        out.push(Item::Link(ctx.link(Cmd::Waits(WaitsOf::Work), "where threads waited for work")));
    }
    out
}

/// How much was waited for locks.
fn of_locks(r: &WaitsReport) -> String {
    match r.waits {
        0 => "No thread waited for a lock.".to_owned(),
        waits => format!(
            "Waits for locks: {} s in {}.",
            format::data(&Data::Seconds(r.seconds)),
            pct_num::count(waits, "wait", "waits")
        ),
    }
}

/// How much was waited for work.
fn of_work(r: &WaitsReport) -> Option<String> {
    let line = r.work.as_deref()?;
    let (first, rest) = line.split_at(line.chars().next().map_or(0, char::len_utf8));
    Some(format!("{}{rest}.", first.to_uppercase()))
}

fn more(of: WaitsOf, count: u64) -> Option<Row> {
    let words = match of {
        WaitsOf::Locks => ("more lock", "more locks"),
        WaitsOf::Work => ("more row", "more rows"),
    };
    (count > 0).then(|| Row::Note(vec![Data::Text(pct_num::count(count, words.0, words.1))]))
}

fn table(of: WaitsOf, rows: &[WaitedObject]) -> Table {
    let number = |text: &str| Head::text(text, ColumnClass::Number);
    let words = |text: &str| Head::text(text, ColumnClass::Words);
    let (what, by) = match of {
        WaitsOf::Locks => ("Lock", "Held by"),
        WaitsOf::Work => ("What", "Woken by"),
    };
    let columns: Vec<Column<'_, WaitedObject>> = vec![
        Column::new(Head::text(what, ColumnClass::Name), |row: &WaitedObject| {
            Cell::One(Data::text(&*row.what))
        }),
        Column::new(Head { sorted: Some(Sorted::Descending), ..number("Seconds") }, |row: &WaitedObject| {
            Cell::One(Data::Seconds(row.seconds))
        }),
        Column::new(number("%"), |row: &WaitedObject| Cell::One(Data::Percent(row.share))),
        Column::new(number("Waits"), |row: &WaitedObject| {
            Cell::One(Data::Int(i64::try_from(row.waits).unwrap_or(i64::MAX)))
        }),
        Column::new(words("Waited for in"), |row: &WaitedObject| Cell::One(Data::text(&*row.waited_in))),
        Column::new(words(by), |row: &WaitedObject| Cell::One(Data::text(&*row.by))),
    ];
    let heads = columns.iter().map(|column| HeadGroup::single(column.head.clone())).collect();
    let mut table = Table::new(Boxing::ByPref, heads);
    table.rows = rows
        .iter()
        .map(|row| Row::Cells(columns.iter().map(|column| (column.cell)(row)).collect()))
        .collect();
    table
}

/// The stacks that waited.
fn picture(ctx: &Ctx<'_>, r: &WaitsReport) -> Item {
    let mut caption =
        format!("width: time of waiting {}; a callee lies below its caller; click to zoom", r.of.label());
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
