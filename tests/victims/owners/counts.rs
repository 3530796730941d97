// build: rustc -O -g --edition 2021
// The standard library's collections and formatting do the work. Prints how much, by its own clock.
use std::collections::HashMap;
use std::hint::black_box;

fn thread_seconds() -> f64 {
    #[repr(C)]
    struct Time {
        seconds: i64,
        nanoseconds: i64,
    }
    unsafe extern "C" {
        fn clock_gettime(clock: i32, time: *mut Time) -> i32;
    }
    let mut time = Time { seconds: 0, nanoseconds: 0 };
    // SAFETY: 3 is the clock of this thread's CPU time; the place is a timespec.
    unsafe { clock_gettime(3, &mut time) };
    time.seconds as f64 + time.nanoseconds as f64 / 1e9
}

#[inline(never)]
fn count(words: &[String]) {
    let mut counts: HashMap<&str, u32> = HashMap::new();
    for word in words {
        *counts.entry(word.as_str()).or_insert(0) += 1;
    }
    black_box(counts);
}

#[inline(never)]
fn render(words: &[String]) {
    black_box(words.iter().enumerate().map(|(at, word)| format!("{at}: {word:?}\n")).collect::<String>());
}

#[inline(never)]
fn order(words: &[String]) {
    let mut sorted = words.to_vec();
    sorted.sort();
    black_box(sorted);
}

fn spend(name: &str, work: fn(&[String]), words: &[String], seconds: f64) {
    let start = thread_seconds();
    while thread_seconds() - start < seconds {
        work(words);
    }
    println!("truth counts::{name} {}", thread_seconds() - start);
}

fn main() {
    let words: Vec<String> = (0..2000_u32).map(|i| format!("w{}", i.wrapping_mul(2654435761) % 500)).collect();
    spend("count", count, &words, 0.48);
    spend("order", order, &words, 0.24);
    spend("render", render, &words, 0.12);
}
