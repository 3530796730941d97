//! Stacks are whole and right: against call paths that the victim prints, and on real programs without frame pointers.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use pct_format::record::{Frame, Stack};
use pct_format::{CutCause, File, Index};
use pct_kit::noise::{Evidence, Rare, draw_on};
use pct_tests::pct::{Run, run};
use pct_tests::victims::victim;
use pct_tests::{skip, tool_or_skip};

/// Frames of a deep stack.
const DEEP: usize = 3000;

/// Samples of all files of a recording: how many, how many with a whole stack, with a deep one, and why others were
/// cut.
#[derive(Debug, Default)]
struct Stacks {
    samples: u64,
    whole: u64,
    deep: u64,
    /// Of these, samples of a thread that was in its outermost function.
    alone: u64,
    frames: u64,
    cuts: BTreeMap<String, u64>,
}

/// Calls `each` with every sample's PC and frames.
fn each_stack(dir: &Path, mut each: impl FnMut(&Index<'_>, u64, u64, &[Frame])) {
    for entry in std::fs::read_dir(dir).expect("the recording's folder") {
        let path = entry.expect("entry").path();
        if path.extension().is_none_or(|e| e != "pct") {
            continue;
        }
        let bytes = std::fs::read(&path).expect("readable");
        let file = File::parse(&bytes).expect("a whole file");
        let index = Index::new(&file);
        for (_, sample) in index.samples_by_time() {
            let frames: Vec<Frame> = match sample.stack {
                Stack::Id(id) => {
                    let frames: Vec<Frame> = index.stacks.frames(id).collect();
                    assert!(!frames.is_empty(), "stack {id} is not defined in {}", path.display());
                    frames
                }
                Stack::Frames(frames) => frames.iter().collect(),
                _ => Vec::new(),
            };
            each(&index, sample.time, sample.pc, &frames);
        }
    }
}

fn stacks(run: &Run) -> Stacks {
    let mut out = Stacks::default();
    each_stack(&run.dir, |_, _, _, frames| {
        out.samples += 1;
        out.frames += frames.len() as u64;
        out.deep += u64::from(frames.len() >= DEEP);
        match frames.last() {
            Some(Frame::Cut(cause)) => *out.cuts.entry(format!("{cause:?}")).or_default() += 1,
            Some(_) => out.whole += 1,
            // A walk that fails leaves its cause. This one ended where it began: at a thread's first instructions.
            None => {
                out.whole += 1;
                out.alone += 1;
            }
        }
    });
    out
}

impl Stacks {
    /// All but so many of the samples.
    fn but(&self, right: u64, usual: f64) -> Rare {
        Rare { seen: (self.samples - right) as f64, of: self.samples as f64, usual, each_run: 1.0 }
    }

    /// 99.5 % of stacks are whole (and one of each run may be cut: threads that start while the file is being made).
    /// Few are alone, once a thread: more of them would be walks that found nothing and did not say so.
    fn whole(&self) -> (Rare, Rare) {
        let alone = Rare { seen: self.alone as f64, each_run: 2.0, ..self.but(0, 0.02) };
        (self.but(self.whole, 0.005), alone)
    }
}

/// Runs a command, made for so many times as long, under pct: its stacks.
fn of(command: &[String], options: &[&str]) -> Stacks {
    let command: Vec<&str> = command.iter().map(String::as_str).collect();
    let r = run(options, &command);
    r.unharmed();
    let s = stacks(&r);
    eprintln!("{command:?}: {s:?}");
    s
}

fn pooled<E: Evidence>(mut all: E, more: E) -> E {
    all.add(more);
    all
}

/// A command of words and one number.
fn command(words: &[&Path], number: u32) -> Vec<String> {
    let words = words.iter().map(|word| word.to_str().expect("UTF-8").to_owned());
    words.chain([number.to_string()]).collect()
}

/// A process whose first thread has ended has no maps and no memory under its own number; those of its living
/// threads do.
#[test]
fn a_process_whose_first_thread_has_ended_keeps_its_stacks_and_names() {
    let victim = victim("relay.c");
    for options in [&["--hz", "997"][..], &["--clock", "wall", "--hz", "500"]] {
        draw_on(|times| {
            let seconds = (0.2 * f64::from(times)).to_string();
            let r = run(options, &[victim.to_str().unwrap(), "4", &seconds, "leave"]);
            r.unharmed();
            let s = stacks(&r);
            let rows = r.report(&["--by", "function"]);
            let unknown = pct_tests::pct::samples_in(&rows, "[unknown]");
            // The very first samples come while the file is being made.
            let whole = Rare { each_run: 10.0, ..s.but(s.whole, 0.05) };
            (whole, Rare { seen: unknown, of: pct_tests::pct::samples(&rows), usual: 0.02, each_run: 10.0 })
        });
    }
}

/// Function names of an object by `nm`: (address, name), sorted.
fn functions(path: &Path) -> Vec<(u64, String)> {
    let out = Command::new("nm").arg("-n").arg(path).output().expect("nm");
    let text = String::from_utf8(out.stdout).expect("UTF-8");
    text.lines()
        .filter_map(|line| {
            let mut words = line.split_whitespace();
            let address = u64::from_str_radix(words.next()?, 16).ok()?;
            matches!(words.next()?, "t" | "T").then_some(())?;
            Some((address, words.next()?.to_owned()))
        })
        .collect()
}

#[test]
fn every_sample_of_a_leaf_has_the_path_that_the_program_prints() {
    if tool_or_skip("nm", "every_sample_of_a_leaf_has_the_path_that_the_program_prints").is_none() {
        return;
    }
    let program = victim("paths.c");
    let names = functions(&program);
    draw_on(|times| paths_are_right(&program, &names, &(100 * times).to_string()));
}

/// How many samples of the leaves have another path.
fn paths_are_right(program: &Path, names: &[(u64, String)], rounds: &str) -> Rare {
    let r = run(&["--hz", "997"], &[program.to_str().expect("UTF-8"), rounds]);
    let stdout = r.unharmed();
    let paths: Vec<Vec<&str>> = stdout
        .lines()
        .filter_map(|l| l.strip_prefix("path "))
        .map(|l| l.split_whitespace().collect())
        .collect();
    assert_eq!(paths.len(), 5);
    let (mut judged, mut wrong) = (BTreeMap::<String, u64>::new(), Vec::new());
    each_stack(&r.dir, |index, time, pc, frames| {
        // Names of the victim's own functions on the stack, innermost first. The executable's code lies at
        // its file offset.
        let name = |pc: u64| {
            let region = index.region_at(pc, time)?;
            (region.facts.path == program.as_os_str().as_encoded_bytes()).then_some(())?;
            let at = pc - region.facts.start + region.facts.offset;
            let found = names.partition_point(|n| n.0 <= at).checked_sub(1)?;
            Some(names[found].1.as_str())
        };
        let mut stack: Vec<&str> = name(pc).into_iter().collect();
        for frame in frames {
            match frame {
                Frame::Return(pc) => stack.extend(name(pc - 1)),
                Frame::Exact(pc) => stack.extend(name(*pc)),
                Frame::Code(_) | Frame::NoCode(_) => stack.push("CODE"),
                Frame::Boundary(_) | Frame::Kernel(_) | Frame::Blocked(_) => stack.push("KERNEL"),
                // While one thread makes the file another has no modules yet: said, and not wrong.
                Frame::Cut(CutCause::NotRead) => return,
                Frame::Cut(_) => stack.push("CUT"),
            }
        }
        let Some(path) = paths.iter().find(|p| stack.first() == p.first()) else { return };
        *judged.entry(path[0].to_owned()).or_default() += 1;
        // What called main, and what the program's start-up files are called, is not the victim's to know.
        stack.retain(|n| !n.starts_with('_') && *n != "frame_dummy");
        if stack != *path {
            wrong.push(stack.join(" "));
        }
    });
    let total: u64 = judged.values().sum();
    eprintln!("{judged:?}, {} wrong", wrong.len());
    assert!(judged.len() == 5, "each path was sampled: {judged:?}");
    eprintln!("{:?}", wrong.first());
    Rare { seen: wrong.len() as f64, of: total as f64, usual: 0.001, each_run: 0.0 }
}

#[test]
fn exceptions_and_plugins_have_whole_stacks() {
    let exceptions = victim("exceptions.cpp");
    draw_on(|times| of(&command(&[&exceptions], 60_000 * times), &["--hz", "997"]).whole());
    let (program, plugin) = (victim("dlloop.c"), victim("plugin.c"));
    draw_on(|times| of(&command(&[&program, &plugin], 100 * times), &["--hz", "997"]).whole());
}

#[test]
fn coroutines_of_makecontext_have_whole_stacks() {
    let program = victim("contexts.c");
    draw_on(|times| {
        let s = of(&command(&[&program], 300 * times), &["--hz", "997"]);
        // The caller of the function and the coroutine's own first frame, nothing beyond.
        assert!(s.frames <= 3 * s.samples, "{s:?}");
        s.whole()
    });
}

#[test]
fn a_deep_recursion_is_cut_at_the_depth_asked_for_and_says_so() {
    let program = victim("recursion.c");
    let command = |times: u32| command(&[&program, Path::new("3000")], 60 * times);
    // Beside: the way down, and the program's start.
    draw_on(|times| {
        let s = of(&command(times), &["--hz", "997"]);
        s.but(s.cuts.get("Depth").copied().unwrap_or(0), 0.05)
    });
    draw_on(|times| {
        let s = of(&command(times), &["--hz", "997", "--depth", "20000"]);
        (s.whole(), s.but(s.deep, 0.05))
    });
}

#[test]
fn programs_as_distributed_have_whole_stacks() {
    let test = "programs_as_distributed_have_whole_stacks";
    let dir = tempfile::tempdir().expect("a temporary folder");
    // Something that compresses neither well nor badly: our own executable, a few times.
    let own = std::fs::read(std::env::current_exe().expect("own path")).expect("readable");
    let data = dir.path().join("data");
    let some: Vec<u8> = own.iter().copied().cycle().take(12 << 20).collect();
    std::fs::write(&data, some).expect("written");
    let data = data.to_str().expect("UTF-8");
    let script = "def fib(n): return n if n < 2 else fib(n-1) + fib(n-2)\nfor i in range(8 * TIMES):\n fib(23)\n sorted(range(100000), key=lambda x: -x)";
    let query = "with recursive c(x) as (select 1 union all select x+1 from c where x < 600000 * TIMES) select count(distinct x%1000), sum(x%7) from c;";
    for (tool, arguments) in [
        ("gzip", &["-9c", "FILES"][..]),
        ("xz", &["-1", "-T1", "-kc", "FILES"][..]),
        ("python3", &["-c", script][..]),
        ("sqlite3", &[":memory:", query][..]),
    ] {
        let Some(path) = tool_or_skip(tool, test) else { continue };
        let path = if path.components().any(|c| c.as_os_str() == "shims")
            && Path::new("/usr/bin").join(tool).exists()
        {
            Path::new("/usr/bin").join(tool)
        } else {
            path
        };
        draw_on(|times| {
            let mut command = vec![path.to_str().expect("UTF-8").to_owned()];
            for argument in arguments {
                let files = if *argument == "FILES" { times } else { 1 };
                let argument = argument.replace("FILES", data).replace("TIMES", &times.to_string());
                command.extend((0..files).map(|_| argument.clone()));
            }
            of(&command, &["--hz", "997"]).whole()
        });
    }
    // A Rust program: pct itself, at work on a recording.
    let pct = pct_tests::pct::binary();
    let Some(pct) = pct.to_str() else { return skip(test, "the path of pct is not UTF-8") };
    let r = run(&["--hz", "997"], &[victim("exceptions.cpp").to_str().expect("UTF-8"), "20000"]);
    let recording = r.dir.to_str().expect("UTF-8");
    // It cannot do the same for longer: so often.
    draw_on(|times| {
        let report = [pct, "report", recording].map(str::to_owned);
        (0..2 * times).map(|_| of(&report, &["--hz", "4000"]).whole()).reduce(pooled).expect("some")
    });
}

#[test]
fn no_sample_and_no_housekeeping_calls_the_programs_allocator() {
    let program = victim("counting.c");
    draw_on(|times| {
        let seconds = (0.5 * f64::from(times)).to_string();
        let r = run(&["--hz", "4000"], &[program.to_str().expect("UTF-8"), &seconds]);
        let said = r.unharmed();
        if said != "before some allocations 0\n" {
            pct_kit::harm::harm(&said);
        }
        stacks(&r).whole()
    });
}
