//! Folded stacks: `a;b;c 123` lines. A count is taken as so many samples of 1 ms.

use super::Problem;
use pct_profile::model::{Builder, Object, ObjectKind, Process, Profile, Weight};

/// Nanoseconds that one count stands for: the format has no unit.
const UNIT_NS: u64 = 1_000_000;

pub(super) fn read(text: &str) -> Result<Profile, Problem> {
    let mut b = Builder::new(false);
    let process =
        b.process(Process { name: "folded".into(), clock: "imported".into(), ..Process::default() });
    let thread = b.thread(process, 0, "");
    let object = b.object(Object { path: "[folded]".into(), build_id: None, kind: ObjectKind::Unknown });
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
        let mut at = None;
        for name in stack.split(';').filter(|n| !n.is_empty()) {
            let function = b.function(object, name);
            let frame = b.plain_frame(function);
            at = Some(b.stack(at, frame));
        }
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
            Ok(b.finish())
        }
    }
}
