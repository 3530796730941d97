//! Lengths and indices as the 32 bits that ids and the file format have for them.

/// A length or index of this crate's tables in 32 bits. The builder refuses tables with more rows than ids
/// ([`crate::id`]) can number, so nothing is cut; what is larger all the same becomes the largest number, which no
/// table has.
#[inline(always)]
pub(crate) fn small(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}
