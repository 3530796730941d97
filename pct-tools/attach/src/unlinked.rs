//! An object whose file nobody can open any more, put together from a process's memory.
//!
//! It is what the loader mapped: program headers, dynamic symbols, unwind data, code. Sections that are not loaded
//! (`.symtab`, debug information) are lost, and the section table with them.

use crate::headers::Headers;
use crate::memory::{Memory, ProcessMemory};
use pct_elf::{Image, Segment, segment_kind};
use procfs::process::MemoryMap;

/// Larger objects are not copied, in octets.
const MOST: u64 = 64 << 20;
/// Octets that are read at a time.
const PART: usize = 1 << 16;
/// Most entries of the dynamic section.
const MOST_ENTRIES: u64 = 512;
/// Tags of the dynamic section whose values are addresses that readers use: `DT_HASH`, `DT_STRTAB`, `DT_SYMTAB`,
/// `DT_GNU_HASH`.
const ADDRESSES: [u64; 4] = [4, 5, 6, 0x6fff_fef5];

/// The file of the object to which `map` belongs, one of the `maps` of process `pid`, as far as it is loaded. `None`:
/// it is no object, cannot be read, or is too large.
pub fn file_from_memory(pid: i32, map: &MemoryMap, maps: &[MemoryMap]) -> Option<Vec<u8>> {
    let memory = ProcessMemory::open(pid, false).ok()?;
    let headers = Headers::of_mapping(map, maps, pid, &memory)?;
    let readable = headers.with(&memory);
    let image = Image::at_base(&readable, headers.at)?;
    let segments: Vec<Segment> = image.segments(&readable).collect();
    let loaded = || segments.iter().filter(|s| s.kind == segment_kind::LOAD);
    let end = loaded().map(|s| s.offset.saturating_add(s.file_bytes)).max().filter(|end| *end <= MOST)?;
    let mut file = vec![0; usize::try_from(end).ok()?];
    for segment in loaded() {
        let from = usize::try_from(segment.offset).ok()?;
        let octets = file.get_mut(from..from + usize::try_from(segment.file_bytes).ok()?)?;
        let mut at = image.bias.wrapping_add(segment.address);
        for part in octets.chunks_mut(PART) {
            // What cannot be read stays zeros.
            let _ = memory.read(at, part);
            at = at.wrapping_add(part.len() as u64);
        }
    }
    let dynamic = segments.iter().find(|s| s.kind == segment_kind::DYNAMIC);
    dynamic.and_then(|dynamic| unrelocate(&mut file, dynamic.offset, image.bias));
    Some(file)
}

/// glibc adds the bias to addresses in the dynamic section.
fn unrelocate(file: &mut [u8], dynamic: u64, bias: u64) -> Option<()> {
    for entry in 0..MOST_ENTRIES {
        let at = usize::try_from(dynamic.checked_add(16 * entry)?).ok()?;
        let (tag, value) = file.get_mut(at..at.checked_add(16)?)?.split_at_mut(8);
        let word = |octets: &[u8]| octets.first_chunk().map(|word| u64::from_le_bytes(*word));
        let (tag, address) = (word(tag)?, word(value)?);
        if tag == 0 {
            break;
        }
        if ADDRESSES.contains(&tag) && bias != 0 && address >= bias {
            value.copy_from_slice(&(address - bias).to_le_bytes());
        }
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use procfs::process::MMPermissions;

    #[test]
    fn this_process_s_own_libraries_are_put_together_as_their_files_are() {
        let pid = i32::try_from(std::process::id()).expect("small");
        let maps = crate::tasks::maps(pid).expect("readable");
        let of_libc = |m: &&MemoryMap| {
            m.perms.contains(MMPermissions::EXECUTE) && format!("{:?}", m.pathname).contains("libc.so")
        };
        let map = maps.0.iter().find(of_libc).expect("a C library");
        let procfs::process::MMapPath::Path(path) = &map.pathname else { panic!("{map:?}") };
        let file = std::fs::read(path).expect("readable");
        let made = file_from_memory(pid, map, &maps.0).expect("an object");
        let code = usize::try_from(map.offset).expect("small")..;
        let code = code.start..code.start + 4096;
        assert_eq!(made[..4096], file[..4096]);
        assert_eq!(made[code.clone()], file[code]);
        let image = Image::of_file(&made.as_slice()).expect("an image");
        let dynamic = image.segment(&made.as_slice(), segment_kind::DYNAMIC).expect("it has one");
        let dynamic = usize::try_from(dynamic.offset).expect("small");
        let addresses = |file: &[u8]| -> Vec<(u64, u64)> {
            let words: Vec<u64> = file[dynamic..dynamic + 16 * 40]
                .chunks_exact(8)
                .map(|word| u64::from_le_bytes(word.try_into().expect("eight")))
                .collect();
            let entries = words.chunks_exact(2).map(|entry| (entry[0], entry[1]));
            entries.take_while(|entry| entry.0 != 0).filter(|entry| ADDRESSES.contains(&entry.0)).collect()
        };
        assert_eq!(addresses(&made), addresses(&file));
    }
}
