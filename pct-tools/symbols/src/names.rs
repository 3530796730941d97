//! Name lists as `nm -n` writes them, searched without loading them.
//!
//! Nothing is loaded and nothing is indexed: the file is mapped and searched by *byte offset*. A probe at any byte
//! goes back to the start of its line and reads that line's address. The search then goes on in the half before or
//! after it. Lines may have any length. A list whose lines all have the same length ([`Form::Padded`]) is searched by
//! record number instead.
//!
//! A line is `ADDRESS [SIZE] TYPE NAME`, address and size hexadecimal. Lines without an address (`nm` puts
//! undefined symbols first) count as lower than every address.
//!
//! Invariant of the search: every line before `low` is at or below the address, every line from `high` on is above
//! it. A line that contradicts the bounds of its neighbours is reported as unsorted, with its offset.

use std::io;
use std::path::{Path, PathBuf};

use memchr::{memchr, memrchr};
use pct_num::str2num_prefix;

use crate::map::FileMap;

/// How the lines of a list are laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Form {
    /// Lines of any length.
    #[default]
    Lines,
    /// Every line has the length of the first one (the last line's end may be missing).
    Padded,
}

/// Why a list could not answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NamesError {
    /// The file could not be mapped.
    #[error("{path}: {source}", path = path.display())]
    Io {
        /// The list.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// No line has an address.
    #[error("{path}: no line with an address and a name (is it the output of nm -n?)", path = path.display())]
    Empty {
        /// The list.
        path: PathBuf,
    },
    /// A line is not sorted by address.
    #[error("{path}: not sorted by address: the line at byte {at} has {found:#x}, it should lie between {low:#x} and {high:#x} (use nm -n)", path = path.display())]
    Unsorted {
        /// The list.
        path: PathBuf,
        /// Byte offset of the line.
        at: usize,
        /// Its address.
        found: u64,
        /// Address of a line before it.
        low: u64,
        /// Address of a line behind it.
        high: u64,
    },
    /// A line is not `ADDRESS TYPE NAME`.
    #[error("{path}: the line at byte {at} is not an address, a type and a name: {text:?}", path = path.display())]
    BadLine {
        /// The list.
        path: PathBuf,
        /// Byte offset of the line.
        at: usize,
        /// The line's beginning.
        text: String,
    },
    /// A padded list whose lines differ in length.
    #[error("{path}: not padded: the line at byte {at} is not {width} bytes long", path = path.display())]
    NotPadded {
        /// The list.
        path: PathBuf,
        /// Byte offset of the line.
        at: usize,
        /// Length of the first line with its end.
        width: usize,
    },
}

/// What a list has for an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hit<'a> {
    /// The name as the list has it.
    pub name: &'a [u8],
    /// The address of the name's line.
    pub start: u64,
    /// Distance of the address from that line's address.
    pub offset: u64,
}

/// A mapped name list.
#[derive(Debug)]
pub struct Names {
    path: PathBuf,
    map: FileMap,
    /// Length of a record with its newline, if padded.
    width: Option<usize>,
    /// Addresses of the first and the last line, if both have one: the first guess starts from them.
    ends: Option<(u64, u64)>,
}

/// A search in progress. Every line before `low` is at or below the address, every line from `high` on above it.
struct Search<'a> {
    address: u64,
    low: usize,
    high: usize,
    /// Address of the line just before `low`; None: not read yet.
    low_address: Option<u64>,
    /// Address of the line at `high`; None: not read yet.
    high_address: Option<u64>,
    best: Option<(usize, Line<'a>)>,
}

/// Largest list of which every line is checked when it is opened, in bytes.
const SMALL: usize = 32 * 1024;
/// Number of lines that are checked of a larger list.
const SPREAD: usize = 64;

/// Distance in bytes below which guessing no longer pays: a few lines.
const NEAR: usize = 512;

/// A parsed line.
#[derive(Debug, Clone, Copy)]
struct Line<'a> {
    address: u64,
    kind: u8,
    name: &'a [u8],
}

impl Names {
    /// Maps a list. It reads only the list's ends and a few dozen lines between.
    ///
    /// # Errors
    /// [`NamesError::Io`]; [`NamesError::Unsorted`] if the first line is above the last; for a padded list
    /// also [`NamesError::NotPadded`] if the file's length is no multiple of the first line's.
    pub fn open(path: &Path, form: Form) -> Result<Names, NamesError> {
        let (map, _) =
            FileMap::open(path).map_err(|source| NamesError::Io { path: path.to_path_buf(), source })?;
        let mut names = Names { path: path.to_path_buf(), map, width: None, ends: None };
        if form == Form::Padded {
            let width = memchr(b'\n', &names.map).map_or(names.map.len(), |at| at + 1);
            let whole = width > 0
                && (names.map.len().is_multiple_of(width) || (names.map.len() + 1).is_multiple_of(width));
            if !whole && !names.map.is_empty() {
                let at = names.map.len() / width * width;
                return Err(NamesError::NotPadded { path: names.path, at, width });
            }
            names.width = Some(width);
        }
        names.ends = names.look_at_ends()?;
        names.look_at_some()?;
        Ok(names)
    }

    /// The second check: a few dozen lines, evenly spread, ascend by address (all lines of a small list). A search
    /// alone reads few lines, and in a shuffled list those may not contradict each other.
    fn look_at_some(&self) -> Result<(), NamesError> {
        let step = (self.map.len() / SPREAD).max(1);
        let mut at = 0;
        let mut low = None;
        while at < self.map.len() {
            let (start, end) = self.line_around(at)?;
            // Lines of another form are found when a search reads them.
            if let Ok(Some(line)) = self.parse(start, end) {
                match low {
                    Some(low) if line.address < low => {
                        return Err(self.unsorted(start, line.address, low, u64::MAX));
                    }
                    _ => low = Some(line.address),
                }
            }
            at = if self.map.len() <= SMALL { end } else { end.max(at + step) };
        }
        Ok(())
    }

    /// The cheapest check whether a list is sorted: its two ends.
    fn look_at_ends(&self) -> Result<Option<(u64, u64)>, NamesError> {
        let Some(last) = self.map.trim_ascii_end().len().checked_sub(1) else { return Ok(None) };
        let (start, end) = self.line_around(0)?;
        let (tail, tail_end) = self.line_around(last)?;
        match (self.parse(start, end), self.parse(tail, tail_end)) {
            (Ok(Some(first)), Ok(Some(last))) if first.address > last.address => {
                Err(self.unsorted(tail, last.address, first.address, u64::MAX))
            }
            (Ok(Some(first)), Ok(Some(last))) => Ok(Some((first.address, last.address))),
            _ => Ok(None),
        }
    }

    /// The path of the list.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The last name at or below an address. `Ok(None)`: the address lies below the first name.
    ///
    /// Of several names at one address a global text symbol is preferred, then a weak one, then a local one.
    ///
    /// # Errors
    /// [`NamesError`] for a list that is empty, unsorted or of another form.
    pub fn find(&self, address: u64) -> Result<Option<Hit<'_>>, NamesError> {
        let mut search = Search {
            address,
            low: 0,
            high: self.map.len(),
            low_address: None,
            high_address: None,
            best: None,
        };
        // The addresses of a list grow about evenly with its bytes. So guess, correct the guess by its error, and close
        // in from there in growing steps, so that few lines are read. The number of guesses is bounded: the worst case
        // is bisection and a few more probes.
        if let Some((first, last)) = self.ends.filter(|(first, last)| first < last && address >= *first) {
            let bytes_per_address = self.map.len() as f64 / (last - first) as f64;
            let mut at = whole((address - first) as f64 * bytes_per_address);
            let mut above = true;
            for _ in 0..6 {
                if search.high - search.low <= NEAR {
                    break;
                }
                at = at.clamp(search.low, search.high - 1);
                above = self.probe(&mut search, at)?;
                let line = if above { search.low_address } else { search.high_address };
                let off = address.abs_diff(line.unwrap_or(address)) as f64 * bytes_per_address;
                if off < NEAR as f64 {
                    break;
                }
                let off = whole(off);
                at = if above { at.saturating_add(off) } else { at.saturating_sub(off) };
            }
            let mut step = NEAR;
            while search.high - search.low > step {
                let at = if above { search.low + step } else { search.high - step };
                if self.probe(&mut search, at)? != above {
                    break;
                }
                step *= 4;
            }
        }
        while search.low < search.high {
            let middle = search.low + (search.high - search.low) / 2;
            self.probe(&mut search, middle)?;
        }
        let Search { best, high_address, .. } = search;
        let Some((start, line)) = best else {
            return if high_address.is_some() {
                Ok(None)
            } else {
                Err(NamesError::Empty { path: self.path.clone() })
            };
        };
        let line = self.preferred(start, line)?;
        Ok(Some(Hit { name: line.name, start: line.address, offset: address - line.address }))
    }

    /// Reads the line around a byte between `low` and `high` and moves one of the two. Returns true if the address
    /// is at or above that line.
    fn probe<'a>(&'a self, search: &mut Search<'a>, at: usize) -> Result<bool, NamesError> {
        let (start, end) = self.line_around(at)?;
        let Some(line) = self.parse(start, end)? else {
            // Undefined symbols and empty lines count as before every address.
            if let Some(low) = search.low_address {
                return Err(self.unsorted(start, 0, low, search.high_address.unwrap_or(u64::MAX)));
            }
            search.low = end;
            return Ok(true);
        };
        let below = search.low_address.is_some_and(|l| line.address < l);
        if below || search.high_address.is_some_and(|h| line.address > h) {
            let (low, high) = (search.low_address.unwrap_or(0), search.high_address.unwrap_or(u64::MAX));
            return Err(self.unsorted(start, line.address, low, high));
        }
        if line.address <= search.address {
            search.low = end;
            search.low_address = Some(line.address);
            search.best = Some((start, line));
            Ok(true)
        } else {
            search.high = start;
            search.high_address = Some(line.address);
            Ok(false)
        }
    }

    /// Start of the line that contains a byte, and start of the next one.
    fn line_around(&self, at: usize) -> Result<(usize, usize), NamesError> {
        let data: &[u8] = &self.map;
        if let Some(width) = self.width {
            let start = at / width * width;
            let end = data.len().min(start + width);
            let newline = memchr(b'\n', &data[start..end]);
            let whole = match newline {
                Some(n) => start + n + 1 == end && n + 1 == width,
                None => end == data.len() && end - start + 1 == width,
            };
            if !whole {
                return Err(NamesError::NotPadded { path: self.path.clone(), at: start, width });
            }
            return Ok((start, end));
        }
        let start = memrchr(b'\n', &data[..at]).map_or(0, |n| n + 1);
        let end = memchr(b'\n', &data[at..]).map_or(data.len(), |n| at + n + 1);
        Ok((start, end))
    }

    /// Parses a line. None: it has no address.
    fn parse(&self, start: usize, end: usize) -> Result<Option<Line<'_>>, NamesError> {
        let line = self.map[start..end].trim_ascii_end();
        if line.is_empty() || line[0] == b' ' {
            return Ok(None);
        }
        parse_line(line).map(Some).ok_or_else(|| NamesError::BadLine {
            path: self.path.clone(),
            at: start,
            text: String::from_utf8_lossy(&line[..line.len().min(60)]).into_owned(),
        })
    }

    fn unsorted(&self, at: usize, found: u64, low: u64, high: u64) -> NamesError {
        NamesError::Unsorted { path: self.path.clone(), at, found, low, high }
    }

    /// The best of the lines with the same address. It reads at most 64 of them.
    fn preferred<'a>(&'a self, start: usize, line: Line<'a>) -> Result<Line<'a>, NamesError> {
        let (mut best, mut at) = (line, start);
        for _ in 0..64 {
            if at == 0 {
                break;
            }
            let (before, end) = self.line_around(at - 1)?;
            match self.parse(before, end)? {
                Some(other) if other.address == best.address => {
                    if rank(other.kind) >= rank(best.kind) {
                        best = other;
                    }
                }
                _ => break,
            }
            at = before;
        }
        Ok(best)
    }
}

/// A guess as an offset: truncated to a whole number, and limited to the range of offsets.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "saturates, and any guess will do"
)]
fn whole(guess: f64) -> usize {
    guess as usize
}

/// Which of several symbols at one address names the code.
fn rank(kind: u8) -> u8 {
    match kind {
        b'T' => 5,
        b'W' | b'V' | b'i' => 4,
        b't' => 3,
        b'w' | b'v' => 2,
        _ => 1,
    }
}

fn parse_line(line: &[u8]) -> Option<Line<'_>> {
    let (address, taken) = str2num_prefix::<16>(line).ok()?;
    let rest = skip_blanks(&line[taken..])?;
    // nm -S puts the size in between; a type is one character with a blank behind it.
    let rest = match rest.get(1) {
        Some(b' ' | b'\t') => rest,
        _ => skip_blanks(&rest[str2num_prefix::<16>(rest).ok()?.1..])?,
    };
    let kind = *rest.first()?;
    let name = skip_blanks(rest.get(1..)?)?;
    if name.is_empty() { None } else { Some(Line { address, kind, name }) }
}

/// What follows one or more blanks.
fn skip_blanks(text: &[u8]) -> Option<&[u8]> {
    let blanks = text.iter().take_while(|c| **c == b' ' || **c == b'\t').count();
    (blanks > 0).then(|| &text[blanks..])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn list(text: &str, form: Form) -> (tempfile::NamedTempFile, Result<Names, NamesError>) {
        let file = tempfile::NamedTempFile::new().expect("temp");
        std::fs::write(file.path(), text).expect("temp");
        let names = Names::open(file.path(), form);
        (file, names)
    }

    fn find(text: &str, address: u64) -> Result<Option<(String, u64)>, String> {
        let (_file, names) = list(text, Form::Lines);
        let names = names.map_err(|e| e.to_string())?;
        let hit = names.find(address).map_err(|e| e.to_string())?;
        Ok(hit.map(|h| (String::from_utf8_lossy(h.name).into_owned(), h.offset)))
    }

    #[test]
    fn edges_get_clear_answers() {
        let text = "                 U printf\n                 w __gmon\n0000000000001000 T first\n0000000000001010 t a b c\n0000000000002000 0000000000000010 T last\n";
        assert_eq!(find(text, 0xfff), Ok(None));
        assert_eq!(find(text, 0x1000), Ok(Some(("first".into(), 0))));
        assert_eq!(find(text, 0x101f), Ok(Some(("a b c".into(), 0xf))));
        assert_eq!(find(text, u64::MAX), Ok(Some(("last".into(), u64::MAX - 0x2000))));
        assert_eq!(find(text.trim_end(), 0x2001), Ok(Some(("last".into(), 1))));
        assert!(find("", 1).is_err_and(|e| e.contains("no line")));
        assert!(find("\n\n", 1).is_err_and(|e| e.contains("no line")));
        assert!(find("hello world\n", 1).is_err_and(|e| e.contains("byte 0")));
        assert!(find("3000 T c\n1000 T a\n2000 T b\n", 0x2500).is_err_and(|e| e.contains("not sorted")));
    }

    #[test]
    fn a_shuffled_list_gives_no_wrong_name() {
        for lines in [40_u64, 100_000] {
            // Every address once, in an order that only a look at many lines tells from sorted: the ends fit.
            let mut order: Vec<u64> = (0..lines).map(|n| n * 7919 % lines).collect();
            order.sort_by_key(|n| (*n == lines - 1, *n != 0));
            let text: String = order.iter().map(|n| format!("{:016x} T f{n}\n", 0x1000 + n * 16)).collect();
            assert!(find(&text, 0x1008).is_err_and(|e| e.contains("not sorted")), "{lines}");
        }
    }

    #[test]
    fn of_several_names_at_one_address_the_global_one_wins() {
        let text = "1000 t local\n1000 T global\n1000 W weak\n2000 T next\n";
        assert_eq!(find(text, 0x1004), Ok(Some(("global".into(), 4))));
    }

    #[test]
    fn a_padded_list_must_be_padded() {
        let (_f, names) = list("1000 T a  \n2000 T bb \n3000 T ccc", Form::Padded);
        let names = names.expect("padded");
        assert_eq!(names.find(0x2004).expect("sorted").map(|h| h.name), Some(&b"bb"[..]));
        assert_eq!(names.find(0x3004).expect("sorted").map(|h| h.name), Some(&b"ccc"[..]));
        let (_f, names) = list("1000 T a\n2000 T bbbbbbb\n3000 T cc\n", Form::Padded);
        assert!(names.is_err());
        let (_f, names) = list("1000 T a\n2000 T\n3000 T ccc\n", Form::Padded);
        assert!(names.is_err() || names.expect("checked").find(0x2000).is_err());
    }

    proptest! {
        #[test]
        fn the_search_agrees_with_a_walk(
            steps in proptest::collection::vec((0u64..50, "[a-z]{1,40}"), 1..60),
            probes in proptest::collection::vec(0u64..3000, 1..30),
        ) {
            let mut at = 0;
            let mut lines = Vec::new();
            for (step, name) in steps {
                at += step;
                lines.push((at, name));
            }
            let text: String = lines.iter().map(|(a, n)| format!("{a:016x} T {n}\n")).collect();
            let padded: String = lines.iter().map(|(a, n)| format!("{a:016x} T {n:<40}\n")).collect();
            let (_f, names) = list(&text, Form::Lines);
            let (_g, fixed) = list(&padded, Form::Padded);
            let (names, fixed) = (names.expect("mapped"), fixed.expect("mapped"));
            for probe in probes {
                let naive = lines.iter().rev().find(|l| l.0 <= probe)
                    .map(|l| l.0)
                    .and_then(|a| lines.iter().find(|l| l.0 == a));
                for list in [&names, &fixed] {
                    let hit = list.find(probe).expect("sorted");
                    prop_assert_eq!(hit.map(|h| (h.start, h.name)), naive.map(|(a, n)| (*a, n.as_bytes())));
                }
            }
        }

        #[test]
        fn no_text_makes_it_panic(text in "[0-9a-f T\n]{0,80}", probe in any::<u64>()) {
            for form in [Form::Lines, Form::Padded] {
                if let (_f, Ok(names)) = list(&text, form) {
                    let _ = names.find(probe);
                }
            }
        }
    }
}
