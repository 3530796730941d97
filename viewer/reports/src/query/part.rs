//! A part of a recording, as the name of a profile in an address has it: `NAME!1.25..2.5,thread:worker`.
//!
//! The text of a filter is encoded as in the rest of an address, and so are commas in it.

use super::words::{decode, encode};

/// Begins the part in a name.
const MARK: char = '!';
/// Separates the times of a range.
const TO: &str = "..";
/// Nanoseconds of a second.
const SECOND: u64 = 1_000_000_000;
/// Most octets of a filter's text.
const MOST_TEXT: usize = 1000;

/// What a filter is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PartFilter {
    /// Threads of this number or a matching name.
    Thread,
    /// Processes of this number or a matching name.
    Process,
    /// Samples taken in a matching object.
    Object,
    /// Samples with a matching function on the stack.
    Function,
    /// All but samples with a matching function on the stack.
    Without,
}

impl PartFilter {
    /// All of them, in the order in which they are shown.
    pub const ALL: [PartFilter; 5] = [
        PartFilter::Thread,
        PartFilter::Process,
        PartFilter::Object,
        PartFilter::Function,
        PartFilter::Without,
    ];

    /// Its word in an address.
    #[must_use]
    pub const fn as_word(self) -> &'static str {
        match self {
            PartFilter::Thread => "thread",
            PartFilter::Process => "process",
            PartFilter::Object => "object",
            PartFilter::Function => "function",
            PartFilter::Without => "without",
        }
    }
}

/// A range of time and filters. Samples pass if all of them let them pass.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Part {
    /// From this time on and before that one, in nanoseconds since the start of the recording. An end of `u64::MAX` is
    /// the end of the recording. `None`: all the time.
    pub range: Option<(u64, u64)>,
    /// The filters, at most one of a kind, in the order of [`PartFilter::ALL`]: regular expressions.
    filters: Vec<(PartFilter, String)>,
}

impl Part {
    /// Splits the name of a profile and the part that follows it. `None`: no part follows.
    #[must_use]
    pub fn split(file: &str) -> Option<(&str, Part)> {
        let (name, text) = file.rsplit_once(MARK)?;
        let part = Part::parse(text)?;
        (!name.is_empty() && !part.is_whole()).then_some((name, part))
    }

    fn parse(text: &str) -> Option<Part> {
        let mut part = Part::default();
        for piece in text.split(',') {
            if let Some((word, text)) = piece.split_once(':') {
                let filter = PartFilter::ALL.into_iter().find(|filter| filter.as_word() == word)?;
                part = part.with(filter, &decode(text));
            } else {
                let (from, to) = piece.split_once(TO)?;
                let to = if to.is_empty() { u64::MAX } else { nanoseconds(to)? };
                part.range = Some((nanoseconds(from)?, to)).filter(|(from, to)| from < to);
                part.range?;
            }
        }
        Some(part)
    }

    /// Whether nothing is left out.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.range.is_none() && self.filters.is_empty()
    }

    /// The same with this range of time.
    #[must_use]
    pub fn in_range(self, range: Option<(u64, u64)>) -> Part {
        Part { range, ..self }
    }

    /// The same with this filter. An empty text removes it. What is longer than a thousand octets is no filter.
    #[must_use]
    pub fn with(mut self, filter: PartFilter, text: &str) -> Part {
        self.filters.retain(|(known, _)| *known != filter);
        if !text.is_empty() && text.len() <= MOST_TEXT {
            self.filters.push((filter, text.to_owned()));
            self.filters.sort_by_key(|(filter, _)| *filter);
        }
        self
    }

    /// The filters in their order.
    pub fn filters(&self) -> impl Iterator<Item = (PartFilter, &str)> {
        self.filters.iter().map(|(filter, text)| (*filter, text.as_str()))
    }

    /// This part of another one: its own range and filters, and those that only the other has.
    #[must_use]
    pub fn within(&self, other: &Part) -> Part {
        let part = other.clone().in_range(self.range.or(other.range));
        self.filters().fold(part, |part, (filter, text)| part.with(filter, text))
    }

    /// The name of this part of a profile in queries.
    #[must_use]
    pub fn file(&self, name: &str) -> String {
        let mut pieces = Vec::new();
        if let Some((from, to)) = self.range {
            let to = if to == u64::MAX { String::new() } else { seconds(to) };
            pieces.push(format!("{}{TO}{to}", seconds(from)));
        }
        for (filter, text) in self.filters() {
            // What ends a filter or a name is encoded too.
            let text = encode(text, "").replace(',', "%2C").replace(MARK, "%21");
            pieces.push(format!("{}:{text}", filter.as_word()));
        }
        if pieces.is_empty() { name.to_owned() } else { format!("{name}{MARK}{}", pieces.join(",")) }
    }

    /// What follows the name of a profile at the end of an address; empty: nothing.
    #[must_use]
    pub fn in_address(&self) -> String {
        encode(&self.file(""), "/")
    }

    /// The range and each filter in words, with the part that remains without it.
    #[must_use]
    pub fn in_words(&self) -> Vec<(String, Part)> {
        let range = self.range.map(|(from, to)| {
            let words = match (from, to) {
                (from, u64::MAX) => format!("from {} s on", seconds(from)),
                (0, to) => format!("up to {} s", seconds(to)),
                (from, to) => format!("{} s to {} s", seconds(from), seconds(to)),
            };
            (words, self.clone().in_range(None))
        });
        let filters = self
            .filters()
            .map(|(filter, text)| (format!("{} {text}", filter.as_word()), self.clone().with(filter, "")));
        range.into_iter().chain(filters).collect()
    }
}

/// Nanoseconds as seconds, exactly.
fn seconds(ns: u64) -> String {
    let (whole, rest) = (ns / SECOND, ns % SECOND);
    if rest == 0 {
        return whole.to_string();
    }
    let digits = format!("{rest:09}");
    format!("{whole}.{}", digits.trim_end_matches('0'))
}

/// Seconds as nanoseconds; more than nine digits behind the point are refused.
fn nanoseconds(text: &str) -> Option<u64> {
    let (whole, rest) = text.split_once('.').unwrap_or((text, ""));
    let is_number = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    if whole.is_empty() || !is_number(whole) || !is_number(rest) || rest.len() > 9 {
        return None;
    }
    let whole: u64 = whole.parse().ok()?;
    let rest: u64 = format!("{rest:0<9}").parse().ok()?;
    whole.checked_mul(SECOND)?.checked_add(rest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn part() -> impl Strategy<Value = Part> {
        let range = prop::option::of((0_u64..1 << 40, 1_u64..1 << 40, any::<bool>()));
        let filters = prop::collection::vec((0_usize..5, ".{1,20}"), 0..6);
        (range, filters).prop_map(|(range, filters)| {
            let range = range.map(|(from, length, open)| (from, if open { u64::MAX } else { from + length }));
            let part = Part::default().in_range(range);
            filters.iter().fold(part, |part, (at, text)| part.with(PartFilter::ALL[*at], text))
        })
    }

    proptest! {
        #[test]
        fn a_name_with_a_part_is_read_back(part in part(), name in "[a-z!./]{1,8}") {
            let file = part.file(&name);
            if part.is_whole() {
                prop_assert_eq!(&file, &name);
            } else {
                prop_assert_eq!(Part::split(&file), Some((name.as_str(), part)));
            }
        }

        #[test]
        fn no_text_is_too_much(text in ".{0,60}") {
            if let Some((name, part)) = Part::split(&text) {
                let again = part.file(name);
                prop_assert_eq!(Part::split(&again), Some((name, part)));
            }
        }
    }

    #[test]
    fn parts_are_told_in_words_and_closed_one_by_one() {
        let (name, part) = Part::split("pct-x-1!1.25..2.5,thread:worker,without:a%2Cb").unwrap();
        assert_eq!(name, "pct-x-1");
        assert_eq!(part.range, Some((1_250_000_000, 2_500_000_000)));
        let words: Vec<(String, String)> =
            part.in_words().into_iter().map(|(words, rest)| (words, rest.file(name))).collect();
        let wanted = [
            ("1.25 s to 2.5 s", "pct-x-1!thread:worker,without:a%2Cb"),
            ("thread worker", "pct-x-1!1.25..2.5,without:a%2Cb"),
            ("without a,b", "pct-x-1!1.25..2.5,thread:worker"),
        ];
        assert_eq!(words, wanted.map(|(words, file)| (words.to_owned(), file.to_owned())));
        let words = |file: &str| Part::split(file).unwrap().1.in_words().remove(0).0;
        assert_eq!(words("x!0..2"), "up to 2 s");
        assert_eq!(words("x!2.."), "from 2 s on");
    }

    #[test]
    fn what_is_no_part_belongs_to_the_name() {
        for file in [
            "a",
            "a!",
            "a!b",
            "!1..2",
            "a!2..1",
            "a!1..1",
            "a!1.2",
            "a!x..2",
            "a!1..2,x:y",
            "a!1.0000000001..2",
        ] {
            assert_eq!(Part::split(file), None, "{file}");
        }
    }

    #[test]
    fn a_part_of_a_part_has_both() {
        let of = |file: &str| Part::split(file).unwrap().1;
        assert_eq!(of("x!thread:b").within(&of("x!1..2,thread:a,object:o")), of("x!1..2,thread:b,object:o"));
        assert_eq!(of("x!3..4").within(&of("x!1..2")), of("x!3..4"));
    }
}
