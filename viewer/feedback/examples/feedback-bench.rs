//! Measures the time and the memory of `mdprof_create_feedback`: a table for made-up programs and for given profiles.
//!
//! ```text
//! cargo run --release -p pct-feedback --example feedback-bench [-- [--keep FOLDER] [--procs N]... [X.data]...]
//! ```
//! Made-up programs are written to the given folder and stay there. Each run is a separate process (this program
//! again): reading, analysis, writing. Times are medians of five.
#![forbid(unsafe_code)]

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Instant;

use pct_feedback::model::Params;
use pct_feedback::{create, file, synthetic};

const RUNS: usize = 5;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if let [run, data, out] = args.as_slice()
        && run == "--run"
    {
        return one_run(data, out);
    }
    let folder = match tempfile::tempdir() {
        Ok(folder) => folder,
        Err(e) => {
            eprintln!("feedback-bench: {e}");
            return ExitCode::FAILURE;
        }
    };
    let mut keep: Option<PathBuf> = None;
    let mut profiles: Vec<(String, PathBuf)> = Vec::new();
    let mut args = args.into_iter();
    let mut made = false;
    while let Some(arg) = args.next() {
        if arg == "--procs" {
            let Some(procs) = args.next().and_then(|n| n.parse().ok()) else {
                eprintln!("feedback-bench: --procs needs a number");
                return ExitCode::from(2);
            };
            profiles.push(make(keep.as_deref().unwrap_or(folder.path()), procs));
            made = true;
        } else if arg == "--keep" {
            keep = args.next().map(PathBuf::from);
        } else {
            profiles.push((arg.clone(), arg.into()));
        }
    }
    if !made {
        for procs in [1000, 10_000] {
            profiles.push(make(keep.as_deref().unwrap_or(folder.path()), procs));
        }
    }
    println!(
        "{:<40} {:>8} {:>8} {:>9} {:>9} {:>10} {:>9}",
        "profile", "data MB", "rep MB", "wall s", "best s", "memory MB", "found"
    );
    for (name, data) in profiles {
        let out = folder.path().join("out.feedback");
        let mut walls = Vec::new();
        let mut memory = 0.0_f64;
        for _ in 0..RUNS {
            let _ = std::fs::remove_file(&out);
            let Ok(program) = std::env::current_exe() else { return ExitCode::FAILURE };
            let start = Instant::now();
            let output = Command::new(program).arg("--run").arg(&data).arg(&out).output();
            walls.push(start.elapsed().as_secs_f64());
            match output {
                Ok(o) if o.status.success() => {
                    memory = memory.max(String::from_utf8_lossy(&o.stdout).trim().parse().unwrap_or(0.0));
                }
                Ok(o) => {
                    eprintln!("{name}: {}", String::from_utf8_lossy(&o.stderr));
                    return ExitCode::FAILURE;
                }
                Err(e) => {
                    eprintln!("{name}: {e}");
                    return ExitCode::FAILURE;
                }
            }
        }
        walls.sort_by(f64::total_cmp);
        let found = file::read(&out, None).ok().and_then(|f| f.candidates);
        let found: usize = found.map_or(0, |c| c.procs.iter().map(|(_, p)| p.candidates.len()).sum());
        let size = |path: &Path| std::fs::metadata(path).map_or(0.0, |m| m.len() as f64 / 1e6);
        let rep = pct_feedback::input::rep_path(&data).unwrap_or_default();
        let name =
            name.rsplit('/').take(2).collect::<Vec<_>>().into_iter().rev().collect::<Vec<_>>().join("/");
        println!(
            "{name:<40} {:>8.2} {:>8.2} {:>9.3} {:>9.3} {memory:>10.1} {found:>9}",
            size(&data),
            size(&rep),
            walls[RUNS / 2],
            walls[0]
        );
    }
    ExitCode::SUCCESS
}

/// Makes a program of this many procedures, and writes its profile and representation.
fn make(folder: &Path, procs: usize) -> (String, PathBuf) {
    let program = synthetic::forest(procs, 1);
    let bodies = program.procs.iter().filter(|p| p.body.is_some()).count();
    let data = folder.join(format!("forest{procs}.data"));
    let profile = program.data().expect("tables hold it");
    let octets = pct_deep::to_octets(&profile, pct_deep::Version::V9).expect("version 9 holds it");
    std::fs::write(&data, octets).expect("a temporary file is written");
    std::fs::write(data.with_extension("procrep"), program.rep()).expect("a temporary file is written");
    (format!("forest of {bodies} bodies"), data)
}

/// The measured work. The last line is the peak memory in MB.
fn one_run(data: &str, out: &str) -> ExitCode {
    let request = create::Request {
        data: data.into(),
        feedback: out.into(),
        params: Params::default(),
        verbosity: 0,
        debug_read: false,
        report: false,
    };
    let status = create::create("feedback-bench", &request, &mut std::io::sink(), &mut std::io::stderr());
    let _ = writeln!(std::io::stdout(), "{:.1}", pct_kit::peak_kib("self") as f64 / 1024.0);
    ExitCode::from(status.unwrap_or(1))
}
