//! The callers of a procedure, grouped by call site, procedure, module or clique.

use super::common::{
    CliqueDesc, Describer, MAX_ROWS, Perf, ProcDesc, Rates, Rest, SiteDesc, is_large, proc_desc, ps_of,
    site_desc,
};
use crate::analysis::Failure;
use crate::analysis::contour::{ContourState, Exclusion};
use crate::memo::Memo;
use crate::query::{Contour, Group};
use crate::subject::Subject;
use pct_deep::figures::{Desc, Own};
use pct_deep::{CliqueId, CsdId, CssId, Id, ModuleId, PdId, Profile, PsId};
use serde::Serialize;
use std::collections::HashMap;

/// Data of the page.
#[derive(Clone, Debug, Serialize)]
pub struct CallersReport {
    /// The procedure called.
    #[serde(rename = "proc")]
    pub desc: ProcDesc,
    /// What rows are grouped by.
    pub group: Group,
    /// Which bunch of rows was requested.
    pub bunch: i64,
    /// Number of rows in a bunch.
    pub bunch_size: i64,
    /// Whether contour exclusion was requested.
    pub contour: Contour,
    /// What is unusual about the contour file.
    pub warning: Option<String>,
    /// All callers, in the order of ids (modules: names).
    pub rows: Vec<CallerRow>,
    /// Callers beyond those listed (the most expensive are).
    pub rest: Option<Rest>,
}

/// One group of callers.
#[derive(Clone, Debug, Serialize)]
pub struct CallerRow {
    /// The caller.
    pub caller: Caller,
    /// Cost of the calls.
    pub perf: Perf,
}

/// A caller.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Caller {
    /// A call site.
    Site(SiteDesc),
    /// A procedure.
    Proc(ProcDesc),
    /// A module.
    Module(String),
    /// A clique.
    Clique(CliqueDesc),
}

/// The requested callers of a procedure.
#[derive(Clone, Copy, Debug)]
pub struct Asked {
    /// The procedure's number.
    pub number: i64,
    /// What rows are grouped by.
    pub group: Group,
    /// Which rows, from 1.
    pub bunch: i64,
    /// Number of rows in a bunch.
    pub size: i64,
    /// Whether calls move up to the first caller that is not excluded.
    pub contour: Contour,
}

/// The report.
///
/// # Errors
/// There is no such procedure; bunch or size is below 1; exclusion was requested and there is no valid contour file.
pub fn create(
    profile: &Profile,
    contour_file: &ContourState,
    asked: Asked,
) -> Result<CallersReport, Failure> {
    let Asked { number, group, bunch, size, contour } = asked;
    let ps = ps_of(profile, number)?;
    if bunch < 1 || size < 1 {
        return Err(Failure(format!("Bunch {bunch} of {size} rows: both must be at least 1.")));
    }
    let (exclusion, warning) = match (contour, contour_file) {
        (Contour::Ignore, _) => (None, None),
        (Contour::Apply, ContourState::Readable { exclusion, warning }) => (Some(exclusion), warning.clone()),
        (Contour::Apply, ContourState::None) => {
            return Err(Failure("There is no readable contour exclusion file.".to_owned()));
        }
        (Contour::Apply, ContourState::Unreadable(message)) => {
            return Err(Failure(format!("The contour exclusion file is malformed: {message}")));
        }
    };

    // A procedure may have a million callers, so each step is done for all of them (see `Profile::calls_of`).
    let csds = profile.calls_of(ps);
    let mut climb = exclusion.map(|e| Climb { profile, exclusion: e, known: HashMap::new() });
    let climbed: Option<Vec<CsdId>> = climb.as_mut().map(|c| csds.iter().map(|&csd| c.from(csd)).collect());
    let by = climbed.as_deref().unwrap_or(&csds);
    let mut keyed: Vec<(u32, u32)> = match group {
        Group::Clique => {
            let callers: Vec<PdId> = by.iter().map(|&csd| profile.csd_caller(csd)).collect();
            callers.into_iter().map(|pd| profile.pd_clique(pd).number()).zip(0..).collect()
        }
        Group::CallSite => by.iter().map(|&csd| profile.csd_css(csd).number()).zip(0..).collect(),
        Group::Proc => by.iter().map(|&csd| container(profile, csd).number()).zip(0..).collect(),
        Group::Module => {
            by.iter().map(|&csd| profile.ps_module(container(profile, csd)).number()).zip(0..).collect()
        }
    };
    keyed.sort_unstable();
    let costs = profile.call_costs(&csds, ps);
    let mut groups: Vec<(u32, Own, Desc)> = Vec::new();
    for (key, i) in keyed {
        if groups.last().is_none_or(|g| g.0 != key) {
            groups.push((key, Own::default(), Desc::default()));
        }
        if let (Some(cost), Some(sum)) = (&costs[i as usize], groups.last_mut()) {
            sum.1 += cost.own;
            sum.2 += cost.desc;
        }
    }
    let rates = Rates::from_profile(profile);
    let mut rest = None;
    if groups.len() > MAX_ROWS {
        groups.select_nth_unstable_by_key(MAX_ROWS, |&(k, own, desc)| {
            (std::cmp::Reverse(profile.main_cost(&own.total(&desc))), k)
        });
        let own: Own = groups[MAX_ROWS..].iter().map(|g| g.1).sum();
        let desc: Desc = groups[MAX_ROWS..].iter().map(|g| g.2).sum();
        rest = Some(Rest { count: groups.len() - MAX_ROWS, perf: rates.row(&own, &desc) });
        groups.truncate(MAX_ROWS);
    }
    groups.sort_unstable_by_key(|g| g.0);
    let words = Describer::new(profile);
    let rows = groups
        .into_iter()
        .map(|(key, own, desc)| CallerRow {
            caller: caller(profile, &words, group, key),
            perf: rates.row(&own, &desc),
        })
        .collect();
    Ok(CallersReport {
        desc: proc_desc(profile, ps),
        group,
        bunch,
        bunch_size: size,
        contour,
        warning,
        rows,
        rest,
    })
}

/// The procedure that makes a call.
fn container(profile: &Profile, csd: CsdId) -> PsId {
    profile.css_container(profile.csd_css(csd))
}

/// Stored reports.
#[derive(Default)]
struct Kept(Memo<(PsId, Group, Contour), CallersReport, 64>);

/// The same, stored for procedures with very many callers, because they also have many pages.
///
/// # Errors
/// As [`create`].
pub fn create_kept(subject: &Subject, asked: Asked) -> Result<CallersReport, Failure> {
    let Asked { number, group, bunch, size, contour } = asked;
    let make = |asked| create(&subject.profile, &subject.contour, asked);
    let large = subject.profile.ps_id(number).filter(|&ps| is_large(&subject.profile, ps));
    match large {
        Some(ps) if bunch >= 1 && size >= 1 => {
            let kept = subject.memos.value_of_type::<Kept>();
            let whole =
                kept.0.get_or((ps, group, contour), || make(Asked { bunch: 1, size: 20, ..asked }))?;
            Ok(CallersReport { bunch, bunch_size: size, ..CallersReport::clone(&whole) })
        }
        _ => make(asked),
    }
}

fn caller(profile: &Profile, words: &Describer<'_>, group: Group, key: u32) -> Caller {
    // The keys are numbers of ids taken above.
    let index = key as usize - 1;
    match group {
        Group::CallSite => Caller::Site(site_desc(profile, CssId::at(index))),
        Group::Proc => Caller::Proc(proc_desc(profile, PsId::at(index))),
        Group::Module => Caller::Module(profile.module_name(ModuleId::at(index)).into_owned()),
        Group::Clique => Caller::Clique(words.clique(CliqueId::at(index), None)),
    }
}

/// Moves calls up to the first caller that is not excluded.
struct Climb<'a> {
    profile: &'a Profile,
    exclusion: &'a Exclusion,
    /// Where climbing from a clique's entry ended.
    known: HashMap<CliqueId, CsdId>,
}

impl Climb<'_> {
    fn excluded(&self, pd: PdId) -> bool {
        let ps = self.profile.pd_ps(pd);
        self.exclusion.excludes(&self.profile.ps_module_name(ps), self.profile.ps(ps).in_interface)
    }

    fn from(&mut self, csd: CsdId) -> CsdId {
        let mut at = csd;
        let mut path = Vec::new();
        loop {
            let caller = self.profile.csd_caller(at);
            if !self.excluded(caller) {
                break;
            }
            let clique = self.profile.pd_clique(caller);
            if let Some(&end) = self.known.get(&clique) {
                at = end;
                break;
            }
            let Some(entry) = self.profile.clique_entry(clique) else { break };
            path.push(clique);
            // A caller's clique has a larger number. Anything else means a damaged file, and ends the climb.
            let above = self.profile.pd_clique(self.profile.csd_caller(entry));
            at = entry;
            if above <= clique {
                break;
            }
        }
        for clique in path {
            self.known.insert(clique, at);
        }
        at
    }
}
