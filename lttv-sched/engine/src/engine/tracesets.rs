//! Tracesets: which traces are read together, and with which state models.

use std::sync::Arc;

use super::{CommandError, Engine};
use crate::attribute::Attribute;
use crate::call::EndReason;
use crate::context::TracesetContext;
use crate::diagnostic::{Diagnostic, DiagnosticKind};
use crate::foreground::Traceset;
use crate::ids::{TraceId, TracesetId};
use crate::module::{ModuleError, guarded};
use crate::position::Position;
use crate::source::Source;
use crate::time::Time;
use crate::turn::Env;

impl Engine {
    /// An empty traceset.
    pub fn traceset_new(&mut self) -> TracesetId {
        let id = TracesetId(self.id());
        self.tracesets.insert(id, Traceset::new(id));
        id
    }

    /// A traceset.
    pub fn traceset(&self, id: TracesetId) -> Option<&Traceset> {
        self.tracesets.get(&id)
    }

    /// Tracesets with requests. These are the ones whose scheduler is registered.
    pub fn registered(&self) -> impl Iterator<Item = TracesetId> {
        self.tracesets.values().filter(|traceset| traceset.pending() > 0).map(|traceset| traceset.id)
    }

    /// Attributes of a traceset, for changing them.
    pub fn traceset_attributes(&mut self, id: TracesetId) -> Option<&mut Attribute> {
        self.tracesets.get_mut(&id).map(|traceset| &mut traceset.attributes)
    }

    /// Appends a trace to a traceset. Returns false if it is in it already. Invalidates positions of the traceset.
    ///
    /// # Errors
    /// There is no such trace or traceset.
    pub fn traceset_add(&mut self, id: TracesetId, trace: TraceId) -> Result<bool, CommandError> {
        let traceset = self.tracesets.get(&id).ok_or(CommandError::NoTraceset)?;
        let added = self.traces.get_mut(&trace).ok_or(CommandError::NoTrace)?;
        if traceset.context.traces.iter().any(|context| context.id == trace) {
            return Ok(false);
        }
        added.tracesets += 1;
        let mut list: Vec<TraceId> = traceset.context.traces.iter().map(|context| context.id).collect();
        list.push(trace);
        self.rebuild(id, &list);
        Ok(true)
    }

    /// Removes a trace from a traceset. Returns false if it is not in it. Invalidates positions of the traceset.
    /// Other tracesets and background work are not affected, unless this was the last reference to the trace.
    ///
    /// # Errors
    /// There is no such traceset.
    pub fn traceset_remove(&mut self, id: TracesetId, trace: TraceId) -> Result<bool, CommandError> {
        let traceset = self.tracesets.get(&id).ok_or(CommandError::NoTraceset)?;
        let mut list: Vec<TraceId> = traceset.context.traces.iter().map(|context| context.id).collect();
        let before = list.len();
        list.retain(|other| *other != trace);
        if list.len() == before {
            return Ok(false);
        }
        self.rebuild(id, &list);
        self.unref(trace);
        Ok(true)
    }

    pub(super) fn unref(&mut self, trace: TraceId) {
        if let Some(entry) = self.traces.get_mut(&trace) {
            entry.tracesets = entry.tracesets.saturating_sub(1);
        }
        self.close_if_unused(trace);
    }

    pub(super) fn rebuild(&mut self, id: TracesetId, list: &[TraceId]) {
        let Some(mut traceset) = self.tracesets.remove(&id) else { return };
        let sources: Vec<(TraceId, Arc<dyn Source>)> =
            list.iter().filter_map(|id| Some((*id, self.traces.get(id)?.source.clone()))).collect();
        traceset.rebuild(&sources, &mut env!(self, None));
        for module in traceset.state_modules.clone() {
            self.add_models(&mut traceset.context, &module);
        }
        self.tracesets.insert(id, traceset);
    }

    pub(super) fn add_models(&self, context: &mut TracesetContext, module: &Arc<str>) -> bool {
        let Some((_, implementation)) = self.modules.get(module) else { return false };
        let mut any = false;
        for trace in 0..context.traces.len() {
            match guarded("its model", || implementation.model(&context.traces[trace].source)) {
                Ok(Some(model)) => {
                    context.add_model(trace, module, model);
                    any = true;
                }
                Ok(None) => {}
                Err(why) => {
                    let kind = DiagnosticKind::ModuleFailed { module: module.clone(), why: why.into() };
                    let trace = Some(context.traces[trace].id);
                    context.diagnostics.push(Diagnostic { trace, tracefile: None, kind });
                }
            }
        }
        any
    }

    /// From now on keeps the state model of a module up to date in a traceset, so that hooks can read it. If the
    /// module has computed the trace, seeks restore saved states; otherwise the state is flagged partial.
    ///
    /// # Errors
    /// There is no such traceset or module, or it has no model for any of the traces.
    pub fn traceset_use_state(&mut self, id: TracesetId, module: &str) -> Result<(), CommandError> {
        let (name, _) = self.modules.get(module).ok_or_else(|| ModuleError::Unknown(module.into()))?;
        let name = name.clone();
        let mut traceset = self.tracesets.remove(&id).ok_or(CommandError::NoTraceset)?;
        let known = traceset.state_modules.contains(&name);
        let any =
            known || self.add_models(&mut traceset.context, &name) || traceset.context.traces.is_empty();
        if any && !known {
            traceset.state_modules.push(name);
        }
        self.tracesets.insert(id, traceset);
        if any { Ok(()) } else { Err(CommandError::NoModel(module.into())) }
    }

    /// Closes a traceset. Its requests end, and its traces lose a reference.
    ///
    /// # Errors
    /// There is no such traceset.
    pub fn traceset_close(&mut self, id: TracesetId) -> Result<(), CommandError> {
        let mut traceset = self.tracesets.remove(&id).ok_or(CommandError::NoTraceset)?;
        traceset.end_where(|_| true, &EndReason::TraceClosed, &mut env!(self, None));
        let counters = traceset.context.counters;
        self.retired.0 += counters.events_read;
        self.retired.1 += counters.events_replayed;
        self.retired.2 += counters.seeks;
        let traces: Vec<TraceId> = traceset.context.traces.iter().map(|trace| trace.id).collect();
        traces.into_iter().for_each(|trace| self.unref(trace));
        Ok(())
    }

    /// The position of the first event with time >= t.
    ///
    /// # Errors
    /// There is no such traceset.
    pub fn position_at(&mut self, id: TracesetId, t: Time) -> Result<Position, CommandError> {
        let traceset = self.tracesets.get_mut(&id).ok_or(CommandError::NoTraceset)?;
        if traceset.context.is_at_time(t) {
            return Ok(traceset.context.position());
        }
        traceset.context.seek_time(t);
        let position = traceset.context.position();
        // The models were not updated.
        traceset.context.placed = false;
        Ok(position)
    }
}
