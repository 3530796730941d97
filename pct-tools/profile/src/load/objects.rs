//! Regions of a recording as objects of the symbolizer, and when the same addresses meant other code.

use super::{alive, copies};
use pct_format::layout::Text;
use pct_format::record::{RegionFacts, region_flag};
use pct_format::{Header, Index, Region};
use pct_symbols::{BuildId, CodeAddr, FileVersion, ObjectId, ObjectInfo, ObjectKind, Symbolizer};
use rustc_hash::FxHashMap;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

/// Regions to the symbolizer's objects.
pub(super) struct Objects<'r, 'i> {
    index: &'r Index<'i>,
    symbols: &'r mut Symbolizer,
    of_region: FxHashMap<u32, ObjectId>,
    kernel: Option<ObjectId>,
    /// What code that was made at run time is called by.
    made: MadeCode,
    identities: Identities,
    /// The process's own root, if that is another than ours.
    root: Option<PathBuf>,
    /// Copies of files that went away while they were sampled.
    copies: Vec<PathBuf>,
}

/// Where the names of code that a process made are, and which files are surely not its own.
#[derive(Clone, Default)]
struct MadeCode {
    ns_pid: u32,
    /// jitdumps that the process mapped, and the copy of its perf map in the recording's folder.
    files: Vec<PathBuf>,
    since_realtime_ns: Option<u64>,
    realtime_minus_monotonic_ns: i64,
    /// The process's executable.
    program: PathBuf,
}

impl<'r, 'i> Objects<'r, 'i> {
    /// Of the recording at `path`. `root`: where the process's files lie, if the caller knows; otherwise a
    /// running process is asked.
    pub(super) fn new(
        index: &'r Index<'i>,
        symbols: &'r mut Symbolizer,
        path: &Path,
        root: Option<&Path>,
    ) -> Self {
        let header = index.file().header();
        let made = MadeCode::from_index(index, &header, path);
        let identities = Identities::from_index(index);
        let root = root.map(Path::to_owned).or_else(|| alive::other_root_of(&header));
        let copies = copies::all_of(path.parent().unwrap_or(Path::new(".")));
        Self { index, symbols, of_region: FxHashMap::default(), kernel: None, made, identities, root, copies }
    }

    /// The object of a region, with where the process has its file if its root is not ours.
    fn found_by_process(&self, region: &RegionFacts<Vec<u8>>) -> ObjectInfo {
        let mut info = self.made.object_info(region);
        self.identities.complete(&mut info);
        if let (ObjectKind::File, Some(root)) = (&info.kind, &self.root)
            && let Ok(below) = info.path.strip_prefix("/")
        {
            info.also_try.push(root.join(below));
        }
        if info.kind == ObjectKind::File {
            let copies: Vec<PathBuf> = copies::named(&self.copies, &info.path).map(Path::to_owned).collect();
            info.also_try.extend(copies);
        }
        info
    }

    /// When addresses changed their meaning.
    pub(super) fn epochs(&mut self) -> Epochs {
        let infos = self.index.regions.iter().map(|r| self.made.object_info(&r.facts));
        let made: Vec<ObjectInfo> =
            infos.filter(|info| matches!(info.kind, ObjectKind::Jit { .. })).collect();
        let mut changes: Vec<u64> = Vec::new();
        for info in made {
            let object = self.symbols.add(info);
            changes.extend(self.symbols.jit_changes(object));
        }
        changes.sort_unstable();
        changes.dedup();
        Epochs { of_regions: epochs(&self.index.regions), of_made_code: changes }
    }

    /// The object of an address at a raw time, and what it is called there; `None`: it lies in no region.
    pub(super) fn place(
        &mut self,
        pc: u64,
        time: u64,
        kind: fn(u64) -> CodeAddr,
    ) -> Option<(ObjectId, CodeAddr)> {
        // A return address may be the first byte after a region (a call that never returns).
        let inside = if matches!(kind(1), CodeAddr::Return(_)) { pc.saturating_sub(1) } else { pc };
        let region = self.index.region_at(inside, time)?;
        Some(self.in_region(region, pc, kind, Some(time)))
    }

    /// The kernel of the recording's boot.
    pub(super) fn kernel(&mut self) -> ObjectId {
        let info = pct_symbols::kallsyms::object_of_boot(self.index.file().header().boot_id());
        *self.kernel.get_or_insert_with(|| self.symbols.add(info))
    }

    /// The same of an address in a region, at a raw time if that is known.
    pub(super) fn in_region(
        &mut self,
        region: &Region,
        pc: u64,
        kind: fn(u64) -> CodeAddr,
        time: Option<u64>,
    ) -> (ObjectId, CodeAddr) {
        let object = match self.of_region.get(&region.id) {
            Some(&object) => object,
            None => {
                let object = self.symbols.add(self.found_by_process(&region.facts));
                self.of_region.insert(region.id, object);
                object
            }
        };
        let address = kind(address_in_object(&self.symbols.object(object).kind, &region.facts, pc));
        let time = time.map(|time| self.index.timeline.realtime_ns(time));
        (object, time.map_or(address, |time| self.symbols.at_time(object, address, time)))
    }
}

/// What files with a build-id are known by, by device, inode and path.
///
/// A program may map a part of its own file once more (V8 does that with its built-in functions). Such a mapping has no
/// header from which to read the build-id, so it is known as a file without one is.
#[derive(Default)]
struct Identities(FxHashMap<((u64, u64), PathBuf), (BuildId, FileVersion)>);

impl Identities {
    fn from_index(index: &Index<'_>) -> Self {
        let mut all = Self::default();
        for info in index.regions.iter().map(|region| object_info(&region.facts, 0)) {
            if let (Some(file), Some(build_id)) = (info.dev_ino, info.build_id) {
                all.0.entry((file, info.path)).or_insert((build_id, info.version));
            }
        }
        all
    }

    /// Gives an object without a build-id that of the file that it is mapped from.
    fn complete(&self, info: &mut ObjectInfo) {
        if let (ObjectKind::File, None, Some(file)) = (info.kind, &info.build_id, info.dev_ino)
            && let Some((build_id, version)) = self.0.get(&(file, info.path.clone()))
        {
            info.build_id = Some(build_id.clone());
            info.version = *version;
        }
    }
}

impl MadeCode {
    fn from_index(index: &Index<'_>, header: &Header<'_>, path: &Path) -> Self {
        let mapped = index
            .regions
            .iter()
            .filter(|r| r.facts.path.starts_with(b"/") && r.facts.build_id.is_empty())
            .map(|r| real_path(&r.facts.path));
        let mut files: Vec<PathBuf> = mapped.filter(|path| pct_symbols::jit::is_jitdump(path)).collect();
        files.dedup();
        let copy = path.with_file_name(format!("perf-{}.map", header.pid()));
        files.extend(Some(copy).filter(|copy| copy.is_file()));
        let anchor = header.first_anchor();
        let realtime_minus_monotonic_ns =
            i64::try_from(i128::from(anchor.realtime_ns) - i128::from(anchor.monotonic_ns)).unwrap_or(0);
        Self {
            ns_pid: header.ns_pid(),
            files,
            since_realtime_ns: start_of_process(header),
            realtime_minus_monotonic_ns,
            program: real_path(header.text(Text::Exe)),
        }
    }

    /// The object of a region, of code that was made at run time with where its names are.
    fn object_info(&self, region: &RegionFacts<Vec<u8>>) -> ObjectInfo {
        let mut info = object_info(region, self.ns_pid);
        if info.kind == ObjectKind::File && self.files.contains(&info.path) {
            let kind = ObjectKind::Jit { pid: self.ns_pid };
            info = ObjectInfo { kind, path: info.path, ..ObjectInfo::default() };
        }
        if matches!(info.kind, ObjectKind::Jit { .. }) {
            info.also_try.clone_from(&self.files);
            info.since_realtime_ns = self.since_realtime_ns;
            info.realtime_minus_monotonic_ns = self.realtime_minus_monotonic_ns;
            info.program.clone_from(&self.program);
        }
        info
    }
}

/// Start of the process, nanoseconds since 1970. The kernel counts it from the boot, like CLOCK_MONOTONIC but
/// for the time that the machine slept: then it is not known.
#[must_use]
pub fn start_of_process(header: &Header<'_>) -> Option<u64> {
    let anchor = header.first_anchor();
    let hz = Some(header.tick_hz()).filter(|&hz| hz > 0)?;
    let since_boot = header.start_ticks().checked_mul(1_000_000_000)? / hz;
    let age = anchor.monotonic_ns.checked_sub(since_boot).filter(|_| since_boot > 0)?;
    // a tick, and what clocks were set meanwhile
    anchor.realtime_ns.checked_sub(age)?.checked_sub(2_000_000_000)
}

/// What the symbolizer is told of the object of a region of a process, whose own number for itself is `ns_pid`.
pub fn object_info(region: &RegionFacts<Vec<u8>>, ns_pid: u32) -> ObjectInfo {
    let path = real_path(&region.path);
    let text = String::from_utf8_lossy(&region.path);
    let jitdump = text.contains("/jit-") && text.ends_with(".dump");
    let kind = match &*text {
        "[vdso]" => ObjectKind::Vdso,
        _ if jitdump || region.path.is_empty() || region.flags & region_flag::ANONYMOUS != 0 => {
            ObjectKind::Jit { pid: ns_pid }
        }
        _ if region.path.starts_with(b"[") || region.path.starts_with(b"//") => {
            if text == "[heap]" || text == "[stack]" || text.starts_with("[anon") {
                ObjectKind::Jit { pid: ns_pid }
            } else {
                ObjectKind::Opaque
            }
        }
        _ => ObjectKind::File,
    };
    if kind != ObjectKind::File {
        return ObjectInfo { kind, path, ..ObjectInfo::default() };
    }
    ObjectInfo {
        kind,
        build_id: BuildId::new(&region.build_id),
        dev_ino: (region.inode != 0).then_some((region.device, region.inode)),
        version: region.version,
        map_offset: Some(region.offset),
        path,
        ..ObjectInfo::default()
    }
}

/// The address by which the symbolizer knows a PC of a region of an object.
pub fn address_in_object(kind: &ObjectKind, region: &RegionFacts<Vec<u8>>, pc: u64) -> u64 {
    match kind {
        ObjectKind::File => pc.wrapping_sub(region.start).wrapping_add(region.offset),
        ObjectKind::Vdso => pc.wrapping_sub(region.start),
        ObjectKind::Jit { .. } | ObjectKind::Kernel | ObjectKind::Opaque => pc,
    }
}

/// The kernel writes a newline in a path as `\012`, and a backslash as itself: so that may also be what the
/// file is called.
fn real_path(path: &[u8]) -> PathBuf {
    let written = PathBuf::from(OsString::from_vec(path.to_owned()));
    let newline = b"\\012";
    if memchr::memmem::find(path, newline).is_none() || written.exists() {
        return written;
    }
    let mut real = Vec::with_capacity(path.len());
    let mut rest = path;
    while let Some(at) = memchr::memmem::find(rest, newline) {
        real.extend_from_slice(&rest[..at]);
        real.push(b'\n');
        rest = &rest[at + newline.len()..];
    }
    real.extend_from_slice(rest);
    PathBuf::from(OsString::from_vec(real))
}

/// Times between which addresses keep their meaning.
#[derive(Default)]
pub(super) struct Epochs {
    /// Raw times of regions; empty if the same addresses never had two.
    of_regions: Vec<u64>,
    /// Nanoseconds since 1970: code was made where other code had been.
    of_made_code: Vec<u64>,
}

impl Epochs {
    /// The number of the epoch of a raw time.
    pub(super) fn at(&self, time: u64, realtime_ns: impl Fn(u64) -> u64) -> u32 {
        let mut epoch = self.of_regions.partition_point(|&change| change <= time);
        if !self.of_made_code.is_empty() {
            let realtime = realtime_ns(time);
            // A change belongs to what was before it: an entry is there *by* that time.
            let made = self.of_made_code.partition_point(|&change| change < realtime) * 2
                + usize::from(self.of_made_code.binary_search(&realtime).is_ok());
            epoch = epoch * (self.of_made_code.len() + 1) * 2 + made;
        }
        u32::try_from(epoch).unwrap_or(u32::MAX)
    }
}

/// Times at which the same addresses changed their meaning; empty when they never did.
fn epochs(regions: &[Region]) -> Vec<u64> {
    let mut overlap = false;
    let mut end = 0;
    for region in regions {
        overlap |= region.facts.start < end;
        end = end.max(region.facts.end);
    }
    if !overlap {
        return Vec::new();
    }
    let mut changes: Vec<u64> =
        regions.iter().flat_map(|r| [r.from, r.to]).filter(|&t| t != u64::MAX).collect();
    changes.sort_unstable();
    changes.dedup();
    changes
}

#[cfg(test)]
mod tests {
    use super::{Identities, object_info, real_path};
    use pct_format::builder::Builder;
    use std::path::Path;

    #[test]
    fn a_part_of_a_file_that_is_mapped_once_more_is_the_same_file() {
        let mut b = Builder::new();
        b.region(1, 1, 0x1000..0x2000, 0, 7, b"\x01\x02", b"/a/node");
        b.region(2, 1, 0x9000..0xa000, 0x14000, 7, b"", b"/a/node");
        // Another file, and the same name of another file.
        b.region(3, 1, 0xb000..0xc000, 0, 8, b"", b"/a/node");
        b.region(4, 1, 0xd000..0xe000, 0, 7, b"", b"/b/node");
        let octets = b.finish();
        let index = pct_format::Index::new(&pct_format::File::parse(&octets).expect("a recording"));
        let identities = Identities::from_index(&index);
        let build_ids = index.regions.iter().map(|region| {
            let mut info = object_info(&region.facts, 1);
            identities.complete(&mut info);
            info.build_id
        });
        let build_ids: Vec<_> = build_ids.collect();
        assert!(build_ids[0].is_some() && build_ids[0] == build_ids[1], "{build_ids:?}");
        assert_eq!(build_ids[2..], [None, None]);
    }

    #[test]
    fn a_newline_in_a_path_is_read_back() {
        assert_eq!(real_path(b"/nonexistent/a b"), Path::new("/nonexistent/a b"));
        assert_eq!(real_path(b"/nonexistent/a\\012b\\012"), Path::new("/nonexistent/a\nb\n"));
        let dir = tempfile::tempdir().expect("a folder");
        let odd = dir.path().join("a\\012b");
        std::fs::write(&odd, b"").expect("written");
        assert_eq!(real_path(odd.as_os_str().as_encoded_bytes()), odd);
    }
}
