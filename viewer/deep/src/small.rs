//! Lengths and indices in 32 bits, as ids and the file format have them.

/// A length or index of this crate's tables in 32 bits. The builder refuses tables with more rows than ids
/// ([`crate::id`]) can number, so nothing is cut. A larger value would become the largest number, which no table has.
#[inline(always)]
pub(crate) fn small(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}
