//! When a call first uses each of its arguments.

use super::ctx::{Ctx, place};
use crate::display::table::{Boxing, ColumnClass, Head};
use crate::display::{Cell, Data, Display, HeadGroup, Item, Row, Table};
use crate::query::Cmd;
use crate::report::var_use::VarUseReport;

/// The meaning of `\u{2264}` in the table.
const BEYOND: &str = "\u{2264}: an upper bound. The estimate lies beyond the end of the call (it adds up averages of branches, and \
     for a recursion the average level as often as it is deep), so all that is known is that the argument is used by \
     then. The JSON form of this page has the estimate itself.";

pub(super) fn display(ctx: &Ctx<'_>, r: &VarUseReport) -> Display {
    let mut d = Display::new(format!("Use of arguments in the call of {}", r.callee.qualified_name));
    d.items.push(Item::Table(Table::facts(vec![
        ("call site", Data::Text(place(&r.site.file, r.site.line))),
        ("call", Data::Link(ctx.link(Cmd::DumpCsd(i64::from(r.csd)), format!("csd {}", r.csd)))),
        ("callee", Data::Link(ctx.link(Cmd::Proc(i64::from(r.callee.ps)), &*r.callee.qualified_name))),
        (
            "average cost of the call, call sequence numbers",
            Data::Float(r.possible_cost()).bound(r.cost > r.possible_cost()),
        ),
    ])));
    let heads = [
        ("Argument", ColumnClass::Number),
        ("Name", ColumnClass::Words),
        ("Use", ColumnClass::Words),
        ("% into the call", ColumnClass::Number),
        ("Call sequence numbers until then", ColumnClass::Number),
    ];
    let mut t =
        Table::new(Boxing::Always, heads.iter().map(|(h, c)| HeadGroup::single(Head::text(h, *c))).collect());
    for (i, a) in r.args.iter().enumerate() {
        let found = r.first_use(a);
        t.rows.push(Row::Cells(vec![
            Cell::One(Data::count(i + 1)),
            Cell::One(Data::text(&*a.name)),
            Cell::One(Data::text(a.use_type.label())),
            Cell::One(Data::Percent(found.share).bound(found.is_bound)),
            Cell::One(Data::Float(found.until).bound(found.is_bound)),
        ]));
    }
    d.items.push(Item::Table(t));
    d.items.push(Item::Text(
        "An estimate: a variable is taken to be bound in one place, nondeterministic code is guessed at, and argument \
         positions of closures are not known."
            .to_owned(),
    ));
    if r.cost > r.possible_cost() || r.args.iter().any(|a| r.first_use(a).is_bound) {
        d.items.push(Item::Text(BEYOND.to_owned()));
    }
    d.crumbs = ctx.crumbs(vec![ctx.link(ctx.cmd.clone(), "use of arguments")]);
    d.controls = vec![ctx.general_controls()];
    d
}
