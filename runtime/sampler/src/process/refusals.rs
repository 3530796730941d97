//! What the sampler asked the kernel for and did not get: how often, and the last error number.
//!
//! Such a call costs names, callers or threads, but no sample, so it is no loss. It is said in the header of the file,
//! and reports say it.
//!
//! Signal safety: stores.

use core::sync::atomic::{AtomicU64, Ordering};

use crate::record::log::Log;
use crate::sys::Errno;
pub use pct_format::layout::Wanted;
use pct_format::layout::header as at;

/// Counts of refused calls. All zeros: no call was refused.
#[derive(Debug)]
#[repr(C)]
pub struct Refusals {
    words: [AtomicU64; Wanted::COUNT],
}

impl Refusals {
    /// Notes that a call for `what` failed.
    #[cold]
    pub fn note(&self, log: &Log, what: Wanted, errno: Errno) {
        let Some(word) = self.words.get(what as usize) else { return };
        let noted = word.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |before| {
            Some(Wanted::packed((before >> 32).saturating_add(1), errno.0.unsigned_abs()))
        });
        if noted.is_ok() {
            self.write(log);
        }
    }

    /// Writes them into the header of the file, if there is one.
    pub fn write(&self, log: &Log) {
        for (i, word) in self.words.iter().enumerate() {
            log.header_set(at::REFUSALS + i, word.load(Ordering::Relaxed));
        }
    }
}
