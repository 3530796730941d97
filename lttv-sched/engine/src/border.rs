//! The borders of a chunk: which hooks are called around it, in which order, and how event hooks are added to the
//! context and removed from it. Foreground requests and background modules share this.

use crate::call::{
    BorderCall, BorderHooks, Cause, Commands, EndReason, EventHooks, EventHooksById, EventHooksByName,
    EventsRequest, Moment,
};
use crate::context::TracesetContext;
use crate::data::{Statuses, TraceData};
use crate::hooks::{Called, HookKey, PriorityMismatch};
use crate::ids::{OwnerId, RequestId};
use crate::module::ModuleHooks;
use crate::registered::{Registered, SlotHooks};
use crate::source::{EventId, TracefileInfo};

/// What border hooks of one request or module receive, apart from the moment.
pub(crate) struct Borders<'a> {
    pub(crate) traces: &'a dyn Statuses,
    pub(crate) commands: &'a mut Commands,
    pub(crate) own: Option<&'a mut TraceData>,
    pub(crate) request: Option<RequestId>,
    pub(crate) owner: Option<OwnerId>,
    pub(crate) delivered: u64,
    pub(crate) reason: Option<&'a EndReason>,
    pub(crate) cause: Option<Cause>,
}

/// A trace, or one of its tracefiles.
type TracePart = (Option<usize>, Option<usize>);

impl<'a> Borders<'a> {
    pub(crate) fn new(
        traces: &'a dyn Statuses,
        commands: &'a mut Commands,
        own: Option<&'a mut TraceData>,
    ) -> Borders<'a> {
        Borders { traces, commands, own, request: None, owner: None, delivered: 0, reason: None, cause: None }
    }

    pub(crate) fn call(
        &mut self,
        moment: Moment,
        hooks: &BorderHooks,
        context: Option<&TracesetContext>,
        place: TracePart,
    ) -> Called {
        if hooks.is_empty() {
            return Called::default();
        }
        hooks.call(|hook| {
            hook(&mut BorderCall {
                moment,
                request: self.request,
                owner: self.owner,
                trace: place.0,
                tracefile: place.1,
                delivered: self.delivered,
                reason: self.reason,
                cause: self.cause,
                context,
                own: self.own.as_deref_mut(),
                traces: self.traces,
                commands: self.commands,
            })
        })
    }

    /// Calls hooks that belong to no trace. Returns the first failure, if any.
    pub(crate) fn call_plain(
        &mut self,
        moment: Moment,
        hooks: &BorderHooks,
        context: Option<&TracesetContext>,
    ) -> Option<String> {
        first_failure(&self.call(moment, hooks, context, (None, None)))
    }
}

pub(crate) fn first_failure(called: &Called) -> Option<String> {
    called.failures.first().map(|(_, why)| why.to_string())
}

/// The hook lists of a request or module that matter to a chunk. There are three border lists at each border: for
/// the traceset, for each trace, and for each tracefile.
pub(crate) struct ChunkHooks<'a> {
    before: [&'a BorderHooks; 3],
    after: [&'a BorderHooks; 3],
    event: &'a EventHooks,
    event_by_id: &'a EventHooksById,
    event_by_name: &'a EventHooksByName,
    /// Index of the only trace that it concerns.
    pub(crate) only: Option<usize>,
}

impl<'a> ChunkHooks<'a> {
    pub(crate) fn of_request(request: &'a EventsRequest, only: Option<usize>) -> ChunkHooks<'a> {
        let r = request;
        ChunkHooks {
            before: [&r.before_chunk_traceset, &r.before_chunk_trace, &r.before_chunk_tracefile],
            after: [&r.after_chunk_traceset, &r.after_chunk_trace, &r.after_chunk_tracefile],
            event: &r.event,
            event_by_id: &r.event_by_id,
            event_by_name: &r.event_by_name,
            only,
        }
    }

    pub(crate) fn of_module(hooks: &'a ModuleHooks) -> ChunkHooks<'a> {
        let m = hooks;
        ChunkHooks {
            before: [&m.before_chunk_traceset, &m.before_chunk_trace, &m.before_chunk_tracefile],
            after: [&m.after_chunk_traceset, &m.after_chunk_trace, &m.after_chunk_tracefile],
            event: &m.event,
            event_by_id: &m.event_by_id,
            event_by_name: &m.event_by_name,
            only: None,
        }
    }

    /// Whether an event hook with this key is among them.
    pub(crate) fn contains(&self, key: HookKey) -> bool {
        self.event.contains(key)
            || self.event_by_id.iter().any(|(_, _, list)| list.contains(key))
            || self.event_by_name.iter().any(|(_, list)| list.contains(key))
    }

    /// The lists for chosen events of a tracefile: those by id, then those by name.
    fn chosen(&self, hooks: &mut SlotHooks, info: &TracefileInfo) -> Vec<(EventId, &'a EventHooks)> {
        let by_id = self.event_by_id.of_channel(&info.channel).into_iter().flatten();
        let mut lists: Vec<(EventId, &EventHooks)> = by_id.map(|(id, list)| (*id, list)).collect();
        for (name, list) in self.event_by_name.iter() {
            lists.extend(hooks.ids_of(name, info).iter().map(|id| (*id, list)));
        }
        lists
    }

    fn traces(&self, context: &TracesetContext) -> std::ops::Range<usize> {
        match self.only {
            Some(only) => only..(only + 1).min(context.traces.len()).max(only),
            None => 0..context.traces.len(),
        }
    }

    /// Whether the event hooks can be added to those of the context.
    pub(crate) fn check(
        &self,
        context: &TracesetContext,
        registered: &mut Registered,
    ) -> Result<(), PriorityMismatch> {
        for index in self.traces(context).flat_map(|trace| context.traces[trace].slots()) {
            let hooks = registered.slot_mut(index);
            hooks.event.accepts(self.event)?;
            let lists = self.chosen(hooks, &context.slots[index].of.info);
            for (at, (id, list)) in lists.iter().enumerate() {
                let there = hooks.event_by_id.get(id);
                let before = lists[..at].iter().filter(|(other, _)| other == id).map(|(_, list)| *list);
                there.into_iter().chain(before).try_for_each(|other| other.accepts(list))?;
            }
        }
        Ok(())
    }

    /// Calls the before-hooks, outermost first, and adds the event hooks to those of the context. Call
    /// [`ChunkHooks::check`] first. Returns the first failure. In any case all hooks were called and all event hooks
    /// are registered.
    pub(crate) fn begin(
        &self,
        context: &TracesetContext,
        registered: &mut Registered,
        borders: &mut Borders<'_>,
    ) -> Option<String> {
        let [of_traceset, of_trace, of_tracefile] = self.before;
        let mut failure = borders.call_plain(Moment::BeforeChunkTraceset, of_traceset, Some(context));
        for trace in self.traces(context) {
            let called = borders.call(Moment::BeforeChunkTrace, of_trace, Some(context), (Some(trace), None));
            failure = failure.or_else(|| first_failure(&called));
            for slot in context.traces[trace].slots() {
                let of = &context.slots[slot].of;
                let place = (Some(trace), Some(of.tracefile));
                let called = borders.call(Moment::BeforeChunkTracefile, of_tracefile, Some(context), place);
                failure = failure.or_else(|| first_failure(&called));
                let hooks = registered.slot_mut(slot);
                let mut added = hooks.event.add_list(self.event);
                for (id, list) in self.chosen(hooks, &of.info) {
                    added = added.and(hooks.event_by_id.entry(id).or_default().add_list(list));
                }
                debug_assert!(added.is_ok(), "checked before");
            }
        }
        failure
    }

    /// Removes the event hooks and calls the after-hooks, innermost first. Returns the first failure; all hooks were
    /// called.
    pub(crate) fn end(
        &self,
        context: &TracesetContext,
        registered: &mut Registered,
        borders: &mut Borders<'_>,
    ) -> Option<String> {
        let [of_traceset, of_trace, of_tracefile] = self.after;
        let mut failure = None;
        for trace in self.traces(context) {
            for slot in context.traces[trace].slots() {
                let of = &context.slots[slot].of;
                let place = (Some(trace), Some(of.tracefile));
                let hooks = registered.slot_mut(slot);
                for (id, list) in self.chosen(hooks, &of.info) {
                    if let Some(there) = hooks.event_by_id.get_mut(&id) {
                        there.remove_list(list);
                        if there.is_empty() {
                            hooks.event_by_id.remove(&id);
                        }
                    }
                }
                hooks.event.remove_list(self.event);
                let called = borders.call(Moment::AfterChunkTracefile, of_tracefile, Some(context), place);
                failure = failure.or_else(|| first_failure(&called));
            }
            let called = borders.call(Moment::AfterChunkTrace, of_trace, Some(context), (Some(trace), None));
            failure = failure.or_else(|| first_failure(&called));
        }
        let outermost = borders.call_plain(Moment::AfterChunkTraceset, of_traceset, Some(context));
        failure.or(outermost)
    }
}
