//! The most expensive procedures by one criterion.

use super::common::{MAX_ROWS, Perf, ProcDesc, Rates, proc_desc};
use crate::analysis::Failure;
use crate::query::{Cost, Incl, Limit, Scope};
use pct_deep::figures::Desc;
use pct_deep::{Figures, Profile, PsId};
use serde::Serialize;

/// Data of the page.
#[derive(Clone, Debug, Serialize)]
pub struct TopProcsReport {
    /// The requested number of procedures, as in the query.
    pub limit: String,
    /// The cost.
    pub cost: Cost,
    /// With or without descendants.
    pub incl: Incl,
    /// Overall or per call.
    pub scope: Scope,
    /// The procedures, the largest first.
    pub procs: Vec<TopProc>,
    /// Number of further procedures that meet the limit but are not listed.
    pub not_listed: usize,
    /// Number of procedures with a cost above 0 (and above the threshold, if the limit is one), whatever their rank.
    pub with_cost: usize,
    /// With descendants: the part of the program's cost that is outside of the most expensive one. The runtime also
    /// calls other procedures, before and after it. 0 without descendants.
    pub outside_first: i64,
}

/// One of the most expensive procedures.
#[derive(Clone, Debug, Serialize)]
pub struct TopProc {
    /// The procedure.
    #[serde(rename = "proc")]
    pub desc: ProcDesc,
    /// Its costs.
    pub perf: Perf,
}

fn cost_value(cost: &Desc, kind: Cost) -> i64 {
    match kind {
        Cost::Time => cost.quanta,
        Cost::Callseqs => cost.callseqs,
        Cost::Allocs => cost.allocs,
        Cost::Words => cost.words,
        Cost::Calls | Cost::Redos => 0,
    }
}

fn value(f: &Figures, cost: Cost, incl: Incl) -> i64 {
    match (cost, incl) {
        (Cost::Calls, _) => f.own.calls(),
        (Cost::Redos, _) => f.own.redos,
        (cost, Incl::Own) => cost_value(&f.own.inherited(), cost),
        (cost, Incl::Total) => cost_value(&f.own.total(&f.desc), cost),
    }
}

/// The report.
///
/// # Errors
/// `bad sort`: redos with descendants or per call; `bad threshold`: a percentage or value of calls or redos.
pub fn create(
    profile: &Profile,
    limit: Limit,
    cost: Cost,
    incl: Incl,
    scope: Scope,
) -> Result<TopProcsReport, Failure> {
    // Calls have no descendants, and calls per call are always 1.
    let (incl, scope) = if cost == Cost::Calls { (Incl::Own, Scope::Overall) } else { (incl, scope) };
    if cost == Cost::Redos && (incl == Incl::Total || scope == Scope::PerCall) {
        return Err(Failure("bad sort: redos are counted for procedures alone and overall only.".to_owned()));
    }
    let whole = profile.root_total();
    let above: Box<dyn Fn(i64) -> bool> = match limit {
        Limit::Ranks(..) => Box::new(|_| true),
        Limit::Percent(_) | Limit::Value(_) if matches!(cost, Cost::Calls | Cost::Redos) => {
            return Err(Failure("bad threshold: calls and redos are limited by rank only.".to_owned()));
        }
        Limit::Percent(p) => {
            let whole = cost_value(&whole, cost) as f64;
            Box::new(move |v| 100.0 * v as f64 > p * whole)
        }
        Limit::Value(x) => Box::new(move |v| v as f64 > x),
    };

    struct Candidate {
        ps: PsId,
        key: f64,
        figures: Figures,
    }
    let root = profile.pd_ps(profile.root());
    let mut found: Vec<Candidate> = Vec::new();
    for ps in profile.pss().filter(|&ps| ps != root) {
        let figures = profile.ps_figures(ps);
        let v = value(&figures, cost, incl);
        if v > 0 && above(v) {
            let calls = figures.own.calls();
            let key = match scope {
                Scope::Overall => v as f64,
                Scope::PerCall if calls == 0 => 0.0,
                Scope::PerCall => v as f64 / calls as f64,
            };
            found.push(Candidate { ps, key, figures });
        }
    }
    // Ties: inclusive ticks, then inclusive words, then id.
    found.sort_by(|a, b| {
        let (ta, tb) = (a.figures.own.total(&a.figures.desc), b.figures.own.total(&b.figures.desc));
        b.key
            .total_cmp(&a.key)
            .then(tb.quanta.cmp(&ta.quanta))
            .then(tb.words.cmp(&ta.words))
            .then(a.ps.cmp(&b.ps))
    });
    let with_cost = found.len();
    let outside_first = match (found.first(), incl, scope) {
        (Some(first), Incl::Total, Scope::Overall) => {
            cost_value(&whole, cost) - value(&first.figures, cost, incl)
        }
        _ => 0,
    };
    let (from, to) = match limit {
        Limit::Ranks(lo, hi) => (
            usize::try_from(lo.saturating_sub(1)).unwrap_or(0).min(found.len()),
            usize::try_from(hi).unwrap_or(0).min(found.len()),
        ),
        Limit::Percent(_) | Limit::Value(_) => (0, found.len()),
    };
    let to = to.max(from);
    let listed = to.min(from + MAX_ROWS);
    let rates = Rates::from_profile(profile);
    let procs = found[from..listed]
        .iter()
        .map(|c| TopProc { desc: proc_desc(profile, c.ps), perf: rates.row(&c.figures.own, &c.figures.desc) })
        .collect();
    let not_listed = to - listed;
    Ok(TopProcsReport {
        limit: limit.to_string(),
        cost,
        incl,
        scope,
        procs,
        not_listed,
        with_cost,
        outside_first,
    })
}
