//! Programs and libraries of a run's processes, held open while they are sampled.
//!
//! A file that is deleted or replaced meanwhile (a deploy, a plug-in that is loaded anew, a program in a memfd) could
//! not give names to a report. So each file that a process has mapped for execution is opened soon after it was
//! found. Once its path does not lead to it any more, it is copied beside the recordings
//! ([`pct_profile::load::copies`]). Of a file that cannot be opened any more, what the process has loaded is copied. A
//! file that was mapped and replaced between two looks is missed.

use nix::fcntl::OFlag;
use pct_attach::{tasks, unlinked};
use pct_elf::maps_device;
use pct_format::layout::header;
use pct_profile::load::copies;
use procfs::process::{MMPermissions, MMapPath, MemoryMap};
use std::collections::HashMap;
use std::ffi::OsString;
use std::fs::{DirBuilder, File, Metadata, OpenOptions};
use std::io::{self, Seek as _, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{DirBuilderExt as _, FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Files that are held at most, and what part of the descriptors that pct may have.
const MOST_FILES: usize = 500;
const PART_OF_DESCRIPTORS: u64 = 2;
/// Size of all copies together, in octets.
const MOST_OCTETS: u64 = 256 << 20;

/// Size of all that is copied from processes' memory, in octets.
const MOST_LOADED: u64 = 64 << 20;

/// Device as maps files have it, and inode.
type FileId = (u64, u64);

/// The files of a run.
#[derive(Default)]
pub(super) struct HeldObjects {
    /// `None`: it could not be read.
    files: HashMap<FileId, Option<HeldObject>>,
    /// By recording: how often its process's regions had changed at the last look.
    epochs: HashMap<PathBuf, u64>,
    /// Size of the copies, in octets.
    copied: u64,
    /// Size of what was copied from processes' memory, in octets.
    loaded: u64,
    /// What was not copied, and why.
    remarks: Vec<String>,
}

struct HeldObject {
    contents: HeldOctets,
    /// For the process.
    path: PathBuf,
    /// The process has another root than we, so its path leads us elsewhere.
    is_elsewhere: bool,
    is_copied: bool,
}

enum HeldOctets {
    /// An open file, and its version when it was opened.
    File(File, (u64, SystemTime)),
    /// The file cannot be opened: what the process has loaded of it.
    Loaded(Vec<u8>),
}

impl HeldOctets {
    fn octets(&self) -> u64 {
        match self {
            HeldOctets::File(_, (octets, _)) => *octets,
            HeldOctets::Loaded(octets) => octets.len() as u64,
        }
    }
}

/// Size and time of the last change of contents.
fn version(file: &File) -> Option<(u64, SystemTime)> {
    let meta = file.metadata().ok()?;
    Some((meta.len(), meta.modified().ok()?))
}

impl HeldObjects {
    /// Opens what the process of this recording has mapped since the last look.
    pub(super) fn note_mappings(&mut self, recording: &Path, pid: u32) {
        let Some(epoch) = region_epoch(recording) else { return };
        if self.epochs.insert(recording.to_owned(), epoch) == Some(epoch) {
            return;
        }
        if let Ok(pid) = i32::try_from(pid) {
            self.hold_mapped_by(pid);
        }
    }

    fn hold_mapped_by(&mut self, pid: i32) {
        let Ok(maps) = tasks::maps(pid) else { return };
        let process = tasks::folder(pid);
        let root = std::fs::metadata(process.join("root")).ok().map(|meta| (meta.dev(), meta.ino()));
        let ours = std::fs::metadata("/").ok().map(|meta| (meta.dev(), meta.ino()));
        let room = descriptors().min(MOST_FILES);
        for map in &maps.0 {
            if self.files.len() >= room {
                return;
            }
            if let Some((id, path)) = executable(map) {
                self.files.entry(id).or_insert_with(|| {
                    let file = open(&process, map, id).and_then(|file| {
                        let version = version(&file)?;
                        Some(HeldOctets::File(file, version))
                    });
                    let loaded = || unlinked::file_from_memory(pid, map, &maps.0).map(HeldOctets::Loaded);
                    let contents = file.or_else(loaded)?;
                    if let HeldOctets::Loaded(_) = &contents {
                        self.loaded += contents.octets();
                        if self.loaded > MOST_LOADED {
                            return None;
                        }
                    }
                    Some(HeldObject { contents, path, is_elsewhere: root != ours, is_copied: false })
                });
            }
        }
    }

    /// Copies the files to which their paths do not lead any more, once each, into the folder of the recordings.
    ///
    /// # Errors
    /// The first copy that could not be written.
    pub(super) fn copy(&mut self, folder: &Path) -> io::Result<()> {
        let mut files: Vec<(&FileId, &mut HeldObject)> =
            self.files.iter_mut().filter_map(|(id, held)| Some((id, held.as_mut()?))).collect();
        // Small ones first: as many as possible are kept.
        files.sort_by_key(|(id, held)| (held.contents.octets(), **id));
        for (&(_, inode), held) in files {
            if held.is_copied || !held.is_wanted() {
                continue;
            }
            let octets = held.contents.octets();
            if self.copied.saturating_add(octets) > MOST_OCTETS {
                held.is_copied = true; // it is told once
                self.remarks.push(format!(
                    "{}: deleted or replaced while it was sampled, and too large to be kept ({} MB; all that are kept have \
                     {} MB at most)",
                    held.path.display(),
                    octets >> 20,
                    MOST_OCTETS >> 20
                ));
                continue;
            }
            held.copy_to(&folder.join(copies::FOLDER), inode)?;
            self.copied += octets;
            held.is_copied = true;
        }
        Ok(())
    }

    /// What was not copied: a line for each, with the reason.
    pub(super) fn remarks(&self) -> &[String] {
        &self.remarks
    }
}

impl HeldObject {
    /// Whether its path does not lead to it any more.
    fn is_wanted(&self) -> bool {
        let HeldOctets::File(file, known) = &self.contents else { return true };
        let id = |meta: Metadata| (meta.dev(), meta.ino());
        let there = std::fs::metadata(&self.path).ok().map(id);
        let is_there = !self.is_elsewhere && there.is_some() && there == file.metadata().ok().map(id);
        // What was rewritten in its place since is not what was sampled.
        !is_there && version(file) == Some(*known)
    }

    /// The copy keeps the time of the last change, by which readers know the file.
    fn copy_to(&self, folder: &Path, inode: u64) -> io::Result<()> {
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        let Some(name) = copies::name_of(&self.path, inode) else { return Ok(()) };
        // Whole or not at all.
        let mut aside = OsString::from(".new-");
        aside.push(&name);
        let aside = folder.join(aside);
        let _ = std::fs::remove_file(&aside);
        let mut copy = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&aside)?;
        match &self.contents {
            HeldOctets::File(file, (_, changed)) => {
                let mut from = file;
                from.rewind()?;
                io::copy(&mut from, &mut copy)?;
                copy.set_modified(*changed)?;
            }
            HeldOctets::Loaded(octets) => copy.write_all(octets)?,
        }
        std::fs::rename(&aside, folder.join(name))
    }
}

/// Copies what a process has mapped and what is deleted or replaced already, for a recording in `folder` that goes on
/// without us. Returns a line for each that could not be kept, with the reason.
///
/// # Errors
/// The first copy that could not be written.
pub fn copy_what_is_gone(pid: i32, folder: &Path) -> io::Result<Vec<String>> {
    let mut objects = HeldObjects::default();
    objects.hold_mapped_by(pid);
    objects.copy(folder)?;
    Ok(objects.remarks)
}

/// Descriptors that may be used for held files.
fn descriptors() -> usize {
    use nix::sys::resource::{Resource, getrlimit};
    let may_have = getrlimit(Resource::RLIMIT_NOFILE).map_or(0, |(soft, _)| soft / PART_OF_DESCRIPTORS);
    usize::try_from(may_have).unwrap_or(usize::MAX)
}

/// How often the regions of a recording's process have changed.
fn region_epoch(recording: &Path) -> Option<u64> {
    let mut word = [0; 8];
    File::open(recording).ok()?.read_exact_at(&mut word, 8 * header::REGION_EPOCH as u64).ok()?;
    Some(u64::from_le_bytes(word))
}

/// The file of a mapping of code, and its path.
fn executable(map: &MemoryMap) -> Option<(FileId, PathBuf)> {
    let MMapPath::Path(path) = &map.pathname else { return None };
    if !map.perms.contains(MMPermissions::EXECUTE) || map.inode == 0 || path.starts_with("/dev") {
        return None;
    }
    // Our own library, perhaps a copy that was removed once it was loaded.
    let file_name = path.file_name()?.as_bytes();
    if file_name.strip_prefix(b".").unwrap_or(file_name).starts_with(b"libpct") {
        return None;
    }
    let octets = path.as_os_str().as_bytes();
    let name = octets.strip_suffix(b" (deleted)").unwrap_or(octets);
    let device = u64::from(map.dev.0.cast_unsigned()) << 32 | u64::from(map.dev.1.cast_unsigned());
    Some(((device, map.inode), PathBuf::from(std::ffi::OsStr::from_bytes(name))))
}

/// Opens a mapped file: by its path; as the process's program, which may be deleted; or by its mapping, where the
/// kernel lets us.
fn open(process: &Path, map: &MemoryMap, id: FileId) -> Option<File> {
    let MMapPath::Path(path) = &map.pathname else { return None };
    let named = process.join("root").join(path.strip_prefix("/").unwrap_or(path));
    let mapped = process.join(format!("map_files/{:x}-{:x}", map.address.0, map.address.1));
    [named, process.join("exe"), mapped].iter().find_map(|place| {
        let flags = OFlag::O_NONBLOCK.bits();
        let meta = std::fs::metadata(place).ok()?;
        let device = maps_device(meta.dev());
        // Unnamed devices have another number in maps files.
        let is_same = meta.is_file() && meta.ino() == id.1 && (device == id.0 || device >> 32 == 0);
        let file =
            is_same.then(|| OpenOptions::new().read(true).custom_flags(flags).open(place).ok()).flatten()?;
        file.metadata().is_ok_and(|now| now.is_file() && now.ino() == meta.ino()).then_some(file)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn held(path: &Path) -> HeldObject {
        let file = File::open(path).expect("opened");
        let version = version(&file).expect("known");
        HeldObject {
            contents: HeldOctets::File(file, version),
            path: path.to_owned(),
            is_elsewhere: false,
            is_copied: false,
        }
    }

    #[test]
    fn what_is_gone_is_copied_with_its_time_and_what_is_there_is_not() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = |name: &str| dir.path().join(name);
        let mut objects = HeldObjects::default();
        for (number, name) in (1..).zip(["stays", "deleted", "replaced", "rewritten"]) {
            fs::write(path(name), name).expect("written");
            objects.files.insert((1, number), Some(held(&path(name))));
        }
        let time = fs::metadata(path("deleted")).and_then(|meta| meta.modified()).expect("known");
        fs::remove_file(path("deleted")).expect("removed");
        fs::write(path("new"), "other")
            .and_then(|()| fs::rename(path("new"), path("replaced")))
            .expect("moved");
        fs::write(path("rewritten"), "something else").expect("written");
        let folder = path("recording");
        objects.copy(&folder).expect("copied");
        let copies = copies::all_of(&folder);
        let mut found: Vec<(&str, &Path)> = Vec::new();
        let paths = ["deleted", "replaced", "rewritten", "stays"].map(|name| (name, path(name)));
        for (name, path) in &paths {
            found.extend(copies::named(&copies, path).map(|copy| (*name, copy)));
        }
        assert_eq!(found.iter().map(|(name, _)| *name).collect::<Vec<_>>(), ["deleted", "replaced"]);
        for (name, copy) in &found {
            assert_eq!(fs::read_to_string(copy).expect("read"), *name);
        }
        assert_eq!(fs::metadata(found[0].1).and_then(|meta| meta.modified()).expect("known"), time);
        assert!(objects.remarks().is_empty());
    }

    #[test]
    fn what_is_too_large_is_told() {
        let dir = tempfile::tempdir().expect("a folder");
        let large = dir.path().join("large");
        File::create(&large).and_then(|file| file.set_len(MOST_OCTETS + 1)).expect("made");
        let mut objects = HeldObjects::default();
        objects.files.insert((1, 1), Some(held(&large)));
        fs::remove_file(&large).expect("removed");
        objects.copy(dir.path()).expect("nothing to write");
        assert!(copies::all_of(dir.path()).is_empty());
        assert!(objects.remarks()[0].contains("large: deleted or replaced"), "{:?}", objects.remarks());
    }
}
