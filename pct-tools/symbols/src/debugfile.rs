//! Finds the debug information of an object if it is in a separate file.
//!
//! The order of the search is that of debuggers:
//!
//! 1. the object itself, if it has `.debug_info`;
//! 2. by build-id: `DEBUGDIR/.build-id/xx/rest.debug`, then the local debuginfod cache (never the network);
//! 3. by `.gnu_debuglink`: beside the object, in `.debug/` there, in `DEBUGDIR` + the object's directory.
//!
//! A candidate must prove that it belongs to the object: the build-ids must be equal. If one of the two has none,
//! the debuglink's checksum must agree.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use object::Object;

use crate::image::{BuildId, Image};

/// Where to search for separate debug files.
#[derive(Debug, Clone)]
pub struct DebugDirs {
    /// Directories laid out like `/usr/lib/debug`.
    pub roots: Vec<PathBuf>,
    /// Directories laid out like debuginfod's client cache: `BUILDID/debuginfo`.
    pub caches: Vec<PathBuf>,
}

impl DebugDirs {
    /// No directories: only debug files beside the object are found.
    pub fn none() -> DebugDirs {
        DebugDirs { roots: Vec::new(), caches: Vec::new() }
    }
}

impl Default for DebugDirs {
    /// The directories of `DEBUGDIR` in the environment (separated by colons), then `/usr/lib/debug`, and the
    /// debuginfod cache of this user.
    fn default() -> DebugDirs {
        let mut roots: Vec<PathBuf> = std::env::var_os("DEBUGDIR")
            .map(|v| std::env::split_paths(&v).filter(|p| p.is_absolute()).collect())
            .unwrap_or_default();
        roots.push(PathBuf::from("/usr/lib/debug"));
        let mut caches = Vec::new();
        if let Some(dir) = std::env::var_os("DEBUGINFOD_CACHE_PATH") {
            caches.push(PathBuf::from(dir));
        } else {
            let cache = std::env::var_os("XDG_CACHE_HOME")
                .map(PathBuf::from)
                .or_else(|| std::env::var_os("HOME").map(|h| PathBuf::from(h).join(".cache")));
            caches.extend(cache.map(|c| c.join("debuginfod_client")));
        }
        DebugDirs { roots, caches }
    }
}

/// Finds the separate debug file of an image. None: no file belongs to it.
///
/// `refused` collects candidates that had the right path but do not belong to the image, with the reason.
pub fn find(image: &Image, dirs: &DebugDirs, refused: &mut Vec<(PathBuf, String)>) -> Option<Image> {
    if let Some(id) = image.build_id()
        && let Some(found) = by_build_id(id, dirs, refused)
    {
        return Some(found);
    }
    let elf = image.elf()?;
    let (name, crc) = elf.gnu_debuglink().ok()??;
    // It must be a name, not a path: a hostile object must not refer to files elsewhere.
    if name.is_empty() || name.contains(&b'/') || name.contains(&0) {
        return None;
    }
    let name = Path::new(OsStr::from_bytes(name));
    let here = std::fs::canonicalize(image.path()).unwrap_or_else(|_| image.path().to_path_buf());
    let dir = here.parent()?;
    let mut candidates = vec![dir.join(name), dir.join(".debug").join(name)];
    for root in &dirs.roots {
        candidates.push(root.join(dir.strip_prefix("/").unwrap_or(dir)).join(name));
    }
    for path in candidates {
        if path == here {
            continue;
        }
        let Ok(found) = Image::open(&path) else { continue };
        match (image.build_id(), found.build_id()) {
            (Some(a), Some(b)) if a == b => return Some(found),
            (Some(a), Some(b)) => refused.push((path, format!("its build-id is {b}, not {a}"))),
            _ => {
                let got = crc32fast::hash(found.data());
                if got == crc {
                    return Some(found);
                }
                refused.push((path, format!("its checksum is {got:08x}, the debug link says {crc:08x}")));
            }
        }
    }
    None
}

/// The name of an image's separate debug file, as the image spells it.
pub(crate) fn name_of_debug_file(image: &Image) -> Option<PathBuf> {
    let elf = image.elf()?;
    let (name, _) = elf.gnu_debuglink().ok()??;
    (!name.is_empty()).then(|| PathBuf::from(OsStr::from_bytes(name)))
}

/// Finds a debug file (or whole object) by its build-id alone, for objects whose file is gone.
pub fn by_build_id(id: &BuildId, dirs: &DebugDirs, refused: &mut Vec<(PathBuf, String)>) -> Option<Image> {
    let text = id.to_string();
    let mut candidates = Vec::new();
    if text.len() > 2 {
        for root in &dirs.roots {
            candidates.push(root.join(".build-id").join(&text[..2]).join(format!("{}.debug", &text[2..])));
        }
    }
    for cache in &dirs.caches {
        candidates.push(cache.join(&text).join("debuginfo"));
    }
    for path in candidates {
        let Ok(found) = Image::open(&path) else { continue };
        if found.build_id() == Some(id) {
            return Some(found);
        }
        let got = found.build_id().map_or_else(|| "missing".to_string(), ToString::to_string);
        refused.push((path, format!("its build-id is {got}, not {id}")));
    }
    None
}

/// The name of the supplementary file that an image needs, as the image spells it.
pub fn supplement_name(image: &Image) -> Option<PathBuf> {
    let elf = image.elf()?;
    let (name, _) = elf.gnu_debugaltlink().ok()??;
    Some(PathBuf::from(OsStr::from_bytes(name)))
}

/// Finds the supplementary file to which dwz moved common parts (`.gnu_debugaltlink`).
pub fn supplementary(image: &Image, dirs: &DebugDirs, refused: &mut Vec<(PathBuf, String)>) -> Option<Image> {
    let elf = image.elf()?;
    let (name, id) = elf.gnu_debugaltlink().ok()??;
    let id = BuildId::new(id)?;
    let mut candidates = Vec::new();
    if !name.is_empty() && !name.contains(&0) {
        let name = Path::new(OsStr::from_bytes(name));
        let here = std::fs::canonicalize(image.path()).unwrap_or_else(|_| image.path().to_path_buf());
        candidates.push(here.parent()?.join(name));
    }
    for path in candidates {
        let Ok(found) = Image::open(&path) else { continue };
        if found.build_id() == Some(&id) {
            return Some(found);
        }
        let got = found.build_id().map_or_else(|| "missing".to_string(), ToString::to_string);
        refused.push((path, format!("its build-id is {got}, not {id}")));
    }
    by_build_id(&id, dirs, refused)
}
