//! A scale of time above what is drawn to it.

use crate::words::since;
use maud::{Markup, html};

/// Ticks of a scale, about.
const TICKS: i64 = 8;

/// The nearest step of 1, 2 or 5 times a power of ten.
fn tick_step(width: i64) -> i64 {
    let least = (width / TICKS).max(1);
    let mut step = 1;
    loop {
        for factor in [1, 2, 5] {
            if step * factor >= least {
                return step * factor;
            }
        }
        match step.checked_mul(10).filter(|step| *step < i64::MAX / 10) {
            Some(next) => step = next,
            None => return step,
        }
    }
}

/// Width of a range, ns, at least 1.
fn width_of((from, to): (i64, i64)) -> i64 {
    to.saturating_sub(from).max(1)
}

/// Where a time lies in a range, as CSS has it. What lies far outside is put just outside.
#[expect(clippy::cast_precision_loss, reason = "a place in percent")]
pub(super) fn percent(range: (i64, i64), time: i64) -> String {
    let part = time.saturating_sub(range.0) as f64 / width_of(range) as f64;
    format!("{:.3}%", (part * 100.0).clamp(-10.0, 110.0))
}

/// The ticks of a range, each with its time after the origin.
pub(super) fn axis(range: (i64, i64), origin: i64) -> Markup {
    let (width, step) = (width_of(range), tick_step(width_of(range)));
    let first = range.0.saturating_sub(origin).div_euclid(step) + 1;
    let ticks = (first..first + TICKS * 2).filter_map(|k| origin.checked_add(k.checked_mul(step)?));
    html! {
        @for time in ticks.take_while(|time| *time < range.1) {
            span style={ "left:" (percent(range, time)) } { (since(origin, time, width.unsigned_abs())) }
        }
    }
}
