//! A procedure's text with counts; a module's text.

use super::Ctx;
use crate::display::{Display, Item};
use crate::query::Cmd;
use crate::report::coverage::CoverageReport;
use crate::report::module_rep::ModuleRepReport;

pub(super) fn display(ctx: &Ctx<'_>, r: &CoverageReport) -> Display {
    let name = &r.desc.qualified_name;
    let mut d = Display::new(match r.pd {
        Some(pd) => format!("Coverage of {name} in context {pd}"),
        None => format!("Coverage of {name}"),
    });
    d.items.extend(r.problems.iter().map(|p| Item::Warning(p.clone())));
    d.items.push(Item::Text("Each goal says how often it was entered and left: before - after.".to_owned()));
    d.items.push(Item::Verbatim(r.text.clone()));
    d.crumbs = ctx.crumbs(vec![
        ctx.link(Cmd::Module(r.desc.module.clone()), &*r.desc.module),
        ctx.link(Cmd::Proc(i64::from(r.desc.ps)), &*r.desc.name),
        ctx.link(ctx.cmd.clone(), "coverage"),
    ]);
    d.controls = vec![ctx.related_proc_controls(r.desc.ps), ctx.general_controls()];
    d
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
