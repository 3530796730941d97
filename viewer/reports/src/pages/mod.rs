//! Reports to displays: which rows, in which order, under which names, with which links and controls.
//!
//! One module per kind of page. They read the report and the preferences; of the profile they take only what decides
//! about controls (whether times mean anything, the state of the contour file) and the names of the path to a clique.

mod callers;
mod clique;
mod controls;
mod coverage;
mod diff;
mod dumps;
mod feedback;
mod flame;
mod flat;
mod getters_setters;
mod menu;
mod modules;
mod overview;
mod perf;
mod proc;
mod recordings;
mod recursion;
mod search;
mod source;
mod tabs;
mod top_procs;
mod tree;
mod var_use;

use crate::display::{Banner, Cell, Data, Display, Item, Link, This, format};
use crate::query::{Cmd, Cost, Group, Inactive, Order, Prefs, Qualify};
use crate::render::html::{HELP, NATIVE_HELP};
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
        Report::Feedback(r) => ctx.or_failure(r.as_deref(), feedback::display),
        Report::Tree(r) => ctx.or_failure(r.as_deref(), tree::display),
        Report::CliqueRecursion(r) => ctx.or_failure(r.as_ref(), recursion::of_clique),
        Report::Frequencies(r) => ctx.or_failure(r.as_deref(), recursion::frequencies),
        Report::Coverage(r) => ctx.or_failure(r.as_ref(), coverage::display),
        Report::ModuleRep(r) => ctx.or_failure(r.as_ref(), coverage::module),
        Report::VarUse(r) => ctx.or_failure(r.as_deref(), var_use::display),
        Report::Flame(r) => ctx.or_failure(r.as_ref(), flame::display),
        Report::Source(r) => ctx.or_failure(r.as_ref(), source::display),
        Report::Recordings(r) => recordings::display(&ctx, r),
        Report::Diff(r) => ctx.or_failure(r.as_deref(), diff::display),
    };
    let permalink = match report {
        Report::Proc(Ok(r)) if !matches!(cmd, Cmd::ProcNamed(_)) => Some(Cmd::ProcNamed(r.raw_name.clone())),
        _ => None,
    };
    display.items.iter_mut().for_each(leave_out_zeros);
    display.sections = ctx.sections();
    display.tabs = ctx.tabs(report);
    display.help = if subject.profile.is_native() { NATIVE_HELP } else { HELP };
    display.banner = Some(banner(subject));
    display.this = Some(This { cmd: cmd.clone(), page, prefs: *prefs, permalink });
    display
}

/// Tables without the columns in which all is zero.
fn leave_out_zeros(item: &mut Item) {
    match item {
        Item::Table(table) => table.without_zeros(),
        Item::Columns(items) => items.iter_mut().for_each(leave_out_zeros),
        _ => {}
    }
}

fn banner(subject: &Subject) -> Banner {
    let header = subject.profile.header();
    let mut facts = Vec::new();
    if header.ticks_per_second > 0 && subject.times_matter() {
        let seconds = header.user_quanta as f64 / header.ticks_per_second as f64;
        // Of a recording this is what the tables add up to; what the system measured is said on the overview.
        let unit = if subject.only_time() { "CPU s in samples" } else { "s" };
        facts.push(format!("{} {unit}", format::float(seconds, 2)));
    }
    if let (true, Some(recorded)) = (subject.only_time(), &subject.recorded) {
        if recorded.side.samples > 0 {
            facts.push(format!("{} samples", format::int(recorded.side.samples as i64)));
        }
        if recorded.side.running > 0 {
            facts.push("still running".to_owned());
        }
    }
    if subject.only_time() {
        if facts.is_empty() {
            facts.push(format!("{} ns", format::int(header.user_quanta as i64)));
        }
        return Banner { program: subject.profile.program().into_owned(), facts };
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

    /// The preferences that a link to a command carries.
    pub(crate) fn prefs_for(&self, cmd: &Cmd) -> Prefs {
        self.subject.prefs_between(self.cmd, cmd, &self.prefs)
    }

    /// A plain link with the preferences in force.
    pub(crate) fn link(&self, cmd: Cmd, label: impl Into<String>) -> Link {
        let prefs = self.prefs_for(&cmd);
        Link::new(cmd, &prefs, label)
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
        let name = if qualified { &desc.qualified_name } else { &desc.name };
        if self.subject.profile.is_native() { format::short_name(name) } else { name.clone() }
    }

    /// A link to the page of a procedure.
    pub(crate) fn proc_link(&self, desc: &ProcDesc, current: Option<&str>) -> Link {
        let link = self.link(Cmd::Proc(i64::from(desc.ps)), self.name(desc, current));
        if link.label.text.contains('\u{2026}') { link.hint(&*desc.qualified_name) } else { link }
    }

    /// What pictures of cliques measure: the order's cost if it has a tree, else what means something.
    pub(crate) fn tree_cost(&self) -> Cost {
        match self.prefs.order {
            Order::Cost(c) if !matches!(c.cost, Cost::Calls | Cost::Redos) => c.cost,
            _ if self.subject.only_time() => Cost::Time,
            _ => Cost::Callseqs,
        }
    }

    /// What the columns of costs have to know.
    pub(crate) fn scale(&self) -> perf::Scale {
        perf::Scale {
            bytes_per_word: self.subject.profile.header().bytes_per_word,
            only_time: self.subject.only_time(),
        }
    }

    /// What a procedure and a module are called: in native programs a function and an object.
    pub(crate) fn words(&self) -> &'static Words {
        if self.subject.profile.is_native() { &Words::NATIVE } else { &Words::MERCURY }
    }

    /// A place in the source: a link if the file is at hand.
    pub(crate) fn place_data(&self, file: &str, line: u32) -> Data {
        let whole = place(file, line);
        let short = place(&short_path(file), line);
        if self.subject.source(file).is_some() {
            Data::Link(self.link(Cmd::Source(file.to_owned(), i64::from(line)), short).hint(whole))
        } else if short == whole {
            Data::Text(whole)
        } else {
            Data::Hinted(short, whole)
        }
    }

    /// The same as a cell.
    pub(crate) fn place_cell(&self, file: &str, line: u32) -> Cell {
        Cell::One(self.place_data(file, line))
    }
}

/// What things are called.
pub(crate) struct Words {
    pub(crate) proc: &'static str,
    pub(crate) procs: &'static str,
    pub(crate) module: &'static str,
    pub(crate) modules: &'static str,
    /// Contexts that call each other, with what they have below them.
    pub(crate) clique: &'static str,
    pub(crate) cliques: &'static str,
    /// After "hidden": procedures that were ...
    pub(crate) silent: &'static str,
}

impl Words {
    const MERCURY: Words = Words {
        proc: "Procedure",
        procs: "procedures",
        module: "Module",
        modules: "modules",
        clique: "clique",
        cliques: "cliques",
        silent: "never called",
    };
    const NATIVE: Words = Words {
        proc: "Function",
        procs: "functions",
        module: "Object",
        modules: "objects",
        clique: "call context",
        cliques: "call contexts",
        silent: "without a sample",
    };

    /// What callers of one group are, one of them and several.
    pub(crate) fn group(&self, group: Group) -> (String, &'static str) {
        match group {
            Group::CallSite => ("call site".to_owned(), "call sites"),
            Group::Proc => (self.proc.to_lowercase(), self.procs),
            Group::Module => (self.module.to_lowercase(), self.modules),
            Group::Clique => (self.clique.to_owned(), self.cliques),
        }
    }
}

/// A number of things in words: `1 row`, `2 rows`.
pub(crate) fn counted(n: usize, one: &str, many: &str) -> String {
    format!("{} {}", format::int(i64::try_from(n).unwrap_or(i64::MAX)), if n == 1 { one } else { many })
}

/// The end of a long path; short ones stay.
fn short_path(file: &str) -> String {
    const LONG: usize = 32;
    if file.len() <= LONG {
        return file.to_owned();
    }
    let mut from = file.len();
    for (i, _) in file.rmatch_indices('/') {
        if file.len() - i > LONG && from < file.len() {
            break;
        }
        from = i;
    }
    if from == 0 || from == file.len() { file.to_owned() } else { format!("\u{2026}{}", &file[from..]) }
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
