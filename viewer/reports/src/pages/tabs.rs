//! The links of a page beside its own content: the parts of the profile, and the other views of the page's subject.

use super::ctx::Ctx;
use crate::display::{Item, Link};
use crate::query::{Cmd, Cost, Group, Incl, Limit, WaitsOf};
use crate::report::Report;
use crate::subject::RepState;

impl Ctx<'_> {
    /// A link to a view; plain text if it is this page.
    fn view(&self, cmd: Cmd, label: &str, is_here: bool) -> Item {
        if is_here || cmd == *self.cmd {
            Item::Current(label.to_owned())
        } else {
            Item::Link(self.link(cmd, label))
        }
    }

    /// The parts of the profile.
    pub(super) fn sections(&self) -> Vec<Item> {
        let is_native = self.subject.profile.is_native();
        let root = self.subject.profile.root_clique().number();
        // Of a recording, parts have other numbers: there the root is told without its own.
        let root_of_tree = if is_native { 0 } else { i64::from(root) };
        let is_tree = matches!(self.cmd, Cmd::CliqueTree(n, _) if [0, i64::from(root)].contains(n));
        let is_root = matches!(self.cmd, Cmd::Clique(n) if *n == i64::from(root));
        let has_memory = self.subject.memory().is_some();
        let is_memory =
            has_memory && matches!(self.cmd, Cmd::TopProcs { cost: Cost::Allocs | Cost::Words, .. });
        let is_top = matches!(self.cmd, Cmd::TopProcs { .. }) && !is_memory;
        let recorded = self.subject.recorded.as_ref();
        let mut out = vec![self.view(Cmd::Menu, if is_native { "overview" } else { "menu" }, false)];
        if recorded.is_some_and(|r| !r.stacks.is_empty()) {
            out.push(self.view(Cmd::Flame, "flame graph", false));
        }
        if recorded.is_none_or(|r| r.side.stacks_known) {
            out.push(self.view(Cmd::Root(None), "call tree", is_root));
            let picture = if is_native { "call graph" } else { "icicle" };
            out.push(self.view(Cmd::CliqueTree(root_of_tree, self.tree_cost()), picture, is_tree));
        }
        let cost = if self.subject.times_matter() { Cost::Time } else { Cost::Callseqs };
        let by_owner = recorded.is_some_and(|r| !r.side.owners.is_empty());
        let all = match by_owner {
            true => Cmd::Owners,
            false => Cmd::top(Limit::Ranks(1, 100), cost, Incl::Own),
        };
        out.push(self.view(all, self.words().procs, is_top && !by_owner));
        if has_memory {
            let memory = Cmd::top(Limit::Ranks(1, 100), Cost::Words, Incl::Own);
            out.push(self.view(memory, "memory", is_memory));
        }
        if recorded.is_some_and(|r| r.waits.is_some()) {
            let is_here = matches!(self.cmd, Cmd::Waits(_));
            out.push(self.view(Cmd::Waits(WaitsOf::Locks), "waits", is_here));
        }
        out.push(self.view(Cmd::ProgramModules, self.words().modules, false));
        if matches!(self.subject.rep, RepState::Good(_)) {
            out.push(self.view(Cmd::Feedback(None), "in parallel", false));
            out.push(Item::Developer(Box::new(self.view(Cmd::RecursionTypeFreq, "recursion", false))));
        }
        if self.subject.shelf.as_ref().is_some_and(|s| s.entries().len() > 1) {
            out.push(self.view(Cmd::Recordings, "recordings", false));
        }
        out
    }

    /// The other views of a report's subject.
    pub(super) fn tabs(&self, report: &Report) -> Vec<Item> {
        match report {
            Report::Proc(Ok(r)) => self.proc_tabs(r.desc.ps, &r.desc.file, r.desc.line),
            Report::Callers(Ok(r)) => self.proc_tabs(r.desc.ps, &r.desc.file, r.desc.line),
            Report::Coverage(Ok(r)) => self.proc_tabs(r.desc.ps, &r.desc.file, r.desc.line),
            Report::DumpPs(Ok(_)) => match *self.cmd {
                Cmd::DumpPs(n) => u32::try_from(n).map_or_else(|_| Vec::new(), |n| self.proc_tabs(n, "", 0)),
                _ => Vec::new(),
            },
            Report::Feedback(Ok(r)) => match &r.desc {
                Some(desc) => self.proc_tabs(desc.ps, &desc.file, desc.line),
                None => Vec::new(),
            },
            Report::Waits(Ok(_)) => {
                WaitsOf::ALL.iter().map(|&of| self.view(Cmd::Waits(of), of.label(), false)).collect()
            }
            Report::Clique(Ok(r)) => self.clique_tabs(r.clique.clique),
            Report::CliqueRecursion(Ok(r)) => self.clique_tabs(r.clique.clique),
            Report::DumpClique(Ok(r)) => self.clique_tabs(r.clique),
            Report::Tree(Ok(r)) => r.nodes.first().map_or_else(Vec::new, |top| self.clique_tabs(top.clique)),
            _ => Vec::new(),
        }
    }

    fn proc_tabs(&self, ps: u32, file: &str, line: u32) -> Vec<Item> {
        let n = i64::from(ps);
        let is_native = self.subject.profile.is_native();
        let is_here = matches!(self.cmd, Cmd::Proc(_) | Cmd::ProcNamed(_));
        let first = if is_native { "callers and callees" } else { "call sites and callees" };
        let mut out = vec![self.view(Cmd::Proc(n), first, is_here)];
        let callers =
            Cmd::ProcCallers { ps: n, group: Group::Proc, bunch: 1, size: 20, contour: self.prefs.contour };
        let label = if is_native { "all callers" } else { "callers" };
        out.push(self.view(callers, label, matches!(self.cmd, Cmd::ProcCallers { .. })));
        if self.subject.has_body(ps) {
            let is_here = matches!(self.cmd, Cmd::StaticCoverage(_) | Cmd::DynamicCoverage(_));
            out.push(self.view(Cmd::StaticCoverage(n), "text with coverage", is_here));
            out.push(self.view(Cmd::Feedback(Some(n)), "in parallel", false));
        }
        if self.subject.source(file).is_some() {
            out.push(self.view(Cmd::Source(file.to_owned(), i64::from(line)), "source", false));
        }
        out.push(Item::Developer(Box::new(self.view(Cmd::DumpPs(n), "raw dump", false))));
        out
    }

    fn clique_tabs(&self, clique: u32) -> Vec<Item> {
        let n = i64::from(clique);
        // The page may have been reached as `root`.
        let is_here = matches!(self.cmd, Cmd::Clique(_) | Cmd::Root(_));
        let is_tree = matches!(self.cmd, Cmd::CliqueTree(..));
        let (calls, picture) = if self.subject.profile.is_native() {
            ("calls", "picture of all below")
        } else {
            ("procedures and calls", "icicle of all below")
        };
        let mut out = vec![
            self.view(Cmd::Clique(n), calls, is_here),
            self.view(Cmd::CliqueTree(n, self.tree_cost()), picture, is_tree),
        ];
        if let Some(id) = self.subject.profile.clique_id(n) {
            let ps = self.subject.profile.pd_ps(self.subject.profile.clique_entry_pd(id)).number();
            let name = self.words().proc.to_lowercase();
            out.push(Item::Link(Link {
                hint: None,
                ..self.link(Cmd::Proc(i64::from(ps)), format!("the {name}"))
            }));
        }
        if matches!(self.subject.rep, RepState::Good(_)) {
            let recursion = self.view(Cmd::CliqueRecursion(n), "recursion", false);
            out.push(Item::Developer(Box::new(recursion)));
        }
        out.push(Item::Developer(Box::new(self.view(Cmd::DumpClique(n), "raw dump", false))));
        out
    }
}
