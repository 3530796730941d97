//! Code that a program generated itself: `/tmp/perf-PID.map` and jitdump files.
//!
//! The program writes both in place while it runs, so they are read into memory, and their last line may be
//! incomplete.
//!
//! perf map: one line per function, `START SIZE NAME`. The numbers are hexadecimal, the name is the rest of the line.
//! It has no times, and runtimes reuse addresses: V8 frees code and puts other code there. So the last line that covers
//! an address need not be the one that was valid when a sample was taken. A controller that watches the map while the
//! program runs records its length at several times (in a file `perf-PID.times` beside the map's copy). Each line then
//! has a time after which and one by which it was written, [`Written`]. A jitdump has its own times.
//!
//! The *age* of an address distinguishes its functions in a batch of questions. It is stored in the upper eight bits
//! of the address ([`aged`]), which no program uses.
//!
//! | age | the function is |
//! |---|---|
//! | 0 | the only one that ever covered the address; or one of several, unknown which |
//! | n from 1 to 126 | the nth that was written |
//! | 127 | one after those, unknown which |
//! | 128 + n, n below 127 | the nth (none for 0) or one of those written between the next two readings of the map |
//! | 255 | none: the first of several was written later |

mod dump;
mod function;

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

pub use function::{JitFunction, Written};

/// Largest file that is read. A perf map of a gigabyte is a runaway program's.
const MAX_FILE: u64 = 1 << 30;
/// Suffix of the file with the times of a copied perf map. Each line has nanoseconds since 1970 and octets.
pub const TIMES: &str = "times";
/// Functions in a block of the index.
const BLOCK: usize = 64;
/// Number of names that are listed if it is unknown which one is right.
const LISTED: usize = 3;

/// The clock of the entries' times.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Times {
    /// Nanoseconds since 1970.
    #[default]
    Realtime,
    /// CLOCK_MONOTONIC.
    Monotonic,
}

/// All generated functions of one process.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct JitMap {
    /// Functions by start, then in the order in which they were written.
    functions: Vec<JitFunction>,
    /// For each function, its position in the order of writing.
    order: Vec<u32>,
    /// For each block, the highest end of its functions, and the highest end in it and all blocks before.
    ends: Vec<(u64, u64)>,
    /// Source files of jitdump's line records.
    pub files: Vec<String>,
    /// Number of lines or records that could not be understood.
    pub bad: u64,
    times: Times,
}

/// The function at an aged address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Made<'a> {
    /// No function was recorded.
    Nothing,
    /// This function.
    One(&'a JitFunction),
    /// One of these: their names, and how many more.
    Several(Vec<&'a str>, usize),
}

/// An address of generated code, with its age.
#[must_use]
pub fn aged(address: u64, age: u8) -> u64 {
    address & ADDRESS | u64::from(age) << 56
}

/// The address without its age.
#[must_use]
pub fn address_of(aged: u64) -> u64 {
    aged & ADDRESS
}

const ADDRESS: u64 = (1 << 56) - 1;
const BEYOND: u8 = 127;
const EITHER: u8 = 128;
const NOT_YET: u8 = 255;

impl JitMap {
    /// Parses a perf map. It never fails: lines that it does not understand are counted in `bad`.
    pub fn parse_perf_map(data: &[u8]) -> JitMap {
        JitMap::parse_watched(data, &[])
    }

    /// Parses a map whose length at several times is known. `looks` has nanoseconds since 1970, ascending, and octets.
    pub fn parse_watched(data: &[u8], looks: &[(u64, u64)]) -> JitMap {
        let mut map = JitMap::default();
        let mut found = Vec::new();
        let mut end = 0_u64;
        for line in data.split(|b| *b == b'\n') {
            end += line.len() as u64 + 1;
            if line.is_empty() {
                continue;
            }
            match perf_line(line) {
                Some(f) => found.push(JitFunction { written: written(looks, end), ..f }),
                None => map.bad += 1,
            }
        }
        map.with(found)
    }

    /// Reads a jitdump file.
    ///
    /// # Errors
    /// A text that says what is wrong with the header. A damaged record ends the reading and is counted in `bad`.
    pub fn parse_jitdump(data: &[u8]) -> Result<JitMap, String> {
        let dump = dump::parse(data)?;
        let map = JitMap { times: Times::Monotonic, files: dump.files, bad: dump.bad, ..JitMap::default() };
        Ok(map.with(dump.functions))
    }

    /// Adds functions, in the order in which they were written.
    fn with(mut self, functions: Vec<JitFunction>) -> JitMap {
        let mut sorted: Vec<(u32, JitFunction)> = (0..).zip(functions).collect();
        sorted.sort_by_key(|(order, f)| (f.start, *order));
        (self.order, self.functions) = sorted.into_iter().unzip();
        let mut reach = 0;
        let highest = |block: &[JitFunction]| {
            let end = block.iter().map(|f| f.end).max().unwrap_or(0);
            reach = end.max(reach);
            (end, reach)
        };
        self.ends = self.functions.chunks(BLOCK).map(highest).collect();
        self
    }

    /// Converts times of CLOCK_MONOTONIC into times since 1970, by the difference of the two clocks.
    #[must_use]
    pub fn by_realtime(mut self, realtime_minus_monotonic_ns: i64) -> JitMap {
        if self.times == Times::Monotonic {
            for f in &mut self.functions {
                if f.written != Written::default() {
                    let shifted = |at: u64| at.saturating_add_signed(realtime_minus_monotonic_ns);
                    f.written = Written { after: shifted(f.written.after), by: shifted(f.written.by) };
                }
            }
            self.times = Times::Realtime;
        }
        self
    }

    /// Reads a perf map or a jitdump file, and the times of a map that was watched.
    ///
    /// # Errors
    /// The error of opening; `InvalidData` for a damaged jitdump, for a file of more than 1 GiB, for one that
    /// belongs to neither this user, `owner` nor root (anybody can put a file into `/tmp`), and for one that
    /// was last written before `since` (nanoseconds since 1970), since that is of an earlier process with this number.
    pub fn open(path: &Path, owner: Option<u32>, since: Option<u64>) -> io::Result<JitMap> {
        let bad = |text: String| io::Error::new(io::ErrorKind::InvalidData, text);
        let data = read(path, owner, since)?;
        if data.starts_with(b"JiTD") || data.starts_with(b"DTiJ") {
            return JitMap::parse_jitdump(&data).map_err(bad);
        }
        let looks = read(&path.with_extension(TIMES), owner, None).unwrap_or_default();
        Ok(JitMap::parse_watched(&data, &parse_looks(&looks)))
    }

    /// The function that contains an address. Of several, it is the one that was written last.
    pub fn find(&self, address: u64) -> Option<&JitFunction> {
        self.covering(address).pop()
    }

    /// All functions, by their start.
    pub fn functions(&self) -> &[JitFunction] {
        &self.functions
    }

    /// The functions that cover an address, in the order in which they were written. A function that was written
    /// twice is listed once.
    fn covering(&self, address: u64) -> Vec<&JitFunction> {
        let behind = self.functions.partition_point(|f| f.start <= address);
        let mut found: Vec<(u32, &JitFunction)> = Vec::new();
        let blocks = &self.ends[..behind.div_ceil(BLOCK)];
        for (block, &(end, _)) in
            blocks.iter().enumerate().rev().take_while(|(_, (_, reach))| *reach > address)
        {
            if end > address {
                let from = block * BLOCK;
                let to = behind.min(from + BLOCK);
                let rows = self.order[from..to].iter().copied().zip(&self.functions[from..to]);
                found.extend(rows.filter(|(_, f)| address < f.end));
            }
        }
        found.sort_unstable_by_key(|(order, _)| *order);
        let mut found: Vec<&JitFunction> = found.into_iter().map(|(_, f)| f).collect();
        found.dedup_by(|later, before| (later.start, &later.name) == (before.start, &before.name));
        found
    }

    /// The age of an address at a time, nanoseconds since 1970. See the module's text.
    #[must_use]
    pub fn age(&self, address: u64, time_ns: u64) -> u8 {
        let all = self.covering(address);
        if all.len() < 2 || all.iter().all(|f| f.written == Written::default()) {
            return 0;
        }
        let surely = all.iter().take_while(|f| f.written.by <= time_ns).count();
        let perhaps = all.iter().take_while(|f| f.written.after < time_ns).count();
        match u8::try_from(surely) {
            Ok(0) if perhaps == 0 => NOT_YET,
            Ok(nth) if nth < BEYOND => nth + if perhaps > surely { EITHER } else { 0 },
            _ => BEYOND,
        }
    }

    /// The times at which the age of any address changes, ascending.
    #[must_use]
    pub fn changes(&self) -> Vec<u64> {
        let mut changes = Vec::new();
        let mut reach: Option<&JitFunction> = None;
        let mut note = |f: &JitFunction| changes.extend([f.written.after, f.written.by]);
        for f in &self.functions {
            match reach {
                Some(before) if f.start < before.end => {
                    note(before);
                    note(f);
                    if f.end > before.end {
                        reach = Some(f);
                    }
                }
                _ => reach = Some(f),
            }
        }
        changes.retain(|&at| at != 0 && at != u64::MAX);
        changes.sort_unstable();
        changes.dedup();
        changes
    }

    /// The function or functions of an aged address.
    #[must_use]
    pub fn made(&self, aged: u64) -> Made<'_> {
        let mut all = self.covering(address_of(aged));
        let age = u8::try_from(aged >> 56).unwrap_or(0);
        let nth = usize::from(age & !EITHER);
        let (from, to) = match age {
            0 | BEYOND => (0, all.len()),
            NOT_YET => (0, 0),
            age if age < EITHER => (nth - 1, nth),
            _ => {
                let window = all.get(nth).map(|f| f.written);
                let same = all.iter().skip(nth).take_while(|f| Some(f.written) == window).count();
                (nth.saturating_sub(1), nth + same)
            }
        };
        all.truncate(to);
        all.drain(..from.min(all.len()));
        let Some(last) = all.last().copied() else { return Made::Nothing };
        if all.iter().all(|f| f.name == last.name) {
            return Made::One(last);
        }
        let mut names: Vec<&str> = all.iter().map(|f| f.name.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        let more = names.len().saturating_sub(LISTED);
        names.truncate(LISTED);
        Made::Several(names, more)
    }

    /// File and line of an address in a function, if the jitdump has them.
    pub fn line_in(&self, function: &JitFunction, address: u64) -> Option<(&str, u32)> {
        let lines = &function.lines;
        let next = lines.partition_point(|l| l.0 <= address);
        let (_, line, file) = lines.get(next.checked_sub(1)?)?;
        Some((self.files.get(*file as usize)?, *line))
    }

    /// File and line of an address, if the jitdump has them.
    pub fn line(&self, address: u64) -> Option<(&str, u32)> {
        self.line_in(self.find(address)?, address)
    }
}

/// A file's octets; see [`JitMap::open`].
fn read(path: &Path, owner: Option<u32>, since: Option<u64>) -> io::Result<Vec<u8>> {
    let bad = |text: String| io::Error::new(io::ErrorKind::InvalidData, text);
    let file = File::options().read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path)?;
    let meta = file.metadata()?;
    let me = own_uid();
    if !meta.is_file() {
        return Err(bad("not a regular file".into()));
    }
    if meta.uid() != 0 && meta.uid() != me && Some(meta.uid()) != owner {
        return Err(bad(format!(
            "belongs to uid {}, neither to the process, to you nor to root",
            meta.uid()
        )));
    }
    if meta.len() > MAX_FILE {
        return Err(bad(format!("{} bytes are too many", meta.len())));
    }
    let written = u64::try_from(meta.mtime()).unwrap_or(0);
    if since.is_some_and(|since| written < since / 1_000_000_000) {
        return Err(bad("older than the process: of an earlier one with this number".into()));
    }
    let mut data = Vec::new();
    file.take(MAX_FILE).read_to_end(&mut data)?;
    Ok(data)
}

/// Whether a file begins like a jitdump. Its name does not matter.
pub fn is_jitdump(path: &Path) -> bool {
    let mut magic = [0; 4];
    // To open a device may have an effect.
    let regular = std::fs::metadata(path).is_ok_and(|meta| meta.is_file());
    let file = regular.then(|| File::options().read(true).custom_flags(libc::O_NONBLOCK).open(path).ok());
    file.flatten()
        .is_some_and(|mut file| file.read_exact(&mut magic).is_ok() && matches!(&magic, b"JiTD" | b"DTiJ"))
}

/// The effective user of this process, from /proc, so that no system call wrapper is needed.
fn own_uid() -> u32 {
    std::fs::metadata("/proc/self").map_or(u32::MAX, |m| m.uid())
}

/// Parses lines of time and length. Invalid lines and lines that go backwards are left out.
fn parse_looks(text: &[u8]) -> Vec<(u64, u64)> {
    let mut looks: Vec<(u64, u64)> = Vec::new();
    for line in String::from_utf8_lossy(text).lines() {
        let pair =
            line.split_once(' ').and_then(|(at, octets)| Some((at.parse().ok()?, octets.parse().ok()?)));
        let last = looks.last().copied().unwrap_or_default();
        looks.extend(pair.filter(|&(at, octets)| at >= last.0 && octets >= last.1));
    }
    looks
}

/// When an entry was written that ends at this octet.
fn written(looks: &[(u64, u64)], end: u64) -> Written {
    let next = looks.partition_point(|&(_, octets)| octets < end);
    let at = |look: Option<&(u64, u64)>| look.map(|(at, _)| *at);
    Written {
        after: at(next.checked_sub(1).and_then(|last| looks.get(last))).unwrap_or(0),
        by: at(looks.get(next)).unwrap_or(u64::MAX),
    }
}

fn perf_line(line: &[u8]) -> Option<JitFunction> {
    let text = std::str::from_utf8(line).map_or_else(|_| String::from_utf8_lossy(line), Into::into);
    let (start, rest) = text.split_once(' ')?;
    let (size, name) = rest.trim_start().split_once(' ')?;
    let hex = |t: &str| u64::from_str_radix(t.trim_start_matches("0x"), 16).ok();
    let (start, size) = (hex(start)?, hex(size)?);
    let name = name.trim();
    if name.is_empty() || size == 0 {
        return None;
    }
    let end = start.checked_add(size)?;
    Some(JitFunction { start, end, name: name.to_string(), lines: Vec::new(), written: Written::default() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names_with_spaces_and_a_half_written_last_line() {
        let map = JitMap::parse_perf_map(b"1000 20 py::f:/a b.py\n0x2000 0x10 LazyCompile:~g x.js:1\n3000 1");
        assert_eq!(map.find(0x101f).map(|f| f.name.as_str()), Some("py::f:/a b.py"));
        assert_eq!(map.find(0x2000).map(|f| f.name.as_str()), Some("LazyCompile:~g x.js:1"));
        assert_eq!(map.find(0x1020), None);
        assert_eq!(map.bad, 1);
    }

    #[test]
    fn the_latest_entry_wins_where_code_was_replaced() {
        let map = JitMap::parse_perf_map(b"1000 100 old\n1040 20 new\n");
        let at = |a| map.find(a).map(|f| f.name.as_str());
        assert_eq!(
            (at(0x1000), at(0x103f), at(0x1040), at(0x105f)),
            (Some("old"), Some("old"), Some("new"), Some("new"))
        );
        assert_eq!((at(0x1060), at(0x10ff), at(0x1100)), (Some("old"), Some("old"), None));
    }

    fn names(made: Made<'_>) -> Vec<String> {
        match made {
            Made::Nothing => Vec::new(),
            Made::One(f) => vec![f.name.clone()],
            Made::Several(names, _) => names.into_iter().map(str::to_owned).collect(),
        }
    }

    #[test]
    fn a_sample_sees_the_entries_that_existed_then() {
        let text = b"1000 10 a\n2000 10 alone\n1000 10 b\n1000 10 b\n1004 8 c\n";
        // Lines end at 10, 24, 34, 44, 53.
        let map = JitMap::parse_watched(text, &[(100, 24), (200, 44), (300, 53)]);
        let at = |address, time| names(map.made(aged(address, map.age(address, time))));
        assert_eq!(at(0x1000, 100), ["a"]);
        // Between two readings it may be either.
        assert_eq!(at(0x1000, 150), ["a", "b"]);
        assert_eq!(at(0x1000, 200), ["b"]);
        assert_eq!(at(0x1000, 9999), ["b"]);
        assert_eq!(at(0x1005, 250), ["b", "c"]);
        assert_eq!(at(0x1005, 300), ["c"]);
        // An address that only one function had gets that name at every time.
        assert_eq!(at(0x2000, 1), ["alone"]);
        assert_eq!(at(0x1000, 50), ["a"], "the first look finds it: it may have been there");
        assert_eq!(map.changes(), [100, 200, 300]);
        assert!(at(0x3000, 200).is_empty());
    }

    #[test]
    fn without_times_an_address_of_several_functions_has_no_one_name() {
        let map = JitMap::parse_perf_map(b"1000 10 a\n1000 10 b\n1000 10 a\n");
        assert_eq!(names(map.made(aged(0x1000, map.age(0x1000, 5)))), ["a", "b"]);
        assert_eq!(names(map.made(0x1000)), ["a", "b"]);
        let many: String = (0..9).map(|n| format!("1000 10 f{n}\n")).collect();
        let map = JitMap::parse_perf_map(many.as_bytes());
        assert!(matches!(map.made(0x1000), Made::Several(listed, 6) if listed == ["f0", "f1", "f2"]));
    }

    #[test]
    fn a_map_from_before_the_process_is_refused_and_times_lie_beside_a_copy() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("perf-7.map");
        std::fs::write(&path, "1000 10 a\n1000 10 b\n").expect("written");
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970");
        let now = u64::try_from(now.as_nanos()).expect("before 2554");
        assert!(JitMap::open(&path, None, Some(now - 60_000_000_000)).is_ok());
        let why = JitMap::open(&path, None, Some(now + 60_000_000_000)).expect_err("refused").to_string();
        assert!(why.contains("older than the process"), "{why}");
        std::fs::write(dir.path().join("perf-7.times"), "5 10\nnonsense\n4 11\n9 20\n").expect("written");
        let map = JitMap::open(&path, None, None).expect("read");
        assert_eq!(map.functions()[1].written, Written { after: 5, by: 9 });
    }

    fn record(kind: u32, body: &[u8]) -> Vec<u8> {
        let mut out = kind.to_le_bytes().to_vec();
        out.extend((body.len() as u32 + 16).to_le_bytes());
        out.extend(0u64.to_le_bytes());
        out.extend(body);
        out
    }

    fn small_dump() -> Vec<u8> {
        let mut d = b"DTiJ".to_vec();
        for v in [1u32, 40, 62, 0, 7] {
            d.extend(v.to_le_bytes());
        }
        d.extend([0; 16]);
        let mut lines = Vec::new();
        lines.extend(0x5000u64.to_le_bytes());
        lines.extend(2u64.to_le_bytes());
        for (a, l) in [(0x5000u64, 3u32), (0x5010, 4)] {
            lines.extend(a.to_le_bytes());
            lines.extend(l.to_le_bytes());
            lines.extend(0u32.to_le_bytes());
            lines.extend(b"a.js\0");
        }
        d.extend(record(2, &lines));
        let mut load = vec![0; 8];
        for v in [0x5000u64, 0x5000, 0x20, 9] {
            load.extend(v.to_le_bytes());
        }
        load.extend(b"hot\0\x90\x90");
        d.extend(record(0, &load));
        let mut moved = vec![0; 8];
        for v in [0x6000u64, 0x5000, 0x6000, 0x20, 9] {
            moved.extend(v.to_le_bytes());
        }
        d.extend(record(1, &moved));
        d
    }

    #[test]
    fn jitdump_loads_lines_and_moves() {
        let map = JitMap::parse_jitdump(&small_dump()).expect("well-formed");
        assert_eq!(map.find(0x5004).map(|f| f.name.as_str()), Some("hot"));
        assert_eq!(map.line(0x5012), Some(("a.js", 4)));
        assert_eq!(map.line(0x6001), Some(("a.js", 3)));
        assert_eq!(map.bad, 0);
    }

    proptest! {
        #[test]
        fn damaged_dumps_never_panic(cut in 0usize..300, at in 0usize..300, byte in any::<u8>()) {
            let mut d = small_dump();
            if let Some(b) = d.get_mut(at) { *b = byte; }
            d.truncate(cut.max(1));
            let _ = JitMap::parse_jitdump(&d);
        }

        #[test]
        fn any_text_is_a_map_and_the_last_line_wins(text in "([0-9a-f]{1,5} [0-9a-f]{1,3} [a-z]{1,3}\n){0,40}") {
            let map = JitMap::parse_perf_map(text.as_bytes());
            for pair in map.functions().windows(2) {
                prop_assert!(pair[0].start <= pair[1].start);
            }
            // The naive twin: the last line that covers an address.
            for address in [0u64, 0x10, 0x1ff, 0xfff, 0x12345] {
                let naive = text.lines().rev().find_map(|l| {
                    let f = perf_line(l.as_bytes())?;
                    (f.start <= address && address < f.end).then_some(f.name)
                });
                prop_assert_eq!(map.find(address).map(|f| f.name.clone()), naive);
            }
        }
    }
}
