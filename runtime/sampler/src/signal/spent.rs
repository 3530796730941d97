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
}

impl Spent {
    /// Sampling is switched on.
    pub fn on(&self) {
        let (user, system) = sys::rusage_ns(sys::RUSAGE_SELF);
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
        burn();
        spent.off();
        let first = counted();
        assert!(first >= 19_000_000);
        burn();
        spent.on();
        // other tests of this program use CPU time as well, so there is no upper bound but what was used in all
        assert!(counted() + 20_000_000 <= all());
    }
}
