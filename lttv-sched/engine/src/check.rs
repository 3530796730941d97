//! Checks the invariants of an engine between turns from outside: for tests, and to find the cause of errors.

use std::collections::BTreeSet;

use crate::attribute::AttributeValue;
use crate::context::TracesetContext;
use crate::engine::Engine;
use crate::registered::Registered;
use crate::trace::{ModuleStatus, Trace};

/// A statement that must be true, and what is true instead.
fn holds(truth: bool, what: impl FnOnce() -> String) -> Result<(), String> {
    if truth { Ok(()) } else { Err(what()) }
}

impl Engine {
    /// Checks what must hold between turns.
    ///
    /// # Errors
    /// The name of the invariant that does not hold, and what was found.
    pub fn check(&self) -> Result<(), String> {
        let mut ids = BTreeSet::new();
        let mut pending = 0;
        for traceset in self.tracesets.values() {
            holds(traceset.list_in.is_empty(), || "I-2: a request is in service between turns".into())?;
            for request in &traceset.list_out {
                pending += 1;
                holds(ids.insert(request.id), || format!("I-1: {:?} is in two places", request.id))?;
                holds(!request.entered, || format!("I-2: hooks of {:?} are in the context", request.id))?;
            }
            context(&traceset.context, &traceset.registered)?;
        }
        let ended = self.ended_total + self.ended.len() as u64;
        holds(self.accepted == pending + ended + self.silent, || {
            format!(
                "I-1: {} accepted, {pending} pending, {ended} ended, {} removed",
                self.accepted, self.silent
            )
        })?;
        let mut identities = Vec::new();
        for open in self.traces.values() {
            trace(open)?;
            holds(open.references() >= 1, || format!("I-10: nobody refers to {:?}", open.id))?;
            let identity = open.source.identity();
            let twice = identities.iter().any(|other| identity.is_same(other));
            holds(!twice, || format!("I-10: {} is open twice", identity.path().display()))?;
            identities.push(identity.clone());
        }
        Ok(())
    }
}

fn context(context: &TracesetContext, registered: &Registered) -> Result<(), String> {
    holds(registered.hook_count() == 0, || "I-2: event hooks are left in a context".into())?;
    if !context.placed {
        return Ok(());
    }
    let times = || (0u32..).zip(&context.slots).filter_map(|(index, slot)| Some((slot.time()?, index)));
    holds(context.merge.len() == times().count(), || {
        format!(
            "I-11: {} entries in the queue, {} tracefiles not exhausted",
            context.merge.len(),
            times().count()
        )
    })?;
    holds(context.merge.least() == times().min(), || "I-11: the least entry is not the least time".into())
}

fn trace(trace: &Trace) -> Result<(), String> {
    let background = trace.background();
    let current: Vec<_> = background.current().collect();
    let mut all: Vec<_> = background.queued().chain(current.iter().copied()).collect();
    let count = all.len();
    all.sort_unstable();
    all.dedup();
    holds(all.len() == count, || format!("I-7: a module is asked for twice: {all:?}"))?;
    for module in &current {
        let status = trace.data.status(module);
        holds(status == ModuleStatus::InProgress, || format!("I-7: {module} is in the pass but {status:?}"))?;
    }
    for (module, status) in trace.data.statuses() {
        let in_pass = current.contains(&module);
        holds((status == ModuleStatus::InProgress) == in_pass, || {
            format!("I-7: {module} is {status:?}, in the pass: {in_pass}")
        })?;
        let flag = |flag: &str| {
            let path = format!("computation/{module}/{flag}");
            trace.data.attributes().get_by_path(&path) == Some(&AttributeValue::None)
        };
        let flags = (flag("in_progress"), flag("ready"));
        let expected = (status == ModuleStatus::InProgress, status == ModuleStatus::Ready);
        holds(flags == expected, || format!("R-A4: {module} is {status:?}, attributes say {flags:?}"))?;
    }
    let (waiting, attached) = background.notifications();
    holds(attached == 0 || !current.is_empty(), || "I-8: a notification is left without a pass".into())?;
    holds(waiting == 0 || background.queued().count() > 0, || {
        "I-8: a notification waits for a pass that nobody asked for".into()
    })?;
    background.pass.as_ref().map_or(Ok(()), |pass| context(&pass.context, &pass.registered))
}
