//! What every page uses: names, links and source positions in the form that the preferences ask for.

use super::perf;
use crate::display::{Cell, Data, Link, format};
use crate::query::{Cmd, Cost, Group, Inactive, Order, Prefs, Qualify};
use crate::report::common::ProcDesc;
use crate::subject::Subject;
use pct_deep::measured::Measured;

/// What a page uses.
pub(crate) struct Ctx<'a> {
    pub(crate) subject: &'a Subject,
    pub(crate) cmd: &'a Cmd,
    pub(crate) page: u32,
    pub(crate) prefs: Prefs,
}

impl Ctx<'_> {
    /// The preferences that a link to a command carries.
    pub(crate) fn prefs_for(&self, cmd: &Cmd) -> Prefs {
        self.subject.prefs_between(self.cmd, cmd, &self.prefs)
    }

    /// A plain link with the current preferences.
    pub(crate) fn link(&self, cmd: Cmd, label: impl Into<String>) -> Link {
        let prefs = self.prefs_for(&cmd);
        Link::new(cmd, &prefs, label)
    }

    /// The path to this page: the menu, then these links.
    pub(crate) fn crumbs(&self, path: Vec<Link>) -> Vec<Link> {
        let first = if self.subject.profile.is_native() { "Overview" } else { "Menu" };
        let mut out = vec![self.link(Cmd::Menu, first)];
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

    /// The cost that pictures of cliques show: the order's cost if that has a tree, else one that has a meaning.
    pub(crate) fn tree_cost(&self) -> Cost {
        match self.prefs.order {
            Order::Cost(c) if !matches!(c.cost, Cost::Calls | Cost::Redos) => c.cost,
            _ if self.subject.is_sampled() => Cost::Time,
            _ => Cost::Callseqs,
        }
    }

    /// What the colour of a procedure's frame stands for; the program itself has none.
    pub(crate) fn group_of(&self, ps: u32) -> Option<String> {
        let profile = &self.subject.profile;
        let ps = profile.ps_id(i64::from(ps))?;
        Some(self.subject.colours().group(profile, ps)).filter(|group| !group.is_empty())
    }

    /// What the columns of costs need to know about the profile.
    pub(crate) fn scale(&self) -> perf::Scale<'_> {
        perf::Scale {
            bytes_per_word: self.subject.profile.header().bytes_per_word,
            measured: self.subject.measured(),
            memory: self.subject.memory(),
        }
    }

    /// What the costs of samples are amounts of.
    pub(crate) fn measured(&self) -> &Measured {
        const UNTOLD: &Measured = &Measured::Cpu;
        self.subject.measured().unwrap_or(UNTOLD)
    }

    /// What is spent, in running text: `time`, `cycles`.
    pub(crate) fn spent(&self) -> &str {
        if self.measured().is_time() { "time" } else { self.measured().name() }
    }

    /// A cost in seconds, or in the unit of what is measured.
    pub(crate) fn cost(&self, scaled: f64) -> Data {
        if self.measured().is_time() { Data::Seconds(scaled) } else { Data::Amount(scaled) }
    }

    /// The same with its unit: `1.200 CPU s`, `12 contentions`.
    pub(crate) fn cost_in_words(&self, scaled: f64) -> String {
        format!("{} {}", format::data(&self.cost(scaled)), self.measured().unit())
    }

    /// The words for a procedure and a module; in native programs they are a function and an object.
    pub(crate) fn words(&self) -> &'static Words {
        if self.subject.profile.is_native() { &Words::NATIVE } else { &Words::MERCURY }
    }

    /// A source position: a link if the file is available.
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

/// The words for things.
pub(crate) struct Words {
    pub(crate) proc: &'static str,
    pub(crate) procs: &'static str,
    pub(crate) module: &'static str,
    pub(crate) modules: &'static str,
    /// Contexts that call each other, with everything below them.
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

    /// The words for callers of one group: singular and plural.
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
