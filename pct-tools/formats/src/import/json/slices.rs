//! Slices of a thread: calls with a begin and an end, one inside the other.

use super::super::samples::{Sample, Samples};
use pct_num::rounded;
use pct_profile::model::{FrameId, StackId, ThreadId};

/// Microseconds by which an inner slice may end after the one around it, since decimal numbers are rounded.
const ROUNDING: f64 = 0.01;

/// A call. All times are microseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slice {
    pub(super) frame: FrameId,
    pub(super) from: f64,
    pub(super) duration: f64,
    /// CPU time in it, with all that it called.
    pub(super) cpu: Option<f64>,
}

/// The slices of a thread.
#[derive(Default)]
pub(super) struct Lane {
    pub(super) slices: Vec<Slice>,
    /// Slices whose end has not come yet: their places, and the CPU time of the thread at their begin.
    open: Vec<(usize, Option<f64>)>,
    last: f64,
}

impl Lane {
    /// A slice begins. Events come in order of time.
    pub(super) fn begin(&mut self, frame: FrameId, from: f64, cpu: Option<f64>) {
        self.last = from;
        self.open.push((self.slices.len(), cpu));
        self.slices.push(Slice { frame, from, duration: 0.0, cpu: None });
    }

    /// The innermost slice that is meant ends, with all that is open in it. False: no such slice is open.
    pub(super) fn end(&mut self, is_meant: impl Fn(FrameId) -> bool, at: f64, cpu: Option<f64>) -> bool {
        self.last = at;
        let found = self.open.iter().rposition(|(slice, _)| is_meant(self.slices[*slice].frame));
        let Some(place) = found else { return false };
        for (slice, began) in self.open.drain(place..) {
            let slice = &mut self.slices[slice];
            slice.duration = at - slice.from;
            slice.cpu = cpu.zip(began).map(|(end, began)| end - began);
        }
        true
    }

    /// Ends all that is open, and says how many slices that were.
    pub(super) fn close(&mut self) -> u64 {
        let ends = self.slices.iter().map(|slice| slice.from + slice.duration);
        let last = ends.fold(self.last, f64::max);
        let open = self.open.len() as u64;
        while self.end(|_| true, last, None) {}
        open
    }

    /// Adds the time that each slice does not share with inner ones, and says how many slices were open when one began
    /// that ends after them: those end there, since they are not around it.
    pub(super) fn add_to(mut self, out: &mut Samples, thread: ThreadId, start: f64, cpu: bool) -> u64 {
        // Of slices that begin together the longer one is the outer one, else the one that comes first.
        self.slices.sort_by(|a, b| a.from.total_cmp(&b.from).then(b.duration.total_cmp(&a.duration)));
        let mut walk = Walk { out, thread, start, cpu, open: Vec::new(), last: f64::NEG_INFINITY };
        let mut overlaps = 0;
        for slice in &self.slices {
            walk.pass(slice.from);
            let end = slice.from + slice.duration;
            overlaps += walk.end_before(end - ROUNDING);
            walk.begin(slice, end);
        }
        walk.pass(f64::INFINITY);
        overlaps
    }
}

/// A slice that is open.
struct Open {
    stack: StackId,
    from: f64,
    end: f64,
    /// What of its CPU time no inner slice has.
    cpu_left: f64,
}

struct Walk<'o> {
    out: &'o mut Samples,
    thread: ThreadId,
    start: f64,
    cpu: bool,
    open: Vec<Open>,
    last: f64,
}

impl Walk<'_> {
    fn begin(&mut self, slice: &Slice, end: f64) {
        let around = self.open.last_mut();
        let cpu_left = slice.cpu.unwrap_or(0.0);
        let stack = self.out.b.stack(around.as_ref().map(|around| around.stack), slice.frame);
        if let Some(around) = around {
            around.cpu_left -= cpu_left;
        }
        self.open.push(Open { stack, from: slice.from, end, cpu_left });
    }

    /// Closes slices that end before `end`, and says how many.
    fn end_before(&mut self, end: f64) -> u64 {
        let mut closed = 0;
        while let Some(top) = self.open.pop_if(|top| top.end < end) {
            self.close(&top);
            closed += 1;
        }
        closed
    }

    fn close(&mut self, slice: &Open) {
        if self.cpu {
            self.add(slice.stack, slice.from, slice.cpu_left.max(0.0));
        }
    }

    /// Time goes on until `at`: slices that end before are closed.
    fn pass(&mut self, at: f64) {
        while let Some(top) = self.open.last() {
            let until = top.end.min(at);
            if !self.cpu && until > self.last {
                self.add(top.stack, self.last.max(top.from), until - self.last.max(top.from));
            }
            self.last = self.last.max(until);
            let Some(top) = self.open.pop_if(|top| top.end <= at) else { break };
            self.close(&top);
        }
        if at.is_finite() {
            self.last = self.last.max(at);
        }
    }

    fn add(&mut self, stack: StackId, from: f64, amount: f64) {
        let time_ns = Some(rounded((from - self.start).max(0.0) * 1000.0));
        let thread = self.thread;
        self.out.add(Sample { thread, stack: Some(stack), amount, samples: 0, time_ns });
    }
}
