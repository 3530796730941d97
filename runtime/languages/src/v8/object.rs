//! Words of V8's heap: small integers, references, and what type the object is that one leads to.

use super::layout::Layout;
use crate::ThreadMemory;

/// The address of an object from a reference to it. `None`: the word is a small integer, or no address.
#[inline]
pub(super) fn object(word: u64) -> Option<u64> {
    let at = word.wrapping_sub(1);
    (word & 3 == 1 && at & 7 == 0 && at >= 4096 && at >> 47 == 0).then_some(at)
}

/// A small integer; `None`: the word is a reference.
#[inline]
pub(super) fn small(word: u64) -> Option<u32> {
    if word & 0xffff_ffff == 0 { u32::try_from(word >> 32).ok() } else { None }
}

/// The object that a reference leads to, and its type. An object that was moved by the collector, which is not done
/// yet, is found at its new place.
#[inline]
pub(super) fn typed<M: ThreadMemory>(memory: &M, layout: &Layout, word: u64) -> Option<(u64, u16)> {
    let mut at = object(word)?;
    let mut map = memory.read_word(at)?;
    if map & 1 == 0 {
        at = object(map.wrapping_add(1))?;
        map = memory.read_word(at)?;
    }
    let kind = memory.quarter(object(map)? + layout.map_type)?;
    Some((at, kind))
}
