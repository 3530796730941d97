//! The samples themselves: what a stopped or waiting thread stands for, and its stack.

use super::Outside;
use super::process::Process;
use super::thread::Wait;
use super::tracees::nanos;
use super::waiting::Place;
use crate::ptrace::restart;
use crate::ptrace::sys::{self, Tid};
use pct_format::record::{Blocked, BlockedBy};
use std::time::{Duration, Instant};

/// How long pct waits to meet a thread outside of a system call, if it has met it only inside of them so far.
const PATIENCE: Duration = Duration::from_millis(250);

impl Outside {
    /// Records one stopped thread.
    pub(super) fn sample_stopped(&mut self, tid: Tid) {
        let wall = self.wall();
        let period = self.period_ns();
        let Some(t) = self.threads.get_mut(&tid) else { return };
        t.wait = None;
        let Ok(regs) = sys::regs(tid) else { return };
        if let Some(fixed) = restart::again(tid, &regs, None, 0) {
            self.counts.again += u64::from(sys::set_regs(tid, &fixed).is_ok());
        }
        let Some(stat) = t.stat() else { return };
        let now = Instant::now();
        let used = match wall {
            true => nanos(now.saturating_duration_since(t.sampled_at)),
            false => stat.cpu_ns.saturating_sub(t.sampled_ns),
        };
        // A thread stops on its way out of the kernel: one that waits for a processor, or makes a call before
        // our stop has reached it, is seen at the end of a call far more often than it is there. So a stop in
        // a call stands for the system time that the kernel's accounts say and no sample does; the rest is
        // due until the thread is met elsewhere, or waiting. One that is never met elsewhere is taken as it
        // is after a while, as a place in user mode.
        let in_call = regs.orig_rax.cast_signed() >= 0;
        let patient = in_call && used < nanos(PATIENCE);
        // By the wall clock it stands for what the thread waited for a processor, too.
        let queue_due = if wall { stat.queue_ns.saturating_sub(t.queued_ns) } else { 0 };
        let stands_for = if patient { used.min(t.system_due(tid).saturating_add(queue_due)) } else { used };
        if patient && stands_for < period.cast_unsigned() / 2 {
            self.counts.empty += 1;
            return;
        }
        let rest = used - stands_for;
        (t.sampled_ns, t.sampled_at) =
            (stat.cpu_ns - rest.min(stat.cpu_ns), now - Duration::from_nanos(rest));
        let weight = t.periods(stands_for, period);
        if weight == 0 {
            self.counts.empty += 1;
            return;
        }
        let queued = if wall { t.take_queued(stat.queue_ns, weight, period.cast_unsigned()) } else { 0 };
        let own = weight - queued;
        if patient {
            t.system_ns += own * period.cast_unsigned();
        }
        let system = patient && !wall;
        let Some((serial, process)) = self.recorded(tid) else { return };
        let regs = process.interrupted(regs);
        let stack = process.stopped_stack(tid, &regs);
        if own > 0 {
            process.sample(serial, regs.rip, own, system, stack);
        }
        if queued > 0 {
            let stack = process.blocked_stack(stack, Blocked::by(BlockedBy::RunQueue));
            process.sample(serial, regs.rip, queued, true, stack);
        }
        self.counts.samples += u64::from(own > 0) + u64::from(queued > 0);
        self.counts.weight += weight;
    }

    /// Records one waiting thread (wall clock): at `place` with its number of slices, or where it was.
    pub(super) fn sample_waiting(&mut self, tid: Tid, place: Option<(Place, u64)>, now: Instant) {
        let period = self.period_ns();
        let wait = match place {
            None => self.threads.get(&tid).and_then(|t| t.wait),
            Some((place @ Place::Waiting { sp, pc, .. }, slices)) => {
                self.recorded(tid).map(|(_, process)| {
                    let stack = process.waiting_stack(tid, sp, pc);
                    let stack = process.blocked_stack(stack, process.cause(tid, &place));
                    Wait { slices, pc, stack }
                })
            }
            Some((Place::Running, _)) => None,
        };
        let (Some(wait), Some(t)) = (wait, self.threads.get_mut(&tid)) else { return };
        // it may have moved while its stack was read, and even have come back: then what was read is not to
        // be believed, and it is due still
        if place.is_some_and(|(place, slices)| {
            t.place() != Some(place) || t.stat().is_none_or(|stat| stat.slices != slices)
        }) {
            return;
        }
        t.wait = Some(wait);
        let used = nanos(now.saturating_duration_since(t.sampled_at));
        t.sampled_at = now;
        let weight = t.periods(used, period);
        if weight == 0 {
            return;
        }
        if let Some((serial, process)) = self.recorded(tid) {
            process.sample(serial, wait.pc, weight, true, wait.stack);
            self.counts.samples += 1;
            self.counts.weight += weight;
        }
    }

    /// A thread's number in its recording, and its process.
    pub(super) fn recorded(&mut self, tid: Tid) -> Option<(u32, &mut Process)> {
        let t = self.threads.get_mut(&tid)?;
        let process = self.processes.get_mut(&t.pid)?;
        let serial = match t.serial {
            Some(serial) => serial,
            None => process.serial(tid, &self.settings.folder, &self.settings.manner)?,
        };
        t.serial = Some(serial);
        Some((serial, process))
    }
}
