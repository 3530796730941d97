//! What is due at a tick: running threads are interrupted; by the wall clock, waiting ones are recorded.

use super::Outside;
use super::tracees::{folder_of, nanos};
use super::waiting::Place;
use crate::ptrace::sys;
use crate::tasks;
use std::time::Instant;

impl Outside {
    /// Interrupts the running threads that are due; by the wall clock, records those that wait.
    pub(super) fn tick(&mut self, now: Instant) {
        let half = self.period_ns() / 2;
        let wall = self.wall();
        let (mut waiting, mut running) = (Vec::new(), Vec::new());
        for (tid, t) in &mut self.threads {
            if t.interrupting {
                continue;
            }
            let Some(stat) = t.stat() else { continue };
            t.seen_ns = stat.cpu_ns;
            if t.ended {
                continue;
            }
            let used = match wall {
                true => nanos(now.saturating_duration_since(t.sampled_at)),
                false => stat.cpu_ns.saturating_sub(t.sampled_ns),
            };
            if used.cast_signed().saturating_add(t.carry) < half {
                continue;
            }
            if wall && t.wait.is_some_and(|w| w.slices == stat.slices) {
                waiting.push((*tid, None));
                continue;
            }
            match t.place() {
                Some(Place::Running) => running.push(*tid),
                // a first thread that has ended while others go on waits for nothing
                Some(Place::Waiting { sp: 0, .. }) if tasks::has_ended(&folder_of(*tid)) => t.ended = true,
                Some(place @ Place::Waiting { .. }) if wall => {
                    waiting.push((*tid, Some((place, stat.slices))))
                }
                // it will be seen when it runs: its CPU time is not lost, and no call of its is cut short
                _ => {}
            }
        }
        for tid in running {
            if let Some(t) = self.threads.get_mut(&tid)
                && sys::interrupt(tid).is_ok()
            {
                t.interrupting = true;
            }
        }
        for (tid, place) in waiting {
            self.sample_waiting(tid, place, now);
        }
    }
}
