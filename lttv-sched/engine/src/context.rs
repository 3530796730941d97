//! Reading state of a traceset: a cursor on each tracefile, the merge queue, the state models, and their position.
//!
//! Each traceset has one context, and each trace a private one for background work. Contexts share no cursor,
//! so reading in one never changes another.
//!
//! Invariants: the merge queue holds exactly the tracefiles that are not exhausted, by the order time of
//! their heads; order times of one tracefile never decrease between seeks; every event before the cursor has
//! an order time <= `floor`.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use crate::diagnostic::{Diagnostic, DiagnosticKind};
use crate::event::{CursorOf, Event};
use crate::hooks::panic_text;
use crate::ids::{TraceId, TracesetId};
use crate::merge::MergeQueue;
use crate::position::{Entry, Fingerprint, Key, Position, WrongTraceset, cmp_next};
use crate::source::{
    Cursor, EventHead, EventId, FieldVisitor, ReadError, Scope, Source, TracefileInfo, Value,
};
use crate::state::StateModel;
use crate::time::Time;

/// Counts of what a context did, for tests and users.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    /// Events delivered in chunks.
    pub events_read: u64,
    /// Events read again to bring state models up to date.
    pub events_replayed: u64,
    /// Seeks of the whole context.
    pub seeks: u64,
    /// Chunks.
    pub chunks: u64,
}

/// The head of a cursor as its context stores it. The parts are separate and are copied one by one, always
/// through references. If they were copied as one wide value right after a cursor wrote them in narrow ones, the copy
/// would wait for those stores, which costs more than the whole merge.
#[derive(Clone, Copy)]
#[repr(C)]
struct KeptHead {
    id: EventId,
    present: bool,
    ts: Time,
    cpu: u32,
}

impl KeptHead {
    const NONE: KeptHead = KeptHead { id: EventId(0), present: false, ts: Time::MIN, cpu: 0 };

    #[inline]
    fn get(&self) -> Option<EventHead> {
        self.present.then_some(EventHead { ts: self.ts, id: self.id, cpu: self.cpu })
    }

    #[inline]
    fn set(&mut self, head: &EventHead) {
        self.id = head.id;
        self.ts = head.ts;
        self.cpu = head.cpu;
        self.present = true;
    }
}

/// Cursor of one tracefile in one context.
pub struct TracefileContext {
    pub(crate) of: CursorOf,
    held: KeptHead,
    /// Order time of the head, or of the last event when exhausted.
    pub(crate) key: Time,
    /// Number of events delivered in the running chunk.
    pub(crate) chunk_count: u64,
    /// Order time of the event delivered last.
    pub(crate) last_delivered: Time,
    reported_backwards: bool,
    reported_error: Option<ReadError>,
}

impl TracefileContext {
    /// Its tracefile.
    pub fn info(&self) -> &TracefileInfo {
        &self.of.info
    }

    /// The event under the cursor; absent when exhausted.
    #[inline]
    pub fn head(&self) -> Option<EventHead> {
        self.held.get()
    }

    /// Class of the event under the cursor.
    #[inline]
    pub(crate) fn head_id(&self) -> Option<EventId> {
        self.held.present.then_some(self.held.id)
    }

    /// Marks the tracefile as exhausted.
    pub(crate) fn end(&mut self) {
        self.held.present = false;
    }

    /// Order time of the next event; absent (infinite) when exhausted.
    pub fn time(&self) -> Option<Time> {
        self.held.present.then_some(self.key)
    }

    fn entry(&self) -> Option<Entry> {
        self.held.present.then(|| Entry { pos: self.of.cursor.pos(), key: self.key })
    }

    /// The event under the cursor. There must be one.
    #[inline]
    pub(crate) fn event<'a>(&'a self) -> Event<'a> {
        debug_assert!(self.held.present);
        Event {
            head: EventHead { ts: self.held.ts, id: self.held.id, cpu: self.held.cpu },
            time: self.key,
            of: &self.of,
        }
    }

    /// Stores the result of a step or seek: the new head, or the end with a diagnostic.
    #[inline(always)]
    pub(crate) fn take_result(
        &mut self,
        result: Result<Option<EventHead>, ReadError>,
        floor: Option<Time>,
        diagnostics: &mut Vec<Diagnostic>,
    ) {
        match &result {
            Ok(Some(head)) => {
                if floor.is_none_or(|floor| head.ts >= floor) {
                    self.key = head.ts;
                } else {
                    self.went_back(head.ts, floor, diagnostics);
                }
                self.held.set(head);
            }
            Ok(None) => self.end(),
            Err(error) => {
                self.end();
                self.fail(error, diagnostics);
            }
        }
    }

    #[cold]
    fn went_back(&mut self, ts: Time, floor: Option<Time>, diagnostics: &mut Vec<Diagnostic>) {
        self.key = floor.unwrap_or(ts);
        if !std::mem::replace(&mut self.reported_backwards, true) {
            diagnostics.push(self.diagnostic(DiagnosticKind::TimeWentBack { from: self.key, to: ts }));
        }
    }

    #[cold]
    pub(crate) fn fail(&mut self, error: &ReadError, diagnostics: &mut Vec<Diagnostic>) {
        if self.reported_error.as_ref() != Some(error) {
            self.reported_error = Some(error.clone());
            diagnostics.push(self.diagnostic(DiagnosticKind::Unreadable(error.clone())));
        }
    }

    fn diagnostic(&self, kind: DiagnosticKind) -> Diagnostic {
        Diagnostic {
            trace: Some(self.of.trace_id),
            tracefile: Some((self.of.tracefile, self.of.info.name.clone())),
            kind,
        }
    }
}

/// One trace in a context.
pub struct TraceContext {
    pub(crate) id: TraceId,
    pub(crate) source: Arc<dyn Source>,
    pub(crate) first: usize,
    pub(crate) count: usize,
}

impl TraceContext {
    /// The trace.
    pub fn id(&self) -> TraceId {
        self.id
    }

    /// Its source.
    pub fn source(&self) -> &Arc<dyn Source> {
        &self.source
    }

    pub(crate) fn slots(&self) -> std::ops::Range<usize> {
        self.first..self.first + self.count
    }
}

/// Code of an event class that a model ignores.
pub(crate) const NO_CODE: u32 = u32::MAX;

pub(crate) struct ModelSlot {
    pub(crate) module: Arc<str>,
    pub(crate) model: Box<dyn StateModel>,
    pub(crate) failed: Option<Box<str>>,
    /// For each tracefile of the trace, the model's codes of the event classes.
    pub(crate) codes: Vec<Box<[u32]>>,
}

impl ModelSlot {
    /// Calls `work` with the model. If it panics, the model has failed and is not used any more.
    pub(crate) fn guarded<R>(&mut self, work: impl FnOnce(&mut dyn StateModel) -> R) -> Option<R> {
        if self.failed.is_some() {
            return None;
        }
        // A model that panicked is not used again, so nobody reads its unfinished state.
        let done = catch_unwind(AssertUnwindSafe(|| work(self.model.as_mut())));
        done.map_err(|panic| self.failed = Some(panic_text(panic.as_ref()))).ok()
    }
}

/// State models of one trace in one context.
#[derive(Default)]
pub struct TraceModels {
    pub(crate) models: Vec<ModelSlot>,
    /// The state was unknown in the middle of the trace, where it began.
    pub(crate) partial: bool,
}

impl TraceModels {
    /// The model of this type.
    pub fn of_type<S: Any>(&self) -> Option<&S> {
        self.models.iter().find_map(|slot| slot.model.as_any().downcast_ref())
    }
}

/// Reading state of a traceset.
pub struct TracesetContext {
    pub(crate) traceset: Option<TracesetId>,
    pub(crate) traces: Vec<TraceContext>,
    pub(crate) slots: Vec<TracefileContext>,
    pub(crate) models: Vec<TraceModels>,
    pub(crate) merge: MergeQueue,
    pub(crate) floor: Option<Time>,
    pub(crate) fingerprint: Fingerprint,
    span: Option<(Time, Time)>,
    /// Whether the cursors have a position, and the models have the state of that position.
    pub(crate) placed: bool,
    /// Counts since the context was created.
    pub counters: Counters,
    pub(crate) diagnostics: Vec<Diagnostic>,
}

impl TracesetContext {
    pub(crate) fn new(
        traceset: Option<TracesetId>,
        traces: &[(TraceId, Arc<dyn Source>)],
    ) -> TracesetContext {
        let mut context = TracesetContext {
            traceset,
            traces: Vec::new(),
            slots: Vec::new(),
            models: Vec::new(),
            merge: MergeQueue::default(),
            floor: None,
            fingerprint: traces.iter().map(|(id, source)| (*id, source.tracefiles().len())).collect(),
            span: None,
            placed: false,
            counters: Counters::default(),
            diagnostics: Vec::new(),
        };
        for (index, (id, source)) in traces.iter().enumerate() {
            let infos = source.tracefiles();
            context.traces.push(TraceContext {
                id: *id,
                source: source.clone(),
                first: context.slots.len(),
                count: infos.len(),
            });
            context.models.push(TraceModels::default());
            if let Some((start, end)) = source.time_span() {
                let (least, greatest) = context.span.unwrap_or((start, end));
                context.span = Some((least.min(start), greatest.max(end)));
            }
            for (tracefile, info) in infos.iter().enumerate() {
                let opened = source.cursor(tracefile);
                let error = opened.as_ref().err().cloned();
                let mut slot = TracefileContext {
                    of: CursorOf {
                        trace: index,
                        trace_id: *id,
                        tracefile,
                        info: info.clone(),
                        cursor: opened.unwrap_or_else(|_| Box::new(Nothing)),
                    },
                    held: KeptHead::NONE,
                    key: Time::MIN,
                    chunk_count: 0,
                    last_delivered: Time::MIN,
                    reported_backwards: false,
                    reported_error: None,
                };
                if let Some(error) = error {
                    slot.fail(&error, &mut context.diagnostics);
                }
                context.slots.push(slot);
            }
        }
        context
    }

    /// The traceset; absent in the private context of a trace.
    pub fn traceset(&self) -> Option<TracesetId> {
        self.traceset
    }

    /// The traces in order.
    pub fn traces(&self) -> &[TraceContext] {
        &self.traces
    }

    /// All tracefiles: those of the first trace, then of the next.
    pub fn tracefiles(&self) -> &[TracefileContext] {
        &self.slots
    }

    /// Least start and greatest end of the traces; absent if none has a timed event.
    pub fn time_span(&self) -> Option<(Time, Time)> {
        self.span
    }

    /// Order time of the next event; absent at the end.
    pub fn time(&self) -> Option<Time> {
        self.merge.least().map(|(time, _)| time)
    }

    /// The position of the context.
    pub fn position(&self) -> Position {
        let entries = self.slots.iter().map(TracefileContext::entry).collect();
        Position::new(self.fingerprint.clone(), entries, self.floor)
    }

    /// The state model of type `S` of a trace.
    pub fn state<S: Any>(&self, trace: usize) -> Option<&S> {
        self.models.get(trace)?.of_type()
    }

    /// Whether the state of a trace may lack what happened before the last seek.
    pub fn state_is_partial(&self, trace: usize) -> bool {
        self.models.get(trace).is_some_and(|models| models.partial)
    }

    /// Adds a state model for a trace. The context must seek before the model is right.
    pub(crate) fn add_model(&mut self, trace: usize, module: &Arc<str>, mut model: Box<dyn StateModel>) {
        let Some(context) = self.traces.get(trace) else { return };
        let slots = &self.slots[context.slots()];
        // A model that panicked is not used again.
        let codes = catch_unwind(AssertUnwindSafe(|| {
            let codes = slots.iter().map(|slot| {
                let classes = slot.of.info.classes.iter();
                classes.map(|class| model.classify(&slot.of.info, class).unwrap_or(NO_CODE)).collect()
            });
            codes.collect::<Vec<_>>()
        }));
        let (codes, failed) = match codes {
            Ok(codes) => (codes, None),
            Err(panic) => (vec![Box::default(); slots.len()], Some(panic_text(panic.as_ref()))),
        };
        let slot = ModelSlot { module: module.clone(), codes, model, failed };
        self.models[trace].models.push(slot);
        self.placed = false;
    }

    /// Turns models that have failed into diagnostics. Their states are no longer updated.
    pub(crate) fn note_failed_models(&mut self) {
        for (trace, models) in self.traces.iter().zip(&self.models) {
            for slot in &models.models {
                if let Some(why) = &slot.failed {
                    let kind = DiagnosticKind::ModuleFailed { module: slot.module.clone(), why: why.clone() };
                    self.diagnostics.push(Diagnostic { trace: Some(trace.id), tracefile: None, kind });
                }
            }
        }
    }

    /// Key of the next event.
    pub(crate) fn next_key(&self) -> Option<Key> {
        self.merge.least().map(|(time, slot)| Key {
            time,
            slot,
            pos: self.slots[slot as usize].of.cursor.pos(),
        })
    }

    /// Whether the cursor is at the first event with time >= t, as far as is known.
    pub(crate) fn is_at_time(&self, t: Time) -> bool {
        self.placed && self.floor.is_none_or(|floor| floor < t) && self.time().is_none_or(|next| next >= t)
    }

    /// Whether the cursor is at this position.
    pub(crate) fn is_at(&self, position: &Position) -> bool {
        self.placed && self.next_key() == position.key()
    }

    /// Whether the cursor is at this position or after it.
    pub(crate) fn is_at_or_after(&self, position: &Position) -> bool {
        let Some((time, slot)) = self.merge.least() else { return true };
        let Some(key) = position.key() else { return false };
        match (time, slot).cmp(&(key.time, key.slot)) {
            std::cmp::Ordering::Equal => cmp_next(self.next_key().as_ref(), position.key().as_ref()).is_ge(),
            order => order.is_gt(),
        }
    }

    /// Moves every tracefile to its first event with time >= t. Calls no hook and does not change the models' state.
    pub(crate) fn seek_time(&mut self, t: Time) {
        for trace in 0..self.traces.len() {
            self.seek_trace_time(trace, t);
        }
        self.requeue();
        self.floor = t.0.checked_sub(1).map(Time);
        self.seeked();
    }

    /// Moves every tracefile to its entry in a position.
    pub(crate) fn seek_position(&mut self, position: &Position) -> Result<(), WrongTraceset> {
        position.check(&self.fingerprint)?;
        for trace in 0..self.traces.len() {
            let slots = self.traces[trace].slots();
            self.seek_trace_entries(trace, &position.entries()[slots]);
        }
        self.requeue();
        self.floor = position.floor();
        self.seeked();
        Ok(())
    }

    pub(crate) fn seeked(&mut self) {
        self.placed = true;
        self.counters.seeks += 1;
    }

    /// Moves the tracefiles of one trace to a time. The queue must be rebuilt after it.
    pub(crate) fn seek_trace_time(&mut self, trace: usize, t: Time) {
        for slot in &mut self.slots[self.traces[trace].slots()] {
            let result = slot.of.cursor.seek_time(t);
            slot.key = t;
            slot.take_result(result, None, &mut self.diagnostics);
        }
    }

    /// Moves the tracefiles of one trace to saved entries. The queue must be rebuilt after it.
    pub(crate) fn seek_trace_entries(&mut self, trace: usize, entries: &[Option<Entry>]) {
        for (slot, entry) in self.slots[self.traces[trace].slots()].iter_mut().zip(entries) {
            match entry {
                Some(entry) => {
                    let result = slot.of.cursor.seek(entry.pos);
                    slot.take_result(result, Some(entry.key), &mut self.diagnostics);
                }
                None => slot.end(),
            }
        }
    }

    pub(crate) fn requeue(&mut self) {
        let slots = (0u32..).zip(&self.slots);
        self.merge.rebuild(self.slots.len(), slots.filter_map(|(index, slot)| Some((slot.time()?, index))));
    }

    /// Sum of the packets opened by all cursors.
    pub fn packets_decoded(&self) -> u64 {
        self.slots.iter().map(|slot| slot.of.cursor.packets_decoded()).sum()
    }
}

/// The cursor of a tracefile that could not be opened.
struct Nothing;

impl Cursor for Nothing {
    fn head(&self) -> Option<EventHead> {
        None
    }
    fn advance(&mut self) -> Result<Option<EventHead>, ReadError> {
        Ok(None)
    }
    fn seek_time(&mut self, _: Time) -> Result<Option<EventHead>, ReadError> {
        Ok(None)
    }
    fn seek(&mut self, _: crate::source::CursorPos) -> Result<Option<EventHead>, ReadError> {
        Ok(None)
    }
    fn pos(&self) -> crate::source::CursorPos {
        crate::source::CursorPos::default()
    }
    fn field_in(&self, _: Scope, _: &str) -> Option<Value<'_>> {
        None
    }
    fn visit(&self, _: Scope, _: &mut dyn FieldVisitor) {}
}
