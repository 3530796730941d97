//! The rows that trees and tables are made of: the figures of each process and stack, at an instant or at the end.

use super::hide;
use crate::memory::{Block, Figures, Measure, Memory};
use crate::model::{Id as _, ProcessId, Profile, StackId};
use crate::select::{Filter, Pattern, stacks_through};
use crate::tree::{Amount, Label, Measured, Split};
use pct_num::{float, rounded};
use rustc_hash::FxHashMap;

/// All that one process has in one stack.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct MemoryCell {
    /// Who.
    pub process: ProcessId,
    /// Where.
    pub stack: StackId,
    /// How much.
    pub figures: Figures,
}

impl Amount for Figures {
    fn is_nothing(&self) -> bool {
        Figures::is_nothing(self)
    }
    fn heaviness(&self) -> (u64, u64) {
        // In thousandths, so that blocks and small means are told apart.
        (rounded((self.rank() * 1000.0).min(1e18)), self.held(self.by).samples())
    }
}

impl Measured for MemoryCell {
    type Amount = Figures;
    fn stack(&self) -> StackId {
        self.stack
    }
    fn amount(&self) -> Figures {
        self.figures
    }
    fn part(&self, _: &Profile, split: Split) -> Option<Label> {
        // Sums are kept by stack, not by thread: who allocated is not known.
        match split {
            Split::Merged => None,
            Split::Process | Split::Command | Split::Thread | Split::ThreadName => {
                Some(Label::Process(self.process))
            }
        }
    }
}

/// Which blocks are counted as live.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum When {
    /// Those that are live at the end of the recording.
    #[default]
    End,
    /// Those that were live at an instant, nanoseconds since the profile's start.
    At(u64),
    /// Those that were live at one instant and not at another.
    Only {
        /// Live at this instant.
        at: u64,
        /// Not live at this one.
        not_at: u64,
    },
}

impl When {
    fn counts(self, block: &Block) -> bool {
        match self {
            Self::End => block.freed_ns.is_none(),
            Self::At(at) => block.is_live_at(at),
            Self::Only { at, not_at } => block.is_live_at(at) && !block.is_live_at(not_at),
        }
    }
    fn instant(self) -> Option<u64> {
        match self {
            Self::End => None,
            Self::At(at) | Self::Only { at, .. } => Some(at),
        }
    }
}

/// What is looked at.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// By what rows are ranked.
    pub by: Measure,
    /// When blocks must be live.
    pub when: When,
    /// Frames of allocators are shown.
    pub all_frames: bool,
    /// Functions that are hidden as allocators are.
    pub hide: Option<Pattern>,
    /// Which processes, functions, objects. Threads and times are not known of memory.
    pub filter: Filter,
}

impl Selection {
    /// The rows, at most one for each process and stack, in order of both.
    #[must_use]
    pub fn cells(&self, profile: &Profile, memory: &Memory) -> Vec<MemoryCell> {
        let shown = if self.all_frames {
            None
        } else {
            Some(hide::callers_of_allocators(profile, self.hide.as_ref()))
        };
        let at = |stack: StackId| shown.as_ref().map_or(stack, |shown| shown[stack.index()]);
        let fresh = || Figures { by: self.by, ..Figures::default() };
        let mut rows: FxHashMap<(ProcessId, StackId), Figures> = FxHashMap::default();
        for sum in &memory.sums {
            let row = rows.entry((sum.process, at(sum.stack))).or_insert_with(fresh);
            row.allocated += sum.allocated;
            row.freed.0 = row.freed.0.saturating_add(sum.freed.0);
            row.freed.1 += sum.freed.1;
            row.freed.2 += sum.freed.2;
            row.lifetimes += sum.lifetimes;
        }
        let ends: FxHashMap<ProcessId, u64> =
            memory.processes.iter().map(|process| (process.process, process.end_ns)).collect();
        for block in &memory.blocks {
            let live = self.when.counts(block);
            if !live && !block.at_peak {
                continue;
            }
            let row = rows.entry((block.process, at(block.stack))).or_insert_with(fresh);
            let held = block.held();
            if live {
                row.live += held;
                let now = self.when.instant().or_else(|| ends.get(&block.process).copied()).unwrap_or(0);
                let age = float(now.saturating_sub(block.allocated_ns)) / 1e9;
                row.byte_seconds += held.bytes.amount * age;
            }
            if block.at_peak {
                row.peak += held;
            }
        }
        let mut cells: Vec<MemoryCell> = rows
            .into_iter()
            .map(|((process, stack), figures)| MemoryCell { process, stack, figures })
            .collect();
        self.retain(profile, &mut cells);
        cells.sort_by_key(|cell| (cell.process, cell.stack));
        cells
    }

    fn retain(&self, profile: &Profile, cells: &mut Vec<MemoryCell>) {
        if let Some(pattern) = &self.filter.process {
            let keep: Vec<bool> =
                profile.processes.iter().map(|p| pattern.matches_id_or_name(p.pid, &p.name)).collect();
            cells.retain(|cell| keep[cell.process.index()]);
        }
        if let Some(pattern) = &self.filter.object {
            let keep: Vec<bool> = profile.objects.iter().map(|o| pattern.matches(&o.path)).collect();
            cells.retain(|cell| keep[profile.functions[profile.leaf(cell.stack)].object.index()]);
        }
        for (pattern, wanted) in [(&self.filter.focus, true), (&self.filter.ignore, false)] {
            if let Some(pattern) = pattern {
                let on = stacks_through(profile, |f| pattern.matches(&profile.functions[f].name));
                cells.retain(|cell| on[cell.stack.index()] == wanted);
            }
        }
    }
}
