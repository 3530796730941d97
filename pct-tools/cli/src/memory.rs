//! What the commands share that look at memory instead of CPU time: options, loading, what is said of a
//! recording without memory.

use crate::errors::Usage;
use crate::face::Face;
use crate::look::{self, Look};
use anyhow::{Result, bail};
use pct_profile::load::run::Info;
use pct_profile::load::{Options, WantedMemory};
use pct_profile::memory::{Measure, MemoryCell, Selection, When};
use pct_profile::text::numbers::seconds;
use pct_profile::{Pattern, Profile};
use pct_symbols::allocator::{self, Inside, Linkage};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// How memory is looked at.
#[derive(clap::Args, Clone, Debug, Default)]
#[command(next_help_heading = "Memory")]
pub struct MemoryLook {
    /// Memory instead of CPU time, of a recording by pct run --alloc.
    #[arg(long)]
    pub alloc: bool,
    /// What was live at this time after the start, e.g. 10s.
    #[arg(long, value_name = "TIME", value_parser = look::time, requires = "alloc")]
    pub at: Option<u64>,
    /// Show also the frames of malloc, of operator new, of the standard libraries that call them, and of functions that
    /// only pass requests on (zmalloc, xstrdup).
    #[arg(long, requires = "alloc")]
    pub all_frames: bool,
    /// Functions that allocate for their callers, beside those that are known by name: their callers are shown.
    #[arg(long, value_name = "REGEX", requires = "alloc", conflicts_with = "all_frames")]
    pub hide: Option<Pattern>,
}

/// By what memory is ranked, as it is typed.
///
/// # Errors
/// Says what could be typed.
pub fn measure(text: &str) -> Result<Measure, String> {
    let known = Measure::ALL.into_iter().find(|measure| measure.name() == text);
    known.ok_or_else(|| {
        let names: Vec<&str> = Measure::ALL.into_iter().map(Measure::name).collect();
        format!("expected one of {}", names.join(", "))
    })
}

/// A recording's memory, as it is looked at.
#[derive(Debug)]
pub struct Loaded {
    /// The recording.
    pub profile: Profile,
    /// Its rows.
    pub cells: Vec<MemoryCell>,
    /// What they were picked by.
    pub selection: Selection,
}

impl MemoryLook {
    /// Loads recordings with their memory.
    ///
    /// # Errors
    /// When none can be read, or allocations were not sampled; [`Usage`] for parts that memory is not recorded by.
    pub fn load(&self, paths: &[PathBuf], look: &Look, by: Measure, face: &Face) -> Result<Loaded> {
        let profile = load(paths, look, self.wanted(), face)?;
        if let Some(at) = self.at {
            warn_of_incomplete_log(&profile, at, face);
        }
        let selection = self.selection(look, by);
        let cells = selection.cells(&profile, &profile.memory);
        Ok(Loaded { profile, cells, selection })
    }

    /// How much of the recording is needed.
    fn wanted(&self) -> WantedMemory {
        if self.at.is_some() { WantedMemory::Log } else { WantedMemory::Tables }
    }

    /// What is picked.
    #[must_use]
    pub fn selection(&self, look: &Look, by: Measure) -> Selection {
        let filter = look.filter();
        let when = self.at.map_or(When::End, When::At);
        Selection { by, when, all_frames: self.all_frames, hide: self.hide.clone(), filter }
    }
}

/// Loads recordings whose allocations were sampled.
///
/// # Errors
/// As [`MemoryLook::load`].
pub fn load(paths: &[PathBuf], look: &Look, memory: WantedMemory, face: &Face) -> Result<Profile> {
    if look.from.is_some() || look.to.is_some() {
        return Err(
            Usage("memory is not counted by windows of time: --at says what was live then".into()).into()
        );
    }
    if look.thread.is_some() {
        return Err(Usage("memory is counted by stack, not by thread: --focus picks stacks".into()).into());
    }
    let profile = look::load_any_quantity(paths, &Options { memory, ..look.options() }, face)?;
    if profile.memory.is_empty() {
        if !profile.is_of_cpu_time() {
            let name = name(paths, &profile);
            bail!(
                "{name}: another profiler's file has no estimates for --alloc; without --alloc its sample types are shown as \
                 they are: pct report --type inuse_space {name}"
            );
        }
        bail!("{}: {}", name(paths, &profile), why_no_memory(&profile, were_asked_for(paths)));
    }
    Ok(profile)
}

/// Whether any of these runs was to sample allocations. `None`: a recording does not say so.
fn were_asked_for(paths: &[PathBuf]) -> Option<bool> {
    let asked = paths.iter().map(|path| Info::read(path).and_then(|info| info.alloc));
    asked.reduce(|one, other| match (one, other) {
        (Some(true), _) | (_, Some(true)) => Some(true),
        (one, other) => one.and(other),
    })?
}

fn why_no_memory(profile: &Profile, asked: Option<bool>) -> String {
    const HOW: &str = "record them by: pct run --alloc -- COMMAND";
    match (asked, unseen_program(profile)) {
        (Some(false), _) => format!("its allocations were not recorded, as --alloc was not given; {HOW}"),
        (Some(true), Some((program, inside))) => {
            format!("its allocations were not sampled: {program} {inside}")
        }
        (Some(true), None) => {
            "--alloc was given, and none of its processes recorded an allocation".to_owned()
        }
        (None, _) => format!("its allocations were not sampled; {HOW}"),
    }
}

/// A program of the recording whose memory no library can see: a static one, or one of Go. Libraries are not asked:
/// each of them is without a loader, as static programs are.
fn unseen_program(profile: &Profile) -> Option<(&str, Inside)> {
    let programs: BTreeSet<&str> =
        profile.processes.iter().map(|process| process.executable.as_str()).collect();
    let mut inside =
        programs.into_iter().filter_map(|path| Some((path, allocator::inside(Path::new(path))?)));
    inside.find(|(_, inside)| matches!(inside.linkage, Linkage::Static | Linkage::Go))
}

fn name(paths: &[PathBuf], profile: &Profile) -> String {
    paths.first().map_or_else(|| profile.title.clone(), |path| path.display().to_string())
}

/// Blocks that were freed are known from the log only: says so where it does not reach back to `at`.
pub fn warn_of_incomplete_log(profile: &Profile, at: u64, face: &Face) {
    for process in &profile.memory.processes {
        let about = &profile.processes[process.process];
        let who = format!("{} ({})", about.name, about.pid);
        match process.log_from_ns {
            None => face.warn(format_args!(
                "{who}: no log of allocations was kept, so of what was live at {} s only the blocks are known that were not freed \
                 since, or were live at the peak",
                seconds(at)
            )),
            Some(from) if from > at => face.warn(format_args!(
                "{who}: the log was overwritten up to {} s, so of what was live at {} s the blocks are missing that were freed \
                 before (a larger --limit keeps more)",
                seconds(from),
                seconds(at)
            )),
            Some(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pct_profile::model::{Builder, Object, ObjectKind, Process};

    /// A recording of this test's own program, with a library that has no loader, as none has.
    fn profile() -> Profile {
        let exe = std::env::current_exe().expect("it has a path");
        let maps = std::fs::read_to_string("/proc/self/maps").expect("it has maps");
        let library = maps.lines().filter_map(|line| line.split_whitespace().nth(5));
        let library =
            library.map(str::to_owned).find(|path| path.contains("/libc.so") || path.contains("/libc-"));
        let library = library.expect("a C library");
        assert!(
            allocator::inside(Path::new(&library)).is_some(),
            "taken alone it looks like a static program"
        );
        let mut b = Builder::new(false);
        b.object(Object::new(&library, ObjectKind::File));
        b.process(Process { executable: exe.display().to_string(), ..Process::default() });
        b.finish()
    }

    #[test]
    fn a_recording_without_memory_says_why() {
        let why = |asked| why_no_memory(&profile(), asked);
        let not_given = "its allocations were not recorded, as --alloc was not given; \
                         record them by: pct run --alloc -- COMMAND";
        assert_eq!(why(Some(false)), not_given);
        assert_eq!(why(Some(true)), "--alloc was given, and none of its processes recorded an allocation");
        assert_eq!(why(None), "its allocations were not sampled; record them by: pct run --alloc -- COMMAND");
    }

    #[test]
    fn the_runs_say_whether_memory_was_asked_for() {
        let dir = tempfile::tempdir().expect("a folder");
        let run = |name: &str, alloc| {
            let folder = dir.path().join(name);
            std::fs::create_dir(&folder).expect("made");
            Info { alloc, ..Info::default() }.write(&folder).expect("written");
            folder
        };
        let [with, without, old] = [("with", Some(true)), ("without", Some(false)), ("old", None)]
            .map(|(name, alloc)| run(name, alloc));
        let file = dir.path().join("one.pct");
        for (paths, asked) in [
            (vec![&with], Some(true)),
            (vec![&without], Some(false)),
            (vec![&without, &with], Some(true)),
            (vec![&old], None),
            (vec![&without, &file], None),
            (vec![], None),
        ] {
            let paths: Vec<PathBuf> = paths.into_iter().cloned().collect();
            assert_eq!(were_asked_for(&paths), asked, "{paths:?}");
        }
    }
}
