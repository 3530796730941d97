//! What the commands share that look at memory instead of CPU time: options, loading, what is said of a
//! recording without memory.

use crate::errors::Usage;
use crate::face::Face;
use crate::look::{self, Look};
use anyhow::{Result, bail};
use pct_profile::Profile;
use pct_profile::load::{Options, WantedMemory};
use pct_profile::memory::{Measure, MemoryCell, Selection, When};
use pct_profile::model::ObjectKind;
use pct_profile::text::numbers::seconds;
use pct_symbols::allocator::{self, Inside, Linkage};
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
    /// Show also the frames of malloc, of operator new and of the standard libraries that call them.
    #[arg(long, requires = "alloc")]
    pub all_frames: bool,
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
        Selection { by, when, all_frames: self.all_frames, filter }
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
        if let Some((program, inside)) = unseen_program(&profile) {
            bail!("{}: its allocations were not sampled: {program} {inside}", name(paths, &profile));
        }
        bail!(
            "{}: its allocations were not sampled; record them by: pct run --alloc -- COMMAND",
            name(paths, &profile)
        );
    }
    Ok(profile)
}

/// A program of the recording whose memory no library can see: a static one, or one of Go.
fn unseen_program(profile: &Profile) -> Option<(&str, Inside)> {
    let files = profile.objects.iter().filter(|object| object.kind == ObjectKind::File);
    let mut inside =
        files.filter_map(|object| Some((object.path.as_str(), allocator::inside(Path::new(&object.path))?)));
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
