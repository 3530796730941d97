//! What the controller keeps of one thread of a target: its files in `/proc`, and what it has been recorded for.

use super::waiting::{self, Place};
use crate::ptrace::sys::{self, Tid};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::FileExt;
use std::time::Instant;

/// Descriptors that threads leave free for recordings, for the memory of processes, and for files that are
/// open for a moment.
const RESERVED: u64 = 64;

/// A file in `/proc` that is read again and again. It stays open, which makes reading it three times as fast,
/// as long as there are descriptors.
#[derive(Debug)]
enum ProcFile {
    Open(File),
    Closed(String),
}

impl ProcFile {
    /// `None`: there is no such file (any more).
    fn new(path: String) -> Option<ProcFile> {
        match File::open(&path) {
            // Numbers are given out from the lowest on.
            Ok(file) if u64::try_from(file.as_raw_fd()).unwrap_or(0) + RESERVED < sys::most_files() => {
                Some(ProcFile::Open(file))
            }
            Ok(_) => Some(ProcFile::Closed(path)),
            Err(why) if sys::no_descriptor(&why) => Some(ProcFile::Closed(path)),
            Err(_) => None,
        }
    }

    fn read(&self, text: &mut [u8]) -> io::Result<usize> {
        match self {
            ProcFile::Open(file) => file.read_at(text, 0),
            ProcFile::Closed(path) => File::open(path)?.read_at(text, 0),
        }
    }
}

/// The numbers of schedstat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stat {
    /// CPU nanoseconds. Of a running thread as of the last tick.
    pub(super) cpu_ns: u64,
    /// Nanoseconds in which it could run and had no processor, up to when it was put on one last.
    pub(super) queue_ns: u64,
    /// How often it was put on a processor: as long as this stays a waiting thread has not moved.
    pub(super) slices: u64,
}

/// Where a thread was found waiting: valid until it runs again.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wait {
    pub(super) slices: u64,
    pub(super) pc: u64,
    /// With the cause as its innermost frame.
    pub(super) stack: u32,
}

/// One thread.
#[derive(Debug)]
pub(super) struct Thread {
    /// Its process.
    pub(super) pid: i32,
    /// Its number in the recording of its process, once it was recorded.
    pub(super) serial: Option<u32>,
    schedstat: ProcFile,
    syscall: ProcFile,
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
    /// Nanoseconds without a processor recorded, beginning with those before we came.
    pub(super) queued_ns: u64,
    /// System CPU nanoseconds recorded, beginning with those before we came.
    pub(super) system_ns: u64,
    /// A stop was asked for and has not come yet.
    pub(super) interrupting: bool,
    pub(super) wait: Option<Wait>,
    /// So often it is still to be stopped as it enters or leaves a system call.
    pub(super) call_stops_left: u16,
    /// It is a zombie that nobody can reap before the process's other threads have ended.
    pub(super) ended: bool,
}

impl Thread {
    /// Opens its files; `None`: it is gone. `born`: it began under our eyes, so all its CPU time counts.
    pub(super) fn open(pid: i32, tid: Tid, born: bool) -> Option<Thread> {
        let open = |what: &str| ProcFile::new(format!("/proc/{pid}/task/{tid}/{what}"));
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
            queued_ns: 0,
            system_ns: 0,
            interrupting: false,
            wait: None,
            call_stops_left: 0,
            ended: false,
        };
        if !born {
            let stat = thread.stat()?;
            (thread.sampled_ns, thread.queued_ns) = (stat.cpu_ns, stat.queue_ns);
            (thread.base_ns, thread.seen_ns) = (thread.sampled_ns, thread.sampled_ns);
            thread.system_ns = system_ns(pid, tid).unwrap_or(0);
        }
        Some(thread)
    }

    pub(super) fn stat(&self) -> Option<Stat> {
        let mut text = [0u8; 96];
        let n = self.schedstat.read(&mut text).ok()?;
        let mut words = text[..n].split(|b| *b == b' ' || *b == b'\n');
        let mut number = || -> Option<u64> { std::str::from_utf8(words.next()?).ok()?.parse().ok() };
        Some(Stat { cpu_ns: number()?, queue_ns: number()?, slices: number()? })
    }

    /// Notes its CPU time, if it is still there.
    pub(super) fn note_cpu_time(&mut self) {
        if let Some(stat) = self.stat() {
            self.seen_ns = self.seen_ns.max(stat.cpu_ns);
        }
    }

    /// Whether it runs (or waits for a processor), else where it waits.
    pub(super) fn place(&self) -> Option<Place> {
        let mut text = [0u8; 256];
        let n = self.syscall.read(&mut text).ok()?;
        waiting::parse(&text[..n])
    }

    /// CPU nanoseconds in the kernel, by its accounts, that no sample says.
    pub(super) fn system_due(&self, tid: Tid) -> u64 {
        system_ns(self.pid, tid).map_or(0, |ns| ns.saturating_sub(self.system_ns))
    }

    /// How many of `weight` periods the thread has waited for a processor, as far as no sample says so yet: these
    /// become a sample of their own.
    pub(super) fn take_queued(&mut self, queue_ns: u64, weight: u64, period: u64) -> u64 {
        let due = queue_ns.saturating_sub(self.queued_ns);
        let queued = due.saturating_add(period / 2).checked_div(period).unwrap_or(0).min(weight);
        self.queued_ns = self.queued_ns.saturating_add(queued.saturating_mul(period));
        queued
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
        weight.cast_unsigned()
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

    #[test]
    fn time_in_the_queue_is_told_once_and_never_more_than_a_sample_stands_for() {
        let me = std::process::id() as i32;
        let mut t = Thread::open(me, Tid(me), true).unwrap();
        let (mut told, mut queue) = (0, 0);
        for step in 0..1000_u64 {
            queue += step * 7919 % 3_000_000;
            let queued = t.take_queued(queue, 2, 1_000_000);
            assert!(queued <= 2);
            told += queued;
            assert!(told * 1_000_000 <= queue + 500_000);
        }
        // Two a step are more than come in, so all but a part of a period is told in the end.
        told += t.take_queued(queue, u64::MAX, 1_000_000);
        assert!(queue - told.min(queue / 1_000_000) * 1_000_000 <= 1_000_000, "{told} of {queue}");
        assert_eq!(t.take_queued(queue, 5, 0), 0);
    }
}
