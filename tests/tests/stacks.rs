//! Stacks are whole and right: against call paths that the victim prints, and on real programs without frame pointers.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use pct_format::record::{Frame, Stack};
use pct_format::{CutCause, File, Index};
use pct_tests::pct::{Run, run};
use pct_tests::victims::victim;
use pct_tests::{skip, tool_or_skip};

/// Samples of all files of a recording: how many, how many with a whole stack, and why the others were cut.
#[derive(Debug, Default)]
struct Shares {
    samples: u64,
    whole: u64,
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

fn shares(run: &Run) -> Shares {
    let mut out = Shares::default();
    each_stack(&run.dir, |_, _, _, frames| {
        out.samples += 1;
        out.frames += frames.len() as u64;
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

/// Runs a command under pct and asserts that 99.5 % of at least `least` stacks are whole (one cut stack is
/// always allowed: threads that start while the file is being made).
fn whole(command: &[&str], options: &[&str], least: u64) -> Shares {
    let r = run(options, command);
    assert!(r.output.status.success(), "{command:?}: {}", r.stderr());
    let s = shares(&r);
    eprintln!("{command:?}: {s:?}");
    assert!(s.samples >= least, "{command:?}: {s:?}");
    let cut = s.samples - s.whole;
    assert!(cut <= (s.samples / 200).max(1), "{command:?}: {s:?}");
    // Few instructions, once a thread: more of them would be walks that found nothing and did not say so.
    assert!(s.alone <= s.samples / 50 + 2, "{command:?}: {s:?}");
    s
}

/// A process whose first thread has ended has no maps and no memory under its own number; those of its living
/// threads do.
#[test]
fn a_process_whose_first_thread_has_ended_keeps_its_stacks_and_names() {
    let victim = victim("relay.c");
    let command = [victim.to_str().unwrap(), "4", "0.2", "leave"];
    for options in [&["--hz", "997"][..], &["--clock", "wall"]] {
        let r = run(options, &command);
        assert!(r.output.status.success(), "{}", r.stderr());
        let s = shares(&r);
        // the very first samples come while the file is being made; and this machine may be slow
        assert!(s.samples > 30 && s.whole * 10 >= s.samples * 9, "{options:?}: {s:?}");
        let rows = r.report(&["--by", "function"]);
        let unknown = pct_tests::pct::seconds_in(&rows, "[unknown]");
        let all: f64 = rows.iter().map(|row| row.cpu_seconds).sum();
        assert!(unknown <= 0.05 * all, "{options:?}: {unknown:.3} s of {all:.3} have no name");
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
    let r = run(&["--hz", "997"], &[program.to_str().expect("UTF-8")]);
    assert!(r.output.status.success(), "{}", r.stderr());
    let stdout = r.stdout();
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
    assert!(judged.len() == 5 && judged.values().all(|&n| n >= 20), "each path was sampled: {judged:?}");
    assert!(wrong.len() as u64 * 500 <= total.max(500), "{} of {total}: {:?}", wrong.len(), wrong.first());
}

#[test]
fn exceptions_and_plugins_have_whole_stacks() {
    let exceptions = victim("exceptions.cpp");
    whole(&[exceptions.to_str().expect("UTF-8"), "60000"], &["--hz", "997"], 100);
    let (program, plugin) = (victim("dlloop.c"), victim("plugin.c"));
    whole(&[program.to_str().expect("UTF-8"), plugin.to_str().expect("UTF-8"), "40"], &["--hz", "997"], 100);
}

#[test]
fn coroutines_of_makecontext_have_whole_stacks() {
    let s = whole(&[victim("contexts.c").to_str().expect("UTF-8"), "300"], &["--hz", "997"], 50);
    // The caller of the function and the coroutine's own first frame, nothing beyond.
    assert!(s.frames <= 3 * s.samples, "{s:?}");
}

#[test]
fn a_deep_recursion_is_cut_at_the_depth_asked_for_and_says_so() {
    let program = victim("recursion.c");
    let command = [program.to_str().expect("UTF-8"), "3000"];
    let r = run(&["--hz", "997"], &command);
    let s = shares(&r);
    assert!(s.cuts.get("Depth").is_some_and(|&n| n * 10 > s.samples * 9), "{s:?}");
    let s = whole(&command, &["--hz", "997", "--depth", "20000"], 50);
    assert!(s.frames > 2500 * s.samples, "{s:?}");
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
    let script = "def fib(n): return n if n < 2 else fib(n-1) + fib(n-2)\nfor i in range(8):\n fib(23)\n sorted(range(100000), key=lambda x: -x)";
    let query = "with recursive c(x) as (select 1 union all select x+1 from c where x < 600000) select count(distinct x%1000), sum(x%7) from c;";
    for (tool, arguments) in [
        ("gzip", &["-9c", data][..]),
        ("xz", &["-1", "-T1", "-kc", data][..]),
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
        let mut command = vec![path.to_str().expect("UTF-8")];
        command.extend(arguments);
        whole(&command, &["--hz", "997"], 30);
    }
    // A Rust program: pct itself, at work on a recording.
    let pct = pct_tests::pct::binary();
    let r = run(&["--hz", "997"], &[victim("exceptions.cpp").to_str().expect("UTF-8"), "20000"]);
    let recording = r.dir.to_str().expect("UTF-8");
    match pct.to_str() {
        Some(pct) => drop(whole(&[pct, "report", recording], &["--hz", "4000"], 10)),
        None => skip(test, "the path of pct is not UTF-8"),
    }
}

#[test]
fn no_sample_and_no_housekeeping_calls_the_programs_allocator() {
    let program = victim("counting.c");
    let r = run(&["--hz", "4000"], &[program.to_str().expect("UTF-8")]);
    assert_eq!(r.stdout(), "before some allocations 0\n", "{}", r.stderr());
    let s = shares(&r);
    assert!(s.samples > 100 && s.whole * 10 > s.samples * 9 && s.frames > 10 * s.whole, "{s:?}");
}
