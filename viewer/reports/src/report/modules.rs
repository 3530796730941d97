//! All modules; the procedures of one.

use super::Failure;
use super::common::{Perf, ProcDesc, Rates, proc_desc};
use pct_deep::{ModuleId, Profile};
use serde::Serialize;

/// The name of the pseudo module above `main`.
pub const RUNTIME: &str = "Mercury runtime";

/// Data of the page of all modules.
#[derive(Clone, Debug, Serialize)]
pub struct ProgramModulesReport {
    /// Every module but the runtime's, and of a native program but the one that holds its root and threads, by name.
    pub modules: Vec<ModuleRow>,
}

/// A module.
#[derive(Clone, Debug, Serialize)]
pub struct ModuleRow {
    /// Its name.
    pub name: String,
    /// Whether any of its procedures was called.
    pub active: bool,
    /// Own costs.
    pub perf: Perf,
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
    let rates = Rates::of(profile);
    let modules = profile
        .modules()
        .filter(|&m| profile.module_name(m) != RUNTIME && !is_made_up(profile, m))
        .map(|m| {
            let figures = profile.module_figures(m);
            let own = figures.own;
            ModuleRow {
                name: profile.module_name(m).into_owned(),
                active: profile.is_active(&own, &figures.desc),
                perf: rates.own_row(&own),
            }
        })
        .collect();
    ProgramModulesReport { modules }
}

/// Whether a module stands for no object: contexts above a native program's own (the root, threads and processes that
/// are kept apart) have one without a name, in which nothing was spent.
fn is_made_up(profile: &Profile, module: ModuleId) -> bool {
    profile.is_native()
        && profile.module_name(module).is_empty()
        && profile.module_figures(module).own.quanta == 0
}

/// The module of a name.
///
/// # Errors
/// There is none; the text names it.
pub fn find(profile: &Profile, name: &str) -> Result<ModuleId, Failure> {
    profile.module_id(name).ok_or_else(|| Failure(format!("There is no module named {name}.")))
}

/// The report on one module.
///
/// # Errors
/// There is no such module.
pub fn create(profile: &Profile, name: &str, has_representation: bool) -> Result<ModuleReport, Failure> {
    let module = find(profile, name)?;
    let rates = Rates::of(profile);
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
