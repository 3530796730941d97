//! Points in trace time.
//!
//! There is one unit everywhere: signed nanoseconds since the origin of the traceset's clock. "No bound" and "no
//! event" are an `Option`, never a large number, so that traces can use the whole range of 64 bits.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A point in time: signed nanoseconds since the origin of the clock (the Unix epoch for most traces).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Time(pub i64);

impl Time {
    /// The least time: a request that starts here starts at the first event, untimed events included.
    pub const MIN: Time = Time(i64::MIN);
    /// The greatest time.
    pub const MAX: Time = Time(i64::MAX);
    /// The time of events whose stream has no clock. They sort before all timed events, each stream in its own order.
    pub const UNTIMED: Time = Time::MIN;

    /// Nanoseconds since the origin.
    pub fn ns(self) -> i64 {
        self.0
    }

    /// `self + ns`, at most [`Time::MAX`] and at least [`Time::MIN`].
    #[must_use]
    pub fn saturating_add(self, ns: i64) -> Time {
        Time(self.0.saturating_add(ns))
    }

    /// Nanoseconds from `earlier` to `self`, cut to the range of `i64`.
    pub fn since(self, earlier: Time) -> i64 {
        self.0.saturating_sub(earlier.0)
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for Time {
    type Err = std::num::ParseIntError;

    /// Decimal nanoseconds, the text that `Display` writes.
    fn from_str(text: &str) -> Result<Time, Self::Err> {
        text.parse().map(Time)
    }
}
