//! What a recording of a native program contains about itself: its threads, and what was accounted for and lost.

use super::over_time::{self, OverTimeReport};
use pct_deep::native::{Recorded, ThreadFacts};
use serde::Serialize;

/// Data of the overview.
#[derive(Clone, Debug, Serialize)]
pub struct OverviewReport {
    /// What was measured, in words.
    pub headline: String,
    /// What was accounted for and lost, in words.
    pub account: Vec<String>,
    /// Number of samples; 0: unknown.
    pub samples: u64,
    /// Samples per CPU second; 0: unknown.
    pub rate_hz: u64,
    /// Whether the samples have stacks.
    pub stacks_known: bool,
    /// Seconds in contexts that were folded for lack of room.
    pub folded_seconds: f64,
    /// Number of processes that were still being recorded.
    pub running: u64,
    /// The threads that have samples, the busiest first.
    pub threads: Vec<ThreadRow>,
    /// Threads beyond those listed, and their seconds.
    pub threads_not_listed: (usize, f64),
    /// Number of processes.
    pub processes: usize,
    /// Whether there is a tree of stacks.
    pub has_stacks: bool,
    /// What was spent when, if it is known.
    pub over_time: Option<OverTimeReport>,
}

/// A thread.
#[derive(Clone, Debug, Serialize)]
pub struct ThreadRow {
    /// Its name; may be empty.
    pub name: String,
    /// Its id.
    pub tid: u32,
    /// Its process.
    pub process: String,
    /// The process's id.
    pub pid: u32,
    /// Samples in it.
    pub samples: u64,
    /// CPU seconds of them.
    pub seconds: f64,
    /// Share of all.
    pub share: f64,
}

/// Most threads that are listed.
const THREADS: usize = 200;

/// The report.
#[must_use]
pub fn create(recorded: &Recorded) -> OverviewReport {
    let side = &recorded.side;
    let seconds = |ns: u64| side.measured.scaled(ns);
    let whole: u64 = side.threads.iter().map(|t| t.ns).sum();
    // A process that has executed another program has its last one's name.
    let name_of = |pid: u32| {
        side.processes.iter().rev().find(|p| p.pid == pid).map(|p| p.name.clone()).unwrap_or_default()
    };
    let mut threads: Vec<ThreadFacts> = side.threads.iter().filter(|t| t.tid != 0).cloned().collect();
    // Time in no sample has a row for each process: one is enough here.
    let unsampled = side.threads.iter().filter(|t| t.tid == 0).fold(None, |sum: Option<ThreadFacts>, t| {
        let sum = sum.unwrap_or_else(|| ThreadFacts { name: t.name.clone(), ..ThreadFacts::default() });
        Some(ThreadFacts { samples: sum.samples + t.samples, ns: sum.ns.saturating_add(t.ns), ..sum })
    });
    threads.extend(unsampled);
    threads.sort_by_key(|t| std::cmp::Reverse(t.ns));
    let (listed, rest) = threads.split_at(threads.len().min(THREADS));
    OverviewReport {
        headline: side.headline.clone(),
        account: side.account.clone(),
        samples: side.samples,
        rate_hz: side.rate_hz,
        stacks_known: side.stacks_known,
        folded_seconds: seconds(side.folded_ns),
        running: side.running,
        threads: listed
            .iter()
            .map(|t| ThreadRow {
                name: t.name.clone(),
                tid: t.tid,
                process: name_of(t.pid),
                pid: t.pid,
                samples: t.samples,
                seconds: seconds(t.ns),
                share: if whole == 0 { 0.0 } else { t.ns as f64 / whole as f64 },
            })
            .collect(),
        threads_not_listed: (rest.len(), seconds(rest.iter().map(|t| t.ns).sum())),
        processes: side.processes.len(),
        has_stacks: !recorded.stacks.is_empty(),
        over_time: over_time::create(recorded),
    }
}
