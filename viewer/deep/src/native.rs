//! What a native program's recording contains beyond its deep profile.
//!
//! [`Side`] is the text file `NAME.native` beside `NAME.data`: lines of `key value`, unknown keys ignored. The data
//! file's length and hash (FNV-1a, 64 bits) tie the two together. If a side file does not fit, the reader ignores it
//! with a warning. [`Recorded`] is the same with what only an available recording has: the unfolded stacks, and the
//! time of source lines.
//!
//! ```text
//! native 1                     first line, version of this format
//! length N                     octets of the data file
//! hash HEX                     of the data file, see fnv
//! producer WORD                sampled, exact-cyg, exact-entry
//! calls known|unknown          likewise exits, allocs
//! memory WORD                  what its allocations are: allocated, live, peak; no such line: nothing is known
//! measured wall                the quanta are nanoseconds by the wall clock; no such line: of CPU time
//! measured time NAME           they are nanoseconds of this time
//! measured amount NAME         they are amounts of this, as is all that is called ns here; the next line has their unit
//! unit UNIT                    bytes, count; empty: none is known
//! stacks known|none            none: each sample is its innermost function only
//! rate HZ, clock NAME          of the sampler
//! samples N, folded_ns N       samples in all; time in contexts that were folded for want of room
//! running N                    processes that were still being recorded
//! process PID NAME
//! thread PID TID SAMPLES NS NAME
//! headline TEXT, account TEXT  what was measured, what was accounted for and lost, in words (account: several lines)
//! build-id HEX PATH
//! loss SAMPLES CAUSE
//! function PS SAMPLES STACKED NS   samples in the procedure itself, samples and nanoseconds with it on the stack
//! spoken LANGUAGE PS...            procedures of an interpreted language
//! owner NS TOTAL_NS PS NAME        whose time it is, the owner with most time first; PS is 0 if it is no procedure
//! callee NS PS NAME                what the owner above spent in a function that it called; if PS is 0, in the module NAME
//! owners-beyond N NS               owners that are not listed, and their time
//! ```

use crate::id::PsId;
use crate::measured::Measured;
use crate::over_time::OverTime;
use crate::waited::WaitFacts;
use std::fmt::Write as _;

/// The name of the root of a native program's profile.
pub const NATIVE_ROOT: &str = "<program>";

/// Most octets of a side file that are read.
pub const MOST_OCTETS: u64 = 256 << 20;

/// FNV-1a, 64 bits.
#[must_use]
pub fn fnv(octets: &[u8]) -> u64 {
    octets.iter().fold(0xcbf2_9ce4_8422_2325, |h, b| (h ^ u64::from(*b)).wrapping_mul(0x0100_0000_01b3))
}

/// A process of the recording.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProcessFacts {
    /// Process id.
    pub pid: u32,
    /// Short name.
    pub name: String,
}

/// A thread of the recording.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ThreadFacts {
    /// Process id.
    pub pid: u32,
    /// Thread id.
    pub tid: u32,
    /// Samples in it.
    pub samples: u64,
    /// CPU time of them, nanoseconds.
    pub ns: u64,
    /// Name; may be empty.
    pub name: String,
}

/// What the samples show about a procedure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FunctionFacts {
    /// Samples in it.
    pub samples: u64,
    /// Samples with it anywhere on the stack, each counted once.
    pub stacked: u64,
    /// Nanoseconds of those.
    pub stacked_ns: u64,
}

/// A function of the program's own language, with the time that it and what works for it spent: the library functions
/// that it called, the allocator, the kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OwnerFacts {
    /// The number of the procedure. It is 0 for what a runtime does for itself, such as `[garbage collector]`.
    pub ps: u32,
    /// Its name.
    pub name: String,
    /// Nanoseconds that it owns.
    pub ns: u64,
    /// Nanoseconds with it on the stack.
    pub total_ns: u64,
    /// What it spent in each function that it called. The one with most time is first.
    pub callees: Vec<CalleeFacts>,
}

/// What an owner called.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CalleeFacts {
    /// The number of the procedure. It is 0 for all functions without names of a module together.
    pub ps: u32,
    /// Its name, or that of the module.
    pub name: String,
    /// Nanoseconds. They are counted among the owner's.
    pub ns: u64,
}

/// Which view of memory the columns of allocations have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Allocated {
    /// What was allocated since the start.
    #[default]
    All,
    /// What is live at the end.
    Live,
    /// What was live when most was.
    Peak,
}

impl Allocated {
    /// Every view.
    pub const ALL: [Allocated; 3] = [Allocated::All, Allocated::Live, Allocated::Peak];

    /// As a side file has it.
    #[must_use]
    pub const fn as_word(self) -> &'static str {
        match self {
            Allocated::All => "allocated",
            Allocated::Live => "live",
            Allocated::Peak => "peak",
        }
    }

    /// The view that a word names.
    #[must_use]
    pub fn parse(word: &str) -> Option<Allocated> {
        Allocated::ALL.into_iter().find(|view| view.as_word() == word)
    }
}

/// The contents of a side file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Side {
    /// Octets of the data file.
    pub length: u64,
    /// Its hash.
    pub hash: u64,
    /// What made it: `sampled`, `exact-cyg`, `exact-entry`.
    pub producer: String,
    /// Whether the numbers of calls are known.
    pub calls_known: bool,
    /// Whether exits are known.
    pub exits_known: bool,
    /// Whether allocations are known.
    pub allocs_known: bool,
    /// What the allocations are; `None`: nothing is known of them.
    pub memory: Option<Allocated>,
    /// What the quanta are amounts of.
    pub measured: Measured,
    /// Whether the samples have stacks.
    pub stacks_known: bool,
    /// Samples per CPU second; 0: unknown.
    pub rate_hz: u64,
    /// The clock that took the samples.
    pub clock: String,
    /// Number of samples; 0: unknown.
    pub samples: u64,
    /// Nanoseconds in contexts that were folded for lack of room.
    pub folded_ns: u64,
    /// Number of processes that were still being recorded.
    pub running: u64,
    /// The processes.
    pub processes: Vec<ProcessFacts>,
    /// The threads that have samples.
    pub threads: Vec<ThreadFacts>,
    /// What was measured, in words.
    pub headline: String,
    /// What was accounted for and lost, in words.
    pub account: Vec<String>,
    /// Build-id and path of objects.
    pub build_ids: Vec<(String, String)>,
    /// Samples lost, by cause.
    pub losses: Vec<(u64, String)>,
    /// By procedure, in the order of their ids; empty: unknown.
    pub functions: Vec<FunctionFacts>,
    /// Interpreted languages, each with the numbers of its procedures.
    pub languages: Vec<(String, Vec<u32>)>,
    /// Whose time it is. The owner with most time is first. Empty if it is not known.
    pub owners: Vec<OwnerFacts>,
    /// Number of owners that are not listed, and their nanoseconds.
    pub owners_beyond: (u64, u64),
}

/// Why a text is not a side file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {what}")]
pub struct BadSide {
    /// From 1.
    pub line: usize,
    /// What is wrong.
    pub what: String,
}

fn known(yes: bool) -> &'static str {
    if yes { "known" } else { "unknown" }
}

/// A text without line ends.
fn flat(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect::<String>().trim().to_owned()
}

impl Side {
    /// The file's text.
    #[must_use]
    pub fn to_text(&self) -> String {
        let mut out = String::from("native 1\n");
        let _ = writeln!(out, "length {}\nhash {:016x}\nproducer {}", self.length, self.hash, self.producer);
        let _ = writeln!(
            out,
            "calls {}\nexits {}\nallocs {}\nlanguage unknown\nsites executed\nstacks {}",
            known(self.calls_known),
            known(self.exits_known),
            known(self.allocs_known),
            if self.stacks_known { "known" } else { "none" }
        );
        if let Some(memory) = self.memory {
            let _ = writeln!(out, "memory {}", memory.as_word());
        }
        match &self.measured {
            Measured::Cpu => {}
            Measured::Wall => out.push_str("measured wall\n"),
            Measured::Time { name } => {
                let _ = writeln!(out, "measured time {}", flat(name));
            }
            Measured::Amount { name, unit } => {
                let _ = writeln!(out, "measured amount {}\nunit {}", flat(name), flat(unit));
            }
        }
        let _ = writeln!(out, "rate {}\nclock {}\nsamples {}", self.rate_hz, flat(&self.clock), self.samples);
        let _ = writeln!(out, "folded_ns {}\nrunning {}", self.folded_ns, self.running);
        let _ = writeln!(out, "headline {}", flat(&self.headline));
        for line in &self.account {
            let _ = writeln!(out, "account {}", flat(line));
        }
        for p in &self.processes {
            let _ = writeln!(out, "process {} {}", p.pid, flat(&p.name));
        }
        for t in &self.threads {
            let _ = writeln!(out, "thread {} {} {} {} {}", t.pid, t.tid, t.samples, t.ns, flat(&t.name));
        }
        for (id, path) in &self.build_ids {
            let _ = writeln!(out, "build-id {id} {}", flat(path));
        }
        for (samples, cause) in &self.losses {
            let _ = writeln!(out, "loss {samples} {}", flat(cause));
        }
        for (i, f) in self.functions.iter().enumerate() {
            let _ = writeln!(out, "function {} {} {} {}", i + 1, f.samples, f.stacked, f.stacked_ns);
        }
        for (language, procedures) in &self.languages {
            let numbers: Vec<String> = procedures.iter().map(u32::to_string).collect();
            let _ = writeln!(out, "spoken {} {}", flat(language), numbers.join(" "));
        }
        for owner in &self.owners {
            let _ = writeln!(out, "owner {} {} {} {}", owner.ns, owner.total_ns, owner.ps, flat(&owner.name));
            for callee in &owner.callees {
                let _ = writeln!(out, "callee {} {} {}", callee.ns, callee.ps, flat(&callee.name));
            }
        }
        if self.owners_beyond.0 > 0 {
            let _ = writeln!(out, "owners-beyond {} {}", self.owners_beyond.0, self.owners_beyond.1);
        }
        out
    }

    /// Reads a side file. Its facts about procedures are only used if it has them for all, 1 to the last.
    ///
    /// # Errors
    /// The first invalid line. Unknown keys are skipped: they belong to a later version.
    pub fn parse(text: &str) -> Result<Side, BadSide> {
        let mut out = Side { stacks_known: true, ..Side::default() };
        let mut lines = text.lines().enumerate();
        match lines.next() {
            Some((_, "native 1")) => {}
            _ => return Err(BadSide { line: 1, what: "`native 1` was expected".to_owned() }),
        }
        for (i, line) in lines {
            let (key, value) = line.split_once(' ').unwrap_or((line, ""));
            out.read_field(key, value)
                .ok_or_else(|| BadSide { line: i + 1, what: format!("a bad value of {key}") })?;
        }
        Ok(out)
    }

    fn read_field(&mut self, key: &str, value: &str) -> Option<()> {
        let yes = || match value {
            "known" => Some(true),
            "unknown" | "derived" | "counted" => Some(value != "unknown"),
            _ => None,
        };
        match key {
            "length" => self.length = value.parse().ok()?,
            "hash" => self.hash = u64::from_str_radix(value, 16).ok()?,
            "producer" => self.producer = value.to_owned(),
            "calls" => self.calls_known = yes()?,
            "exits" => self.exits_known = yes()?,
            "allocs" => self.allocs_known = yes()?,
            "memory" => self.memory = Some(Allocated::parse(value)?),
            "measured" => {
                let (kind, name) = value.split_once(' ').unwrap_or((value, ""));
                let name = name.to_owned();
                self.measured = match kind {
                    "wall" => Measured::Wall,
                    "time" => Measured::Time { name },
                    "amount" => Measured::Amount { name, unit: String::new() },
                    _ => return None,
                };
            }
            "unit" => match &mut self.measured {
                Measured::Amount { unit, .. } => value.clone_into(unit),
                _ => return None,
            },
            "stacks" => self.stacks_known = value == "known",
            "rate" => self.rate_hz = value.parse().ok()?,
            "clock" => self.clock = value.to_owned(),
            "samples" => self.samples = value.parse().ok()?,
            "folded_ns" => self.folded_ns = value.parse().ok()?,
            "running" => self.running = value.parse().ok()?,
            "headline" => self.headline = value.to_owned(),
            "account" => self.account.push(value.to_owned()),
            "process" => {
                let (pid, name) = value.split_once(' ').unwrap_or((value, ""));
                self.processes.push(ProcessFacts { pid: pid.parse().ok()?, name: name.to_owned() });
            }
            "thread" => {
                let mut words = value.splitn(5, ' ');
                let mut next = || words.next();
                self.threads.push(ThreadFacts {
                    pid: next()?.parse().ok()?,
                    tid: next()?.parse().ok()?,
                    samples: next()?.parse().ok()?,
                    ns: next()?.parse().ok()?,
                    name: next().unwrap_or("").to_owned(),
                });
            }
            "build-id" => {
                let (id, path) = value.split_once(' ')?;
                self.build_ids.push((id.to_owned(), path.to_owned()));
            }
            "loss" => {
                let (samples, cause) = value.split_once(' ')?;
                self.losses.push((samples.parse().ok()?, cause.to_owned()));
            }
            "function" => {
                let mut numbers = value.split(' ').map(str::parse::<u64>);
                let mut next = || numbers.next()?.ok();
                // The procedures are in order: a list with a hole would assign facts to the wrong procedures.
                if next()? != self.functions.len() as u64 + 1 {
                    return None;
                }
                self.functions.push(FunctionFacts {
                    samples: next()?,
                    stacked: next()?,
                    stacked_ns: next()?,
                });
            }
            "spoken" => {
                let (language, numbers) = value.split_once(' ')?;
                let numbers =
                    numbers.split(' ').filter(|word| !word.is_empty()).map(|word| word.parse().ok());
                self.languages.push((language.to_owned(), numbers.collect::<Option<Vec<u32>>>()?));
            }
            "owner" => {
                let mut words = value.splitn(4, ' ');
                let mut next = || words.next();
                self.owners.push(OwnerFacts {
                    ns: next()?.parse().ok()?,
                    total_ns: next()?.parse().ok()?,
                    ps: next()?.parse().ok()?,
                    name: next().unwrap_or("").to_owned(),
                    callees: Vec::new(),
                });
            }
            "callee" => {
                let mut words = value.splitn(3, ' ');
                let mut next = || words.next();
                self.owners.last_mut()?.callees.push(CalleeFacts {
                    ns: next()?.parse().ok()?,
                    ps: next()?.parse().ok()?,
                    name: next().unwrap_or("").to_owned(),
                });
            }
            "owners-beyond" => {
                let (count, ns) = value.split_once(' ')?;
                self.owners_beyond = (count.parse().ok()?, ns.parse().ok()?);
            }
            _ => {}
        }
        Some(())
    }

    /// Whether it belongs to a data file with these octets.
    #[must_use]
    pub fn fits(&self, data: &[u8]) -> bool {
        self.length == data.len() as u64 && self.hash == fnv(data)
    }
}

/// A stack of the recording, functions only: a node of the tree of stacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StackNode {
    /// Index of the caller's node; `None`: outermost.
    pub parent: Option<u32>,
    /// The procedure.
    pub ps: PsId,
    /// Nanoseconds with this stack or one that begins with it.
    pub total_ns: u64,
}

/// Time of a source line, in the line itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LineCost {
    /// Path in the debug information.
    pub file: String,
    /// From 1.
    pub line: u32,
    /// Nanoseconds.
    pub ns: u64,
}

/// What an available recording contains.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recorded {
    /// The contents of a side file.
    pub side: Side,
    /// The tree of stacks, the heaviest nodes first, callers before callees. Small branches may be missing.
    pub stacks: Vec<StackNode>,
    /// Number of stacks without a node.
    pub stacks_left_out: usize,
    /// Lines with their own time, by file and line.
    pub lines: Vec<LineCost>,
    /// Whether `lines` is complete.
    pub has_lines: bool,
    /// What threads waited for; `None`: it was not recorded.
    pub waits: Option<WaitFacts>,
    /// Start of the recording, nanoseconds since 1970; 0: it is not known.
    pub start_realtime_ns: u64,
    /// The part of the time that the profile is of, nanoseconds since the start: from the first one, and before the
    /// second one. `None`: all of it.
    pub window: Option<(u64, u64)>,
    /// What was spent when, in and outside of the window; `None`: it is not known.
    pub over_time: Option<OverTime>,
}

impl From<Side> for Recorded {
    fn from(side: Side) -> Recorded {
        Recorded { side, ..Recorded::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn name() -> impl Strategy<Value = String> {
        "[a-zA-Z0-9<>:/_.é-]{1,12}( [a-z]{1,5}){0,2}"
    }

    fn measured() -> impl Strategy<Value = Measured> {
        prop_oneof![
            Just(Measured::Cpu),
            Just(Measured::Wall),
            name().prop_map(|name| Measured::Time { name }),
            (name(), prop_oneof![Just(String::new()), name()])
                .prop_map(|(name, unit)| Measured::Amount { name, unit }),
        ]
    }

    prop_compose! {
        fn side()(
            measured in measured(), numbers in any::<[u64; 6]>(), flags in any::<[bool; 4]>(), memory in 0..4_usize, words in (name(), name(), name()),
            processes in proptest::collection::vec((any::<u32>(), name()), 0..3),
            threads in proptest::collection::vec((any::<[u32; 2]>(), any::<[u64; 2]>(), name()), 0..3),
            lines in proptest::collection::vec(name(), 0..3),
            ids in proptest::collection::vec(("[0-9a-f]{4,8}", name()), 0..3),
            losses in proptest::collection::vec((any::<u64>(), name()), 0..3),
            functions in proptest::collection::vec(any::<[u64; 3]>(), 0..4),
            languages in proptest::collection::vec(("[A-Z][a-z]{1,6}", proptest::collection::vec(any::<u32>(), 0..4)), 0..3),
            owners in proptest::collection::vec((any::<[u64; 2]>(), any::<u32>(), name(),
                proptest::collection::vec((any::<u64>(), any::<u32>(), name()), 0..3)), 0..4),
            beyond in (1u64.., any::<u64>()),
        ) -> Side {
            Side {
                length: numbers[0], hash: numbers[1], producer: words.0, calls_known: flags[0], exits_known: flags[1],
                allocs_known: flags[2], measured, memory: Allocated::ALL.get(memory).copied(), stacks_known: flags[3], rate_hz: numbers[2], clock: words.1, samples: numbers[3],
                folded_ns: numbers[4], running: numbers[5],
                processes: processes.into_iter().map(|(pid, name)| ProcessFacts { pid, name }).collect(),
                threads: threads.into_iter().map(|(i, n, name)| ThreadFacts {
                    pid: i[0], tid: i[1], samples: n[0], ns: n[1], name,
                }).collect(),
                headline: words.2, account: lines, build_ids: ids, losses,
                functions: functions.into_iter().map(|f| FunctionFacts {
                    samples: f[0], stacked: f[1], stacked_ns: f[2],
                }).collect(),
                languages, owners_beyond: beyond,
                owners: owners.into_iter().map(|(n, ps, name, callees)| OwnerFacts {
                    ps, name, ns: n[0], total_ns: n[1],
                    callees: callees.into_iter().map(|(ns, ps, name)| CalleeFacts { ps, name, ns }).collect(),
                }).collect(),
            }
        }
    }

    proptest! {
        #[test]
        fn printing_and_parsing_are_inverses(side in side()) {
            prop_assert_eq!(Side::parse(&side.to_text()), Ok(side));
        }

        #[test]
        fn damage_is_an_error_or_another_side_file_never_a_panic(
            side in side(), at in any::<prop::sample::Index>(), with in any::<char>()
        ) {
            let mut text: Vec<char> = side.to_text().chars().collect();
            let i = at.index(text.len());
            text[i] = with;
            let _ = Side::parse(&text.into_iter().collect::<String>());
        }
    }

    #[test]
    fn a_hole_in_the_list_of_procedures_is_an_error() {
        let bad = Side::parse("native 1\nfunction 1 0 0 0\nfunction 3 0 0 0\n").unwrap_err();
        assert_eq!(bad.line, 3);
        assert!(Side::parse("native 2\n").is_err());
        assert!(Side::parse("native 1\nof_a_later_version x y\n").is_ok());
    }
}
