//! What the threads of a recording waited for: locks, who held them, and the stacks that waited.

use crate::analysis::Failure;
use crate::subject::Subject;
use pct_deep::waited::WaitFacts;
use serde::Serialize;

/// What threads waited for.
#[derive(Clone, Debug, Serialize)]
pub struct WaitsReport {
    /// Seconds of waits for locks.
    pub lock_seconds: f64,
    /// Waits for locks.
    pub lock_waits: u64,
    /// The locks that were waited for longest.
    pub locks: Vec<WaitedLock>,
    /// Number of locks that are not listed.
    pub not_listed: u64,
    /// One line about what else was waited for; `None`: nothing.
    pub work: Option<String>,
    /// The stacks that waited for locks. A caller comes before its callees. The first is the program.
    pub nodes: Vec<WaitNode>,
    /// Number of small branches that were left out.
    pub left_out: usize,
}

/// A lock that was waited for.
#[derive(Clone, Debug, Serialize)]
pub struct WaitedLock {
    /// Seconds.
    pub seconds: f64,
    /// Share of all waits for locks, 0 to 1.
    pub share: f64,
    /// Waits.
    pub waits: u64,
    /// Which lock it is.
    pub what: String,
    /// The function that waited longest, and how many others there are.
    pub waited_in: String,
    /// The function that held it longest meanwhile, and how many others there are; `-`: nobody is known.
    pub held_by: String,
}

/// A function on a stack that waited.
#[derive(Clone, Debug, Serialize)]
pub struct WaitNode {
    /// Index of the caller; for the first node its own index.
    pub parent: usize,
    /// The procedure; 0: it has none, because it took no sample.
    pub ps: u32,
    /// Its name.
    pub name: String,
    /// The language of an interpreted function, or the object that the function is in.
    pub group: String,
    /// Nanoseconds of waiting with this stack or one that begins with it.
    pub total_ns: u64,
}

/// The report.
///
/// # Errors
/// The waits are unknown: they were not recorded, or the profile is a file and not a recording.
pub fn create(subject: &Subject) -> Result<WaitsReport, Failure> {
    let waits = subject.recorded.as_ref().and_then(|recorded| recorded.waits.as_ref());
    let waits = waits.ok_or_else(|| {
        Failure("Waits are known only of recordings by `pct run --wait -- COMMAND`.".to_owned())
    })?;
    let share = |ns: u64| if waits.lock_ns == 0 { 0.0 } else { ns as f64 / waits.lock_ns as f64 };
    let locks = waits.locks.iter().map(|lock| WaitedLock {
        seconds: lock.ns as f64 / 1e9,
        share: share(lock.ns),
        waits: lock.waits,
        what: lock.what.clone(),
        waited_in: lock.waited_in.clone(),
        held_by: lock.held_by.clone(),
    });
    Ok(WaitsReport {
        lock_seconds: waits.lock_ns as f64 / 1e9,
        lock_waits: waits.lock_waits,
        locks: locks.collect(),
        not_listed: waits.locks_beyond,
        work: waits.work.clone(),
        nodes: nodes(subject, waits),
        left_out: waits.stacks_left_out,
    })
}

/// The stacks below a node for the program; none, if nothing was waited for.
fn nodes(subject: &Subject, waits: &WaitFacts) -> Vec<WaitNode> {
    if waits.stacks.is_empty() {
        return Vec::new();
    }
    let profile = &subject.profile;
    let root = WaitNode {
        parent: 0,
        ps: profile.pd_ps(profile.root()).number(),
        name: profile.program().into_owned(),
        group: String::new(),
        total_ns: waits.stacks.iter().filter(|node| node.parent.is_none()).map(|node| node.total_ns).sum(),
    };
    let below = waits.stacks.iter().map(|node| WaitNode {
        parent: node.parent.map_or(0, |parent| parent as usize + 1),
        ps: node.ps,
        name: node.name.clone(),
        group: node.group.clone(),
        total_ns: node.total_ns,
    });
    std::iter::once(root).chain(below).collect()
}
