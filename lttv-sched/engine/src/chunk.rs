//! The middle of a chunk: delivers events in merge order to the hooks in the context, up to the first limit met.
//!
//! Before the first event, the hook lists of all tracefiles are compiled into flat tables, and every hook function
//! is locked once for the whole chunk. So an event costs one step of its cursor, one replay in the merge queue, and the
//! calls themselves. A tracefile that had the least event twice in a row is likely to have the next one too. Its events
//! are delivered without asking the queue up to the next event of another tracefile, and the cursor alone steps over
//! those that nobody wants. A limit is checked before an event is consumed, never after.
//!
//! A hook that panics is recorded and not called again. The other hooks of the same event are still called, each once.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::MutexGuard;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::call::{Commands, EventCall, EventFn, EventHooks};
use crate::context::{ModelSlot, NO_CODE, TracesetContext};
use crate::hooks::{Flow, Hook, HookKey, PRIORITY_STATE, panic_text};
use crate::position::{Key, Position};
use crate::registered::{Registered, SlotHooks};
use crate::source::{EventId, Passed, Quiet, ReadError};
use crate::time::Time;

/// The latest points at which a chunk ends.
#[derive(Clone, Copy, Default)]
pub(crate) struct Limits<'a> {
    /// Before the first event with time >= this.
    pub(crate) end_time: Option<Time>,
    /// After this many events.
    pub(crate) events: Option<u64>,
    /// Before the next event of this position.
    pub(crate) end_position: Option<&'a Position>,
    /// If another thread sets it, the chunk ends after the current event.
    pub(crate) attention: Option<&'a AtomicBool>,
}

/// The result of a chunk.
#[derive(Default, Debug)]
pub(crate) struct Middle {
    /// Events delivered.
    pub(crate) count: u64,
    /// A hook asked to stop, commands are waiting, or attention was requested.
    pub(crate) cut: bool,
    /// Hooks that failed.
    pub(crate) failures: Vec<(HookKey, Box<str>)>,
    /// Hook calls made.
    pub(crate) calls: u64,
}

#[derive(Clone, Copy)]
enum Call {
    Hook(u32),
    Model { index: u32, code: u32 },
}

/// Part of the flat list of calls.
type Range = (u32, u32);

#[derive(Default)]
struct SlotCalls {
    /// For events without an entry of their own.
    base: Range,
    /// Calls by event id; empty if all events have the same calls.
    by_id: Vec<Range>,
    /// Whether an event id has calls. As long as `by_id`.
    wanted: Vec<bool>,
}

impl SlotCalls {
    #[inline]
    fn calls_for(&self, id: Option<EventId>) -> Range {
        match id.and_then(|id| self.by_id.get(id.index())) {
            Some(range) => *range,
            None => self.base,
        }
    }
}

fn any((begin, end): Range) -> bool {
    begin != end
}

/// Most events that a cursor steps over before the attention flag is checked.
const QUIET_RUN: u64 = 512;

/// The calls of each tracefile, flat.
pub(crate) struct Dispatch {
    hooks: Vec<Hook<EventFn>>,
    calls: Vec<Call>,
    slots: Vec<SlotCalls>,
}

impl Dispatch {
    /// Compiles the hooks registered for a context and the wishes of its models. Without hooks: the models only.
    pub(crate) fn compile(context: &TracesetContext, hooks: Option<&Registered>) -> Dispatch {
        let mut dispatch = Dispatch { hooks: Vec::new(), calls: Vec::new(), slots: Vec::new() };
        for slot in 0..context.slots.len() {
            let of_slot = hooks.and_then(|hooks| hooks.slot(slot));
            let compiled = dispatch.compile_slot(context, slot, of_slot);
            dispatch.slots.push(compiled);
        }
        dispatch
    }

    fn compile_slot(
        &mut self,
        context: &TracesetContext,
        index: usize,
        hooks: Option<&SlotHooks>,
    ) -> SlotCalls {
        let slot = &context.slots[index];
        let models = &context.models[slot.of.trace].models;
        let base = self.list(context, index, None, hooks);
        let by_event = hooks.map(|hooks| &hooks.event_by_id).filter(|by_id| !by_id.is_empty());
        let greatest_hooked =
            by_event.and_then(|by_id| by_id.keys().next_back()).map_or(0, |id| id.index() + 1);
        // Ids come from hooks of this process, but a table of 2^32 entries is never intended.
        let ids = slot.of.info.classes.len().max(greatest_hooked.min(1 << 20));
        let mut by_id = Vec::new();
        if !models.is_empty() || by_event.is_some() {
            for (id, at) in (0..).map(EventId).zip(0..ids) {
                let code = |model: &ModelSlot| {
                    model.codes[slot.of.tracefile].get(at).is_some_and(|&code| code != NO_CODE)
                };
                let special =
                    models.iter().any(code) || by_event.is_some_and(|by_id| by_id.contains_key(&id));
                by_id.push(if special { self.list(context, index, Some(id), hooks) } else { base });
            }
        }
        let wanted = by_id.iter().copied().map(any).collect();
        SlotCalls { base, by_id, wanted }
    }

    /// Appends the calls for one event id of a slot (none: for any other id).
    fn list(
        &mut self,
        context: &TracesetContext,
        index: usize,
        id: Option<EventId>,
        hooks: Option<&SlotHooks>,
    ) -> Range {
        let slot = &context.slots[index];
        let begin = self.next_call();
        let mut models: Vec<Call> = Vec::new();
        for (at, model) in (0u32..).zip(&context.models[slot.of.trace].models) {
            let code =
                id.and_then(|id| model.codes[slot.of.tracefile].get(id.index()).copied()).unwrap_or(NO_CODE);
            if code != NO_CODE && model.failed.is_none() {
                models.push(Call::Model { index: at, code });
            }
        }
        if let Some(hooks) = hooks {
            let none = EventHooks::new();
            let chosen = id.and_then(|id| hooks.event_by_id.get(&id));
            for hook in hooks.event.merged(chosen.unwrap_or(&none)) {
                if hook.priority() >= PRIORITY_STATE {
                    self.calls.append(&mut models);
                }
                let known = self.hooks.iter().position(|other| other.address() == hook.address());
                let at = known.unwrap_or_else(|| {
                    self.hooks.push(hook.clone());
                    self.hooks.len() - 1
                });
                self.calls.push(Call::Hook(u32::try_from(at).expect("fewer than 2^32 hooks")));
            }
        }
        self.calls.append(&mut models);
        (begin, self.next_call())
    }

    /// Index of the next call in the flat list.
    fn next_call(&self) -> u32 {
        u32::try_from(self.calls.len()).expect("fewer than 2^32 calls")
    }
}

/// Delivers events from the context's position to the first limit.
pub(crate) fn deliver_to_limit(
    context: &mut TracesetContext,
    dispatch: &Dispatch,
    limits: &Limits<'_>,
    commands: &mut Commands,
) -> Middle {
    let mut guards: Vec<MutexGuard<'_, EventFn>> = dispatch.hooks.iter().map(Hook::lock).collect();
    let last_time = match limits.end_time {
        None => Time::MAX,
        // No time is before the least one.
        Some(end) if end == Time::MIN => return Middle::default(),
        Some(end) => Time(end.0 - 1),
    };
    let mut run = Run {
        functions: guards.iter_mut().map(|guard| Some(&mut **guard)).collect(),
        context,
        dispatch,
        last_time,
        most: limits.events.unwrap_or(u64::MAX),
        end: limits.end_position.and_then(Position::key),
        attention: limits.attention,
        commands,
        calling: None,
        passing: Passed::default(),
        middle: Middle::default(),
    };
    // A panic counts as the failure of one hook, model or cursor. Its unfinished state is not used again: the
    // hook is not called any more, the model is marked, the tracefile ends.
    while let Err(panic) = catch_unwind(AssertUnwindSafe(|| run.run())) {
        run.panicked(&panic_text(panic.as_ref()));
    }
    run.middle
}

/// A call in progress: slot, index in the flat list, end of the event's calls.
type Calling = Option<(usize, u32, u32)>;

struct Run<'c, 'd, 'g> {
    context: &'c mut TracesetContext,
    dispatch: &'d Dispatch,
    /// The hooks' functions; none for hooks that failed.
    functions: Vec<Option<&'g mut EventFn>>,
    last_time: Time,
    most: u64,
    end: Option<Key>,
    attention: Option<&'c AtomicBool>,
    commands: &'c mut Commands,
    calling: Calling,
    /// Events of the least tracefile that were stepped over and not yet counted.
    passing: Passed,
    middle: Middle,
}

impl Run<'_, '_, '_> {
    fn run(&mut self) {
        if let Some((slot, at, end)) = self.calling.take() {
            // The remaining calls for the event in which a hook panicked.
            self.calls(slot, at + 1, end);
            self.step(slot);
            self.requeue(slot);
        }
        let mut before = u32::MAX;
        while let Some((time, slot)) = self.context.merge.least() {
            if self.middle.cut
                || self.middle.count >= self.most
                || time > self.last_time
                || self.end.is_some_and(|end| self.is_past(time, slot, &end))
            {
                return;
            }
            if slot == before {
                let upto = self.run_end(slot);
                self.deliver_run(slot as usize, upto);
            } else {
                before = slot;
                self.deliver(slot as usize);
            }
            self.requeue(slot as usize);
        }
    }

    /// Delivers the event of a slot and steps past it.
    #[inline]
    fn deliver(&mut self, index: usize) {
        self.middle.count += 1;
        let (from, end) = self.dispatch.slots[index].calls_for(self.context.slots[index].head_id());
        if any((from, end)) {
            self.calls(index, from, end);
        }
        self.look_up();
        self.step(index);
    }

    #[inline]
    fn look_up(&mut self) {
        if self.attention.is_some_and(|attention| attention.load(Ordering::Relaxed)) {
            self.middle.cut = true;
        }
    }

    /// Latest time up to which events of the least slot may follow each other without checking the queue and the
    /// limits. The current event itself may be later.
    fn run_end(&self, slot: u32) -> Time {
        // At equal times the lesser slot comes first.
        let before = |(time, other): (Time, u32)| {
            if slot < other { time } else { Time(time.0.saturating_sub(1)) }
        };
        let others = self.context.merge.second().map_or(Time::MAX, before);
        // In the tracefile of the end position, cursor positions must be compared at its time.
        let end = self.end.map_or(Time::MAX, |end| before((end.time, end.slot)));
        others.min(end).min(self.last_time)
    }

    /// Delivers the event of the least slot and those that follow it up to a time.
    fn deliver_run(&mut self, index: usize, upto: Time) {
        let dispatch = self.dispatch;
        let calls = &dispatch.slots[index];
        loop {
            if any(calls.calls_for(self.context.slots[index].head_id())) {
                self.deliver(index);
            } else {
                self.pass(index, upto);
            }
            let next = self.context.slots[index].time();
            if self.middle.cut || self.middle.count == self.most || next.is_none_or(|next| next > upto) {
                return;
            }
        }
    }

    /// Steps over the event of the least slot, which nobody wants, and over later ones like it up to a time.
    fn pass(&mut self, index: usize, upto: Time) {
        let calls = &self.dispatch.slots[index];
        let slot = &mut self.context.slots[index];
        self.passing = Passed { count: 0, last: slot.key };
        let quiet = Quiet {
            wanted: &calls.wanted,
            others_wanted: any(calls.base),
            upto,
            most: (self.most - self.middle.count).min(QUIET_RUN),
        };
        let result = slot.of.cursor.pass(&quiet, &mut self.passing);
        let last = self.passing.last;
        self.account(index);
        let slot = &mut self.context.slots[index];
        slot.take_result(result, Some(last), &mut self.context.diagnostics);
        self.look_up();
    }

    /// Counts the events that were stepped over.
    fn account(&mut self, index: usize) {
        let Passed { count, last } = std::mem::take(&mut self.passing);
        if count > 0 {
            let slot = &mut self.context.slots[index];
            self.middle.count += count;
            slot.chunk_count += count;
            slot.last_delivered = last;
            self.context.floor = Some(last);
        }
    }

    #[inline]
    fn is_past(&self, time: Time, slot: u32, end: &Key) -> bool {
        match (time, slot).cmp(&(end.time, end.slot)) {
            std::cmp::Ordering::Less => false,
            std::cmp::Ordering::Equal => self.context.slots[slot as usize].of.cursor.pos() >= end.pos,
            std::cmp::Ordering::Greater => true,
        }
    }

    /// Advances past the event that was just delivered.
    #[inline]
    fn step(&mut self, index: usize) {
        let slot = &mut self.context.slots[index];
        let time = slot.key;
        slot.chunk_count += 1;
        slot.last_delivered = time;
        let result = slot.of.cursor.advance();
        slot.take_result(result, Some(time), &mut self.context.diagnostics);
        self.context.floor = Some(time);
    }

    /// Requeues the least slot with its next event.
    #[inline]
    fn requeue(&mut self, index: usize) {
        match self.context.slots[index].time() {
            Some(next) => self.context.merge.requeue_least(next),
            None => self.context.merge.pop_least(),
        }
    }

    fn calls(&mut self, index: usize, from: u32, end: u32) {
        if self.context.slots[index].head_id().is_none() {
            return;
        }
        let calls = &self.dispatch.calls[from as usize..end as usize];
        for (at, call) in (from..).zip(calls) {
            match *call {
                Call::Hook(hook) => {
                    let Some(function) = &mut self.functions[hook as usize] else { continue };
                    self.calling = Some((index, at, end));
                    self.middle.calls += 1;
                    let slot = &self.context.slots[index];
                    let flow = function(&mut EventCall {
                        event: slot.event(),
                        slot: index,
                        context: &*self.context,
                        commands: self.commands,
                    });
                    match flow {
                        Flow::Go => {}
                        Flow::Stop => self.middle.cut = true,
                        Flow::Fail(why) => self.fail(hook as usize, why),
                    }
                }
                Call::Model { index: model, code } => {
                    let slot = &self.context.slots[index];
                    let event = slot.event();
                    let model = &mut self.context.models[slot.of.trace].models[model as usize];
                    if model.failed.is_none() {
                        self.calling = Some((index, at, end));
                        model.model.apply(code, &event);
                    }
                }
            }
        }
        self.calling = None;
        if !self.commands.is_empty() {
            self.middle.cut = true;
        }
    }

    fn fail(&mut self, hook: usize, why: Box<str>) {
        self.functions[hook] = None;
        self.middle.failures.push((self.dispatch.hooks[hook].key(), why));
        self.middle.cut = true;
    }

    #[cold]
    fn panicked(&mut self, why: &str) {
        match self.calling.map(|(slot, at, _)| (slot, self.dispatch.calls[at as usize])) {
            Some((_, Call::Hook(hook))) => self.fail(hook as usize, why.into()),
            Some((slot, Call::Model { index, .. })) => {
                let trace = self.context.slots[slot].of.trace;
                self.context.models[trace].models[index as usize].failed = Some(why.into());
                self.middle.cut = true;
            }
            None => {
                // The cursor of the least tracefile panicked while it was advanced.
                if let Some((_, slot)) = self.context.merge.least() {
                    self.account(slot as usize);
                    let slot = &mut self.context.slots[slot as usize];
                    slot.end();
                    let error = ReadError::new(format!("reader failed: {why}"));
                    slot.fail(&error, &mut self.context.diagnostics);
                    self.context.merge.pop_least();
                }
            }
        }
    }
}
