//! A recording as call contexts: what `pct deep` writes and `pct view` shows.

use crate::look::Look;
use anyhow::{Result, bail};
use pct_native::{Apart, Beside, Made, graph::MOST_EDGES, make_with};
use pct_profile::Profile;
use pct_profile::fold::add_own_work;
use pct_profile::load::{Options, WantedMemory};
use pct_profile::memory::{Measure, MemoryCell, Selection};

/// How stacks become call contexts.
#[derive(clap::Args, Clone, Debug)]
#[command(next_help_heading = "How call contexts are made")]
pub struct Fold {
    /// Whether threads share their contexts, or each has its own below its name (threads with the same name count
    /// as one).
    #[arg(long, value_enum, default_value_t)]
    pub threads: Share,
    /// Whether processes share their contexts, or each has its own below its name.
    #[arg(long, value_enum, default_value_t)]
    pub processes: Share,
    /// Most call edges. Beyond this number all further contexts of a function become one, and a line says how much
    /// time was spent in them.
    #[arg(long, value_name = "N", default_value_t = MOST_EDGES)]
    pub nodes: usize,
}

/// Together or apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Share {
    /// Together.
    #[default]
    Merge,
    /// Each by itself.
    Split,
}

/// The deep profile of a profile.
///
/// # Errors
/// When it has no samples.
pub fn made(profile: &mut Profile, look: &Look, fold: &Fold) -> Result<Made> {
    let cells = look.cells(profile);
    let apart = Apart { threads: fold.threads == Share::Split, processes: fold.processes == Share::Split };
    let memory = memory(profile, look, apart);
    look.retain_waits(profile);
    look.retain_over_time(profile);
    let outside = profile.account.outside_window.map_or(0, |(samples, _)| samples);
    let samples = profile.total().samples.saturating_add(outside);
    if cells.is_empty() && samples > 0 && memory.is_empty() {
        bail!(
            "none of the {} is in the part that was asked for",
            pct_num::count(samples, "sample", "samples")
        );
    }
    add_own_work(profile, &cells);
    let beside = Beside { memory, has_own_work: true };
    let mut made = make_with(profile, &cells, &beside, apart, fold.nodes)?;
    made.recorded.window = look.window();
    if !beside.memory.is_empty() {
        made.recorded.side.account.extend(about_memory(profile));
    }
    Ok(made)
}

/// How a recording is loaded for a deep profile: with what is known of memory and waits, and of what was spent when.
#[must_use]
pub fn options(look: &Look) -> Options {
    Options { memory: WantedMemory::Tables, waits: true, over_time: true, ..look.options() }
}

/// What was allocated in the part that is looked at. Memory is counted by stack: of one thread or a time it
/// is not known.
fn memory(profile: &Profile, look: &Look, apart: Apart) -> Vec<MemoryCell> {
    if apart != Apart::default() || look.thread.is_some() || look.window().is_some() {
        return Vec::new();
    }
    let filter = look.filter();
    Selection { by: Measure::Bytes, filter, ..Selection::default() }.cells(profile, &profile.memory)
}

/// What readers must know of the columns of allocations.
fn about_memory(profile: &Profile) -> Vec<String> {
    let processes = &profile.memory.processes;
    let seeds: Vec<String> = processes.iter().take(2).map(|process| process.seed.to_string()).collect();
    let more = match processes.len() - seeds.len() {
        0 => String::new(),
        n => format!(" and those of {} more", pct_num::count(n as u64, "process", "processes")),
    };
    vec![format!(
        "allocations and words (of 8 bytes) are estimates from samples (seed {}{more}): {}",
        seeds.join(", "),
        pct_profile::text::memory_words::limit(&profile.memory)
    )]
}
