//! Code that a program made itself: `/tmp/perf-PID.map` and jitdump files.
//!
//! Both are written by the program while it runs, in place, so they are read into memory, and the last line may
//! be half there. Where code was replaced, the latest entry that covers an address wins.
//!
//! perf map: one line per function, `START SIZE NAME`, numbers hexadecimal, the name is the rest of the line.
//!
//! jitdump: a header (magic `JiTD`, version, size, machine, pad, pid, time stamp, flags), then records
//! (kind u32, size u32, time u64, body) in the writer's byte order. Read here: 0 code load (pid, tid u32; vma,
//! code address, size, index u64; name NUL, code), 1 code move (pid, tid u32; vma, old, new, size, index u64),
//! 2 debug info (code address, count u64, then address u64, line u32, discriminator u32, file NUL each), 3 close.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

/// Larger files are not read: a perf map of a gigabyte is a runaway program's.
const MAX_FILE: u64 = 1 << 30;

/// One made function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JitFunction {
    /// First address.
    pub start: u64,
    /// Behind the last address.
    pub end: u64,
    /// As the program wrote it.
    pub name: String,
    /// Lines by address, ascending: (address, line, index into [`JitMap::files`]).
    pub lines: Vec<(u64, u32, u32)>,
}

/// All made functions of one process, sorted, not overlapping.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct JitMap {
    functions: Vec<JitFunction>,
    /// Source files of jitdump's line records.
    pub files: Vec<String>,
    /// Lines or records that could not be understood.
    pub bad: u64,
}

impl JitMap {
    /// Reads a perf map's text. Never fails: lines that are not understood are counted in `bad`.
    pub fn parse_perf_map(data: &[u8]) -> JitMap {
        let mut map = JitMap::default();
        let mut found = Vec::new();
        for line in data.split(|b| *b == b'\n').filter(|l| !l.is_empty()) {
            match perf_line(line) {
                Some(f) => found.push(f),
                None => map.bad += 1,
            }
        }
        map.functions = latest_wins(found);
        map
    }

    /// Reads a jitdump file.
    ///
    /// # Errors
    /// A text that says what is wrong with the header. Damaged records end the reading and are counted in `bad`.
    pub fn parse_jitdump(data: &[u8]) -> Result<JitMap, String> {
        Dump::parse(data)
    }

    /// Reads a perf map or jitdump file, whichever it is.
    ///
    /// # Errors
    /// What opening gives; `InvalidData` for a damaged jitdump, for a file of more than 1 GiB and for one that
    /// belongs to neither this user, `owner` nor root: anybody can put a file into `/tmp`.
    pub fn open(path: &Path, owner: Option<u32>) -> io::Result<JitMap> {
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
        let mut data = Vec::new();
        file.take(MAX_FILE).read_to_end(&mut data)?;
        if data.starts_with(b"JiTD") || data.starts_with(b"DTiJ") {
            return JitMap::parse_jitdump(&data).map_err(bad);
        }
        Ok(JitMap::parse_perf_map(&data))
    }

    /// The function that holds an address.
    pub fn find(&self, address: u64) -> Option<&JitFunction> {
        let next = self.functions.partition_point(|f| f.start <= address);
        self.functions.get(next.checked_sub(1)?).filter(|f| address < f.end)
    }

    /// All functions, ascending.
    pub fn functions(&self) -> &[JitFunction] {
        &self.functions
    }

    /// File and line of an address, where jitdump told them.
    pub fn line(&self, address: u64) -> Option<(&str, u32)> {
        let lines = &self.find(address)?.lines;
        let next = lines.partition_point(|l| l.0 <= address);
        let (_, line, file) = lines.get(next.checked_sub(1)?)?;
        Some((self.files.get(*file as usize)?, *line))
    }
}

/// The effective user of this process, from /proc: no system call wrapper needed.
fn own_uid() -> u32 {
    std::fs::metadata("/proc/self").map_or(u32::MAX, |m| m.uid())
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
    Some(JitFunction { start, end: start.checked_add(size)?, name: name.to_string(), lines: Vec::new() })
}

/// Sorts functions that were given in order of time; where two overlap, the later one keeps its whole extent and
/// the older one what is left on its sides.
fn latest_wins(functions: Vec<JitFunction>) -> Vec<JitFunction> {
    use std::collections::BTreeMap;
    let mut live: BTreeMap<u64, JitFunction> = BTreeMap::new();
    for new in functions {
        let overlapped: Vec<u64> = live
            .range(..new.end)
            .rev()
            .take_while(|(_, f)| f.end > new.start)
            .map(|(start, _)| *start)
            .collect();
        for start in overlapped {
            let Some(old) = live.remove(&start) else { continue };
            if old.end > new.end {
                let tail = JitFunction { start: new.end, ..old.clone() };
                live.insert(tail.start, tail);
            }
            if old.start < new.start {
                live.insert(old.start, JitFunction { end: new.start, ..old });
            }
        }
        live.insert(new.start, new);
    }
    live.into_values().collect()
}

/// A jitdump file being read.
struct Dump<'a> {
    data: &'a [u8],
    big: bool,
}

impl<'a> Dump<'a> {
    fn parse(data: &'a [u8]) -> Result<JitMap, String> {
        let big = match data.get(..4) {
            Some(b"DTiJ") => false,
            Some(b"JiTD") => true,
            _ => return Err("no jitdump magic".into()),
        };
        let dump = Dump { data, big };
        let version = dump.u32(4).ok_or("ends in its header")?;
        if version != 1 {
            return Err(format!("jitdump version {version}, known is 1"));
        }
        let mut at = dump.u32(8).ok_or("ends in its header")? as usize;
        if at < 40 {
            return Err(format!("header of {at} bytes, 40 are the least"));
        }
        let mut map = JitMap::default();
        let mut files: HashMap<String, u32> = HashMap::new();
        let mut loads: Vec<(u64, JitFunction)> = Vec::new();
        let mut latest: HashMap<u64, usize> = HashMap::new();
        let mut pending: HashMap<u64, Vec<(u64, u32, u32)>> = HashMap::new();
        while at < data.len() {
            let Some((kind, size)) = dump.u32(at).zip(dump.u32(at + 4)) else {
                map.bad += 1;
                break;
            };
            let size = size as usize;
            let Some(body) = size.checked_sub(16).and_then(|_| data.get(at + 16..at.checked_add(size)?))
            else {
                map.bad += 1;
                break;
            };
            let record = Dump { data: body, big };
            let ok = match kind {
                0 => record.load(&mut loads, &mut latest, &mut pending).is_some(),
                1 => record.code_move(&mut loads, &mut latest).is_some(),
                2 => record.debug_info(&mut map.files, &mut files, &mut pending).is_some(),
                3 => break,
                _ => true,
            };
            if !ok {
                map.bad += 1;
            }
            at += size;
        }
        map.functions = latest_wins(loads.into_iter().map(|(_, f)| f).collect());
        Ok(map)
    }

    fn u32(&self, at: usize) -> Option<u32> {
        let b = self.data.get(at..at.checked_add(4)?)?.try_into().ok()?;
        Some(if self.big { u32::from_be_bytes(b) } else { u32::from_le_bytes(b) })
    }

    fn u64(&self, at: usize) -> Option<u64> {
        let b = self.data.get(at..at.checked_add(8)?)?.try_into().ok()?;
        Some(if self.big { u64::from_be_bytes(b) } else { u64::from_le_bytes(b) })
    }

    fn text(&self, at: usize) -> Option<(String, usize)> {
        let rest = self.data.get(at..)?;
        let end = memchr::memchr(0, rest)?;
        Some((String::from_utf8_lossy(&rest[..end]).into_owned(), at + end + 1))
    }

    fn load(
        &self,
        loads: &mut Vec<(u64, JitFunction)>,
        latest: &mut HashMap<u64, usize>,
        pending: &mut HashMap<u64, Vec<(u64, u32, u32)>>,
    ) -> Option<()> {
        let (start, size, index) = (self.u64(16)?, self.u64(24)?, self.u64(32)?);
        let (name, _) = self.text(40)?;
        let end = start.checked_add(size).filter(|_| size > 0)?;
        let lines = pending.remove(&start).unwrap_or_default();
        latest.insert(index, loads.len());
        loads.push((index, JitFunction { start, end, name, lines }));
        Some(())
    }

    fn code_move(&self, loads: &mut Vec<(u64, JitFunction)>, latest: &mut HashMap<u64, usize>) -> Option<()> {
        let (new, size, index) = (self.u64(24)?, self.u64(32)?, self.u64(40)?);
        let old = &loads.get(*latest.get(&index)?)?.1;
        let delta = new.wrapping_sub(old.start);
        let lines = old.lines.iter().map(|l| (l.0.wrapping_add(delta), l.1, l.2)).collect();
        let moved = JitFunction { start: new, end: new.checked_add(size)?, name: old.name.clone(), lines };
        if size == 0 {
            return None;
        }
        latest.insert(index, loads.len());
        loads.push((index, moved));
        Some(())
    }

    fn debug_info(
        &self,
        texts: &mut Vec<String>,
        files: &mut HashMap<String, u32>,
        pending: &mut HashMap<u64, Vec<(u64, u32, u32)>>,
    ) -> Option<()> {
        let (start, count) = (self.u64(0)?, self.u64(8)?);
        let mut at = 16;
        let mut lines = Vec::new();
        for _ in 0..count {
            let (address, line) = (self.u64(at)?, self.u32(at + 8)?);
            let (file, next) = self.text(at + 16)?;
            let number = *files.entry(file).or_insert_with_key(|f| {
                texts.push(f.clone());
                (texts.len() - 1) as u32
            });
            lines.push((address, line, number));
            at = next;
        }
        lines.sort_by_key(|l| l.0);
        pending.insert(start, lines);
        Some(())
    }
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
        fn any_text_is_a_map_without_overlaps(text in "([0-9a-f]{1,5} [0-9a-f]{1,3} [a-z]{1,3}\n){0,40}") {
            let map = JitMap::parse_perf_map(text.as_bytes());
            for pair in map.functions().windows(2) {
                prop_assert!(pair[0].end <= pair[1].start);
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
