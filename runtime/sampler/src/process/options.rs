//! `PCT=key=value,...`: one table of keys, parsed once at start into a plain struct.

use crate::sys::text::{Buf, matches, parse_number, split_once};
use pct_format::heap::INTERVALS;
use pct_format::{Clock, Recorder, StackMode};

/// Longest path template that is taken.
pub const PATH_BYTES: usize = 1024;
/// Longest second directory.
const SPARE_BYTES: usize = 96;
/// Longest include or exclude list.
pub const LIST_BYTES: usize = 256;

/// When sampling begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum On {
    /// At the start of the process.
    Start,
    /// By `pct_on`.
    Manual,
    /// When the toggle signal comes; again: off.
    Signal,
}

/// Which children are followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Follow {
    /// Children by fork.
    pub fork: bool,
    /// Programs executed.
    pub exec: bool,
}

/// Rate of continuous sampling: low enough to stay on, and no divisor of the usual periods of programs.
const CONTINUOUS_HZ: u64 = 19;
/// A file covers ten minutes, so that what is shipped or deleted is never much.
const CONTINUOUS_ROTATE_NS: u64 = 600_000_000_000;
/// Bytes on the disk of all recordings in a folder.
const CONTINUOUS_KEEP: u64 = 256 << 20;

/// What was asked for.
#[derive(Clone, Debug)]
pub struct Options {
    /// Recorder.
    pub mode: Recorder,
    /// Rate in Hz of CPU time, 0 = the clock's default.
    pub hz: u64,
    /// Clock.
    pub clock: Clock,
    /// Stacks.
    pub stack: StackMode,
    /// Depth limit of stacks in frames.
    pub depth: u64,
    /// Directory or template, as given; empty = the working directory.
    pub out: Buf<PATH_BYTES>,
    /// Directory where a file is made when `out` is out of reach (another user, another root); empty = none.
    pub spare: Buf<SPARE_BYTES>,
    /// Bytes of a file at most.
    pub limit: u64,
    /// Children.
    pub follow: Follow,
    /// Names of programs to sample, separated by colons; empty = all.
    pub include: Buf<LIST_BYTES>,
    /// Names of programs not to sample.
    pub exclude: Buf<LIST_BYTES>,
    /// Signal of the clock, 0 = chosen.
    pub signal: i32,
    /// When it begins.
    pub on: On,
    /// The toggle signal.
    pub toggle: i32,
    /// log2 of the bytes of code per counter (recorder `counts`) to begin with.
    pub shift: u64,
    /// Time in the kernel is sampled with its calls there, where that does no harm and is permitted.
    pub kernel: bool,
    /// Frames of CPython are woven into stacks.
    pub python: bool,
    /// Frames of HotSpot are walked.
    pub java: bool,
    /// Functions of V8 stand in the place of their frames.
    pub javascript: bool,
    /// Mean bytes between allocation samples, 0 = none are taken.
    pub alloc: u64,
    /// Seed of their draws, 0 = another one for each process.
    pub alloc_seed: u64,
    /// Waits for locks and for other threads' work are recorded.
    pub wait: bool,
    /// Nanoseconds after which a file is closed and the next one begun, 0 = one file.
    pub rotate_ns: u64,
    /// Bytes on the disk that all recordings in the folder may take; 0 = no bound.
    pub keep: u64,
    /// Process id of the controller that switches sampling on, 0 = nobody: it is told of refusals instead of stderr.
    pub controller: u32,
    /// Process id of who is to sample this process from outside when it cannot be sampled from inside, 0 = nobody has
    /// to be let.
    pub tracer: u32,
}

impl Options {
    /// Nothing asked for.
    #[must_use]
    pub const fn new() -> Self {
        Options {
            mode: Recorder::Log,
            hz: 0,
            clock: Clock::Auto,
            stack: StackMode::Auto,
            depth: 512,
            out: Buf::new(),
            spare: Buf::new(),
            limit: 64 << 20,
            follow: Follow { fork: true, exec: true },
            include: Buf::new(),
            exclude: Buf::new(),
            signal: 0,
            on: On::Start,
            toggle: 12,
            shift: 2,
            kernel: false,
            python: true,
            java: true,
            javascript: true,
            alloc: 0,
            alloc_seed: 0,
            wait: false,
            rotate_ns: 0,
            keep: 0,
            controller: 0,
            tracer: 0,
        }
    }

    /// What `continuous` stands for, where nothing else was said.
    fn make_continuous(&mut self) {
        self.hz = if self.hz == 0 { CONTINUOUS_HZ } else { self.hz };
        self.rotate_ns = if self.rotate_ns == 0 { CONTINUOUS_ROTATE_NS } else { self.rotate_ns };
        self.keep = if self.keep == 0 { CONTINUOUS_KEEP } else { self.keep };
    }

    /// Whether a program of this name (last part of its path) is to be sampled.
    #[must_use]
    pub fn wants(&self, name: &[u8]) -> bool {
        let listed = |list: &[u8]| list.split(|b| *b == b':').any(|p| !p.is_empty() && matches(p, name));
        (self.include.bytes().is_empty() || listed(self.include.bytes())) && !listed(self.exclude.bytes())
    }
}

impl Default for Options {
    fn default() -> Self {
        Self::new()
    }
}

/// What is wrong with a text of options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bad<'a> {
    /// No such key.
    Key(&'a [u8]),
    /// A value that the key does not take, and what it does take.
    Value(&'a [u8], &'a [u8], &'static str),
}

impl Bad<'_> {
    /// One line that names it.
    pub fn describe<const N: usize>(&self, to: &mut Buf<N>) {
        match self {
            Bad::Key(key) => {
                to.push(b"unknown option \"").push(key).push(b"\"; the options are ");
                for (i, row) in KEYS.iter().enumerate() {
                    to.push(if i == 0 { b"" } else { b", " }).push(row.name.as_bytes());
                }
            }
            Bad::Value(key, value, expected) => {
                to.push(b"option ").push(key).push(b": bad value \"").push(value);
                to.push(b"\"; expected ").push(expected.as_bytes());
            }
        }
    }
}

/// One key.
struct Key {
    name: &'static str,
    expected: &'static str,
    set: fn(&mut Options, &[u8]) -> Option<()>,
}

const fn key(name: &'static str, expected: &'static str, set: fn(&mut Options, &[u8]) -> Option<()>) -> Key {
    Key { name, expected, set }
}

fn assign<T>(place: &mut T, value: Option<T>) -> Option<()> {
    *place = value?;
    Some(())
}

fn within(value: &[u8], range: core::ops::RangeInclusive<u64>) -> Option<u64> {
    parse_number(value).filter(|n| range.contains(n))
}

/// Bytes with an optional K, M or G.
fn size(value: &[u8]) -> Option<u64> {
    let (digits, shift) = match value {
        [digits @ .., b'k' | b'K'] => (digits, 10),
        [digits @ .., b'm' | b'M'] => (digits, 20),
        [digits @ .., b'g' | b'G'] => (digits, 30),
        digits => (digits, 0),
    };
    parse_number(digits)?.checked_mul(1 << shift)
}

/// Nanoseconds, from a number with ms, s, m, h or d.
fn duration(value: &[u8]) -> Option<u64> {
    const UNITS: &[(&[u8], u64)] = &[
        (b"ms", 1_000_000),
        (b"s", 1_000_000_000),
        (b"m", 60_000_000_000),
        (b"h", 3_600_000_000_000),
        (b"d", 86_400_000_000_000),
    ];
    let (digits, unit) = UNITS.iter().find_map(|(name, ns)| Some((value.strip_suffix(*name)?, *ns)))?;
    parse_number(digits)?.checked_mul(unit)
}

fn copy<const N: usize>(to: &mut Buf<N>, value: &[u8]) -> Option<()> {
    to.clear();
    to.push(value);
    (!to.is_cut() && !value.contains(&0)).then_some(())
}

/// All keys. `pct run` has a flag of the same name for each.
const KEYS: &[Key] = &[
    key("mode", "log, counts (or their old names itimer, profil)", |o, v| {
        assign(
            &mut o.mode,
            match v {
                b"log" | b"itimer" => Some(Recorder::Log),
                b"counts" | b"profil" => Some(Recorder::Counts),
                _ => None,
            },
        )
    }),
    key("hz", "1 to 20000", |o, v| assign(&mut o.hz, within(v, 1..=20_000))),
    key("clock", "auto, perf, sigtrap, thread, itimer, itimer-virtual, itimer-real", |o, v| {
        let offered = |c: &Clock| !matches!(c, Clock::Outside | Clock::Ring);
        assign(&mut o.clock, Clock::ALL.iter().copied().filter(offered).find(|c| c.name().as_bytes() == v))
    }),
    key("stack", "none, fp, cfi, auto", |o, v| {
        assign(&mut o.stack, StackMode::ALL.iter().copied().find(|m| m.name().as_bytes() == v))
    }),
    key("depth", "1 to 60000", |o, v| assign(&mut o.depth, within(v, 1..=60_000))),
    key("out", "a path of at most 1023 bytes", |o, v| copy(&mut o.out, v)),
    key("spare", "an absolute path of at most 95 bytes", |o, v| {
        if v.starts_with(b"/") { copy(&mut o.spare, v) } else { None }
    }),
    key("limit", "64K to 1G", |o, v| {
        assign(&mut o.limit, size(v).filter(|n| (64 << 10..=1 << 30).contains(n)))
    }),
    key("follow", "fork, exec, all, none", |o, v| {
        assign(
            &mut o.follow,
            match v {
                b"all" | b"fork+exec" | b"fork:exec" => Some(Follow { fork: true, exec: true }),
                b"fork" => Some(Follow { fork: true, exec: false }),
                b"exec" => Some(Follow { fork: false, exec: true }),
                b"none" => Some(Follow { fork: false, exec: false }),
                _ => None,
            },
        )
    }),
    key("include", "names separated by colons, at most 255 bytes", |o, v| copy(&mut o.include, v)),
    key("exclude", "names separated by colons, at most 255 bytes", |o, v| copy(&mut o.exclude, v)),
    key("signal", "1 to 64, without 4, 7, 8, 9, 11, 19", |o, v| assign(&mut o.signal, signal(v))),
    key("on", "start, manual, signal", |o, v| {
        assign(
            &mut o.on,
            match v {
                b"start" => Some(On::Start),
                b"manual" => Some(On::Manual),
                b"signal" => Some(On::Signal),
                _ => None,
            },
        )
    }),
    key("toggle", "a signal: 1 to 64, without 4, 7, 8, 9, 11, 19", |o, v| assign(&mut o.toggle, signal(v))),
    key("controller", "a process id", |o, v| {
        assign(&mut o.controller, within(v, 1..=u64::from(u32::MAX)).map(|n| n as u32))
    }),
    key("tracer", "a process id", |o, v| {
        assign(&mut o.tracer, within(v, 1..=u64::from(u32::MAX)).map(|n| n as u32))
    }),
    key("kernel", "on, off", |o, v| {
        assign(
            &mut o.kernel,
            match v {
                b"on" => Some(true),
                b"off" => Some(false),
                _ => None,
            },
        )
    }),
    key("python", "on, off", |o, v| {
        assign(
            &mut o.python,
            match v {
                b"on" => Some(true),
                b"off" => Some(false),
                _ => None,
            },
        )
    }),
    key("java", "on, off", |o, v| {
        assign(
            &mut o.java,
            match v {
                b"on" => Some(true),
                b"off" => Some(false),
                _ => None,
            },
        )
    }),
    key("javascript", "on, off", |o, v| {
        assign(
            &mut o.javascript,
            match v {
                b"on" => Some(true),
                b"off" => Some(false),
                _ => None,
            },
        )
    }),
    key("alloc", "16 to 1G bytes, off", |o, v| {
        assign(&mut o.alloc, if v == b"off" { Some(0) } else { size(v).filter(|n| INTERVALS.contains(n)) })
    }),
    key("alloc-seed", "a number", |o, v| assign(&mut o.alloc_seed, parse_number(v))),
    key("wait", "on, off", |o, v| {
        assign(
            &mut o.wait,
            match v {
                b"on" => Some(true),
                b"off" => Some(false),
                _ => None,
            },
        )
    }),
    key("continuous", "no value", |o, v| {
        if !v.is_empty() {
            return None;
        }
        o.make_continuous();
        Some(())
    }),
    key("rotate", "10ms to 7d", |o, v| {
        assign(&mut o.rotate_ns, duration(v).filter(|ns| (10_000_000..=604_800_000_000_000).contains(ns)))
    }),
    key("keep", "1M to 1024G", |o, v| {
        assign(&mut o.keep, size(v).filter(|n| (1 << 20..=1 << 40).contains(n)))
    }),
    // For those who read the recording: it has the options' text.
    key("service", "1 to 63 bytes", |_, v| label(v)),
    key("version", "1 to 63 bytes", |_, v| label(v)),
    key("shift", "0 to 20", |o, v| assign(&mut o.shift, within(v, 0..=20))),
];

fn label(value: &[u8]) -> Option<()> {
    (1..=63).contains(&value.len()).then_some(())
}

fn signal(value: &[u8]) -> Option<i32> {
    let number = within(value, 1..=64)?;
    (!matches!(number, 4 | 7 | 8 | 9 | 11 | 19)).then_some(number as i32)
}

/// Parses the text of `PCT`. Empty items are allowed.
///
/// # Errors
/// The first key or value that is wrong.
pub fn parse<'a>(text: &'a [u8], to: &mut Options) -> Result<(), Bad<'a>> {
    for item in text.split(|b| *b == b',') {
        if item.is_empty() {
            continue;
        }
        let (name, value) = split_once(item, b'=');
        let Some(key) = KEYS.iter().find(|k| k.name.as_bytes() == name) else { return Err(Bad::Key(name)) };
        let value = value.unwrap_or(&[]);
        if (key.set)(to, value).is_none() {
            return Err(Bad::Value(name, value, key.expected));
        }
    }
    if to.rotate_ns != 0 && to.alloc != 0 {
        return Err(Bad::Value(
            b"alloc",
            b"beside rotate",
            "one of them: a new file knows no block of the last",
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_takes_its_values() {
        let mut o = Options::new();
        let text = b"mode=profil,hz=100,clock=itimer-real,stack=auto,depth=20000,out=/tmp/x,limit=1M,\
            follow=exec,include=a:b*,exclude=c,signal=27,on=manual,toggle=10,shift=4,python=off,java=off,javascript=off,,";
        assert_eq!(parse(text, &mut o), Ok(()));
        assert_eq!(
            (o.mode, o.hz, o.clock, o.stack),
            (Recorder::Counts, 100, Clock::ItimerReal, StackMode::Auto)
        );
        assert_eq!((o.depth, o.out.bytes(), o.limit), (20000, &b"/tmp/x"[..], 1 << 20));
        assert_eq!((o.follow, o.signal), (Follow { fork: false, exec: true }, 27));
        assert_eq!((o.on, o.toggle, o.shift), (On::Manual, 10, 4));
        assert_eq!((o.python, o.java, o.javascript), (false, false, false));
        assert!(o.wants(b"a") && o.wants(b"bcd") && !o.wants(b"c") && !o.wants(b"d"));
    }

    #[test]
    fn continuous_sets_what_was_not_said() {
        let of = |text: &[u8]| {
            let mut o = Options::new();
            assert_eq!(parse(text, &mut o), Ok(()));
            (o.hz, o.rotate_ns, o.keep)
        };
        assert_eq!(of(b"continuous"), (19, 600_000_000_000, 256 << 20));
        for text in [&b"hz=97,rotate=2h,keep=1M,continuous"[..], b"continuous,keep=1M,rotate=2h,hz=97"] {
            assert_eq!(of(text), (97, 7_200_000_000_000, 1 << 20));
        }
        assert_eq!(of(b"service=shop,version=1.42"), (0, 0, 0));
    }

    #[test]
    fn bad_options_are_named() {
        let said = |text: &[u8]| {
            let mut b = Buf::<512>::new();
            parse(text, &mut Options::new()).unwrap_err().describe(&mut b);
            String::from_utf8(b.bytes().to_vec()).unwrap()
        };
        assert!(said(b"hz=100,foo=1").starts_with("unknown option \"foo\"; the options are mode, hz,"));
        assert_eq!(said(b"hz=0"), "option hz: bad value \"0\"; expected 1 to 20000");
        for bad in [
            "hz=x",
            "mode=",
            "clock=ring",
            "stack=yes",
            "depth=0",
            "limit=1K",
            "limit=2G",
            "follow=x",
            "signal=9",
            "on=now",
            "toggle=65",
            "shift=21",
            "python=yes",
            "java=yes",
            "javascript=yes",
            "mode",
            "alloc=0",
            "alloc=-1",
            "alloc=2G",
            "alloc=1T",
            "alloc=512Q",
            "alloc=15",
            "alloc-seed=x",
            "wait",
            "wait=1",
            "continuous=1",
            "rotate=10",
            "rotate=1ms",
            "rotate=8d",
            "keep=1K",
            "service=",
            "continuous,alloc=512K",
        ] {
            assert!(said(bad.as_bytes()).contains("bad value"), "{bad}");
        }
        assert!(said(format!("out={}", "x".repeat(1025)).as_bytes()).contains("bad value"));
    }
}
