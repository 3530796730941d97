//! How complete are the stacks of recorded files? `cargo run -p pct-format --example stacks -- FILE.pct...`
//!
//! For each file: samples, share of complete stacks, causes of cuts with the region of the frame at which they
//! happened, frames per stack, distinct stacks, bytes of the file.

use std::collections::BTreeMap;

use pct_format::record::{Frame, Stack};
use pct_format::{File, Index};

fn main() {
    for path in std::env::args().skip(1) {
        let bytes = match std::fs::read(&path) {
            Ok(bytes) => bytes,
            Err(e) => {
                eprintln!("{path}: {e}");
                continue;
            }
        };
        let file = match File::parse(&bytes) {
            Ok(file) => file,
            Err(e) => {
                eprintln!("{path}: {e}");
                continue;
            }
        };
        let index = Index::new(&file);
        let (mut samples, mut whole, mut none, mut frames, mut own) = (0u64, 0u64, 0u64, 0u64, 0u64);
        let mut cuts: BTreeMap<(String, String), u64> = BTreeMap::new();
        for (_, sample) in index.samples_by_time() {
            samples += 1;
            let stack: Vec<Frame> = match sample.stack {
                Stack::Id(0) => Vec::new(),
                Stack::Id(id) => index.stacks.frames(id).collect(),
                Stack::Frames(frames) => {
                    own += 1;
                    frames.iter().collect()
                }
                _ => Vec::new(),
            };
            let mut at = sample.pc;
            let mut cut = None;
            for frame in &stack {
                match frame {
                    Frame::Return(pc) | Frame::Exact(pc) => at = *pc,
                    Frame::Code(_)
                    | Frame::NoCode(_)
                    | Frame::Boundary(_)
                    | Frame::Kernel(_)
                    | Frame::Blocked(_) => {}
                    Frame::Cut(cause) => cut = Some(format!("{cause:?}")),
                }
            }
            frames += stack.len() as u64;
            match cut {
                _ if stack.is_empty() => none += 1,
                None => whole += 1,
                Some(cause) => {
                    let region = index.region_at(at, sample.time);
                    let place = region.map_or(format!("unknown {at:#x}"), |r| {
                        let path = String::from_utf8_lossy(&r.facts.path).into_owned();
                        if std::env::var_os("PLACES").is_some() {
                            format!("{path}+{:#x}", at - r.facts.start + r.facts.offset)
                        } else {
                            path
                        }
                    });
                    *cuts.entry((cause, place)).or_default() += 1;
                }
            }
        }
        let share = |n: u64| 100.0 * n as f64 / samples.max(1) as f64;
        println!(
            "{path}: {samples} samples, {:.2} % whole, {none} without a stack, {:.1} frames a stack, {} nodes, {own} with frames of their own, {} bytes",
            share(whole),
            frames as f64 / samples.max(1) as f64,
            index.stacks.len(),
            bytes.len(),
        );
        let mut cuts: Vec<_> = cuts.into_iter().collect();
        cuts.sort_by_key(|(_, n)| std::cmp::Reverse(*n));
        for ((cause, place), n) in cuts.into_iter().take(12) {
            println!("    {:6.2} %  {cause:<14} {place}", share(n));
        }
    }
}
