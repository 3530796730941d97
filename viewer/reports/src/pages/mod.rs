//! Reports to displays: which rows, in which order, under which names, with which links and controls.
//!
//! One module per kind of page. They read the report and the preferences; of the profile they take only what decides
//! about controls (whether times mean anything, the state of the contour file) and the names of the path to a clique.

mod callers;
mod clique;
mod controls;
mod coverage;
mod dumps;
mod flat;
mod getters_setters;
mod menu;
mod modules;
mod perf;
mod proc;
mod recursion;
mod search;
mod top_procs;
mod tree;
mod var_use;

use crate::display::{Banner, Display, Item, Link, This, format};
use crate::query::{Cmd, Cost, Inactive, Order, Prefs, Qualify};
use crate::report::Report;
use crate::report::common::ProcDesc;
use crate::subject::Subject;

/// What a page is made with.
pub(crate) struct Ctx<'a> {
    pub(crate) subject: &'a Subject,
    pub(crate) cmd: &'a Cmd,
    pub(crate) page: u32,
    pub(crate) prefs: Prefs,
}

/// The display of a report: `cmd` and `page` are those that made it.
#[must_use]
pub fn display(report: &Report, subject: &Subject, cmd: &Cmd, page: u32, prefs: &Prefs) -> Display {
    let ctx = Ctx { subject, cmd, page, prefs: *prefs };
    let mut display = match report {
        Report::Message(text) => {
            let mut d = Display::new(text.clone());
            if !matches!(cmd, Cmd::Quit) {
                d.controls.push(ctx.general_controls());
            }
            d
        }
        Report::Menu(r) => menu::display(&ctx, r),
        Report::Clique(r) => ctx.or_failure(r.as_ref(), clique::display),
        Report::ProgramModules(r) => modules::display_all(&ctx, r),
        Report::Module(r) => ctx.or_failure(r.as_ref(), modules::display),
        Report::GettersSetters(r) => ctx.or_failure(r.as_ref(), getters_setters::display),
        Report::TopProcs(r) => ctx.or_failure(r.as_ref(), top_procs::display),
        Report::Proc(r) => ctx.or_failure(r.as_deref(), proc::display),
        Report::Callers(r) => ctx.or_failure(r.as_ref(), callers::display),
        Report::DumpPs(r) => ctx.or_failure(r.as_ref(), dumps::ps),
        Report::DumpPd(r) => ctx.or_failure(r.as_ref(), dumps::pd),
        Report::DumpCss(r) => ctx.or_failure(r.as_deref(), dumps::css),
        Report::DumpCsd(r) => ctx.or_failure(r.as_deref(), dumps::csd),
        Report::DumpClique(r) => ctx.or_failure(r.as_ref(), dumps::clique),
        Report::Search(r) => search::display(&ctx, r),
        Report::Tree(r) => ctx.or_failure(r.as_ref(), tree::display),
        Report::CliqueRecursion(r) => ctx.or_failure(r.as_ref(), recursion::of_clique),
        Report::Frequencies(r) => ctx.or_failure(r.as_deref(), recursion::frequencies),
        Report::Coverage(r) => ctx.or_failure(r.as_ref(), coverage::display),
        Report::ModuleRep(r) => ctx.or_failure(r.as_ref(), coverage::module),
        Report::VarUse(r) => ctx.or_failure(r.as_deref(), var_use::display),
    };
    let permalink = match report {
        Report::Proc(Ok(r)) if !matches!(cmd, Cmd::ProcNamed(_)) => Some(Cmd::ProcNamed(r.raw_name.clone())),
        _ => None,
    };
    display.banner = Some(banner(subject));
    display.this = Some(This { cmd: cmd.clone(), page, prefs: *prefs, permalink });
    display
}

fn banner(subject: &Subject) -> Banner {
    let header = subject.profile.header();
    let mut facts = Vec::new();
    if header.ticks_per_second > 0 && subject.times_matter() {
        let seconds = header.user_quanta as f64 / header.ticks_per_second as f64;
        facts.push(format!("{} s", format::float(seconds, 2)));
    }
    let whole = subject.profile.root_total();
    facts.push(format!("{} calls", format::int(whole.callseqs)));
    facts.push(format!("{} words allocated", format::int(whole.words)));
    Banner { program: subject.profile.program().into_owned(), facts }
}

impl Ctx<'_> {
    /// The page of a report that was made, or the page that says why not.
    fn or_failure<T: ?Sized>(
        &self,
        report: Result<&T, &crate::report::Failure>,
        page: impl Fn(&Ctx<'_>, &T) -> Display,
    ) -> Display {
        match report {
            Ok(r) => page(self, r),
            Err(failure) => {
                let mut d = Display::new("This page cannot be shown");
                d.items.push(Item::Warning(failure.0.clone()));
                d.items.push(Item::Link(self.link(Cmd::Menu, "back to the menu")));
                d.crumbs = self.crumbs(vec![]);
                d.controls.push(self.general_controls());
                d
            }
        }
    }

    /// A plain link with the preferences in force.
    pub(crate) fn link(&self, cmd: Cmd, label: impl Into<String>) -> Link {
        Link::new(cmd, &self.prefs, label)
    }

    /// The way here: the menu, then these.
    pub(crate) fn crumbs(&self, path: Vec<Link>) -> Vec<Link> {
        let mut out = vec![self.link(Cmd::Menu, "Menu")];
        out.extend(path);
        if out.len() == 1 && *self.cmd == Cmd::Menu {
            out.clear();
        }
        out
    }

    /// The name of a procedure on a page of module `current`.
    pub(crate) fn name(&self, desc: &ProcDesc, current: Option<&str>) -> String {
        let qualified = match self.prefs.qualify {
            Qualify::Always => true,
            Qualify::Never => false,
            Qualify::WhenDifferent => current != Some(desc.module.as_str()),
        };
        if qualified { desc.qualified_name.clone() } else { desc.name.clone() }
    }

    /// A link to the page of a procedure.
    pub(crate) fn proc_link(&self, desc: &ProcDesc, current: Option<&str>) -> Link {
        self.link(Cmd::Proc(i64::from(desc.ps)), self.name(desc, current))
    }

    /// What pictures of cliques measure: the order's cost if it has a tree, else what means something.
    pub(crate) fn tree_cost(&self) -> Cost {
        match self.prefs.order {
            Order::Cost(c) if !matches!(c.cost, Cost::Calls | Cost::Redos) => c.cost,
            _ => Cost::Callseqs,
        }
    }

    pub(crate) fn bytes_per_word(&self) -> u8 {
        self.subject.profile.header().bytes_per_word
    }
}

/// A place in the source.
pub(crate) fn place(file: &str, line: u32) -> String {
    match (file, line) {
        ("", _) => String::new(),
        (file, 0) => file.to_owned(),
        (file, line) => format!("{file}:{line}"),
    }
}

/// Whether an inactive thing is hidden.
pub(crate) fn hidden(active: bool, pref: Inactive) -> bool {
    !active && pref == Inactive::Hide
}
