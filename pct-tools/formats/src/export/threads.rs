//! Stacks and threads as several formats want them: paths of frames, samples in order, names.

use pct_profile::Profile;
use pct_profile::model::{Cell, FrameId, Id as _, StackId, ThreadId};
use std::collections::HashSet;

/// A stack's frames, outermost first.
pub(crate) fn path(profile: &Profile, stack: StackId) -> Vec<FrameId> {
    let mut frames: Vec<FrameId> = profile.outwards(stack).map(|(id, _)| profile.stacks[id].frame).collect();
    frames.reverse();
    frames
}

/// A sample for the formats that want an order: what was recorded in order of time, or the cells one after another.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Event {
    pub(crate) time_ns: u64,
    pub(crate) weight_ns: u64,
    pub(crate) stack: StackId,
}

/// Each thread's samples, in order.
pub(crate) fn events(profile: &Profile, cells: &[Cell]) -> Vec<(ThreadId, Vec<Event>)> {
    let mut threads: Vec<_> = profile.threads.ids().map(|id| (id, Vec::new())).collect();
    let index = |t: ThreadId| t.index();
    if profile.timeline.is_empty() {
        for cell in cells {
            let events = &mut threads[index(cell.thread)].1;
            let time_ns = events.last().map_or(0, |e: &Event| e.time_ns.saturating_add(e.weight_ns));
            events.push(Event { time_ns, weight_ns: cell.weight.cpu_ns(), stack: cell.stack });
        }
    } else {
        // only what the cells hold: a filter may have left stacks out
        let kept: HashSet<_> = cells.iter().map(|c| (c.thread, c.stack)).collect();
        for s in profile.timeline.iter().filter(|s| kept.contains(&(s.thread, s.stack))) {
            let event = Event { time_ns: s.time_ns, weight_ns: s.weight_ns, stack: s.stack };
            threads[index(s.thread)].1.push(event);
        }
    }
    threads.retain(|(_, events)| !events.is_empty());
    threads
}

/// "name (tid)" of a thread, with its process when there are several.
pub(crate) fn thread_name(profile: &Profile, id: ThreadId) -> String {
    let thread = &profile.threads[id];
    let process = profile.process_of(id);
    let name = if thread.name.is_empty() { &process.name } else { &thread.name };
    if profile.processes.len() > 1 {
        format!("{} {}: {name} {}", process.name, process.pid, thread.tid)
    } else {
        format!("{name} {}", thread.tid)
    }
}
