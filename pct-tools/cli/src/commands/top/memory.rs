//! The picture of memory: what is live now, by the line that allocated it, and how fast it grows.
//!
//! A recording says what is live, not what was: so looks are kept, and the last one is compared with one that is as
//! old as the picture says. Looks in between are kept in steps of a sixteenth of that time, which bounds how many
//! there are.

use super::cpu::who;
use super::view::{Page, View};
use anyhow::{Result, bail};
use pct_profile::load::live::Live;
use pct_profile::memory::{Measure, MemoryCell, Rates, Selection, rates};
use pct_profile::text::memory_words::limit;
use pct_profile::text::numbers::bytes;
use pct_profile::text::rates::{self as text, Shown};
use pct_profile::text::table::cut_middle;
use pct_profile::text::tree::Prune;
use pct_profile::text::{Layout, memory as tables, memory_account};
use pct_profile::{By, CallTree, Filter, Profile, Split};
use std::collections::VecDeque;
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime};

/// What keys show.
pub(super) const PAGES: &str = "f sites  t processes  c calls  g growth";

/// Looks that are kept for each span that growth is taken over.
const STEPS: u32 = 16;

/// Live memory.
pub(super) struct Memory {
    live: Live,
    /// Oldest first; the last one is on the screen.
    looks: VecDeque<Snapshot>,
}

/// The recordings at an instant.
struct Snapshot {
    at: Instant,
    profile: Profile,
}

impl Memory {
    /// Looks at these recordings.
    pub(super) fn new(paths: Vec<PathBuf>) -> Self {
        Self { live: Live::of_memory(paths), looks: VecDeque::new() }
    }

    /// Reads them again.
    ///
    /// # Errors
    /// When they cannot be read, or allocations were not sampled.
    pub(super) fn refresh(&mut self, view: &View) -> Result<()> {
        // Of samples of CPU time none is wanted: only what threads begin now.
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let profile = self.live.read_since(u64::try_from(now.as_nanos()).unwrap_or(u64::MAX))?;
        if profile.memory.is_empty() {
            bail!("allocations are not sampled there; record them by: pct run --alloc -- COMMAND");
        }
        let look = Snapshot { at: Instant::now(), profile };
        let span = Duration::from_secs(u64::from(view.last_s));
        let before_last = self.looks.len().checked_sub(2).and_then(|at| self.looks.get(at));
        let too_close =
            before_last.zip(self.looks.back()).is_some_and(|(old, last)| last.at - old.at < span / STEPS);
        if too_close {
            self.looks.pop_back();
        }
        self.looks.push_back(look);
        self.forget(span);
        Ok(())
    }

    /// Of the looks that are older than the span the newest stays.
    fn forget(&mut self, span: Duration) {
        let Some(now) = self.looks.back().map(|look| look.at) else { return };
        while self.looks.get(1).is_some_and(|next| now - next.at >= span) {
            self.looks.pop_front();
        }
    }

    /// The screen's text.
    pub(super) fn picture(&self, view: &View, size: (usize, usize), layout: &Layout) -> String {
        let Some(last) = self.looks.back() else { return String::new() };
        // There is one look at first: it is compared with itself, and growth is not shown.
        let first = self.looks.front().unwrap_or(last);
        let seconds = Some((last.at - first.at).as_secs_f64()).filter(|seconds| *seconds > 0.0);
        picture((&first.profile, &last.profile), seconds, view, size, layout)
    }
}

/// What is shown of two readings and the seconds between them.
fn picture(
    (first, last): (&Profile, &Profile),
    seconds: Option<f64>,
    view: &View,
    (width, height): (usize, usize),
    layout: &Layout,
) -> String {
    let filter = Filter { focus: view.search.clone(), ..Filter::default() };
    let selection = Selection { by: Measure::Live, filter, ..Selection::default() };
    let rows = height.saturating_sub(7).max(3);
    let (by, split) = match view.page {
        Page::Parts => (None, Split::Process),
        _ => (Some(By::Line), Split::Merged),
    };
    let rates = rates::between_looks(first, last, &selection, by, split);
    let head = head(last, &rates, seconds, view);
    let mut page: String = head.lines().map(|line| format!("{}\n", cut_middle(line, width))).collect();
    page += &if view.page == Page::Calls {
        let cells: Vec<MemoryCell> = selection.cells(last, &last.memory);
        let drawn = CallTree::top_down(last, &cells, By::Function, Split::Merged);
        let prune = Prune { least_share: 0.01, lines: rows, depth: usize::MAX };
        tables::tree(last, &drawn, Measure::Live, &prune, layout)
    } else {
        let shown = Shown {
            rows,
            seconds,
            by_growth: view.by_growth,
            wide: layout.width.is_none() || width >= 120,
            sites: by.is_some(),
        };
        text::table(&rates, &shown, layout)
    };
    for process in last.memory.processes.iter().filter(|process| process.server.unseen) {
        page += &format!("  {}\n", cut_middle(&memory_account::unseen(process), width.saturating_sub(2)));
    }
    page += &format!("  {}\n", cut_middle(&limit(&last.memory), width.saturating_sub(2)));
    page
}

/// Two lines: who, what is resident, over which time; and the sums.
fn head(profile: &Profile, rates: &Rates, seconds: Option<f64>, view: &View) -> String {
    let mut line = who(profile);
    let levels = profile.memory.processes.iter().filter_map(|process| process.levels.last()?.resident());
    let resident: u64 = levels.sum();
    if resident > 0 {
        line += &format!("  resident {}", bytes(pct_num::float(resident)));
    }
    line += &match seconds {
        Some(seconds) => format!("  growth over {seconds:.1} s"),
        None => "  growth is known from the second look on".into(),
    };
    if profile.account.running == 0 {
        line += if profile.processes.len() > 1 { "  all have ended" } else { "  it has ended" };
    }
    if view.paused {
        line += "  PAUSED";
    }
    format!("{line}\n{}", text::headline(rates, seconds))
}
