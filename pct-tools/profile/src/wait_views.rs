//! Waits beside what else a profile knows: as cells for trees, and what of a thread's time they explain.

use crate::ids::ThreadId;
use crate::model::{Cell, Profile, Weight};
use crate::waits::{ThreadTime, WaitRow, Waits};
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

/// What is known of each thread's time, those first that waited longest for locks. Where a thread's CPU time was
/// not noted, it is what its samples stand for.
#[must_use]
pub fn accounts(profile: &Profile, waits: &Waits) -> Vec<ThreadAccount> {
    let mut sampled: FxHashMap<ThreadId, u64> = FxHashMap::default();
    for cell in &profile.cells {
        *sampled.entry(cell.thread).or_default() += cell.weight.cpu_ns();
    }
    let account = |time: &ThreadTime| {
        let ThreadTime { thread, wall_ns, cpu_ns, locks_ns, work_ns, futexes_ns } = *time;
        let of_samples = sampled.get(&thread).copied().unwrap_or(0);
        ThreadAccount { thread, wall_ns, cpu_ns: cpu_ns.unwrap_or(of_samples), locks_ns, work_ns, futexes_ns }
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

/// The waits for locks as cells, for trees and flame graphs. Waits for work are left out: a thread that waits for work
/// is idle, and idle threads would hide the locks.
#[must_use]
pub fn lock_cells(waits: &Waits) -> Vec<Cell> {
    waits.rows.iter().filter(|row| waits.objects[row.object].kind.is_lock()).map(cell).collect()
}

fn cell(row: &WaitRow) -> Cell {
    let weight = Weight { samples: row.figures.waits, user_ns: row.figures.ns, system_ns: 0 };
    Cell { thread: row.thread, stack: row.stack, weight }
}
