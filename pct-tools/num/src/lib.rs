//! Numbers to text and back, for printers that write a million of them: bases 2, 8, 10 and 16.
//!
//! - [`num2str()`]: a number into a small buffer; [`Layout`] pads and aligns; [`num2str_batch`] writes many.
//! - [`str2num()`]: text to number, by a table of byte values; overflow and foreign bytes are errors that say where.
//! - [`ndigits()`]: how many digits a number has, without writing it.
//! - [`float()`], [`rounded()`]: counts and floating-point numbers.
//! - [`thousands()`]: a number for people; [`seconds()`], [`share()`], [`count()`]: amounts with one rule for
//!   each kind.
//! - [`significance()`]: is the difference of two sampled amounts more than chance?
//! - [`Estimate`], [`Growth`]: amounts of memory from samples of allocated bytes, with their intervals of confidence.
//!
//! The base is a const parameter, so that every divisor is a constant and a division becomes a multiplication.
//! `cargo run --release -p pct-num --example num_bench` measures each routine beside the bodies that lost, the standard
//! library and `itoa`; `docs/num.md` has the table that decided.
//!
//! No I/O, no `unsafe`.
#![forbid(unsafe_code)]
#![cfg_attr(
    not(test),
    deny(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_possible_wrap)
)]

extern crate alloc;

mod amounts;
pub mod bodies;
mod estimate;
mod float;
mod gamma;
mod growth;
mod ndigits;
mod num2str;
mod significance;
mod str2num;
mod thousands;

pub use amounts::{bytes, bytes_binary, count, percent, seconds, share, signed_seconds};
pub use estimate::{
    Estimate, Interval, detection_limit, round_to_sum, sampling_probability, thinning_probability,
};
pub use float::{float, rounded};
pub use growth::Growth;
pub use ndigits::ndigits;
pub use num2str::{Align, Digits, Layout, num2str, num2str_batch, num2str_into};
pub use significance::{CLEAR, Sampled, significance};
pub use str2num::{NumError, str2num, str2num_any, str2num_prefix};
pub use thousands::{grouped, thousands};

/// The most digits a `u64` can have: in base 2.
pub const MAX_DIGITS: usize = 64;

/// Fails to compile for any base but 2, 8, 10 and 16.
struct Base<const B: u32>;

impl<const B: u32> Base<B> {
    const KNOWN: () = assert!(B == 2 || B == 8 || B == 10 || B == 16, "bases are 2, 8, 10 and 16");
}
