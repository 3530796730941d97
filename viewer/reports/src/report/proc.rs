//! A procedure over all its contexts: its cost, its call sites, their callees.

use super::clique::kind_word;
use super::common::{MAX_ROWS, Perf, ProcDesc, Rates, Rest, SiteDesc, is_large, proc_desc, ps_of, site_desc};
use crate::analysis::Failure;
use crate::memo::Memo;
use crate::subject::Subject;
use pct_deep::figures::{Desc, Own};
use pct_deep::{CsdId, CssId, CssKind, PdId, Profile, PsId};
use serde::Serialize;
use std::collections::HashSet;

/// Data of the page.
#[derive(Clone, Debug, Serialize)]
pub struct ProcReport {
    /// The procedure.
    #[serde(rename = "proc")]
    pub desc: ProcDesc,
    /// Its raw name, which stays the same from run to run.
    pub raw_name: String,
    /// Its costs.
    pub perf: Perf,
    /// Its call sites, in slot order.
    pub sites: Vec<ProcSite>,
    /// Calls from other procedures, summed.
    pub callers: CallersSummary,
    /// Number of its contexts.
    pub contexts: usize,
    /// For a native program's function: its callers and callees, each function once.
    pub neighbours: Option<Neighbours>,
}

/// The callers and callees of a function, each summed over all call sites.
#[derive(Clone, Debug, Serialize)]
pub struct Neighbours {
    /// Its callers, with the cost of those calls.
    pub callers: Vec<ProcCallee>,
    /// Callers beyond those listed.
    pub callers_rest: Option<Rest>,
    /// Its callees.
    pub callees: Vec<ProcCallee>,
    /// Callees beyond those listed.
    pub callees_rest: Option<Rest>,
}

/// A call site over all contexts.
#[derive(Clone, Debug, Serialize)]
pub struct ProcSite {
    /// The call site.
    pub site: SiteDesc,
    /// normal, special, higher_order, method or callback.
    pub kind: &'static str,
    /// Type substitution of a normal call, if known.
    pub type_subst: String,
    /// Sum over its callees.
    pub summary: Perf,
    /// Callees, by id. A normal call has at most one.
    pub callees: Vec<ProcCallee>,
    /// Callees beyond those listed.
    pub rest: Option<Rest>,
}

/// A callee or a caller.
#[derive(Clone, Debug, Serialize)]
pub struct ProcCallee {
    /// The procedure.
    #[serde(rename = "proc")]
    pub desc: ProcDesc,
    /// Cost of the calls.
    pub perf: Perf,
}

/// Calls of a procedure by others.
#[derive(Clone, Debug, Serialize)]
pub struct CallersSummary {
    /// Call site dynamics.
    pub csds: usize,
    /// Call site statics.
    pub csss: usize,
    /// Procedures.
    pub procs: usize,
    /// Their sum, without compensation for recursion.
    pub perf: Perf,
}

/// The report.
///
/// # Errors
/// There is no such procedure.
pub fn create(subject: &Subject, number: i64) -> Result<ProcReport, Failure> {
    Ok(kept(subject, ps_of(&subject.profile, number)?))
}

/// Stored reports.
#[derive(Default)]
struct Kept(Memo<PsId, ProcReport, 64>);

/// The report on a procedure. It is stored if the procedure has very many contexts.
pub(crate) fn kept(subject: &Subject, ps: PsId) -> ProcReport {
    if !is_large(&subject.profile, ps) {
        return proc_report(&subject.profile, ps);
    }
    let made = subject
        .memos
        .value_of_type::<Kept>()
        .0
        .get_or(ps, || Ok::<_, Failure>(proc_report(&subject.profile, ps)));
    made.map_or_else(|_| proc_report(&subject.profile, ps), |r| ProcReport::clone(&r))
}

/// The report on the procedure with a raw or qualified name.
///
/// # Errors
/// There is no such procedure.
pub fn create_named(subject: &Subject, name: &str) -> Result<ProcReport, Failure> {
    let profile = &subject.profile;
    let found = profile
        .pss()
        .find(|&ps| profile.raw_name(ps) == name)
        .or_else(|| profile.pss().find(|&ps| profile.qualified_name(ps) == name));
    found.map(|ps| kept(subject, ps)).ok_or_else(|| Failure(format!("There is no procedure named {name}.")))
}

fn proc_report(profile: &Profile, ps: PsId) -> ProcReport {
    let rates = Rates::from_profile(profile);
    let figures = profile.ps_figures(ps);
    let rows = site_rows(profile, ps);
    ProcReport {
        desc: proc_desc(profile, ps),
        raw_name: profile.raw_name(ps),
        perf: rates.row(&figures.own, &figures.desc),
        neighbours: profile.is_native().then(|| neighbours(profile, &rates, ps, &rows)),
        sites: profile
            .sites(ps)
            .iter()
            .zip(rows)
            .map(|(&css, rows)| site(profile, &rates, css, rows))
            .collect(),
        callers: callers(profile, &rates, ps),
        contexts: profile.ps_pds(ps).len(),
    }
}

/// The cost of calls of a procedure.
type CallRow = (PsId, Own, Desc);

/// The callees of each call site. A procedure may have a million contexts, so each step is done for the calls of all of
/// them (see `Profile::calls_of`).
fn site_rows(profile: &Profile, ps: PsId) -> Vec<Vec<CallRow>> {
    let mut csds: Vec<CsdId> = Vec::new();
    for &pd in profile.ps_pds(ps) {
        csds.extend_from_slice(profile.edges(pd));
    }
    let slot =
        |csd| u32::try_from(profile.css_slot(profile.csd_css(csd))).expect("a file has 32 bits for a slot");
    let slots: Vec<u32> = csds.iter().map(|&csd| slot(csd)).collect();
    let callees: Vec<PdId> = csds.iter().map(|&csd| profile.csd_callee(csd)).collect();
    // By slot, then callee.
    let mut keyed: Vec<(u32, PsId, u32)> = callees
        .iter()
        .zip(slots)
        .zip(0..)
        .map(|((&callee, slot), i)| (slot, profile.pd_ps(callee), i))
        .collect();
    keyed.sort_unstable();
    let owns = profile.csd_owns(&csds);
    let descs = profile.csd_descs(&csds);
    let comps = if profile.is_zeroed(ps) { profile.csd_comps(&csds) } else { Vec::new() };
    let mut rows: Vec<Vec<CallRow>> = vec![Vec::new(); profile.sites(ps).len()];
    for (slot, callee, i) in keyed {
        let (rows, i) = (&mut rows[slot as usize], i as usize);
        if rows.last().is_none_or(|r| r.0 != callee) {
            rows.push((callee, Own::default(), Desc::default()));
        }
        if let Some(row) = rows.last_mut() {
            row.1 += owns[i];
            row.2 += descs[i] - comps.get(i).copied().unwrap_or_default();
        }
    }
    rows
}

fn sum(rates: &Rates, rows: &[CallRow]) -> Perf {
    let own: Own = rows.iter().map(|r| r.1).sum();
    let desc: Desc = rows.iter().map(|r| r.2).sum();
    rates.row(&own, &desc)
}

/// Rows up to the limit, and the sum of the others.
fn listed(profile: &Profile, rates: &Rates, mut rows: Vec<CallRow>) -> (Vec<ProcCallee>, Option<Rest>) {
    let mut rest = None;
    if rows.len() > MAX_ROWS {
        rows.sort_by_key(|(_, own, desc)| std::cmp::Reverse(profile.main_cost(&own.total(desc))));
        rest = Some(Rest { count: rows.len() - MAX_ROWS, perf: sum(rates, &rows[MAX_ROWS..]) });
        rows.truncate(MAX_ROWS);
    }
    let row =
        |(ps, own, desc): &CallRow| ProcCallee { desc: proc_desc(profile, *ps), perf: rates.row(own, desc) };
    (rows.iter().map(row).collect(), rest)
}

/// Merges rows of the same procedure.
fn by_proc(mut rows: Vec<CallRow>) -> Vec<CallRow> {
    rows.sort_by_key(|r| r.0);
    rows.dedup_by(|next, first| {
        let same = next.0 == first.0;
        if same {
            first.1 += next.1;
            first.2 += next.2;
        }
        same
    });
    rows
}

fn neighbours(profile: &Profile, rates: &Rates, ps: PsId, sites: &[Vec<CallRow>]) -> Neighbours {
    let csds = profile.calls_of(ps);
    let costs = profile.call_costs(&csds, ps);
    let called = csds.iter().zip(costs).filter_map(|(&csd, cost)| {
        let cost = cost?;
        Some((profile.css_container(profile.csd_css(csd)), cost.own, cost.desc))
    });
    let (callers, callers_rest) = listed(profile, rates, by_proc(called.collect()));
    let (callees, callees_rest) = listed(profile, rates, by_proc(sites.concat()));
    Neighbours { callers, callers_rest, callees, callees_rest }
}

fn site(profile: &Profile, rates: &Rates, css: CssId, rows: Vec<CallRow>) -> ProcSite {
    let static_site = profile.css(css);
    let summary = sum(rates, &rows);
    let (callees, rest) = listed(profile, rates, rows);
    let type_subst = match static_site.kind {
        CssKind::Normal { type_subst, .. } => profile.text(type_subst).into_owned(),
        _ => String::new(),
    };
    ProcSite {
        site: site_desc(profile, css),
        kind: kind_word(static_site.kind.kind()),
        type_subst,
        summary,
        callees,
        rest,
    }
}

fn callers(profile: &Profile, rates: &Rates, ps: PsId) -> CallersSummary {
    let mut csds = profile.calls_of(ps);
    let csss: Vec<CssId> = csds.iter().map(|&csd| profile.csd_css(csd)).collect();
    let others: Vec<bool> = csss.iter().map(|&css| profile.css_container(css) != ps).collect();
    let (mut sites, mut procs) = (HashSet::new(), HashSet::new());
    for (&css, _) in csss.iter().zip(&others).filter(|&(_, &other)| other) {
        if sites.insert(css) {
            procs.insert(profile.css_container(css));
        }
    }
    let mut other = others.into_iter();
    csds.retain(|_| other.next() == Some(true));
    let own: Own = profile.csd_owns(&csds).into_iter().sum();
    let desc: Desc = profile.csd_descs(&csds).into_iter().sum();
    CallersSummary { csds: csds.len(), csss: sites.len(), procs: procs.len(), perf: rates.row(&own, &desc) }
}
