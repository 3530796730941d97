//! What the bench compares the routines with is right too.

#[path = "../examples/num_bench/losing.rs"]
mod losing;

use pct_kit::Dice;
use pct_num::MAX_DIGITS;

fn check(n: u64) {
    let mut out = [0; MAX_DIGITS];
    let decimal = [losing::decimal_single, losing::decimal_quads, losing::decimal_reciprocal];
    let wanted = decimal.map(|body| (body as fn(u64, &mut _) -> usize, format!("{n}")));
    for (body, wanted) in wanted.into_iter().chain([(losing::hex_pairs as _, format!("{n:x}"))]) {
        let first = body(n, &mut out);
        assert_eq!(&out[first..], wanted.as_bytes(), "{n}");
    }
    let digits = format!("{n}").len();
    assert_eq!((losing::ndigits10_branching(n), losing::ndigits10_bisection(n)), (digits, digits), "{n}");
}

#[test]
fn the_bodies_that_lost_are_right_at_borders_and_anywhere() {
    let powers = (0..20).map(|exponent| 10_u64.pow(exponent));
    let shifts = (0..64).map(|bit| 1_u64 << bit);
    for border in powers.chain(shifts) {
        for n in [border - 1, border, border + 1, u64::MAX - border] {
            check(n);
        }
    }
    let mut dice = Dice::new(3);
    for _ in 0..10_000 {
        check(dice.roll() >> dice.below(64));
    }
}
