//! What the controller keeps of one thread of a target: its files in `/proc`, and what it has been recorded for.

use super::waiting::{self, Place};
use crate::ptrace::sys::Tid;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::Instant;

/// The first and the third number of schedstat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stat {
    /// CPU nanoseconds. Of a running thread as of the last tick.
    pub(super) cpu_ns: u64,
    /// How often it was put on a processor: as long as this stays a waiting thread has not moved.
    pub(super) slices: u64,
}

/// Where a thread was found waiting: valid until it runs again.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wait {
    pub(super) slices: u64,
    pub(super) pc: u64,
    pub(super) stack: u32,
}

/// One thread.
#[derive(Debug)]
pub(super) struct Thread {
    /// Its process.
    pub(super) pid: i32,
    /// Its number in the recording of its process, once it was recorded.
    pub(super) serial: Option<u32>,
    schedstat: File,
    syscall: File,
    /// CPU nanoseconds at the last look.
    pub(super) seen_ns: u64,
    /// CPU nanoseconds when we came.
    pub(super) base_ns: u64,
    /// CPU nanoseconds up to the last sample.
    pub(super) sampled_ns: u64,
    /// When it was sampled last (wall clock).
    pub(super) sampled_at: Instant,
    /// Nanoseconds recorded too few (or too many, below zero).
    pub(super) carry: i64,
    /// System CPU nanoseconds recorded, beginning with those before we came.
    pub(super) system_ns: u64,
    /// A stop was asked for and has not come yet.
    pub(super) interrupting: bool,
    pub(super) wait: Option<Wait>,
    /// It is a zombie that nobody can reap before the process's other threads have ended.
    pub(super) ended: bool,
}

impl Thread {
    /// Opens its files; `None`: it is gone. `born`: it began under our eyes, so all its CPU time counts.
    pub(super) fn open(pid: i32, tid: Tid, born: bool) -> Option<Thread> {
        let open = |what: &str| File::open(format!("/proc/{pid}/task/{tid}/{what}")).ok();
        let mut thread = Thread {
            pid,
            serial: None,
            schedstat: open("schedstat")?,
            syscall: open("syscall")?,
            seen_ns: 0,
            base_ns: 0,
            sampled_ns: 0,
            sampled_at: Instant::now(),
            carry: 0,
            system_ns: 0,
            interrupting: false,
            wait: None,
            ended: false,
        };
        if !born {
            thread.sampled_ns = thread.stat()?.cpu_ns;
            (thread.base_ns, thread.seen_ns) = (thread.sampled_ns, thread.sampled_ns);
            thread.system_ns = system_ns(pid, tid).unwrap_or(0);
        }
        Some(thread)
    }

    pub(super) fn stat(&self) -> Option<Stat> {
        let mut text = [0u8; 96];
        let n = self.schedstat.read_at(&mut text, 0).ok()?;
        let mut words = text[..n].split(|b| *b == b' ' || *b == b'\n');
        let mut number = |skip| -> Option<u64> { std::str::from_utf8(words.nth(skip)?).ok()?.parse().ok() };
        Some(Stat { cpu_ns: number(0)?, slices: number(1)? })
    }

    /// Whether it runs (or waits for a processor), else where it waits.
    pub(super) fn place(&self) -> Option<Place> {
        let mut text = [0u8; 256];
        let n = self.syscall.read_at(&mut text, 0).ok()?;
        waiting::parse(&text[..n])
    }

    /// CPU nanoseconds in the kernel, by its accounts, that no sample says.
    pub(super) fn system_due(&self, tid: Tid) -> u64 {
        system_ns(self.pid, tid).map_or(0, |ns| ns.saturating_sub(self.system_ns))
    }

    /// Turns time into whole periods, the nearest number; the rest is carried over. 0: not due yet.
    pub(super) fn periods(&mut self, ns: u64, period: i64) -> u64 {
        let due = (i64::try_from(ns).unwrap_or(i64::MAX)).saturating_add(self.carry);
        let weight = due.saturating_add(period / 2).div_euclid(period);
        if weight <= 0 {
            self.carry = due;
            return 0;
        }
        self.carry = due - weight * period;
        weight as u64
    }
}

/// System CPU nanoseconds of a thread, to the tick.
fn system_ns(pid: i32, tid: Tid) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/task/{tid}/stat")).ok()?;
    // field 15, counted behind the name, which may hold anything
    let ticks: u64 = stat.rsplit_once(") ")?.1.split(' ').nth(12)?.parse().ok()?;
    Some(ticks * (1_000_000_000 / procfs::ticks_per_second().max(1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn periods_add_up_to_the_time() {
        let me = std::process::id() as i32;
        let mut t = Thread::open(me, Tid(me), true).unwrap();
        let (mut sum, mut weight) = (0u64, 0u64);
        let mut x = 1u64;
        for _ in 0..10_000 {
            x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let ns = x >> 40;
            sum += ns;
            weight += t.periods(ns, 1_000_000);
        }
        assert!((sum as i64 - weight as i64 * 1_000_000).abs() <= 1_000_000);
        assert!(t.stat().unwrap().slices > 0);
    }
}
