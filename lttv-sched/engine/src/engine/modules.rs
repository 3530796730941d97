//! Modules: which are registered, and which are in use.

use std::sync::Arc;

use super::Engine;
use crate::call::EndReason;
use crate::module::{Module, ModuleError, guarded};

impl Engine {
    /// Registers a module under its name.
    ///
    /// # Errors
    /// The name is in use, or is invalid.
    pub fn register(&mut self, module: Arc<dyn Module>) -> Result<(), ModuleError> {
        self.modules.register(module)
    }

    /// Unregisters a module. Its requests end, and its results are dropped for all traces.
    ///
    /// # Errors
    /// There is no such module.
    pub fn unregister(&mut self, name: &str) -> Result<(), ModuleError> {
        let (known, _) = self.modules.get(name).ok_or_else(|| ModuleError::Unknown(name.into()))?;
        let known = known.clone();
        for id in self.traces.keys().copied().collect::<Vec<_>>() {
            self.with_trace(id, |trace, modules, env| {
                trace.cancel_module(name, modules, &EndReason::Removed, env);
                trace.forget(&known, modules, env);
            });
        }
        for traceset in self.tracesets.values_mut() {
            traceset.state_modules.retain(|module| **module != *name);
            for models in &mut traceset.context.models {
                models.models.retain(|slot| *slot.module != *name);
            }
        }
        self.modules.unregister(name)?;
        Ok(())
    }

    /// Names of the modules and how often each is required.
    pub fn module_names(&self) -> Vec<(String, usize)> {
        self.modules.names().map(|(name, uses)| (name.to_string(), uses)).collect()
    }

    /// Counts one more user of a module and of those it needs, and initialises those that were not in use.
    ///
    /// # Errors
    /// The module or one that it needs is not registered, or they need each other in a circle.
    pub fn require(&mut self, name: &str) -> Result<(), ModuleError> {
        let mut failed = Vec::new();
        for name in self.modules.require(name)? {
            if let Some((_, module)) = self.modules.get(&name)
                && let Err(why) = guarded("its start", || module.init())
            {
                failed.push((name.clone(), why));
            }
        }
        self.modules_failed(failed);
        Ok(())
    }

    /// Reverts one [`Engine::require`], and destroys modules that are no longer in use.
    ///
    /// # Errors
    /// The module is not in use.
    pub fn release(&mut self, name: &str) -> Result<(), ModuleError> {
        let mut failed = Vec::new();
        for name in self.modules.release(name)? {
            if let Some((_, module)) = self.modules.get(&name)
                && let Err(why) = guarded("its end", || module.destroy())
            {
                failed.push((name.clone(), why));
            }
        }
        self.modules_failed(failed);
        Ok(())
    }
}
