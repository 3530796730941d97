//! Background modules, which compute data over whole traces.
//!
//! A module has a name. For each pass over a trace it provides the hooks that do its work. Modules that it needs are
//! added to the same pass, each once. If a module has a state model, states are saved during its pass.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use crate::call::{BorderHooks, EventHooks, EventHooksById, EventHooksByName};
use crate::data::TraceData;
use crate::source::Source;
use crate::state::StateModel;

/// The hooks of a module for one pass over one trace.
#[derive(Clone, Default)]
pub struct ModuleHooks {
    /// Called once when the pass begins, flags set.
    pub before_request: BorderHooks,
    /// Called after that, each distinct hook once in the pass: creates what the module's other hooks need.
    pub hook_adder: BorderHooks,
    /// Called for each chunk.
    pub before_chunk_traceset: BorderHooks,
    /// Called for each chunk.
    pub before_chunk_trace: BorderHooks,
    /// Called for each chunk and tracefile.
    pub before_chunk_tracefile: BorderHooks,
    /// Called for every event.
    pub event: EventHooks,
    /// Called for chosen events.
    pub event_by_id: EventHooksById,
    /// Called for the events of chosen names.
    pub event_by_name: EventHooksByName,
    /// Called for each chunk and tracefile.
    pub after_chunk_tracefile: BorderHooks,
    /// Called for each chunk.
    pub after_chunk_trace: BorderHooks,
    /// Called for each chunk.
    pub after_chunk_traceset: BorderHooks,
    /// Called once when the pass ends or the module leaves it, before flags change. Publish a result here if the call's
    /// reason is [`crate::call::EndReason::Completed`].
    pub hook_remover: BorderHooks,
    /// Called once at the end, flags changed.
    pub after_request: BorderHooks,
}

/// Computes data over whole traces.
pub trait Module: Send + Sync {
    /// Its name, also used in paths of attributes: a word without `/`.
    fn name(&self) -> &str;

    /// Modules whose hooks and models must be in the same pass.
    fn prerequisites(&self) -> &[&str] {
        &[]
    }

    /// Its state model for a trace, if it has one. All models of a module for one trace are of one kind.
    fn model(&self, _source: &Arc<dyn Source>) -> Option<Box<dyn StateModel>> {
        None
    }

    /// Its hooks for a pass over a trace. Called for each pass.
    fn hooks(&self, source: &Arc<dyn Source>) -> ModuleHooks;

    /// Called when the module gets its first user, after the modules that it needs.
    fn init(&self) {}

    /// Called when the last user has released it, before the modules that it needs.
    fn destroy(&self) {}

    /// Drops what the module has added to the data of a trace. The engine drops saved states and what is published
    /// under the module's own name.
    fn clear(&self, _data: &mut TraceData) {}
}

/// Why a module was not registered or required.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ModuleError {
    /// The name is taken.
    #[error("module {0} is registered already")]
    NameTaken(String),
    /// The name is empty or has a `/`.
    #[error("{0:?} cannot be the name of a module")]
    BadName(String),
    /// Nothing is registered under this name.
    #[error("no module {0}")]
    Unknown(String),
    /// A module needs itself, directly or through others.
    #[error("module {0} needs itself")]
    Cycle(String),
    /// The module is not in use.
    #[error("module {0} is not required by anybody")]
    NotRequired(String),
    /// It panicked in a call.
    #[error("module {0} failed: {1}")]
    Failed(String, String),
}

/// Calls a module outside of hooks. If it panics, the module has failed and nobody else: unfinished state stays
/// within the module.
pub(crate) fn guarded<R>(what: &str, work: impl FnOnce() -> R) -> Result<R, String> {
    catch_unwind(AssertUnwindSafe(work))
        .map_err(|panic| format!("{what}: {}", crate::hooks::panic_text(panic.as_ref())))
}

struct Registered {
    module: Arc<dyn Module>,
    uses: usize,
}

/// The modules by name.
#[derive(Default)]
pub(crate) struct ModuleTable {
    modules: BTreeMap<Arc<str>, Registered>,
}

impl ModuleTable {
    pub(crate) fn register(&mut self, module: Arc<dyn Module>) -> Result<(), ModuleError> {
        let name: Arc<str> = module.name().into();
        if name.is_empty() || name.contains('/') {
            return Err(ModuleError::BadName(name.to_string()));
        }
        if self.modules.contains_key(&name) {
            return Err(ModuleError::NameTaken(name.to_string()));
        }
        self.modules.insert(name, Registered { module, uses: 0 });
        Ok(())
    }

    pub(crate) fn unregister(&mut self, name: &str) -> Result<Arc<dyn Module>, ModuleError> {
        let registered = self.modules.remove(name);
        registered.map(|entry| entry.module).ok_or_else(|| ModuleError::Unknown(name.into()))
    }

    pub(crate) fn get(&self, name: &str) -> Option<(&Arc<str>, &Arc<dyn Module>)> {
        self.modules.get_key_value(name).map(|(name, entry)| (name, &entry.module))
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = (&Arc<str>, usize)> {
        self.modules.iter().map(|(name, entry)| (name, entry.uses))
    }

    /// The module and all it needs, each once, with needed ones before those that need them.
    pub(crate) fn with_prerequisites(&self, name: &str) -> Result<Vec<Arc<str>>, ModuleError> {
        let mut order = Vec::new();
        self.visit(name, &mut Vec::new(), &mut order)?;
        Ok(order)
    }

    fn visit(
        &self,
        name: &str,
        path: &mut Vec<String>,
        order: &mut Vec<Arc<str>>,
    ) -> Result<(), ModuleError> {
        let (known, module) = self.get(name).ok_or_else(|| ModuleError::Unknown(name.into()))?;
        if path.iter().any(|on_path| on_path == name) {
            return Err(ModuleError::Cycle(name.into()));
        }
        if order.contains(known) {
            return Ok(());
        }
        path.push(name.into());
        for needed in module.prerequisites() {
            self.visit(needed, path, order)?;
        }
        path.pop();
        order.push(known.clone());
        Ok(())
    }

    /// Counts one more use of the module and of all it needs. Returns those used for the first time, needed ones first.
    pub(crate) fn require(&mut self, name: &str) -> Result<Vec<Arc<str>>, ModuleError> {
        let order = self.with_prerequisites(name)?;
        let mut first = Vec::new();
        for name in order {
            if let Some(entry) = self.modules.get_mut(&name) {
                entry.uses += 1;
                if entry.uses == 1 {
                    first.push(name);
                }
            }
        }
        Ok(first)
    }

    /// Reverts one use of the module and of all it needs. Returns those no longer used, users before what they need.
    pub(crate) fn release(&mut self, name: &str) -> Result<Vec<Arc<str>>, ModuleError> {
        let mut order = self.with_prerequisites(name)?;
        if self.modules.get(name).is_none_or(|entry| entry.uses == 0) {
            return Err(ModuleError::NotRequired(name.into()));
        }
        order.reverse();
        order.retain(|name| {
            self.modules.get_mut(name).is_some_and(|entry| {
                entry.uses = entry.uses.saturating_sub(1);
                entry.uses == 0
            })
        });
        Ok(order)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Named(&'static str, &'static [&'static str]);

    impl Module for Named {
        fn name(&self) -> &str {
            self.0
        }
        fn prerequisites(&self) -> &[&str] {
            self.1
        }
        fn hooks(&self, _: &Arc<dyn Source>) -> ModuleHooks {
            ModuleHooks::default()
        }
    }

    #[test]
    fn prerequisites_come_first_and_once_and_cycles_are_errors() {
        let mut table = ModuleTable::default();
        for module in [
            Named("a", &["b", "c"]),
            Named("b", &["d"]),
            Named("c", &["d"]),
            Named("d", &[]),
            Named("x", &["y"]),
        ] {
            table.register(Arc::new(module)).unwrap();
        }
        let names = |list: Vec<Arc<str>>| list.iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(names(table.require("a").unwrap()), ["d", "b", "c", "a"]);
        assert_eq!(names(table.require("b").unwrap()), [""; 0]);
        assert_eq!(names(table.release("a").unwrap()), ["a", "c"]);
        assert_eq!(names(table.release("b").unwrap()), ["b", "d"]);
        assert_eq!(table.release("b"), Err(ModuleError::NotRequired("b".into())));
        assert_eq!(table.require("x"), Err(ModuleError::Unknown("y".into())));
        table.register(Arc::new(Named("y", &["x"]))).unwrap();
        assert_eq!(table.require("x"), Err(ModuleError::Cycle("x".into())));
        assert_eq!(
            table.register(Arc::new(Named("a", &[]))).unwrap_err(),
            ModuleError::NameTaken("a".into())
        );
        assert!(table.register(Arc::new(Named("a/b", &[]))).is_err());
    }
}
