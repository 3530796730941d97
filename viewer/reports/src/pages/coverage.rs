//! A procedure's text with counts; a module's text.

use super::ctx::Ctx;
use crate::display::{Display, Heat, Item, Listing, ListingLine, format};
use crate::query::Cmd;
use crate::report::coverage::{CoverageReport, LineOf};
use crate::report::module_rep::ModuleRepReport;

pub(super) fn display(ctx: &Ctx<'_>, r: &CoverageReport) -> Display {
    let name = &r.desc.qualified_name;
    let mut d = Display::new(match r.pd {
        Some(pd) => format!("Coverage of {name} in context {pd}"),
        None => format!("Coverage of {name}"),
    });
    d.items.extend(r.problems.iter().map(|p| Item::Warning(p.clone())));
    d.items.push(Item::Text("How often each goal was entered and left with success.".to_owned()));
    d.items.push(Item::Listing(listing(r)));
    d.crumbs = ctx.crumbs(vec![
        ctx.link(Cmd::Module(r.desc.module.clone()), &*r.desc.module),
        ctx.link(Cmd::Proc(i64::from(r.desc.ps)), &*r.desc.name),
        ctx.link(ctx.cmd.clone(), "coverage"),
    ]);
    d.controls = vec![ctx.general_controls()];
    d
}

/// The text with its counts beside it. Lines that contain only counts are removed, as the counts are beside the code.
fn listing(r: &CoverageReport) -> Listing {
    let most = r.goals.iter().filter_map(|g| g.before).max().unwrap_or(0);
    let count = |n: Option<i64>| n.map_or_else(|| "?".to_owned(), format::int);
    let mut lines = Vec::new();
    for (text, what) in r.text.lines().zip(&r.lines) {
        let goal = match what {
            LineOf::Counts(_) => continue,
            LineOf::Code(goal) => r.goals.get(*goal),
            LineOf::Nothing => None,
        };
        let (counts, heat) = match goal {
            Some(g) => (vec![count(g.before), count(g.after)], g.before.map(|n| Heat::from_counts(n, most))),
            None => (vec![String::new(); 2], None),
        };
        lines.push(ListingLine { counts, heat, text: text.to_owned() });
    }
    Listing { heads: &["entered", "left"], lines, plain: r.text.clone() }
}

pub(super) fn module(ctx: &Ctx<'_>, r: &ModuleRepReport) -> Display {
    let mut d = Display::new(format!("Text of module {}", r.module));
    d.items.push(Item::Link(ctx.link(Cmd::Module(r.module.clone()), "the module")));
    d.items.push(Item::Verbatim(r.text.clone()));
    d.crumbs = ctx.crumbs(vec![
        ctx.link(Cmd::ProgramModules, "Modules"),
        ctx.link(Cmd::Module(r.module.clone()), &*r.module),
        ctx.link(ctx.cmd.clone(), "text"),
    ]);
    d.controls = vec![ctx.general_controls()];
    d
}
