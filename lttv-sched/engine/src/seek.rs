//! Seeks with state: restores the last saved state before the target and replays the rest with the models only.
//!
//! If the saved states of a trace do not reach the target, the state begins unknown there and is flagged partial. No
//! hook of a request is called. The replay costs at most one save interval of events for each trace, plus those that
//! share one time.

use std::collections::BTreeMap;

use crate::call::Commands;
use crate::chunk::{Dispatch, Limits, deliver_to_limit};
use crate::context::TracesetContext;
use crate::ids::TraceId;
use crate::position::{Position, WrongTraceset};
use crate::state::{SavedState, SavedStates};
use crate::time::Time;
use crate::trace::Trace;

/// The target of a seek.
#[derive(Clone, Copy)]
pub(crate) enum Target<'a> {
    Time(Time),
    Position(&'a Position),
}

/// Seeks there, with the models' state at that position.
pub(crate) fn seek(
    context: &mut TracesetContext,
    traces: &BTreeMap<TraceId, Trace>,
    target: Target<'_>,
) -> Result<(), WrongTraceset> {
    if context.models.iter().all(|models| models.models.is_empty()) {
        match target {
            Target::Time(t) => context.seek_time(t),
            Target::Position(position) => context.seek_position(position)?,
        }
        return Ok(());
    }
    if let Target::Position(position) = target {
        position.check(&context.fingerprint)?;
    }
    for trace in 0..context.traces.len() {
        place_trace(context, traces, trace, target);
    }
    context.requeue();
    context.floor = None;
    context.seeked();
    let limits = match target {
        Target::Time(t) => Limits { end_time: Some(t), ..Limits::default() },
        Target::Position(position) => Limits { end_position: Some(position), ..Limits::default() },
    };
    let dispatch = Dispatch::compile(context, None);
    let replayed = deliver_to_limit(context, &dispatch, &limits, &mut Commands::default());
    context.counters.events_replayed += replayed.count;
    context.floor = match target {
        Target::Time(t) => t.0.checked_sub(1).map(Time),
        Target::Position(position) => position.floor(),
    };
    Ok(())
}

/// Moves one trace's cursors and models to where the replay begins.
fn place_trace(
    context: &mut TracesetContext,
    traces: &BTreeMap<TraceId, Trace>,
    trace: usize,
    target: Target<'_>,
) {
    let (id, slots) = (context.traces[trace].id, context.traces[trace].slots());
    let t = match target {
        Target::Time(t) => Some(t),
        Target::Position(position) => position.time(),
    };
    if context.models[trace].models.is_empty() {
        match target {
            Target::Time(t) => context.seek_trace_time(trace, t),
            Target::Position(position) => context.seek_trace_entries(trace, &position.entries()[slots]),
        }
        return;
    }
    let models = &mut context.models[trace];
    let data = traces.get(&id).map(|trace| &trace.data);
    let saved: Option<Vec<&SavedStates>> =
        models.models.iter().map(|slot| data?.saved.get(&slot.module).filter(|s| s.covers(t))).collect();
    let start = context.traces[trace].source.time_span().map(|span| span.0);
    let from_start = t.is_some_and(|t| t == Time::MIN || start.is_none_or(|start| t <= start));
    models.partial = saved.is_none() && !from_start;
    let restored = saved.as_deref().and_then(|saved| common(saved, t));
    match restored {
        Some(states) => {
            for (slot, state) in models.models.iter_mut().zip(&states) {
                slot.guarded(|model| model.restore(&state.snapshot));
            }
            context.seek_trace_entries(trace, &states[0].entries);
        }
        None => {
            for slot in &mut models.models {
                slot.guarded(|model| model.reset());
            }
            let to = if models.partial { t } else { Some(Time::MIN) };
            match (to, target) {
                (Some(t), _) => context.seek_trace_time(trace, t),
                (None, Target::Position(position)) => {
                    context.seek_trace_entries(trace, &position.entries()[slots]);
                }
                (None, Target::Time(t)) => context.seek_trace_time(trace, t),
            }
        }
    }
}

/// The last state before `t` that all models have saved at the same event, one for each model.
fn common<'a>(saved: &[&'a SavedStates], t: Option<Time>) -> Option<Vec<&'a SavedState>> {
    let (first, others) = saved.split_first()?;
    first.before(t).iter().rev().find_map(|state| {
        let same = others.iter().map(|other| {
            let states = other.before(t);
            states.binary_search_by_key(&state.event, |state| state.event).ok().map(|at| &states[at])
        });
        std::iter::once(Some(state)).chain(same).collect()
    })
}
