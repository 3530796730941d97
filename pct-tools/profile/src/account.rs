//! Weights, and the closing account of a recording: what its tables cover, and what is missing.

use crate::language::Language;
use pct_num::float;

/// What was measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Weight {
    /// Sample records.
    pub samples: u64,
    /// Nanoseconds of user CPU time that they stand for.
    pub user_ns: u64,
    /// Nanoseconds of system CPU time.
    pub system_ns: u64,
}

impl Weight {
    /// Nothing.
    pub const ZERO: Self = Self { samples: 0, user_ns: 0, system_ns: 0 };
    /// User and system CPU time in nanoseconds.
    #[must_use]
    pub const fn cpu_ns(self) -> u64 {
        self.user_ns.saturating_add(self.system_ns)
    }
    /// Whether samples stand for more than was used, by more than chance does.
    #[must_use]
    pub fn exceeds(self, used_ns: u64) -> bool {
        let sampled = float(self.cpu_ns());
        // Four times the error of counting so many samples, and 5 %.
        let chance = 4.0 * sampled / float(self.samples.max(1)).sqrt();
        sampled > 1.05 * float(used_ns) + chance
    }
    /// Nothing was measured.
    #[must_use]
    pub const fn is_zero(self) -> bool {
        self.samples == 0 && self.user_ns == 0 && self.system_ns == 0
    }
}
impl std::ops::AddAssign for Weight {
    fn add_assign(&mut self, other: Self) {
        self.samples = self.samples.saturating_add(other.samples);
        self.user_ns = self.user_ns.saturating_add(other.user_ns);
        self.system_ns = self.system_ns.saturating_add(other.system_ns);
    }
}
impl std::ops::Add for Weight {
    type Output = Self;
    fn add(mut self, other: Self) -> Self {
        self += other;
        self
    }
}
impl std::iter::Sum for Weight {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::ZERO, std::ops::Add::add)
    }
}

/// Samples that were due and are not in the tables, under a named cause.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Loss {
    /// In words: "overwritten when the log wrapped".
    pub cause: String,
    /// How many.
    pub samples: u64,
    /// What they stood for, nanoseconds of CPU time; 0 where it is not known.
    pub ns: u64,
}

/// The closing account: what the tables cover of what was used.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Account {
    /// CPU time of the whole process tree in nanoseconds as the kernel counted it, user and system; `None` if
    /// nobody measured it.
    pub used: Option<(u64, u64)>,
    /// CPU time that the files' own anchors say their processes used up to their last write, in nanoseconds.
    pub used_by_files_ns: Option<u64>,
    /// Elapsed time of the run in nanoseconds, where known.
    pub elapsed_ns: Option<u64>,
    /// Processor time that the host of a virtual machine took meanwhile, in nanoseconds summed over the machine's
    /// processors; 0 = none, or nobody measured it. Samples may count a part of it, the kernel's CPU time does not.
    pub stolen_ns: u64,
    /// Processes that are known to have run and left no sample.
    pub without_sample: u64,
    /// CPU time that those used, nanoseconds.
    pub without_sample_ns: u64,
    /// What was lost, by cause; only causes that happened.
    pub losses: Vec<Loss>,
    /// Samples whose stack reaches the outermost frame.
    pub whole_stacks: u64,
    /// Samples whose stack was cut, by cause.
    pub cut_stacks: Vec<Loss>,
    /// What the recording says of interpreted languages; empty if no interpreter was read.
    pub languages: Vec<Spoken>,
    /// Counts that fell between a change of the mapped code and its discovery.
    pub uncertain: u64,
    /// Things to know about the input, one line each: damaged files, missing debug data, programs that could not
    /// be sampled.
    pub notes: Vec<String>,
    /// Those of the notes that say why functions have no names.
    pub without_names: Vec<String>,
    /// Processes that still run.
    pub running: u64,
    /// Reasons to think that something is missing which no figure here counts: sampling ended before the
    /// program did, a file is damaged or unreadable, a process said why it could not be sampled. Each is a
    /// note too.
    pub gaps_told: u64,
    /// Files that could not be read at all; each has a note.
    pub unreadable: u64,
    /// Samples outside of the window of time that was asked for, and when the last of them was, nanoseconds after the
    /// start; `None` if there are none.
    pub outside_window: Option<(u64, u64)>,
}

impl Account {
    /// Adds a loss to its cause's row: how many samples, and how much time they stood for.
    pub fn lose(&mut self, cause: &str, samples: u64, ns: u64) {
        add_loss(&mut self.losses, cause, samples, ns);
    }
    /// Adds samples with a cut stack to their cause's row.
    pub fn cut(&mut self, cause: &str, samples: u64) {
        add_loss(&mut self.cut_stacks, cause, samples, 0);
    }
    /// Adds a note, once, that says that something is missing.
    pub fn note_gap(&mut self, line: impl Into<String>) {
        self.gaps_told += 1;
        self.note(line);
    }
    /// Adds a note, once, that says why functions have no names.
    pub fn note_without_names(&mut self, line: impl Into<String>) {
        let line = line.into();
        if !self.without_names.contains(&line) {
            self.without_names.push(line.clone());
        }
        self.note(line);
    }
    /// Adds a note once.
    pub fn note(&mut self, line: impl Into<String>) {
        let line = line.into();
        if !self.notes.contains(&line) {
            self.notes.push(line);
        }
    }
}

/// Adds to the row of a cause.
pub(crate) fn add_loss(rows: &mut Vec<Loss>, cause: &str, samples: u64, ns: u64) {
    if samples == 0 && ns == 0 {
        return;
    }
    match rows.iter_mut().find(|row| row.cause == cause) {
        Some(row) => {
            row.samples = row.samples.saturating_add(samples);
            row.ns = row.ns.saturating_add(ns);
        }
        None => rows.push(Loss { cause: cause.to_owned(), samples, ns }),
    }
}

/// What a recording says of one interpreted language.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Spoken {
    /// Which language.
    pub language: Language,
    /// Samples whose frames of the language are all there.
    pub whole: u64,
    /// Samples whose frames of the language are not, or not all, there, by cause.
    pub flawed: Vec<Loss>,
    /// Where the time of the language's threads went.
    pub spent: Spent,
    /// Functions of the interpreter that have no names ran: whether they collected garbage is not known.
    pub nameless: bool,
}

/// Where time went, as seen from an interpreted language: each sample is in one of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Spent {
    /// In functions of the language: in the interpreter, and in the C library and the kernel as far as it called them.
    pub inside: Weight,
    /// In other native code that such a function called: extension modules, and what these call.
    pub native: Weight,
    /// Waiting for the global interpreter lock.
    pub lock: Weight,
    /// Collecting garbage.
    pub garbage: Weight,
    /// Compiling functions of the language.
    pub compiling: Weight,
    /// In all other samples without a frame of the language.
    pub outside: Weight,
}

impl Account {
    /// The row of a language, made if need be.
    pub fn spoken(&mut self, language: Language) -> &mut Spoken {
        let known = self.languages.iter().position(|row| row.language == language);
        let at = known.unwrap_or_else(|| {
            let (flawed, spent) = (Vec::new(), Spent::default());
            self.languages.push(Spoken { language, whole: 0, flawed, spent, nameless: false });
            self.languages.len() - 1
        });
        &mut self.languages[at]
    }
}
