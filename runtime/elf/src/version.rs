//! What tells the contents of a file from others where there is no build-id.

use crate::Memory;

/// Bytes of a file's first page.
pub const FIRST_PAGE_BYTES: usize = 4096;
/// Bytes that are read at a time.
const PART: usize = 512;

/// Facts about a file's contents at some time. Zero: not known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileVersion {
    /// Its size in bytes.
    pub bytes: u64,
    /// When its contents changed last, in nanoseconds since 1970.
    pub changed_ns: u64,
    /// [`hash_first_page`].
    pub first_page: u64,
}

impl FileVersion {
    /// Whether nothing is known.
    #[must_use]
    pub const fn is_unknown(&self) -> bool {
        self.bytes == 0 && self.changed_ns == 0 && self.first_page == 0
    }

    /// Nanoseconds since 1970 of the two numbers that stat(2) gives; 0 for times before 1970.
    #[must_use]
    pub fn changed_ns(seconds: i64, nanoseconds: i64) -> u64 {
        let ns = seconds.saturating_mul(1_000_000_000).saturating_add(nanoseconds);
        u64::try_from(ns).unwrap_or(0)
    }
}

/// A device number of stat(2) as maps files write it: `major << 32 | minor`.
#[must_use]
pub const fn maps_device(device: u64) -> u64 {
    let major = device >> 8 & 0xfff | device >> 32 & !0xfff;
    let minor = device & 0xff | device >> 12 & 0xffff_ff00;
    major << 32 | minor
}

/// A hash of the page at `at`, where a file's first page is; never 0. It is FNV-1a over words of eight bytes
/// instead of bytes. What is behind a file's end counts as zeros, as it does in a mapping. `None`: it cannot be read.
///
/// <https://datatracker.ietf.org/doc/html/draft-eastlake-fnv>, section 2.
#[must_use]
pub fn hash_first_page(memory: &impl Memory, at: u64) -> Option<u64> {
    const BASIS: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x100_0000_01b3;
    let mut hash = BASIS;
    let mut part = [0; PART];
    for from in (0..FIRST_PAGE_BYTES as u64).step_by(PART) {
        if !memory.copy(at.checked_add(from)?, &mut part) {
            return None;
        }
        for word in part.as_chunks().0 {
            hash = (hash ^ u64::from_le_bytes(*word)).wrapping_mul(PRIME);
            // The product's upper bits depend on all bits below them, but not its lower ones.
            hash ^= hash >> 32;
        }
    }
    Some(hash.max(1))
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::vec;

    #[test]
    fn each_bit_of_the_page_counts_and_nothing_behind_it() {
        let page = vec![0x5a_u8; 2 * FIRST_PAGE_BYTES];
        let of = |bytes: &[u8]| hash_first_page(&bytes, 0).expect("a whole page");
        let plain = of(&page);
        for bit in 0..8 * FIRST_PAGE_BYTES {
            let mut other = page.clone();
            other[bit / 8] ^= 1 << (bit % 8);
            assert_ne!(of(&other), plain, "bit {bit}");
        }
        let mut longer = page.clone();
        longer[FIRST_PAGE_BYTES] = 0;
        assert_eq!(of(&longer), plain);
        assert_eq!(hash_first_page(&&page[..FIRST_PAGE_BYTES - 1], 0), None);
        assert_eq!(hash_first_page(&page.as_slice(), u64::MAX - 100), None);
    }

    #[test]
    fn the_hash_in_files_never_changes() {
        let page: vec::Vec<u8> = (0..FIRST_PAGE_BYTES).map(|i| (i % 251) as u8).collect();
        assert_eq!(hash_first_page(&page.as_slice(), 0), Some(1_108_240_799_878_674_032));
    }

    #[test]
    fn devices_are_compared_as_maps_files_name_them() {
        // glibc's makedev(0xfe, 0), (8, 1), (0x1234, 0xabcde).
        assert_eq!(maps_device(0xfe00), 0xfe << 32);
        assert_eq!(maps_device(0x801), 8 << 32 | 1);
        assert_eq!(maps_device(0x1000_abc2_34de), 0x1234 << 32 | 0xa_bcde);
    }

    #[test]
    fn times_before_1970_are_not_known() {
        assert_eq!(FileVersion::changed_ns(1, 5), 1_000_000_005);
        assert_eq!(FileVersion::changed_ns(-1, 5), 0);
        assert_eq!(FileVersion::changed_ns(i64::MAX, 5), i64::MAX.cast_unsigned());
        assert!(FileVersion::default().is_unknown());
    }
}
