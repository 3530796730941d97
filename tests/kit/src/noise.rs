//! How far an ideal sampler may be from the truth, and tests that draw samples until they are sure.
//!
//! A test that is decided by chance is not tried again: it *draws on* ([`draw_on`]). While what was seen can be both, a
//! faultless sampler's noise and a fault of [`FAULT`], the same program runs again for four times as long, and all
//! samples are judged together; at most three times. Two bounds decide about a share `p` of `n` independent samples,
//! which an allowance `a` may shift for a known reason, with σ(q) = sqrt(q (1 - q) / n):
//!
//! - *faultless*: off ≤ a + 5.5 σ(p + a) + 5 / n. An ideal sampler breaks it once in 50 million.
//! - *no fault*: off ≤ 0.05 - z σ(p + 0.05) - 2 / n. A sampler that books 5 % of the samples wrongly keeps it once in
//!   6,000 at the first look (z = 3.6), once in 30,000 later (z = 4).
//!
//! (The last terms stand for the skewness of small counts.) The test passes as soon as both are kept. At its last look
//! the first one alone decides; the run before it is so long that the two lie 9.2 standard deviations apart. So, as the
//! tests below show by simulation, a faultless sampler passes with a probability of at least 1 - 1e-6, and a faulty one
//! fails with 0.999.
//!
//! Samples of a clock that keeps step with CPU time are less noisy than independent ones: the bounds hold for them too.
//! Samples of a clock that is bound to the kernel's tick are fewer than their weights say: whoever asks gives the
//! number of independent ones.

/// The fault that is found: this share of all samples booked wrongly.
pub const FAULT: f64 = 0.05;

/// What a faultless sampler may be off, in standard deviations.
const FAULTLESS: f64 = 5.5;

/// The two bounds lie so many standard deviations apart at the last look: 5.5, and 3.7 that a fault passes once in
/// 9,000.
const APART: f64 = FAULTLESS + 3.7;

/// Longest run, in multiples of the first one.
const LONGEST: f64 = 40.0;

/// Which look at the samples it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// After the first, short run.
    First,
    /// After further ones.
    Again,
    /// There will be no further run.
    Last,
}

impl Look {
    const ALL: [Look; 4] = [Look::First, Look::Again, Look::Again, Look::Last];

    /// The greatest deviation that passes. `faultless`: what a faultless sampler keeps. `fault`: where a fault would
    /// be. `deviation`: the standard deviation around that. `unit`: the weight of one sample.
    fn bound(self, faultless: f64, fault: f64, deviation: f64, unit: f64) -> f64 {
        match self {
            Look::First => faultless.min(fault - 3.6 * deviation - 2.0 * unit),
            Look::Again => faultless.min(fault - 4.0 * deviation - 2.0 * unit),
            Look::Last => faultless,
        }
    }
}

/// What runs have shown, with the truth beside it.
pub trait Evidence: Sized {
    /// Adds what a further run has shown.
    fn add(&mut self, more: Self);

    /// Is it right, as far as this look can tell?
    ///
    /// # Errors
    /// Says what is off, and by how much. At the last look it is wrong, before it is not sure.
    fn judge(&self, look: Look) -> Result<(), String>;

    /// How many times the samples so far the last look needs.
    fn short(&self) -> f64;
}

/// Runs a program by `run` until it is sure that what is seen of it is right. `run` gets how many times as long as at
/// first the program shall run: 1, then 4, 4, and at least 4.
///
/// # Panics
/// When it is wrong.
#[track_caller]
pub fn draw_on<E: Evidence>(run: impl FnMut(u32) -> E) {
    if let Err(why) = drawn_on(run) {
        panic!("{why}");
    }
}

/// [`draw_on`], which returns what is wrong instead of panicking.
///
/// # Errors
/// Says what is wrong.
pub fn drawn_on<E: Evidence>(mut run: impl FnMut(u32) -> E) -> Result<(), String> {
    let mut drawn = 1;
    let mut all = run(drawn);
    for (draw, look) in Look::ALL.into_iter().enumerate() {
        let Err(why) = all.judge(look) else { return Ok(()) };
        if look == Look::Last {
            return Err(format!("{why}, in a run and {} times as long again", drawn - 1));
        }
        let times = times(draw, drawn, all.short());
        eprintln!("not sure yet, drawing on for {times} times as long: {why}");
        all.add(run(times));
        drawn += times;
    }
    unreachable!("the last look decides")
}

/// How many times as long as the first run the next one is, after `drawn` such lengths.
fn times(draw: usize, drawn: u32, short: f64) -> u32 {
    let lacking = (f64::from(drawn) * (short - 1.0)).ceil();
    if draw == 2 { lacking.clamp(4.0, LONGEST) as u32 } else { 4 }
}

/// Shares of a program's functions: seconds or any other weights.
#[derive(Clone, Debug)]
pub struct Shares {
    /// What each function truly had.
    pub truth: Vec<f64>,
    /// What was seen of each, in any unit.
    pub seen: Vec<f64>,
    /// Independent samples.
    pub samples: f64,
    /// L1 distance that has a known reason, for instance what the program does between its functions.
    pub beside: f64,
}

impl Evidence for Shares {
    fn add(&mut self, more: Shares) {
        let add = |all: &mut Vec<f64>, more: Vec<f64>| all.iter_mut().zip(more).for_each(|(a, m)| *a += m);
        add(&mut self.truth, more.truth);
        add(&mut self.seen, more.seen);
        self.samples += more.samples;
    }

    /// Samples that are booked wrongly, from wherever to wherever, shift the share of some set of functions by as much:
    /// so all sets are judged. (Their greatest shift is half the L1 distance.)
    fn judge(&self, look: Look) -> Result<(), String> {
        let Shares { truth, seen, samples: n, beside } = self;
        assert!(truth.len() == seen.len() && (2..9).contains(&truth.len()), "{self:?}");
        if *n < 1.0 || seen.iter().sum::<f64>() <= 0.0 || look == Look::Last && self.short() > 1.5 {
            return Err(format!("too few samples to judge by: {self:?}"));
        }
        for set in 1..(1_u32 << truth.len()) - 1 {
            let (share, found) = (share(truth, set), share(seen, set));
            let faultless = beside / 2.0 + FAULTLESS * deviation(share + beside / 2.0, *n) + 5.0 / n;
            let fault = if share + FAULT < 1.0 { FAULT } else { f64::INFINITY };
            let bound = look.bound(faultless, fault, deviation(share + FAULT, *n), 1.0 / n);
            if found - share > bound {
                return Err(format!(
                    "the functions {:?} have {found:.4} of the time instead of {share:.4}, allowed are {bound:.4} more, at \
                     {n} samples: truth {truth:.3?}, seen {seen:.3?}",
                    (0..truth.len()).filter(|i| set & 1 << i != 0).collect::<Vec<_>>()
                ));
            }
        }
        Ok(())
    }

    fn short(&self) -> f64 {
        let gap = FAULT - self.beside / 2.0;
        assert!(gap > 0.02, "a fault cannot be told from what is beside: {self:?}");
        0.25 * (APART / gap).powi(2) / self.samples.max(1.0)
    }
}

/// The share of a set of functions, a bit for each.
fn share(weights: &[f64], set: u32) -> f64 {
    let within = weights.iter().enumerate().filter(|(i, _)| set & 1 << i != 0);
    within.map(|(_, w)| w).sum::<f64>() / weights.iter().sum::<f64>()
}

/// The standard deviation of a share of `n` samples.
fn deviation(share: f64, n: f64) -> f64 {
    let share = share.clamp(0.0, 1.0);
    (share * (1.0 - share) / n).sqrt()
}

/// CPU seconds that were seen of what a program spent. A fault is a twentieth more, or less, than what is allowed.
#[derive(Clone, Copy, Debug)]
pub struct Ratio {
    /// Seconds truly spent.
    pub spent: f64,
    /// Seconds seen there.
    pub seen: f64,
    /// Further seconds seen that can belong there or not, the kernel's for instance.
    pub open: f64,
    /// Independent samples behind what was seen there.
    pub samples: f64,
    /// Of how many: the clock counts these without noise, as a timer of CPU time does.
    pub of: f64,
    /// Part of the seconds spent by which what is seen may differ for a known reason.
    pub allowed: f64,
}

impl Ratio {
    /// The standard deviation of seen / spent: k of n samples are as many, give or take sqrt(k (1 - k/n)).
    fn deviation(&self) -> f64 {
        let k = self.samples.max(1.0);
        ((1.0 - k / self.of).max(0.0) / k).sqrt()
    }
}

impl Evidence for Ratio {
    fn add(&mut self, more: Ratio) {
        self.spent += more.spent;
        self.seen += more.seen;
        self.open += more.open;
        self.samples += more.samples;
        self.of += more.of;
    }

    fn judge(&self, look: Look) -> Result<(), String> {
        let (deviation, unit) = (self.deviation(), 1.0 / self.samples.max(1.0));
        let faultless = self.allowed + FAULTLESS * deviation + 5.0 * unit;
        let bound = look.bound(faultless, self.allowed + FAULT, deviation, unit);
        let (most, least) = (self.seen / self.spent, (self.seen + self.open) / self.spent);
        if most - 1.0 > bound || 1.0 - least > bound || look == Look::Last && self.short() > 1.5 {
            return Err(format!("seen / spent differs from 1 by more than {bound:.4}: {self:.3?}"));
        }
        Ok(())
    }

    fn short(&self) -> f64 {
        let noise = APART * self.deviation() / FAULT;
        (noise * noise).max(7.0 / FAULT / self.samples.max(1.0))
    }
}

/// Samples that are not as they should be. A fault is a twentieth of all more than there may be.
#[derive(Clone, Copy, Debug)]
pub struct Rare {
    /// How many are not.
    pub seen: f64,
    /// Of how many.
    pub of: f64,
    /// Share that may be so.
    pub usual: f64,
    /// Beside that: so many of each run.
    pub each_run: f64,
}

impl Evidence for Rare {
    fn add(&mut self, more: Rare) {
        self.seen += more.seen;
        self.of += more.of;
        self.each_run += more.each_run;
    }

    fn judge(&self, look: Look) -> Result<(), String> {
        let Rare { seen, of: n, usual, each_run } = self;
        let faultless = usual + each_run / n + FAULTLESS * deviation(*usual, *n) + 5.0 / n;
        let bound = look.bound(faultless, usual + FAULT, deviation(usual + FAULT, *n), 1.0 / n);
        if seen / n > bound || *n < 1.0 || look == Look::Last && self.short() > 1.5 {
            return Err(format!(
                "{seen} of {n} samples are not as they should be, allowed are {bound:.4} of them"
            ));
        }
        Ok(())
    }

    /// Where 9.2 standard deviations and the small counts' seven samples fit into a twentieth.
    fn short(&self) -> f64 {
        let noise = APART * deviation(self.usual + FAULT, self.of) / FAULT;
        (noise * noise).max((7.0 + self.each_run) / FAULT / self.of.max(1.0))
    }
}

/// Several at once: all are right.
impl<A: Evidence, B: Evidence> Evidence for (A, B) {
    fn add(&mut self, more: (A, B)) {
        self.0.add(more.0);
        self.1.add(more.1);
    }

    fn judge(&self, look: Look) -> Result<(), String> {
        self.0.judge(look)?;
        self.1.judge(look)
    }

    fn short(&self) -> f64 {
        self.0.short().max(self.1.short())
    }
}

/// Several of a kind: each is right.
impl<E: Evidence> Evidence for Vec<E> {
    fn add(&mut self, more: Vec<E>) {
        assert_eq!(self.len(), more.len(), "each run shows the same");
        self.iter_mut().zip(more).for_each(|(all, more)| all.add(more));
    }

    fn judge(&self, look: Look) -> Result<(), String> {
        self.iter().try_for_each(|each| each.judge(look))
    }

    fn short(&self) -> f64 {
        self.iter().map(Evidence::short).fold(1.0, f64::max)
    }
}

/// Is an estimate of a Poisson sampler what it can have drawn? `half_width`: of its 95 % interval, two standard
/// deviations as the estimate has them; the truth's are sqrt(truth / estimate) times that. A faultless sampler breaks
/// the bound of 5.5 of them and five samples in one of 20 million runs. What it finds for sure is off by nine: no test
/// of 5 %.
///
/// # Errors
/// Says by how much it is off.
pub fn estimated(truth: f64, estimate: f64, half_width: f64) -> Result<(), String> {
    let guessed = half_width / 2.0;
    let deviation = guessed * (truth / estimate).sqrt();
    let sample = guessed * guessed / estimate;
    let (off, bound) = ((estimate - truth).abs(), FAULTLESS * deviation + 5.0 * sample);
    // Not a number where there is no estimate: that is no proof of being right.
    if off <= bound {
        return Ok(());
    }
    Err(format!("estimate {estimate} ± {half_width} of {truth}: off by {off} > {bound}"))
}

/// The L1 distance that a perfect sampler of `n` independent samples has on average from the shares `p`, which sum to
/// 1.
///
/// Each count is binomial; for a normal approximation E|p̂ - p| = sqrt(2 p (1 - p) / (π n)).
pub fn expected_l1(p: &[f64], n: f64) -> f64 {
    p.iter().map(|p| (2.0 * p * (1.0 - p) / (std::f64::consts::PI * n)).sqrt()).sum()
}

/// The L1 distance between two distributions given as weights; each is scaled to sum 1 first.
pub fn l1(truth: &[f64], seen: &[f64]) -> f64 {
    let (t, s): (f64, f64) = (truth.iter().sum(), seen.iter().sum());
    truth.iter().zip(seen).map(|(a, b)| (a / t - b / s).abs()).sum()
}

#[cfg(test)]
mod tests;
