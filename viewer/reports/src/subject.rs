//! What pages are about: a profile and the files beside it.

use crate::analysis::contour::{self, ContourState};
use crate::analysis::{Bodies, Body, BodyCache, Failure};
use crate::colours::Colours;
use crate::memo::Memos;
use crate::query::{Cmd, Cost, Part, PartFilter, Prefs, PrefsIndication};
use crate::sources::Sources;
use pct_deep::measured::Measured;
use pct_deep::native::{self, Allocated, NATIVE_ROOT, Recorded, Side};
use pct_deep::procrep::ProcRep;
use pct_deep::{DeepError, Profile, PsId, Reading};
use pct_icicle::Palette;
use serde::Serialize;
use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// The state of the program representation.
#[derive(Debug, Default)]
pub enum RepState {
    /// There is none.
    #[default]
    None,
    /// It cannot be used; the message says why.
    Bad(String),
    /// It can be used.
    Good(Box<ProcRep>),
}

/// A profile with the files beside it.
#[derive(Debug)]
pub struct Subject {
    /// The profile.
    pub profile: Profile,
    /// `X.procrep`.
    pub rep: RepState,
    /// `X.contour`.
    pub contour: ContourState,
    /// Set if `X.native` existed and did not fit.
    pub native_warning: Option<String>,
    /// What a recording of a native program contains beyond the profile.
    pub recorded: Option<Recorded>,
    /// What its costs are amounts of if there is no such file.
    untold: Measured,
    /// Which text files may be shown.
    pub sources: Sources,
    /// Other available profiles.
    pub shelf: Option<Arc<dyn Shelf>>,
    /// Its name in queries.
    pub name: String,
    /// The name of the profile that this one is, or is a part of, if parts of it can be asked for.
    pub whole: Option<String>,
    /// The part of the recording that it is of, whether its name or an option says so.
    pub part: Part,
    /// The path from which it was read.
    pub path: PathBuf,
    bodies: BodyCache,
    pub(crate) memos: Memos,
    source_names: OnceLock<HashSet<String>>,
    source_paths: Mutex<HashMap<String, Option<PathBuf>>>,
    colours: OnceLock<Colours>,
    /// The colours of the whole of which this is a part.
    palette: Option<Palette>,
}

/// The other available profiles, each with a name.
pub trait Shelf: Send + Sync + std::fmt::Debug {
    /// The profiles, in the order in which they are shown.
    fn entries(&self) -> Vec<ShelfEntry>;

    /// The profile with a name.
    ///
    /// # Errors
    /// There is no such profile, or it cannot be read.
    fn subject(&self, name: &str) -> Result<Arc<Subject>, Failure>;
}

/// A profile on a shelf.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ShelfEntry {
    /// Its name in queries.
    pub name: String,
    /// The program that ran.
    pub title: String,
    /// What kind of file it is.
    pub kind: String,
    /// When it began, in words; empty: unknown.
    pub when: String,
    /// CPU seconds, if they are known without reading the whole file, or it was read.
    pub cpu_seconds: Option<f64>,
    /// What it is of, in words, where it was read and is not of CPU time.
    pub amount: Option<String>,
    /// Whether it is still being written.
    pub running: bool,
}

/// Most source files whose path is remembered.
const SOURCES: usize = 10_000;

fn open_side(native_path: &Path, data_path: &Path) -> Option<Result<Side, String>> {
    let meta = std::fs::metadata(native_path).ok()?;
    if !meta.is_file() || meta.len() > native::MOST_OCTETS {
        return Some(Err("is no side file".to_owned()));
    }
    Some(read_side(native_path, data_path))
}

fn read_side(native_path: &Path, data_path: &Path) -> Result<Side, String> {
    let octets = std::fs::read(native_path).map_err(|e| e.to_string())?;
    let side = Side::parse(&String::from_utf8_lossy(&octets)).map_err(|e| e.to_string())?;
    let data = std::fs::read(data_path).map_err(|e| e.to_string())?;
    if side.fits(&data) { Ok(side) } else { Err("does not belong to this data file".to_owned()) }
}

fn source_names(profile: &Profile) -> HashSet<String> {
    let of_procs = profile.pss().map(|ps| profile.text(profile.ps(ps).file).into_owned());
    let of_sites = profile.csss().map(|css| profile.css_file(css).into_owned());
    of_procs.chain(of_sites).filter(|name| !name.is_empty()).collect()
}

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
            untold: Measured::untold(profile.header().ticks_per_second),
            profile,
            rep: RepState::None,
            contour: ContourState::None,
            native_warning: None,
            recorded: None,
            sources: Sources::default(),
            shelf: None,
            name: String::new(),
            whole: None,
            part: Part::default(),
            path: PathBuf::new(),
            bodies: BodyCache::default(),
            memos: Memos::default(),
            source_names: OnceLock::new(),
            source_paths: Mutex::default(),
            colours: OnceLock::new(),
            palette: None,
        }
    }

    /// Reads `X.data` and, beside it, `X.procrep` and `X.contour`, which may be absent or invalid.
    ///
    /// # Errors
    /// The data file cannot be read.
    pub fn open(path: &Path, reading: impl Into<Reading>) -> Result<Subject, DeepError> {
        let reading: Reading = reading.into();
        // The two files are independent until both are read.
        let (profile, rep) = std::thread::scope(|scope| {
            let rep = scope.spawn(|| open_rep(&path.with_extension("procrep")));
            let profile = pct_deep::read::open(path, reading);
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
        let mut recorded = None;
        match open_side(&native_path, path) {
            Some(Ok(side)) => {
                if !profile.set_native_facts(&side) {
                    native_warning =
                        Some(format!("{}: its figures are not of this profile", native_path.display()));
                }
                recorded = Some(Recorded::from(side));
            }
            Some(Err(what)) => {
                native_warning = Some(format!("{}: {what}; ignored", native_path.display()));
            }
            None => {}
        }
        // A native program's profile identifies itself, whatever happened to the file beside it.
        let root = profile.pd_ps(profile.root());
        if profile.text_of_name(root) == NATIVE_ROOT {
            profile.set_native();
        }
        Ok(Subject { rep, contour, native_warning, recorded, path: path.to_owned(), ..Subject::new(profile) })
    }

    /// A native program's profile, made from a recording.
    #[must_use]
    pub fn of_recording(profile: Profile, recorded: Recorded, path: &Path) -> Subject {
        Subject { recorded: Some(recorded), path: path.to_owned(), ..Subject::new(profile) }
    }

    /// Whether the profile was made of samples. Then nobody knows how often anything was called.
    #[must_use]
    pub fn is_sampled(&self) -> bool {
        let calls = self.recorded.as_ref().is_some_and(|r| r.side.calls_known);
        self.profile.is_native() && !calls && self.profile.root_total().callseqs == 0
    }

    /// What the costs of a profile that was made of samples are amounts of; `None`: it was not.
    #[must_use]
    pub fn measured(&self) -> Option<&Measured> {
        self.is_sampled().then(|| self.recorded.as_ref().map_or(&self.untold, |r| &r.side.measured))
    }

    /// What the allocations of a profile that was made of samples are; `None`: nothing is known of them.
    #[must_use]
    pub fn memory(&self) -> Option<Allocated> {
        let told = self.recorded.as_ref().and_then(|r| r.side.memory);
        let whole = self.profile.root_total();
        let any = whole.allocs != 0 || whole.words != 0;
        self.is_sampled().then(|| told.or(any.then_some(Allocated::All))).flatten()
    }

    /// Whether a zero among its allocations means that there was none. They are not known of a range of time, nor of
    /// one thread.
    #[must_use]
    pub fn knows_memory(&self) -> bool {
        self.part.range.is_none() && !self.part.filters().any(|(filter, _)| filter == PartFilter::Thread)
    }

    /// Resolves the preferences for this profile.
    #[must_use]
    pub fn prefs(&self, asked: PrefsIndication) -> Prefs {
        let memory = self.memory().is_some();
        match (self.is_sampled(), asked) {
            (true, PrefsIndication::Given(prefs)) => prefs.of_samples(memory),
            (true, _) => Prefs::default_of_samples(memory),
            (false, asked) => asked.resolve(self.times_matter()),
        }
    }

    /// Resolves the preferences for a command. A reader who has chosen nothing gets rows in the order that the command
    /// implies.
    #[must_use]
    pub fn prefs_for(&self, cmd: &Cmd, asked: PrefsIndication) -> Prefs {
        let prefs = self.prefs(asked);
        match (asked, cmd.order()) {
            (PrefsIndication::Given(_), _) | (_, None) => prefs,
            (_, Some(order)) => Prefs { order, ..prefs },
        }
    }

    /// The preferences for a link from a page of `from` to one of `to`. An order that belongs to a command applies only
    /// to that command: pages that are reached from a top list look as if they were reached in any other way.
    #[must_use]
    pub fn prefs_between(&self, from: &Cmd, to: &Cmd, prefs: &Prefs) -> Prefs {
        let order = match (from.order(), to.order()) {
            _ if from == to => prefs.order,
            (_, Some(order)) => order,
            (Some(order), None) if prefs.order == order => self.prefs(PrefsIndication::Default).order,
            (_, None) => prefs.order,
        };
        Prefs { order, ..*prefs }
    }

    /// The path of a source file, if the file exists and may be shown. Only files that the profile names are searched.
    #[must_use]
    pub fn source(&self, file: &str) -> Option<PathBuf> {
        if self.sources == Sources::Hidden {
            return None;
        }
        let mut known = self.source_paths.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(path) = known.get(file) {
            return path.clone();
        }
        let named = self.source_names.get_or_init(|| source_names(&self.profile)).contains(file);
        let found = named.then(|| self.sources.find(file)).flatten();
        if known.len() < SOURCES {
            known.insert(file.to_owned(), found.clone());
        }
        found
    }

    /// The name in queries of a part of it, made from the part that its name says. `None`: it has no parts.
    #[must_use]
    pub fn part_named(&self, make: impl FnOnce(Part) -> Part) -> Option<String> {
        let whole = self.whole.as_ref()?;
        Some(make(self.part_of_name()).file(whole))
    }

    /// The part that its name says.
    #[must_use]
    pub fn part_of_name(&self) -> Part {
        match Part::split(&self.name) {
            Some((name, part)) if self.whole.as_deref() == Some(name) => part,
            _ => Part::default(),
        }
    }

    /// The same with the colours of the profile that this one is a part of.
    #[must_use]
    pub fn coloured_as(self, whole: &Subject) -> Subject {
        Subject { palette: Some(whole.colours().palette().clone()), ..self }
    }

    /// The colours of its functions in pictures.
    pub(crate) fn colours(&self) -> &Colours {
        let cost = if self.times_matter() { Cost::Time } else { Cost::Callseqs };
        self.colours.get_or_init(|| {
            let colours = Colours::new(&self.profile, self.recorded.as_ref(), cost);
            match &self.palette {
                Some(palette) => colours.with_palette(palette.clone()),
                None => colours,
            }
        })
    }

    /// Whether times are worth showing: the program itself got more than 10 ticks. What was made of samples has nothing
    /// else.
    #[must_use]
    pub fn times_matter(&self) -> bool {
        self.is_sampled() || self.profile.header().user_quanta > 10
    }

    /// What is unusual about the files beside the data.
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
        let proc = rep
            .find(&self.profile.label(ps))
            .ok_or_else(|| Failure::no_body(&self.profile.qualified_name(ps)))?;
        // The printer counts goals from 1.
        Ok(rep.annotated_text(proc, &body.procedure, &mut |n, _, _| comments(n.saturating_sub(1))))
    }

    /// Whether the program representation has a procedure.
    pub(crate) fn has_body(&self, ps: u32) -> bool {
        let ps = self.profile.ps_id(i64::from(ps));
        ps.is_some_and(
            |ps| matches!(&self.rep, RepState::Good(rep) if rep.find(&self.profile.label(ps)).is_some()),
        )
    }
}

impl Bodies for Subject {
    fn profile(&self) -> &Profile {
        &self.profile
    }

    fn body(&self, ps: PsId) -> Result<Arc<Body>, Failure> {
        self.bodies.body(&self.profile, self.procrep()?, ps)
    }
}
