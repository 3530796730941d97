//! Measures reading and preprocessing: a table of processor time, rate and memory by size and shape.
//!
//! `deep-bench [--mb N,N...] [--shapes mixed,deep,...] [--file FILE] [--dir DIR]`; run it with
//! `cargo run --release -p pct-deep --example deep-bench`. Each file is made once in DIR (default: the system's
//! temporary folder). Then a fresh process reads it each time, so that its peak memory counts alone; medians of 3.
//! `deep-bench --make SHAPE MB FILE` only makes a file, `deep-bench --measure FILE` is one run.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use pct_deep::synthetic::{Params, Shape, generate};
use pct_deep::{Compensation, Profile, Version, read_file};
use pct_kit::{Cpu, peak_kib};

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if let [mode, file] = args.as_slice()
        && mode == "--measure"
    {
        measure(Path::new(file));
        return;
    }
    if let [mode, name, mb, file] = args.as_slice()
        && mode == "--make"
    {
        make(Path::new(file), shape(name), mb.parse().unwrap_or_else(|_| usage()));
        return;
    }
    let mut sizes = vec![2, 20, 200];
    let mut shapes = vec![Shape::Mixed];
    let mut files = Vec::new();
    let mut dir = std::env::temp_dir();
    let mut args = args.into_iter();
    while let Some(arg) = args.next() {
        let value = args.next().unwrap_or_else(|| usage());
        match arg.as_str() {
            "--mb" => sizes = value.split(',').map(|n| n.parse().unwrap_or_else(|_| usage())).collect(),
            "--shapes" => shapes = value.split(',').map(shape).collect(),
            "--file" => files.push(PathBuf::from(value)),
            "--dir" => dir = PathBuf::from(value),
            _ => usage(),
        }
    }
    println!(
        "| profile | MB | contexts | edges | read ms | preprocess ms | MB/s | peak MB | peak/file | tables/file |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|");
    for file in files {
        row(&file.display().to_string(), &file);
    }
    for shape in shapes {
        for &mb in &sizes {
            let file = dir.join(format!("deep-bench-{}-{shape:?}-{mb}.data", std::process::id()));
            make(&file, shape, mb);
            row(&format!("{shape:?}"), &file);
            let _ = std::fs::remove_file(&file);
        }
    }
}

fn usage() -> ! {
    eprintln!(
        "usage: deep-bench [--mb N,N...] [--shapes mixed,deep,wide,recursive,closures] [--file FILE] [--dir DIR]"
    );
    std::process::exit(2);
}

fn shape(name: &str) -> Shape {
    Shape::ALL.into_iter().find(|s| format!("{s:?}").eq_ignore_ascii_case(name)).unwrap_or_else(|| usage())
}

/// Makes a profile of about `mb` megabytes, estimated from a small one's octets per context.
fn make(file: &Path, shape: Shape, mb: u32) {
    let params = |contexts| Params { shape, contexts, procs: 1000, ..Params::default() };
    let octets = |contexts| {
        let data = generate(&params(contexts)).expect("sizes are small enough");
        (
            pct_deep::to_octets(&data, Version::V9).expect("version 9 carries all").len() as f64,
            data.pd_count() as f64,
        )
    };
    let ((small, few), (large, many)) = (octets(20_000), octets(200_000));
    let per_context = (large - small) / (many - few).max(1.0);
    // Not every shape uses its whole budget.
    let used = many / 200_000.0;
    let contexts = f64::from(mb) * 1e6 / per_context / used;
    let data = generate(&params(contexts as u32)).expect("sizes are small enough");
    let mut out = std::io::BufWriter::new(std::fs::File::create(file).expect("the folder can be written"));
    pct_deep::write(&data, Version::V9, &mut out).expect("version 9 carries all");
    out.flush().expect("there is room");
}

/// One run in this process: prints figures for [`row`].
fn measure(file: &Path) {
    let start = Cpu::own().total();
    let data = read_file(file).unwrap_or_else(|e| fail(&e));
    let read = Cpu::own().total() - start;
    let profile = Profile::new(data, Compensation::Exact).unwrap_or_else(|e| fail(&e));
    let whole = Cpu::own().total() - start;
    let tables = profile.heap_bytes();
    println!(
        "{read} {whole} {} {tables} {} {}",
        peak_kib("self") * 1024,
        profile.pd_count(),
        profile.csd_count()
    );
}

fn fail(error: &dyn std::fmt::Display) -> ! {
    eprintln!("{error}");
    std::process::exit(1);
}

fn row(name: &str, file: &Path) {
    let octets = std::fs::metadata(file).map_or(0, |m| m.len()) as f64;
    let mut runs: Vec<Vec<f64>> = (0..3)
        .map(|_| {
            let me = std::env::current_exe().expect("this program has a path");
            let out = Command::new(me)
                .arg("--measure")
                .arg(file)
                .stderr(Stdio::inherit())
                .output()
                .expect("it runs");
            if !out.status.success() {
                std::process::exit(1);
            }
            String::from_utf8_lossy(&out.stdout)
                .split_whitespace()
                .map(|n| n.parse().expect("a number"))
                .collect()
        })
        .collect();
    runs.sort_by(|a, b| a[1].total_cmp(&b[1]));
    let [read, whole, peak, tables, pds, csds] = runs[1][..] else { return };
    println!(
        "| {name} | {:.1} | {pds} | {csds} | {:.1} | {:.1} | {:.0} | {:.0} | {:.2} | {:.2} |",
        octets / 1e6,
        read * 1e3,
        (whole - read) * 1e3,
        octets / 1e6 / whole,
        peak / 1e6,
        peak / octets,
        tables / octets
    );
}
