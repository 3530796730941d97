//! What pages are about: a profile and the files beside it.

use crate::analysis::contour::{self, ContourState};
use pct_deep::{Compensation, DeepError, Profile};
use std::path::{Path, PathBuf};

/// A profile with what stands beside it.
#[derive(Debug)]
pub struct Subject {
    /// The profile.
    pub profile: Profile,
    /// `X.contour`.
    pub contour: ContourState,
    /// Where it was read from.
    pub path: PathBuf,
}

impl Subject {
    /// A profile alone.
    #[must_use]
    pub fn new(profile: Profile) -> Subject {
        Subject { profile, contour: ContourState::None, path: PathBuf::new() }
    }

    /// Reads `X.data` and, beside it, `X.procrep` and `X.contour`, which may be absent or bad.
    ///
    /// # Errors
    /// The data file cannot be read.
    pub fn open(path: &Path, rule: Compensation) -> Result<Subject, DeepError> {
        let profile = pct_deep::read::open(path, rule)?;
        let mut subject = Subject { path: path.to_owned(), ..Subject::new(profile) };
        let contour = path.with_extension("contour");
        subject.contour = match std::fs::read(&contour) {
            Ok(octets) => {
                contour::parse(&contour.display().to_string(), &String::from_utf8_lossy(&octets), |name| {
                    subject.profile.module_id(name).is_some()
                })
            }
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => ContourState::None,
            Err(e) => ContourState::Unreadable(e.to_string()),
        };
        Ok(subject)
    }

    /// Whether times are worth showing: the program got more than 10 ticks of its own.
    #[must_use]
    pub fn times_matter(&self) -> bool {
        self.profile.header().user_quanta > 10
    }

    /// What is odd about the files beside the data.
    #[must_use]
    pub fn warnings(&self) -> Vec<String> {
        Vec::new()
    }

    /// Whether the program representation has a module.
    #[must_use]
    pub fn has_module_representation(&self, _name: &str) -> bool {
        false
    }
}
