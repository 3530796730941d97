//! The record of what expired in a thread before it could be recorded.
//!
//! Signal safety: stores to the mapped file.

use core::sync::atomic::Ordering;

use crate::process::session::Session;
use crate::record::rings::Ring;
use crate::record::time;
use pct_format::{CutCause, StackMode, record};

/// The record of expiries that had no file: the place of the last one, and no callers.
pub(crate) fn record_put_off(session: &Session, ring: &Ring, pc: u64, weight: u64) {
    let now = time::now();
    if session.settings.stack.load(Ordering::Relaxed) == StackMode::None as u32 {
        let sample = record::long_sample(now, pc, weight, false, 0);
        ring.push(&session.log, &session.rings, session.may_call(), 1, weight, &sample, &[]);
    } else {
        let sample = record::sample_with_frames(now, pc, weight, false, 1);
        let cut = [record::Frame::Cut(CutCause::NotRead).encode()];
        ring.push(&session.log, &session.rings, session.may_call(), 1, weight, &sample, &cut);
    }
}
