//! The number routines beside the standard library and itoa: nanoseconds a number, best of several rounds.
//!
//!     cargo run --release -p pct-num --example num_bench [NUMBERS]
//!
//! Two kinds of numbers: short (counts of a profile, 1 to 6 digits, short ones more often) and long (64-bit, all
//! lengths of bits alike). All bodies of a row get the same numbers in interleaved rounds; sums of what they
//! wrote are compared.

mod losing;

use std::fmt::Write as _;
use std::hint::black_box;
use std::time::Instant;

use pct_kit::Dice;
use pct_num::{Layout, MAX_DIGITS, bodies, ndigits, num2str_batch, num2str_into, str2num};

type Run<'a> = Box<dyn FnMut(&[u64]) -> u64 + 'a>;
type Body<'a> = (&'static str, Run<'a>);

fn main() {
    let count: usize = std::env::args().nth(1).and_then(|a| a.parse().ok()).unwrap_or(100_000);
    let mut dice = Dice::new(1);
    let short: Vec<u64> = (0..count).map(|_| dice.roll() % 10u64.pow(dice.below(6) as u32 + 1)).collect();
    let long: Vec<u64> = (0..count).map(|_| dice.roll() >> dice.below(64)).collect();

    println!("{:<34} {:>10} {:>10}", "ns a number", "short", "long");
    table("decimal", &short, &long, || {
        vec![
            ("num2str, single digits", writer(losing::decimal_single)),
            ("num2str, pairs", writer(bodies::decimal_pairs)),
            ("num2str, quads", writer(losing::decimal_quads)),
            ("num2str, float reciprocal", writer(losing::decimal_reciprocal)),
            ("itoa", itoa_writer()),
            ("std write!", std_writer(|n, s| write!(s, "{n}"))),
        ]
    });
    table("hexadecimal", &short, &long, || {
        vec![
            ("num2str, single digits", writer(bodies::pow2_single::<16>)),
            ("num2str, pairs", writer(losing::hex_pairs)),
            ("num2str, words", writer(bodies::hex_words)),
            ("std write!", std_writer(|n, s| write!(s, "{n:x}"))),
        ]
    });
    table("binary", &short, &long, || {
        vec![
            ("num2str, single digits", writer(bodies::pow2_single::<2>)),
            ("num2str, bytes at once", writer(bodies::binary_words)),
            ("std write!", std_writer(|n, s| write!(s, "{n:b}"))),
        ]
    });
    table("octal", &short, &long, || {
        vec![
            ("num2str, single digits", writer(bodies::pow2_single::<8>)),
            ("std write!", std_writer(|n, s| write!(s, "{n:o}"))),
        ]
    });
    table("column of 20, a number a line", &short, &long, || {
        vec![
            ("num2str_batch", batch()),
            (
                "num2str_into, one by one",
                Box::new(|numbers| {
                    let mut out = Vec::new();
                    for n in numbers {
                        num2str_into::<10>(*n, Layout::column(20), &mut out);
                        out.push(b'\n');
                    }
                    out.len() as u64
                }),
            ),
            (
                "std writeln!",
                Box::new(|numbers| {
                    let mut out = String::new();
                    for n in numbers {
                        let _ = writeln!(out, "{n:20}");
                    }
                    out.len() as u64
                }),
            ),
        ]
    });
    table("digits of a decimal", &short, &long, || {
        vec![
            ("ndigits, branching", counter(losing::ndigits10_branching)),
            ("ndigits, bisection", counter(losing::ndigits10_bisection)),
            ("ndigits, branch-free", counter(bodies::ndigits10_branch_free)),
            ("std ilog10", counter(|n| n.checked_ilog10().unwrap_or(0) as usize + 1)),
        ]
    });
    table("decimal text to number", &short, &long, || {
        vec![
            parser("str2num", |t| str2num::<10>(t.as_bytes()).unwrap_or(0), |n| n.to_string()),
            parser("std parse", |t| t.parse().unwrap_or(0), |n| n.to_string()),
        ]
    });
    table("hexadecimal text to number", &short, &long, || {
        vec![
            parser("str2num", |t| str2num::<16>(t.as_bytes()).unwrap_or(0), |n| format!("{n:x}")),
            parser("std from_str_radix", |t| u64::from_str_radix(t, 16).unwrap_or(0), |n| format!("{n:x}")),
        ]
    });
    black_box(ndigits::<10>(black_box(1)));
}

fn table<'a>(title: &str, short: &[u64], long: &[u64], bodies: impl Fn() -> Vec<Body<'a>>) {
    println!("-- {title}");
    let measure = |numbers: &[u64]| -> Vec<(&'static str, f64)> {
        let mut bodies = bodies();
        let mut best = vec![f64::INFINITY; bodies.len()];
        let mut sums = vec![0; bodies.len()];
        for _ in 0..15 {
            for (i, (_, body)) in bodies.iter_mut().enumerate() {
                let start = Instant::now();
                sums[i] = black_box(body(black_box(numbers)));
                best[i] = best[i].min(start.elapsed().as_secs_f64() * 1e9 / numbers.len() as f64);
            }
        }
        assert!(sums.iter().all(|s| *s == sums[0]), "{title}: the bodies differ: {sums:?}");
        bodies.iter().map(|b| b.0).zip(best).collect()
    };
    for ((name, short), (_, long)) in measure(short).into_iter().zip(measure(long)) {
        println!("{name:<34} {short:>10.2} {long:>10.2}");
    }
}

/// The text's bytes are put one after the other into a buffer, as a printer does.
fn writer<'a>(body: impl Fn(u64, &mut [u8; MAX_DIGITS]) -> usize + 'a) -> Run<'a> {
    let mut out = Vec::new();
    Box::new(move |numbers| {
        out.clear();
        let mut bytes = [0; MAX_DIGITS];
        for n in numbers {
            let first = body(*n, &mut bytes);
            out.extend_from_slice(&bytes[first..]);
        }
        out.len() as u64
    })
}

fn itoa_writer<'a>() -> Run<'a> {
    let mut out = Vec::new();
    Box::new(move |numbers| {
        out.clear();
        let mut buffer = itoa::Buffer::new();
        for n in numbers {
            out.extend_from_slice(buffer.format(*n).as_bytes());
        }
        out.len() as u64
    })
}

fn std_writer<'a>(write: impl Fn(u64, &mut String) -> std::fmt::Result + 'a) -> Run<'a> {
    let mut out = String::new();
    Box::new(move |numbers| {
        out.clear();
        for n in numbers {
            let _ = write(*n, &mut out);
        }
        out.len() as u64
    })
}

fn batch<'a>() -> Run<'a> {
    Box::new(|numbers| {
        let mut out = Vec::new();
        num2str_batch::<10>(numbers.iter().copied(), Layout::column(20), b"\n", &mut out);
        out.len() as u64
    })
}

fn counter<'a>(body: impl Fn(u64) -> usize + 'a) -> Run<'a> {
    Box::new(move |numbers| numbers.iter().map(|n| body(*n) as u64).sum())
}

fn parser<'a>(
    name: &'static str,
    parse: impl Fn(&str) -> u64 + 'a,
    text: impl Fn(u64) -> String + 'a,
) -> Body<'a> {
    let mut texts: Vec<String> = Vec::new();
    (
        name,
        Box::new(move |numbers| {
            if texts.is_empty() {
                texts = numbers.iter().map(|n| text(*n)).collect();
            }
            texts.iter().map(|t| parse(t)).fold(0, u64::wrapping_add)
        }),
    )
}
