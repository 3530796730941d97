//! Looking at files while they are written, at a cost that does not grow with them.
//!
//! A .pct file is blocks that say themselves what they are, in any order. So a *short copy* is enough: the first
//! block (header), the keep segments (regions, stacks, thread names), and of the rings only the segments that were
//! begun lately. Finding those takes one read of 128 bytes per block; whole blocks are read only when they are new
//! or still grow. The short copy then goes through the same reader as any file.
//!
//! Nothing is mapped and nothing stopped: the sampled process does not notice.

use super::raw::Raw;
use super::{Error, Options, WantedMemory, files_of, heap, kernel, resolve};
use crate::model::{Account, Profile};
use pct_format::{SegmentKind, layout};
use pct_num::{float, rounded};
use pct_symbols::Symbolizer;
use rustc_hash::FxHashMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

/// Files that are looked at again and again.
#[derive(Debug)]
pub struct Live {
    paths: Vec<PathBuf>,
    files: FxHashMap<PathBuf, Tail>,
    symbols: Symbolizer,
    memory: WantedMemory,
}

/// What is remembered of a file.
#[derive(Debug, Default)]
struct Tail {
    /// Whole keep segments by their offset, with their generation: they change only at their end.
    keep: FxHashMap<u64, (u64, Vec<u8>)>,
    /// Offset of the keep segment that was begun last: the only one that still grows.
    newest_keep: u64,
}

/// Blocks are read up to here; a file of the largest limit has fewer.
const MOST_BLOCKS: u64 = 1 << 24;

impl Live {
    /// Looks at these files and folders; new files in the folders are found as they come.
    #[must_use]
    pub fn new(paths: Vec<PathBuf>) -> Self {
        Self {
            paths,
            files: FxHashMap::default(),
            symbols: Symbolizer::new(pct_symbols::Options { lines: false, ..Default::default() }),
            memory: WantedMemory::Nothing,
        }
    }

    /// The same, for memory: each look has what is live at that moment, with the lines that allocated it.
    #[must_use]
    pub fn of_memory(paths: Vec<PathBuf>) -> Self {
        Self {
            symbols: Symbolizer::new(pct_symbols::Options { lines: true, ..Default::default() }),
            memory: WantedMemory::Tables,
            ..Self::new(paths)
        }
    }

    /// The profile of what was sampled since `since_ns` (nanoseconds since 1970). Memory is that of now.
    ///
    /// # Errors
    /// When none of the paths can be read.
    pub fn read_since(&mut self, since_ns: u64) -> Result<Profile, Error> {
        let with_memory = self.memory != WantedMemory::Nothing;
        let options = Options { lines: with_memory, memory: self.memory, ..Options::default() };
        let mut account = Account::default();
        let mut raw = Raw::new(&options).with_memory(heap::reader(self.memory));
        raw.since_realtime_ns = since_ns;
        let mut first_error = None;
        for path in &self.paths {
            let files = match files_of(path) {
                Ok(files) => files,
                Err(error) => {
                    super::note_or_first(&mut first_error, &mut account, error);
                    continue;
                }
            };
            for file in files {
                let tail = self.files.entry(file.clone()).or_default();
                let read = short_copy(&file, tail, since_ns, with_memory)
                    .map_err(|why| Error::Unreadable { path: file.clone(), why })
                    .and_then(|bytes| raw.read_bytes(&bytes, &file, &mut self.symbols, &mut account));
                if let Err(error) = read {
                    super::note_or_first(&mut first_error, &mut account, error);
                }
            }
        }
        if raw.is_empty()
            && let Some(error) = first_error
        {
            return Err(error);
        }
        self.symbols.resolve(raw.queries());
        kernel::find_system_calls(&raw.nodes, &mut self.symbols);
        let mut profile = resolve::profile(raw, &self.symbols, &options);
        account.whole_stacks = profile.account.whole_stacks;
        account.languages = std::mem::take(&mut profile.account.languages);
        profile.account = account;
        Ok(crate::fold::fold(profile, options.frames))
    }
}

/// Header, keep segments and late ring segments of a file, and if asked for the areas of memory.
fn short_copy(path: &Path, tail: &mut Tail, since_ns: u64, with_memory: bool) -> io::Result<Vec<u8>> {
    if super::whole::is_stream(path) {
        return super::whole::read(path);
    }
    let file = File::open(path)?;
    let length = file.metadata()?.len();
    let mut copy = read_at(&file, 0, layout::BLOCK_BYTES as u64, length)?;
    // Anything strange goes whole to the reader, which says what is wrong.
    let Ok(head) = pct_format::File::parse(&copy) else { return Ok(copy) };
    let header = head.header();
    let block = header.header_word(layout::header::BLOCK_BYTES);
    if block != layout::BLOCK_BYTES as u64 {
        return super::whole::read(path);
    }
    let since = since_raw(&header, since_ns);
    let mut rings: FxHashMap<u32, Vec<(u64, u64, u64)>> = FxHashMap::default();
    let blocks = (length / block).min(MOST_BLOCKS);
    let mut keeps = Vec::new();
    let mut segment_head = [0; layout::SEGMENT_HEADER_BYTES];
    let mut behind_area = 0;
    for at in (1..blocks).map(|n| n * block) {
        if at < behind_area {
            continue;
        }
        if file.read_exact_at(&mut segment_head, at).is_err() {
            break;
        }
        let Some((kind, generation, thread, time)) = peek(&segment_head) else { continue };
        match kind {
            SegmentKind::Keep => keeps.push((generation, at)),
            SegmentKind::Ring => rings.entry(thread).or_default().push((generation, at, time)),
            SegmentKind::Heap | SegmentKind::HeapSum | SegmentKind::HeapAccount => {
                let area = blocks_of(&segment_head).saturating_mul(block);
                behind_area = at.saturating_add(area);
                if with_memory {
                    // Before the definitions are read: so the stacks that it names are among them.
                    copy.extend_from_slice(&read_at(&file, at, area, length)?);
                }
            }
            _ => {}
        }
    }
    keeps.sort_unstable();
    for &(generation, at) in &keeps {
        let known = tail.keep.get(&at).is_some_and(|(seen, _)| *seen == generation);
        if !known || at == tail.newest_keep || Some(&(generation, at)) == keeps.last() {
            tail.keep.insert(at, (generation, read_at(&file, at, block, length)?));
        }
        if let Some((_, bytes)) = tail.keep.get(&at) {
            copy.extend_from_slice(bytes);
        }
    }
    tail.newest_keep = keeps.last().map_or(0, |(_, at)| *at);
    let mut wanted: Vec<u64> = Vec::new();
    for segments in rings.values_mut() {
        segments.sort_unstable();
        // A segment holds samples from its begin to the begin of the next one of its thread.
        for (n, &(_, at, _)) in segments.iter().enumerate() {
            if segments.get(n + 1).is_none_or(|&(_, _, next)| next >= since) {
                wanted.push(at);
            }
        }
    }
    wanted.sort_unstable();
    for at in wanted {
        copy.extend_from_slice(&read_at(&file, at, block, length)?);
    }
    Ok(copy)
}

fn read_at(file: &File, at: u64, bytes: u64, length: u64) -> io::Result<Vec<u8>> {
    let bytes = bytes.min(length.saturating_sub(at));
    let mut buffer = vec![0; usize::try_from(bytes).map_err(io::Error::other)?];
    let mut done = 0;
    while done < buffer.len() {
        match file.read_at(&mut buffer[done..], at + done as u64)? {
            0 => break,
            n => done += n,
        }
    }
    buffer.truncate(done);
    Ok(buffer)
}

/// Kind, generation, thread and time of a segment by its header alone.
fn peek(head: &[u8; layout::SEGMENT_HEADER_BYTES]) -> Option<(SegmentKind, u64, u32, u64)> {
    let word = |at: usize| word_of(head, at);
    let magic = word(layout::segment::MAGIC);
    if magic & !0xff != layout::SEGMENT_MAGIC {
        return None;
    }
    let kind = match magic.to_le_bytes()[0] {
        layout::segment_kind::KEEP => SegmentKind::Keep,
        layout::segment_kind::RING => SegmentKind::Ring,
        layout::segment_kind::HEAP => SegmentKind::Heap,
        layout::segment_kind::HEAP_SUM => SegmentKind::HeapSum,
        layout::segment_kind::HEAP_ACCOUNT => SegmentKind::HeapAccount,
        _ => SegmentKind::Counters,
    };
    let thread = u32::try_from(word(layout::segment::THREAD)).unwrap_or(0);
    Some((kind, word(layout::segment::GENERATION), thread, word(layout::segment::TIME)))
}

fn word_of(head: &[u8; layout::SEGMENT_HEADER_BYTES], at: usize) -> u64 {
    head.get(at * 8..at * 8 + 8).and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_le_bytes)
}

/// How many blocks an area takes.
fn blocks_of(head: &[u8; layout::SEGMENT_HEADER_BYTES]) -> u64 {
    word_of(head, layout::segment::BLOCKS).max(1)
}

/// A raw time that is surely not after `since_ns`; 0 when the header's anchors cannot tell.
fn since_raw(header: &pct_format::Header<'_>, since_ns: u64) -> u64 {
    let (first, Some(last)) = (header.first_anchor(), header.latest_anchor()) else { return 0 };
    if last.raw <= first.raw || last.realtime_ns <= first.realtime_ns {
        return 0;
    }
    let back_ns = last.realtime_ns.saturating_sub(since_ns.saturating_sub(1_000_000_000));
    let scale = float(last.raw - first.raw) / float(last.realtime_ns - first.realtime_ns);
    last.raw.saturating_sub(rounded((float(back_ns) * scale).floor()))
}

/// The .pct files that a process has mapped.
#[must_use]
pub fn files_of_process(pid: u32) -> Vec<PathBuf> {
    let Ok(maps) = std::fs::read_to_string(format!("/proc/{pid}/maps")) else { return Vec::new() };
    let mut files: Vec<PathBuf> = maps
        .lines()
        .filter_map(|line| line.find('/').map(|at| &line[at..]))
        .filter(|path| path.ends_with(".pct"))
        .map(PathBuf::from)
        .collect();
    files.dedup();
    files
}

#[cfg(test)]
mod tests {
    use super::*;
    use pct_format::builder::Builder;
    use pct_format::header::Anchor;

    #[test]
    fn a_short_copy_holds_the_late_samples_and_all_definitions() {
        let second = 1_000_000_000_u64;
        let mut b = Builder::new();
        let anchor = |s: u64| Anchor {
            raw: s * second + 1,
            monotonic_ns: s * second + 1,
            realtime_ns: (1000 + s) * second,
        };
        b.anchors(anchor(0), anchor(100));
        b.region(1, 1, 0x1000..0x2000, 0, 1, b"", b"/nonexistent/live");
        let thread = b.thread(1, 1, b"live");
        // 100 s at 1 kHz: many segments.
        for n in 0..100_000_u64 {
            b.sample(thread, (n + 1) * second / 1000, 0x1000 + n / 50_000, 1, false, 0);
        }
        let dir = std::env::temp_dir().join(format!("pct-live-{}", std::process::id()));
        std::fs::create_dir_all(&dir).expect("made");
        let path = dir.join("live.pct");
        let whole = b.finish();
        std::fs::write(&path, &whole).expect("written");
        let mut tail = Tail::default();
        let copy = short_copy(&path, &mut tail, 1095 * second, false).expect("copied");
        assert!(copy.len() < whole.len() / 4, "{} of {}", copy.len(), whole.len());
        let mut live = Live::new(vec![dir.clone()]);
        let profile = live.read_since(1095 * second).expect("read");
        let samples = profile.total().samples;
        assert!((4_990..=5_010).contains(&samples), "{samples}");
        let all = live.read_since(0).expect("read");
        assert_eq!(all.total().samples, 100_000);
        std::fs::remove_dir_all(&dir).expect("removed");
    }
}
