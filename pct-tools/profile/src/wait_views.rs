//! Waits beside what else a profile knows: as cells for trees, and what of a thread's time they explain.

use crate::ids::ThreadId;
use crate::model::{Cell, Profile, Weight};
use crate::waits::{ThreadTime, WaitClass, WaitRow, Waits};
use rustc_hash::{FxHashMap, FxHashSet};
use std::cmp::Reverse;

/// A thread's time, and what of it waits explain.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ThreadAccount {
    /// The thread.
    pub thread: ThreadId,
    /// Nanoseconds from its begin to its end, or to the end of the recording.
    pub wall_ns: u64,
    /// Nanoseconds on a CPU.
    pub cpu_ns: u64,
    /// Nanoseconds of waits for locks.
    pub locks_ns: u64,
    /// Nanoseconds of waits for work.
    pub work_ns: u64,
    /// Nanoseconds of waits for futexes of which it is not known what they are.
    pub futexes_ns: u64,
}

impl ThreadAccount {
    /// Nanoseconds off the CPU that no recorded wait explains.
    #[must_use]
    pub fn rest_ns(&self) -> u64 {
        let waited = self.locks_ns.saturating_add(self.work_ns).saturating_add(self.futexes_ns);
        self.wall_ns.saturating_sub(self.cpu_ns.saturating_add(waited))
    }
}

/// What is known of each thread's time, those first that waited longest for locks. A thread's CPU time is what was
/// noted of it some time before its end, or what its samples stand for if that is more.
#[must_use]
pub fn accounts(profile: &Profile, waits: &Waits) -> Vec<ThreadAccount> {
    let mut sampled: FxHashMap<ThreadId, u64> = FxHashMap::default();
    for cell in &profile.cells {
        *sampled.entry(cell.thread).or_default() += cell.weight.cpu_ns();
    }
    let account = |time: &ThreadTime| {
        let ThreadTime { thread, wall_ns, cpu_ns, locks_ns, work_ns, futexes_ns } = *time;
        let of_samples = sampled.get(&thread).copied().unwrap_or(0);
        let cpu_ns = cpu_ns.unwrap_or(0).max(of_samples);
        ThreadAccount { thread, wall_ns, cpu_ns, locks_ns, work_ns, futexes_ns }
    };
    let mut accounts: Vec<ThreadAccount> = waits.threads.iter().map(account).collect();
    accounts.sort_by_key(|account| (Reverse((account.locks_ns, account.work_ns)), account.thread));
    accounts
}

/// Leaves the rows of threads and stacks that these cells have, and these threads.
pub fn retain(waits: &mut Waits, cells: &[Cell]) {
    let wanted: FxHashSet<_> = cells.iter().map(|cell| (cell.thread, cell.stack)).collect();
    waits.rows.retain(|row| wanted.contains(&(row.thread, row.stack)));
    let threads: FxHashSet<_> = cells.iter().map(|cell| cell.thread).collect();
    waits.threads.retain(|time| threads.contains(&time.thread));
}

/// All waits as cells, to select from: a sample is a wait, its time the time that was waited.
#[must_use]
pub fn cells(waits: &Waits) -> Vec<Cell> {
    waits.rows.iter().map(cell).collect()
}

/// Which waits a tree or flame graph has. A thread that waits for work is idle, and idle threads would hide the locks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum WaitsShown {
    /// Waits for locks.
    #[default]
    Locks,
    /// All other waits: for conditions, semaphores, barriers, ends of threads, and futexes that may be locks.
    Work,
    /// Both.
    All,
}

impl std::str::FromStr for WaitsShown {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "locks" => Ok(Self::Locks),
            "work" => Ok(Self::Work),
            "all" => Ok(Self::All),
            _ => Err("expected locks, work or all".to_owned()),
        }
    }
}

impl WaitsShown {
    /// What they are, in words.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::Locks => "waits for locks",
            Self::Work => "waits for work",
            Self::All => "waits for locks and for work",
        }
    }

    /// Whether waits of a class are among them.
    #[must_use]
    pub fn has(self, class: WaitClass) -> bool {
        match self {
            Self::Locks => class == WaitClass::Lock,
            Self::Work => class != WaitClass::Lock,
            Self::All => true,
        }
    }

    /// These waits as cells, for trees and flame graphs.
    #[must_use]
    pub fn cells(self, waits: &Waits) -> Vec<Cell> {
        let is_shown = |row: &&WaitRow| self.has(waits.objects[row.object].class());
        waits.rows.iter().filter(is_shown).map(cell).collect()
    }
}

fn cell(row: &WaitRow) -> Cell {
    let weight = Weight { samples: row.figures.waits, user_ns: row.figures.ns, system_ns: 0 };
    Cell { thread: row.thread, stack: row.stack, weight }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{ProcessId, StackId};
    use crate::model::Id as _;
    use crate::model::tests::folded;
    use crate::waits::{Object, WaitFigures};
    use pct_format::WaitKind;

    #[test]
    fn the_cpu_time_of_a_thread_is_the_larger_of_what_was_noted_and_what_was_sampled() {
        // 1.4 s of samples. What was noted before the thread's end may be less.
        let profile = folded("main;work 1400");
        let sampled = profile.total().cpu_ns();
        let thread = ThreadId::from_index(0);
        for (noted, cpu_ns) in [
            (None, sampled),
            (Some(sampled / 2), sampled),
            (Some(sampled + 7), sampled + 7), // samples were lost
        ] {
            let time = ThreadTime {
                thread,
                wall_ns: sampled * 2,
                cpu_ns: noted,
                locks_ns: 1,
                work_ns: 0,
                futexes_ns: 0,
            };
            let account = accounts(&profile, &Waits { threads: vec![time], ..Waits::default() })[0];
            assert_eq!((account.cpu_ns, account.rest_ns()), (cpu_ns, sampled * 2 - cpu_ns - 1), "{noted:?}");
        }
    }

    #[test]
    fn pictures_have_the_waits_that_were_asked_for() {
        let (process, thread, stack) =
            (ProcessId::from_index(0), ThreadId::from_index(0), StackId::from_index(0));
        let mut waits = Waits::default();
        for (kind, ns) in [(WaitKind::Mutex, 1), (WaitKind::Condition, 20), (WaitKind::Futex, 300)] {
            let object = waits.objects.len();
            waits.objects.push(Object { process, kind, of_language: None, address: ns, first_stack: stack });
            let figures = WaitFigures { waits: 1, ns, ..WaitFigures::default() };
            waits.rows.push(WaitRow { thread, stack, object, kind, figures, holders: Vec::new() });
        }
        for (word, ns) in [("locks", 1), ("work", 320), ("all", 321)] {
            let shown: WaitsShown = word.parse().expect("a word");
            let sum: u64 = shown.cells(&waits).iter().map(|cell| cell.weight.cpu_ns()).sum();
            assert_eq!(sum, ns, "{word}");
        }
        assert!("lock".parse::<WaitsShown>().is_err());
    }
}
