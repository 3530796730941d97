//! Samples whose header lacks ids, or both time and event (`-F comm,ip,sym`), or that have no header (`-F ip,sym`).
//!
//! ```text
//! prog     1000000
//!             55d0c0de1234 inner+0x14 (/bin/prog)
//! ```
//!
//! Only perf's widths tell their parts apart: ids have at least five columns, a period ten, an address sixteen.

use super::header::{
    Header, ID_WIDTH, PERIOD_WIDTH, ids, is_processor, is_time, last_word, nanoseconds, number_of_width,
};

const ADDRESS_WIDTH: usize = 16;

/// What a file of such samples has in its headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Columns {
    /// The last word of each header ends with a colon. Else one that does belongs to a command's name.
    pub(super) events: bool,
}

/// Whether a line that has no frame can be a sample's first: its frames follow, or it has none.
pub(super) fn may_be_header(line: &str, next: &str) -> bool {
    let frame_follows = next.starts_with('\t') && split(next).is_some();
    !line.trim().is_empty() && (frame_follows || next.trim().is_empty())
}

/// What is before a line's frame, and the frame, whose address is in a column of its own.
pub(super) fn split(line: &str) -> Option<(&str, &str)> {
    let bytes = line.as_bytes();
    let at = bytes.windows(1 + ADDRESS_WIDTH).enumerate().position(|(at, window)| {
        let number = window[1..].trim_ascii_start();
        matches!(window[0], b' ' | b'\t')
            && number.iter().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
            && !number.is_empty()
            && bytes.get(at + 1 + ADDRESS_WIDTH).is_none_or(|b| matches!(b, b' ' | b'\t'))
    })?;
    Some((&line[..at], &line[at + 1..]))
}

impl Columns {
    /// A sample's header. `head`: what is before its frames; `rest`: the frame in the same line.
    pub(super) fn header<'t>(self, head: &'t str, rest: &'t str) -> Header<'t> {
        let mut head = Head(head.trim_end());
        let event = head.cut(|head| head.last_word().filter(|_| self.events));
        let period = head.cut(|head| number_of_width(head.0, PERIOD_WIDTH));
        let time = head.cut(|head| head.last_word().filter(|word| is_time(word)));
        head.cut(|head| head.last_word().filter(|word| is_processor(word)));
        let known = head.cut(|head| {
            let pair = head.last_word().filter(|word| word.contains('/'));
            pair.or_else(|| number_of_width(head.0, ID_WIDTH)).filter(|word| ids(word).is_some())
        });
        Header {
            name: head.0.trim(),
            ids: known.and_then(ids),
            period: period.and_then(|word| word.parse().ok()),
            event: event.and_then(|word| word.strip_suffix(':')).unwrap_or(""),
            rest,
            time_ns: time.and_then(nanoseconds),
        }
    }
}

/// What is left of a header, which is read backwards, since names may have spaces.
struct Head<'t>(&'t str);

impl<'t> Head<'t> {
    /// Takes the word that was found off the end.
    fn cut(&mut self, find: impl FnOnce(&Self) -> Option<&'t str>) -> Option<&'t str> {
        let word = find(self)?;
        self.0 = self.0[..self.0.len() - word.len()].trim_end();
        Some(word)
    }

    fn last_word(&self) -> Option<&'t str> {
        last_word(self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn widths_tell_ids_and_periods_from_names() {
        let with = Columns { events: true };
        let without = Columns { events: false };
        for (columns, head, want) in [
            (without, "bash ", ("bash", (0, 0), None, "")),
            (without, "            bash ", ("bash", (0, 0), None, "")),
            (without, "worker 7 ", ("worker 7", (0, 0), None, "")),
            (without, "worker     7 ", ("worker", (7, 7), None, "")),
            (without, "tmux: server ", ("tmux: server", (0, 0), None, "")),
            (without, " 1530 ", ("", (1530, 1530), None, "")),
            (without, "4194304 ", ("", (4_194_304, 4_194_304), None, "")),
            (without, "   -1 ", ("", (-1, -1), None, "")),
            (without, "24739/24740 ", ("", (24739, 24740), None, "")),
            (without, "   1001001 ", ("", (0, 0), Some(1_001_001), "")),
            (without, "12345678901 ", ("", (0, 0), Some(12_345_678_901), "")),
            (without, "bash    1001001 ", ("bash", (0, 0), Some(1_001_001), "")),
            (without, "bash  1549    1001001 ", ("bash", (1549, 1549), Some(1_001_001), "")),
            (without, "bash  1549 [003] ", ("bash", (1549, 1549), None, "")),
            (with, "cpu-clock: ", ("", (0, 0), None, "cpu-clock")),
            (with, "tmux: server cycles:u: ", ("tmux: server", (0, 0), None, "cycles:u")),
            (with, "bash          7 cpu-clock: ", ("bash", (0, 0), Some(7), "cpu-clock")),
            (with, "bash  6280.045242:          7 cycles: ", ("bash", (0, 0), Some(7), "cycles")),
            (without, "pyenv-hooks  6280.076922: ", ("pyenv-hooks", (0, 0), None, "")),
            (without, "", ("", (0, 0), None, "")),
        ] {
            let h = columns.header(head, "");
            assert_eq!((h.name, h.ids.unwrap_or((0, 0)), h.period, h.event), want, "{head:?}");
        }
    }

    #[test]
    fn an_address_has_a_column_of_its_own() {
        for (line, want) in [
            ("\tffffffff8161b9d2 f+0xb2 (k)", Some(("", "ffffffff8161b9d2 f+0xb2 (k)"))),
            ("\t    7f256c1e4998 f", Some(("", "    7f256c1e4998 f"))),
            ("            bash      7f256c1e4998 f", Some(("            bash ", "    7f256c1e4998 f"))),
            ("              dd      7f256c1e4998", Some(("              dd ", "    7f256c1e4998"))),
            ("   42      7f256c1e4998 f", Some(("   42 ", "    7f256c1e4998 f"))),
            ("0000000000001139 T main", None),
            ("\t7f256c1e4998 f", None),
            ("\u{1f980} \u{1f980}      7f256c1e4998 f", Some(("\u{1f980} \u{1f980} ", "    7f256c1e4998 f"))),
            ("Dear Bob", None),
        ] {
            assert_eq!(split(line), want, "{line:?}");
        }
    }
}
