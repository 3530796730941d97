//! A clique: the path to it, its procedures, their call sites, and their callees.

use super::common::{
    CliqueDesc, Describer, Perf, ProcDesc, Rates, Rest, SiteDesc, Window, proc_desc, site_desc,
};
use crate::analysis::Failure;
use pct_deep::figures::{Desc, Own};
use pct_deep::{CliqueId, CsdId, PdId, Profile, PsId, SiteKind};
use serde::Serialize;

/// Data of a clique page.
#[derive(Clone, Debug, Serialize)]
pub struct CliqueReport {
    /// The clique.
    pub clique: CliqueDesc,
    /// From its caller to the root.
    pub ancestors: Vec<Ancestor>,
    /// Ancestors beyond those listed.
    pub ancestors_not_listed: usize,
    /// Its procedures, the entered one first.
    pub procs: Vec<CliqueProc>,
    /// Contexts in the clique.
    pub members: usize,
    /// Which of them are listed, from 1 (in the order of `procs`).
    pub listed: (usize, usize),
}

/// A call on the path to a clique.
#[derive(Clone, Debug, Serialize)]
pub struct Ancestor {
    /// The clique that calls.
    pub caller: CliqueDesc,
    /// The clique that is called.
    pub callee_clique: u32,
    /// The procedure that is called.
    pub callee: ProcDesc,
    /// The call site.
    pub site: SiteDesc,
    /// Cost of the call.
    pub perf: Perf,
}

/// A procedure of a clique.
#[derive(Clone, Debug, Serialize)]
pub struct CliqueProc {
    /// The procedure.
    #[serde(rename = "proc")]
    pub desc: ProcDesc,
    /// Sum over all its contexts in the clique.
    pub summary: Perf,
    /// How many contexts it has in the clique.
    pub contexts: usize,
    /// The listed contexts.
    pub pds: Vec<CliquePd>,
}

/// A context in a clique.
#[derive(Clone, Debug, Serialize)]
pub struct CliquePd {
    /// The context.
    pub pd: u32,
    /// Its cost.
    pub perf: Perf,
    /// Its call sites, in slot order.
    pub sites: Vec<CliqueSite>,
}

/// A call site in a context.
#[derive(Clone, Debug, Serialize)]
pub struct CliqueSite {
    /// The call site.
    pub site: SiteDesc,
    /// normal, special, higher_order, method or callback.
    pub kind: &'static str,
    /// Sum over its callees.
    pub summary: Perf,
    /// Its callees.
    pub callees: Vec<CliqueCallee>,
    /// Callees beyond those listed.
    pub rest: Option<Rest>,
}

/// A callee of a call site in a context.
#[derive(Clone, Debug, Serialize)]
pub struct CliqueCallee {
    /// The callee's clique, described by the callee.
    pub clique: CliqueDesc,
    /// Cost of the calls.
    pub perf: Perf,
}

/// Most callees of one call site that are listed.
const CALLEES: usize = 200;
/// Contexts on one page.
pub const CONTEXTS: usize = 50;
/// Most ancestors that are listed.
const ANCESTORS: usize = 1000;

/// The word for a kind of call site.
#[must_use]
pub fn kind_word(kind: SiteKind) -> &'static str {
    match kind {
        SiteKind::Normal => "normal",
        SiteKind::Special => "special",
        SiteKind::HigherOrder => "higher_order",
        SiteKind::Method => "method",
        SiteKind::Callback => "callback",
    }
}

/// The report on a clique.
///
/// # Errors
/// There is no such clique.
pub fn create(profile: &Profile, number: i64, window: Window) -> Result<CliqueReport, Failure> {
    let clique = profile
        .clique_id(number)
        .ok_or_else(|| Failure(format!("There is no clique {number}: invalid clique index.")))?;
    Ok(clique_report(profile, clique, window))
}

/// The report on the root's clique, or on the clique at which `percent` of the program's call sequence numbers no
/// longer have a single path.
#[must_use]
pub fn create_root(profile: &Profile, percent: Option<i64>, window: Window) -> CliqueReport {
    let root = profile.root_clique();
    clique_report(profile, percent.map_or(root, |p| start_of_action(profile, root, p)), window)
}

/// Follows the only callee clique whose total is at least `percent`, while there is exactly one.
#[must_use]
pub fn start_of_action(profile: &Profile, root: CliqueId, percent: i64) -> CliqueId {
    let whole = profile.main_cost(&profile.root_total());
    let enough = |csd: CsdId| {
        // 0 of 0 is not a share.
        let share =
            if whole == 0 { 0.0 } else { profile.main_cost(&profile.csd_total(csd)) as f64 / whole as f64 };
        share * 100.0 >= percent as f64
    };
    let mut at = root;
    loop {
        let mut next: Option<CliqueId> = None;
        for &pd in profile.clique_members(at) {
            for csd in profile.csds_of_pd(pd) {
                if let Some(child) = profile.csd_child_clique(csd)
                    && enough(csd)
                {
                    if next.is_some_and(|n| n != child) {
                        return at;
                    }
                    next = Some(child);
                }
            }
        }
        match next {
            // Numbers decrease on the way down, so this also ends in files whose cliques have several entries.
            Some(child) if child < at => at = child,
            _ => return at,
        }
    }
}

fn clique_report(profile: &Profile, clique: CliqueId, window: Window) -> CliqueReport {
    let rates = Rates::from_profile(profile);
    let words = Describer::new(profile);
    let (ancestors, ancestors_not_listed) = ancestors(profile, &words, &rates, clique);
    let entry = profile.clique_entry_pd(clique);
    let first = profile.pd_ps(entry);
    let mut members: Vec<(bool, PsId, PdId)> = profile
        .clique_members(clique)
        .iter()
        .map(|&pd| (profile.pd_ps(pd) != first, profile.pd_ps(pd), pd))
        .collect();
    members.sort_unstable();

    let (from, to) = window.range(members.len(), CONTEXTS);
    let mut procs: Vec<CliqueProc> = Vec::new();
    for &(_, ps, pd) in &members[from..to] {
        let described = clique_pd(profile, &words, &rates, pd);
        match procs.last_mut() {
            Some(p) if p.desc.ps == ps.number() => p.pds.push(described),
            _ => {
                // The contexts of a procedure are adjacent.
                let key = (ps != first, ps);
                let start = members.partition_point(|&(other, p, _)| (other, p) < key);
                let end = members.partition_point(|&(other, p, _)| (other, p) <= key);
                let (mut own, mut desc) = (Own::default(), Desc::default());
                for &(_, _, pd) in &members[start..end] {
                    own += profile.pd_own(pd);
                    desc += profile.pd_desc(pd);
                }
                let contexts = end - start;
                procs.push(CliqueProc {
                    desc: proc_desc(profile, ps),
                    summary: rates.row(&own, &desc),
                    contexts,
                    pds: vec![described],
                });
            }
        }
    }
    CliqueReport {
        clique: words.clique(clique, Some(entry)),
        ancestors,
        ancestors_not_listed,
        procs,
        members: members.len(),
        listed: (from + 1, to),
    }
}

fn ancestors(
    profile: &Profile,
    words: &Describer<'_>,
    rates: &Rates,
    clique: CliqueId,
) -> (Vec<Ancestor>, usize) {
    let mut out = Vec::new();
    let mut more = 0;
    let mut at = clique;
    while let Some(csd) = profile.clique_entry(at) {
        let caller = profile.csd_caller(csd);
        let caller_clique = profile.pd_clique(caller);
        // In valid data a caller's number is larger. A cycle is not an ancestry.
        if caller_clique <= at {
            break;
        }
        if out.len() < ANCESTORS {
            out.push(Ancestor {
                caller: words.clique(caller_clique, Some(caller)),
                callee_clique: at.number(),
                callee: proc_desc(profile, profile.pd_ps(profile.csd_callee(csd))),
                site: site_desc(profile, profile.csd_css(csd)),
                perf: rates.row(&profile.csd_own(csd), &profile.csd_desc(csd)),
            });
        } else {
            more += 1;
        }
        if caller == profile.root() {
            break;
        }
        at = caller_clique;
    }
    (out, more)
}

fn clique_pd(profile: &Profile, words: &Describer<'_>, rates: &Rates, pd: PdId) -> CliquePd {
    let ps = profile.pd_ps(pd);
    let sites = profile
        .sites(ps)
        .iter()
        .zip(profile.slots(pd))
        .map(|(&css, slot)| {
            let mut csds: Vec<CsdId> = slot.csds().collect();
            let (mut own, mut desc) = (Own::default(), Desc::default());
            for &csd in &csds {
                own += profile.csd_own(csd);
                desc += profile.csd_desc(csd);
            }
            let mut rest = None;
            if csds.len() > CALLEES {
                csds.sort_by_key(|&c| std::cmp::Reverse(profile.main_cost(&profile.csd_total(c))));
                let (mut own, mut desc) = (Own::default(), Desc::default());
                for &csd in &csds[CALLEES..] {
                    own += profile.csd_own(csd);
                    desc += profile.csd_desc(csd);
                }
                rest = Some(Rest { count: csds.len() - CALLEES, perf: rates.row(&own, &desc) });
                csds.truncate(CALLEES);
            }
            CliqueSite {
                site: site_desc(profile, css),
                kind: kind_word(slot.kind()),
                summary: rates.row(&own, &desc),
                callees: csds
                    .iter()
                    .map(|&csd| {
                        let callee = profile.csd_callee(csd);
                        CliqueCallee {
                            clique: words.clique(profile.pd_clique(callee), Some(callee)),
                            perf: rates.row(&profile.csd_own(csd), &profile.csd_desc(csd)),
                        }
                    })
                    .collect(),
                rest,
            }
        })
        .collect();
    CliquePd { pd: pd.number(), perf: rates.row(&profile.pd_own(pd), &profile.pd_desc(pd)), sites }
}
