//! How much is live, by estimate, and when that was most.
//!
//! A freed block is kept as a ghost in the table while it belongs to the peak: while it was allocated before
//! the peak and freed after it. So a peak that moves on frees the places of ghosts.
//!
//! Threads do not wait for each other: who does not get the lock leaves its change to the next one. Of a maximum of
//! estimates the estimate is biased upwards, by about one standard deviation.
//!
//! Signal safety: a try-lock; loads and stores.

use core::sync::atomic::{AtomicU64, Ordering};

use pct_format::heap::{ACCOUNT_WORDS, account};

use super::sums;
use crate::record::time;
use crate::sys::lock::Lock;

/// A rise of less than this part of the peak does not move it: ghosts would come and go with each block.
const STEP: f64 = 1.0 / 128.0;

/// All zeros: nothing live.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Peak {
    level: Lock<Level>,
    /// A double: changes that are not in the level yet.
    pending: AtomicU64,
    /// Raw time of the peak, 0 = none yet.
    time: AtomicU64,
}

#[derive(Debug)]
#[repr(C)]
struct Level {
    live: f64,
    most: f64,
}

impl Peak {
    /// Raw time of the peak so far.
    pub(crate) fn time(&self) -> u64 {
        self.time.load(Ordering::Relaxed)
    }

    /// So many bytes more (or fewer) are live.
    pub(crate) fn change(&self, bytes: f64, account: Option<&[AtomicU64; ACCOUNT_WORDS]>) {
        let Some(mut level) = self.level.try_lock() else {
            sums::add(&self.pending, bytes);
            return;
        };
        level.live += bytes + f64::from_bits(self.pending.swap(0, Ordering::Relaxed));
        if let Some(account) = account {
            account[account::LIVE_BYTES].store(level.live.max(0.0).to_bits(), Ordering::Relaxed);
        }
        if level.live > level.most * (1.0 + STEP) {
            level.most = level.live;
            let now = time::now();
            self.time.store(now, Ordering::Relaxed);
            if let Some(account) = account {
                account[account::PEAK_BYTES].store(level.most.to_bits(), Ordering::Relaxed);
                account[account::PEAK_TIME].store(now, Ordering::Relaxed);
            }
        }
    }
}
