//! A source file with the time of its lines.

use super::ctx::Ctx;
use crate::display::table::{Boxing, ColumnClass, Head};
use crate::display::{
    Cell, Data, Display, HeadGroup, Item, Label, Link, List, ListClass, Row, Table, format,
};
use crate::query::Cmd;
use crate::report::source::{LINES, SourceReport};

pub(super) fn display(ctx: &Ctx<'_>, r: &SourceReport) -> Display {
    let mut d = Display::new(r.file.clone());
    if r.path != r.file {
        d.items.push(Item::Text(r.path.clone()));
    }
    if r.newer {
        d.items.push(Item::Warning(
            "The file has changed since the recording: lines may have moved.".to_owned(),
        ));
    }
    let (first, last) = (r.lines.first().map_or(0, |l| l.number), r.lines.last().map_or(0, |l| l.number));
    if r.all > r.lines.len() {
        let step = i64::try_from(LINES / 2).unwrap_or(i64::MAX);
        let mut items = vec![Item::Text(format!(
            "lines {} to {} of {}",
            format::count(first),
            format::count(last),
            format::count(r.all)
        ))];
        if first > 1 {
            items.push(Item::Link(ctx.link(Cmd::Source(r.file.clone(), r.line - step), "earlier")));
        }
        if last < r.all {
            items.push(Item::Link(ctx.link(Cmd::Source(r.file.clone(), r.line + step), "later")));
        }
        d.items.push(Item::List(List { class: ListClass::Horizontal, title: None, items }));
    }
    d.items.push(Item::Table(table(ctx, r)));
    d.crumbs = ctx.crumbs(vec![ctx.link(ctx.cmd.clone(), "source")]);
    d.controls = vec![ctx.general_controls()];
    d
}

fn table(ctx: &Ctx<'_>, r: &SourceReport) -> Table {
    let sampled = ctx.subject.is_sampled();
    let rate = ctx.subject.profile.header().ticks_per_second as f64;
    let cost = |ticks: i64| match ticks {
        0 => Cell::Empty,
        n if sampled && rate > 0.0 => Cell::One(ctx.cost(n as f64 / rate)),
        n => Cell::One(Data::Int(n)),
    };
    let share =
        |ticks: i64, share: f64| if ticks == 0 { Cell::Empty } else { Cell::One(Data::Percent(share)) };
    let group = |title: &str, unit: &str| HeadGroup {
        title: Some(title.to_owned()),
        heads: vec![Head::text(unit, ColumnClass::Number), Head::text("%", ColumnClass::Number)],
        coloured: true,
    };
    let unit = if sampled { ctx.measured().unit() } else { "callseqs".to_owned() };
    let mut head = vec![HeadGroup::single(Head::text("Line", ColumnClass::Number))];
    if r.has_own {
        head.push(group("In the line", &unit));
    }
    head.push(group("Called from it", &unit));
    head.push(HeadGroup::single(Head::text("Text", ColumnClass::Words)));
    let mut t = Table::new(Boxing::ByPref, head);
    for l in &r.lines {
        let number = l.number.to_string();
        let mut cells = vec![Cell::One(match l.ps {
            Some(ps) => {
                Data::Link(Link { label: Label::bold(number), ..ctx.link(Cmd::Proc(i64::from(ps)), "") })
            }
            None if i64::try_from(l.number) == Ok(r.line) => {
                Data::Label(Label::bold(format!("\u{25b8} {number}")))
            }
            None => Data::Text(number),
        })];
        if r.has_own {
            cells.extend([cost(l.own), share(l.own, l.own_share)]);
        }
        cells.extend([cost(l.below), share(l.below, l.below_share)]);
        cells.push(Cell::One(Data::Code(l.text.clone())));
        t.rows.push(Row::Cells(cells));
    }
    t
}
