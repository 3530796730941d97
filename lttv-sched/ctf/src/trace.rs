//! Finds and opens traces.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use lttv_engine::describe::PacketInfo;
use lttv_engine::time::Time;

use crate::cache::{Cache, fnv, identity};
use crate::compiled::Compiled;
use crate::container::{self, MAX_METADATA};
use crate::error::{Diagnostic, MetaError, OpenError, ReadError};
use crate::model::{StreamClass, TraceClass};
use crate::packet::StreamFile;
use crate::reader::{Reader, Shared};
use crate::stream::{StreamLoss, streams};
use crate::{json, tsdl};
use rustc_hash::FxHashSet;

/// Deepest directory below the one given that is searched for traces.
const SEARCH_DEPTH: usize = 32;
/// With more stream files than this, files are closed between reads.
const MANY_FILES: usize = 256;

/// Options for opening a trace.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Opening fails if a stream file is damaged at its first packet, or if its packets belong to another trace.
    pub strict: bool,
    /// Ignore index files and the cache.
    pub no_index: bool,
    /// Folder in which the positions of packets are cached for files without an index; see [`crate::default_folder`].
    /// Created when needed. None: nothing is cached or written.
    pub cache: Option<PathBuf>,
    /// Added to all times, in ns, to correct clocks of different hosts.
    pub shift_ns: i64,
    /// Added to the times of traces with a name ([`Trace::names`]), ns.
    pub shifts: Vec<(String, i64)>,
}

impl Options {
    /// What is added to the times of a trace with these names, in ns.
    fn shift_of(&self, names: &[String]) -> i64 {
        let of_it = self.shifts.iter().filter(|(name, _)| names.contains(name));
        of_it.fold(self.shift_ns, |sum, (_, ns)| sum.saturating_add(*ns))
    }
}

/// The names by which users may refer to the trace: its folders as given, their last parts, its host.
fn names_of(dirs: &[PathBuf], class: &TraceClass) -> Vec<String> {
    let paths = dirs.iter().map(|dir| dir.display().to_string());
    let folders = dirs.iter().filter_map(|dir| Some(dir.file_name()?.to_string_lossy().into_owned()));
    let host = class.env_text("hostname").filter(|host| !host.is_empty()).map(str::to_owned);
    paths.chain(folders).chain(host).collect()
}

/// An open trace: one directory, or several that are chunks of one session.
#[derive(Clone, Debug)]
pub struct Trace {
    shared: Arc<Shared>,
    dirs: Vec<PathBuf>,
    /// Fingerprint of the metadata.
    print: u64,
    /// What the options add to the times, in ns.
    shift_ns: i64,
    /// Problems that did not stop the opening.
    pub diagnostics: Vec<Diagnostic>,
    /// Stream files that cannot be read at all.
    pub lost_files: Vec<ReadError>,
}

/// A directory with metadata, parsed.
struct Part {
    dir: PathBuf,
    class: TraceClass,
    /// Fingerprint of the text of the metadata.
    print: u64,
}

/// Directories at `path` or below it that hold a trace, sorted.
///
/// # Errors
/// `path` cannot be read, or there is no trace.
pub fn discover(path: &Path) -> Result<Vec<PathBuf>, OpenError> {
    let io = |error| OpenError::Io { path: path.to_path_buf(), error };
    if path.join("metadata").is_file() {
        return Ok(vec![path.to_path_buf()]);
    }
    std::fs::read_dir(path).map_err(io)?;
    let mut found = Vec::new();
    search(path, 0, &mut found);
    found.sort();
    if found.is_empty() { Err(OpenError::NoTrace { path: path.to_path_buf() }) } else { Ok(found) }
}

fn search(dir: &Path, depth: usize, found: &mut Vec<PathBuf>) {
    if dir.join("metadata").is_file() {
        found.push(dir.to_path_buf());
        return;
    }
    let Ok(entries) = std::fs::read_dir(dir) else { return };
    for e in entries.flatten() {
        // Links are not followed: they may lead in circles.
        if depth < SEARCH_DEPTH && e.file_type().is_ok_and(|t| t.is_dir()) {
            search(&e.path(), depth + 1, found);
        }
    }
}

/// Opens all traces at `path` or below it. Directories with one trace UUID are one trace.
///
/// # Errors
/// The first error that keeps a trace from being opened.
pub fn open_all(path: &Path, options: &Options) -> Result<Vec<Trace>, OpenError> {
    open_each(path, options)?.into_iter().collect()
}

/// Like [`open_all`], but with a result for each trace, so that others can be used if one is damaged.
///
/// # Errors
/// `path` cannot be read, or there is no trace.
pub fn open_each(path: &Path, options: &Options) -> Result<Vec<Result<Trace, OpenError>>, OpenError> {
    let mut groups: Vec<Vec<Part>> = Vec::new();
    let mut out = Vec::new();
    for dir in discover(path)? {
        match read_metadata(&dir) {
            Ok(part) => {
                let uuid = part.class.uuid;
                match groups.iter_mut().find(|g| uuid.is_some() && g[0].class.uuid == uuid) {
                    Some(g) => g.push(part),
                    None => groups.push(vec![part]),
                }
            }
            Err(e) => out.push(Err(e)),
        }
    }
    for g in groups {
        for g in compatible(g) {
            out.push(open_parts(g, options));
        }
    }
    Ok(out)
}

/// Opens the trace in one directory.
///
/// # Errors
/// Its metadata is invalid, or in strict mode one of its stream files.
pub fn open(dir: &Path, options: &Options) -> Result<Trace, OpenError> {
    open_parts(vec![read_metadata(dir)?], options)
}

fn read_metadata(dir: &Path) -> Result<Part, OpenError> {
    let path = dir.join("metadata");
    let io = |error| OpenError::Io { path: path.clone(), error };
    let len = path.metadata().map_err(io)?.len();
    let wrong = |e: MetaError| OpenError::Metadata { path: path.clone(), line: e.line, what: e.what };
    if len > MAX_METADATA {
        return Err(wrong(MetaError::new(
            1,
            format!("metadata of {len} bytes, at most {MAX_METADATA} are read"),
        )));
    }
    let bytes = std::fs::read(&path).map_err(io)?;
    if let Some(what) = container::no_metadata(&bytes) {
        return Err(wrong(MetaError::new(1, what)));
    }
    let text = container::unpack(&bytes).map_err(|e| OpenError::Container {
        path: path.clone(),
        packet: e.packet,
        at: e.at,
        what: e.what,
    })?;
    // Metadata may be large, and the text is a copy of it.
    drop(bytes);
    let mut class =
        if text.json { json::parse(&text.bytes) } else { tsdl::parse(&text.bytes) }.map_err(wrong)?;
    if class.uuid.is_none() && class.major == 1 {
        class.uuid = text.uuid;
    }
    Ok(Part { dir: dir.to_path_buf(), class, print: fnv(&text.bytes) })
}

/// Splits directories with one UUID into sets that can be read with one set of classes. The largest metadata comes
/// first.
fn compatible(mut parts: Vec<Part>) -> Vec<Vec<Part>> {
    if parts.len() < 2 {
        return vec![parts];
    }
    let events = |c: &TraceClass| c.streams.iter().map(|s| s.events.len()).sum::<usize>();
    let mut out = Vec::new();
    while !parts.is_empty() {
        let best = (0..parts.len()).rev().max_by_key(|i| events(&parts[*i].class)).expect("not empty");
        let names =
            |s: &StreamClass| s.events.iter().map(|e| (e.id, e.name.clone())).collect::<FxHashSet<_>>();
        let (best_class, print) = (parts[best].class.clone(), parts[best].print);
        let fits = |c: &TraceClass| {
            c.major == best_class.major
                && c.streams.iter().all(|s| {
                    best_class
                        .streams
                        .iter()
                        .find(|b| b.id == s.id)
                        .is_some_and(|b| names(s).is_subset(&names(b)))
                })
        };
        let (mut group, rest): (Vec<Part>, Vec<Part>) = parts.into_iter().partition(|p| fits(&p.class));
        parts = rest;
        for p in &mut group {
            p.class.clone_from(&best_class);
            p.print = print;
        }
        out.push(group);
    }
    out
}

fn open_parts(parts: Vec<Part>, options: &Options) -> Result<Trace, OpenError> {
    let mut diagnostics = Vec::new();
    let mut found = Vec::new();
    for p in &parts {
        found.append(&mut stream_files(&p.dir)?);
    }
    let dirs: Vec<PathBuf> = parts.iter().map(|p| p.dir.clone()).collect();
    let first = parts.into_iter().next().expect("one part at least");
    let cache = options.cache.as_ref().filter(|_| !options.no_index).map(|dir| Cache::new(dir, first.print));
    let (class, first_print) = (first.class, first.print);
    let metadata = dirs[0].join("metadata");
    diagnostics.extend(class.warnings.iter().map(|w| Diagnostic { path: metadata.clone(), what: w.clone() }));
    let shift_ns = options.shift_of(&names_of(&dirs, &class));
    let compiled = Compiled::new(class, shift_ns, options.strict).map_err(|e| OpenError::Metadata {
        path: metadata,
        line: e.line,
        what: e.what,
    })?;
    let keep = found.len() <= MANY_FILES;
    let files: Vec<StreamFile> = found.into_iter().map(|(p, len)| StreamFile::new(p, len, keep)).collect();
    let (streams, lost_files) =
        streams(&compiled, &files, !options.no_index, cache.as_ref(), &mut diagnostics);
    if options.strict
        && let Some(e) = lost_files.first().or_else(|| streams.iter().find_map(|s| s.bad.as_ref()))
    {
        return Err(OpenError::Stream(e.clone()));
    }
    diagnostics.extend(lost_files.iter().map(|e| Diagnostic { path: e.path.clone(), what: e.to_string() }));
    let shared = Arc::new(Shared { compiled, files, streams });
    Ok(Trace { shared, dirs, print: first_print, shift_ns, diagnostics, lost_files })
}

/// Regular, visible, non-empty files of a directory other than `metadata`, sorted by name.
fn stream_files(dir: &Path) -> Result<Vec<(PathBuf, u64)>, OpenError> {
    let io = |error| OpenError::Io { path: dir.to_path_buf(), error };
    let mut out = Vec::new();
    for e in std::fs::read_dir(dir).map_err(io)? {
        let e = e.map_err(io)?;
        let name = e.file_name();
        if name == "metadata" || name.as_encoded_bytes().first() == Some(&b'.') {
            continue;
        }
        if let Ok(m) = std::fs::metadata(e.path())
            && m.is_file()
            && m.len() > 0
        {
            out.push((e.path(), m.len()));
        }
    }
    out.sort();
    Ok(out)
}

/// Whether the tracer wrote events later than the end of their packet.
fn ends_too_early(t: &TraceClass) -> bool {
    let number = |key: &str| t.env_int(key).unwrap_or(0);
    let patch = t.env_int("tracer_patchlevel").or(t.env_int("tracer_patch")).unwrap_or(0);
    let version = (number("tracer_major"), number("tracer_minor"), patch);
    match t.env_text("tracer_name") {
        Some("lttng-ust") => version < (2, 11, 0),
        Some("lttng-modules") => version < (2, 9, 13) || ((2, 10, 0)..(2, 10, 10)).contains(&version),
        _ => false,
    }
}

/// A stream of a trace, for people and for the merge.
#[derive(Clone, Copy, Debug)]
pub struct StreamInfo<'a> {
    /// Its class.
    pub class: &'a StreamClass,
    /// Its CPU, from the packet context.
    pub cpu: Option<u32>,
    /// Its instance number.
    pub instance: Option<u64>,
    /// The file of its first packet.
    pub path: &'a Path,
    /// Number of its packets.
    pub packets: usize,
    /// What was lost.
    pub losses: &'a [StreamLoss],
}

impl Trace {
    /// The metadata.
    pub fn class(&self) -> &TraceClass {
        &self.shared.compiled.class
    }

    /// The directories it was read from.
    pub fn dirs(&self) -> &[PathBuf] {
        &self.dirs
    }

    /// The names by which users may refer to it: its folders as given, their last parts, its host.
    pub fn names(&self) -> Vec<String> {
        names_of(&self.dirs, self.class())
    }

    /// Bytes that differ whenever the contents of this trace differ. They identify what was computed from it. None if a
    /// stream file was changed within the last seconds.
    pub fn content_key(&self) -> Option<Vec<u8>> {
        let mut words = vec![self.print, self.shift_ns.cast_unsigned()];
        for file in &self.shared.files {
            let m = file.metadata().ok().filter(|m| m.len() == file.len)?;
            words.extend(identity(&m)?);
        }
        Some(words.into_iter().flat_map(u64::to_le_bytes).collect())
    }

    /// Number of streams.
    pub fn stream_count(&self) -> usize {
        self.shared.streams.len()
    }

    /// A stream by index.
    pub fn stream(&self, i: usize) -> StreamInfo<'_> {
        let s = &self.shared.streams[i];
        StreamInfo {
            class: &self.class().streams[s.class],
            cpu: s.cpu,
            instance: s.instance,
            path: s
                .packets
                .first()
                .map_or(Path::new(""), |p| &self.shared.files[p.extent.file as usize].path),
            packets: s.packets.len(),
            losses: &s.losses,
        }
    }

    pub(crate) fn class_of_stream(&self, i: usize) -> usize {
        self.shared.streams[i].class
    }

    /// The packets of a stream in their order.
    pub fn packets(&self, stream: usize) -> impl Iterator<Item = PacketInfo> {
        let of = &self.shared.streams[stream];
        let clock = self.shared.compiled.streams[of.class].clock.as_ref();
        let time = move |value: Option<u64>| clock?.ns(value?).map(Time);
        of.packets.iter().filter(|packet| !packet.bad).map(move |packet| PacketInfo {
            file: self.shared.files[packet.extent.file as usize].path.clone(),
            at: packet.extent.at,
            bytes: packet.extent.size,
            begin: time(packet.begin),
            end: time(packet.end),
            sequence: packet.seq,
            discarded: packet.discarded,
        })
    }

    /// What is added to all times, ns.
    pub fn shift_ns(&self) -> i64 {
        self.shift_ns
    }

    /// A reader of a stream, without a position.
    pub fn reader(&self, stream: usize) -> Reader {
        Reader::new(self.shared.clone(), stream)
    }

    /// Bounds (ns) of a stream: the time of its first event and the end of its last packet, or the time of its last
    /// event if the tracer's packet ends are wrong. None if it has no timed event.
    pub fn stream_bounds(&self, stream: usize) -> Option<(i64, i64)> {
        use crate::reader::EventTime;
        let s = &self.shared.streams[stream];
        let clock = self.shared.compiled.streams[s.class].clock.as_ref()?;
        let last = s.packets.last().filter(|p| !p.bad && !ends_too_early(self.class()));
        let Some(end) = last.and_then(|p| p.end).filter(|e| *e > 0).and_then(|e| clock.ns(e)) else {
            return self.stream_span(stream);
        };
        match self.reader(stream).rewind().ok().flatten()?.time {
            EventTime::Ns(first) => Some((first, end.max(first))),
            _ => None,
        }
    }

    /// Times (ns) of the first and the last event of a stream. None if it has no timed event. It reads the first and
    /// last packets. What cannot be read counts as absent.
    pub fn stream_span(&self, stream: usize) -> Option<(i64, i64)> {
        use crate::reader::EventTime;
        let mut r = self.reader(stream);
        let Some(EventTime::Ns(first)) = r.rewind().ok().flatten().map(|h| h.time) else { return None };
        let mut last = first;
        let packets = self.shared.streams[stream].packets.len();
        for i in (0..packets).rev() {
            let Ok(mut head) = r.open_for_span(i) else { continue };
            let mut any = false;
            while let Some(h) = head {
                if let EventTime::Ns(t) = h.time {
                    last = last.max(t);
                    any = true;
                }
                head = r.advance().unwrap_or(None);
            }
            if any {
                break;
            }
        }
        Some((first, last))
    }
}
