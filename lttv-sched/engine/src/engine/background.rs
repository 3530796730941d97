//! Background work: requests to compute modules, and notifications when they are ready.

use std::sync::Arc;

use super::{CommandError, Engine, Notified, Outcome};
use crate::background::{BackgroundNotify, BackgroundRequest};
use crate::call::{Cause, EndReason};
use crate::diagnostic::{Diagnostic, DiagnosticKind};
use crate::ids::{OwnerId, TraceId};
use crate::module::{ModuleError, ModuleTable, guarded};
use crate::trace::{ModuleStatus, Trace};
use crate::turn::Env;

impl Engine {
    pub(super) fn modules_failed(&mut self, failed: Vec<(Arc<str>, String)>) {
        self.diagnostics.extend(failed.into_iter().map(|(module, why)| Diagnostic {
            trace: None,
            tracefile: None,
            kind: DiagnosticKind::ModuleFailed { module, why: why.into() },
        }));
    }

    pub(super) fn with_trace<R>(
        &mut self,
        id: TraceId,
        work: impl FnOnce(&mut Trace, &ModuleTable, &mut Env<'_>) -> R,
    ) -> Option<R> {
        let mut trace = self.traces.remove(&id)?;
        let result = work(&mut trace, &self.modules, &mut env!(self, None));
        self.traces.insert(id, trace);
        Some(result)
    }

    /// The status of a module for a trace.
    pub fn status(&self, trace: TraceId, module: &str) -> ModuleStatus {
        self.traces.get(&trace).map(|trace| trace.data.status(module)).unwrap_or_default()
    }

    /// Requests that a module be computed for a trace. It is never computed twice: only `Queued` changes anything.
    ///
    /// # Errors
    /// There is no such trace or module, or a module that it needs is missing.
    pub fn request(
        &mut self,
        trace: TraceId,
        module: &str,
        requester: OwnerId,
    ) -> Result<Outcome, CommandError> {
        let entry = self.traces.get_mut(&trace).ok_or(CommandError::NoTrace)?;
        self.modules.with_prerequisites(module)?;
        let Some((name, implementation)) = self.modules.get(module) else {
            return Err(ModuleError::Unknown(module.into()).into());
        };
        match entry.data.status(module) {
            ModuleStatus::Ready => return Ok(Outcome::AlreadyReady),
            ModuleStatus::InProgress => {
                entry.background.claim(module);
                return Ok(Outcome::InProgress);
            }
            ModuleStatus::Absent => {}
        }
        if entry.background.queued().any(|queued| queued == name) {
            return Ok(Outcome::AlreadyQueued);
        }
        let hooks = guarded("its hooks", || implementation.hooks(&entry.source))
            .map_err(|why| ModuleError::Failed(module.into(), why))?;
        entry.background.queue.push(BackgroundRequest { module: name.clone(), requester, hooks });
        Ok(Outcome::Queued)
    }

    /// Removes a module from the queue or the running pass of a trace. Returns false if it is in neither. Only the
    /// module itself and the engine's owner may call this, not one of many viewers.
    ///
    /// # Errors
    /// There is no such trace.
    pub fn cancel(&mut self, trace: TraceId, module: &str) -> Result<bool, CommandError> {
        self.with_trace(trace, |trace, modules, env| {
            trace.cancel_module(module, modules, &EndReason::Removed, env)
        })
        .ok_or(CommandError::NoTrace)
    }

    fn notify(
        &mut self,
        trace: TraceId,
        mut notify: BackgroundNotify,
        place: fn(&mut Trace, BackgroundNotify) -> Result<(), CommandError>,
    ) -> Result<Notified, CommandError> {
        let entry = self.traces.get_mut(&trace).ok_or(CommandError::NoTrace)?;
        if let Some(position) = &notify.position {
            notify.position = Some(position.of_trace(trace)?);
        }
        if entry.data.status(&notify.module) == ModuleStatus::Ready {
            self.with_trace(trace, |trace, _, env| {
                trace.call_notifications(vec![notify], Cause::Reached, None, env);
            });
            return Ok(Notified::Called);
        }
        place(entry, notify)?;
        Ok(Notified::Waiting)
    }

    /// Attaches a notification to the running pass. If its module is ready, its hook is called at once.
    ///
    /// # Errors
    /// The module is neither in progress nor ready; there is no such trace; the position is of another traceset.
    pub fn notify_current(
        &mut self,
        trace: TraceId,
        notify: BackgroundNotify,
    ) -> Result<Notified, CommandError> {
        self.notify(trace, notify, |trace, notify| {
            if trace.data.status(&notify.module) != ModuleStatus::InProgress {
                return Err(CommandError::NoPass(notify.module.to_string()));
            }
            trace.background.notify_current(notify);
            Ok(())
        })
    }

    /// Attaches a notification to the next pass. If its module is ready, its hook is called at once.
    ///
    /// # Errors
    /// The module does not wait for a pass; there is no such trace; the position is of another traceset.
    pub fn notify_queue(
        &mut self,
        trace: TraceId,
        notify: BackgroundNotify,
    ) -> Result<Notified, CommandError> {
        self.notify(trace, notify, |trace, notify| {
            if !trace.background.queued().any(|queued| *queued == notify.module) {
                return Err(CommandError::NoPass(notify.module.to_string()));
            }
            trace.background.notify_queue.push(notify);
            Ok(())
        })
    }

    /// In one step: calls the notification's hook if the module is ready, otherwise attaches it to the pass that
    /// computes or will compute the module, and requests the module if nobody has.
    ///
    /// # Errors
    /// As [`Engine::request`]; the position is of another traceset.
    pub fn request_and_notify(
        &mut self,
        trace: TraceId,
        notify: BackgroundNotify,
    ) -> Result<Outcome, CommandError> {
        if let Some(position) = &notify.position {
            position.of_trace(trace)?;
        }
        let module = notify.module.clone();
        let outcome = self.request(trace, &module, notify.owner)?;
        match outcome {
            Outcome::AlreadyReady | Outcome::InProgress => self.notify_current(trace, notify)?,
            Outcome::AlreadyQueued | Outcome::Queued => self.notify_queue(trace, notify)?,
        };
        Ok(outcome)
    }

    /// Removes all notifications of an owner and returns their number. Nothing is called.
    pub fn notify_remove(&mut self, owner: OwnerId) -> usize {
        self.traces.values_mut().map(|trace| trace.background.remove_notifications(owner)).sum()
    }
}
