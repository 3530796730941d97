//! CPU time that the process used while it was sampled: what a report holds its samples against. A process that was attached
//! to late, or switched off for a while, used more.
//!
//! Signal safety: getrusage.

use core::sync::atomic::{AtomicU64, Ordering};

use crate::sys;

/// All zeros: never on. Written under the lock of whoever switches sampling, read by the housekeeper.
#[derive(Debug)]
#[repr(C)]
pub struct Spent {
    /// User and system ns spent while sampling was off.
    off: [AtomicU64; 2],
    /// User and system ns when it was switched off last.
    stopped: [AtomicU64; 2],
    /// What the process had used when sampling was switched on for the first time, user and system together; 0 = never.
    before: AtomicU64,
}

impl Spent {
    /// Sampling is switched on.
    pub fn on(&self) {
        let (user, system) = sys::rusage_ns(sys::RUSAGE_SELF);
        // Zero means never: a static program is sampled from its first instruction.
        let used = user.saturating_add(system).max(1);
        // Only the first time finds a zero there.
        let _ = self.before.compare_exchange(0, used, Ordering::Relaxed, Ordering::Relaxed);
        for ((off, stopped), now) in self.off.iter().zip(&self.stopped).zip([user, system]) {
            off.fetch_add(now.saturating_sub(stopped.load(Ordering::Relaxed)), Ordering::Relaxed);
        }
    }

    /// Sampling is switched off.
    pub fn off(&self) {
        let (user, system) = sys::rusage_ns(sys::RUSAGE_SELF);
        for (stopped, now) in self.stopped.iter().zip([user, system]) {
            stopped.store(now, Ordering::Relaxed);
        }
    }

    /// CPU time that the process used while sampling was off, ns: before it was first switched on, and all in all. Up to now if it
    /// is on, else up to the last time that it was switched on.
    #[must_use]
    pub fn while_off(&self) -> (u64, u64) {
        let [user, system] = &self.off;
        let off = user.load(Ordering::Relaxed).saturating_add(system.load(Ordering::Relaxed));
        (self.before.load(Ordering::Relaxed).min(off), off)
    }

    /// Of `used` (by the process since its birth) what was used while sampling was on.
    #[must_use]
    pub fn while_on(&self, used: (u64, u64)) -> (u64, u64) {
        let [user, system] = &self.off;
        (
            used.0.saturating_sub(user.load(Ordering::Relaxed)),
            used.1.saturating_sub(system.load(Ordering::Relaxed)),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
    }
}
