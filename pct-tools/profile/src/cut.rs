//! A recording cut to a range of time: the same files with the samples and marks of that range alone, so that a
//! report of them has the numbers of the range.
//!
//! A file is copied block by block. Of a segment with samples the records outside of the range are left out, and
//! what stays moves up; a segment of which nothing stays is left out. Threads, stacks, regions and anchors stay as
//! they are: numbers in records keep their meaning. What cannot be told of a part is not there: the kernel's CPU
//! times of the whole run, memory, waits.
//!
//! Memory: one piece, and eight octets for each block that stays. The file is walked three times: for its anchors,
//! for the blocks that stay, and while it is given.
//!
//! A recording of several files, or one with names beside it, becomes a tar archive of a folder.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use pct_format::head::{Head, kind};
use pct_format::layout::{self, header as at, segment};
use pct_format::{Anchor, Record, Recorder, Segment, SegmentKind, State, Timeline};

use crate::load::{Error, whole};

mod tar;

/// Octets of a piece, about.
const PIECE: usize = 1 << 20;

/// Which samples stay: those at or after the first time and before the second one, ns since 1970.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Range {
    /// First time.
    pub from_ns: u64,
    /// End; what is at this time does not stay.
    pub to_ns: u64,
    /// Begin of the recording. What seems to be earlier counts as of this time, as reports count it.
    pub start_ns: u64,
}

/// Raw times of one file as a range sees them.
#[derive(Debug)]
struct RawRange {
    range: Range,
    timeline: Timeline,
}

impl RawRange {
    fn contains(&self, raw: u64) -> bool {
        let Range { from_ns, to_ns, start_ns } = self.range;
        (from_ns..to_ns).contains(&self.timeline.realtime_ns(raw).max(start_ns))
    }
}

/// Whether a record stays.
fn stays(record: &[u64], range: &RawRange) -> bool {
    match kind_of(record) {
        kind::ALLOC
        | kind::FREE
        | kind::HEAP_MARK
        | kind::MEMORY
        | kind::WAITED
        | kind::RELEASED
        | kind::TAKEN => false,
        kind if kind == kind::MARK || is_sample(kind) => {
            record.get(1).is_some_and(|raw| range.contains(*raw))
        }
        _ => true,
    }
}

/// The kind of a record; 0 if it has none.
fn kind_of(record: &[u64]) -> u8 {
    record.first().and_then(|head| Head::decode(*head)).map_or(0, |head| head.kind)
}

fn is_sample(kind: u8) -> bool {
    matches!(
        kind,
        kind::SAMPLE
            | kind::SYSTEM_SAMPLE
            | kind::SAMPLE_FRAMES
            | kind::SYSTEM_SAMPLE_FRAMES
            | kind::KERNEL_SAMPLE
            | kind::KERNEL_SAMPLE_FRAMES
    )
}

/// The records of a segment, each with its head.
fn records(words: &[u64]) -> impl Iterator<Item = &[u64]> {
    // The segment's last word is its generation.
    let end = words.len().saturating_sub(1);
    let mut rest = words.get(layout::SEGMENT_HEADER_WORDS..end).unwrap_or_default();
    std::iter::from_fn(move || {
        let head = Head::decode(*rest.first()?)?;
        let (record, after) = rest.split_at_checked(usize::from(head.words))?;
        rest = after;
        Some(record)
    })
}

fn words_of(bytes: &[u8]) -> Vec<u64> {
    bytes.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word)).collect()
}

fn set_word(bytes: &mut [u8], at: usize, word: u64) {
    let place = bytes.get_mut(at * 8..at * 8 + 8);
    place.into_iter().for_each(|place| place.copy_from_slice(&word.to_le_bytes()));
}

fn anchor(record: Record<'_>) -> Option<Anchor> {
    match record {
        Record::Anchor { time, monotonic_ns, realtime_ns, .. } => {
            Some(Anchor { raw: time, monotonic_ns, realtime_ns })
        }
        _ => None,
    }
}

/// A .pct file cut to a range.
#[derive(Debug)]
pub struct CutFile {
    file: File,
    path: PathBuf,
    /// Block 0: header, strings, first segment.
    first: Vec<u8>,
    block_bytes: usize,
    /// Where the other blocks that stay are in the file.
    blocks: Vec<u64>,
    range: RawRange,
}

impl CutFile {
    /// Finds out which blocks stay.
    ///
    /// # Errors
    /// [`Error::Unreadable`]; [`Error::Bad`]: the file is no recording of pct.
    pub fn open(path: &Path, range: Range) -> Result<CutFile, Error> {
        let unreadable = |why| Error::Unreadable { path: path.to_owned(), why };
        let mut file = File::open(path).map_err(unreadable)?;
        let mut first = Vec::new();
        file.by_ref().take(layout::BLOCK_BYTES as u64).read_to_end(&mut first).map_err(unreadable)?;
        let bad = |why| Error::Bad { path: path.to_owned(), why };
        let header = pct_format::File::parse(&first).map_err(bad)?.header();
        let block_bytes = usize::try_from(header.header_word(at::BLOCK_BYTES)).unwrap_or(layout::BLOCK_BYTES);
        let anchors: Vec<_> = [header.first_anchor()].into_iter().chain(header.latest_anchor()).collect();
        let is_log = header.recorder() == Recorder::Log;
        let timeline = Timeline::new(anchors);
        let missing = block_bytes.saturating_sub(first.len()) as u64;
        file.by_ref().take(missing).read_to_end(&mut first).map_err(unreadable)?;
        first.resize(block_bytes, 0);
        let range = RawRange { range, timeline };
        let mut cut = CutFile { file, path: path.to_owned(), first, block_bytes, blocks: Vec::new(), range };
        if is_log {
            cut.find_anchors().map_err(unreadable)?;
            cut.find_blocks().map_err(unreadable)?;
        }
        cut.change_header();
        Ok(cut)
    }

    /// Calls `look` with the offset and octets of each block behind the first that begins a segment.
    fn each_block(&self, mut look: impl FnMut(u64, &Segment<'_>, &[u8])) -> io::Result<()> {
        let length = self.file.metadata()?.len();
        let step = self.block_bytes as u64;
        let (mut offset, mut block) = (step, vec![0; self.block_bytes]);
        while offset.checked_add(step).is_some_and(|end| end <= length) {
            self.file.read_exact_at(&mut block, offset)?;
            let mut blocks = 1;
            if let Some(segment) = Segment::parse(&block, usize::try_from(offset).unwrap_or(usize::MAX)) {
                if segment.kind().is_area() {
                    let said = words_of(&block).get(segment::BLOCKS).copied().unwrap_or(1);
                    blocks = said.clamp(1, length / step + 1);
                } else {
                    look(offset, &segment, &block);
                }
            }
            offset = offset.saturating_add(step.saturating_mul(blocks));
        }
        Ok(())
    }

    fn find_anchors(&mut self) -> io::Result<()> {
        let mut anchors = self.range.timeline.anchors().to_vec();
        let first = Segment::parse(
            self.first.get(layout::FIRST_SEGMENT_AT..).unwrap_or_default(),
            layout::FIRST_SEGMENT_AT,
        );
        anchors.extend(first.iter().flat_map(Segment::records).filter_map(anchor));
        self.each_block(|_, segment, _| {
            if segment.thread() == 0 {
                anchors.extend(segment.records().filter_map(anchor));
            }
        })?;
        self.range.timeline = Timeline::new(anchors);
        Ok(())
    }

    fn find_blocks(&mut self) -> io::Result<()> {
        let mut blocks = Vec::new();
        self.each_block(|offset, segment, block| {
            let is_kept = segment.kind() == SegmentKind::Keep || segment.thread() == 0 || {
                let words = words_of(block);
                let is_timed = |record: &[u64]| is_sample(kind_of(record)) || kind_of(record) == kind::MARK;
                records(&words).any(|record| is_timed(record) && stays(record, &self.range))
            };
            if is_kept {
                blocks.push(offset);
            }
        })?;
        self.blocks = blocks;
        Ok(())
    }

    /// What the header says of the whole run, and of what is left out.
    fn change_header(&mut self) {
        let bytes = self.bytes();
        let first = &mut self.first;
        set_word(first, at::ALLOCATED, bytes);
        set_word(first, at::STATE, State::Closed as u64);
        let of_whole_run = [
            at::USER_NS,
            at::SYSTEM_NS,
            at::BEFORE_NS,
            at::OFF_NS,
            at::CHILDREN_USER_NS,
            at::CHILDREN_SYSTEM_NS,
            at::ALLOC_INTERVAL,
            at::WAIT_RECORDS,
            at::WAIT_RECORDS_LOST,
            at::WAIT_DOORS,
        ];
        of_whole_run.into_iter().for_each(|at| set_word(first, at, 0));
        let words = words_of(first.get(layout::FIRST_SEGMENT_AT..).unwrap_or_default());
        let segment = cut_segment(&words, &self.range);
        let place = first.get_mut(layout::FIRST_SEGMENT_AT..);
        place.into_iter().for_each(|place| place.copy_from_slice(&segment));
    }

    /// How many octets it has.
    pub fn bytes(&self) -> u64 {
        (self.blocks.len() as u64 + 1).saturating_mul(self.block_bytes as u64)
    }

    /// Its octets, piece by piece.
    fn pieces(self) -> impl Iterator<Item = io::Result<Vec<u8>>> + Send {
        let CutFile { file, path, first, block_bytes, blocks, range } = self;
        let most = (PIECE / block_bytes).max(1);
        let mut next = 0;
        let others = std::iter::from_fn(move || {
            let part = blocks.get(next..blocks.len().min(next + most)).filter(|part| !part.is_empty())?;
            next += part.len();
            let mut piece = Vec::with_capacity(part.len() * block_bytes);
            let mut block = vec![0; block_bytes];
            for offset in part {
                if let Err(why) = file.read_exact_at(&mut block, *offset) {
                    return Some(Err(io::Error::new(why.kind(), format!("{}: {why}", path.display()))));
                }
                piece.extend_from_slice(&cut_segment(&words_of(&block), &range));
            }
            Some(Ok(piece))
        });
        std::iter::once(Ok(first)).chain(others)
    }
}

/// A segment with the records that stay.
fn cut_segment(words: &[u64], range: &RawRange) -> Vec<u8> {
    let mut out: Vec<u64> = words.iter().copied().take(layout::SEGMENT_HEADER_WORDS).collect();
    let mut samples = 0;
    for record in records(words).filter(|record| stays(record, range)) {
        samples += u64::from(is_sample(kind_of(record)));
        out.extend_from_slice(record);
    }
    // Only a segment that was left says how many samples it has.
    if let Some(count) = out.get_mut(segment::COUNT).filter(|count| **count > 0) {
        *count = samples;
    }
    out.resize(words.len().saturating_sub(1), 0);
    out.extend(words.last());
    out.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// A file of the archive.
enum Member {
    Cut(CutFile),
    Copy(File, PathBuf),
}

/// A recording cut to a range, as octets to be saved.
pub struct CutRecording {
    /// Each with its head in the archive, and its octets.
    members: Vec<(Vec<u8>, u64, Member)>,
    is_folder: bool,
}

/// Whether a recording can be cut, and what it becomes then: `Some(true)` a tar archive of a folder, `Some(false)` a
/// .pct file. None: it is a stream, or a file of another recorder.
#[must_use]
pub fn becomes_folder(path: &Path, files: &[PathBuf]) -> Option<bool> {
    let is_pct = |file: &PathBuf| {
        let mut magic = [0; 8];
        let read = File::open(file).and_then(|mut file| file.read_exact(&mut magic));
        read.is_ok() && u64::from_le_bytes(magic) == layout::MAGIC
    };
    if whole::is_stream(path) {
        return None;
    }
    if path.is_dir() {
        return Some(true);
    }
    files.iter().all(is_pct).then_some(false)
}

impl CutRecording {
    /// The recording at `path`, of which these are the files.
    ///
    /// # Errors
    /// None of the files can be read; a name is longer than a tar archive allows.
    pub fn open(path: &Path, files: &[PathBuf], range: Range) -> Result<CutRecording, Error> {
        let is_folder = path.is_dir();
        let whole = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let mut cut = CutRecording { members: Vec::new(), is_folder };
        let mut first_error = None;
        for file in files {
            for file in crate::load::files_of(file)? {
                match CutFile::open(&file, range) {
                    Ok(made) => cut.add(&whole, &file, made.bytes(), Member::Cut(made))?,
                    Err(why) => first_error = first_error.or(Some(why)),
                }
            }
        }
        if let Some(error) = first_error.filter(|_| cut.members.is_empty()) {
            return Err(error);
        }
        let beside = std::fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path());
        let is_names = |path: &PathBuf| {
            let name = name_of(path);
            name == pct_symbols::archive::FILE_NAME || name.starts_with("perf-")
        };
        for path in beside.filter(is_names) {
            let Ok(file) = File::open(&path) else { continue };
            let Ok(meta) = file.metadata() else { continue };
            if meta.is_file() {
                cut.add(&whole, &path, meta.len(), Member::Copy(file, path.clone()))?;
            }
        }
        Ok(cut)
    }

    fn add(&mut self, whole: &Path, file: &Path, bytes: u64, member: Member) -> Result<(), Error> {
        let head = if self.is_folder {
            let head = tar::head(&format!("{}-part", name_of(whole)), &name_of(file), bytes);
            let too_long = || io::Error::other("its name is longer than a tar archive allows");
            head.ok_or_else(|| Error::Unreadable { path: file.to_owned(), why: too_long() })?
        } else {
            Vec::new()
        };
        self.members.push((head, bytes, member));
        Ok(())
    }

    /// The octets, piece by piece. After an error there is nothing more: what was saved is then cut short.
    pub fn pieces(self) -> Box<dyn Iterator<Item = io::Result<Vec<u8>>> + Send> {
        let CutRecording { members, is_folder } = self;
        let files = members.into_iter().flat_map(move |(head, bytes, member)| {
            let filling = if is_folder { vec![0; tar::filling(bytes)] } else { Vec::new() };
            std::iter::once(Ok(head)).chain(member.pieces(bytes)).chain(std::iter::once(Ok(filling)))
        });
        let end = std::iter::once_with(move || Ok(if is_folder { tar::end() } else { Vec::new() }));
        let mut has_failed = false;
        Box::new(
            files.chain(end).take_while(move |piece| !std::mem::replace(&mut has_failed, piece.is_err())),
        )
    }
}

fn name_of(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

impl Member {
    /// So many octets of it, whatever happens to the file meanwhile.
    fn pieces(self, bytes: u64) -> Box<dyn Iterator<Item = io::Result<Vec<u8>>> + Send> {
        match self {
            Member::Cut(cut) => Box::new(cut.pieces()),
            Member::Copy(file, path) => {
                let mut left = bytes;
                let mut reader = file.take(bytes);
                Box::new(std::iter::from_fn(move || {
                    if left == 0 {
                        return None;
                    }
                    let mut piece = Vec::new();
                    if let Err(why) = reader.by_ref().take(PIECE as u64).read_to_end(&mut piece) {
                        return Some(Err(io::Error::new(why.kind(), format!("{}: {why}", path.display()))));
                    }
                    // A file that has become shorter is filled up: its length stands in the archive already.
                    if piece.is_empty() {
                        piece.resize(usize::try_from(left.min(PIECE as u64)).unwrap_or(PIECE), 0);
                    }
                    left -= piece.len() as u64;
                    Some(Ok(piece))
                }))
            }
        }
    }
}
