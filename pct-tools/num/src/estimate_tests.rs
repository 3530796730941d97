//! The estimators against simulated sampling: what share of the intervals covers the truth, for amounts from
//! half an interval of sampling to a hundred of them.

use super::*;
use crate::rounded;
use pct_kit::Dice;

const N: u64 = 1 << 19;

/// A number between 0 and 1, both excluded.
fn uniform(dice: &mut Dice) -> f64 {
    ((dice.roll() >> 11) as f64 + 0.5) / (1u64 << 53) as f64
}

/// How many of `blocks` blocks are sampled: by the gaps between sampled ones, which are geometric.
fn sampled(dice: &mut Dice, blocks: u64, p: f64) -> u64 {
    let rate = (-p).ln_1p();
    let (mut at, mut found) = (0.0, 0);
    loop {
        at += 1.0 + (uniform(dice).ln() / rate).floor();
        if at > blocks as f64 {
            return found;
        }
        found += 1;
    }
}

/// What a site allocates: (size, number of blocks) of each size.
type Site = Vec<(u64, u64)>;

fn sites_of(bytes: f64) -> Vec<(&'static str, Site)> {
    let of = |size: u64, share: f64| (size, ((bytes * share / size as f64).round() as u64).max(1));
    let mix = |sizes: &[u64]| sizes.iter().map(|&size| of(size, 1.0 / sizes.len() as f64)).collect();
    vec![
        ("16 B", mix(&[16])),
        ("1 KiB", mix(&[1024])),
        ("N/16", mix(&[N / 16])),
        ("16 B to 16 KiB", mix(&[16, 128, 1024, 16384])),
        ("mostly small", vec![of(24, 0.8), of(N / 8, 0.2)]),
        ("N/4", mix(&[N / 4])),
    ]
}

/// Bytes and blocks as estimated in one run.
fn run(dice: &mut Dice, site: &Site, interval: u64) -> (Estimate, Estimate) {
    let mut bytes = Estimate::nothing(interval as f64);
    let mut blocks = Estimate::default();
    for &(size, count) in site {
        for _ in 0..sampled(dice, count, sampling_probability(size, interval)) {
            bytes += Estimate::of_bytes(size, interval);
            blocks += Estimate::of_blocks(size, interval);
        }
    }
    (bytes, blocks)
}

fn truth(site: &Site) -> (f64, f64) {
    let bytes: u64 = site.iter().map(|(size, count)| size * count).sum();
    (bytes as f64, site.iter().map(|(_, count)| *count as f64).sum())
}

const CLASSES: [f64; 7] = [0.5, 1.0, 1.9, 3.0, 5.0, 10.0, 100.0];
const RUNS: u32 = 4000;

#[test]
fn intervals_cover_the_truth_in_every_class_of_size() {
    let mut dice = Dice::new(18);
    let mut all = Vec::new();
    for class in CLASSES {
        for (name, site) in sites_of(class * N as f64) {
            let (bytes, _) = truth(&site);
            let mut covered = 0;
            for _ in 0..RUNS {
                let limits = run(&mut dice, &site, N).0.interval();
                covered += u32::from(limits.low <= bytes && bytes <= limits.high);
            }
            let share = f64::from(covered) / f64::from(RUNS);
            assert!(share >= 0.94, "{class} N of {name}: {share}");
            all.push(share);
        }
    }
    let mean = all.iter().sum::<f64>() / all.len() as f64;
    println!("mean coverage {mean:.4}, least {:.4}", all.iter().copied().fold(1.0, f64::min));
    assert!(mean >= 0.95, "{mean}");
}

#[test]
fn blocks_are_covered_where_a_site_was_seen() {
    let mut dice = Dice::new(19);
    for class in [3.0, 5.0, 10.0, 100.0] {
        for (name, site) in sites_of(class * N as f64) {
            // Blocks of a size that hardly ever is sampled are not known about: sites of one size only.
            if site.len() > 1 {
                continue;
            }
            let (_, blocks) = truth(&site);
            let (mut covered, mut seen) = (0, 0);
            for _ in 0..RUNS {
                let estimate = run(&mut dice, &site, N).1;
                if estimate.is_empty() {
                    continue;
                }
                let limits = estimate.interval();
                seen += 1;
                covered += u32::from(limits.low <= blocks && blocks <= limits.high);
            }
            let share = f64::from(covered) / f64::from(seen);
            assert!(share >= 0.94, "{class} N of {name}: {share}");
        }
    }
}

/// What a small interval saw of a site says little of what a large one missed of it later.
#[test]
fn amounts_are_covered_though_the_interval_rose_meanwhile() {
    const RISE: u64 = 32;
    let mut dice = Dice::new(20);
    for (class, size) in
        [5.0, 10.0, 100.0].into_iter().flat_map(|class| [(class, 16), (class, 1024), (class, N / 16)])
    {
        for early_share in [0.05, 0.2, 0.5] {
            let blocks = (class * N as f64 / size as f64).round();
            let early = rounded(blocks * early_share);
            let parts = [(early, N), (rounded(blocks) - early, N * RISE)];
            let (mut seen, mut covered_bytes, mut covered_blocks) = (0, 0, 0);
            for _ in 0..RUNS {
                let (mut bytes, mut number) = (Estimate::default(), Estimate::default());
                for (count, interval) in parts {
                    for _ in 0..sampled(&mut dice, count, sampling_probability(size, interval)) {
                        bytes += Estimate::of_bytes(size, interval).or_unseen((N * RISE) as f64);
                        let missed = Estimate::of_blocks(size, N * RISE).unseen;
                        number += Estimate::of_blocks(size, interval).or_unseen(missed);
                    }
                }
                if bytes.is_empty() {
                    continue;
                }
                let within = |of: Estimate, truth: f64| {
                    let limits = of.interval();
                    u32::from(limits.low <= truth && truth <= limits.high)
                };
                seen += 1;
                covered_bytes += within(bytes, blocks * size as f64);
                covered_blocks += within(number, blocks);
            }
            for (what, covered) in [("bytes", covered_bytes), ("blocks", covered_blocks)] {
                let share = f64::from(covered) / f64::from(seen);
                assert!(
                    share >= 0.94,
                    "{class} N of {size}, {early_share} of it early: {what} {share} of {seen}"
                );
            }
        }
    }
}

#[test]
fn estimate_and_variance_are_without_bias() {
    let mut dice = Dice::new(20);
    for (name, site) in sites_of(5.0 * N as f64) {
        let (true_bytes, true_blocks) = truth(&site);
        let runs = 20_000;
        let (mut bytes, mut blocks, mut squares, mut variances) = (0.0, 0.0, 0.0, 0.0);
        for _ in 0..runs {
            let (b, n) = run(&mut dice, &site, N);
            bytes += b.amount;
            blocks += n.amount;
            squares += (b.amount - true_bytes).powi(2);
            variances += b.variance;
        }
        let runs = f64::from(runs);
        let error = (squares / runs / runs).sqrt();
        assert!((bytes / runs - true_bytes).abs() < 4.0 * error, "{name}: {}", bytes / runs / true_bytes);
        assert!((blocks / runs / true_blocks - 1.0).abs() < 0.05, "{name}: {}", blocks / runs / true_blocks);
        assert!((variances / squares - 1.0).abs() < 0.05, "{name}: {}", variances / squares);
    }
}

#[test]
fn thinned_samples_are_as_if_sampled_at_the_larger_interval() {
    let mut dice = Dice::new(21);
    let site: Site = vec![(64, 40_000), (4096, 800), (N / 4, 20), (3 * N, 2)];
    let (true_bytes, _) = truth(&site);
    let (mut thinned, mut squares, mut fresh) = (0.0, 0.0, 0.0);
    let runs = 4000;
    for _ in 0..runs {
        let mut sum = Estimate::default();
        for &(size, count) in &site {
            for _ in 0..sampled(&mut dice, count, sampling_probability(size, N)) {
                // three times in a row, as when a table fills again and again
                let kept =
                    (0..3).all(|i| uniform(&mut dice) < thinning_probability(size, N << i, N << (i + 1)));
                if kept {
                    sum += Estimate::of_bytes(size, 8 * N);
                }
            }
        }
        thinned += sum.amount;
        squares += (sum.amount - true_bytes).powi(2);
        fresh += (run(&mut dice, &site, 8 * N).0.amount - true_bytes).powi(2);
    }
    let runs = f64::from(runs);
    assert!((thinned / runs - true_bytes).abs() < 4.0 * (squares / runs / runs).sqrt());
    assert!(
        (squares / fresh).sqrt() > 0.93 && (squares / fresh).sqrt() < 1.07,
        "{}",
        (squares / fresh).sqrt()
    );
}

#[test]
fn weights_are_right_from_one_octet_to_the_largest_size() {
    // 1 - exp(-x) would have lost half its digits here.
    let p = sampling_probability(1, N);
    assert!((p * N as f64 - (1.0 - 0.5 / N as f64)).abs() < 1e-12, "{p}");
    assert!((sampling_probability(N, N) - (1.0 - (-1f64).exp())).abs() < 1e-15);
    assert_eq!(sampling_probability(64 * N, N), 1.0);
    assert_eq!(sampling_probability(1 << 62, N), 1.0);
    assert_eq!((sampling_probability(0, N), sampling_probability(7, 0)), (p, sampling_probability(7, 1)));
    let small = Estimate::of_bytes(1, N);
    assert!((small.amount - N as f64).abs() < 1.0, "{small:?}");
    let large = Estimate::of_bytes(64 * N, N);
    assert_eq!((large.amount, large.variance), ((64 * N) as f64, 0.0));
    assert_eq!(large.interval().low, large.amount);
    let largest = Estimate::of_bytes(1 << 62, N);
    assert_eq!(largest.amount, (1u64 << 62) as f64);
    assert!(largest.interval().high.is_finite());
}

#[test]
fn without_a_sample_the_upper_limit_is_the_detection_limit() {
    let none = Estimate::nothing(N as f64).interval();
    assert_eq!(none.low, 0.0);
    assert!((none.high / N as f64 - 3.689).abs() < 0.001, "{}", none.high / N as f64);
    assert_eq!(detection_limit(N), none.high);
    assert_eq!(Estimate::default().interval(), Interval { low: 0.0, high: 0.0 });
}

#[test]
fn damaged_numbers_give_the_widest_interval() {
    for bad in [f64::NAN, f64::INFINITY, -1.0] {
        let limits = Estimate { samples: 1, amount: bad, ..Estimate::default() }.interval();
        assert_eq!((limits.low, limits.high), (0.0, f64::INFINITY), "{bad}");
    }
    let limits = Estimate { samples: 1, amount: 5.0, variance: f64::NAN, ..Estimate::default() }.interval();
    assert!(limits.low >= 0.0 && limits.high >= 5.0, "{limits:?}");
}

#[test]
fn rounding_keeps_the_sum() {
    assert_eq!(round_to_sum(&[0.5, 0.5, 0.5, 0.5]), [1, 1, 0, 0]);
    assert_eq!(round_to_sum(&[1.25, 2.5, 3.25]), [1, 3, 3]);
    assert_eq!(round_to_sum(&[f64::NAN, -3.0, 4.0]), [0, 0, 4]);
    assert_eq!(round_to_sum(&[]), [0u64; 0]);
    let mut dice = Dice::new(22);
    for _ in 0..1000 {
        let amounts: Vec<f64> = (0..dice.index(50)).map(|_| uniform(&mut dice) * 1000.0).collect();
        let whole = round_to_sum(&amounts);
        let sum: f64 = amounts.iter().sum();
        assert!((whole.iter().sum::<u64>() as f64 - sum).abs() <= 0.5 + 1e-9);
        assert!(whole.iter().zip(&amounts).all(|(w, a)| (*w as f64 - a).abs() < 1.0));
    }
}

#[test]
fn the_relative_width_says_how_sure_an_estimate_is() {
    let width = |sizes: &[u64]| {
        sizes
            .iter()
            .map(|&size| Estimate::of_bytes(size, N))
            .sum::<Estimate>()
            .relative_width()
            .expect("some")
    };
    // Of small blocks the number of samples decides.
    assert!((5.4..5.7).contains(&width(&[16])), "{}", width(&[16]));
    assert!((3.4..3.6).contains(&width(&[16, 16])), "{}", width(&[16, 16]));
    assert!((2.6..2.8).contains(&width(&[16, 16, 16])), "{}", width(&[16, 16, 16]));
    // One block that is much larger than the interval of sampling is exact, but for what was not sampled beside it.
    assert!(width(&[600 * N]) < 0.01);
    assert!(width(&[2 * N]) < width(&[N]));
    assert_eq!(Estimate::nothing(N as f64).relative_width(), None);
}
