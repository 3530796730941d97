//! An open trace: its source, the results of modules, and the requests that wait.
//!
//! Results belong to the trace, so a trace that is open in two tabs is computed once and both are notified.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::background::Background;
use crate::data::Statuses;
use crate::ids::TraceId;
use crate::source::Source;

pub use crate::data::{ModuleStatus, TraceData};

/// An open trace.
pub struct Trace {
    pub(crate) id: TraceId,
    pub(crate) source: Arc<dyn Source>,
    /// Number of open handles.
    pub(crate) handles: usize,
    /// Tracesets that contain it.
    pub(crate) tracesets: usize,
    pub(crate) data: TraceData,
    pub(crate) background: Background,
}

impl Trace {
    pub(crate) fn new(id: TraceId, source: Arc<dyn Source>) -> Trace {
        let data = TraceData::new(id);
        Trace { id, source, handles: 0, tracesets: 0, data, background: Background::default() }
    }

    /// Its id.
    pub fn id(&self) -> TraceId {
        self.id
    }

    /// Its source.
    pub fn source(&self) -> &Arc<dyn Source> {
        &self.source
    }

    /// What the engine knows about it.
    pub fn data(&self) -> &TraceData {
        &self.data
    }

    /// Handles and tracesets that keep it open.
    pub fn references(&self) -> usize {
        self.handles + self.tracesets
    }

    /// The background work that waits or runs for it.
    pub fn background(&self) -> &Background {
        &self.background
    }
}

impl Statuses for BTreeMap<TraceId, Trace> {
    fn status(&self, trace: TraceId, module: &str) -> ModuleStatus {
        self.get(&trace).map(|trace| trace.data.status(module)).unwrap_or_default()
    }
}
