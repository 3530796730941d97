//! The parts of all reports: performance rows and descriptions of procedures, call sites and cliques.

use crate::analysis::Failure;
use pct_deep::figures::{Desc, Own};
use pct_deep::{CliqueId, CssId, PdId, Profile, PsId};
use serde::Serialize;
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

/// The requested part of a long report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Number of the page, from 1.
    pub page: u32,
}

impl Window {
    /// The positions of the page's items among `total`, with `size` on a page; the last page if it is past the end.
    #[must_use]
    pub fn range(self, total: usize, size: usize) -> (usize, usize) {
        let pages = total.div_ceil(size).max(1);
        let page = (self.page.max(1) as usize).min(pages);
        let from = ((page - 1) * size).min(total);
        (from, (from + size).min(total))
    }
}

/// The procedure with a number from a query.
///
/// # Errors
/// There is no such procedure.
pub fn ps_of(profile: &Profile, number: i64) -> Result<PsId, Failure> {
    profile.ps_id(number).ok_or_else(|| Failure::index("proc_static", number))
}

/// Reports on a procedure with more contexts than this are stored.
const LARGE: usize = 20_000;

/// Whether a procedure has so many contexts that reports on it are stored.
pub(crate) fn is_large(profile: &Profile, ps: PsId) -> bool {
    profile.ps_pds(ps).len() > LARGE
}

/// The measurements of one subject, with everything derived from them.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Perf {
    /// exits + fails + excps - redos.
    pub calls: i64,
    /// Returns with success.
    pub exits: i64,
    /// Failures.
    pub fails: i64,
    /// Re-entries by backtracking.
    pub redos: i64,
    /// Exits by exception.
    pub excps: i64,
    /// What happened in the subject itself.
    #[serde(rename = "self")]
    pub own: Block,
    /// Self and descendants; absent for modules.
    pub total: Option<Block>,
}

/// Costs. Each has its share of the program (0 to 1; 0 if the program has none) and its quotient per call (0 without
/// calls).
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Block {
    /// Clock ticks.
    pub ticks: i64,
    /// Share of the program's ticks.
    pub ticks_share: f64,
    /// Ticks as seconds; 0 if the clock's rate is unknown.
    pub seconds: f64,
    /// Seconds for a call.
    pub seconds_per_call: f64,
    /// Call sequence numbers.
    pub callseqs: i64,
    /// Share of the program's.
    pub callseqs_share: f64,
    /// For a call.
    pub callseqs_per_call: f64,
    /// Memory allocations.
    pub allocs: i64,
    /// Share of the program's.
    pub allocs_share: f64,
    /// For a call.
    pub allocs_per_call: f64,
    /// Words allocated.
    pub words: i64,
    /// Share of the program's.
    pub words_share: f64,
    /// For a call.
    pub words_per_call: f64,
}

/// The totals and rates that rows refer to.
#[derive(Clone, Copy, Debug)]
pub struct Rates {
    ticks_per_second: f64,
    whole: Desc,
}

impl Rates {
    /// The rates of a profile.
    #[must_use]
    pub fn from_profile(profile: &Profile) -> Rates {
        Rates { ticks_per_second: profile.header().ticks_per_second as f64, whole: profile.root_total() }
    }

    /// A row with own figures only.
    #[must_use]
    pub fn own_row(&self, own: &Own) -> Perf {
        Perf {
            calls: own.calls(),
            exits: own.exits,
            fails: own.fails,
            redos: own.redos,
            excps: own.excps,
            own: self.block(&own.inherited(), own.calls()),
            total: None,
        }
    }

    /// A row with own figures and those of descendants.
    #[must_use]
    pub fn row(&self, own: &Own, desc: &Desc) -> Perf {
        Perf { total: Some(self.block(&own.total(desc), own.calls())), ..self.own_row(own) }
    }

    fn block(&self, cost: &Desc, calls: i64) -> Block {
        let share = |part: i64, whole: i64| if whole == 0 { 0.0 } else { part as f64 / whole as f64 };
        let per_call = |x: f64| if calls == 0 { 0.0 } else { x / calls as f64 };
        let seconds =
            if self.ticks_per_second > 0.0 { cost.quanta as f64 / self.ticks_per_second } else { 0.0 };
        Block {
            ticks: cost.quanta,
            ticks_share: share(cost.quanta, self.whole.quanta),
            seconds,
            seconds_per_call: per_call(seconds),
            callseqs: cost.callseqs,
            callseqs_share: share(cost.callseqs, self.whole.callseqs),
            callseqs_per_call: per_call(cost.callseqs as f64),
            allocs: cost.allocs,
            allocs_share: share(cost.allocs, self.whole.allocs),
            allocs_per_call: per_call(cost.allocs as f64),
            words: cost.words,
            words_share: share(cost.words, self.whole.words),
            words_per_call: per_call(cost.words as f64),
        }
    }
}

/// A procedure in words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ProcDesc {
    /// Its id.
    pub ps: u32,
    /// Source file.
    pub file: String,
    /// Line.
    pub line: u32,
    /// The module that declares it.
    pub module: String,
    /// Refined name without module.
    pub name: String,
    /// Refined name with module.
    pub qualified_name: String,
}

/// A call site in words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SiteDesc {
    /// Its id.
    pub css: u32,
    /// Source file: its own, or the procedure's.
    pub file: String,
    /// Line.
    pub line: u32,
    /// The procedure that it is in.
    pub container: ProcDesc,
    /// Which of the procedure's sites it is, from 0.
    pub slot: usize,
    /// Position in the procedure's body.
    pub goal_path: String,
    /// The callee of a normal call.
    pub callee: Option<ProcDesc>,
}

/// A clique in words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CliqueDesc {
    /// Its number.
    pub clique: u32,
    /// The procedure through which it is entered.
    pub entry: ProcDesc,
    /// Its other procedures, at most [`CliqueDesc::LISTED`].
    pub others: Vec<ProcDesc>,
    /// Its other procedures that are not listed.
    pub others_not_listed: usize,
}

impl CliqueDesc {
    /// How many other procedures are listed.
    pub const LISTED: usize = 20;
}

/// What was left out of a list that is too long.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Rest {
    /// Number of items.
    pub count: usize,
    /// Their sum.
    pub perf: Perf,
}

/// Most rows that a report describes singly. If there are more, only the largest are, and the others are summed up.
pub const MAX_ROWS: usize = 5000;

/// Describes a procedure.
#[must_use]
pub fn proc_desc(profile: &Profile, ps: PsId) -> ProcDesc {
    let p = profile.ps(ps);
    ProcDesc {
        ps: ps.number(),
        file: profile.text(p.file).into_owned(),
        line: p.line,
        module: profile.ps_module_name(ps).into_owned(),
        name: profile.unqualified_name(ps),
        qualified_name: profile.qualified_name(ps),
    }
}

/// Describes a call site.
#[must_use]
pub fn site_desc(profile: &Profile, css: CssId) -> SiteDesc {
    let site = profile.css(css);
    SiteDesc {
        css: css.number(),
        file: profile.css_file(css).into_owned(),
        line: site.line,
        container: proc_desc(profile, profile.css_container(css)),
        slot: profile.css_slot(css),
        goal_path: profile.path(site.path).to_string(),
        callee: site.kind.callee().map(|ps| proc_desc(profile, ps)),
    }
}

/// Describes cliques, each from the view of its caller. The procedures of a clique are found once, however many rows
/// name it: there are cliques of a million contexts.
pub struct Describer<'a> {
    profile: &'a Profile,
    procs: RefCell<HashMap<CliqueId, Rc<[PsId]>>>,
}

impl<'a> Describer<'a> {
    /// A describer for a profile's cliques.
    #[must_use]
    pub fn new(profile: &'a Profile) -> Describer<'a> {
        Describer { profile, procs: RefCell::default() }
    }

    /// Describes a clique that is entered through `entry` (its entry context when that is `None`).
    #[must_use]
    pub fn clique(&self, clique: CliqueId, entry: Option<PdId>) -> CliqueDesc {
        let profile = self.profile;
        let entry = profile.pd_ps(entry.unwrap_or_else(|| profile.clique_entry_pd(clique)));
        let procs = self.procs_of(clique);
        let others = || procs.iter().filter(|&&ps| ps != entry);
        CliqueDesc {
            clique: clique.number(),
            entry: proc_desc(profile, entry),
            others: others().take(CliqueDesc::LISTED).map(|&ps| proc_desc(profile, ps)).collect(),
            others_not_listed: others().count().saturating_sub(CliqueDesc::LISTED),
        }
    }

    /// The procedures of a clique, ascending; empty for a clique of one context.
    fn procs_of(&self, clique: CliqueId) -> Rc<[PsId]> {
        let members = self.profile.clique_members(clique);
        if members.len() < 2 {
            return Rc::new([]);
        }
        let mut known = self.procs.borrow_mut();
        let procs = known.entry(clique).or_insert_with(|| {
            let mut procs: Vec<PsId> = members.iter().map(|&pd| self.profile.pd_ps(pd)).collect();
            procs.sort_unstable();
            procs.dedup();
            procs.into()
        });
        Rc::clone(procs)
    }
}

/// Describes one clique: see [`Describer`] for many.
#[must_use]
pub fn clique_desc(profile: &Profile, clique: CliqueId, entry: Option<PdId>) -> CliqueDesc {
    Describer::new(profile).clique(clique, entry)
}
