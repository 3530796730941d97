//! Perf maps that a runtime writes anew each time it is asked, as one map that grows.
//!
//! Such a map has the code that there was at that moment. Code that was freed before is missing, and its place
//! may have other code. So what each map has beyond the one before it is appended to one text, and the text's
//! length is noted with the time. That is what a watched perf map is (docs/pct-format.md), and its reader
//! finds the name that held when a sample was taken.

use std::collections::HashSet;

/// All maps that one process wrote, put together.
#[derive(Debug, Default)]
pub(super) struct Snapshots {
    /// Lines of a perf map.
    text: Vec<u8>,
    /// Nanoseconds since 1970 and octets of the text then, ascending.
    lengths: Vec<(u64, u64)>,
    /// The lines of the map that was added last.
    last: HashSet<Vec<u8>>,
    /// When that was, nanoseconds since 1970.
    last_ns: u64,
}

/// Text beyond this is not kept.
const MOST_OCTETS: usize = 256 << 20;

impl Snapshots {
    /// Adds a map that was written at `now_ns`, nanoseconds since 1970.
    pub(super) fn add(&mut self, map: &[u8], now_ns: u64) {
        let octets = |text: &[u8]| u64::try_from(text.len()).unwrap_or(u64::MAX);
        // A last line without an end is not whole.
        let whole = map.iter().rposition(|octet| *octet == b'\n').map_or(0, |end| end + 1);
        let lines = || map[..whole].split_inclusive(|octet| *octet == b'\n').filter(|line| line.len() > 1);
        let before = octets(&self.text);
        for line in lines().filter(|line| !self.last.contains(*line)) {
            if self.text.len() + line.len() <= MOST_OCTETS {
                self.text.extend_from_slice(line);
            }
        }
        if octets(&self.text) > before {
            // What is new was not there when the process was asked before.
            if self.lengths.last().is_some_and(|(at, _)| *at < self.last_ns) {
                self.lengths.push((self.last_ns, before));
            }
            self.lengths.push((now_ns, octets(&self.text)));
        }
        self.last = lines().map(<[u8]>::to_vec).collect();
        self.last_ns = now_ns;
    }

    /// The lines of a perf map; empty if there was none.
    pub(super) fn text(&self) -> &[u8] {
        &self.text
    }

    /// When the text was how long: nanoseconds since 1970, octets.
    pub(super) fn lengths(&self) -> &[(u64, u64)] {
        &self.lengths
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pct_symbols::jit::{JitMap, Made, aged};

    #[test]
    fn a_sample_has_the_name_that_its_place_had_then() {
        let mut snapshots = Snapshots::default();
        snapshots.add(b"1000 10 a\n2000 10 stays\n", 100);
        snapshots.add(b"1000 10 a\n2000 10 stays\n", 200);
        // Other code begins elsewhere and covers the place of what was freed; then the first comes back.
        snapshots.add(b"ff8 20 b\n2000 10 stays\n", 300);
        snapshots.add(b"1000 10 a\n2000 10 stays\n3000 1", 400);
        let map = JitMap::parse_watched(snapshots.text(), snapshots.lengths());
        assert_eq!((map.bad, map.functions().len()), (0, 4));
        let at = |address, time| match map.made(aged(address, map.age(address, time))) {
            Made::One(f) => f.name.clone(),
            Made::Several(names, _) => names.join("|"),
            Made::Nothing => String::new(),
        };
        assert_eq!(at(0x1000, 50), "a");
        assert_eq!(at(0x1000, 200), "a");
        assert_eq!(at(0x1000, 250), "a|b");
        assert_eq!(at(0x1000, 300), "b");
        assert_eq!(at(0x1000, 350), "a|b");
        assert_eq!(at(0x1000, 400), "a");
        assert_eq!(at(0x2000, 350), "stays");
    }
}
