//! Stacks and threads in the form that several formats need: paths of frames, samples in order, names.

use pct_profile::Profile;
use pct_profile::model::{Cell, FrameId, Id as _, StackId, ThreadId};
use std::collections::HashSet;

/// A stack's frames, outermost first.
pub(crate) fn path(profile: &Profile, stack: StackId) -> Vec<FrameId> {
    let mut frames: Vec<FrameId> = profile.outwards(stack).map(|(id, _)| profile.stacks[id].frame).collect();
    frames.reverse();
    frames
}

/// A sample for formats that need an order: the recorded samples in order of time, or the cells one after another.
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
        // What was not sampled has no time.
        for cell in cells.iter().filter(|cell| profile.is_sampled(cell.stack)) {
            let events = &mut threads[index(cell.thread)].1;
            let time_ns = events.last().map_or(0, |e: &Event| e.time_ns.saturating_add(e.weight_ns));
            events.push(Event { time_ns, weight_ns: cell.weight.cpu_ns(), stack: cell.stack });
        }
    } else {
        // only what the cells contain: a filter may have removed stacks
        let kept: HashSet<_> = cells.iter().map(|c| (c.thread, c.stack)).collect();
        for s in profile.timeline.iter().filter(|s| kept.contains(&(s.thread, s.stack))) {
            let event = Event { time_ns: s.time_ns, weight_ns: s.weight_ns, stack: s.stack };
            threads[index(s.thread)].1.push(event);
        }
    }
    threads.retain(|(_, events)| !events.is_empty());
    threads
}

/// "name (tid)" of a thread, with its process if there are several.
pub(crate) fn thread_name(profile: &Profile, id: ThreadId) -> String {
    let thread = &profile.threads[id];
    let process = profile.process_of(id);
    let name = if thread.name.is_empty() { &process.name } else { &thread.name };
    if profile.sampled_processes() > 1 {
        format!("{} {}: {name} {}", process.name, process.pid, thread.tid)
    } else {
        format!("{name} {}", thread.tid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pct_profile::model::{Builder, Object, ObjectKind, Process, Weight};

    /// Two threads of a process, and stacks main, main;a, main;b. Cells: 5 and 3 ns in the first thread, 2 in
    /// the second.
    fn profile(processes: u32) -> Profile {
        let mut b = Builder::new(false);
        let process = b.process(Process { name: "prog".into(), pid: 7, ..Process::default() });
        for pid in 1..processes {
            b.process(Process { name: "other".into(), pid: 7 + pid, ..Process::default() });
        }
        let object = b.object(Object::new("/bin/prog", ObjectKind::File));
        let [main, a, z] = ["main", "a", "b"].map(|name| b.function(object, name));
        let frames = [main, a, z].map(|function| b.plain_frame(function));
        let main = b.stack(None, frames[0]);
        let stacks = [frames[1], frames[2]].map(|frame| b.stack(Some(main), frame));
        let threads =
            [b.thread(process, 7, ""), b.thread(process, 8, "worker"), b.thread(process, 9, "idle")];
        for (thread, stack, user_ns) in [(0, 0, 5), (0, 1, 3), (1, 1, 2)] {
            let weight = Weight { samples: 1, user_ns, system_ns: 0 };
            b.add(threads[thread], stacks[stack], weight);
        }
        b.finish()
    }

    #[test]
    fn a_path_begins_with_the_outermost_frame() {
        let profile = profile(1);
        let names = |stack| -> Vec<&str> {
            let frames = path(&profile, stack);
            frames.iter().map(|id| profile.functions[profile.frames[*id].function].name.as_str()).collect()
        };
        assert_eq!(names(profile.cells[0].stack), ["main", "a"]);
        assert_eq!(names(profile.cells[1].stack), ["main", "b"]);
    }

    #[test]
    fn without_a_timeline_cells_follow_each_other_in_their_thread() {
        let profile = profile(1);
        let times = |(_, events): &(ThreadId, Vec<Event>)| -> Vec<(u64, u64)> {
            events.iter().map(|event| (event.time_ns, event.weight_ns)).collect()
        };
        let found: Vec<_> = events(&profile, &profile.cells).iter().map(times).collect();
        assert_eq!(found, [vec![(0, 5), (5, 3)], vec![(0, 2)]], "and a thread without samples is left out");
    }

    #[test]
    fn a_thread_without_a_name_has_its_process_name() {
        let name = |profile: &Profile, thread| thread_name(profile, ThreadId::from_index(thread));
        let one = profile(1);
        assert_eq!([name(&one, 0), name(&one, 1)], ["prog 7", "worker 8"]);
        assert_eq!(name(&profile(2), 1), "prog 7: worker 8");
    }
}
