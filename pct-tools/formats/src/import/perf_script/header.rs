//! The first line of a sample: `comm pid/tid [cpu] misc time: period event: ...`, each part only if it was printed.
//!
//! A command's name may have spaces, colons and digits, so a header is read from its time backwards, and one
//! without a time from its event.

use std::ops::Range;

/// Columns of an id, at least.
pub(super) const ID_WIDTH: usize = 5;
/// Columns of a period, at least.
pub(super) const PERIOD_WIDTH: usize = 10;

/// A header's parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header<'a> {
    /// The command; empty if it was not printed.
    pub(super) name: &'a str,
    /// Process and thread, if they were printed; -1 where the kernel knew none.
    pub(super) ids: Option<(i64, i64)>,
    /// What the event counted since the sample before.
    pub(super) period: Option<u64>,
    /// As perf prints it, with modifiers: `cycles:u`; empty if it was not printed.
    pub(super) event: &'a str,
    /// What stands behind the event: the frame of a sample without a call chain, or a tracepoint's fields.
    pub(super) rest: &'a str,
    /// Nanoseconds of the recorder's clock.
    pub(super) time_ns: Option<u64>,
}

impl Header<'_> {
    /// A record of another kind, printed by `--show-mmap-events` and the like.
    pub(super) fn is_side_record(&self) -> bool {
        self.event.starts_with("PERF_RECORD_") || self.rest.starts_with("PERF_RECORD_")
    }
}

/// A line and its words.
struct Line<'a> {
    text: &'a str,
    words: Vec<Range<usize>>,
}

impl<'a> Line<'a> {
    /// Of a long line only the first words matter.
    fn split(text: &'a str) -> Self {
        let base = text.as_ptr().addr();
        let words = text.split_ascii_whitespace().take(64).map(|word| {
            let start = word.as_ptr().addr() - base;
            start..start + word.len()
        });
        Self { text, words: words.collect() }
    }
    fn word_at(&self, at: usize) -> &'a str {
        self.words.get(at).map_or("", |range| &self.text[range.clone()])
    }
    fn rest_from(&self, at: usize) -> &'a str {
        self.words.get(at).map_or("", |range| self.text[range.start..].trim_end())
    }
    /// The line to the end of a word.
    fn text_until(&self, at: usize) -> &'a str {
        self.words.get(at).map_or("", |range| &self.text[..range.end])
    }
    /// What is before a word: the command.
    fn name_before(&self, at: usize) -> &'a str {
        self.words.get(at).map_or("", |range| self.text[..range.start].trim())
    }
}

/// A header with a time.
pub(super) fn with_time(text: &str) -> Option<Header<'_>> {
    // Most lines are frames, which have no digit before a colon.
    if !text.as_bytes().windows(2).any(|pair| pair[0].is_ascii_digit() && pair[1] == b':') {
        return None;
    }
    let line = Line::split(text);
    (0..line.words.len()).filter(|at| is_time(line.word_at(*at))).find_map(|at| {
        // `-F` may have left out command and ids.
        let (name, ids) =
            if at == 0 { ("", None) } else { who(&line, at).map(|(name, ids)| (name, Some(ids)))? };
        let (period, event, rest) = event(&line, at + 1);
        Some(Header { name, ids, period, event, rest, time_ns: nanoseconds(line.word_at(at)) })
    })
}

/// A header without a time: its event ends with a colon, and before it are the ids, or they and the period.
pub(super) fn without_time(text: &str) -> Option<Header<'_>> {
    if !text.contains(": ") && !text.ends_with(':') && !text.contains(":\t") {
        return None;
    }
    let line = Line::split(text);
    (1..line.words.len()).filter(|at| is_event(line.word_at(*at))).find_map(|at| {
        let in_column = |width| number_of_width(line.text_until(at - 1), width).is_some();
        let is_period = at >= 2
            && is_number(line.word_at(at - 1))
            && is_end_of_ids(line.word_at(at - 2))
            // A name may end in a number too.
            && (in_column(PERIOD_WIDTH) || !is_number(line.word_at(at - 2)) || !in_column(ID_WIDTH));
        if !is_period && in_column(PERIOD_WIDTH) {
            return None;
        }
        let (name, ids) = who(&line, if is_period { at - 1 } else { at })?;
        let period = if is_period { Some(line.word_at(at - 1).parse().ok()?) } else { None };
        let event = line.word_at(at).strip_suffix(':')?;
        Some(Header { name, ids: Some(ids), period, event, rest: line.rest_from(at + 1), time_ns: None })
    })
}

/// The command and the ids before word `end`, behind which may be the processor and flags (`-F +misc`).
fn who<'a>(line: &Line<'a>, end: usize) -> Option<(&'a str, (i64, i64))> {
    let mut at = end.checked_sub(1)?;
    if is_misc(line.word_at(at)) {
        at = at.checked_sub(1)?;
    }
    if is_processor(line.word_at(at)) {
        at = at.checked_sub(1)?;
    }
    Some((line.name_before(at), ids(line.word_at(at))?))
}

/// Period, event and the rest of the line.
fn event<'a>(line: &Line<'a>, mut at: usize) -> (Option<u64>, &'a str, &'a str) {
    let period = line.word_at(at).parse().ok().filter(|_| is_number(line.word_at(at)));
    // A number that stands neither before an event nor in a period's column is the address of a frame.
    let in_column = || number_of_width(line.text_until(at), PERIOD_WIDTH).is_some();
    let period = period.filter(|_| line.word_at(at + 1).ends_with(':') || in_column());
    at += usize::from(period.is_some());
    match line.word_at(at).strip_suffix(':') {
        Some(event) => (period, event, line.rest_from(at + 1)),
        None => (period, "", line.rest_from(at)),
    }
}

/// The nanoseconds of a time.
pub(super) fn nanoseconds(word: &str) -> Option<u64> {
    let (s, fraction) = word.strip_suffix(':')?.split_once('.')?;
    let unit = if fraction.len() == 9 { 1 } else { 1_000 };
    s.parse::<u64>().ok()?.checked_mul(1_000_000_000)?.checked_add(fraction.parse::<u64>().ok()? * unit)
}

/// `123.456789:`, with six or nine digits behind the point.
pub(super) fn is_time(word: &str) -> bool {
    let parts = word.strip_suffix(':').and_then(|time| time.split_once('.'));
    parts.is_some_and(|(s, fraction)| is_number(s) && is_number(fraction) && matches!(fraction.len(), 6 | 9))
}

pub(super) fn is_event(word: &str) -> bool {
    let event = word.strip_suffix(':').unwrap_or("");
    event.contains(|c: char| c.is_ascii_alphabetic()) && !event.starts_with(['(', '[', '<'])
}

fn is_number(word: &str) -> bool {
    !word.is_empty() && word.bytes().all(|b| b.is_ascii_digit())
}

pub(super) fn last_word(text: &str) -> Option<&str> {
    text.split([' ', '\t']).next_back().filter(|word| !word.is_empty())
}

/// The number at the end of `text`, if perf printed it to the right of a column of this width. A space ends the column
/// before.
pub(super) fn number_of_width(text: &str, width: usize) -> Option<&str> {
    let word = last_word(text).filter(|word| is_number(word) || *word == "-1")?;
    let before = &text[..text.len() - word.len()];
    let columns = before.trim_end_matches(' ');
    let spaces = before.len() - columns.len();
    // Of `pid/tid` the second stands to the left.
    let tid = last_word(columns).and_then(|word| word.split_once('/')).map_or("", |(_, tid)| tid);
    let padding = if tid.is_empty() { 0 } else { ID_WIDTH.saturating_sub(tid.len()) };
    let expected = width.saturating_sub(word.len()) + usize::from(!columns.is_empty()) + padding;
    (spaces == expected).then_some(word)
}

/// `[003]`.
pub(super) fn is_processor(word: &str) -> bool {
    word.strip_prefix('[').and_then(|word| word.strip_suffix(']')).is_some_and(is_number)
}

/// Modes of the processor and marks of records, as `-F +misc` prints them.
fn is_misc(word: &str) -> bool {
    (1..=3).contains(&word.len()) && word.bytes().all(|b| b"KUHGgMESp".contains(&b))
}

fn is_end_of_ids(word: &str) -> bool {
    ids(word).is_some() || is_processor(word) || is_misc(word)
}

/// `tid` or `pid/tid`; each may be -1.
pub(super) fn ids(word: &str) -> Option<(i64, i64)> {
    let id = |word: &str| {
        let known = is_number(word) || word == "-1";
        word.parse().ok().filter(|id| known && (-1..=i64::from(u32::MAX)).contains(id))
    };
    match word.split_once('/') {
        Some((pid, tid)) => Some((id(pid)?, id(tid)?)),
        None => id(word).map(|id| (id, id)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Command, ids, period, event.
    type Parts<'a> = (&'a str, (i64, i64), Option<u64>, &'a str);

    fn parts(header: Option<Header<'_>>) -> Option<Parts<'_>> {
        header.map(|h| (h.name, h.ids.unwrap_or((0, 0)), h.period, h.event))
    }

    #[test]
    fn names_may_have_spaces_colons_and_digits() {
        for (line, want) in [
            ("prog 5 100.000001:    1000 cpu-clock:u: ", ("prog", (5, 5), Some(1000), "cpu-clock:u")),
            ("my prog 4711/4712  1.000001: 7 cycles:", ("my prog", (4711, 4712), Some(7), "cycles")),
            ("tmux: server 77 100.000001: 1 cycles:", ("tmux: server", (77, 77), Some(1), "cycles")),
            ("Thread-1: go 55 100.000002: 1 cycles:", ("Thread-1: go", (55, 55), Some(1), "cycles")),
            ("worker 7 7 [001] 1.000001: 1 cycles:", ("worker 7", (7, 7), Some(1), "cycles")),
            ("   5 100.000001: 1 cycles:", ("", (5, 5), Some(1), "cycles")),
            (":-1    -1 100.000002: 1 cycles:", (":-1", (-1, -1), Some(1), "cycles")),
            ("prog 5 [000] U     100.000001: 1 cycles:", ("prog", (5, 5), Some(1), "cycles")),
            ("prog 5/6 K 100.000001: cycles:", ("prog", (5, 6), None, "cycles")),
            (
                "Gecko\t25122 [007] 115539.936601:\t\t10 task-clock:u:",
                ("Gecko", (25122, 25122), Some(10), "task-clock:u"),
            ),
            ("prog 5 100.000001: ", ("prog", (5, 5), None, "")),
            ("43643.286723: 7 cycles:", ("", (0, 0), Some(7), "cycles")),
            ("x 1 2.000000123: 5 cpu_core/cycles/:", ("x", (1, 1), Some(5), "cpu_core/cycles/")),
        ] {
            assert_eq!(parts(with_time(line)), Some(want), "{line}");
        }
    }

    #[test]
    fn times_have_microseconds_or_nanoseconds() {
        let time = |line| with_time(line).and_then(|header| header.time_ns);
        assert_eq!(time("prog 5 100.000001: 1 cycles:"), Some(100_000_001_000));
        assert_eq!(time("prog 5 100.000000001: 1 cycles:"), Some(100_000_000_001));
        assert_eq!(time("prog 5 99999999999999.000001: 1 cycles:"), None);
    }

    #[test]
    fn a_header_may_have_no_time() {
        for (line, want) in [
            ("java 19983 cycles: ", ("java", (19983, 19983), None, "cycles")),
            ("func_ab 15294 cpu-clock: ", ("func_ab", (15294, 15294), None, "cpu-clock")),
            ("tmux: server 77/78 [003] 99 cycles:ppp: ", ("tmux: server", (77, 78), Some(99), "cycles:ppp")),
        ] {
            assert_eq!(parts(without_time(line)), Some(want), "{line}");
            assert_eq!(with_time(line), None, "{line}");
        }
        // A number in the column of a period is no id.
        for line in ["bash    1001001 cycles: ", "   1001001 cycles: ", "x 1234567890 cycles:"] {
            assert_eq!(without_time(line), None, "{line}");
        }
        for line in ["Dear Bob: 19 apples", "version: 1", "x cycles:", "fn 12 13", "1 2:"] {
            assert_eq!(without_time(line), None, "{line}");
        }
    }

    #[test]
    fn a_sample_without_a_chain_has_its_frame_in_the_same_line() {
        let line = "prog 5 100.000001:    1000000 cpu-clock:u:      55d0c0de1234 inner+0x14 (/bin/prog)";
        let header = with_time(line).unwrap();
        assert_eq!((header.period, header.rest), (Some(1_000_000), "55d0c0de1234 inner+0x14 (/bin/prog)"));
        let without_event = with_time("prog 5 100.000001:      55d0 inner+0x14 (/bin/prog)").unwrap();
        assert_eq!((without_event.event, without_event.rest), ("", "55d0 inner+0x14 (/bin/prog)"));
        assert!(with_time("prog 5 1.000000: PERF_RECORD_MMAP2 5/5: [0x1(0x2)]").unwrap().is_side_record());
    }
}
