//! The foreground scheduler: serves the ad hoc requests of one traceset at once, with the existing precomputed data.
//!
//! One turn is one chunk. Of the waiting requests, those with the least start join the sweep, and so do all with the
//! same start. Events are delivered up to the nearest bound: an end of a request in the sweep, or the start of one that
//! waits to join it. Then all unfinished requests wait again, from the cursor's position. So each event is read once
//! for all requests that want it, and a turn keeps only the requests and the cursor.
//!
//! Invariants between turns: no hook of a request is in the context; every accepted request waits in
//! `list_out` or has ended; a request was given one run of the merged sequence from its start.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::attribute::Attribute;
use crate::border::{Borders, ChunkHooks};
use crate::call::{EndReason, Moment};
use crate::chunk::{Dispatch, Limits, Middle, deliver_to_limit};
use crate::context::TracesetContext;
use crate::hooks::HookKey;
use crate::ids::{OwnerId, TraceId, TracesetId};
use crate::position::{Position, cmp_next};
use crate::registered::Registered;
use crate::request::{Accepted, Ended, Start};
use crate::seek::{Target, seek};
use crate::source::Source;
use crate::time::Time;
use crate::turn::{Env, Turn};

/// A part of the traceset that an owner was given.
#[derive(Clone, Debug)]
pub struct Interval {
    /// Its first event.
    pub from: Position,
    /// The first event after it.
    pub to: Position,
}

/// Most intervals kept for an owner. The oldest are dropped first.
const MOST_INTERVALS: usize = 1024;

/// A list of traces that are viewed together, with its context and its requests.
pub struct Traceset {
    pub(crate) id: TracesetId,
    pub(crate) attributes: Attribute,
    pub(crate) context: TracesetContext,
    pub(crate) registered: Registered,
    pub(crate) list_out: Vec<Accepted>,
    pub(crate) list_in: Vec<Accepted>,
    pub(crate) state_modules: Vec<Arc<str>>,
    pub(crate) completed: BTreeMap<OwnerId, Vec<Interval>>,
}

impl Traceset {
    pub(crate) fn new(id: TracesetId) -> Traceset {
        Traceset {
            id,
            attributes: Attribute::new(),
            context: TracesetContext::new(Some(id), &[]),
            registered: Registered::default(),
            list_out: Vec::new(),
            list_in: Vec::new(),
            state_modules: Vec::new(),
            completed: BTreeMap::new(),
        }
    }

    /// Its id.
    pub fn id(&self) -> TracesetId {
        self.id
    }

    /// Its reading state.
    pub fn context(&self) -> &TracesetContext {
        &self.context
    }

    /// Attributes of its own.
    pub fn attributes(&self) -> &Attribute {
        &self.attributes
    }

    /// Number of requests that wait or are served.
    pub fn pending(&self) -> usize {
        self.list_out.len() + self.list_in.len()
    }

    /// Whether a turn would do something.
    pub(crate) fn has_work(&self) -> bool {
        self.list_out.iter().any(Accepted::is_open)
    }

    /// Serves one chunk.
    pub(crate) fn turn(&mut self, env: &mut Env<'_>) -> Turn {
        let Some(start) = self.least_start() else { return Turn::Nothing };
        self.go_to(&start, env);
        self.join(&start);
        self.enter(env);
        let middle = self.serve(env);
        self.leave(&middle, env);
        self.context.note_failed_models();
        env.diagnostics.append(&mut self.context.diagnostics);
        Turn::Served(middle.count)
    }

    /// Step 1.1: the least start among the requests of the best class.
    fn least_start(&self) -> Option<Start> {
        let open = || self.list_out.iter().filter(|request| request.is_open());
        let class = open().map(|request| request.spec.class).min()?;
        let (mut time, mut position): (Option<Time>, Option<&Position>) = (None, None);
        for request in open().filter(|request| request.spec.class == class) {
            match &request.start {
                Start::Time(t) => time = Some(time.map_or(*t, |least| least.min(*t))),
                Start::Position(p) => {
                    if position.is_none_or(|least| cmp_next(p.key().as_ref(), least.key().as_ref()).is_lt()) {
                        position = Some(p);
                    }
                }
            }
        }
        match (time, position) {
            (Some(t), Some(p)) if p.time().is_none_or(|of_p| of_p >= t) => Some(Start::Time(t)),
            (_, Some(p)) => Some(Start::Position(p.clone())),
            (time, None) => time.map(Start::Time),
        }
    }

    /// Step 1.2: seeks, unless the cursor is there already.
    fn go_to(&mut self, start: &Start, env: &Env<'_>) {
        let target = match start {
            Start::Time(t) if self.context.is_at_time(*t) => return,
            Start::Time(t) => Target::Time(*t),
            Start::Position(p) if self.context.is_at(p) => return,
            Start::Position(p) => Target::Position(p),
        };
        // Positions were checked when the request was accepted, and become invalid when the traces change.
        let sought = seek(&mut self.context, env.traces, target);
        debug_assert!(sought.is_ok());
    }

    /// Steps 1.1 and 2.1: requests that start at the cursor join, in the order of their submission.
    fn join(&mut self, chosen: &Start) {
        let context = &self.context;
        let here = context.next_key();
        let starts_here = |request: &mut Accepted| {
            request.is_open()
                && match (&request.start, chosen) {
                    (Start::Time(t), Start::Time(chosen)) if t == chosen => true,
                    (Start::Time(t), _) => context.is_at_time(*t),
                    // The chosen one joins even if its file has changed and its position is no longer the same.
                    (Start::Position(p), Start::Position(chosen)) if p.key() == chosen.key() => true,
                    (Start::Position(p), _) => p.key() == here,
                }
        };
        self.list_in.extend(self.list_out.extract_if(.., starts_here));
        self.list_in.sort_by_key(|request| request.id);
    }

    /// Step 1.3: calls before_request hooks not called yet and before-chunk hooks, and adds event hooks.
    fn enter(&mut self, env: &mut Env<'_>) {
        self.context.slots.iter_mut().for_each(|slot| slot.chunk_count = 0);
        for request in &mut self.list_in {
            let mut borders = Borders::new(env.traces, env.commands, None);
            borders.request = Some(request.id);
            borders.owner = Some(request.spec.owner);
            borders.delivered = request.delivered;
            if !request.servicing {
                request.servicing = true;
                request.first = Some(self.context.position());
                request.failed = borders.call_plain(
                    Moment::BeforeRequest,
                    &request.spec.before_request,
                    Some(&self.context),
                );
            }
            let hooks = ChunkHooks::of_request(&request.spec, trace_index(&self.context, request));
            if request.failed.is_none() {
                request.failed = hooks
                    .check(&self.context, &mut self.registered)
                    .err()
                    .map(|mismatch| mismatch.to_string());
            }
            request.entered = request.failed.is_none();
            if request.entered {
                request.failed = hooks.begin(&self.context, &mut self.registered, &mut borders);
            }
        }
    }

    /// Steps 3 and 4: finds the nearest bound, and delivers the events up to it.
    fn serve(&mut self, env: &mut Env<'_>) -> Middle {
        let context = &self.context;
        let next = context.time();
        let waiting = || self.list_out.iter().filter(|request| request.is_open());
        // Starts at or before the cursor are left out. Such requests are served after a seek.
        let starts = waiting().filter_map(|request| match &request.start {
            Start::Time(t) if next.is_some_and(|next| *t > next) => Some(*t),
            _ => None,
        });
        let ends = self.list_in.iter().filter_map(|request| request.spec.end_time);
        let end_time = ends.chain(starts).min();
        let starts = waiting().filter_map(|request| match &request.start {
            Start::Position(p) if !context.is_at_or_after(p) => Some(p),
            _ => None,
        });
        let ends = self.list_in.iter().filter_map(|request| request.spec.end_position.as_ref());
        let end_position =
            ends.chain(starts).min_by(|a, b| cmp_next(a.key().as_ref(), b.key().as_ref())).cloned();
        let counts = self.list_in.iter().filter_map(|request| request.remaining);
        let mut events = counts.chain(env.chunk).min();
        if self.list_in.iter().any(|request| request.failed.is_some() || request.spec.stop_flag.is_set()) {
            // It ends now, before it is given any further event.
            events = Some(0);
        }
        let limits =
            Limits { end_time, events, end_position: end_position.as_ref(), attention: Some(env.attention) };
        let dispatch = Dispatch::compile(context, Some(&self.registered));
        let middle = deliver_to_limit(&mut self.context, &dispatch, &limits, env.commands);
        self.context.counters.events_read += middle.count;
        self.context.counters.chunks += 1;
        *env.hook_calls += middle.calls;
        middle
    }

    /// Steps 5 and B: calls after-chunk hooks. Finished requests end; the others wait from here on.
    fn leave(&mut self, middle: &Middle, env: &mut Env<'_>) {
        let list_in = std::mem::take(&mut self.list_in);
        let here = self.context.position();
        let mut finished = Vec::new();
        for mut request in list_in {
            let trace = trace_index(&self.context, &request);
            let given = self.count_of(trace);
            request.delivered += given.0;
            request.last_delivered = given.1.or(request.last_delivered);
            request.remaining = request.remaining.map(|remaining| remaining.saturating_sub(given.0));
            if request.entered {
                let mut borders = Borders::new(env.traces, env.commands, None);
                borders.request = Some(request.id);
                borders.owner = Some(request.spec.owner);
                borders.delivered = request.delivered;
                let hooks = ChunkHooks::of_request(&request.spec, trace);
                let of_hook = |key: HookKey| hooks.contains(key);
                let failed =
                    middle.failures.iter().find(|(key, _)| of_hook(*key)).map(|(_, why)| why.to_string());
                let failed = request.failed.take().or(failed);
                let at_end = hooks.end(&self.context, &mut self.registered, &mut borders);
                request.failed = failed.or(at_end);
                request.entered = false;
            }
            request.start = Start::Position(here.clone());
            request.resumed = true;
            match self.end_reason(&request) {
                Some(reason) => finished.push((request, reason)),
                None => self.list_out.push(request),
            }
        }
        for (request, reason) in finished {
            self.finish(request, reason, env);
        }
        self.list_out.sort_by_key(|request| request.id);
    }

    /// Number of events of the running chunk in a trace (none: in all), and the order time of the last of them.
    fn count_of(&self, trace: Option<usize>) -> (u64, Option<Time>) {
        let slots = trace.map_or(0..self.context.slots.len(), |trace| self.context.traces[trace].slots());
        let given = self.context.slots[slots].iter().filter(|slot| slot.chunk_count > 0);
        given.fold((0, None), |(count, last), slot| {
            (count + slot.chunk_count, last.max(Some(slot.last_delivered)))
        })
    }

    /// Why a request that waits from the cursor on is finished, if it is. Depends on the request and the
    /// position only, not on how chunks were cut.
    fn end_reason(&self, request: &Accepted) -> Option<EndReason> {
        if let Some(why) = &request.failed {
            return Some(EndReason::Failed(why.clone()));
        }
        if request.spec.stop_flag.is_set() {
            return Some(EndReason::Stopped);
        }
        let at_position = |p: &Position| self.context.is_at_or_after(p);
        if request.remaining == Some(0) || request.spec.end_position.as_ref().is_some_and(at_position) {
            return Some(EndReason::Completed);
        }
        match self.context.time() {
            None => Some(EndReason::EndOfTraceset),
            Some(next) => {
                request.spec.end_time.is_some_and(|end| next >= end).then_some(EndReason::Completed)
            }
        }
    }

    /// Calls the hooks of a request that has ended.
    pub(crate) fn finish(&mut self, request: Accepted, reason: EndReason, env: &mut Env<'_>) {
        if let (Some(from), Start::Position(to)) = (&request.first, &request.start)
            && request.delivered > 0
        {
            self.note_completed(request.spec.owner, from.clone(), to.clone());
        }
        let mut borders = Borders::new(env.traces, env.commands, None);
        borders.request = Some(request.id);
        borders.owner = Some(request.spec.owner);
        borders.delivered = request.delivered;
        borders.reason = Some(&reason);
        // The request has ended, so a failure of its last hook no longer matters.
        borders.call_plain(Moment::AfterRequest, &request.spec.after_request, Some(&self.context));
        env.ended.push(Ended {
            id: request.id,
            owner: request.spec.owner,
            reason,
            delivered: request.delivered,
        });
    }

    fn note_completed(&mut self, owner: OwnerId, from: Position, to: Position) {
        let list = self.completed.entry(owner).or_default();
        match list.iter_mut().find(|interval| interval.to == from) {
            Some(before) => before.to = to,
            None => list.push(Interval { from, to }),
        }
        if list.len() > MOST_INTERVALS {
            list.remove(0);
        }
    }

    /// Ends all requests for which `which` returns true.
    pub(crate) fn end_where(
        &mut self,
        which: impl Fn(&Accepted) -> bool,
        reason: &EndReason,
        env: &mut Env<'_>,
    ) -> usize {
        let ended: Vec<Accepted> = self.list_out.extract_if(.., |request| which(request)).collect();
        let count = ended.len();
        ended.into_iter().for_each(|request| self.finish(request, reason.clone(), env));
        count
    }

    /// Rebuilds the context for a changed list of traces. Requests bounded by positions end. Interrupted requests
    /// go on from their time, unless they were given an event at that very time.
    pub(crate) fn rebuild(&mut self, traces: &[(TraceId, Arc<dyn Source>)], env: &mut Env<'_>) {
        env.diagnostics.append(&mut self.context.diagnostics);
        let counters = self.context.counters;
        self.context = TracesetContext::new(Some(self.id), traces);
        self.registered = Registered::default();
        self.context.counters = counters;
        self.completed.clear();
        let gone: Vec<Accepted> = self
            .list_out
            .extract_if(.., |request| {
                request.trace.is_some_and(|id| !traces.iter().any(|(trace, _)| *trace == id))
            })
            .collect();
        gone.into_iter().for_each(|request| self.finish(request, EndReason::TraceClosed, env));
        let mut lost = Vec::new();
        for mut request in std::mem::take(&mut self.list_out) {
            if restart(&mut request) {
                self.list_out.push(request);
            } else {
                lost.push(request);
            }
        }
        lost.into_iter().for_each(|request| self.finish(request, EndReason::PositionLost, env));
    }
}

/// Turns the start of a request into one that survives a change of traces. Returns false if that is impossible.
fn restart(request: &mut Accepted) -> bool {
    if request.spec.end_position.is_some() {
        return false;
    }
    // What it was given before is not in the new list of traces.
    request.first = None;
    let Start::Position(position) = &request.start else { return true };
    if !request.resumed {
        return false;
    }
    if request.last_delivered.is_none()
        && let Some(start) = request.spec.start_time.filter(|_| request.spec.start_position.is_none())
    {
        request.start = Start::Time(start);
        return true;
    }
    if request.spec.start_position.is_some() && request.last_delivered.is_none() {
        return false;
    }
    match position.time() {
        Some(time) if request.last_delivered.is_none_or(|last| last < time) => {
            request.start = Start::Time(time);
            true
        }
        _ => false,
    }
}

/// Index of the only trace of a request in the context.
fn trace_index(context: &TracesetContext, request: &Accepted) -> Option<usize> {
    let id = request.trace?;
    context.traces.iter().position(|trace| trace.id == id)
}
