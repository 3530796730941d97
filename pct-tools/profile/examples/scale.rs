//! How reading grows with samples: makes logs of stack samples in memory, writes them out and times loading, flat
//! table and tree. `cargo run --release -p pct-profile --example scale [SAMPLES...]`
//!
//! `PCT_SCALE_KEEP=1` leaves the files in the temporary folder.
//!
//! The samples lie in this very program, so symbols are real: addresses are spread over its text.

use pct_format::builder::Builder;
use pct_format::record::Frame;
use pct_profile::flat::Order;
use pct_profile::load::{Options, load};
use pct_profile::{By, CallTree, Flat, Split};
use std::time::Instant;

fn main() {
    let sizes: Vec<u64> = std::env::args().skip(1).filter_map(|word| word.parse().ok()).collect();
    let sizes = if sizes.is_empty() { vec![10_000, 100_000, 1_000_000] } else { sizes };
    println!(
        "{:>10} {:>8} {:>8} {:>8} {:>8} {:>8} {:>8}",
        "samples", "MB", "stacks", "load s", "flat s", "tree s", "peak MB"
    );
    for samples in sizes {
        let path = std::env::temp_dir().join(format!("pct-scale-{}.pct", std::process::id()));
        let bytes = log(samples);
        std::fs::write(&path, &bytes).expect("written");
        let megabytes = bytes.len() as f64 / 1e6;
        drop(bytes);
        let began = Instant::now();
        let profile = load(std::slice::from_ref(&path), &Options::default()).expect("loaded");
        let loaded = began.elapsed().as_secs_f64();
        let began = Instant::now();
        let flat = Flat::count_cells(&profile, &profile.cells, Some(By::Function), Split::Merged, Order::Own);
        let flat_s = began.elapsed().as_secs_f64();
        let began = Instant::now();
        let tree = CallTree::top_down(&profile, &profile.cells, By::Function, Split::Merged);
        let tree_s = began.elapsed().as_secs_f64();
        assert_eq!(flat.total.samples, samples);
        assert_eq!(tree.total.samples, samples);
        println!(
            "{samples:>10} {megabytes:>8.1} {:>8} {loaded:>8.3} {flat_s:>8.3} {tree_s:>8.3} {:>8.0}",
            profile.stacks.len(),
            pct_kit::peak_kib("self") as f64 / 1000.0
        );
        if std::env::var_os("PCT_SCALE_KEEP").is_some() {
            std::fs::rename(&path, path.with_file_name(format!("pct-scale-{samples}.pct"))).expect("renamed");
        } else {
            std::fs::remove_file(&path).expect("removed");
        }
    }
}

/// A program of some thousand stacks of up to 60 frames, 4 threads.
fn log(samples: u64) -> Vec<u8> {
    let exe = std::env::current_exe().expect("known");
    let text = exe.metadata().expect("there").len() / 4;
    let mut b = Builder::new();
    b.set_header_word(pct_format::layout::header::STACK_MODE, 4);
    b.region(1, 1, 0x10_0000..0x10_0000 + 4 * text, 0, 0, b"", exe.as_os_str().as_encoded_bytes());
    let threads: Vec<u32> = (0..4).map(|n| b.thread(1, 1000 + n, b"worker")).collect();
    let mut dice = pct_kit::Dice::new(1);
    let address = |n: u64| 0x10_0000 + text + (n * 997) % text;
    let stacks: Vec<u32> = (0..4000)
        .map(|n| {
            let depth = 10 + dice.below(50);
            let frames: Vec<Frame> =
                (0..depth).map(|level| Frame::Return(address(level * 40 + dice.below(3) + n % 7))).collect();
            b.stack(&frames)
        })
        .collect();
    for n in 0..samples {
        // Each stack is interrupted at some of the instructions of its innermost function.
        let at = dice.below(stacks.len() as u64);
        let stack = stacks[at as usize];
        let thread = threads[(n % 4) as usize];
        b.sample(thread, (n + 1) * 250_000, address(at * 5 + dice.below(16)), 1, false, stack);
    }
    b.finish()
}
