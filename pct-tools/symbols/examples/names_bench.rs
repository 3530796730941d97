//! Lookups in a name list of a million lines: lookups per second, and the time to the first answer.
//!
//!     cargo run --release -p pct-symbols --example names_bench [LINES]

use std::io::Write;
use std::time::Instant;

use pct_symbols::names::{Form, Names};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let lines: u64 = std::env::args().nth(1).map_or(Ok(1_000_000), |a| a.parse())?;
    let dir = std::env::temp_dir().join(format!("pct-names-bench-{}", std::process::id()));
    std::fs::create_dir(&dir)?;
    let (plain, padded) = (dir.join("plain"), dir.join("padded"));
    {
        let mut a = std::io::BufWriter::new(std::fs::File::create(&plain)?);
        let mut b = std::io::BufWriter::new(std::fs::File::create(&padded)?);
        for i in 0..lines {
            let name = format!("_ZN4core3ptr{}drop_in_place{i}E", "x".repeat((i * 7 % 41) as usize));
            writeln!(a, "{:016x} T {name}", 0x40_0000 + i * 48)?;
            writeln!(b, "{:016x} T {name:<80}", 0x40_0000 + i * 48)?;
        }
    }
    let mut dice = pct_kit::Dice::new(1);
    let probes: Vec<u64> = (0..1_000_000).map(|_| 0x40_0000 + dice.below(lines * 48)).collect();
    println!(
        "{:<24} {:>10} {:>14} {:>16} {:>14} {:>14}",
        "list", "MB", "first, us", "random, cold/s", "random/s", "sorted/s"
    );
    for (name, path, form) in [("lines", &plain, Form::Lines), ("padded", &padded, Form::Padded)] {
        let start = Instant::now();
        let names = Names::open(path, form)?;
        let first = names.find(probes[0])?.map(|h| h.start);
        let first_us = start.elapsed().as_secs_f64() * 1e6;
        assert!(first.is_some());
        let rate = |probes: &[u64]| -> Result<f64, Box<dyn std::error::Error>> {
            let start = Instant::now();
            for p in probes {
                let hit = names.find(*p)?.ok_or("every probe is in the list")?;
                assert_eq!(hit.start, 0x40_0000 + (p - 0x40_0000) / 48 * 48);
            }
            Ok(probes.len() as f64 / start.elapsed().as_secs_f64())
        };
        let cold = rate(&probes)?;
        let random = rate(&probes)?;
        let mut sorted = probes.clone();
        sorted.sort_unstable();
        let ordered = rate(&sorted)?;
        let mb = std::fs::metadata(path)?.len() as f64 / 1e6;
        println!("{name:<24} {mb:>10.1} {first_us:>14.0} {cold:>16.0} {random:>14.0} {ordered:>14.0}");
    }
    std::fs::remove_dir_all(&dir)?;
    Ok(())
}
