//! Where names can be found: object files and debug files on this machine, archives that pct wrote, and a debuginfod
//! server.
//!
//! Every file proves by its build-id that it is the one that was sampled (`pct-symbols` compares them). A file without
//! a build-id proves it by the hash that hosts wrote instead.

use super::search::{Places, Search, Symbols};
use crate::compact::{DOWNLOADS, Steps};
use crate::gather::id_by_ends;
use crate::http::{Download, DownloadError, Server};
use crate::ids::NO_BUILD_ID;
use crate::private;
use crate::root::{make_folder, remove_folder};
use crate::tables::Location;
use anyhow::Result;
use pct_symbols::{BuildId, CodeAddr, DebugDirs, Image, ObjectInfo, Options, Source, Symbolizer};
use rustc_hash::FxHashMap;
use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::io::Read as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

/// Folders in which programs and libraries usually lie. A file of a build's name is looked for right in them.
const USUAL: [&str; 9] = [
    "/usr/bin",
    "/usr/sbin",
    "/usr/local/bin",
    "/usr/local/sbin",
    "/usr/lib",
    "/usr/lib64",
    "/usr/local/lib",
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
];
/// Octets of a file from a server at most.
const MOST: u64 = 4 << 30;

/// Where to look.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    /// Folders that are searched with all below them, and files.
    pub files: Vec<PathBuf>,
    /// Folders laid out as `/usr/lib/debug`, which is looked into too.
    pub debug_dirs: Vec<PathBuf>,
    /// Folders with an archive of `pct archive`.
    pub archives: Vec<PathBuf>,
    /// A debuginfod server.
    pub debuginfod: Option<Server>,
}

impl Sources {
    /// Asks all sources for what has no name. `aside` is a folder for downloads.
    ///
    /// # Errors
    /// When a download cannot be written.
    pub(super) fn ask(&self, search: &mut Search, aside: &Path, step: Steps<'_>) -> Result<()> {
        if search.nameless.is_empty() {
            return Ok(());
        }
        let files = Files::index(&self.files, search);
        let objects = objects(search, &files, &[]);
        resolve(search, &objects, Symbolizer::new(self.options(&[])));
        for folder in &self.archives {
            let options = Options { debug_dirs: DebugDirs::none(), ..Options::default() };
            match Symbolizer::new(options).with_archive(folder) {
                Ok(symbols) if symbols.has_archive() => {
                    let objects = self::objects(search, &Files::default(), &[]);
                    resolve(search, &objects, symbols);
                }
                Ok(_) => search.outcome.problems.push(format!(
                    "{}: no {} in it (pct archive writes it)",
                    folder.display(),
                    pct_symbols::archive::FILE_NAME
                )),
                Err(why) => search.outcome.problems.push(why.to_string()),
            }
        }
        match &self.debuginfod {
            Some(server) => {
                let folder = aside.join(DOWNLOADS);
                self.download(search, server, &files, &folder, step)?;
                remove_folder(&folder)
            }
            None => Ok(()),
        }
    }

    fn options(&self, downloads: &[PathBuf]) -> Options {
        let usual = DebugDirs::default();
        Options {
            debug_dirs: DebugDirs {
                roots: self.debug_dirs.iter().cloned().chain(usual.roots).collect(),
                caches: downloads.iter().cloned().chain(usual.caches).collect(),
            },
            ..Options::default()
        }
    }

    /// Asks a server for the debug files of one build after the other; where that names too little, for its object
    /// file, because only that says which address belongs to which offset.
    fn download(
        &self,
        search: &mut Search,
        server: &Server,
        files: &Files,
        folder: &Path,
        step: Steps<'_>,
    ) -> Result<()> {
        let builds: Vec<Vec<u8>> = search.nameless.keys().cloned().collect();
        for build in builds {
            let Some(id) = build_id(&build) else { continue };
            let here = folder.join(id.to_string());
            for kind in ["debuginfo", "executable"] {
                match fetch(server, &id, kind, &here) {
                    Ok(Download::Missing) => continue,
                    Ok(Download::Whole(_)) => {}
                    // Each of the other builds would wait for it too.
                    Err(Failure::Server(why @ DownloadError::Unreachable { .. })) => {
                        search.outcome.problems.push(format!("{why}: no more is asked for"));
                        return Ok(());
                    }
                    Err(Failure::Server(why)) => {
                        search.outcome.problems.push(why.to_string());
                        continue;
                    }
                    Err(Failure::Here(why)) => return Err(why),
                }
                step("a file from the server");
                let executable = here.join("executable");
                let mut objects = objects(search, files, &[executable]);
                objects.retain(|object| object.build == build);
                resolve(search, &objects, Symbolizer::new(self.options(&[folder.to_owned()])));
                if !search.nameless.contains_key(&build) {
                    break;
                }
            }
            remove_folder(&here)?;
        }
        Ok(())
    }
}

enum Failure {
    Server(DownloadError),
    Here(anyhow::Error),
}

/// Downloads a file of a build into a folder.
fn fetch(server: &Server, id: &BuildId, kind: &str, folder: &Path) -> Result<Download, Failure> {
    make_folder(folder).map_err(Failure::Here)?;
    let path = folder.join(kind);
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
    let here = |why| Failure::Here(anyhow::Error::new(why).context(path.display().to_string()));
    let mut file = file.map_err(here)?;
    let done = match server.get(&format!("/buildid/{id}/{kind}"), MOST, &mut file) {
        Err(DownloadError::Write(why)) => return Err(here(why)),
        done => done.map_err(Failure::Server),
    };
    if !matches!(done, Ok(Download::Whole(_))) {
        std::fs::remove_file(&path).map_err(here)?;
    }
    done
}

/// A build as the symbolizer sees it.
struct Asked {
    build: Vec<u8>,
    info: ObjectInfo,
}

fn build_id(build: &[u8]) -> Option<BuildId> {
    if build.starts_with(NO_BUILD_ID) { None } else { BuildId::new(build) }
}

/// The builds without a name, with the files that may be theirs.
fn objects(search: &Search, files: &Files, more: &[PathBuf]) -> Vec<Asked> {
    let asked = |build: &Vec<u8>| {
        let name = search.file_name(build);
        let info = match build_id(build) {
            Some(id) => ObjectInfo {
                path: name.unwrap_or_default().into(),
                also_try: files.candidates(build, name).chain(more.iter().cloned()).collect(),
                build_id: Some(id),
                ..ObjectInfo::default()
            },
            // The hash of its ends has proved it.
            None => ObjectInfo::file(files.by_id.get(build)?),
        };
        Some(Asked { build: build.clone(), info })
    };
    search.nameless.keys().filter_map(asked).collect()
}

/// Asks the symbolizer for the places of these builds.
fn resolve(search: &mut Search, objects: &[Asked], mut symbols: Symbolizer) {
    let ids: Vec<_> = objects.iter().map(|asked| symbols.add(asked.info.clone())).collect();
    let places =
        |build: &[u8], all: &Places| -> Vec<i64> { all.get(build).into_iter().flatten().copied().collect() };
    let code = |addr: i64| u64::try_from(addr).ok().map(CodeAddr::Pc);
    let queries: Vec<_> = objects
        .iter()
        .zip(&ids)
        .flat_map(|(asked, id)| {
            places(&asked.build, &search.nameless).into_iter().filter_map(|addr| Some((*id, code(addr)?)))
        })
        .collect();
    symbols.resolve(queries);
    for (asked, id) in objects.iter().zip(&ids) {
        let object = search.shown_name(&asked.build);
        for addr in places(&asked.build, &search.nameless) {
            let Some(code) = code(addr) else { continue };
            let frames = symbols.frames(*id, code);
            let is_nameless = |source: Source| matches!(source, Source::Unknown | Source::Unwind);
            if frames.is_empty() || frames.iter().any(|frame| is_nameless(frame.source)) {
                continue;
            }
            let symbols_of = if frames.iter().any(|f| f.line != 0) { Symbols::Dwarf } else { Symbols::Table };
            let row = |(depth, frame): (usize, &pct_symbols::ResolvedFrame)| {
                let file = frame.file.map_or("", |file| symbols.text(file));
                Location {
                    build_id: asked.build.clone(),
                    addr,
                    depth: i32::try_from(depth).unwrap_or(i32::MAX),
                    function: private::function(symbols.text(frame.function)),
                    object: object.clone(),
                    file: file.rsplit('/').next().unwrap_or_default().to_owned(),
                    line: i32::try_from(frame.line).unwrap_or(0),
                }
            };
            let rows = frames.iter().enumerate().map(row).collect();
            search.name(&asked.build, addr, rows, symbols_of);
        }
    }
    for note in symbols.notes() {
        use pct_symbols::Problem::{BadDebugInfo, DebugFileRefused, NoSupplement};
        if matches!(note.problem, BadDebugInfo { .. } | DebugFileRefused { .. } | NoSupplement { .. }) {
            let note = note.to_string();
            if !search.outcome.notes.contains(&note) {
                search.outcome.notes.push(note);
            }
        }
    }
}

/// Object files on this machine that may be those of the builds.
#[derive(Default)]
struct Files {
    by_id: FxHashMap<Vec<u8>, PathBuf>,
}

impl Files {
    /// Looks through files and folders for builds without a name. What cannot be read is passed over: a folder of
    /// programs may hold anything.
    fn index(paths: &[PathBuf], search: &Search) -> Self {
        let mut files = Self::default();
        let mut pending: Vec<PathBuf> = paths.to_vec();
        let mut visited = BTreeSet::new();
        pending.reverse();
        while let Some(path) = pending.pop() {
            let Ok(meta) = std::fs::symlink_metadata(&path) else { continue };
            // What was named may be a link; links below are not followed, so there is an end.
            let named = paths.contains(&path);
            if meta.is_dir() || named && path.is_dir() {
                let entries = std::fs::read_dir(&path).into_iter().flatten().flatten();
                let mut entries: Vec<_> = entries.map(|entry| entry.path()).collect();
                entries.sort();
                if visited.insert(path) {
                    pending.extend(entries.into_iter().rev());
                }
            } else if (meta.is_file() || named && path.is_file())
                && let Some(id) = id_of(&path).filter(|id| search.nameless.contains_key(id))
            {
                files.by_id.entry(id).or_insert(path);
            }
        }
        files
    }

    /// Files that may be a build's: the one with its build-id, then those of its name in the usual folders.
    fn candidates<'f>(&'f self, build: &[u8], name: Option<&'f str>) -> impl Iterator<Item = PathBuf> + 'f {
        let usual = name.into_iter().flat_map(|name| USUAL.map(|folder| Path::new(folder).join(name)));
        self.by_id.get(build).cloned().into_iter().chain(usual.filter(|path| path.is_file()))
    }
}

/// What hosts call the build of an ELF file; `None` for other files.
fn id_of(path: &Path) -> Option<Vec<u8>> {
    let mut magic = [0; 4];
    File::open(path).ok()?.read_exact(&mut magic).ok()?;
    if magic != *b"\x7fELF" {
        return None;
    }
    match Image::open(path).ok()?.build_id() {
        Some(id) => Some(id.as_bytes().to_vec()),
        None => id_by_ends(path),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hash_in_the_place_of_a_build_id_is_no_build_id() {
        assert!(build_id(b"htl:0123456789abcdef").is_none());
        assert_eq!(build_id(&[0x12, 0xab]).map(|id| id.to_string()), Some("12ab".to_owned()));
    }
}
