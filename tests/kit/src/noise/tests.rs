//! What the bounds promise, by simulation.

use super::*;
use crate::Dice;

/// Shares of programs, in 1024ths.
const PROGRAMS: [&[u32]; 5] =
    [&[512, 320, 128, 64], &[512, 512], &[256, 256, 256, 256], &[922, 102], &[900, 60, 64]];

/// A little less than 5 %.
const MOVED: u32 = 51;

/// What the tests allow to lie beside.
const BESIDE: [f64; 2] = [0.01, 0.03];

/// Draws independent samples from shares in 1024ths.
struct Urn {
    upto: Vec<u32>,
    dice: Dice,
}

impl Urn {
    fn new(shares: &[u32], seed: u64) -> Urn {
        let upto = shares.iter().scan(0, |sum, share| {
            *sum += share;
            Some(*sum)
        });
        Urn { upto: upto.collect(), dice: Dice::new(seed) }
    }

    /// Adds 64 samples, each a bit of ten numbers: bits that are less than a limit are counted by `count_ones`.
    fn draw_64(&mut self, counts: &mut [u32]) {
        let digits: [u64; 10] = std::array::from_fn(|_| self.dice.roll());
        let mut before = 0;
        for (count, &limit) in counts.iter_mut().zip(&self.upto) {
            let (mut less, mut equal) = (0_u64, !0_u64);
            for (at, digit) in digits.iter().enumerate() {
                let asked = if limit >> (9 - at) & 1 == 1 { !0 } else { 0 };
                less |= equal & asked & !digit;
                equal &= !(digit ^ asked);
            }
            let below = if limit == 1024 { 64 } else { less.count_ones() };
            *count += below - before;
            before = below;
        }
    }
}

fn weights(counts: &[u32]) -> Vec<f64> {
    counts.iter().copied().map(f64::from).collect()
}

fn shares(program: &[u32], counts: &[u32], beside: f64) -> Shares {
    let seen = weights(counts);
    Shares { truth: weights(program), samples: seen.iter().sum(), seen, beside }
}

/// Shares of which `by` lie in the function `to` instead of `from`.
fn moved(program: &[u32], from: usize, to: usize, by: u32) -> Vec<u32> {
    let mut shares = program.to_vec();
    shares[from] -= by;
    shares[to] += by;
    shares
}

/// When is looked at the samples: after so many 64s.
fn looks(first: u32, beside: f64) -> [u32; 4] {
    let (mut drawn, mut looks) = (1, [first; 4]);
    for draw in 0..3 {
        let samples = f64::from(64 * first * drawn);
        let so_far = Shares { truth: vec![], seen: vec![], samples, beside };
        drawn += times(draw, drawn, so_far.short());
        looks[draw + 1] = first * drawn;
    }
    looks
}

/// A run of the test in the middle: 64s drawn, and what they were.
#[derive(Clone)]
struct State {
    drawn: u32,
    counts: Vec<u32>,
}

enum End {
    Passed,
    Failed,
    /// Came that near to failing.
    Reached(State),
}

/// The test of a sampler that draws from `sampled` what runs as `program` says.
struct Sampler<'a> {
    program: &'a [u32],
    sampled: &'a [u32],
    beside: f64,
    looks: [u32; 4],
    urn: Urn,
}

impl Sampler<'_> {
    /// How far the greatest excess of a set of functions is, in standard deviations of the last look.
    fn excess(&self, state: &State) -> f64 {
        let last = f64::from(64 * self.looks[3]);
        let (n, expected) = (f64::from(64 * state.drawn), weights(self.sampled));
        let counts = weights(&state.counts);
        let of = |set| {
            let p = share(&expected, set);
            n * (share(&counts, set) - p) / (last * p * (1.0 - p)).sqrt()
        };
        (1..(1_u32 << counts.len()) - 1).map(of).fold(0.0, f64::max)
    }

    /// Goes on until the test ends or the excess reaches a level.
    fn go_on(&mut self, mut state: State, level: f64) -> End {
        let near = |sampler: &Self, state: &State| level < f64::INFINITY && sampler.excess(state) >= level;
        // A step can lead over several levels.
        if state.drawn > 0 && near(self, &state) {
            return End::Reached(state);
        }
        loop {
            self.urn.draw_64(&mut state.counts);
            state.drawn += 1;
            if let Some(look) = self.looks.iter().position(|at| *at == state.drawn) {
                let right = shares(self.program, &state.counts, self.beside).judge(Look::ALL[look]).is_ok();
                if right {
                    return End::Passed;
                } else if Look::ALL[look] == Look::Last {
                    return End::Failed;
                }
            }
            if state.drawn.is_multiple_of(2) && near(self, &state) {
                return End::Reached(state);
            }
        }
    }
}

/// Levels of the excess, from half a standard deviation of the first look on to where the test fails at the last.
fn levels(looks: [u32; 4]) -> impl Iterator<Item = f64> {
    let first = 0.5 * (f64::from(looks[0]) / f64::from(looks[3])).sqrt();
    std::iter::successors(Some(first), |level| Some(level + (0.25 * level).min(0.25)))
        .take_while(|level| *level <= FAULTLESS)
}

/// An upper bound of the probability that the test fails: multilevel splitting. Of those that come as near as a level,
/// a fraction comes to the next; the product of the fractions is the probability; by four standard errors more.
fn fails(sampler: &mut Sampler<'_>, dice: &mut Dice) -> f64 {
    let mut states = vec![State { drawn: 0, counts: vec![0; sampler.program.len()] }];
    let (mut probability, mut variance, mut surely) = (1.0, 0.0, 0.0);
    for level in levels(sampler.looks).chain([f64::INFINITY]) {
        let (mut reached, mut failed, mut runs) = (Vec::new(), 0.0, 0.0);
        // More where few come further.
        while runs < 300.0 || reached.len() < 20 && runs < 6000.0 && level.is_finite() {
            match sampler.go_on(states[dice.index(states.len())].clone(), level) {
                End::Passed => {}
                End::Failed => failed += 1.0,
                End::Reached(state) => reached.push(state),
            }
            runs += 1.0;
        }
        // A run can fail on its way to the level.
        surely += probability * failed / runs;
        let further = reached.len() as f64;
        if level.is_infinite() {
            break;
        } else if further < 20.0 {
            // Too few to go on from: let all of them fail, and four standard deviations more.
            surely += probability * (further + 4.0 * further.sqrt() + 4.0) / runs;
            break;
        }
        variance += (1.0 - further / runs) / further;
        probability *= further / runs;
        states = reached;
    }
    surely * (4.0 * variance.sqrt()).exp()
}

#[test]
fn a_faultless_sampler_passes_but_once_in_a_million() {
    let mut dice = Dice::new(1);
    let mut worst: f64 = 0.0;
    for program in PROGRAMS {
        for beside in BESIDE {
            for first in [8, 31, 63] {
                // What is allowed to lie beside is used up, or not at all.
                for by in [0, (512.0 * beside) as u32] {
                    let sampled = moved(program, 0, 1, by);
                    let urn = Urn::new(&sampled, dice.roll());
                    let looks = looks(first, beside);
                    let mut sampler = Sampler { program, sampled: &sampled, beside, looks, urn };
                    let fails = fails(&mut sampler, &mut dice);
                    println!(
                        "{program:?}, {beside} beside, {} samples at first, {by} moved: {fails:.1e}",
                        64 * first
                    );
                    assert!(fails < 1e-6, "{program:?}, {beside}, {first}, {by}: {fails}");
                    worst = worst.max(fails);
                }
            }
        }
    }
    println!("at most {worst:.1e}");
}

/// A fault that is planted: 5 % of all samples lie in another function than they should.
#[test]
fn five_percent_of_the_samples_in_the_wrong_function_are_found() {
    let mut dice = Dice::new(2);
    for (runs, beside, firsts) in [(300, BESIDE[0], &[8, 31, 63][..]), (300, BESIDE[1], &[31])] {
        for first in firsts {
            let (mut passed, mut all) = (0, 0);
            for program in PROGRAMS {
                for (from, to) in pairs(program) {
                    let sampled = moved(program, from, to, MOVED);
                    let mut urn = Urn::new(&sampled, dice.roll());
                    let passes = (0..runs).filter(|_| passes(program, &mut urn, *first, beside)).count();
                    assert!(passes <= 4, "{program:?}, {from} to {to}: {passes} of {runs}");
                    passed += passes;
                    all += runs;
                }
            }
            println!("{} samples at first, {beside} beside: {passed} of {all} pass", 64 * first);
            let (passed, all) = (passed as f64, all as f64);
            assert!(passed + 3.0 * passed.sqrt() + 3.0 < 0.001 * all, "{passed} of {all}");
        }
    }
}

/// The hardest of them: the noise is greatest where a function has half of all samples.
#[test]
fn five_percent_of_one_half_in_the_other_are_found() {
    let mut urn = Urn::new(&moved(PROGRAMS[1], 0, 1, MOVED), 3);
    for (first, beside) in [(23, 0.01), (31, 0.03)] {
        let passed = (0..16_000).filter(|_| passes(PROGRAMS[1], &mut urn, first, beside)).count() as f64;
        println!("{} samples at first, {beside} beside: {passed} of 16,000 pass", 64 * first);
        assert!(passed + 3.0 * passed.sqrt() + 3.0 < 16.0, "{passed} of 16,000");
    }
}

/// Ordered pairs of functions of which the first has something to lose.
fn pairs(program: &[u32]) -> Vec<(usize, usize)> {
    let all = 0..program.len();
    let pairs = all.clone().flat_map(|from| all.clone().map(move |to| (from, to)));
    pairs.filter(|(from, to)| from != to && program[*from] >= MOVED).collect()
}

fn passes(program: &[u32], urn: &mut Urn, first: u32, beside: f64) -> bool {
    let mut counts = vec![0; program.len()];
    let looks = looks(first, beside);
    let mut drawn = 0;
    for (look, at) in Look::ALL.into_iter().zip(looks) {
        (drawn..at).for_each(|_| urn.draw_64(&mut counts));
        drawn = at;
        if shares(program, &counts, beside).judge(look).is_ok() {
            return true;
        }
    }
    false
}

/// How often of 1,000 tests one passes in which this many 1024ths of the seconds are seen.
fn ratios_pass(of_1024: u32, seen: f64, allowed: f64) -> usize {
    let mut urn = Urn::new(&[of_1024, 1024 - of_1024], u64::from(of_1024));
    let ratio = |times: u32, urn: &mut Urn| {
        let (mut counts, drawn) = ([0; 2], 16 * times);
        (0..drawn).for_each(|_| urn.draw_64(&mut counts));
        let (samples, of) = (f64::from(counts[0]), f64::from(64 * drawn));
        let spent = of * f64::from(of_1024) / 1024.0;
        Ratio { spent, seen: samples * seen, open: 0.0, samples, of, allowed }
    };
    (0..1000).filter(|_| drawn_on(|times| ratio(times, &mut urn)).is_ok()).count()
}

#[test]
fn a_ratio_that_is_off_by_five_percent_more_than_allowed_is_found() {
    for of in [1024, 1000, 700] {
        for (seen, allowed) in [(1.0, 0.01), (1.02, 0.02), (0.97, 0.03)] {
            assert_eq!(ratios_pass(of, seen, allowed), 1000, "{of} {seen}");
            assert_eq!(ratios_pass(of, 1.051 + allowed, allowed), 0, "{of} {allowed} more");
            assert_eq!(ratios_pass(of, 0.949 - allowed, allowed), 0, "{of} {allowed} less");
        }
    }
}

#[test]
fn what_is_rare_may_be_so_and_a_twentieth_more_may_not() {
    let tests = |shares: [u32; 2]| {
        let mut urn = Urn::new(&shares, 5);
        let mut rare = |times: u32| {
            let mut counts = [0; 2];
            (0..5 * times).for_each(|_| urn.draw_64(&mut counts));
            Rare { seen: counts[0].into(), of: f64::from(64 * 5 * times), usual: 5.0 / 1024.0, each_run: 1.0 }
        };
        (0..3000).filter(|_| drawn_on(&mut rare).is_ok()).count()
    };
    assert_eq!(tests([5, 1019]), 3000);
    assert_eq!(tests([57, 967]), 0);
}

#[test]
fn an_estimate_is_held_against_the_noise_of_the_truth() {
    // 400 samples of 1,000 bytes each: a standard deviation of 20,000.
    let of = |samples: f64| estimated(400e3, 1e3 * samples, 2e3 * samples.sqrt());
    assert!([400.0, 290.0, 510.0].into_iter().all(|samples| of(samples).is_ok()));
    assert!([0.0, 280.0, 520.0].into_iter().all(|samples| of(samples).is_err()));
}

#[test]
fn an_even_coin_of_100_flips_is_off_by_8_percent() {
    let e = expected_l1(&[0.5, 0.5], 100.0);
    assert!((e - 0.0798).abs() < 0.001, "{e}");
}

#[test]
fn equal_shapes_have_no_distance() {
    assert!(l1(&[1.0, 3.0], &[100.0, 300.0]) < 1e-12);
    assert!((l1(&[1.0, 0.0], &[0.0, 1.0]) - 2.0).abs() < 1e-12);
}
