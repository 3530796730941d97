//! Writes a simulated kernel trace of a given size, and beside it `DIR.truth` with what happened in it.
//!
//!     cargo run --release -p pct-kit --example kernel_trace -- DIR [MEGABYTES [CPUS [THREADS OF A CPU]]]

use std::io::Write as _;
use std::path::PathBuf;

use pct_kit::kernel_trace::{Shape, write};

fn main() -> std::io::Result<()> {
    let mut words = std::env::args().skip(1);
    let dir = PathBuf::from(words.next().unwrap_or_else(|| "kernel-trace".into()));
    let mut numbers = words.filter_map(|word| word.parse::<u32>().ok());
    let shape = Shape {
        octets: u64::from(numbers.next().unwrap_or(20)) << 20,
        cpus: numbers.next().unwrap_or(4),
        threads: numbers.next().unwrap_or(25),
        seed: 1,
    };
    let truth = write(&dir, &shape)?;
    let mut out = std::fs::File::create(dir.with_extension("truth"))?;
    for (name, n) in &truth.events {
        writeln!(out, "events {name} {n}")?;
    }
    for (thread, ns) in &truth.on_cpu_ns {
        writeln!(out, "on-cpu-ns {thread} {ns}")?;
    }
    println!("{}: {} events, {} MB", dir.display(), truth.total(), truth.octets >> 20);
    Ok(())
}
