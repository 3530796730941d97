//! Opening and closing traces.

use std::path::Path;
use std::sync::Arc;

use super::{CommandError, Engine, OpenError, Opener};
use crate::attribute::{Attribute, AttributeValue};
use crate::call::EndReason;
use crate::diagnostic::{Diagnostic, DiagnosticKind};
use crate::identity::TraceIdentity;
use crate::ids::TraceId;
use crate::source::Source;
use crate::trace::Trace;
use crate::turn::Env;

impl Engine {
    /// Adds a format to the engine. Openers are tried in the order in which they were added.
    pub fn add_opener(&mut self, opener: Opener) {
        self.openers.push(opener);
    }

    /// Opens a trace, or returns another handle to the open instance if it is open under any of its names.
    ///
    /// # Errors
    /// The path cannot be resolved, has no known format, or is unreadable.
    pub fn open(&mut self, path: &Path) -> Result<TraceId, OpenError> {
        let identity = TraceIdentity::of_path(path)
            .map_err(|error| OpenError::Path { path: path.to_path_buf(), error })?;
        if let Some(id) = self.find(&identity) {
            return Ok(self.retain(id));
        }
        for opener in &self.openers {
            if let Some(source) = opener(identity.path())? {
                return Ok(self.open_source(source));
            }
        }
        Err(OpenError::UnknownFormat(path.to_path_buf()))
    }

    /// Adds an open source, or returns another handle to the open instance of the same identity.
    pub fn open_source(&mut self, source: Arc<dyn Source>) -> TraceId {
        if let Some(id) = self.find(source.identity()) {
            return self.retain(id);
        }
        let id = TraceId(self.id());
        for warning in source.warnings() {
            let kind = DiagnosticKind::Source(warning);
            self.diagnostics.push(Diagnostic { trace: Some(id), tracefile: None, kind });
        }
        let name = source.identity().path().display().to_string();
        let mut entry = Attribute::new();
        entry.set("path", AttributeValue::String(name));
        if let Some(traces) = self.attributes.find_subdir("traces") {
            traces.set(id.0, AttributeValue::Tree(entry));
        }
        self.traces.insert(id, Trace::new(id, source));
        self.retain(id)
    }

    pub(super) fn retain(&mut self, id: TraceId) -> TraceId {
        if let Some(trace) = self.traces.get_mut(&id) {
            trace.handles += 1;
        }
        id
    }

    /// The open instance of an identity.
    pub fn find(&self, identity: &TraceIdentity) -> Option<TraceId> {
        self.traces.values().find(|trace| trace.source.identity().is_same(identity)).map(|trace| trace.id)
    }

    /// Returns one handle. The trace closes when no handle and no traceset refers to it any more.
    ///
    /// # Errors
    /// There is no such trace, or it has no open handle.
    pub fn close(&mut self, id: TraceId) -> Result<(), CommandError> {
        let trace = self.traces.get_mut(&id).ok_or(CommandError::NoTrace)?;
        trace.handles = trace.handles.checked_sub(1).ok_or(CommandError::NoTrace)?;
        self.close_if_unused(id);
        Ok(())
    }

    pub(super) fn close_if_unused(&mut self, id: TraceId) {
        if self.traces.get(&id).is_none_or(|trace| trace.references() > 0) {
            return;
        }
        if let Some(mut trace) = self.traces.remove(&id) {
            self.retired.0 += trace.background.events_read;
            trace.end_background(&self.modules, &EndReason::TraceClosed, &mut env!(self, None));
            if let Some(traces) = self.attributes.find_subdir("traces") {
                traces.remove(id.0);
            }
        }
    }

    /// An open trace.
    pub fn trace(&self, id: TraceId) -> Option<&Trace> {
        self.traces.get(&id)
    }

    /// The open traces.
    pub fn traces(&self) -> impl Iterator<Item = &Trace> {
        self.traces.values()
    }
}
