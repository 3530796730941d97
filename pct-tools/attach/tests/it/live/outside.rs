//! Method 5 on real programs: they are sampled, and never know.

#![expect(clippy::zombie_processes, reason = "the tracer reaps the child")]

use pct_attach::facts;
use pct_attach::outside::{Ended, Follow, Outside, Settings};
use pct_attach::ptrace::sys::Signals;
use pct_attach::subject::Manner;
use pct_format::header::{Clock, StackMode};
use pct_format::record::{Frame, Stack};
use pct_format::{File, Index};
use pct_kit::harm::harm;
use pct_kit::wait::wait_until;
use std::io::Read as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::victims;

fn settings(hz: u32, clock: Clock, folder: &Path) -> Settings {
    let stacks = StackMode::Auto;
    let manner = Manner {
        clock_asked: clock,
        clock,
        hz,
        stacks,
        depth: 512,
        limit: 16 << 20,
        python: true,
        java: true,
        javascript: true,
    };
    Settings { manner, follow: Follow::All, first_only: false, folder: folder.to_owned() }
}

/// The recording with the most samples: a starter that executes the interpreter may have one of its own.
fn largest(folder: &Path) -> Vec<u8> {
    let files = std::fs::read_dir(folder).unwrap().map(|e| std::fs::read(e.unwrap().path()).unwrap());
    let samples = |bytes: &Vec<u8>| Index::new(&File::parse(bytes).unwrap()).samples_by_time().count();
    files.max_by_key(samples).expect("a recording")
}

#[test]
fn python_is_sampled_with_whole_stacks_and_ends_as_it_would() {
    if !victims::alone("live::outside::python_is_sampled_with_whole_stacks_and_ends_as_it_would") {
        return;
    }
    if Command::new("python3").arg("-c").arg("0").status().is_err() {
        pct_kit::skip("python3 is not installed");
        return;
    }
    let code = "def f(n): return n if n < 2 else f(n-1) + f(n-2)\nprint(f(31))";
    let mut child = Command::new("python3").args(["-c", code]).stdout(Stdio::piped()).spawn().unwrap();
    let pid = child.id() as i32;
    wait_until("python3 to run", || {
        facts::read(pid).is_ok_and(|t| t.facts.name == "python3" && t.facts.has_dlopen)
    });
    let dir = tempfile::tempdir().unwrap();
    let signals = Signals::control();
    let settings = settings(500, Clock::Outside, dir.path());
    let mut outside = Outside::seize(pid, settings).unwrap();
    // the traced child's end is reported to us as its tracer, so the run lasts until it has ended
    assert_eq!(outside.run(Some(Duration::from_secs(60)), &signals).unwrap(), Ended::Target);
    let counts = outside.finish();
    let mut said = String::new();
    child.stdout.take().unwrap().read_to_string(&mut said).unwrap();
    if said != "1346269\n" {
        harm(&format!("python3 said {said:?}"));
    }
    assert!(counts.samples > 20, "{counts:?}");

    let bytes = largest(dir.path());
    let file = File::parse(&bytes).unwrap();
    let index = Index::new(&file);
    let (mut whole, mut all, mut deep) = (0, 0, 0);
    for (_, sample) in index.samples_by_time() {
        let Stack::Id(id) = sample.stack else { continue };
        let frames: Vec<Frame> = index.stacks.frames(id).collect();
        all += 1;
        whole += i32::from(!matches!(frames.last(), Some(Frame::Cut(_))));
        // from main to the evaluator; calls within Python take no C frame
        deep += i32::from(frames.len() > 6);
        let region = index.region_at(sample.pc, sample.time);
        assert!(region.is_some(), "{:#x} lies in no region", sample.pc);
    }
    assert!(all > 20 && whole * 100 >= all * 95, "{whole} of {all} stacks are whole");
    assert!(deep * 2 > all, "{deep} of {all} stacks are deep");
}
