//! Finds the executable regions of a target, in the form that a recording needs.

use crate::headers::Headers;
use crate::memory::Memory;
use pct_elf::FileVersion;
use pct_format::record::{RegionFacts, region_flag};
use procfs::process::{MMPermissions, MMapPath, MemoryMap};
use std::collections::HashMap;
use std::os::unix::ffi::OsStrExt;

/// Finds regions. It remembers what it read of each file.
#[derive(Debug, Default)]
pub struct Regions {
    identities: HashMap<(i32, i32, u64, MMapPath), Identity>,
}

/// What tells an object from others: its build-id, or what is known of its file's contents.
#[derive(Debug, Clone, Default)]
struct Identity {
    build_id: Vec<u8>,
    version: FileVersion,
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
            let Identity { build_id, version } = self.identity(map, maps, (pid, memory));
            found.push(RegionFacts {
                start: map.address.0,
                end: map.address.1,
                offset: map.offset,
                device: (u64::from(map.dev.0.cast_unsigned()) << 32) | u64::from(map.dev.1.cast_unsigned()),
                inode: map.inode,
                flags,
                build_id,
                path,
                version,
            });
        }
        found
    }

    fn identity(&mut self, map: &MemoryMap, maps: &[MemoryMap], of: (i32, &impl Memory)) -> Identity {
        let (pid, memory) = of;
        let key = (map.dev.0, map.dev.1, map.inode, map.pathname.clone());
        if map.inode == 0 && map.pathname != MMapPath::Vdso {
            return Identity::default();
        }
        if let Some(known) = self.identities.get(&key) {
            return known.clone();
        }
        let identity =
            Headers::of_mapping(map, maps, pid, memory).map_or_else(Identity::default, |headers| {
                let build_id = headers.build_id(memory).unwrap_or_default();
                let unnamed = build_id.is_empty() && map.inode != 0;
                let version =
                    if unnamed { headers.version(map, pid, memory) } else { FileVersion::default() };
                Identity { build_id, version }
            });
        if map.inode != 0 {
            self.identities.insert(key, identity.clone());
        }
        identity
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
