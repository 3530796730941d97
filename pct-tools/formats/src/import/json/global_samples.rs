//! The samples of all threads that trace events may have beside them, as Hermes writes them: each names the innermost
//! of a table of frames, which name their callers.

use super::super::problem::Problem;
use super::super::samples::Samples;
use super::parts::{Number, problem, script};
use pct_profile::model::{FrameId, Object, ObjectKind, StackId};
use rustc_hash::FxHashMap;
use serde::Deserialize;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// A sample of any thread, as Hermes writes it.
#[derive(Deserialize)]
pub(super) struct GlobalSample {
    pub(super) pid: Option<Number>,
    pub(super) tid: Option<Number>,
    #[serde(default, deserialize_with = "super::parts::decimal")]
    pub(super) ts: Option<f64>,
    #[serde(default, deserialize_with = "super::parts::decimal")]
    pub(super) weight: Option<f64>,
    pub(super) sf: Option<Number>,
}

/// A function and who called it, for the samples of all threads.
#[derive(Deserialize)]
pub(super) struct StackFrame<'t> {
    #[serde(borrow)]
    name: Cow<'t, str>,
    #[serde(borrow, default)]
    category: Cow<'t, str>,
    parent: Option<Number>,
}

/// The stacks of the samples of all threads, by the names of their innermost frames.
pub(super) fn stacks(
    out: &mut Samples,
    frames: &BTreeMap<String, StackFrame<'_>>,
) -> Result<FxHashMap<String, StackId>, Problem> {
    let mut stacks: FxHashMap<String, StackId> = FxHashMap::default();
    let mut path: Vec<(String, &StackFrame<'_>)> = Vec::new();
    for (id, frame) in frames {
        let mut next = Some((id.clone(), frame));
        while let Some((id, frame)) = next.filter(|(id, _)| !stacks.contains_key(id)) {
            if path.len() > frames.len() {
                return Err(problem(format!("stackFrames {id}"), "it is among its own callers"));
            }
            let parent = frame.parent.as_ref().map(Number::key);
            next = parent.and_then(|parent| Some((parent.clone(), frames.get(&parent)?)));
            path.push((id, frame));
        }
        while let Some((id, frame)) = path.pop() {
            let caller = frame.parent.as_ref().and_then(|parent| stacks.get(&parent.key()).copied());
            let named = frame_of(out, frame);
            let stack = out.b.stack(caller, named);
            stacks.insert(id, stack);
        }
    }
    Ok(stacks)
}

/// Hermes puts the place of a function behind its name: `f(http://host/a.js:1:2)`.
fn frame_of(out: &mut Samples, frame: &StackFrame<'_>) -> FrameId {
    let placed = frame.name.strip_suffix(')').and_then(|rest| rest.split_once('('));
    let placed = placed.and_then(|(name, at)| Some((name, script(at)?)));
    let function = match placed {
        Some((name, (file, line))) => {
            let place = out.place(file);
            out.function(place, name, line)
        }
        None => {
            let object = Object::new(frame.category.as_ref(), ObjectKind::Unknown);
            let place = if frame.category.is_empty() { out.place("") } else { (out.b.object(object), None) };
            out.function(place, &frame.name, 0)
        }
    };
    out.b.plain_frame(function)
}
