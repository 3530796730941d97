//! A clique's page.

use super::controls::Hideable;
use super::ctx::{Ctx, hidden, place};
use super::perf::{PerfColumns, sort_by_cost};
use super::tree;
use crate::display::table::{Boxing, Paging};
use crate::display::{Cell, Data, Display, HeadGroup, Item, Label, Link, Row, Table, format};
use crate::query::{Cmd, Order, Prefs, Summarise};
use crate::report::clique::{CONTEXTS, CliqueCallee, CliquePd, CliqueReport, CliqueSite};
use crate::report::common::{CliqueDesc, Perf};
use pct_deep::native::NATIVE_ROOT;

pub(super) fn display(ctx: &Ctx<'_>, r: &CliqueReport) -> Display {
    let mut d = Display::new(title(ctx, r));
    if let Some(id) = ctx.subject.profile.clique_id(i64::from(r.clique.clique)) {
        d.items.push(tree::strip_of(ctx, id));
    }
    d.items.push(Item::Table(Page::new(ctx, r).table()));
    d.crumbs = crumbs(ctx, r);
    d.controls = vec![
        ctx.ancestor_controls(),
        ctx.inactive_controls(Hideable::Sites),
        ctx.summarise_controls(),
        ctx.qualify_controls(),
    ];
    d.controls.extend(ctx.controls_of_rows());
    d
}

/// A recording's context has no meaningful number; it is identified by its calls.
fn title(ctx: &Ctx<'_>, r: &CliqueReport) -> String {
    let name = &r.clique.entry.qualified_name;
    if !ctx.subject.profile.is_native() {
        return format!("Clique {}: {name}", r.clique.clique);
    }
    match r.ancestors.first() {
        _ if ctx.subject.profile.root_clique().number() == r.clique.clique => "Calls from the top".to_owned(),
        Some(a) if a.caller.entry.name != NATIVE_ROOT => {
            format!("{}, called from {}", ctx.name(&r.clique.entry, None), ctx.name(&a.caller.entry, None))
        }
        _ => ctx.name(&r.clique.entry, None),
    }
}

/// Menu, root clique, and the closest callers.
fn crumbs(ctx: &Ctx<'_>, r: &CliqueReport) -> Vec<Link> {
    const CLOSEST: usize = 4;
    let mut path: Vec<Link> = Vec::new();
    for a in r.ancestors.iter().take(CLOSEST).rev() {
        path.push(ctx.link(Cmd::Clique(i64::from(a.caller.clique)), &*a.caller.entry.name));
    }
    if let Some(root) = r.ancestors.get(CLOSEST..).and_then(<[_]>::last) {
        let hidden = r.ancestors.len() - CLOSEST - 1 + r.ancestors_not_listed;
        let mut front = vec![ctx.link(Cmd::Root(None), &*root.caller.entry.name)];
        if hidden > 0 {
            // The page of the closest ancestor that is not shown here has the rest of the path.
            let next = &r.ancestors[CLOSEST].caller;
            front.push(ctx.link(Cmd::Clique(i64::from(next.clique)), format!("... {hidden} more")));
        }
        front.append(&mut path);
        path = front;
    }
    path.push(ctx.link(ctx.cmd.clone(), &*r.clique.entry.name));
    ctx.crumbs(path)
}

struct Page<'a> {
    ctx: &'a Ctx<'a>,
    r: &'a CliqueReport,
    columns: PerfColumns,
    /// The common module of all procedures, if they have one.
    current: Option<&'a str>,
}

impl<'a> Page<'a> {
    fn new(ctx: &'a Ctx<'a>, r: &'a CliqueReport) -> Self {
        let first = r.procs.first().map(|p| p.desc.module.as_str());
        let current = first.filter(|m| r.procs.iter().all(|p| p.desc.module == *m));
        let columns = PerfColumns::new(ctx.cmd, &ctx.prefs, true, ctx.scale());
        Page { ctx, r, columns, current }
    }

    fn row(&self, source: Cell, name: Cell, perf: &Perf) -> Row {
        let mut cells = vec![source, name];
        cells.extend(self.columns.cells(perf));
        Row::Cells(cells)
    }

    fn name(&self, desc: &CliqueDesc) -> String {
        self.ctx.name(&desc.entry, self.current)
    }

    /// A link to a clique; plain text if it is this one.
    fn clique_link(&self, desc: &CliqueDesc) -> Data {
        if desc.clique == self.r.clique.clique {
            return Data::text(self.name(desc));
        }
        let is_native = self.ctx.subject.profile.is_native();
        let mut hint =
            if is_native { desc.entry.qualified_name.clone() } else { format!("clique {}", desc.clique) };
        if !desc.others.is_empty() {
            hint.push_str(&format!(
                ", with {} more {}",
                desc.others.len() + desc.others_not_listed,
                self.ctx.words().procs
            ));
        }
        Data::Link(self.ctx.link(Cmd::Clique(i64::from(desc.clique)), self.name(desc)).hint(hint))
    }

    fn table(&self) -> Table {
        let mut head = vec![
            HeadGroup::single(self.ctx.place_head("Source")),
            HeadGroup::single(self.ctx.name_head(self.ctx.words().proc)),
        ];
        head.extend(self.columns.heads.iter().cloned());
        let mut t = Table::new(Boxing::ByPref, head);
        self.ancestors(&mut t);
        let procs = &self.r.procs;
        let many = procs.len() > 1 || self.r.members > 1;
        let contexts = format::count(self.r.members);
        t.rows.push(Row::Section(Data::Label(Label::bold(
            match (self.ctx.subject.profile.is_native(), many) {
                (true, true) => {
                    format!("Functions that call each other ({contexts} call contexts), and their callees")
                }
                (true, false) => "The function and its callees".to_owned(),
                (false, true) => format!("Procedures of the clique ({contexts} contexts)"),
                (false, false) => "Procedure of the clique".to_owned(),
            },
        ))));
        let mut silent = 0;
        for p in procs {
            if p.contexts > 1 {
                t.rows.push(Row::Separator);
                let link = self
                    .ctx
                    .link(
                        Cmd::Proc(i64::from(p.desc.ps)),
                        format!("{} (summary of {} contexts)", self.ctx.name(&p.desc, None), p.contexts),
                    )
                    .bold();
                let mut cells = vec![Cell::Span(Data::Link(link), 2)];
                cells.extend(self.columns.cells(&p.summary));
                t.rows.push(Row::Cells(cells));
            }
            // Several contexts of one procedure are ordered by cost, whatever the preference.
            let mut pds: Vec<&CliquePd> = p.pds.iter().collect();
            sort_by_cost(&mut pds, self.ctx.prefs.order.cost(), |pd| &pd.perf);
            for pd in pds {
                t.rows.push(Row::Separator);
                let mut link =
                    self.ctx.link(Cmd::Proc(i64::from(p.desc.ps)), self.ctx.name(&p.desc, None)).bold();
                link.hint = Some(format!("context {}, {}", pd.pd, place(&p.desc.file, p.desc.line)));
                let mut cells = vec![Cell::Span(Data::Link(link), 2)];
                cells.extend(self.columns.cells(&pd.perf));
                t.rows.push(Row::Cells(cells));
                t.rows.push(Row::Separator);
                silent += self.sites(&mut t, pd);
            }
        }
        if silent > 0 {
            let show = Prefs { inactive_sites: crate::query::Inactive::Show, ..self.ctx.prefs };
            t.rows.extend(self.ctx.hidden_note(silent, "call sites", show).map(Row::Note));
        }
        t.paging = paging(self.ctx, self.r);
        t
    }

    fn ancestors(&self, t: &mut Table) {
        let all = self.r.ancestors.len() + self.r.ancestors_not_listed;
        if all == 0 {
            return;
        }
        let limit = match self.ctx.prefs.ancestors {
            Some(n) => usize::try_from(n).unwrap_or(0),
            None => usize::MAX,
        };
        let shown = self.r.ancestors.len().min(limit);
        let word = if self.ctx.subject.profile.is_native() { "Callers" } else { "Ancestors" };
        let title = if shown < all {
            format!("{word}: the closest {} of {}", format::count(shown), format::count(all))
        } else {
            word.to_owned()
        };
        t.rows.push(Row::Section(Data::Label(Label::bold(title))));
        for a in self.r.ancestors[..shown].iter().rev() {
            t.rows.push(self.row(
                self.ctx.place_cell(&a.site.file, a.site.line),
                Cell::One(self.clique_link(&a.caller)),
                &a.perf,
            ));
        }
    }

    /// Adds the call sites of a context. Returns how many that were never called were left out.
    fn sites(&self, t: &mut Table, pd: &CliquePd) -> usize {
        let mut silent = 0;
        let mut sites: Vec<&CliqueSite> = Vec::new();
        for s in &pd.sites {
            if s.kind == "normal" && hidden(!s.callees.is_empty(), self.ctx.prefs.inactive_sites) {
                silent += 1;
            } else {
                sites.push(s);
            }
        }
        match self.ctx.prefs.order {
            Order::Context => sites.sort_by_key(|s| (s.site.file.clone(), s.site.line, s.site.slot)),
            Order::Name => sites.sort_by_cached_key(|s| match &s.site.callee {
                None => (false, String::new()),
                Some(callee) => (true, self.ctx.name(callee, self.current)),
            }),
            Order::Cost(order) => sort_by_cost(&mut sites, order, |s| &s.summary),
        }
        for s in sites {
            let source = self.ctx.place_cell(&s.site.file, s.site.line);
            if s.kind == "normal" {
                let name = match (s.callees.first(), &s.site.callee) {
                    (Some(callee), _) => self.clique_link(&callee.clique),
                    (None, Some(callee)) => {
                        Data::text(format!("no calls made to {}", self.ctx.name(callee, self.current)))
                    }
                    (None, None) => Data::text("no calls made"),
                };
                t.rows.push(self.row(source, Cell::One(name), &s.summary));
                continue;
            }
            let kind = site_kind_label(self.ctx, s.kind);
            if s.callees.is_empty() {
                t.rows.push(self.row(
                    source,
                    Cell::One(Data::text(format!("{kind} (no calls made)"))),
                    &s.summary,
                ));
                continue;
            }
            t.rows.push(self.row(source, Cell::One(Data::text(format!("{kind} (summary)"))), &s.summary));
            if self.ctx.prefs.summarise == Summarise::Sum {
                continue;
            }
            for callee in sorted_callees(self, &s.callees) {
                t.rows.push(self.row(Cell::Empty, Cell::One(self.clique_link(&callee.clique)), &callee.perf));
            }
            if let Some(rest) = &s.rest {
                let label = format!("{} more callees", format::count(rest.count));
                t.rows.push(self.row(Cell::Empty, Cell::One(Data::text(label)), &rest.perf));
            }
        }
        silent
    }
}

fn sorted_callees<'a>(page: &Page<'_>, callees: &'a [CliqueCallee]) -> Vec<&'a CliqueCallee> {
    let mut out: Vec<&CliqueCallee> = callees.iter().collect();
    match page.ctx.prefs.order {
        Order::Context => out.sort_by_cached_key(|c| (c.clique.entry.file.clone(), c.clique.entry.line)),
        Order::Name => out.sort_by_cached_key(|c| page.name(&c.clique)),
        Order::Cost(order) => sort_by_cost(&mut out, order, |c| &c.perf),
    }
    out
}

/// The label for a kind of call site that has several callees.
pub(super) fn site_kind_label(ctx: &Ctx<'_>, kind: &str) -> &'static str {
    match kind {
        "higher_order" if ctx.subject.profile.is_native() => "call of several",
        "callback" if ctx.subject.profile.is_native() => "started from outside",
        "special" => "special call",
        "higher_order" => "higher order call",
        "method" => "method call",
        "callback" => "callback",
        _ => "call",
    }
}

fn paging(ctx: &Ctx<'_>, r: &CliqueReport) -> Option<Paging> {
    if r.members <= CONTEXTS {
        return None;
    }
    let pages = u32::try_from(r.members.div_ceil(CONTEXTS)).unwrap_or(u32::MAX);
    let page = ctx.page.clamp(1, pages);
    let to = |n: u32, label: &str| Link { page: n, ..Link::control(ctx.cmd.clone(), &ctx.prefs, label) };
    let mut links = Vec::new();
    if page > 1 {
        links.extend([to(1, "first"), to(page - 1, "previous")]);
    }
    if page < pages {
        links.extend([to(page + 1, "next"), to(pages, "last")]);
    }
    Some(Paging { page, pages, first: r.listed.0, last: r.listed.1, total: r.members, links })
}
