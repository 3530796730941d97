//! Reports: the data of each page. They have numbers and names, but no order, no choice of columns and no explanations.
//!
//! A report is a function of the command and the profile alone, so other tools can use it; `--json` prints its JSON
//! form. There is one module per kind. If a report cannot be made, it is the `Err` of its kind, with the reason.

pub mod ahead;
pub mod callers;
pub mod clique;
pub mod common;
pub mod coverage;
pub mod diff;
pub mod dumps;
pub mod feedback;
pub mod flame;
pub mod getters_setters;
pub mod menu;
pub mod module_rep;
pub mod modules;
pub mod over_time;
pub mod overview;
pub mod owners;
pub mod proc;
pub mod recordings;
pub mod recursion;
pub mod search;
pub mod source;
pub mod top_procs;
pub mod tree;
pub mod var_use;
pub mod waits;

pub use crate::analysis::Failure;
use crate::query::{Cmd, Cost};
use crate::subject::Subject;
pub use common::Window;
use serde::Serialize;
use std::sync::Arc;

/// The data of a page.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Report {
    /// A sentence.
    Message(String),
    /// The first page.
    Menu(menu::MenuReport),
    /// A clique.
    Clique(Result<clique::CliqueReport, Failure>),
    /// All modules.
    ProgramModules(modules::ProgramModulesReport),
    /// A module.
    Module(Result<modules::ModuleReport, Failure>),
    /// A module's accessors.
    GettersSetters(Result<getters_setters::GettersSettersReport, Failure>),
    /// The most expensive procedures.
    TopProcs(Result<top_procs::TopProcsReport, Failure>),
    /// A procedure.
    Proc(Result<Box<proc::ProcReport>, Failure>),
    /// Callers of a procedure.
    Callers(Result<callers::CallersReport, Failure>),
    /// Raw procedure static.
    DumpPs(Result<dumps::DumpPs, Failure>),
    /// Raw procedure dynamic.
    DumpPd(Result<dumps::DumpPd, Failure>),
    /// Raw call site static.
    DumpCss(Result<Box<dumps::DumpCss>, Failure>),
    /// Raw call site dynamic.
    DumpCsd(Result<Box<dumps::DumpCsd>, Failure>),
    /// Raw clique.
    DumpClique(Result<dumps::DumpClique, Failure>),
    /// How a clique recurses.
    CliqueRecursion(Result<recursion::CliqueRecursionReport, Failure>),
    /// How often each type of recursion occurs.
    Frequencies(Result<Arc<recursion::FrequencyReport>, Failure>),
    /// A procedure's text with counts.
    Coverage(Result<coverage::CoverageReport, Failure>),
    /// A module's text.
    ModuleRep(Result<module_rep::ModuleRepReport, Failure>),
    /// When a call uses its arguments.
    VarUse(Result<Box<var_use::VarUseReport>, Failure>),
    /// The results of a search.
    Search(search::SearchReport),
    /// What is worth executing in parallel.
    Feedback(Result<Box<feedback::FeedbackReport>, Failure>),
    /// The tree below a clique.
    Tree(Result<Arc<tree::TreeReport>, Failure>),
    /// The stacks of a recording.
    Flame(Result<flame::FlameReport, Failure>),
    /// Whose time it was.
    Owners(Result<owners::OwnersReport, Failure>),
    /// What threads waited for.
    Waits(Result<waits::WaitsReport, Failure>),
    /// A source file.
    Source(Result<source::SourceReport, Failure>),
    /// The available profiles.
    Recordings(recordings::RecordingsReport),
    /// Two profiles compared.
    Diff(Result<Box<diff::DiffReport>, Failure>),
}

impl Report {
    /// Why the report could not be made, if so.
    #[must_use]
    pub fn failure(&self) -> Option<&Failure> {
        match self {
            Report::Message(_)
            | Report::Menu(_)
            | Report::ProgramModules(_)
            | Report::Search(_)
            | Report::Recordings(_) => None,
            Report::Flame(r) => r.as_ref().err(),
            Report::Owners(r) => r.as_ref().err(),
            Report::Waits(r) => r.as_ref().err(),
            Report::Source(r) => r.as_ref().err(),
            Report::Diff(r) => r.as_ref().err(),
            Report::Clique(r) => r.as_ref().err(),
            Report::Module(r) => r.as_ref().err(),
            Report::GettersSetters(r) => r.as_ref().err(),
            Report::TopProcs(r) => r.as_ref().err(),
            Report::Proc(r) => r.as_ref().err(),
            Report::Callers(r) => r.as_ref().err(),
            Report::DumpPs(r) => r.as_ref().err(),
            Report::DumpPd(r) => r.as_ref().err(),
            Report::DumpCss(r) => r.as_ref().err(),
            Report::DumpCsd(r) => r.as_ref().err(),
            Report::DumpClique(r) => r.as_ref().err(),
            Report::Tree(r) => r.as_ref().err(),
            Report::Feedback(r) => r.as_ref().err(),
            Report::CliqueRecursion(r) => r.as_ref().err(),
            Report::Frequencies(r) => r.as_ref().err(),
            Report::Coverage(r) => r.as_ref().err(),
            Report::ModuleRep(r) => r.as_ref().err(),
            Report::VarUse(r) => r.as_ref().err(),
        }
    }
}

/// Makes the report for a command.
#[must_use]
pub fn create(subject: &Subject, cmd: &Cmd, window: Window) -> Report {
    let profile = &subject.profile;
    match cmd {
        Cmd::Quit => Report::Message("The server for this file is shutting down.".to_owned()),
        Cmd::Timeout(minutes) => Report::Message(match minutes {
            0 => "The server for this file will not stop when it is idle.".to_owned(),
            n => format!("The server for this file will stop when it has been idle for {n} minutes."),
        }),
        Cmd::Restart | Cmd::Menu => Report::Menu(menu::create(subject)),
        Cmd::Root(percent) => Report::Clique(Ok(clique::create_root(profile, *percent, window))),
        Cmd::Clique(n) => Report::Clique(clique::create(profile, *n, window)),
        Cmd::Proc(n) => Report::Proc(proc::create(subject, *n).map(Box::new)),
        Cmd::ProcNamed(name) => Report::Proc(proc::create_named(subject, name).map(Box::new)),
        &Cmd::ProcCallers { ps: number, group, bunch, size, contour } => Report::Callers(
            callers::create_kept(subject, callers::Asked { number, group, bunch, size, contour }),
        ),
        Cmd::ProgramModules => Report::ProgramModules(modules::create_all(profile)),
        Cmd::Module(name) => {
            Report::Module(modules::create(profile, name, subject.has_module_representation(name)))
        }
        Cmd::GettersSetters(name) => Report::GettersSetters(getters_setters::create(profile, name)),
        Cmd::TopProcs { cost: Cost::Allocs | Cost::Words, .. } if !subject.knows_memory() => {
            Report::TopProcs(Err(Failure(
                "Allocations are counted by stack over the whole recording: of a range of time, or of one thread, they are \
                 not known."
                    .to_owned(),
            )))
        }
        Cmd::TopProcs { limit, cost, incl, scope } => {
            Report::TopProcs(top_procs::create(profile, *limit, *cost, *incl, *scope))
        }
        Cmd::DumpClique(n) => Report::DumpClique(dumps::clique(profile, *n)),
        Cmd::DumpPs(n) => Report::DumpPs(dumps::ps(profile, *n)),
        Cmd::DumpPd(n) => Report::DumpPd(dumps::pd(profile, *n)),
        Cmd::DumpCss(n) => Report::DumpCss(dumps::css(profile, *n).map(Box::new)),
        Cmd::DumpCsd(n) => Report::DumpCsd(dumps::csd(profile, *n).map(Box::new)),
        Cmd::Search(text) => Report::Search(search::create(profile, text)),
        Cmd::Flame => Report::Flame(flame::create(subject)),
        Cmd::Owners => Report::Owners(owners::create(subject)),
        Cmd::Waits(of) => Report::Waits(waits::create(subject, *of)),
        Cmd::Source(file, line) => Report::Source(source::create(subject, file, *line)),
        Cmd::Recordings => Report::Recordings(recordings::create(subject)),
        Cmd::Diff { base, what, incl, scale } => {
            Report::Diff(diff::create(subject, base, *what, *incl, *scale).map(Box::new))
        }
        Cmd::Feedback(n) => Report::Feedback(feedback::create(subject, *n).map(Box::new)),
        Cmd::CliqueTree(n, cost) => Report::Tree(tree::create(subject, *n, *cost)),
        Cmd::CliqueRecursion(n) => Report::CliqueRecursion(recursion::of_clique(subject, *n)),
        Cmd::RecursionTypeFreq => Report::Frequencies(recursion::frequencies_kept(subject)),
        Cmd::StaticCoverage(n) => Report::Coverage(coverage::of_ps(subject, *n)),
        Cmd::DynamicCoverage(n) => Report::Coverage(coverage::of_pd(subject, *n)),
        Cmd::ModuleRep(name) => Report::ModuleRep(module_rep::create(subject, name)),
        Cmd::VarUse(n) => Report::VarUse(var_use::create(subject, *n).map(Box::new)),
    }
}
