//! The page of all modules, and a module's page.

use super::controls::Hideable;
use super::ctx::{Ctx, hidden};
use super::flat::{Flat, Keys, Totals};
use crate::display::table::Column;
use crate::display::{Cell, Data, Display, Item, List, ListClass};
use crate::query::{Cmd, Inactive, Prefs};
use crate::report::modules::{ModuleProc, ModuleReport, ModuleRow, ProgramModulesReport};

/// Number of modules that a note names.
const NAMED: usize = 5;

pub(super) fn display_all(ctx: &Ctx<'_>, r: &ProgramModulesReport) -> Display {
    let mut d = Display::new(format!("The program's {}", ctx.words().modules));
    let mut rows: Vec<&ModuleRow> =
        r.modules.iter().filter(|m| !hidden(m.active, ctx.prefs.inactive_modules)).collect();
    let keys: Keys<'_, &ModuleRow> =
        Keys { name: Box::new(|m| m.name.clone()), place: Box::new(|m| (m.name.clone(), 0)) };
    let totals = if ctx.subject.profile.is_native() { Totals::Overlap } else { Totals::None };
    ctx.sort(&mut rows, &keys, |m| &m.perf, totals);
    let show = Prefs { inactive_modules: Inactive::Show, ..ctx.prefs };
    let flat = Flat {
        lead: vec![Column::new(ctx.name_head(ctx.words().module), |m: &&ModuleRow| {
            Cell::One(Data::Link(ctx.link(Cmd::Module(m.name.clone()), m.name.clone())))
        })],
        perf: |m| &m.perf,
        totals,
        rest: None,
        note: ctx.hidden_note(r.modules.len() - rows.len(), ctx.words().modules, show),
    };
    d.items.push(Item::Table(ctx.flat(&flat, &rows, None)));
    let least: Vec<&str> = rows.iter().filter(|m| m.total_is_least).map(|m| &*m.name).take(NAMED).collect();
    if !least.is_empty() {
        let more = rows.iter().filter(|m| m.total_is_least).count() - least.len();
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        d.items.push(Item::Text(format!(
            "Of {}{more} the {} in and below is at least what is shown: functions of several {} call each other in \
             a circle, and the samples do not say which of them called the others.",
            least.join(", "),
            ctx.spent(),
            ctx.words().modules,
        )));
    }
    d.crumbs = ctx.crumbs(vec![ctx.link(Cmd::ProgramModules, ctx.modules_title())]);
    d.controls = vec![
        ctx.inactive_controls(Hideable::Modules),
        ctx.field_controls(),
        ctx.format_controls(),
        ctx.general_controls(),
    ];
    d
}

pub(super) fn display(ctx: &Ctx<'_>, r: &ModuleReport) -> Display {
    let mut d = Display::new(format!("{} {}", ctx.words().module, r.name));
    let mut more = Vec::new();
    if !ctx.subject.profile.is_native() {
        more.push(Item::Link(ctx.link(Cmd::GettersSetters(r.name.clone()), "getters and setters")));
    }
    if r.has_representation {
        more.push(Item::Link(ctx.link(Cmd::ModuleRep(r.name.clone()), "text of its procedures")));
    }
    d.items.push(Item::List(List { class: ListClass::Horizontal, title: None, items: more }));
    let current = Some(r.name.as_str());
    let mut rows: Vec<&ModuleProc> =
        r.procs.iter().filter(|p| !hidden(p.active, ctx.prefs.inactive_procs)).collect();
    let keys: Keys<'_, &ModuleProc> = Keys {
        name: Box::new(|p| ctx.name(&p.desc, current)),
        place: Box::new(|p| (p.desc.file.clone(), p.desc.line)),
    };
    ctx.sort(&mut rows, &keys, |p| &p.perf, Totals::Overlap);
    let show = Prefs { inactive_procs: Inactive::Show, ..ctx.prefs };
    let flat = Flat {
        lead: vec![
            Column::new(ctx.place_head("Source"), |p: &&ModuleProc| {
                ctx.place_cell(&p.desc.file, p.desc.line)
            }),
            Column::new(ctx.name_head(ctx.words().proc), |p: &&ModuleProc| {
                Cell::One(Data::Link(ctx.proc_link(&p.desc, current)))
            }),
        ],
        perf: |p| &p.perf,
        totals: Totals::Overlap,
        rest: None,
        note: ctx.hidden_note(r.procs.len() - rows.len(), ctx.words().procs, show),
    };
    d.items.push(Item::Table(ctx.flat(&flat, &rows, None)));
    d.crumbs = ctx.crumbs(vec![
        ctx.link(Cmd::ProgramModules, ctx.modules_title()),
        ctx.link(Cmd::Module(r.name.clone()), &*r.name),
    ]);
    d.controls = vec![ctx.inactive_controls(Hideable::Procs)];
    d.controls.extend(ctx.controls_of_procedures());
    d
}
