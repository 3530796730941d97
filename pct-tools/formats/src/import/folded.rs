//! Folded stacks: `a;b;c 123` lines. A count is read as that many samples of 1 ms.

use super::problem::Problem;
use pct_profile::model::{Builder, FrameId, Object, ObjectKind, Process, Profile, StackId, Weight};
use rustc_hash::FxHashMap;

/// Nanoseconds that one count stands for: the format has no unit.
const UNIT_NS: u64 = 1_000_000;

pub(super) fn read(text: &str) -> Result<Profile, Problem> {
    let mut b = Builder::new(false);
    let process =
        b.process(Process { name: "folded".into(), clock: "imported".into(), ..Process::default() });
    let thread = b.thread(process, 0, "");
    let object = b.object(Object { path: "[folded]".into(), build_id: None, kind: ObjectKind::Unknown });
    let mut frames: FxHashMap<&str, FrameId> = FxHashMap::default();
    // The frames of the line before, because lines are often sorted: where each name ends, and the stack up to it.
    let mut before: (&str, Vec<(usize, StackId)>) = ("", Vec::new());
    let mut bad: Option<(usize, u64)> = None;
    let mut good = 0u64;
    for (i, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let parsed = line.rsplit_once(' ').and_then(|(s, n)| Some((s, n.parse::<u64>().ok()?)));
        let Some((stack, count)) = parsed else {
            let (first, n) = bad.unwrap_or((i + 1, 0));
            bad = Some((first, n + 1));
            continue;
        };
        let same = stack.bytes().zip(before.0.bytes()).take_while(|(a, b)| a == b).count();
        let ends = |end: usize| stack.as_bytes().get(end).is_none_or(|c| *c == b';');
        let path = &mut before.1;
        path.truncate(path.iter().take_while(|(end, _)| *end <= same && ends(*end)).count());
        let (mut from, mut at) = path.last().map_or((0, None), |(end, at)| (*end, Some(*at)));
        for name in stack[from..].split(';') {
            let end = from + name.len();
            from = end + 1;
            if name.is_empty() {
                continue;
            }
            let frame = *frames.entry(name).or_insert_with(|| {
                let function = b.function(object, name);
                b.plain_frame(function)
            });
            let id = b.stack(at, frame);
            at = Some(id);
            path.push((end, id));
        }
        before.0 = stack;
        if let Some(stack) = at {
            let weight = Weight { samples: count, user_ns: count.saturating_mul(UNIT_NS), system_ns: 0 };
            b.add(thread, stack, weight);
            good += 1;
        }
    }
    match bad {
        Some((line, _)) if good == 0 => Err(Problem {
            place: format!("line {line}"),
            problem: "expected `function;function count` (folded stacks), perf script output or pprof".into(),
        }),
        None if good == 0 => Err(Problem { place: "line 1".into(), problem: "no sample in it".into() }),
        bad => {
            if let Some((line, n)) = bad {
                b.profile_mut()
                    .account
                    .note(format!("line {line}: no count at its end; {n} such lines left out"));
            }
            b.profile_mut().account.note(
                "folded text has no unit: each count was taken for a sample of 1 ms of CPU time".to_owned(),
            );
            Ok(b.finish())
        }
    }
}
