//! What the engine knows about a trace beyond its source: the status of modules, their results, its attributes.
//!
//! Invariant: a module is never both in progress and ready for a trace; the attributes
//! `computation/<module>/in_progress` and `.../ready` agree with [`TraceData::status`].

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::Arc;

use crate::attribute::{Attribute, AttributeValue};
use crate::ids::TraceId;
use crate::state::SavedStates;

/// Status of a module for a trace.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ModuleStatus {
    /// Not computed.
    #[default]
    Absent,
    /// A pass computes it. What it has published so far is partial.
    InProgress,
    /// Computed over the whole trace.
    Ready,
}

/// What the engine knows about a trace beyond its source.
pub struct TraceData {
    trace: TraceId,
    pub(crate) attributes: Attribute,
    status: BTreeMap<Arc<str>, ModuleStatus>,
    results: BTreeMap<Arc<str>, Arc<dyn Any + Send + Sync>>,
    pub(crate) saved: BTreeMap<Arc<str>, SavedStates>,
}

impl TraceData {
    pub(crate) fn new(trace: TraceId) -> TraceData {
        TraceData {
            trace,
            attributes: Attribute::new(),
            status: BTreeMap::new(),
            results: BTreeMap::new(),
            saved: BTreeMap::new(),
        }
    }

    /// The trace.
    pub fn trace(&self) -> TraceId {
        self.trace
    }

    /// The attribute tree of the trace.
    pub fn attributes(&self) -> &Attribute {
        &self.attributes
    }

    /// The status of a module.
    pub fn status(&self, module: &str) -> ModuleStatus {
        self.status.get(module).copied().unwrap_or_default()
    }

    pub(crate) fn statuses(&self) -> impl Iterator<Item = (&Arc<str>, ModuleStatus)> {
        self.status.iter().map(|(module, status)| (module, *status))
    }

    pub(crate) fn set_status(&mut self, module: &Arc<str>, status: ModuleStatus) {
        let path = |flag: &str| format!("computation/{module}/{flag}");
        self.attributes.remove_by_path(&path("in_progress"));
        self.attributes.remove_by_path(&path("ready"));
        match status {
            ModuleStatus::Absent => drop(self.status.remove(module)),
            ModuleStatus::InProgress | ModuleStatus::Ready => {
                self.status.insert(module.clone(), status);
                let flag = if status == ModuleStatus::Ready { "ready" } else { "in_progress" };
                self.attributes.set_by_path(&path(flag), AttributeValue::None);
            }
        }
    }

    /// Publishes a result under a name, usually the module's. Readers see it after the next chunk border.
    pub fn publish<T: Any + Send + Sync>(&mut self, name: &str, result: Arc<T>) {
        self.results.insert(name.into(), result);
    }

    /// The result that was published under a name, if it is of this type. Partial while the module is in progress.
    pub fn result<T: Any + Send + Sync>(&self, name: &str) -> Option<Arc<T>> {
        self.results.get(name)?.clone().downcast().ok()
    }

    /// Removes the result that was published under a name.
    pub fn withdraw(&mut self, name: &str) {
        self.results.remove(name);
    }

    /// The saved states of a module.
    pub fn saved_states(&self, module: &str) -> Option<&SavedStates> {
        self.saved.get(module)
    }

    /// Writes into the attributes up to which time states are saved.
    pub(crate) fn show_saved(&mut self, module: &Arc<str>) {
        let Some(saved) = self.saved.get(module) else {
            self.attributes.remove_by_path(&format!("{module}/saved_states_time"));
            self.attributes.remove_by_path(&format!("{module}/saved_states_count"));
            return;
        };
        let count = AttributeValue::Ulong(saved.states().len() as u64);
        let time = saved.time();
        self.attributes.set_by_path(&format!("{module}/saved_states_count"), count);
        if let Some(time) = time {
            self.attributes.set_by_path(&format!("{module}/saved_states_time"), AttributeValue::Time(time));
        }
    }
}

impl TraceData {
    /// The attribute tree of the trace.
    pub fn attributes_mut(&mut self) -> &mut Attribute {
        &mut self.attributes
    }
}

/// Gives the status of modules for the open traces.
pub(crate) trait Statuses {
    /// The status of a module for a trace.
    fn status(&self, trace: TraceId, module: &str) -> ModuleStatus;
}
