//! All modules, and the procedures of one.

use super::common::{Perf, ProcDesc, Rates, proc_desc};
use crate::analysis::Failure;
use pct_deep::figures::Desc;
use pct_deep::{CliqueId, Id as _, ModuleId, PdId, Profile};
use serde::Serialize;

/// The name of the pseudo module above `main`.
pub const RUNTIME: &str = "Mercury runtime";

/// Data of the page of all modules.
#[derive(Clone, Debug, Serialize)]
pub struct ProgramModulesReport {
    /// Every module except the runtime's, by name. For a native program, except the one of its root and threads.
    pub modules: Vec<ModuleRow>,
}

/// A module.
#[derive(Clone, Debug, Serialize)]
pub struct ModuleRow {
    /// Its name.
    pub name: String,
    /// Whether any of its procedures was called.
    pub active: bool,
    /// Own costs. For a native program also those of everything that ran below the object's functions.
    pub perf: Perf,
    /// Whether more may have run below the object's functions than `perf` says: see [`inclusive`].
    pub total_is_least: bool,
}

/// Data of a module's page.
#[derive(Clone, Debug, Serialize)]
pub struct ModuleReport {
    /// Its name.
    pub name: String,
    /// Whether the program representation has it.
    pub has_representation: bool,
    /// Its procedures, by id.
    pub procs: Vec<ModuleProc>,
}

/// A procedure of a module.
#[derive(Clone, Debug, Serialize)]
pub struct ModuleProc {
    /// The procedure.
    #[serde(rename = "proc")]
    pub desc: ProcDesc,
    /// Whether it was called.
    pub active: bool,
    /// Its costs.
    pub perf: Perf,
}

/// The report on all modules.
#[must_use]
pub fn create_all(profile: &Profile) -> ProgramModulesReport {
    let rates = Rates::from_profile(profile);
    let inclusive = profile.is_native().then(|| inclusive(profile));
    let modules = profile
        .modules()
        .filter(|&m| profile.module_name(m) != RUNTIME && !is_made_up(profile, m))
        .map(|m| {
            let figures = profile.module_figures(m);
            let own = figures.own;
            ModuleRow {
                total_is_least: inclusive.as_ref().is_some_and(|totals| totals[m.index()].is_least),
                name: profile.module_name(m).into_owned(),
                active: profile.is_active(&own, &figures.desc),
                perf: match &inclusive {
                    Some(totals) => rates.row(&own, &(totals[m.index()].cost - own.inherited())),
                    None => rates.own_row(&own),
                },
            }
        })
        .collect();
    ProgramModulesReport { modules }
}

/// What ran in a module or below it.
#[derive(Clone, Copy, Debug, Default)]
struct Total {
    cost: Desc,
    is_least: bool,
}

/// The cost in each module and below it, by module. A cost counts once for a module, however often the path to it
/// leaves the module and returns.
///
/// The path to a context has the contexts that enter the cliques above it, those that leave them, and the one that
/// enters its own clique. The order in which the members of a clique call each other is not recorded. So if functions
/// of several modules call each other in a circle, what ran in another member below this module's is not counted. Then
/// the sum is a lower bound, and is marked as such.
fn inclusive(profile: &Profile) -> Vec<Total> {
    enum Task {
        Enter(CliqueId),
        Member(PdId, ModuleId),
        Leave(ModuleId),
    }
    let modules = profile.modules().len();
    let (mut totals, mut above) = (vec![Total::default(); modules], vec![0u32; modules]);
    let mut tasks = vec![Task::Enter(profile.root_clique())];
    while let Some(task) = tasks.pop() {
        match task {
            Task::Enter(clique) => {
                let first = profile.ps_module(profile.pd_ps(profile.clique_entry_pd(clique)));
                if above[first.index()] == 0 {
                    totals[first.index()].cost += match profile.clique_entry(clique) {
                        Some(csd) => profile.csd_total(csd),
                        None => profile.root_total(),
                    };
                }
                above[first.index()] += 1;
                tasks.push(Task::Leave(first));
                tasks.extend(profile.clique_members(clique).iter().map(|&pd| Task::Member(pd, first)));
            }
            Task::Member(pd, first) => {
                let module = profile.ps_module(profile.pd_ps(pd));
                if module != first {
                    // Each member by itself: they do not contain each other.
                    if above[module.index()] == 0 {
                        let total = &mut totals[module.index()];
                        let here = profile.pd_total(pd);
                        total.is_least |= here != Desc::default();
                        total.cost += here;
                    }
                    above[module.index()] += 1;
                    tasks.push(Task::Leave(module));
                }
                let clique = profile.pd_clique(pd);
                for &csd in profile.edges(pd) {
                    if let Some(child) = profile.csd_child_clique(csd)
                        && child < clique
                        && profile.clique_entry(child) == Some(csd)
                    {
                        tasks.push(Task::Enter(child));
                    }
                }
            }
            Task::Leave(module) => above[module.index()] -= 1,
        }
    }
    totals
}

/// Whether a module stands for no object. The contexts above a native program's own (the root, separate threads and
/// processes) have a module without a name, in which no time was spent.
fn is_made_up(profile: &Profile, module: ModuleId) -> bool {
    profile.is_native()
        && profile.module_name(module).is_empty()
        && profile.module_figures(module).own.quanta == 0
}

/// The module with a name.
///
/// # Errors
/// There is no such module; the text names it.
pub fn find(profile: &Profile, name: &str) -> Result<ModuleId, Failure> {
    profile.module_id(name).ok_or_else(|| Failure(format!("There is no module named {name}.")))
}

/// The report on one module.
///
/// # Errors
/// There is no such module.
pub fn create(profile: &Profile, name: &str, has_representation: bool) -> Result<ModuleReport, Failure> {
    let module = find(profile, name)?;
    let rates = Rates::from_profile(profile);
    let procs = profile
        .module_procs(module)
        .iter()
        .map(|&ps| {
            let figures = profile.ps_figures(ps);
            ModuleProc {
                desc: proc_desc(profile, ps),
                active: profile.is_active(&figures.own, &figures.desc),
                perf: rates.row(&figures.own, &figures.desc),
            }
        })
        .collect();
    Ok(ModuleReport { name: name.to_owned(), has_representation, procs })
}

#[cfg(test)]
mod tests {
    use super::*;
    use pct_deep::Compensation;
    use pct_deep::figures::Own;
    use pct_deep::synthetic::{Params, Shape, generate};
    use std::collections::BTreeSet;

    /// The modules on the path to a context, found by walking up from it.
    fn way_down(profile: &Profile, pd: PdId) -> BTreeSet<ModuleId> {
        let module = |pd: PdId| profile.ps_module(profile.pd_ps(pd));
        let mut found = BTreeSet::from([module(pd)]);
        let mut clique = profile.pd_clique(pd);
        loop {
            found.insert(module(profile.clique_entry_pd(clique)));
            let Some(entry) = profile.clique_entry(clique) else { return found };
            found.insert(module(profile.csd_caller(entry)));
            clique = profile.pd_clique(profile.csd_caller(entry));
        }
    }

    /// All modules that may be on the path: for each clique on it, those whose members have costs.
    fn widest_way_down(profile: &Profile, pd: PdId) -> BTreeSet<ModuleId> {
        let mut found = way_down(profile, pd);
        let mut clique = profile.pd_clique(pd);
        loop {
            let costly = |pd: &PdId| profile.pd_total(*pd) != Desc::default();
            let members = profile.clique_members(clique).iter().copied().filter(costly);
            found.extend(members.map(|pd| profile.ps_module(profile.pd_ps(pd))));
            let Some(entry) = profile.clique_entry(clique) else { return found };
            clique = profile.pd_clique(profile.csd_caller(entry));
        }
    }

    #[test]
    fn a_cost_counts_once_for_each_module_on_the_way_down_to_it() {
        let mut bounds = 0;
        for shape in Shape::ALL {
            let params = Params { shape, contexts: 400, procs: 30, ..Params::default() };
            let data = generate(&params).expect("generates");
            let profile = Profile::new(data, Compensation::Exact).expect("well formed");
            let mut expected = vec![Desc::default(); profile.modules().len()];
            let mut most = expected.clone();
            let mut plain = Desc::default();
            for csd in profile.csds() {
                let own: Own = profile.csd_own(csd);
                plain += own.inherited();
                for module in way_down(&profile, profile.csd_callee(csd)) {
                    expected[module.index()] += own.inherited();
                }
                for module in widest_way_down(&profile, profile.csd_callee(csd)) {
                    most[module.index()] += own.inherited();
                }
            }
            let totals = inclusive(&profile);
            let found: Vec<Desc> = totals.iter().map(|total| total.cost).collect();
            assert_eq!(found, expected, "{shape:?}");
            // A sum that is not marked as a lower bound equals the upper bound.
            for (total, most) in totals.iter().zip(&most).filter(|(total, _)| !total.is_least) {
                assert_eq!(total.cost, *most, "{shape:?}");
            }
            bounds += totals.iter().filter(|total| total.is_least).count();
            let root = profile.ps_module(profile.pd_ps(profile.root()));
            assert_eq!(found[root.index()], plain, "{shape:?}");
        }
        assert!(bounds > 0, "some shape has a circle through several modules");
    }
}
