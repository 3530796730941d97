//! The callers of a procedure.

use super::ctx::{Ctx, counted};
use super::flat::{Flat, Keys, Totals};
use crate::display::table::{Column, ColumnClass, Head};
use crate::display::{Cell, Data, Display, Item, Link, List, ListClass, format};
use crate::query::{Cmd, Group, Order};
use crate::report::callers::{Caller, CallerRow, CallersReport};

pub(super) fn display(ctx: &Ctx<'_>, r: &CallersReport) -> Display {
    let name = &r.desc.qualified_name;
    let mut d = Display::new(format!("The calling {} of {name}", ctx.words().group(r.group).1));
    d.items.extend(r.warning.iter().map(|w| Item::Warning(w.clone())));
    if r.rows.is_empty() {
        d.items.push(Item::Text(format!("Nothing calls {name} in this profile.")));
    } else {
        listing(ctx, r, &mut d);
    }
    d.crumbs = ctx.crumbs(vec![
        ctx.link(Cmd::Module(r.desc.module.clone()), &*r.desc.module),
        ctx.link(Cmd::Proc(i64::from(r.desc.ps)), &*r.desc.name),
        ctx.link(ctx.cmd.clone(), "callers"),
    ]);
    if ctx.subject.profile.module_id(&r.desc.module).is_none() {
        d.crumbs.remove(1);
    }
    d.controls.push(ctx.caller_controls(r.desc.ps));
    d.controls.extend(ctx.controls_of_procedures());
    d
}

fn listing(ctx: &Ctx<'_>, r: &CallersReport, d: &mut Display) {
    let mut rows: Vec<&CallerRow> = r.rows.iter().collect();
    let current = Some(r.desc.module.as_str());
    let keys = Keys {
        name: Box::new(|row: &&CallerRow| match &row.caller {
            Caller::Site(s) => ctx.name(&s.container, current),
            Caller::Proc(p) => ctx.name(p, current),
            Caller::Module(m) => m.clone(),
            Caller::Clique(c) => ctx.name(&c.entry, current),
        }),
        place: Box::new(|row: &&CallerRow| match &row.caller {
            Caller::Site(s) => (s.file.clone(), s.line),
            Caller::Proc(p) => (p.file.clone(), p.line),
            Caller::Module(m) => (m.clone(), 0),
            Caller::Clique(c) => (String::new(), c.clique),
        }),
    };
    ctx.sort(&mut rows, &keys, |row| &row.perf, Totals::Add);

    let total = rows.len();
    let size = usize::try_from(r.bunch_size).unwrap_or(usize::MAX).max(1);
    let bunches = total.div_ceil(size);
    // A bunch past the end becomes the first.
    let bunch = usize::try_from(r.bunch).ok().filter(|&b| b <= bunches).unwrap_or(1).max(1);
    let first = (bunch - 1).saturating_mul(size).min(total);
    let last = first.saturating_add(size).min(total);
    let all = total + r.rest.as_ref().map_or(0, |rest| rest.count);
    let (one, many) = ctx.words().group(r.group);
    let mut text = counted(all, &format!("calling {one}"), &format!("calling {many}"));
    if bunches > 1 {
        text.push_str(&format!("; {} to {} are shown", format::count(first + 1), format::count(last)));
    }
    d.items.push(Item::Text(text));

    let flat = Flat {
        lead: lead(ctx, r.group, current),
        perf: |row: &&CallerRow| &row.perf,
        totals: Totals::Add,
        rest: r.rest.as_ref(),
        note: None,
    };
    d.items.push(Item::Table(ctx.flat(&flat, &rows, Some(first..last))));
    let bunch_controls = bunches_of(ctx, r, bunch, bunches, size, total);
    d.items.extend(bunch_controls);
}

fn lead<'a>(ctx: &'a Ctx<'_>, group: Group, current: Option<&'a str>) -> Vec<Column<'a, &'a CallerRow>> {
    let text = |s: String| Cell::One(Data::Text(s));
    match group {
        Group::CallSite | Group::Proc => vec![
            Column::new(ctx.place_head("Source"), move |row: &&CallerRow| match &row.caller {
                Caller::Site(s) => ctx.place_cell(&s.file, s.line),
                Caller::Proc(p) => ctx.place_cell(&p.file, p.line),
                Caller::Module(_) | Caller::Clique(_) => Cell::Empty,
            }),
            Column::new(
                ctx.name_head(&match group {
                    Group::CallSite => format!("In {}", ctx.words().proc.to_lowercase()),
                    _ => ctx.words().proc.to_owned(),
                }),
                move |row: &&CallerRow| match &row.caller {
                    Caller::Site(s) => Cell::One(Data::Link(ctx.proc_link(&s.container, current))),
                    Caller::Proc(p) => Cell::One(Data::Link(ctx.proc_link(p, current))),
                    Caller::Module(_) | Caller::Clique(_) => Cell::Empty,
                },
            ),
        ],
        Group::Module => {
            vec![Column::new(ctx.name_head(ctx.words().module), move |row: &&CallerRow| match &row.caller {
                Caller::Module(m) => Cell::One(Data::Link(ctx.link(Cmd::Module(m.clone()), &**m))),
                _ => Cell::Empty,
            })]
        }
        Group::Clique => vec![
            Column::new(
                super::perf::order_head(ctx.cmd, &ctx.prefs, "Clique", Order::Context, ColumnClass::Number),
                move |row: &&CallerRow| match &row.caller {
                    Caller::Clique(c) => Cell::One(Data::Link(
                        ctx.link(Cmd::Clique(i64::from(c.clique)), c.clique.to_string()),
                    )),
                    _ => Cell::Empty,
                },
            ),
            Column::new(Head::text("Members", ColumnClass::Words), move |row: &&CallerRow| {
                match &row.caller {
                    Caller::Clique(c) => {
                        let mut names = vec![ctx.name(&c.entry, current)];
                        names.extend(c.others.iter().map(|p| ctx.name(p, current)));
                        if c.others_not_listed > 0 {
                            names.push(format!("{} more", c.others_not_listed));
                        }
                        text(names.join(", "))
                    }
                    _ => Cell::Empty,
                }
            }),
        ],
    }
}

/// Links to other bunches and to bunches of other sizes.
fn bunches_of(
    ctx: &Ctx<'_>,
    r: &CallersReport,
    bunch: usize,
    bunches: usize,
    size: usize,
    total: usize,
) -> Vec<Item> {
    let to = |bunch: usize, size: usize, label: String| {
        let cmd = Cmd::ProcCallers {
            ps: i64::from(r.desc.ps),
            group: r.group,
            bunch: i64::try_from(bunch).unwrap_or(i64::MAX),
            size: i64::try_from(size).unwrap_or(i64::MAX),
            contour: r.contour,
        };
        Item::Link(Link::control(cmd, &ctx.prefs, label))
    };
    let block = |title: &str, items: Vec<Item>| {
        Item::List(List { class: ListClass::Horizontal, title: Some(title.to_owned()), items })
    };
    let mut out = Vec::new();
    if bunches > 1 {
        let mut items = Vec::new();
        if bunch > 1 {
            items.push(to(1, size, "first".to_owned()));
            items.push(to(bunch - 1, size, "previous".to_owned()));
        }
        if bunch < bunches {
            items.push(to(bunch + 1, size, "next".to_owned()));
            items.push(to(bunches, size, "last".to_owned()));
        }
        out.push(block("Other groups:", items));
    }
    let mut sizes: Vec<(usize, usize)> = Vec::new();
    if size > 5 {
        sizes.push((size / 2, bunch * 2 - 1));
    }
    if total > size {
        sizes.push((size * 2, bunch.div_ceil(2)));
    }
    sizes.extend([10, 20, 50, 100].into_iter().filter(|&s| total > s).map(|s| (s, 1)));
    sizes.sort_unstable();
    sizes.dedup_by_key(|s| s.0);
    sizes.retain(|s| s.0 != size);
    if !sizes.is_empty() && total > 5 {
        out.push(block("Group size:", sizes.into_iter().map(|(s, b)| to(b, s, s.to_string())).collect()));
    }
    out
}
