//! A hasher for small keys of this crate (offsets, addresses, names of mapped files): multiply and fold.
//!
//! Keys from files could be made to collide on purpose. At worst, lookups of that file's own entries are slow, as in a
//! file with many more entries.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// A map with the quick hasher.
pub(crate) type QuickMap<K, V> = HashMap<K, V, BuildHasherDefault<QuickHasher>>;

/// See the module's text.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct QuickHasher(u64);

const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

impl QuickHasher {
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "the two halves of the product")]
    fn mix(&mut self, n: u64) {
        let product = u128::from(self.0.rotate_left(5) ^ n ^ 0x5851_f42d_4c95_7f2d) * u128::from(FACTOR);
        self.0 = (product as u64) ^ ((product >> 64) as u64);
    }
}

impl Hasher for QuickHasher {
    #[inline]
    fn write(&mut self, bytes: &[u8]) {
        let mut eights = bytes.chunks_exact(8);
        for c in &mut eights {
            self.mix(u64::from_le_bytes([c[0], c[1], c[2], c[3], c[4], c[5], c[6], c[7]]));
        }
        let rest = eights.remainder();
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        self.mix(u64::from_le_bytes(last) ^ ((bytes.len() as u64) << 56));
    }

    #[inline]
    fn write_u8(&mut self, n: u8) {
        self.mix(u64::from(n));
    }

    #[inline]
    fn write_u32(&mut self, n: u32) {
        self.mix(u64::from(n));
    }

    #[inline]
    fn write_u64(&mut self, n: u64) {
        self.mix(n);
    }

    #[inline]
    fn write_usize(&mut self, n: usize) {
        self.mix(n as u64);
    }

    #[inline]
    fn finish(&self) -> u64 {
        self.0
    }
}
