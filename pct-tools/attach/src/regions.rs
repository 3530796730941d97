//! Finds the executable regions of a target, in the form that a recording needs.

use crate::headers::Headers;
use crate::memory::Memory;
use pct_format::record::{RegionFacts, region_flag};
use procfs::process::{MMPermissions, MMapPath, MemoryMap};
use std::collections::HashMap;
use std::os::unix::ffi::OsStrExt;

/// Finds regions. It remembers build-ids by file, so that each object's note is read once.
#[derive(Debug, Default)]
pub struct Regions {
    build_ids: HashMap<(i32, i32, u64), Vec<u8>>,
}

const DELETED: &[u8] = b" (deleted)";

impl Regions {
    /// The regions of `maps`, those of process `pid`.
    pub fn regions_of(
        &mut self,
        pid: i32,
        maps: &[MemoryMap],
        memory: &impl Memory,
    ) -> Vec<RegionFacts<Vec<u8>>> {
        let mut found = Vec::new();
        for map in maps.iter().filter(|m| m.perms.contains(MMPermissions::EXECUTE)) {
            let (mut path, mut flags) = (path_of(map), 0);
            if path.is_empty() {
                flags |= region_flag::ANONYMOUS;
            }
            if let Some(name) = path.strip_suffix(DELETED) {
                path.truncate(name.len());
                flags |= region_flag::DELETED;
            }
            if map.perms.contains(MMPermissions::WRITE) {
                flags |= region_flag::WRITABLE;
            }
            found.push(RegionFacts {
                start: map.address.0,
                end: map.address.1,
                offset: map.offset,
                device: (u64::from(map.dev.0.cast_unsigned()) << 32) | u64::from(map.dev.1.cast_unsigned()),
                inode: map.inode,
                flags,
                build_id: self.build_id(map, maps, (pid, memory)),
                path,
            });
        }
        found
    }

    fn build_id(&mut self, map: &MemoryMap, maps: &[MemoryMap], of: (i32, &impl Memory)) -> Vec<u8> {
        let (pid, memory) = of;
        let key = (map.dev.0, map.dev.1, map.inode);
        if map.inode == 0 && map.pathname != MMapPath::Vdso {
            return Vec::new();
        }
        if let Some(known) = self.build_ids.get(&key) {
            return known.clone();
        }
        let id = Headers::of_mapping(map, maps, pid, memory).and_then(|headers| headers.build_id(memory));
        let id = id.unwrap_or_default();
        if map.inode != 0 {
            self.build_ids.insert(key, id.clone());
        }
        id
    }
}

fn path_of(map: &MemoryMap) -> Vec<u8> {
    match &map.pathname {
        MMapPath::Path(p) => p.as_os_str().as_bytes().to_vec(),
        MMapPath::Vdso => b"[vdso]".to_vec(),
        MMapPath::Vsyscall => b"[vsyscall]".to_vec(),
        MMapPath::Heap => b"[heap]".to_vec(),
        MMapPath::Stack => b"[stack]".to_vec(),
        MMapPath::Other(s) => format!("[{s}]").into_bytes(),
        _ => Vec::new(),
    }
}
