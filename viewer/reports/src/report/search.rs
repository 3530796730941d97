//! Search: procedures, modules and source positions that contain a text.

use super::common::{Perf, ProcDesc, Rates, proc_desc};
use pct_deep::{Id, Profile, PsId};
use serde::Serialize;

/// Data of the page.
#[derive(Clone, Debug, Serialize)]
pub struct SearchReport {
    /// The search text.
    pub text: String,
    /// Modules whose name contains it, by name.
    pub modules: Vec<String>,
    /// Procedures whose name or source position contains it; called ones first, then by cost.
    pub procs: Vec<SearchProc>,
    /// Procedures beyond those listed.
    pub procs_not_listed: usize,
    /// Modules beyond those listed.
    pub modules_not_listed: usize,
}

/// A procedure found.
#[derive(Clone, Debug, Serialize)]
pub struct SearchProc {
    /// The procedure.
    #[serde(rename = "proc")]
    pub desc: ProcDesc,
    /// Whether it was called.
    pub active: bool,
    /// Its costs.
    pub perf: Perf,
}

/// Most modules that are listed.
const MODULES: usize = 200;
const PROCS: usize = 1000;

/// The report. Every word of `text` must occur, in any order; case does not matter. `FILE:LINE` also finds the
/// procedure that contains the line, if procedures of that file begin before it.
#[must_use]
pub fn create(profile: &Profile, text: &str) -> SearchReport {
    let words: Vec<String> = text.split_whitespace().map(str::to_lowercase).collect();
    let matches = |s: &str| !words.is_empty() && words.iter().all(|w| s.contains(w.as_str()));

    let mut modules: Vec<String> = profile
        .modules()
        .map(|m| profile.module_name(m).into_owned())
        .filter(|m| matches(&m.to_lowercase()))
        .collect();
    let modules_not_listed = modules.len().saturating_sub(MODULES);
    modules.truncate(MODULES);

    let mut found: Vec<PsId> = Vec::new();
    let mut hay = String::new();
    for ps in profile.pss() {
        let p = profile.ps(ps);
        hay.clear();
        hay.push_str(&profile.qualified_name(ps));
        hay.push(' ');
        hay.push_str(&profile.text(p.file));
        hay.push_str(&format!(":{}", p.line));
        if matches(&hay.to_lowercase()) {
            found.push(ps);
        }
    }
    if let Some(ps) = at_line(profile, text)
        && !found.contains(&ps)
    {
        found.push(ps);
    }
    found.sort_by_cached_key(|&ps| {
        let f = profile.ps_figures(ps);
        (
            !profile.is_active(&f.own, &f.desc),
            std::cmp::Reverse(profile.main_cost(&f.own.total(&f.desc))),
            ps.number(),
        )
    });
    let procs_not_listed = found.len().saturating_sub(PROCS);
    found.truncate(PROCS);
    let rates = Rates::from_profile(profile);
    SearchReport {
        text: text.to_owned(),
        modules,
        procs: found
            .iter()
            .map(|&ps| {
                let f = profile.ps_figures(ps);
                SearchProc {
                    desc: proc_desc(profile, ps),
                    active: profile.is_active(&f.own, &f.desc),
                    perf: rates.row(&f.own, &f.desc),
                }
            })
            .collect(),
        procs_not_listed,
        modules_not_listed,
    }
}

/// For `FILE:LINE`, the procedure that begins last before the line.
fn at_line(profile: &Profile, text: &str) -> Option<PsId> {
    let (file, line) = text.trim().rsplit_once(':')?;
    let line: u32 = line.parse().ok()?;
    if file.is_empty() {
        return None;
    }
    profile
        .pss()
        .filter(|&ps| {
            let p = profile.ps(ps);
            let name = profile.text(p.file);
            p.line <= line && p.line > 0 && (name == file || name.rsplit('/').next() == Some(file))
        })
        .max_by_key(|&ps| (profile.ps(ps).line, std::cmp::Reverse(ps.index())))
}
