//! The middle of a chunk: delivers events in merge order to the hooks in the context, up to the first limit met.
//!
//! Before the first event the hook lists of all tracefiles are compiled into flat tables and every hook function is taken
//! once for the whole chunk, so that an event costs one step of its cursor, one replay in the merge queue, and the calls themselves. A limit is looked at before an event is consumed, never after.
//!
//! A hook that panics is noted and not called again; the remaining hooks of the same event are still called, each once.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::MutexGuard;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::call::{Commands, EventCall, EventFn};
use crate::context::{NO_CODE, TracesetContext};
use crate::hooks::{Flow, Hook, HookKey, PRIORITY_STATE, panic_text};
use crate::position::{Key, Position};
use crate::source::ReadError;
use crate::time::Time;

/// Where a chunk ends at the latest.
#[derive(Clone, Copy, Default)]
pub(crate) struct Limits<'a> {
    /// Before the first event with time >= this.
    pub(crate) end_time: Option<Time>,
    /// After so many events.
    pub(crate) events: Option<u64>,
    /// Before the event that this names.
    pub(crate) end_position: Option<&'a Position>,
    /// Cuts the chunk after the running event when set by somebody else.
    pub(crate) attention: Option<&'a AtomicBool>,
}

/// What a chunk came to.
#[derive(Default, Debug)]
pub(crate) struct Middle {
    /// Events delivered.
    pub(crate) count: u64,
    /// A hook asked to stop, commands are waiting, or attention was asked for.
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
    /// By event id; empty when all events have the same calls.
    by_id: Vec<Range>,
}

/// The calls of each tracefile, flat.
pub(crate) struct Dispatch {
    hooks: Vec<Hook<EventFn>>,
    calls: Vec<Call>,
    slots: Vec<SlotCalls>,
}

impl Dispatch {
    /// Compiles the hooks of a context and its models' wishes; `hooks` false: the models only.
    pub(crate) fn compile(context: &TracesetContext, hooks: bool) -> Dispatch {
        let mut dispatch = Dispatch { hooks: Vec::new(), calls: Vec::new(), slots: Vec::new() };
        for slot in 0..context.slots.len() {
            let compiled = dispatch.compile_slot(context, slot, hooks);
            dispatch.slots.push(compiled);
        }
        dispatch
    }

    fn compile_slot(&mut self, context: &TracesetContext, index: usize, hooks: bool) -> SlotCalls {
        let slot = &context.slots[index];
        let models = &context.models[slot.trace].models;
        let base = self.list(context, index, None, hooks);
        let special = |id: usize| {
            models
                .iter()
                .any(|model| model.codes[slot.tracefile].get(id).is_some_and(|&code| code != NO_CODE))
                || (hooks && slot.event_by_id.contains_key(&crate::source::EventId(id as u32)))
        };
        let greatest_hooked = slot.event_by_id.keys().next_back().map_or(0, |id| id.0 as usize + 1);
        // Ids come from hooks of this process, but a table of 2^32 entries is never what was meant.
        let ids = slot.info.classes.len().max(greatest_hooked.min(1 << 20));
        let mut by_id = Vec::new();
        if !models.is_empty() || (hooks && !slot.event_by_id.is_empty()) {
            for id in 0..ids {
                by_id.push(if special(id) { self.list(context, index, Some(id), hooks) } else { base });
            }
        }
        SlotCalls { base, by_id }
    }

    /// Appends the calls for one event id (none: any other) of a slot.
    fn list(&mut self, context: &TracesetContext, index: usize, id: Option<usize>, hooks: bool) -> Range {
        let slot = &context.slots[index];
        let begin = self.calls.len() as u32;
        let mut models: Vec<Call> = Vec::new();
        for (at, model) in (0u32..).zip(&context.models[slot.trace].models) {
            let code = id.and_then(|id| model.codes[slot.tracefile].get(id).copied()).unwrap_or(NO_CODE);
            if code != NO_CODE && model.failed.is_none() {
                models.push(Call::Model { index: at, code });
            }
        }
        if hooks {
            let none = crate::call::EventHooks::new();
            let chosen = id.and_then(|id| slot.event_by_id.get(&crate::source::EventId(id as u32)));
            for hook in slot.event.merged(chosen.unwrap_or(&none)) {
                if hook.priority() >= PRIORITY_STATE {
                    self.calls.append(&mut models);
                }
                let known = self.hooks.iter().position(|other| other.address() == hook.address());
                let at = known.unwrap_or_else(|| {
                    self.hooks.push(hook.clone());
                    self.hooks.len() - 1
                });
                self.calls.push(Call::Hook(at as u32));
            }
        }
        self.calls.append(&mut models);
        (begin, self.calls.len() as u32)
    }
}

/// Delivers events from where the context stands to the first limit met.
pub(crate) fn middle(
    context: &mut TracesetContext,
    dispatch: &Dispatch,
    limits: &Limits<'_>,
    commands: &mut Commands,
) -> Middle {
    let guards: Vec<MutexGuard<'_, EventFn>> = dispatch.hooks.iter().map(Hook::lock).collect();
    let last_time = match limits.end_time {
        None => Time::MAX,
        // Nothing comes before the least time.
        Some(end) if end == Time::MIN => return Middle::default(),
        Some(end) => Time(end.0 - 1),
    };
    let mut run = Run {
        disabled: vec![false; guards.len()],
        context,
        dispatch,
        guards,
        last_time,
        most: limits.events.unwrap_or(u64::MAX),
        end: limits.end_position.and_then(Position::key),
        attention: limits.attention,
        commands,
        calling: None,
        middle: Middle::default(),
    };
    // A panic is the failure of one hook, model or cursor. What it left half done is not looked at again: the hook is not
    // called any more, the model is marked, the tracefile ends.
    while let Err(panic) = catch_unwind(AssertUnwindSafe(|| run.run())) {
        run.panicked(&panic_text(panic.as_ref()));
    }
    run.middle
}

/// A call in progress: slot, place in the flat list, end of the event's calls.
type Calling = Option<(usize, u32, u32)>;

struct Run<'c, 'd> {
    context: &'c mut TracesetContext,
    dispatch: &'d Dispatch,
    guards: Vec<MutexGuard<'d, EventFn>>,
    disabled: Vec<bool>,
    last_time: Time,
    most: u64,
    end: Option<Key>,
    attention: Option<&'c AtomicBool>,
    commands: &'c mut Commands,
    calling: Calling,
    middle: Middle,
}

impl Run<'_, '_> {
    fn run(&mut self) {
        if let Some((slot, at, end)) = self.calling.take() {
            // The rest of the event in which a hook panicked.
            self.calls(slot, at + 1, end);
            self.step(slot);
        }
        while let Some((time, slot)) = self.context.merge.least() {
            if self.middle.cut
                || self.middle.count >= self.most
                || time > self.last_time
                || self.end.is_some_and(|end| self.is_past(time, slot, &end))
            {
                return;
            }
            self.middle.count += 1;
            let slot = slot as usize;
            let calls = &self.dispatch.slots[slot];
            let id = self.context.slots[slot].head_id();
            let range = match id.and_then(|id| calls.by_id.get(id.0 as usize)) {
                Some(range) => *range,
                None => calls.base,
            };
            if range.0 != range.1 {
                self.calls(slot, range.0, range.1);
            }
            if self.attention.is_some_and(|attention| attention.load(Ordering::Relaxed)) {
                self.middle.cut = true;
            }
            self.step(slot);
        }
    }

    #[inline]
    fn is_past(&self, time: Time, slot: u32, end: &Key) -> bool {
        match (time, slot).cmp(&(end.time, end.slot)) {
            std::cmp::Ordering::Less => false,
            std::cmp::Ordering::Equal => self.context.slots[slot as usize].cursor.pos() >= end.pos,
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
        let result = slot.cursor.advance();
        slot.take(result, Some(time), &mut self.context.diagnostics);
        self.context.floor = Some(time);
        match slot.time() {
            Some(next) => self.context.merge.requeue_least(next),
            None => self.context.merge.pop_least(),
        }
    }

    fn calls(&mut self, index: usize, from: u32, end: u32) {
        let Some(head) = self.context.slots[index].head() else { return };
        for at in from..end {
            match self.dispatch.calls[at as usize] {
                Call::Hook(hook) => {
                    if self.disabled[hook as usize] {
                        continue;
                    }
                    self.calling = Some((index, at, end));
                    self.middle.calls += 1;
                    let slot = &self.context.slots[index];
                    let flow = self.guards[hook as usize](&mut EventCall {
                        event: slot.event_at(head),
                        slot: index,
                        slots: &self.context.slots,
                        fingerprint: &self.context.fingerprint,
                        floor: self.context.floor,
                        states: &self.context.models[slot.trace],
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
                    let event = slot.event_at(head);
                    let model = &mut self.context.models[slot.trace].models[model as usize];
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
        self.disabled[hook] = true;
        self.middle.failures.push((self.dispatch.hooks[hook].key(), why));
        self.middle.cut = true;
    }

    #[cold]
    fn panicked(&mut self, why: &str) {
        match self.calling.map(|(slot, at, _)| (slot, self.dispatch.calls[at as usize])) {
            Some((_, Call::Hook(hook))) => self.fail(hook as usize, why.into()),
            Some((slot, Call::Model { index, .. })) => {
                let trace = self.context.slots[slot].trace;
                self.context.models[trace].models[index as usize].failed = Some(why.into());
                self.middle.cut = true;
            }
            None => {
                // The cursor of the least tracefile panicked while it was advanced.
                if let Some((_, slot)) = self.context.merge.least() {
                    let slot = &mut self.context.slots[slot as usize];
                    slot.end();
                    slot.fail(ReadError::new(format!("reader failed: {why}")), &mut self.context.diagnostics);
                    self.context.merge.pop_least();
                }
            }
        }
    }
}
