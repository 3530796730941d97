//! What the threads of a recording waited for: locks, who held them, and the stacks that waited.

use crate::analysis::Failure;
use crate::query::WaitsOf;
use crate::subject::Subject;
use pct_deep::waited::WaitTable;
use serde::Serialize;

/// What threads waited for: the waits of one kind.
#[derive(Clone, Debug, Serialize)]
pub struct WaitsReport {
    /// Which waits these are.
    pub of: WaitsOf,
    /// Seconds of all.
    pub seconds: f64,
    /// How many there were.
    pub waits: u64,
    /// What was waited for longest.
    pub rows: Vec<WaitedObject>,
    /// Number of objects that are not listed.
    pub not_listed: u64,
    /// One line about waits for work; `None`: no thread waited for work.
    pub work: Option<String>,
    /// The stacks that waited. A caller comes before its callees. The first is the program.
    pub nodes: Vec<WaitNode>,
    /// Number of small branches that were left out.
    pub left_out: usize,
}

/// A lock, or whatever else was waited for.
#[derive(Clone, Debug, Serialize)]
pub struct WaitedObject {
    /// Seconds.
    pub seconds: f64,
    /// Share of all these waits, 0 to 1.
    pub share: f64,
    /// Waits.
    pub waits: u64,
    /// What it is.
    pub what: String,
    /// The function that waited longest, and how many others there are.
    pub waited_in: String,
    /// The function that held the lock longest meanwhile, or that ended most of the waiting, and how many others there
    /// are; `-`: it is not known.
    pub by: String,
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
pub fn create(subject: &Subject, of: WaitsOf) -> Result<WaitsReport, Failure> {
    let facts = subject.recorded.as_ref().and_then(|recorded| recorded.waits.as_ref());
    let facts = facts.ok_or_else(|| {
        Failure("Waits are known only of recordings by `pct run --wait -- COMMAND`.".to_owned())
    })?;
    let table = match of {
        WaitsOf::Locks => &facts.locks,
        WaitsOf::Work => &facts.work,
    };
    let share = |ns: u64| if table.ns == 0 { 0.0 } else { ns as f64 / table.ns as f64 };
    let rows = table.rows.iter().map(|row| WaitedObject {
        seconds: row.ns as f64 / 1e9,
        share: share(row.ns),
        waits: row.waits,
        what: row.what.clone(),
        waited_in: row.waited_in.clone(),
        by: row.by.clone(),
    });
    Ok(WaitsReport {
        of,
        seconds: table.ns as f64 / 1e9,
        waits: table.waits,
        rows: rows.collect(),
        not_listed: table.rows_beyond,
        work: facts.work_in_words.clone(),
        nodes: nodes(subject, table),
        left_out: table.stacks_left_out,
    })
}

/// The stacks below a node for the program; none, if nothing was waited for.
fn nodes(subject: &Subject, waits: &WaitTable) -> Vec<WaitNode> {
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
