//! The work of the background scheduler ([`crate::background`]): a pass over a trace, one chunk per turn.

use std::sync::Arc;

use crate::background::{BackgroundRequest, Member, Pass};
use crate::border::{Borders, ChunkHooks, first_failure};
use crate::call::{BackgroundNotify, BorderHooks, Cause, EndReason, Moment};
use crate::chunk::{Dispatch, Limits, Middle, deliver_to_limit};
use crate::context::TracesetContext;
use crate::diagnostic::{Diagnostic, DiagnosticKind};
use crate::ids::OwnerId;
use crate::module::{ModuleHooks, ModuleTable, guarded};
use crate::registered::Registered;
use crate::state::{SavedState, SavedStates};
use crate::time::Time;
use crate::trace::{ModuleStatus, Trace};
use crate::turn::{Env, Turn};

/// How states are saved.
#[derive(Clone, Copy)]
pub(crate) struct Saving {
    pub(crate) interval: u64,
    pub(crate) limit: usize,
}

impl Trace {
    /// One chunk of background work.
    pub(crate) fn background_turn(
        &mut self,
        modules: &ModuleTable,
        saving: Saving,
        env: &mut Env<'_>,
    ) -> Turn {
        if !self.background.has_work() {
            return Turn::Nothing;
        }
        let mut pass = match self.background.pass.take() {
            Some(pass) => Some(pass),
            None => self.begin_pass(modules, saving, env),
        };
        let mut count = 0;
        if let Some(mut running) = pass.take() {
            count = running.chunk(self, env);
            env.diagnostics.append(&mut running.context.diagnostics);
            pass = self.settle(running, modules, env);
        }
        self.background.pass = pass;
        self.background.events_read += count;
        Turn::Served(count)
    }

    /// Step 1: all waiting requests become the pass. None if no module could begin.
    fn begin_pass(&mut self, modules: &ModuleTable, saving: Saving, env: &mut Env<'_>) -> Option<Box<Pass>> {
        let context = TracesetContext::new(None, &[(self.id, self.source.clone())]);
        let mut pass = Box::new(Pass {
            context,
            registered: Registered::default(),
            members: Vec::new(),
            notify: Vec::new(),
            events: 0,
        });
        let mut refused = Vec::new();
        for request in std::mem::take(&mut self.background.queue) {
            match modules.with_prerequisites(&request.module) {
                Ok(order) => self.add_member(&mut pass, modules, request, &order),
                Err(error) => refused.push((request, error.to_string())),
            }
        }
        pass.notify = std::mem::take(&mut self.background.notify_queue);
        for (request, why) in refused {
            self.module_failed(&request.module, &why, env);
            self.tell_end(&request.hooks, request.requester, &EndReason::Failed(why), env);
            self.abort_waiting(&mut pass.notify, &request.module, env);
        }
        self.background.passes += 1;
        for member in pass.members.iter().filter(|member| member.computed) {
            self.data.set_status(&member.module, ModuleStatus::InProgress);
            if pass.context.models[0].models.iter().any(|slot| slot.module == member.module) {
                let saved = SavedStates::new(saving.interval, saving.limit);
                self.data.saved.insert(member.module.clone(), saved);
            }
            self.data.withdraw(&member.module);
            self.data.show_saved(&member.module);
        }
        pass.context.seek_time(Time::MIN);
        for member in &mut pass.members {
            if let Some(owner) = member.requester
                && member.failed.is_none()
            {
                let mut borders = Borders::new(env.traces, env.commands, Some(&mut self.data));
                borders.owner = Some(owner);
                let (hooks, context) = (&member.hooks.before_request, Some(&pass.context));
                member.failed = borders.call_plain(Moment::BeforeRequest, hooks, context);
            }
        }
        let mut adders = BorderHooks::new();
        for member in &mut pass.members {
            if let Err(mismatch) = adders.add_list(&member.hooks.hook_adder) {
                member.failed = Some(mismatch.to_string());
            }
        }
        let mut borders = Borders::new(env.traces, env.commands, Some(&mut self.data));
        let called = borders.call(Moment::HookAdder, &adders, Some(&pass.context), (Some(0), None));
        for (key, why) in &called.failures {
            for member in pass.members.iter_mut().filter(|member| member.hooks.hook_adder.contains(*key)) {
                member.failed = Some(why.to_string());
            }
        }
        self.remove_failed(&mut pass, modules, env);
        self.keep_if_wanted(pass, modules, env)
    }

    fn add_member(
        &self,
        pass: &mut Pass,
        modules: &ModuleTable,
        request: BackgroundRequest,
        order: &[Arc<str>],
    ) {
        for name in order {
            let Some((_, module)) = modules.get(name) else { continue };
            let asked = *name == request.module;
            if let Some(member) = pass.members.iter_mut().find(|member| member.module == *name) {
                if asked {
                    member.requester = Some(request.requester);
                    (member.computed, member.wanted) = (true, true);
                }
                continue;
            }
            let needs = modules.with_prerequisites(name).unwrap_or_default();
            let model = guarded("its model", || module.model(&self.source));
            let hooks = if asked {
                Ok(request.hooks.clone())
            } else {
                guarded("its hooks", || module.hooks(&self.source))
            };
            let failed = model.as_ref().err().or(hooks.as_ref().err()).cloned();
            if let Ok(Some(model)) = model {
                pass.context.add_model(0, name, model);
            }
            pass.members.push(Member {
                module: name.clone(),
                requester: asked.then_some(request.requester),
                computed: asked || self.data.status(name) == ModuleStatus::Absent,
                wanted: asked,
                hooks: hooks.unwrap_or_default(),
                needs: needs.into_iter().filter(|needed| needed != name).collect(),
                entered: false,
                failed,
            });
        }
    }

    /// Steps 3.2 and 3.3: failures, notifications, the end of the pass.
    fn settle(&mut self, mut pass: Box<Pass>, modules: &ModuleTable, env: &mut Env<'_>) -> Option<Box<Pass>> {
        self.remove_failed(&mut pass, modules, env);
        let mut pass = self.keep_if_wanted(pass, modules, env)?;
        let (time, context) = (pass.context.time(), &pass.context);
        if time.is_some() {
            let reached = |notify: &mut BackgroundNotify| {
                notify.time.is_some_and(|t| time.is_some_and(|next| next >= t))
                    || notify.position.as_ref().is_some_and(|p| context.is_at_or_after(p))
            };
            let reached: Vec<_> = pass.notify.extract_if(.., reached).collect();
            self.call_notifications(reached, Cause::Reached, Some(&pass.context), env);
            return Some(pass);
        }
        self.finish_pass(*pass, modules, env);
        None
    }

    /// The end of the trace: results, flags, after_request, notifications, in this order.
    fn finish_pass(&mut self, mut pass: Pass, modules: &ModuleTable, env: &mut Env<'_>) {
        self.call_removers(&mut pass, env);
        let late: Vec<Arc<str>> =
            pass.members.iter().filter(|m| m.failed.is_some()).map(|m| m.module.clone()).collect();
        if !late.is_empty() {
            self.remove_failed(&mut pass, modules, env);
        }
        for member in pass.members.iter().filter(|member| member.computed) {
            if let Some(saved) = self.data.saved.get_mut(&member.module) {
                saved.finish();
            }
            self.data.show_saved(&member.module);
            self.data.set_status(&member.module, ModuleStatus::Ready);
        }
        for member in &pass.members {
            if let Some(owner) = member.requester {
                let mut borders = Borders::new(env.traces, env.commands, Some(&mut self.data));
                borders.owner = Some(owner);
                borders.delivered = pass.events;
                borders.reason = Some(&EndReason::Completed);
                let (hooks, context) = (&member.hooks.after_request, Some(&pass.context));
                borders.call_plain(Moment::AfterRequest, hooks, context);
            }
        }
        let left = std::mem::take(&mut pass.notify);
        self.call_notifications(left, Cause::EndOfPass, Some(&pass.context), env);
    }

    fn call_removers(&mut self, pass: &mut Pass, env: &mut Env<'_>) {
        let mut removers = BorderHooks::new();
        for member in &mut pass.members {
            if let Err(mismatch) = removers.add_list(&member.hooks.hook_remover) {
                member.failed = Some(mismatch.to_string());
            }
        }
        let mut borders = Borders::new(env.traces, env.commands, Some(&mut self.data));
        borders.reason = Some(&EndReason::Completed);
        borders.delivered = pass.events;
        let called = borders.call(Moment::HookRemover, &removers, Some(&pass.context), (Some(0), None));
        for (key, why) in &called.failures {
            for member in pass.members.iter_mut().filter(|member| member.hooks.hook_remover.contains(*key)) {
                member.failed = Some(why.to_string());
            }
        }
        // Each remover is called once, even if the module turns out to have failed.
        pass.members.iter_mut().for_each(|member| member.hooks.hook_remover = BorderHooks::new());
    }

    /// Removes modules that failed, and those that need them, from the pass.
    fn remove_failed(&mut self, pass: &mut Pass, modules: &ModuleTable, env: &mut Env<'_>) {
        for slot in &pass.context.models[0].models {
            if let Some(why) = &slot.failed
                && let Some(member) = pass.members.iter_mut().find(|member| member.module == slot.module)
            {
                member.failed.get_or_insert_with(|| why.to_string());
            }
        }
        while let Some(at) = pass.members.iter().position(|member| member.failed.is_some()) {
            let member = pass.members.remove(at);
            let why = member.failed.clone().unwrap_or_default();
            for other in pass.members.iter_mut().filter(|other| other.needs.contains(&member.module)) {
                other.failed.get_or_insert_with(|| format!("needs {}, which failed: {why}", member.module));
            }
            self.module_failed(&member.module, &why, env);
            self.drop_member(pass, member, modules, &EndReason::Failed(why), env);
        }
    }

    fn module_failed(&mut self, module: &Arc<str>, why: &str, env: &mut Env<'_>) {
        env.diagnostics.push(Diagnostic {
            trace: Some(self.id),
            tracefile: None,
            kind: DiagnosticKind::ModuleFailed { module: module.clone(), why: why.into() },
        });
    }

    /// The remaining work for a module that was removed from the pass: hooks, data, flags, notifications.
    fn drop_member(
        &mut self,
        pass: &mut Pass,
        member: Member,
        modules: &ModuleTable,
        reason: &EndReason,
        env: &mut Env<'_>,
    ) {
        let mut borders = Borders::new(env.traces, env.commands, Some(&mut self.data));
        borders.reason = Some(reason);
        let others: Vec<_> = pass.members.iter().map(|other| &other.hooks.hook_remover).collect();
        let mut own = BorderHooks::new();
        for (hook, _) in member.hooks.hook_remover.iter() {
            // A remover that others share is called when the last of them leaves.
            if !others.iter().any(|list| list.contains(hook.key())) {
                let added = own.add(hook.clone());
                debug_assert!(added.is_ok(), "keys of one list differ");
            }
        }
        borders.call(Moment::HookRemover, &own, Some(&pass.context), (Some(0), None));
        pass.context.models[0].models.retain(|slot| slot.module != member.module);
        self.forget(&member.module, modules, env);
        if let Some(owner) = member.requester {
            self.tell_end(&member.hooks, owner, reason, env);
        }
        self.abort_waiting(&mut pass.notify, &member.module, env);
    }

    /// Drops all that a module has computed.
    pub(crate) fn forget(&mut self, module: &Arc<str>, modules: &ModuleTable, env: &mut Env<'_>) {
        self.data.set_status(module, ModuleStatus::Absent);
        self.data.withdraw(module);
        self.data.saved.remove(module);
        self.data.show_saved(module);
        if let Some((_, implementation)) = modules.get(module) {
            let cleared = guarded("its clearing", || implementation.clear(&mut self.data));
            if let Err(why) = cleared {
                self.module_failed(module, &why, env);
            }
        }
    }

    fn tell_end(&mut self, hooks: &ModuleHooks, owner: OwnerId, reason: &EndReason, env: &mut Env<'_>) {
        let mut borders = Borders::new(env.traces, env.commands, Some(&mut self.data));
        borders.owner = Some(owner);
        borders.reason = Some(reason);
        borders.call_plain(Moment::AfterRequest, &hooks.after_request, None);
    }

    fn abort_waiting(&mut self, notify: &mut Vec<BackgroundNotify>, module: &Arc<str>, env: &mut Env<'_>) {
        let waiting: Vec<_> = notify.extract_if(.., |notify| notify.module == *module).collect();
        self.call_notifications(waiting, Cause::Aborted, None, env);
    }

    pub(crate) fn call_notifications(
        &mut self,
        notify: Vec<BackgroundNotify>,
        cause: Cause,
        context: Option<&TracesetContext>,
        env: &mut Env<'_>,
    ) {
        for notify in notify {
            let mut list = BorderHooks::new();
            if list.add(notify.hook).is_err() {
                continue;
            }
            let mut borders = Borders::new(env.traces, env.commands, Some(&mut self.data));
            borders.owner = Some(notify.owner);
            borders.cause = Some(cause);
            borders.call(Moment::Notify, &list, context, (Some(0), None));
        }
    }

    /// Drops members that nobody requested and nobody needs. Ends a pass that has no request left.
    fn keep_if_wanted(
        &mut self,
        mut pass: Box<Pass>,
        modules: &ModuleTable,
        env: &mut Env<'_>,
    ) -> Option<Box<Pass>> {
        let unneeded = |members: &[Member], at: usize| {
            !members[at].wanted && !members.iter().any(|m| m.wanted && m.needs.contains(&members[at].module))
        };
        while let Some(at) = (0..pass.members.len()).find(|&at| unneeded(&pass.members, at)) {
            let member = pass.members.remove(at);
            if member.computed {
                self.drop_member(&mut pass, member, modules, &EndReason::Removed, env);
                continue;
            }
            // The results of an earlier pass for it stay.
            let mut borders = Borders::new(env.traces, env.commands, Some(&mut self.data));
            borders.reason = Some(&EndReason::Removed);
            let hooks = &member.hooks.hook_remover;
            first_failure(&borders.call(Moment::HookRemover, hooks, Some(&pass.context), (Some(0), None)));
            pass.context.models[0].models.retain(|slot| slot.module != member.module);
        }
        if pass.members.is_empty() {
            let left = std::mem::take(&mut pass.notify);
            self.call_notifications(left, Cause::Aborted, None, env);
            return None;
        }
        Some(pass)
    }

    /// Removes a module from the queue or the pass. Returns false if it is in neither.
    pub(crate) fn cancel_module(
        &mut self,
        module: &str,
        modules: &ModuleTable,
        reason: &EndReason,
        env: &mut Env<'_>,
    ) -> bool {
        if let Some(at) = self.background.queue.iter().position(|request| *request.module == *module) {
            let request = self.background.queue.remove(at);
            self.tell_end(&request.hooks, request.requester, reason, env);
            let mut notify = std::mem::take(&mut self.background.notify_queue);
            self.abort_waiting(&mut notify, &request.module, env);
            if self.background.queue.is_empty() {
                let left = std::mem::take(&mut notify);
                self.call_notifications(left, Cause::Aborted, None, env);
            }
            self.background.notify_queue = notify;
            return true;
        }
        let Some(mut pass) = self.background.pass.take() else { return false };
        let asked = |member: &Member| *member.module == *module && member.computed;
        let Some(at) = pass.members.iter().position(asked) else {
            self.background.pass = Some(pass);
            return false;
        };
        let needed = pass.members.iter().any(|m| m.wanted && m.needs.iter().any(|n| **n == *module));
        if needed {
            // Others still use its hooks and model. The request itself and its data are removed.
            let member = &mut pass.members[at];
            (member.computed, member.wanted) = (false, false);
            let (name, hooks, owner) = (member.module.clone(), member.hooks.clone(), member.requester.take());
            self.forget(&name, modules, env);
            if let Some(owner) = owner {
                self.tell_end(&hooks, owner, reason, env);
            }
            self.abort_waiting(&mut pass.notify, &name, env);
        } else {
            let member = pass.members.remove(at);
            self.drop_member(&mut pass, member, modules, reason, env);
        }
        self.background.pass = self.keep_if_wanted(pass, modules, env);
        true
    }

    /// Ends all background work, as when the trace closes.
    pub(crate) fn end_background(&mut self, modules: &ModuleTable, reason: &EndReason, env: &mut Env<'_>) {
        let current: Vec<Arc<str>> = self.background.current().cloned().collect();
        // Users before what they need, so that each is really removed.
        for module in current.iter().rev() {
            self.cancel_module(module, modules, reason, env);
        }
        let queued: Vec<Arc<str>> = self.background.queued().cloned().collect();
        for module in &queued {
            self.cancel_module(module, modules, reason, env);
        }
        let left = std::mem::take(&mut self.background.notify_queue);
        self.call_notifications(left, Cause::Aborted, None, env);
    }
}

impl Pass {
    /// Steps 1 (hooks), 2 and 3.1: one chunk.
    fn chunk(&mut self, trace: &mut Trace, env: &mut Env<'_>) -> u64 {
        for member in &mut self.members {
            let hooks = ChunkHooks::of_module(&member.hooks);
            if let Err(mismatch) = hooks.check(&self.context, &mut self.registered) {
                member.failed = Some(mismatch.to_string());
                continue;
            }
            let mut borders = Borders::new(env.traces, env.commands, Some(&mut trace.data));
            borders.owner = member.requester;
            borders.delivered = self.events;
            member.entered = true;
            member.failed = hooks.begin(&self.context, &mut self.registered, &mut borders);
        }
        let served = if self.members.iter().any(|member| member.failed.is_some()) {
            Middle::default()
        } else {
            self.serve(trace, env)
        };
        for member in self.members.iter_mut().filter(|member| member.entered) {
            let hooks = ChunkHooks::of_module(&member.hooks);
            let failed = served.failures.iter().find(|(key, _)| hooks.contains(*key));
            let failed = member.failed.take().or(failed.map(|(_, why)| why.to_string()));
            let mut borders = Borders::new(env.traces, env.commands, Some(&mut trace.data));
            borders.owner = member.requester;
            borders.delivered = self.events;
            let at_end = hooks.end(&self.context, &mut self.registered, &mut borders);
            member.entered = false;
            member.failed = failed.or(at_end);
        }
        served.count
    }

    /// Delivers the events of a chunk, in as many pieces as there are states to save.
    fn serve(&mut self, trace: &mut Trace, env: &mut Env<'_>) -> Middle {
        let dispatch = Dispatch::compile(&self.context, Some(&self.registered));
        let mut served = Middle::default();
        self.context.counters.chunks += 1;
        loop {
            self.save_due(trace);
            let due = self.saving(trace).map(|saved| saved.due_in(self.events)).min();
            let left = env.chunk.map(|chunk| chunk - served.count);
            let limits = Limits {
                events: due.into_iter().chain(left).min(),
                attention: Some(env.attention),
                ..Limits::default()
            };
            let piece = deliver_to_limit(&mut self.context, &dispatch, &limits, env.commands);
            self.events += piece.count;
            self.context.counters.events_read += piece.count;
            *env.hook_calls += piece.calls;
            served.count += piece.count;
            served.cut |= piece.cut;
            served.failures.extend(piece.failures);
            let full = env.chunk.is_some_and(|chunk| served.count >= chunk);
            if full || served.cut || piece.count == 0 || self.context.time().is_none() {
                return served;
            }
        }
    }

    /// The saved states to which this pass adds.
    fn saving<'a>(&'a self, trace: &'a Trace) -> impl Iterator<Item = &'a SavedStates> {
        let asked = self.members.iter().filter(|member| member.computed);
        asked.filter_map(|member| trace.data.saved.get(&member.module))
    }

    /// Saves the states that are due before the next event.
    fn save_due(&mut self, trace: &mut Trace) {
        let Some(time) = self.context.time() else { return };
        for member in self.members.iter().filter(|member| member.computed) {
            let Some(saved) = trace.data.saved.get_mut(&member.module) else { continue };
            if saved.due_in(self.events) > 0 {
                continue;
            }
            let entries = self.context.position().entries().into();
            let models = &mut self.context.models[0].models;
            let Some(slot) = models.iter_mut().find(|slot| slot.module == member.module) else { continue };
            let Some(snapshot) = slot.guarded(|model| model.snapshot()) else { continue };
            saved.push(SavedState { event: self.events, time, entries, snapshot });
            trace.data.show_saved(&member.module);
        }
    }
}
