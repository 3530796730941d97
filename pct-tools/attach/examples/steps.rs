//! Where the time of an attach goes: `cargo run --release -p pct-attach --example steps -- PID LIBRARY [2|4]
//! [ROUNDS]` attaches and detaches and prints, step by step, the microseconds since the thread was asked to
//! stop (of the round with the median total). Runs of short steps are summed up.

use pct_attach::blob::{Blob, by_blob};
use pct_attach::facts;
use pct_attach::inject::{by_dlopen, off};
use pct_attach::memory::ProcessMemory;
use pct_attach::ptrace::step::{ControllerStep, OBSERVER};
use std::sync::Mutex;
use std::time::Instant;

static SEEN: Mutex<Vec<(ControllerStep, Instant)>> = Mutex::new(Vec::new());

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let (Some(pid), Some(library)) = (args.get(1).and_then(|p| p.parse().ok()), args.get(2)) else {
        eprintln!("usage: steps PID LIBRARY [2|4] [ROUNDS]");
        std::process::exit(2);
    };
    let rounds = args.get(4).and_then(|n| n.parse().ok()).unwrap_or(1);
    let blob = Blob::parse(&std::fs::read(library).expect("readable")).expect("a sampler");
    let memory = ProcessMemory::open(pid, true).expect("its memory");
    OBSERVER.set(|step| SEEN.lock().expect("one thread").push((step, Instant::now()))).expect("once");
    let out = std::env::temp_dir().display().to_string();
    let mut all = Vec::new();
    for _ in 0..rounds {
        let target = facts::read(pid).expect("it is there");
        SEEN.lock().expect("one thread").clear();
        let options = format!("hz=100,out={out}");
        let done = match args.get(3).map(String::as_str) {
            Some("2") => by_dlopen(&target, &memory, library, &options, false),
            _ => by_blob(&target, &memory, &blob, &options),
        };
        let steps = SEEN.lock().expect("one thread").clone();
        match done {
            Ok(done) => all.push((done.stopped, steps)),
            Err(why) => eprintln!("{why}"),
        }
        let mut target = facts::read(pid).expect("it is there");
        target.note = all.last().map(|_| target.note).unwrap_or(None);
        if target.note.is_some() {
            let _ = off(&target, &memory);
        }
    }
    all.sort_by_key(|(total, _)| *total);
    let Some((total, steps)) = all.get(all.len() / 2) else { return };
    println!("stopped for {} us", total.as_micros());
    for pair in steps.windows(2) {
        let [(step, from), (_, to)] = pair else { continue };
        println!("{:>8} {:>7}  {step:?}", (*from - steps[0].1).as_micros(), (*to - *from).as_micros());
    }
}
