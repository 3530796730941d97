//! How long a picture takes: `cargo run --release -p pct-icicle --example icicle_bench [SAMPLES] [FILE.svg]`.
//! Builds a tree of SAMPLES (default 1,000,000) stacks of depth 10 to 40 over 5,000 names and draws it; prints a table.
#![forbid(unsafe_code)]
use pct_icicle::{Options, Tree, svg};
use std::time::Instant;

fn main() {
    let mut args = std::env::args().skip(1);
    let samples: u64 = args.next().and_then(|a| a.parse().ok()).unwrap_or(1_000_000);
    let names: Vec<String> = (0..5000).map(|i| format!("module_{}::function_{i}", i % 40)).collect();
    let mut dice = pct_kit::Dice::new(1);
    let start = Instant::now();
    let mut tree = Tree::new("all");
    let mut stack: Vec<&str> = Vec::new();
    for _ in 0..samples {
        stack.clear();
        let depth = 10 + dice.below(31);
        let mut at = 0u64;
        for level in 0..depth {
            // Calls go to one of a few callees, mostly the first, as in real programs.
            let pick = dice.below(1000).saturating_sub(970) / 8;
            at = (at * 31 + pick + level) % 5000;
            stack.push(&names[at as usize]);
        }
        tree.add_stack(stack.iter().copied(), 1);
    }
    let built = start.elapsed();
    let start = Instant::now();
    let picture =
        svg(&tree, &Options { title: "bench".into(), unit: "samples".into(), ..Options::default() });
    let drawn = start.elapsed();
    println!("{:>12} {:>12} {:>10} {:>10} {:>12}", "samples", "nodes", "build ms", "draw ms", "SVG bytes");
    println!(
        "{samples:>12} {:>12} {:>10.1} {:>10.1} {:>12}",
        tree.len(),
        built.as_secs_f64() * 1e3,
        drawn.as_secs_f64() * 1e3,
        picture.len()
    );
    if let Some(file) = args.next() {
        std::fs::write(&file, picture).unwrap_or_else(|e| eprintln!("{file}: {e}"));
    }
}
