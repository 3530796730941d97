//! Where the debug information of an object lies when it is not in the object itself.
//!
//! The order of search, as debuggers have it:
//!
//! 1. the object itself, if it has `.debug_info`;
//! 2. by build-id: `DEBUGDIR/.build-id/xx/rest.debug`, then the local debuginfod cache (never the network);
//! 3. by `.gnu_debuglink`: beside the object, in `.debug/` there, in `DEBUGDIR` + the object's directory.
//!
//! A candidate must prove that it belongs: its build-id has to be the object's; where one of them has none,
//! the debuglink's checksum has to agree.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use object::Object;

use crate::image::{BuildId, Image};

/// Where to look for separate debug files.
#[derive(Debug, Clone)]
pub struct DebugDirs {
    /// Directories laid out like `/usr/lib/debug`.
    pub roots: Vec<PathBuf>,
    /// Directories laid out like debuginfod's client cache: `BUILDID/debuginfo`.
    pub caches: Vec<PathBuf>,
}

impl DebugDirs {
    /// No directory at all: only debug files beside the object are found.
    pub fn none() -> DebugDirs {
        DebugDirs { roots: Vec::new(), caches: Vec::new() }
    }
}

impl Default for DebugDirs {
    /// The directories of `DEBUGDIR` in the environment (separated by colons) before `/usr/lib/debug`, and the
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

/// Finds the separate debug file of an image. None if there is none that belongs to it.
///
/// `refused` collects candidates that lay where they should but did not belong, with the reason.
pub fn find(image: &Image, dirs: &DebugDirs, refused: &mut Vec<(PathBuf, String)>) -> Option<Image> {
    if let Some(id) = image.build_id()
        && let Some(found) = by_build_id(id, dirs, refused)
    {
        return Some(found);
    }
    let elf = image.elf()?;
    let (name, crc) = elf.gnu_debuglink().ok()??;
    // A name, not a path: a hostile object must not point at files elsewhere.
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
                let got = crc32(found.data());
                if got == crc {
                    return Some(found);
                }
                refused.push((path, format!("its checksum is {got:08x}, the debug link says {crc:08x}")));
            }
        }
    }
    None
}

/// Finds a debug file (or whole object) by nothing but its build-id: for objects that are gone.
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

/// The name of the supplementary file that an image asks for, as it writes it.
pub fn supplement_name(image: &Image) -> Option<PathBuf> {
    let elf = image.elf()?;
    let (name, _) = elf.gnu_debugaltlink().ok()??;
    Some(PathBuf::from(OsStr::from_bytes(name)))
}

/// Finds the supplementary file that dwz moved common parts to (`.gnu_debugaltlink`).
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

/// The CRC-32 of IEEE 802.3 (reflected, polynomial 0xedb88320), as debug links use it: eight bytes a step.
pub fn crc32(data: &[u8]) -> u32 {
    let t = &CRC_TABLES;
    let mut crc = !0u32;
    let mut eights = data.chunks_exact(8);
    for c in &mut eights {
        let low = u32::from_le_bytes([c[0], c[1], c[2], c[3]]) ^ crc;
        crc = t[7][(low & 0xff) as usize]
            ^ t[6][(low >> 8 & 0xff) as usize]
            ^ t[5][(low >> 16 & 0xff) as usize]
            ^ t[4][(low >> 24) as usize]
            ^ t[3][c[4] as usize]
            ^ t[2][c[5] as usize]
            ^ t[1][c[6] as usize]
            ^ t[0][c[7] as usize];
    }
    for byte in eights.remainder() {
        crc = t[0][((crc ^ u32::from(*byte)) & 0xff) as usize] ^ (crc >> 8);
    }
    !crc
}

static CRC_TABLES: [[u32; 256]; 8] = crc_tables();

const fn crc_tables() -> [[u32; 256]; 8] {
    let mut t = [[0u32; 256]; 8];
    let mut i = 0;
    while i < 256 {
        let mut c = i as u32;
        let mut k = 0;
        while k < 8 {
            c = if c & 1 != 0 { 0xedb8_8320 ^ (c >> 1) } else { c >> 1 };
            k += 1;
        }
        t[0][i] = c;
        i += 1;
    }
    let mut n = 1;
    while n < 8 {
        let mut i = 0;
        while i < 256 {
            let before = t[n - 1][i];
            t[n][i] = t[0][(before & 0xff) as usize] ^ (before >> 8);
            i += 1;
        }
        n += 1;
    }
    t
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_checksum_is_the_usual_one() {
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
        assert_eq!(crc32(b""), 0);
    }

    proptest! {
        #[test]
        fn eight_bytes_a_step_give_what_one_gives(data in proptest::collection::vec(any::<u8>(), 0..100)) {
            let mut crc = !0u32;
            for b in &data {
                crc ^= u32::from(*b);
                for _ in 0..8 {
                    crc = if crc & 1 != 0 { 0xedb8_8320 ^ (crc >> 1) } else { crc >> 1 };
                }
            }
            prop_assert_eq!(crc32(&data), !crc);
        }
    }
}
