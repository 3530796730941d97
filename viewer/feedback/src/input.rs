//! A profile and the program representation beside it, as input of the analysis.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use pct_analysis::{Bodies, Body, BodyCache, Failure};
use pct_deep::{Compensation, DeepError, ProcRep, Profile, PsId};

/// A profile with the bodies of its procedures.
#[derive(Debug)]
pub struct Input {
    profile: Profile,
    rep: ProcRep,
    bodies: BodyCache,
}

/// What is wrong with a program representation.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RepError {
    /// There is none.
    #[error("There is no readable procedure representation information file.")]
    None,
    /// It cannot be read.
    #[error("Error reading procedure representation information file: {0}")]
    Bad(String),
}

/// The name of the program representation of a profile: `.data` becomes `.procrep`. `None`: the name has no `.data`.
pub fn rep_path(data: &Path) -> Option<PathBuf> {
    let name = data.file_name()?.to_str()?.strip_suffix(".data")?;
    Some(data.with_file_name(format!("{name}.procrep")))
}

/// Reads a profile.
///
/// # Errors
/// It cannot be read.
pub fn open_profile(path: &Path) -> Result<Profile, DeepError> {
    pct_deep::read::open(path, Compensation::Exact)
}

/// Reads a program representation with all its bodies. One that is damaged anywhere is refused as a whole.
///
/// # Errors
/// There is no representation, or it cannot be read.
pub fn open_rep(path: &Path) -> Result<ProcRep, RepError> {
    if std::fs::metadata(path).is_err_and(|e| e.kind() == std::io::ErrorKind::NotFound) {
        return Err(RepError::None);
    }
    let rep = ProcRep::open(path).map_err(|e| RepError::Bad(e.to_string()))?;
    for proc in rep.procs() {
        rep.procedure(proc).map_err(|mut e| {
            e.file = Some(path.to_owned());
            RepError::Bad(e.to_string())
        })?;
    }
    Ok(rep)
}

impl Input {
    /// A profile with its program representation.
    pub fn new(profile: Profile, rep: ProcRep) -> Self {
        Self { profile, rep, bodies: BodyCache::default() }
    }
}

impl Bodies for Input {
    fn profile(&self) -> &Profile {
        &self.profile
    }

    fn body(&self, ps: PsId) -> Result<Arc<Body>, Failure> {
        self.bodies.body(&self.profile, &self.rep, ps)
    }
}
