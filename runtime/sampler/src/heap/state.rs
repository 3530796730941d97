//! What a session keeps for allocation samples. [`super`] records them.

use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};

use crate::sys::lock::Lock;

use super::live::LiveAreas;
use super::pace::Pace;
use super::peak::Peak;
use super::sums::SumAreas;

/// Allocation samples of a session. All zeros: off.
#[derive(Debug)]
#[repr(C)]
pub struct Heap {
    pub(super) on: AtomicBool,
    /// The first areas are in the file.
    pub(super) ready: AtomicBool,
    /// They could not be made so often.
    pub(super) refused: AtomicU32,
    pub(super) interval: AtomicU64,
    /// How often it is doubled now, and at least since the table was thinned.
    pub(super) shift: AtomicU32,
    pub(super) least_shift: AtomicU32,
    /// Seed and state of the generator.
    pub(super) seed: AtomicU64,
    pub(super) dice: AtomicU64,
    /// Samples recorded so far, and when their rate was looked at last, in ns.
    pub(super) samples: AtomicU64,
    pub(super) rate_looked_ns: AtomicU64,
    /// The same of all that were drawn, whether they were recorded or left out.
    pub(super) drawn: AtomicU64,
    pub(super) drawn_looked_ns: AtomicU64,
    /// Samples of busy sites that were left out.
    pub(super) left_out: AtomicU64,
    pub(super) pace: Pace,
    /// First word of the account in the file, 0 = none.
    pub(super) account: AtomicU64,
    pub(super) live: LiveAreas,
    pub(super) sums: SumAreas,
    pub(super) peak: Peak,
    /// Held while areas are added and while the table is thinned.
    pub(super) growth: Lock<()>,
}
