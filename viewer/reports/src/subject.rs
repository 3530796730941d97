//! What pages are about: a profile and the files beside it.

use crate::analysis::contour::{self, ContourState};
use crate::analysis::{Bodies, Body};
use crate::query::Cost;
use crate::report::Failure;
use crate::report::recursion::{self, FrequencyReport};
use crate::report::tree::Children;
use pct_deep::procrep::ProcRep;
use pct_deep::{CliqueId, Compensation, DeepError, Profile, PsId};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// What is known of the program representation.
#[derive(Debug, Default)]
pub enum RepState {
    /// There is none.
    #[default]
    None,
    /// It cannot be used; the message says why.
    Bad(String),
    /// It can.
    Good(Box<ProcRep>),
}

/// A profile with what stands beside it.
#[derive(Debug)]
pub struct Subject {
    /// The profile.
    pub profile: Profile,
    /// `X.procrep`.
    pub rep: RepState,
    /// `X.contour`.
    pub contour: ContourState,
    /// `X.native` was there and did not fit.
    pub native_warning: Option<String>,
    /// Where it was read from.
    pub path: PathBuf,
    /// Bodies laid out so far; a bounded number of them.
    bodies: Mutex<HashMap<PsId, Arc<Body>>>,
    children: Mutex<HashMap<(CliqueId, Cost), Arc<Children>>>,
    frequencies: OnceLock<Result<Arc<FrequencyReport>, Failure>>,
}

/// Cliques whose children are remembered.
const CHILDREN: usize = 64;

/// Bodies that are kept laid out.
const BODIES: usize = 4096;

fn open_rep(path: &Path) -> RepState {
    if std::fs::symlink_metadata(path).is_err() {
        return RepState::None;
    }
    match ProcRep::open(path) {
        Ok(rep) => RepState::Good(Box::new(rep)),
        Err(e) => RepState::Bad(e.to_string()),
    }
}

impl Subject {
    /// A profile alone.
    #[must_use]
    pub fn new(profile: Profile) -> Subject {
        Subject {
            profile,
            rep: RepState::None,
            contour: ContourState::None,
            native_warning: None,
            path: PathBuf::new(),
            bodies: Mutex::default(),
            children: Mutex::default(),
            frequencies: OnceLock::new(),
        }
    }

    /// Reads `X.data` and, beside it, `X.procrep` and `X.contour`, which may be absent or bad.
    ///
    /// # Errors
    /// The data file cannot be read.
    pub fn open(path: &Path, rule: Compensation) -> Result<Subject, DeepError> {
        // The two files have nothing to do with each other until both are read.
        let (profile, rep) = std::thread::scope(|scope| {
            let rep = scope.spawn(|| open_rep(&path.with_extension("procrep")));
            let profile = pct_deep::read::open(path, rule);
            (profile, rep.join().unwrap_or_else(|_| RepState::Bad("internal software error".to_owned())))
        });
        let mut profile = profile?;
        if let RepState::Good(rep) = &rep {
            let names: Vec<&[u8]> = rep.modules().map(|m| rep.module_name_octets(m)).collect();
            profile.add_modules(names)?;
        }
        let contour_path = path.with_extension("contour");
        let contour = match std::fs::read(&contour_path) {
            Ok(octets) => contour::parse(
                &contour_path.display().to_string(),
                &String::from_utf8_lossy(&octets),
                |name| profile.module_id(name).is_some(),
            ),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => ContourState::None,
            Err(e) => ContourState::Unreadable(e.to_string()),
        };
        let native_path = path.with_extension("native");
        let mut native_warning = None;
        if let Ok(text) = std::fs::read_to_string(&native_path) {
            if native_fits(&text, path) {
                profile.set_native();
            } else {
                native_warning =
                    Some(format!("{} does not belong to this data file: ignored", native_path.display()));
            }
        }
        Ok(Subject { rep, contour, native_warning, path: path.to_owned(), ..Subject::new(profile) })
    }

    /// Whether times are worth showing: the program got more than 10 ticks of its own.
    #[must_use]
    pub fn times_matter(&self) -> bool {
        self.profile.header().user_quanta > 10
    }

    /// What is odd about the files beside the data.
    #[must_use]
    pub fn warnings(&self) -> Vec<String> {
        let mut out: Vec<String> = self.native_warning.iter().cloned().collect();
        if let RepState::Bad(message) = &self.rep {
            out.push(format!("Error reading procedure representation information file: {message}"));
        }
        match &self.contour {
            ContourState::Unreadable(message) => out.push(message.clone()),
            ContourState::Readable { warning: Some(w), .. } => out.push(w.clone()),
            ContourState::None | ContourState::Readable { warning: None, .. } => {}
        }
        out
    }

    /// The program representation.
    ///
    /// # Errors
    /// There is none, or it is broken.
    pub fn procrep(&self) -> Result<&ProcRep, Failure> {
        match &self.rep {
            RepState::Good(rep) => Ok(rep),
            RepState::None => {
                Err(Failure("There is no readable procedure representation information file.".to_owned()))
            }
            RepState::Bad(message) => {
                Err(Failure(format!("Error reading procedure representation information file: {message}")))
            }
        }
    }

    /// Whether the program representation has a module.
    #[must_use]
    pub fn has_module_representation(&self, name: &str) -> bool {
        matches!(&self.rep, RepState::Good(rep) if rep.module(name).is_some())
    }

    /// The text of a procedure with comments for each goal, by its number.
    ///
    /// # Errors
    /// As [`Bodies::body`].
    pub fn annotated(
        &self,
        ps: PsId,
        body: &Body,
        comments: &mut dyn FnMut(usize) -> Vec<String>,
    ) -> Result<String, Failure> {
        let rep = self.procrep()?;
        let proc = rep.find(&self.profile.label(ps)).ok_or_else(|| {
            Failure(format!("{} has no body in the program representation.", self.profile.qualified_name(ps)))
        })?;
        // The printer counts goals from 1.
        Ok(rep.annotated_text(proc, &body.procedure, &mut |n, _, _| comments(n.saturating_sub(1))))
    }

    /// The children of a clique, if they were worked out before.
    pub(crate) fn children_of(&self, clique: CliqueId, cost: Cost) -> Option<Arc<Children>> {
        self.children.lock().unwrap_or_else(PoisonError::into_inner).get(&(clique, cost)).map(Arc::clone)
    }

    /// Remembers the children of a clique.
    pub(crate) fn keep_children_of(&self, clique: CliqueId, cost: Cost, found: &Arc<Children>) {
        let mut known = self.children.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= CHILDREN {
            known.clear();
        }
        known.insert((clique, cost), Arc::clone(found));
    }

    /// How often each type of recursion occurs; worked out once.
    ///
    /// # Errors
    /// There is no program representation, or it is broken.
    pub fn frequencies(&self) -> Result<Arc<FrequencyReport>, Failure> {
        self.frequencies.get_or_init(|| recursion::frequencies(self).map(Arc::new)).clone()
    }
}

impl Bodies for Subject {
    fn profile(&self) -> &Profile {
        &self.profile
    }

    fn body(&self, ps: PsId) -> Result<Arc<Body>, Failure> {
        if let Some(body) = self.bodies.lock().unwrap_or_else(PoisonError::into_inner).get(&ps) {
            return Ok(Arc::clone(body));
        }
        let rep = self.procrep()?;
        let proc = rep.find(&self.profile.label(ps)).ok_or_else(|| {
            Failure(format!("{} has no body in the program representation.", self.profile.qualified_name(ps)))
        })?;
        let procedure = rep
            .procedure(proc)
            .map_err(|e| Failure(format!("Error reading procedure representation information file: {e}")))?;
        let body = Arc::new(Body::new(&self.profile, ps, procedure));
        let mut bodies = self.bodies.lock().unwrap_or_else(PoisonError::into_inner);
        if bodies.len() >= BODIES {
            bodies.clear();
        }
        bodies.insert(ps, Arc::clone(&body));
        Ok(body)
    }
}

/// Whether a `.native` file is about the data file at `path`: its length and hash (FNV-1a, 64 bits) are the file's.
fn native_fits(text: &str, path: &Path) -> bool {
    let value = |key: &str| text.lines().find_map(|l| l.strip_prefix(key)?.strip_prefix(' '));
    let Ok(data) = std::fs::read(path) else { return false };
    let hash =
        data.iter().fold(0xcbf2_9ce4_8422_2325u64, |h, b| (h ^ u64::from(*b)).wrapping_mul(0x0100_0000_01b3));
    value("native") == Some("1")
        && value("length").and_then(|l| l.parse().ok()) == Some(data.len())
        && value("hash") == Some(format!("{hash:016x}").as_str())
}
