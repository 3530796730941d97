//! Whose time it was: the functions of a program's own language, each with what worked for it.

use super::common::{ProcDesc, proc_desc};
use crate::analysis::Failure;
use crate::subject::Subject;
use serde::Serialize;

/// The owners of a recording's time.
#[derive(Clone, Debug, Serialize)]
pub struct OwnersReport {
    /// The owners, the one with most time first.
    pub rows: Vec<OwnerRow>,
    /// Number of owners that are not listed.
    pub not_listed: u64,
    /// Seconds of those.
    pub seconds_not_listed: f64,
}

/// An owner.
#[derive(Clone, Debug, Serialize)]
pub struct OwnerRow {
    /// Its name.
    pub name: String,
    /// The function. It is absent in the rows of what a runtime does for itself, such as `[garbage collector]`.
    pub function: Option<ProcDesc>,
    /// CPU seconds that it owns.
    pub seconds: f64,
    /// Share of all CPU time, 0 to 1.
    pub share: f64,
    /// CPU seconds with it on the stack.
    pub total_seconds: f64,
    /// Share of all CPU time, 0 to 1.
    pub total_share: f64,
    /// What it spent in functions that it called, where that is more than a tenth of its time and a hundredth of all.
    /// The one with most time is first.
    pub callees: Vec<CalleeRow>,
}

/// What an owner called.
#[derive(Clone, Debug, Serialize)]
pub struct CalleeRow {
    /// Its name. All functions without names of an object are one, with the object's name.
    pub name: String,
    /// The function. It is absent in the row of all functions of an object that have no names.
    pub function: Option<ProcDesc>,
    /// CPU seconds. They are counted among the owner's.
    pub seconds: f64,
    /// Share of all CPU time, 0 to 1.
    pub share: f64,
}

/// The report.
///
/// # Errors
/// The recording's stacks are unknown: the profile is a file made by an earlier version, or of another program.
pub fn create(subject: &Subject) -> Result<OwnersReport, Failure> {
    let profile = &subject.profile;
    let side = subject.recorded.as_ref().map(|recorded| &recorded.side);
    let side = side.filter(|side| !side.owners.is_empty());
    let side = side.ok_or_else(|| Failure("Whose time it was is known only of recordings.".to_owned()))?;
    let listed: u64 = side.owners.iter().map(|owner| owner.ns).sum();
    let whole = listed.saturating_add(side.owners_beyond.1);
    let seconds = |ns: u64| side.measured.scaled(ns);
    let share = |ns: u64| if whole == 0 { 0.0 } else { ns as f64 / whole as f64 };
    let function = |number: u32| profile.ps_id(i64::from(number)).map(|ps| proc_desc(profile, ps));
    let rows = side.owners.iter().map(|owner| {
        let least = (owner.ns / 10).max(whole / 100);
        let callees = owner.callees.iter().filter(|callee| callee.ns > least);
        OwnerRow {
            name: owner.name.clone(),
            function: function(owner.ps),
            seconds: seconds(owner.ns),
            share: share(owner.ns),
            total_seconds: seconds(owner.total_ns),
            total_share: share(owner.total_ns),
            callees: callees
                .map(|callee| CalleeRow {
                    name: callee.name.clone(),
                    function: function(callee.ps),
                    seconds: seconds(callee.ns),
                    share: share(callee.ns),
                })
                .collect(),
        }
    });
    Ok(OwnersReport {
        rows: rows.collect(),
        not_listed: side.owners_beyond.0,
        seconds_not_listed: seconds(side.owners_beyond.1),
    })
}
