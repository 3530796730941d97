//! Commands: what a page is about. [`Cmd`]'s `Display` is the counterpart of the parser; both use one table of
//! keywords.
//!
//! The 23 commands of the deep profiler keep their spelling. pct adds `search/TEXT`, `proc_named/NAME` (a link that
//! survives a new run of the program), `clique_tree/N/COST` (the picture below a clique), `flame` (the stacks of a
//! recording), `source/FILE/LINE`, `recordings` (the other available profiles), `diff/NAME/WHAT/INCL/SCALE` (a
//! comparison with one of them), `feedback` and `feedback/N` (what is worth executing in parallel, in the program and
//! in a procedure).

use super::prefs::{CostOrder, Order, Unrecognised};
use super::words::{
    Contour, Cost, DiffScale, DiffWhat, Group, Incl, Scope, WaitsOf, decode, encode, parse_float, parse_int,
};
use std::fmt;
use std::str::FromStr;

/// How many procedures a top list has.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Limit {
    /// Ranks from..=to, from 1.
    Ranks(i64, i64),
    /// More than this percentage of the program's total.
    Percent(f64),
    /// More than this value.
    Value(f64),
}

/// What a page is about. Ids are those of the query; they may not exist.
#[derive(Clone, Debug, PartialEq)]
pub enum Cmd {
    /// Ends the server.
    Quit,
    /// Reads the file again.
    Restart,
    /// Sets the idle time of the server, in minutes.
    Timeout(i64),
    /// The first page.
    Menu,
    /// The root's clique, or the clique at this percentage of call sequence numbers at which the action starts.
    Root(Option<i64>),
    /// A clique.
    Clique(i64),
    /// How a clique recurses.
    CliqueRecursion(i64),
    /// A procedure.
    Proc(i64),
    /// The callers of a procedure.
    ProcCallers {
        /// The procedure.
        ps: i64,
        /// What callers are grouped by.
        group: Group,
        /// Which bunch of rows, from 1.
        bunch: i64,
        /// Number of rows in a bunch, from 1.
        size: i64,
        /// Contour exclusion.
        contour: Contour,
    },
    /// A procedure's text with counts from all contexts.
    StaticCoverage(i64),
    /// A procedure's text with the counts of one context.
    DynamicCoverage(i64),
    /// When a call first uses its arguments.
    VarUse(i64),
    /// How often each type of recursion occurs.
    RecursionTypeFreq,
    /// All modules.
    ProgramModules,
    /// A module's procedures.
    Module(String),
    /// A module's accessors.
    GettersSetters(String),
    /// A module's text.
    ModuleRep(String),
    /// The most expensive procedures.
    TopProcs {
        /// How many of them.
        limit: Limit,
        /// The cost.
        cost: Cost,
        /// With or without descendants.
        incl: Incl,
        /// Overall or per call.
        scope: Scope,
    },
    /// Raw clique.
    DumpClique(i64),
    /// Raw procedure static.
    DumpPs(i64),
    /// Raw procedure dynamic.
    DumpPd(i64),
    /// Raw call site static.
    DumpCss(i64),
    /// Raw call site dynamic.
    DumpCsd(i64),
    /// Procedures and modules whose name or source position contains a text (pct's).
    Search(String),
    /// The procedure with this raw name (pct's).
    ProcNamed(String),
    /// The tree of cliques below one, as a picture (pct's). 0 is the root's, whatever its number.
    CliqueTree(i64, Cost),
    /// The stacks of a recording as a picture (pct's).
    Flame,
    /// Whose time it was (pct's).
    Owners,
    /// What threads waited for (pct's).
    Waits(WaitsOf),
    /// A source file, at a line (pct's).
    Source(String, i64),
    /// The other available profiles (pct's).
    Recordings,
    /// What changed since another profile (pct's).
    Diff {
        /// Name of the older profile.
        base: String,
        /// What is matched.
        what: DiffWhat,
        /// Ordered by the change in it, or in it and below.
        incl: Incl,
        /// How the two are compared.
        scale: DiffScale,
    },
    /// Conjunctions worth executing in parallel, of a procedure or of all (pct's).
    Feedback(Option<i64>),
}

impl Cmd {
    /// A top list over the whole program.
    #[must_use]
    pub fn top(limit: Limit, cost: Cost, incl: Incl) -> Cmd {
        Cmd::TopProcs { limit, cost, incl, scope: Scope::Overall }
    }

    /// The order that the command implies: a top list is ordered by its own cost.
    #[must_use]
    pub fn order(&self) -> Option<Order> {
        match *self {
            Cmd::TopProcs { cost, incl, scope, .. } => Some(Order::Cost(CostOrder { cost, incl, scope })),
            _ => None,
        }
    }

    /// Whether it names a procedure, a clique or a call site by a number, which is another's in another profile.
    #[must_use]
    pub fn is_by_number(&self) -> bool {
        match self {
            Cmd::Clique(_)
            | Cmd::CliqueRecursion(_)
            | Cmd::Proc(_)
            | Cmd::ProcCallers { .. }
            | Cmd::StaticCoverage(_)
            | Cmd::DynamicCoverage(_)
            | Cmd::VarUse(_)
            | Cmd::DumpClique(_)
            | Cmd::DumpPs(_)
            | Cmd::DumpPd(_)
            | Cmd::DumpCss(_)
            | Cmd::DumpCsd(_)
            | Cmd::CliqueTree(1.., _)
            | Cmd::Feedback(Some(_)) => true,
            Cmd::Quit
            | Cmd::Restart
            | Cmd::Timeout(_)
            | Cmd::Menu
            | Cmd::Root(_)
            | Cmd::RecursionTypeFreq
            | Cmd::ProgramModules
            | Cmd::Module(_)
            | Cmd::GettersSetters(_)
            | Cmd::ModuleRep(_)
            | Cmd::TopProcs { .. }
            | Cmd::Search(_)
            | Cmd::ProcNamed(_)
            | Cmd::Flame
            | Cmd::Owners
            | Cmd::Waits(_)
            | Cmd::Source(..)
            | Cmd::Recordings
            | Cmd::Diff { .. }
            | Cmd::CliqueTree(..=0, _)
            | Cmd::Feedback(None) => false,
        }
    }

    /// Whether the command changes the server instead of showing something.
    #[must_use]
    pub fn is_control(&self) -> bool {
        matches!(self, Cmd::Quit | Cmd::Restart | Cmd::Timeout(_))
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Limit::Ranks(lo, hi) => write!(f, "{lo}-{hi}"),
            Limit::Percent(x) => write!(f, "p{x}"),
            Limit::Value(x) => write!(f, "v{x}"),
        }
    }
}

impl FromStr for Limit {
    type Err = Unrecognised;
    fn from_str(s: &str) -> Result<Self, Unrecognised> {
        if let Some((lo, hi)) = s.split_once('-')
            && let (Some(lo), Some(hi)) = (parse_int(lo), parse_int(hi))
        {
            return Ok(Limit::Ranks(lo, hi));
        }
        if let Some(x) = s.strip_prefix('p') {
            return parse_float(x).map(Limit::Percent).ok_or(Unrecognised);
        }
        if let Some(x) = s.strip_prefix('v') {
            return parse_float(x).map(Limit::Value).ok_or(Unrecognised);
        }
        Err(Unrecognised)
    }
}

impl fmt::Display for Cmd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cmd::Quit => f.write_str("quit"),
            Cmd::Restart => f.write_str("restart"),
            Cmd::Timeout(minutes) => write!(f, "timeout/{minutes}"),
            Cmd::Menu => f.write_str("menu"),
            Cmd::Root(None) => f.write_str("root/no"),
            Cmd::Root(Some(percent)) => write!(f, "root/{percent}"),
            Cmd::Clique(n) => write!(f, "clique/{n}"),
            Cmd::CliqueRecursion(n) => write!(f, "clique_rc/{n}"),
            Cmd::Proc(n) => write!(f, "proc/{n}"),
            Cmd::ProcCallers { ps, group, bunch, size, contour } => {
                write!(f, "proc_callers/{ps}/{}/{bunch}/{size}/{}", group.as_word(), contour.as_word())
            }
            Cmd::StaticCoverage(n) => write!(f, "proc_static_coverage/{n}"),
            Cmd::DynamicCoverage(n) => write!(f, "proc_dynamic_coverage/{n}"),
            Cmd::VarUse(n) => write!(f, "call_site_dynamic_var_use/{n}"),
            Cmd::RecursionTypeFreq => f.write_str("recursion_type_freq"),
            Cmd::ProgramModules => f.write_str("program_modules"),
            Cmd::Module(name) => write!(f, "module/{}", encode(name, "")),
            Cmd::GettersSetters(name) => write!(f, "module_getter_setters/{}", encode(name, "")),
            Cmd::ModuleRep(name) => write!(f, "module_rep/{}", encode(name, "")),
            Cmd::TopProcs { limit, cost, incl, scope } => {
                write!(f, "top_procs/{limit}/{}/{}/{}", cost.as_word(), incl.as_word(), scope.as_word())
            }
            Cmd::DumpClique(n) => write!(f, "dump_raw_clique/{n}"),
            Cmd::DumpPs(n) => write!(f, "dump_proc_static/{n}"),
            Cmd::DumpPd(n) => write!(f, "dump_proc_dynamic/{n}"),
            Cmd::DumpCss(n) => write!(f, "dump_call_site_static/{n}"),
            Cmd::DumpCsd(n) => write!(f, "dump_call_site_dynamic/{n}"),
            Cmd::Search(text) => write!(f, "search/{}", encode(text, "")),
            Cmd::ProcNamed(name) => write!(f, "proc_named/{}", encode(name, "")),
            Cmd::CliqueTree(n, cost) => write!(f, "clique_tree/{n}/{}", cost.as_word()),
            Cmd::Flame => f.write_str("flame"),
            Cmd::Owners => f.write_str("owners"),
            Cmd::Waits(of) => write!(f, "waits/{}", of.as_word()),
            Cmd::Source(file, line) => write!(f, "source/{}/{line}", encode(file, "")),
            Cmd::Recordings => f.write_str("recordings"),
            Cmd::Diff { base, what, incl, scale } => {
                write!(
                    f,
                    "diff/{}/{}/{}/{}",
                    encode(base, ""),
                    what.as_word(),
                    incl.as_word(),
                    scale.as_word()
                )
            }
            Cmd::Feedback(None) => f.write_str("feedback"),
            Cmd::Feedback(Some(n)) => write!(f, "feedback/{n}"),
        }
    }
}

impl FromStr for Cmd {
    type Err = Unrecognised;
    fn from_str(s: &str) -> Result<Self, Unrecognised> {
        let parts: Vec<&str> = s.split('/').collect();
        let int = |word: &str| parse_int(word).ok_or(Unrecognised);
        Ok(match parts[..] {
            ["quit"] => Cmd::Quit,
            ["restart"] => Cmd::Restart,
            ["timeout", n] => Cmd::Timeout(int(n)?),
            ["menu"] => Cmd::Menu,
            ["root", "no"] => Cmd::Root(None),
            ["root", n] => Cmd::Root(Some(int(n)?)),
            ["clique", n] => Cmd::Clique(int(n)?),
            ["clique_rc", n] => Cmd::CliqueRecursion(int(n)?),
            ["proc", n] => Cmd::Proc(int(n)?),
            ["proc_callers", ps, group, bunch, size, contour] => Cmd::ProcCallers {
                ps: int(ps)?,
                group: Group::parse(group).ok_or(Unrecognised)?,
                bunch: int(bunch)?,
                size: int(size)?,
                contour: Contour::parse(contour).ok_or(Unrecognised)?,
            },
            ["proc_static_coverage", n] => Cmd::StaticCoverage(int(n)?),
            ["proc_dynamic_coverage", n] => Cmd::DynamicCoverage(int(n)?),
            ["call_site_dynamic_var_use", n] => Cmd::VarUse(int(n)?),
            ["recursion_type_freq"] => Cmd::RecursionTypeFreq,
            ["program_modules"] => Cmd::ProgramModules,
            ["module", name] => Cmd::Module(decode(name)),
            ["module_getter_setters", name] => Cmd::GettersSetters(decode(name)),
            ["module_rep", name] => Cmd::ModuleRep(decode(name)),
            ["top_procs", limit, cost, incl, scope] => Cmd::TopProcs {
                limit: limit.parse()?,
                cost: Cost::parse(cost).ok_or(Unrecognised)?,
                incl: Incl::parse(incl).ok_or(Unrecognised)?,
                scope: Scope::parse(scope).ok_or(Unrecognised)?,
            },
            ["dump_raw_clique", n] => Cmd::DumpClique(int(n)?),
            ["dump_proc_static", n] => Cmd::DumpPs(int(n)?),
            ["dump_proc_dynamic", n] => Cmd::DumpPd(int(n)?),
            ["dump_call_site_static", n] => Cmd::DumpCss(int(n)?),
            ["dump_call_site_dynamic", n] => Cmd::DumpCsd(int(n)?),
            ["search", text] => Cmd::Search(decode(text)),
            ["proc_named", name] => Cmd::ProcNamed(decode(name)),
            ["flame"] => Cmd::Flame,
            ["owners"] => Cmd::Owners,
            ["waits", of] => Cmd::Waits(WaitsOf::parse(of).ok_or(Unrecognised)?),
            ["source", file, line] => Cmd::Source(decode(file), int(line)?),
            ["recordings"] => Cmd::Recordings,
            ["diff", base, what, incl, scale] => Cmd::Diff {
                base: decode(base),
                what: DiffWhat::parse(what).ok_or(Unrecognised)?,
                incl: Incl::parse(incl).ok_or(Unrecognised)?,
                scale: DiffScale::parse(scale).ok_or(Unrecognised)?,
            },
            ["clique_tree", n, cost] => Cmd::CliqueTree(int(n)?, Cost::parse(cost).ok_or(Unrecognised)?),
            ["feedback"] => Cmd::Feedback(None),
            ["feedback", n] => Cmd::Feedback(Some(int(n)?)),
            _ => return Err(Unrecognised),
        })
    }
}
