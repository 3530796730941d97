//! CPU time that the process used while it was sampled: what a report holds its samples against. A process
//! that was attached to late, or switched off for a while, used more.
//!
//! Signal safety: getrusage.

use core::sync::atomic::{AtomicU64, Ordering};

use crate::sys;

/// All zeros: never on. Written under the lock of whoever switches sampling, read by the housekeeper.
#[derive(Debug)]
#[repr(C)]
pub struct Spent {
    own: Interrupted,
    /// What the process had used when sampling was switched on for the first time, user and system together; 0 = never.
    before: AtomicU64,
}

/// User and system nanoseconds that the kernel counts all the time, and that count here only while sampling is on.
#[derive(Debug)]
#[repr(C)]
struct Interrupted {
    /// Counted while sampling was off.
    off: [AtomicU64; 2],
    /// The kernel's figures when sampling was switched off last.
    stopped: [AtomicU64; 2],
}

impl Interrupted {
    fn on(&self, now: (u64, u64)) {
        self.still_off(now);
    }

    /// What was used since it was switched off, or last asked, counts as used while off.
    fn still_off(&self, (user, system): (u64, u64)) {
        for ((off, stopped), now) in self.off.iter().zip(&self.stopped).zip([user, system]) {
            let since = now.saturating_sub(stopped.swap(now, Ordering::Relaxed));
            off.fetch_add(since, Ordering::Relaxed);
        }
    }

    fn off(&self, (user, system): (u64, u64)) {
        for (stopped, now) in self.stopped.iter().zip([user, system]) {
            stopped.store(now, Ordering::Relaxed);
        }
    }

    fn while_off(&self) -> (u64, u64) {
        let [user, system] = &self.off;
        (user.load(Ordering::Relaxed), system.load(Ordering::Relaxed))
    }

    fn while_on(&self, used: (u64, u64)) -> (u64, u64) {
        let off = self.while_off();
        (used.0.saturating_sub(off.0), used.1.saturating_sub(off.1))
    }
}

impl Spent {
    /// Sampling is switched on.
    pub fn on(&self) {
        let own = sys::rusage_ns(sys::RUSAGE_SELF);
        // Zero means never: a static program is sampled from its first instruction.
        let used = own.0.saturating_add(own.1).max(1);
        // Only the first time finds a zero there.
        let _ = self.before.compare_exchange(0, used, Ordering::Relaxed, Ordering::Relaxed);
        self.own.on(own);
    }

    /// The next time that sampling is switched on is in this account, after it was switched off in `last`: what is used
    /// in between is used while off, and not before the first time.
    pub fn follow(&self, last: &Spent) {
        let [user, system] = &last.own.stopped;
        let until = user.load(Ordering::Relaxed).saturating_add(system.load(Ordering::Relaxed));
        self.before.store(until, Ordering::Relaxed);
    }

    /// Sampling is switched off.
    pub fn off(&self) {
        self.own.off(sys::rusage_ns(sys::RUSAGE_SELF));
    }

    /// Sampling is off and the process, or this image of it, ends: what it used since is used while off.
    pub fn end_while_off(&self) {
        self.own.still_off(sys::rusage_ns(sys::RUSAGE_SELF));
    }

    /// CPU time that the process used while sampling was off, ns: before it was first switched on, and all in
    /// all. Up to now if it is on, else up to the last time that it was switched on, or that it ended.
    #[must_use]
    pub fn while_off(&self) -> (u64, u64) {
        let (user, system) = self.own.while_off();
        let off = user.saturating_add(system);
        (self.before.load(Ordering::Relaxed).min(off), off)
    }

    /// Of `used` (by the process since its birth) what was used while sampling was on.
    #[must_use]
    pub fn while_on(&self, used: (u64, u64)) -> (u64, u64) {
        self.own.while_on(used)
    }
}

/// CPU time that the children of the process used, as the kernel counted it for the process while sampling
/// was on: it counts a child, with all that the child has waited for, when the process waits for its end.
///
/// It lies apart from [`Spent`]: a process without children does not touch the page.
#[derive(Debug)]
#[repr(C)]
pub struct SpentByChildren(Interrupted);

impl SpentByChildren {
    /// Sampling is switched on.
    pub fn on(&self) {
        let now = sys::rusage_ns(sys::RUSAGE_CHILDREN);
        if now != (0, 0) {
            self.0.on(now);
        }
    }

    /// Sampling is switched off.
    pub fn off(&self) {
        let now = sys::rusage_ns(sys::RUSAGE_CHILDREN);
        if now != (0, 0) {
            self.0.off(now);
        }
    }

    /// User and system ns, while sampling was on.
    #[must_use]
    pub fn used(&self) -> (u64, u64) {
        self.0.while_on(sys::rusage_ns(sys::RUSAGE_CHILDREN))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn children_count_that_were_waited_for_while_on() {
        // SAFETY: zeros are valid, as of `Spent`.
        let spent: SpentByChildren = unsafe { core::mem::zeroed() };
        let burn = || {
            let loop_of_a_shell = "i=0; while [ $i -lt 50000 ]; do i=$((i+1)); done";
            assert!(
                std::process::Command::new("sh").args(["-c", loop_of_a_shell]).status().unwrap().success()
            );
        };
        let sum = |(user, system): (u64, u64)| user + system;
        burn();
        spent.on();
        let before = sum(spent.used());
        let all = || sum(sys::rusage_ns(sys::RUSAGE_CHILDREN));
        let first = all();
        burn();
        let used = all() - first;
        assert!(used > 1_000_000, "the shell did too little: {used} ns");
        // Other tests of this program may wait for children as well, so there is no upper bound but all of theirs.
        let counted = sum(spent.used()) - before;
        assert!(counted >= used && counted <= all() - first, "{counted} of {used}");
        spent.off();
        burn();
        let off = all();
        spent.on();
        assert!(sum(spent.used()) + used <= off, "what ended while it was off does not count");
    }

    #[test]
    fn only_what_is_used_while_on_counts() {
        // SAFETY: zeros are valid by the type's own words.
        let spent: Spent = unsafe { core::mem::zeroed() };
        let all = || {
            let (user, system) = sys::rusage_ns(sys::RUSAGE_SELF);
            user + system
        };
        let burn = || {
            let end = all() + 20_000_000;
            while all() < end {}
        };
        let counted = || {
            let (user, system) = spent.while_on(sys::rusage_ns(sys::RUSAGE_SELF));
            user + system
        };
        burn();
        spent.on();
        assert!(counted() < 15_000_000, "what was used before does not count");
        let (before, off) = spent.while_off();
        assert!(before >= 19_000_000 && before == off, "{before} {off}");
        burn();
        spent.off();
        let first = counted();
        assert!(first >= 19_000_000);
        burn();
        spent.on();
        // other tests of this program use CPU time as well, so there is no upper bound but what was used in all
        assert!(counted() + 20_000_000 <= all());
        let again = spent.while_off();
        assert_eq!(again.0, before, "what was used before the first time stays as it was");
        assert!(again.1 >= before + 19_000_000, "{again:?}");
        spent.off();
        burn();
        spent.end_while_off();
        let ended = spent.while_off();
        assert!(ended.0 == before && ended.1 >= again.1 + 19_000_000, "{again:?} {ended:?}");
        // SAFETY: as above.
        let next: Spent = unsafe { core::mem::zeroed() };
        spent.off();
        let last = all();
        next.follow(&spent);
        burn();
        next.on();
        let (before, off) = next.while_off();
        assert!(before <= last && off >= before + 19_000_000, "{before} {off} {last}");
    }
}
