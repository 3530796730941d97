//! From a recording to the first page of `pct view`: `cargo run --release -p pct --example first_page [-- FILE...]`.
//!
//! Made-up recordings of a million samples each, as folded stacks, and the files that were named. Each is read by a
//! process of its own, so that memory is its own too. Columns: elapsed seconds for reading, for the deep profile of it
//! (graph, data, and what the stacks say), for its preprocessing, for the page; all of it; CPU seconds of all threads;
//! the most memory that was in use.
//!
//! - `steady`: 2,000 distinct stacks, as an ordinary program has them;
//! - `many`: some 40,000 distinct stacks that grow out of common ones, as a large program has them;
//! - `random`: 200,000 stacks of 5 to 40 frames, each frame any of 5,000 functions: nothing is shared, no
//!   program is like that;
//! - `family`: 200,000 stacks of a family of 40 functions that all call each other: everything folds, into
//!   very many contexts.

use pct_deep::Compensation;
use pct_kit::{Cpu, Dice};
use pct_native::graph::MOST_EDGES;
use pct_native::{Apart, make};
use pct_reports::page::{self, Request};
use pct_reports::render::html::PageContext;
use pct_reports::subject::Subject;
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

fn main() -> Outcome<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if let [flag, file] = &args[..]
        && flag == "--one"
    {
        return one(file.as_ref());
    }
    let dir = tempfile::tempdir()?;
    let mut files: Vec<String> = args;
    if files.is_empty() {
        for (name, make) in CASES {
            let path = dir.path().join(name);
            std::fs::write(&path, make(&mut Dice::new(7)))?;
            files.push(path.to_string_lossy().into_owned());
        }
    }
    println!(
        "{:<20} {:>9} {:>9} {:>7} {:>7} {:>7} {:>7} {:>7} {:>7} {:>6}",
        "recording", "stacks", "contexts", "read", "deep", "prep", "page", "all s", "cpu s", "MB"
    );
    for file in files {
        let out = Command::new(std::env::current_exe()?).arg("--one").arg(&file).output()?;
        let name = Path::new(&file).file_name().unwrap_or_default().to_string_lossy().into_owned();
        print!("{name:<20} {}{}", String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
    }
    Ok(())
}

/// Reads one recording and makes its first page.
fn one(file: &Path) -> Outcome<()> {
    let mut marks = vec![Instant::now()];
    let profile = pct_formats::import(file)?;
    marks.push(Instant::now());
    let made = make(&profile, &profile.cells, Apart::default(), MOST_EDGES)?;
    let stacks = profile.cells.len();
    drop(profile);
    marks.push(Instant::now());
    let recorded = made.recorded.clone();
    let deep = made.profile(Compensation::Exact)?;
    let contexts = deep.pd_count();
    let subject = Subject::of_recording(deep, recorded, file);
    marks.push(Instant::now());
    let page = page::html(&subject, &Request::parse("menu")?, &PageContext::default());
    marks.push(Instant::now());
    assert!(page.body.len() > 1000 && page.failure.is_none(), "the page is whole");
    let s = |a: usize, b: usize| (marks[b] - marks[a]).as_secs_f64();
    println!(
        "{stacks:>9} {contexts:>9} {:>7.2} {:>7.2} {:>7.2} {:>7.2} {:>7.2} {:>7.2} {:>6}",
        s(0, 1),
        s(1, 2),
        s(2, 3),
        s(3, 4),
        s(0, 4),
        Cpu::own().total(),
        pct_kit::peak_kib("self") / 1024
    );
    // As the program that is measured: it does not clean up either.
    std::process::exit(0);
}

type Case = (&'static str, fn(&mut Dice) -> String);
const CASES: &[Case] = &[("steady", steady), ("many", many), ("random", random), ("family", family)];

fn name(out: &mut String, function: usize) {
    let _ = write!(out, "module{}::function_{function}", function % 37);
}

/// Lines of stacks: `stacks` of them, each of `frames` functions that `next` draws (knowing the depth and the
/// function before).
fn lines(
    dice: &mut Dice,
    stacks: usize,
    count: usize,
    (least, most): (usize, usize),
    mut next: impl FnMut(&mut Dice, usize, usize) -> usize,
) -> String {
    let mut out = String::new();
    for _ in 0..stacks {
        let (frames, mut at) = (least + dice.index(most - least + 1), 0);
        for depth in 0..frames {
            at = next(dice, depth, at);
            name(&mut out, at);
            out.push(if depth + 1 == frames { ' ' } else { ';' });
        }
        let _ = writeln!(out, "{count}");
    }
    out
}

fn steady(dice: &mut Dice) -> String {
    lines(
        dice,
        2_000,
        500,
        (5, 40),
        |dice, depth, at| if depth < 3 { depth } else { (at * 3 + dice.index(3) + 1) % 3_000 },
    )
}

fn many(dice: &mut Dice) -> String {
    lines(dice, 200_000, 5, (5, 40), |dice, depth, at| {
        if depth < 6 { depth } else { (at * 2 + usize::from(dice.one_in(12)) + 1) % 5_000 }
    })
}

fn random(dice: &mut Dice) -> String {
    lines(dice, 200_000, 5, (5, 40), |dice, _, _| dice.index(5_000))
}

fn family(dice: &mut Dice) -> String {
    lines(dice, 200_000, 5, (5, 40), |dice, depth, _| if depth == 0 { 99 } else { dice.index(40) })
}
