//! All selections of fields that `perf script -F` prints of samples, in the widths of perf 6.1.

use crate::foreign::own;
use pct_formats::import::{Wanted, parse_with};
use pct_profile::Profile;
use std::collections::BTreeSet;
use std::path::Path;

struct Sample {
    name: &'static str,
    pid: u32,
    tid: u32,
    us: u64,
    period: u64,
    /// Innermost first.
    stack: &'static [&'static str],
}

/// Names with spaces, colons and digits, and periods and ids of few and of many digits.
const SAMPLES: &[Sample] = &[
    Sample { name: "worker 7", pid: 7, tid: 8, us: 1, period: 250_000, stack: &["a", "main"] },
    Sample {
        name: "tmux: server",
        pid: 4_194_303,
        tid: 4_194_303,
        us: 2,
        period: 12_345_678_901,
        stack: &["b", "main"],
    },
    Sample { name: "dd", pid: 54321, tid: 54322, us: 3, period: 1, stack: &["a", "f(int) const", "main"] },
    Sample { name: "dd", pid: 54323, tid: 54323, us: 4, period: 1_001_001, stack: &["_start"] },
    Sample { name: "12", pid: 1530, tid: 1530, us: 99_999_999, period: 999_999_999, stack: &["a", "main"] },
    Sample { name: "(sd-pam)", pid: 1531, tid: 1531, us: 100_000_000, period: 5, stack: &["b", "b", "main"] },
];

/// What is printed.
#[derive(Clone, Copy, Debug)]
struct Fields {
    comm: bool,
    pid: bool,
    tid: bool,
    cpu: bool,
    time: bool,
    period: bool,
    event: bool,
    /// Else the address of the innermost frame, in the line of the header.
    chain: bool,
}

impl Fields {
    fn all() -> impl Iterator<Item = Self> {
        (0..256u32).map(|bits| {
            let has = |bit: u32| bits >> bit & 1 == 1;
            Self {
                comm: has(0),
                pid: has(1),
                tid: has(2),
                cpu: has(3),
                time: has(4),
                period: has(5),
                event: has(6),
                chain: has(7),
            }
        })
    }

    fn print(self, sample: &Sample) -> String {
        let mut out = String::new();
        let Sample { name, pid, tid, us, period, stack } = sample;
        if self.comm {
            out += &if self.chain { format!("{name} ") } else { format!("{name:>16} ") };
        }
        out += &match (self.pid, self.tid) {
            (true, true) => format!("{pid:>5}/{tid:<5} "),
            (true, false) => format!("{pid:>5} "),
            (false, true) => format!("{tid:>5} "),
            (false, false) => String::new(),
        };
        if self.cpu {
            out += "[003] ";
        }
        if self.time {
            out += &format!("{:>5}.{:06}: ", us / 1_000_000, us % 1_000_000);
        }
        if self.period {
            out += &format!("{period:>10} ");
        }
        if self.event {
            out += "cpu-clock:u: ";
        }
        let frames = stack.iter().enumerate();
        let mut frames =
            frames.map(|(i, name)| format!("{:>16x} {name}+0x{i:x} (/bin/prog)\n", 0x55d0_c0de_1230 + i));
        if self.chain {
            out += "\n";
            frames.for_each(|frame| out += &format!("\t{frame}"));
            out += "\n";
        } else {
            out += &format!(" {}", frames.next().unwrap_or_default());
        }
        out
    }
}

/// Times of samples from the first on, in nanoseconds.
fn times(profile: &Profile) -> Vec<u64> {
    profile.timeline.iter().map(|sample| sample.time_ns).collect()
}

#[test]
fn every_selection_of_fields_is_read() {
    for fields in Fields::all() {
        let text: String = SAMPLES.iter().map(|sample| fields.print(sample)).collect();
        let profile =
            parse_with(text.as_bytes(), Path::new("x"), Wanted { timeline: true, sample_type: None });
        let profile = profile.unwrap_or_else(|problem| panic!("{fields:?}: {problem}\n{text}"));
        let total = profile.total();
        assert_eq!(total.samples, 6, "{fields:?}");
        let sum: u64 = SAMPLES.iter().map(|sample| sample.period).sum();
        // What a period counts is known by the event.
        let amount = if fields.period && fields.event { sum } else { 6 };
        assert_eq!(total.cpu_ns(), amount, "{fields:?}");
        let own: Vec<(String, u64)> =
            own(&profile).into_iter().map(|(name, weight)| (name, weight.samples)).collect();
        assert_eq!(
            own,
            [("_start".to_owned(), 1), ("a".to_owned(), 3), ("b".to_owned(), 2)],
            "{fields:?}\n{text}"
        );
        let names: BTreeSet<&str> = profile.processes.iter().map(|process| process.name.as_str()).collect();
        let all: BTreeSet<&str> =
            SAMPLES.iter().map(|sample| if fields.comm { sample.name } else { "" }).collect();
        assert_eq!(names, all, "{fields:?}\n{text}");
        let processes = match (fields.pid || fields.tid, fields.comm) {
            (true, _) => 6,
            (false, true) => 5,
            (false, false) => 1,
        };
        assert_eq!(profile.processes.len(), processes, "{fields:?}");
        let pids: BTreeSet<u32> = profile.processes.iter().map(|process| process.pid).collect();
        let pid_of = |sample: &Sample| match (fields.pid, fields.tid) {
            (true, _) => sample.pid,
            (false, true) => sample.tid,
            (false, false) => 0,
        };
        assert_eq!(pids, SAMPLES.iter().map(pid_of).collect(), "{fields:?}");
        let without_ids = profile.account.notes.iter().any(|note| note.contains("has no ids"));
        assert_eq!(without_ids, !fields.pid && !fields.tid, "{fields:?}: {:?}", profile.account.notes);
        let from_first: Vec<u64> = SAMPLES.iter().map(|sample| (sample.us - 1) * 1_000).collect();
        assert_eq!(times(&profile), if fields.time { from_first } else { Vec::new() }, "{fields:?}");
    }
}
