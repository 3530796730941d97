//! The results of a search.

use super::ctx::Ctx;
use super::flat::{Flat, Keys, Totals};
use crate::display::table::Column;
use crate::display::{Cell, Data, Display, Item, List, ListClass};
use crate::query::{Cmd, Order};
use crate::report::search::{SearchProc, SearchReport};

pub(super) fn display(ctx: &Ctx<'_>, r: &SearchReport) -> Display {
    let mut d = Display::new(format!("Search for {}", if r.text.is_empty() { "nothing" } else { &r.text }));
    if !r.modules.is_empty() {
        let mut items: Vec<Item> =
            r.modules.iter().map(|m| Item::Link(ctx.link(Cmd::Module(m.clone()), &**m))).collect();
        if r.modules_not_listed > 0 {
            items.push(Item::Text(format!("and {} more", r.modules_not_listed)));
        }
        d.items.push(Item::List(List {
            class: ListClass::HorizontalExceptTitle,
            title: Some(ctx.modules_title().to_owned()),
            items,
        }));
    }
    if r.procs.is_empty() {
        d.items.push(Item::Text(if r.text.is_empty() {
            format!(
                "Type part of a name of one of the {} or {}, or file:line.",
                ctx.words().procs,
                ctx.words().modules
            )
        } else {
            format!("Nothing among the {} has it in its name or source place.", ctx.words().procs)
        }));
    } else {
        let mut rows: Vec<&SearchProc> = r.procs.iter().collect();
        let keys: Keys<'_, &SearchProc> = Keys {
            name: Box::new(|p| ctx.name(&p.desc, None)),
            place: Box::new(|p| (p.desc.file.clone(), p.desc.line)),
        };
        // The report's order (called ones first, the most expensive at the top) fits a search.
        if ctx.prefs.order != Order::Context {
            ctx.sort(&mut rows, &keys, |p| &p.perf, Totals::Overlap);
        }
        let flat = Flat {
            lead: vec![
                Column::new(ctx.place_head("Source"), |p: &&SearchProc| {
                    ctx.place_cell(&p.desc.file, p.desc.line)
                }),
                Column::new(ctx.name_head(ctx.words().proc), |p: &&SearchProc| {
                    Cell::One(Data::Link(ctx.proc_link(&p.desc, None)))
                }),
            ],
            perf: |p| &p.perf,
            totals: Totals::Overlap,
            rest: None,
            note: (r.procs_not_listed > 0).then(|| {
                vec![Data::text(format!("{} more procedures: say more of the name.", r.procs_not_listed))]
            }),
        };
        d.items.push(Item::Table(ctx.flat(&flat, &rows, None)));
    }
    d.crumbs = ctx.crumbs(vec![ctx.link(ctx.cmd.clone(), "Search")]);
    d.controls = ctx.controls_of_procedures();
    d
}
